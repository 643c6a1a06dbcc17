"""The explorer's page in a headless Chromium: kinds of results, numbers shown, clicks, keys and links."""

from __future__ import annotations

import csv
import functools
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jaxgadget as jg
from jaxgadget.explorer.document import RowLink
from jaxgadget.explorer.page import Page, report
from jaxgadget.holdem.solution import SpotSolutions
from tests.explorer.browser import CHROMIUM, DRIVER, Browser
from tests.trees import tree_of

TSC = pathlib.Path(sys.prefix) / "tsc" / "node_modules" / "typescript" / "lib" / "tsc.js"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs Debian's packages chromium and chromium-driver"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.driver.quit()


@functools.cache
def spots() -> SpotSolutions:
    """Two small rivers."""
    ranges = {"oop": "AA,KQs,76s:0.5", "ip": "KK,QJs,A5s", "pot": 100, "stack": 100}
    menus = jg.BetMenu(bets=(0.5,), raises=())
    return jg.solve_spots(
        [jg.Spot(board=board, menus=menus, **ranges) for board in ("Td9d6hQc2s", "2c3c4d9hTh")], iterations=50
    )


def turn() -> jg.SpotSolution:
    menus = jg.BetMenu(bets=(1.0,), raises=(), cap=1)
    spot = jg.Spot(board="Td9d6hQc", oop="AA,KQs", ip="KK,QJs", pot=100, stack=100, menus=menus)
    return jg.solve_spots([spot], iterations=10)[0]


def off_tree() -> Any:
    rules = jg.load("no_limit_leduc(bets=1/2-1-a,max_raises=1,num_ranks=2,stack=5,suit_isomorphism=True)")
    game = jg.MenuAbstraction(rules, {0: ["Fold", "Call"], 1: ["Fold", "Call"]})
    tree = jg.enumerate_game(game)
    return jg.translate_off_tree(tree, jg.Policy.uniform(tree))


RESULTS: dict[str, Callable[[], Any]] = {
    "solve": lambda: jg.solve(tree_of("kuhn_poker"), iterations=10),
    "policies": lambda: jg.Policy.stack(
        [jg.Policy.uniform(tree_of("kuhn_poker")), jg.Policy.dirichlet(tree_of("kuhn_poker"), 1)]
    ),
    "refine": lambda: jg.refine(tree_of("kuhn_poker"), "depth:1", "uniform", jg.Resolving(), iterations=20),
    "refine both": lambda: jg.refine_both(
        tree_of("kuhn_poker"), "depth:1", "uniform", jg.Resolving(), iterations=20
    ),
    "refine by hands": lambda: jg.refine(
        jg.public_tree(jg.load("kuhn_poker")), "depth:1", "uniform", jg.Resolving(), iterations=20
    ),
    "nested": lambda: jg.nested_search(
        tree_of("kuhn_poker"), jg.Policy.uniform(tree_of("kuhn_poker")), jg.Resolving(), iterations=20
    ),
    "off-tree": off_tree,
    "respond": lambda: jg.respond(tree_of("kuhn_poker"), jg.Opponent("uniform", [0.5, 1.0]), iterations=20),
    "best response": lambda: jg.best_response("uniform", 0, tree=tree_of("kuhn_poker")),
    "simultaneous moves": lambda: jg.Policy.dirichlet(tree_of("goofspiel(num_cards=3,imp_info=True)"), 1),
    "rivers": spots,
    "river refined": lambda: jg.refine_spots([spots()[0].spot], blueprints=[spots()[0]], iterations=20),
    "turn": turn,
}


@pytest.mark.parametrize("kind", RESULTS)
def test_every_kind_of_result_opens(browser: Browser, kind: str) -> None:
    page = jg.explore(RESULTS[kind]())
    browser.open(page)
    views = page.document.header["views"]
    for view in range(len(views)):
        if len(views) > 1:
            browser.run(SELECT, "view", view)
            browser.settle()
        for tab in browser.run("return [...document.querySelectorAll('[data-tab]')].map(e => e.dataset.tab)"):
            browser.click(f"[data-tab='{tab}']")
        for layer in browser.run(
            "return [...document.querySelectorAll('[data-layer]')].map(e => e.dataset.layer)"
        ):
            browser.click(f"[data-layer='{layer}']")
        while browser.run("return document.querySelectorAll('.block.here [data-child]').length"):
            browser.click(".block.here [data-child]:last-child")
        browser.key("c")  # compares, if there is something to compare
        browser.key("Home")
        assert browser.node() == 0
    assert browser.log() == []


SELECT = """
const found = document.getElementById(arguments[0]);
found.value = arguments[1];
found.dispatchEvent(new Event('change'));
"""


def walk(browser: Browser) -> list[int]:
    """The nodes shown while clicking through the whole tree, and back by the crumbs."""
    visited = [browser.node()]
    children = browser.run(
        "return [...document.querySelectorAll('.block.here [data-child]')].map(e => e.dataset.child)"
    )
    for child in children:
        node = browser.node()
        browser.click(f".block.here [data-child='{child}']")
        visited += walk(browser)
        browser.click(f".crumb[data-node='{node}']")
    return visited


@pytest.mark.parametrize("kind", ["solve", "rivers"])
def test_clicks_visit_every_node_once(browser: Browser, kind: str) -> None:
    result = RESULTS[kind]()
    page = jg.explore(result if kind == "solve" else result[0])
    browser.open(page)
    count = len(page.document.header["views"][0]["tree"]["parent"])
    assert sorted(walk(browser)) == list(range(count))
    assert browser.log() == []


def shares(texts: list[str]) -> list[float]:
    return [float(re.sub(r"[ %<]", "", text)) / 100 for text in texts]


def test_numbers_shown_are_the_policys(browser: Browser) -> None:
    tree = tree_of("kuhn_poker")
    policy = jg.Policy.dirichlet(tree, 1)
    browser.open(jg.explore(policy))
    seen = 0
    for line, prefix, player in (("", "", 0), ("Pass", "p", 1), ("Bet", "b", 1), ("Pass,+Bet", "pb", 0)):
        browser.run("location.hash = arguments[0]", f"line={line}")
        browser.settle()
        for card in range(3):
            expected = policy.action_probabilities(f"{card}{prefix}", player=player)
            shown = shares(browser.texts(f"tr[data-state='{card}'] [data-action]"))
            assert shown == pytest.approx([expected[0], expected[1]], abs=5.1e-4)
            browser.click(f"tr[data-state='{card}']")
            assert f"{card}{prefix}" in browser.text("#right")
            seen += 1
    assert seen == sum(map(len, tree.infosets))


def test_numbers_of_a_river_are_the_solutions(browser: Browser) -> None:
    solution = spots()[0]
    browser.open(jg.explore(solution), "line=check")
    frame = solution.to_frame("check").set_index("hand")
    actions = list(solution.strategy("check"))
    names = [text.rsplit(" ", 2)[0] for text in browser.texts(".legend button")]
    assert names == actions
    frequency = shares([text.rsplit(" ", 2)[1] for text in browser.texts(".legend button")])
    assert frequency == pytest.approx(list(solution.frequencies("check").values()), abs=6e-4)
    seen = set[str]()
    for cell in ("KK", "QJs", "A5s"):
        browser.click(f"[data-cell='{cell}']")
        for hand in browser.run(
            "return [...document.querySelectorAll('[data-hand]')].map(e => e.dataset.hand)"
        ):
            shown = shares(browser.texts(f"[data-hand='{hand}'] [data-action]"))
            assert shown == pytest.approx([frame.loc[hand, action] for action in actions], abs=6e-4)
            seen.add(hand)
    assert seen == set(frame.index)
    browser.click("[data-player='0']")
    reach = solution.played("check")[0]
    held = reach > 5e-4 * reach.max()  # the page stores thousandths
    cells = {frozenset((name[0], name[2])) for name in np.array(solution.spot.hand_names)[held].tolist()}
    assert browser.run("return document.querySelectorAll('.cell:not(.out)').length") == len(cells)


def test_compare_lists_the_largest_changes_first(browser: Browser) -> None:
    tree = tree_of("kuhn_poker")
    first = jg.Policy.uniform(tree)
    rows = first.probabilities[1].copy()
    infoset = tree.find_infoset("2b", 1)[1]
    start = int(tree.infosets[1].first_sequence[infoset]) - 1
    rows[start : start + 2, 0] = 0.1, 0.9
    other = tree.find_infoset("1p", 1)[1]
    start = int(tree.infosets[1].first_sequence[other]) - 1
    rows[start : start + 2, 0] = 0.3, 0.7
    browser.open(jg.explore(jg.Policy.stack([first, first.with_player(1, rows)])))
    browser.key("c")
    browser.wait(lambda: browser.texts(".changes tr.go"))
    found = browser.texts(".changes tr.go")
    assert len(found) == 2
    assert found[0].startswith("2") and "Bet" in found[0] and "40.0 %" in found[0]
    assert found[1].startswith("1") and "Pass" in found[1] and "20.0 %" in found[1]
    browser.click(".changes tr.go")
    assert (
        browser.text(".crumb.here") == "Bet"
        and browser.run("return document.querySelector('tr.selected').dataset.state") == "2"
    )
    assert "40.0 %" in browser.text("tr.selected")


def test_the_subgame_that_gained_most_comes_first(browser: Browser) -> None:
    refinement = jg.refine(
        tree_of("kuhn_poker"),
        "depth:1",
        jg.Policy.dirichlet(tree_of("kuhn_poker"), 1),
        jg.Resolving(),
        player=1,
        iterations=50,
    )
    page = jg.explore(refinement)
    browser.open(page)
    browser.click("[data-tab=subgames]")
    browser.wait(lambda: browser.texts("[data-subgame]"))
    (refined,) = page.document.header["views"][0]["refined"]
    record = page.document.chunk(refined["chunks"]["1"])
    rows = record["subgames"]
    best = max(rows, key=lambda row: row["gain"])["subgame"]
    assert browser.run("return document.querySelector('[data-subgame]').dataset.subgame") == str(best)
    browser.click("[data-subgame]")
    assert browser.text(".crumb.here") == ("Pass", "Bet")[best]
    entered = [root["entered"] for root in record["roots"][best]]
    assert shares(browser.texts("[data-root=entered]")) == pytest.approx(entered, abs=5.1e-4)
    promised = [float(text.replace("−", "-")) for text in browser.texts("[data-root=promised]")]
    assert promised == pytest.approx([root["promised"] for root in record["roots"][best]], rel=5.1e-3)
    assert browser.run("return document.querySelector('#other').value") == "1"


def test_keys_links_and_search(browser: Browser) -> None:
    browser.open(jg.explore(RESULTS["policies"]()))
    browser.key("ArrowRight")
    assert browser.text(".crumb.here") == "Pass"
    browser.key("ArrowDown")
    browser.key("ArrowDown")
    browser.key("Enter")
    assert browser.text("nav").split("\n")[-1] == "Bet"
    assert "line=Pass,+Bet" in browser.run("return location.hash")
    browser.key("ArrowLeft")
    browser.key("v")
    assert browser.text(".segments [data-layer].on") == "EV"
    browser.key("p")
    assert browser.text(".segments [data-player].on") == "player 0"
    browser.key("Home")
    browser.key("2")
    assert browser.text(".crumb.here") == "Bet"
    browser.run("history.back()")
    browser.settle()
    assert browser.node() == 0
    browser.open(jg.explore(RESULTS["policies"]()), "line=Pass,+Bet&policy=1&layer=reach&select=2")
    assert (
        browser.text(".crumb.here") == "Bet"
        and browser.run("return document.querySelector('#lane').value") == "1"
    )
    assert browser.run("return document.querySelector('tr.selected').dataset.state") == "2"
    browser.type("search", "1pb")
    browser.wait(lambda: browser.texts("#found button"))
    browser.click("#found button")
    assert browser.text(".crumb.here") == "Bet" and "1pb" in browser.text("#right")
    browser.key("?")
    assert browser.run("return document.getElementById('keys').open")
    browser.open(jg.explore(RESULTS["policies"]()), "line=nowhere&policy=99&select=<b>")
    assert browser.node() == 0 and browser.log() == []


def test_the_report_of_a_sweep_is_sorted_filtered_and_clicked(browser: Browser) -> None:
    rows = pd.DataFrame(
        {
            "game": "kuhn_poker",
            "cut": "depth:1",
            "player": [0, 1, 0, 1],
            "blueprint": ["cfr:1", "cfr:1", "uniform", "<b>"],
            "gadget": ["resolving", "max-margin", "resolving", "max-margin"],
            "prior": "none",
            "blueprint_exploitability": [0.4, 0.3, 0.2, 0.1],
            "refined_exploitability": [0.01, 0.04, 0.02, 0.0],
        }
    )
    page = report(rows, title="Four rows")
    browser.open(page)
    order = "return [...document.querySelectorAll('[data-row]')].map(e => Number(e.dataset.row))"
    assert browser.run(order) == [0, 1, 2, 3]
    browser.click("[data-sort='refined_exploitability']")
    assert browser.run(order) == [3, 0, 2, 1]
    browser.click("[data-sort='refined_exploitability']")
    assert browser.run(order) == [1, 2, 0, 3]
    browser.type("filter", "cfr:1")
    assert browser.run(order) == [1, 0]
    assert browser.run("return document.querySelectorAll('[data-point]').length") == 2
    browser.run("document.querySelector('[data-point=\"1\"]').dispatchEvent(new Event('mouseenter'))")
    assert "max-margin" in browser.text(".hover") and "0.3" in browser.text(".hover")
    browser.run("document.querySelector('[data-point=\"1\"]').dispatchEvent(new Event('click'))")
    command = browser.text(".command")
    assert command.startswith("jaxgadget refine kuhn_poker --cut depth:1 --player 1 --blueprint cfr:1")
    assert browser.log() == []


def test_a_click_on_a_row_leads_to_its_subgames(browser: Browser, tmp_path: pathlib.Path) -> None:
    grid = jg.SweepGrid(
        games="kuhn_poker",
        cuts="depth:1",
        blueprints=["cfr:1", "cfr:3"],
        gadgets=["unsafe", "resolving"],
        priors=["none", "uniform"],
        iterations=10,
    )
    rows = jg.sweep(tmp_path / "sweep", grid)
    written = jg.explore_sweep(tmp_path / "sweep", tmp_path / "pages")
    index = written.parent.rename(tmp_path / "moved") / written.name
    for number in (0, 4, len(rows) - 1):
        row = rows.iloc[number]
        browser.open(index)
        if number == 4:
            browser.run("document.querySelector('[data-point=\"4\"]').dispatchEvent(new Event('click'))")
        else:
            browser.click(f"[data-row='{number}']")
        browser.click(f"[data-link='{number}']")
        browser.wait(lambda: browser.texts("[data-subgame]"))
        assert browser.text(".tabs .on") == "Subgames" and f"player {row['player']}" in browser.text("#bar")
        shown = browser.run(
            "return [...document.querySelectorAll('#bar select')].map(e => e.selectedOptions[0].text)"
        )
        assert shown[0] == f"blueprint: {row['blueprint']}"
        assert shown[1].startswith(f"refined: {row['blueprint']} | {row['gadget']}")
        browser.click("[data-subgame='1']")
        link = browser.run("return location.hash")
        assert "tab=subgames" in link and "subgame=1" in link and "line=Bet" in link
        browser.run("location.reload()")
        browser.wait(lambda: browser.texts("[data-subgame='1'] .root"))
        browser.click("[data-tab=results]")
        assert f"{row['refined_exploitability']:.4g}" in browser.texts("tr.selected td")
    assert browser.log() == []


def test_links_of_a_report_lead_to_pages_beside_it_alone(browser: Browser) -> None:
    rows = pd.DataFrame({"game": "kuhn_poker", "gadget": "resolving", "player": range(4)})
    names = ["javascript:alert(1)", "../other.html", "https://example.org/page.html", "a b.html"]
    with pytest.raises(ValueError, match="expected the name of a page"):
        report(rows, links=[RowLink(names[0], 1, 0)] * 4)
    document = report(rows, links=[RowLink(f"page{number}.html", 1, 0) for number in range(4)]).document
    document.header["sweep"]["pages"][:] = names
    browser.open(Page(document))
    for number in range(4):
        browser.click(f"[data-row='{number}']")
        assert browser.text(".command") and not browser.texts(".report a")
    assert browser.log() == []


def test_the_hands_that_bluff(browser: Browser) -> None:
    solution = spots()[0]
    browser.open(jg.explore(solution), "line=check")
    browser.click("[data-legend='1']")
    browser.click("[data-takers=equity]")
    action = list(solution.strategy("check"))[1]
    frame = solution.to_frame("check").set_index("hand")
    share = frame["weight"] * frame[action] / (frame["weight"] @ frame[action])
    takers = browser.run("return [...document.querySelectorAll('[data-taker]')].map(e => e.dataset.taker)")
    assert set(takers) >= set(share[share > 2e-3].index)
    shown = shares(browser.texts("[data-taker] td:nth-child(2)"))
    assert shown == pytest.approx([share[hand] for hand in takers], abs=2e-3)
    equity = shares(browser.texts("[data-taker] td:nth-child(4)"))
    assert equity == sorted(equity) and equity[0] < 0.5 < equity[-1]


def test_exports(browser: Browser) -> None:
    browser.open(jg.explore(RESULTS["policies"]()), "line=Pass")
    allowed = {"behavior": "allow", "downloadPath": str(browser.downloads)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    browser.click("#csv")
    browser.click("#png")
    files = browser.wait(
        lambda: (
            found
            if len(found := [f for f in browser.downloads.iterdir() if f.suffix in (".csv", ".png")]) == 2
            else []
        )
    )
    table = next(file for file in files if file.suffix == ".csv")
    rows = list(csv.DictReader(table.read_text("utf-8").splitlines()))
    assert {row["private_state"] for row in rows} == {"0", "1", "2"}
    bets = [row for row in rows if row["infostate"] == "1p" and row["action"] == "Bet"]
    assert [float(row["probability"]) for row in bets] == [0.5]
    assert next(file for file in files if file.suffix == ".png").read_bytes().startswith(b"\x89PNG")


def test_strings_of_files_are_shown_and_never_run(browser: Browser) -> None:
    attack = "</script><img src=x onerror='document.title=\"run\"'><b>bold</b>"
    uniform = jg.Policy.uniform(tree_of("kuhn_poker"))
    policy = jg.Policy(uniform.tree, uniform.probabilities, (attack,))
    browser.open(jg.explore(policy, title=attack))
    assert attack in browser.text("#bar") and browser.run("return document.title") == attack
    assert browser.run("return document.querySelectorAll('#app img, #app b').length") == 0
    blocked = browser.run(
        "return fetch('http://127.0.0.1:9/').then(() => 'sent', error => String(error))"
        ".then(text => text + (window.blocked ?? ''))"
    )
    assert "Failed to fetch" in blocked
    assert any("Content Security Policy" in message for message in browser.log())


def test_a_notebook_shows_the_page_in_a_frame(browser: Browser) -> None:
    page = jg.explore(RESULTS["solve"]())
    path = browser.folder / "cell.html"
    path.write_text(f"<!doctype html><title>cell</title>{page._repr_html_()}", encoding="utf-8")
    browser.driver.get(f"file://{path}")
    inner = "return document.querySelector('iframe').contentDocument"
    browser.wait(lambda: browser.run(f"{inner}?.documentElement.dataset.ready"))
    browser.run(f"{inner}.querySelector('.block.here [data-child]').click()".removeprefix("return "))
    browser.wait(lambda: browser.run(f"{inner}.querySelector('.crumb.here').innerText") == "Pass")
    assert browser.log() == []


@pytest.mark.skipif(
    not TSC.exists(), reason="needs TypeScript in the environment, by `make test-slow` with npm"
)
def test_types_of_the_pages_program() -> None:
    folder = pathlib.Path(jg.__file__).parent / "explorer" / "page_files"
    done = subprocess.run(["node", str(TSC), "-p", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
