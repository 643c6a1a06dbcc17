"""`jaxgadget holdem`."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import pathlib
import weakref
from typing import Any

import pandas as pd
import pytest

from jaxgadget import Unsafe
from jaxgadget.games.sizes import ALL_IN
from jaxgadget.holdem import solve
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.boards import aggregate_spots
from jaxgadget.holdem.locks import Lock
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.solution import SpotSolutions
from jaxgadget.holdem.solve import evaluate_spot, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.translate import translate_solution
from jaxgadget.subgames.spots import refine_spots
from tests.cli import commands
from tests.solving import settings

run = functools.partial(commands.run, "holdem")

# `jaxgadget.cli.holdem` as an attribute is the command.
holdem: Any = importlib.import_module("jaxgadget.cli.holdem")

BLUFFS = ("--board", "2s3h4d6c7c", "--oop", "AsAh,QsQh", "--ip", "KsKh", "--pot", 20, "--stack", 10)
MENUS = ("--bets", "a", "--ip-bets", "", "--raises", "")
ROW: dict[str, Any] = {"board": "2s3h4d6c7c", "oop": "AsAh,QsQh", "ip": "KsKh", "pot": 20, "stack": 10}


# Ten cards may be dealt.
FLOP: dict[str, Any] = {
    "board": "2s3h4d",
    "oop": "AsAh,QsQh",
    "ip": "KsKh",
    "pot": 20,
    "stack": 40,
    "dead": "".join(
        rank + suit
        for rank in "23456789TJQKA"
        for suit in "cdhs"
        if rank + suit not in "2s 3h 4d 6d 7c 8s 9h Qh Qs Kh Ks Ah As".split()
    ),
}
FLOP_OPTIONS = tuple(word for name, value in FLOP.items() for word in (f"--{name}", value))
FLOP_MENUS = ("--bets", "50%", "--ip-bets", "", "--raises", "", "--turn-bets", "a", "--ip-turn-bets", "")
HALF, NEVER = BetMenu(bets=(0.5,), raises=()), BetMenu(bets=(), raises=())
SHOVE = BetMenu(bets=(ALL_IN,), raises=())


@pytest.mark.slow
def test_a_row_is_the_library_s_and_a_picture_is_drawn(tmp_path: pathlib.Path):
    picture = tmp_path / "grid.png"
    result = run(*BLUFFS, *MENUS, "--iterations", 50, "--json", "-", "--plot", picture, "--line", "all-in 10")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {"rows", "seconds", "node"}
    menus = (BetMenu(bets=(ALL_IN,), raises=()), BetMenu(bets=(), raises=()))
    (solution,) = solve_spots([Spot(**ROW, menus=menus)], iterations=50)
    (row,) = found["rows"]
    assert set(row) == {
        "spot",
        "label",
        "unlocked_gap",
        "unlocked_gains",
        "locks",
        "board",
        "ev",
        "exploitability",
        "gap",
        "iterations",
        "hands",
        "root",
    }
    assert row["spot"] == solution.spot.name
    assert row["ev"] == pytest.approx(solution.ev)
    assert row["exploitability"] == pytest.approx(solution.exploitability)
    assert row["root"] == pytest.approx(solution.frequencies())
    node, expected = found["node"], solution.to_record("all-in 10")
    assert {name: node[name] for name in ("line", "actor", "pot")} == {
        "line": "all-in 10",
        "actor": 1,
        "pot": 30,
    }
    assert [row["hand"] for row in node["hands"][1]] == [row["hand"] for row in expected["hands"][1]]
    assert node["hands"][1][0]["action_ev"] == pytest.approx(expected["hands"][1][0]["action_ev"])
    assert picture.stat().st_size > 1000


def test_a_saved_solution_is_opened_and_solved_further(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """Opening solves nothing; with iterations it continues to the result of a single solve."""
    begun, ended, page = tmp_path / "begun.npz", tmp_path / "ended.npz", tmp_path / "page.html"
    result = run(*BLUFFS, *MENUS, "--label", "bluffs", "--iterations", 10, "--save", begun)
    assert result.exit_code == 0, result.stderr
    assert f"Wrote the strategies to {begun}" in result.stdout and "bluffs" in result.stdout
    straight = json.loads(run(*BLUFFS, *MENUS, "--iterations", 25, "--json", "-").stdout)
    further = run("--open", begun, "--iterations", 25, "--save", ended, "--json", "-")
    assert json.loads(further.stdout)["rows"] == [straight["rows"][0] | {"label": "bluffs"}]
    with monkeypatch.context() as patch:
        patch.delattr("jaxgadget.core.driver.run")
        shown = run("--open", ended, "--json", "-", "--line", "check", "--explore", page)
        assert json.loads(shown.stdout)["rows"] == json.loads(further.stdout)["rows"]
        assert json.loads(shown.stdout)["node"]["actor"] == 1
        assert run("--open", ended, "--tree").stdout.startswith("oop check\n")
    assert page.stat().st_size > 1000
    both = commands.run("explore", begun, ended, "--out", page)
    assert both.exit_code == 0, both.stderr


def test_strategies_are_locked(tmp_path: pathlib.Path):
    """The table shows both exploitabilities; rows of other locks are not reused."""
    locks, spots, results = (tmp_path / name for name in ("locks.json", "spots.jsonl", "rows.jsonl"))
    locks.write_text(json.dumps([{"line": "all-in 10", "strategy": {"call": 1}}]))
    result = run(*BLUFFS, *MENUS, "--lock", locks, "--iterations", 200)
    assert result.exit_code == 0, result.stderr
    assert "unlocked" in result.stdout and "leave their locks" in " ".join(result.stdout.split())
    menus = (BetMenu(bets=(ALL_IN,), raises=()), BetMenu(bets=(), raises=()))
    always = Lock(line="all-in 10", strategy={"call": 1})
    (solution,) = solve_spots([Spot(**ROW, menus=menus)], locks=[always], iterations=200)
    assert f"{solution.unlocked_exploitability:.3g}" in result.stdout
    assert solution.ev[0] == pytest.approx(15, abs=0.01)  # aces win 30 half of the time, queens never bluff
    spots.write_text(json.dumps(ROW) + "\n")
    asked = ("--spots", spots, *MENUS, "--results", results, "--iterations", 5)
    for count, more in ((1, ()), (2, ("--lock", locks)), (2, ("--lock", locks))):
        assert run(*asked, *more).exit_code == 0
        assert len(results.read_text().splitlines()) == count


def test_many_boards_are_reported_by_class(tmp_path: pathlib.Path):
    """Of spots that are solved, and of a file of solutions; as table, JSON, CSV and picture."""
    spots, saved, rows, picture = (tmp_path / name for name in ("s.jsonl", "s.npz", "r.csv", "p.png"))
    boards = [ROW, ROW | {"board": "2s2h4d6c7c"}]
    spots.write_text("".join(json.dumps(row) + "\n" for row in boards))
    asked = ("--report", "--by", "pairs", "--line", "check", "--csv", rows, "--plot", picture)
    result = run("--spots", spots, *MENUS, "--iterations", 3, "--save", saved, *asked)
    assert result.exit_code == 0, result.stderr
    assert "ip after check, by board: means over boards" in " ".join(result.stdout.split())
    assert picture.stat().st_size > 1000
    report = aggregate_spots(SpotSolutions.load(saved), "check", ["pairs"])
    assert rows.read_text() == report.to_csv(index=False, lineterminator="\n")
    assert report["class"].tolist() == ["all", "unpaired", "paired", *(row["board"] for row in boards)]
    found = json.loads(run("--open", saved, *asked[:5], "--json", "-").stdout)["report"]
    assert [row["ev_ip"] for row in found] == pytest.approx(report["ev_ip"].tolist())


def test_streets_have_menus_of_their_own():
    turn = (*BLUFFS[2:], "--board", "2s3h4d6c", "--bets", "a", "--raises", "", "--ip-river-bets", "")
    result = run(*turn, "--river-bets", "50%", "--tree")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "oop check",
        "  ip check",
        "    2c, or another of 48 cards",
        "      oop check",
    ]
    assert "      oop bet 10" not in lines
    assert "      oop all-in 10" in lines
    assert "  ip all-in 10" in lines


@pytest.mark.slow
def test_a_flop_has_menus_on_three_streets(tmp_path: pathlib.Path):
    """The river has the turn's menus unless it has its own; a row of a file has the same fields."""
    flop = (*FLOP_OPTIONS[:-2], *FLOP_MENUS)
    result = run(*flop, "--tree")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:6] == [
        "oop check",
        "  ip check",
        "    any of 49 cards",
        "      oop check",
        "        ip check",
        "          any of 48 cards",
    ]
    all_in = "any of 48 cards: showdown, 40 more each"
    assert lines.count(f"          {all_in}") == 2 and lines.count("            oop all-in 40") == 1
    spot = Spot(**FLOP, menus=(HALF, NEVER), turn_menus=(SHOVE, NEVER), river_menus=(SHOVE, HALF))
    river = ("--ip-river-bets", "50%")
    assert run(*FLOP_OPTIONS, *FLOP_MENUS, *river, "--tree").stdout == f"{spot.betting}\n"
    assert "any of 10 cards" in str(spot.betting) and "any of 9 cards" in str(spot.betting)
    spots = tmp_path / "spots.jsonl"
    row = FLOP | {"bets": "50%", "ip_bets": "", "raises": "", "turn_bets": "a", "ip_turn_bets": ""}
    spots.write_text(json.dumps(row | {"ip_river_bets": "50%"}))
    results = tmp_path / "results.jsonl"
    asked = ("--spots", spots, "--results", results, "--iterations", 1, "--json", "-")
    result = run(*asked)
    assert json.loads(result.stdout)["rows"][0]["spot"] == spot.name
    run(*asked)
    assert len(results.read_text().splitlines()) == 1
    assert run(*asked, "--compressed").exit_code == 0
    assert len(results.read_text().splitlines()) == 2  # rows of 32 bits are not reused


def test_lines_of_a_flop_name_cards(tmp_path: pathlib.Path):
    """Tables, the record and the page are those of the turn's solution, the picture names the flop."""
    page, file, picture = tmp_path / "page.html", tmp_path / "node.json", tmp_path / "grid.svg"
    asked = (*FLOP_OPTIONS, *FLOP_MENUS, "--iterations", 20, "--hands", 2, "--frequencies")
    files = ("--json", file, "--explore", page, "--plot", picture)
    result = run(*asked, *files, "--line", "check,check, 6d")
    assert result.exit_code == 0, result.stderr
    spot = Spot(**FLOP, menus=(HALF, NEVER), turn_menus=(SHOVE, NEVER))
    (solution,) = solve_spots([spot], iterations=20)
    turn = solution.after("check, check, 6d")
    text = result.stdout
    for action, share in turn.frequencies().items():
        assert f"oop {action} {share:.3f}" in " ".join(text.split())
    assert text.count("9 cards may follow") == 2 and "10 cards" not in text
    node = json.loads(file.read_text())["node"]
    assert (node["line"], node["actor"], node["pot"]) == ("check, check, 6d", 0, 20)
    assert node["ev"] == pytest.approx(turn.ev)
    assert [row["hand"] for row in node["hands"][0]] == turn.to_frame()["hand"].tolist()
    assert node["reached"] == pytest.approx(solution.pairs("check, check") / solution.pairs())
    assert "<title>2s3h4d6d" in page.read_text("utf-8")
    assert picture.stat().st_size > 1000
    result = run(*asked, "--explore", page)
    assert result.stdout.count("10 cards may follow") == 2
    assert "<title>2s3h4d: dcfr" in page.read_text("utf-8")


def test_flops_are_reported_after_a_card(tmp_path: pathlib.Path):
    """Classes are those of flops; values are shares of the turn's pot."""
    spots, rows = tmp_path / "spots.jsonl", tmp_path / "rows.csv"
    boards = ["2s3h4d", "2s3s4d"]
    dead = FLOP["dead"].replace("3s", "3h")
    flops = [FLOP, FLOP | {"board": boards[1], "dead": dead}]
    spots.write_text("".join(json.dumps(row) + "\n" for row in flops))
    asked = ("--report", "--by", "suits", "--line", "bet 10, call, 6d", "--csv", rows, "--iterations", 20)
    result = run("--spots", spots, *FLOP_MENUS, *asked)
    assert result.exit_code == 0, result.stderr
    given: dict[str, Any] = {"menus": (HALF, NEVER), "turn_menus": (SHOVE, NEVER)}
    solutions = solve_spots([Spot(**flop, **given) for flop in flops], iterations=20)
    turns = [solution.after("bet 10, call, 6d") for solution in solutions]
    report = pd.read_csv(rows)
    assert report["class"].tolist() == ["all", "rainbow", "two-tone", *boards]
    assert [turn.spot.pot for turn in turns] == [40, 40]
    assert report["ev_oop"].tolist()[1:3] == pytest.approx([turn.ev[0] / 40 for turn in turns])
    assert report["all-in"].tolist()[3:] == pytest.approx([turn.frequencies()["all-in 30"] for turn in turns])


def test_runouts_of_flops_are_merged_by_default(monkeypatch: pytest.MonkeyPatch):
    """Without `--suit-isomorphism` too, unlike hands on turns and rivers."""
    merged: list[int] = []

    def stop(spot: Spot, exchanges: Any, **_: Any) -> Any:
        merged.append(len(exchanges))
        raise ValueError("enough")

    monkeypatch.setattr(solve, "lay_out_streets", stop)
    flop = ("--board", "2s3s4s", "--oop", "AA", "--ip", "KK", "--pot", 20, "--stack", 40)
    for more in ((), ("--suit-isomorphism",)):
        assert "enough" in run(*flop, *FLOP_MENUS, *more).stderr
    assert merged == [6, 6]


def test_donk_bets_a_minimum_and_removed_lines():
    turn = (
        *BLUFFS[2:8],
        "--board",
        "2s3h4d6c",
        "--stack",
        100,
        "--bets",
        "5c,e",
        "--raises",
        "2x",
        "--cap",
        2,
    )
    removed = ("--remove", "check, bet 8", "--remove", "bet 8, raise to 16")
    result = run(*turn, "--donks", "", "--min-bet", 8, *removed, "--tree")
    assert result.exit_code == 0, result.stderr
    given: dict[str, Any] = ROW | {"board": "2s3h4d6c", "stack": 100, "min_bet": 8, "remove": removed[1::2]}
    menu = BetMenu(bets="5c,e", raises="2x", cap=2)
    spot = Spot(**given, menus=(dataclasses.replace(menu, donks=()), menu))
    assert result.stdout == f"{spot.betting}\n"
    assert "  ip bet 8" not in result.stdout.splitlines()


def test_two_stacks_dead_cards_and_ranges_from_files(tmp_path: pathlib.Path):
    file, spots = tmp_path / "range.txt", tmp_path / "spots.jsonl"
    file.write_text(" ".join(f"{weight:g}" for weight in HandRange.parse("AsAh,QsQh").weights))
    given = ("--board", "2s3h4d6c7c", "--oop", f"file:{file}", "--ip", "KsKh", "--pot", 20, "--dead", "AdKd")
    result = run(*given, *MENUS, "--stack", "10, 30", "--iterations", 2, "--json", "-")
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)["rows"]
    menus = (BetMenu(bets=(ALL_IN,), raises=()), BetMenu(bets=(), raises=()))
    assert row["spot"] == Spot(**ROW, dead="AdKd", menus=menus).name
    spots.write_text(json.dumps(ROW | {"stack": [10, 30], "dead": "AdKd", "oop": f"file:{file}"}))
    result = run("--spots", spots, *MENUS, "--iterations", 2, "--json", "-")
    assert json.loads(result.stdout)["rows"] == [row]


def test_rake_is_reported_with_both_gains(tmp_path: pathlib.Path):
    spots, page = tmp_path / "spots.jsonl", tmp_path / "page.html"
    given = (*BLUFFS, *MENUS, "--iterations", 20)
    result = run(*given, "--rake", "5%", "--rake-cap", 2, "--json", "-", "--explore", page)
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)["rows"]
    menus = (BetMenu(bets=(ALL_IN,), raises=()), BetMenu(bets=(), raises=()))
    (solution,) = solve_spots([Spot(**ROW, menus=menus, rake=0.05, rake_cap=2)], iterations=20)
    assert "exploitability" not in row and row["gains"] == pytest.approx(solution.gains)
    assert sum(row["ev"]) == pytest.approx(20 - row["rake"]) and 1 < row["rake"] < 2
    assert page.stat().st_size > 1000
    spots.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW | {"rake": "5%", "rake_cap": 2}) + "\n")
    result = run("--spots", spots, *MENUS, "--iterations", 20)
    text = " ".join(result.stdout.split())
    assert "gain oop" in text and "exploitability" in text and "not zero-sum" in text


@pytest.mark.slow
def test_spots_are_re_solved(tmp_path: pathlib.Path):
    """Rows are the blueprint's, refinements are the library's, and a file of results is resumed."""
    spots, results = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl"
    spots.write_text(json.dumps(ROW) + "\n")
    how = ("--bets", "a", "--raises", "", "--gadget", "unsafe", "--iterations", 20)
    how = (*how, "--blueprint-bets", "50%", "--blueprint-iterations", 5)
    asked = ("--spots", spots, "--results", results, *how, "--json", "-")
    result = run(*asked)
    assert result.exit_code == 0, result.stderr
    (row,) = json.loads(result.stdout)["rows"]
    menus = BetMenu(bets=(ALL_IN,), raises=())
    spot = Spot(**ROW, menus=menus)
    coarse = Spot(**ROW, menus=BetMenu(bets=(0.5,), raises=()))
    (blueprint,) = solve_spots([coarse], iterations=5)
    solving: dict[str, Any] = {"iterations": 20, "algorithm": "dcfr"}
    ((refinement,),) = refine_spots([spot], Unsafe(), blueprints=[blueprint], **settings(**solving))
    assert row["ev"] == pytest.approx(evaluate_spot(spot, translate_solution(blueprint, spot)).ev)
    assert row["iterations"] == 5
    (found,) = row["refinements"]
    expected = refinement.to_row()
    assert set(found) == set(expected) - {"board"}
    assert found["gap"] == pytest.approx(expected["gap"])
    assert found["refined_exploitability"] == pytest.approx(expected["refined_exploitability"])
    kept = results.read_text()
    checkpoint = tmp_path / "checkpoint"
    results.unlink()
    assert json.loads(run(*asked, "--checkpoint", checkpoint).stdout)["rows"] == [row]
    assert sorted(path.name.split("-")[0] for path in checkpoint.glob("*.npz")) == ["refined", "spots"]
    results.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr("jaxgadget.core.driver.run")
        assert json.loads(run(*asked, "--checkpoint", checkpoint).stdout)["rows"] == [row]
    again = run(*asked)
    assert json.loads(again.stdout)["rows"] == [row]
    assert results.read_text() == kept


def test_a_changed_row_is_refused_and_named(tmp_path: pathlib.Path):
    """An EV of 999 in a pot of 20 is not printed; rows of earlier releases have no checksum."""
    spots, results = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl"
    spots.write_text(json.dumps(ROW) + "\n")
    asked = ("--spots", spots, *MENUS, "--results", results, "--iterations", 2)
    assert run(*asked).exit_code == 0
    row = json.loads(results.read_text())
    older = {name: value for name, value in row.items() if name in ("key", "board", "ev")}
    for changed, said in ((row | {"ev": [999, 0]}, "checksum"), (older, "jaxgadget 0.4"), ({}, "line 1")):
        results.write_text(json.dumps(changed) + "\n")
        result = run(*asked)
        assert result.exit_code == 2
        assert said in " ".join(result.stderr.split()) and str(results) in result.stderr


def test_solved_spots_are_not_solved_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    spots, results = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl"
    asked = ("--spots", spots, "--results", results, *MENUS, "--iterations", 20)
    spots.write_text(json.dumps(ROW) + "\n\n")
    assert run(*asked).exit_code == 0
    first = results.read_text()
    spots.write_text(json.dumps(ROW | {"pot": 40, "cap": 1}) + "\n" + json.dumps(ROW) + "\n")
    numbers: list[int] = []
    built = solve.build_batch

    def count(batch: Any, *rest: Any) -> Any:
        numbers.append(len(batch))
        return built(batch, *rest)

    monkeypatch.setattr(solve, "build_batch", count)
    result = run(*asked, "--json", "-")
    assert result.exit_code == 0, result.stderr
    assert numbers == [1]
    assert results.read_text().startswith(first)
    rows = json.loads(result.stdout)["rows"]
    assert [sum(row["ev"]) for row in rows] == pytest.approx([40, 20])
    results.write_text(results.read_text() + "\n")  # a blank line at the end of a file is skipped
    assert run(*asked).exit_code == 0
    assert numbers == [1]


@pytest.mark.slow
def test_an_interrupt_reports_saved_work(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """The same command resumes; the message names no file before anything is stored."""
    spots, results, folder = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl", tmp_path / "kept"
    other = ROW | {"ip_bets": "a"}  # another tree, hence another batch
    spots.write_text(json.dumps(ROW) + "\n" + json.dumps(other) + "\n")
    asked = ("--spots", spots, *MENUS, "--iterations", 2)
    solving, begun = solve._solve_alike, list[int]()  # pyright: ignore[reportPrivateUsage]

    def press(at: int) -> None:
        def cut_off(*given: Any, **options: Any) -> Any:
            begun.append(1)
            if len(begun) == at:
                raise KeyboardInterrupt
            return solving(*given, **options)

        begun.clear()
        monkeypatch.setattr(solve, "_solve_alike", cut_off)

    press(1)
    result = run(*asked, "--results", results, "--checkpoint", folder)
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")
    press(2)
    result = run(*asked, "--results", results, "--checkpoint", folder)
    kept = f"{str(results)!r} keeps 1 row, {str(folder)!r} keeps 1 solved spot"
    assert result.exit_code == 130
    assert result.stderr == f"Interrupted. {kept}; repeat the same command to resume.\n"
    press(2)
    assert run(*asked, "--results", results).exit_code == 0
    assert len(begun) == 1 and len(results.read_text().splitlines()) == 2


@pytest.mark.slow
def test_no_solution_outlives_its_row(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Solutions (100 MB for a turn) are freed with their row, or with gadgets at the end of their slice."""
    spots, results = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl"
    several = [ROW | {"stack": 40, "bets": bets} for bets in ("a", "a,50%", "a,50%,25%")]  # one batch each
    spots.write_text("".join(json.dumps(row) + "\n" for row in several))
    monkeypatch.setattr(holdem, "SLICE_SPOTS", 1)
    solving, made = solve._solve_alike, list[weakref.ref[Any]]()  # pyright: ignore[reportPrivateUsage]
    begun: list[int] = []

    def cut_off(*given: Any, **options: Any) -> Any:
        begun.append(sum(1 for solution in made if solution() is not None))
        if len(begun) == 3:
            raise KeyboardInterrupt
        solutions = solving(*given, **options)
        made.extend(map(weakref.ref, solutions))
        return solutions

    monkeypatch.setattr(solve, "_solve_alike", cut_off)
    asked = ("--spots", spots, *MENUS, "--results", results, "--iterations", 2, "--gadget", "unsafe")
    result = run(*asked)
    assert result.exit_code == 130
    assert (
        result.stderr == f"Interrupted. {str(results)!r} keeps 2 rows; repeat the same command to resume.\n"
    )
    assert begun == [0, 0, 0]
    rows = results.read_text()
    assert run(*asked).exit_code == 0
    assert len(begun) == 4
    assert results.read_text().startswith(rows) and results.read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "board is missing"),
        (("--board", "2s2s3h4d5c", *BLUFFS[2:]), "duplicate card 2s"),
        ((*BLUFFS, "--ip-raises", "-1%"), "ip_raises='-1%'"),
        ((*BLUFFS, "--raises", "33"), "raises='33': '33' needs a percent sign: 33% or 3300%"),
        ((*BLUFFS[:8], "--stack", "10,x"), "stack='10,x': expected a finite number of chips > 0"),
        ((*BLUFFS[:2], *BLUFFS[4:], "--oop", "file:missing"), "oop in 'missing'"),
        ((*BLUFFS, "--rake", "x"), "rake='x': expected a share of the pot from 0 to 1"),
        ((*BLUFFS, *MENUS, "--rake", "5%", "--gadget", "resolving"), "gadgets require a zero-sum game"),
        ((*BLUFFS, "--dead", "2s"), "dead='2s': 2s is on the board"),
        ((*BLUFFS, "--donks", "a"), "donks on the river '2s3h4d6c7c'"),
        ((*BLUFFS, "--remove", "bet 3"), "remove='bet 3': at the start 'bet 3' is not in the tree"),
        ((*BLUFFS, "--results", "rows.jsonl"), "--results has no effect without --spots"),
        (
            (*BLUFFS, "--line", "check"),
            "--line has no effect without --plot, --hands, --frequencies, --cards or --json",
        ),
        (
            (*BLUFFS, *MENUS, "--gadget", "resolving", "--suit-isomorphism"),
            "--suit-isomorphism has no effect",
        ),
        *(
            ((*BLUFFS, *MENUS, "--tree", *given), f"{given[0]} has no effect with --tree")
            for given in (
                *(("--json", "x.json"), ("--plot", "x.png"), ("--hands", 3), ("--frequencies",)),
                *(("--gadget", "resolving"), ("--checkpoint", "kept"), ("--algorithm", "cfr")),
                *(("--iterations", 5), ("--target-gap", "1%"), ("--dtype", "float64")),
                *(("--suit-isomorphism",), ("--memory-limit", 10**9)),
            )
        ),
        ((*BLUFFS, "--blueprint-bets", "a"), "--blueprint-bets has no effect without --gadget"),
        ((*BLUFFS, *MENUS, "--gadget", "full"), "gadgets: full requires"),
        (
            (*BLUFFS, *MENUS, "--plot", "grid.png", "--line", "bet 5"),
            "'bet 5' is not legal at the start",
        ),
        *(
            ((*FLOP_OPTIONS, *FLOP_MENUS, "--hands", 1, "--line", line), message)
            for line, message in (
                ("check, 6d", "'6d' is not legal after 'check': expected one of check"),
                ("check, check", "a card is dealt next; append a card: 'check, check, 6d'"),
                ("check, check, 2s", "after 'check, check' a card is dealt, but 2s is on the board"),
                ("check, check, 2c", "after 'check, check' a card is dealt, but 2c is dead"),
                ("check, check, bet 3", "and 'bet 3' is not one; expected a card, such as 6d"),
                ("check, check, 6d7c", "and '6d7c' is not one; expected a card, such as 6d"),
                ("check, check, 6d, bet 3", "on 2s3h4d6d, in line='check, check, 6d, bet 3': line='bet 3'"),
                ("check, check, 6d, check, check, 6d", "expected one of 7c, 8s, 9h"),
                ("check, check, 6d, all-in 40, call, 7c", "no player acts there"),
                ("check, check, 6d, all-in 40, fold", "no player acts there"),
            )
        ),
        (
            (*FLOP_OPTIONS, *FLOP_MENUS, "--plot", "x.svg", "--line", "check, check, 6d", "--whose", "ip"),
            "on 2s3h4d6d, in line='check, check, 6d': --whose ip: oop acts",
        ),
        ((*BLUFFS, *MENUS, "--compressed"), "compressed=True: no spot is a flop"),
        ((*FLOP_OPTIONS, *FLOP_MENUS, "--gadget", "resolving", "--compressed"), "--compressed has no effect"),
        ((*FLOP_OPTIONS, *FLOP_MENUS, "--gadget", "resolving"), "a flop, which gadgets cannot re-solve"),
        (
            ("--board", "2s3h4d6c", *BLUFFS[2:], *MENUS, "--turn-bets", "a"),
            "turn_menus on '2s3h4d6c': expected None unless the board is a flop",
        ),
        (
            (*BLUFFS, *MENUS, "--line", "check", "--explore", "x.html"),
            "--line has no effect without --plot, --hands, --frequencies, --cards or --json",
        ),
        (
            ("--board", "2s3h4d6c", *BLUFFS[2:], *MENUS, "--frequencies", "--line", "check, check"),
            "no player acts there; a card is dealt next; append a card: 'check, check, 2c'",
        ),
        (("--spots", "x.jsonl", *BLUFFS), "--board has no effect with --spots"),
        (("--open", "x.npz", *BLUFFS), "--oop has no effect with --open"),
        (
            ("--open", "x.npz", "--dtype", "float64"),
            "--dtype has no effect with --open, without --iterations",
        ),
        (("--open", "x.npz"), "'x.npz' does not exist; expected a file written by --save"),
        ((*BLUFFS, *MENUS, "--save", "x.txt"), "--save 'x.txt': expected a file that ends in .npz"),
        ((*BLUFFS, *MENUS, "--save", "x.npz", "--gadget", "resolving"), "--save has no effect with --gadget"),
        (
            ("--spots", "x.jsonl", "--save", "x.npz", "--results", "y.jsonl"),
            "--results has no effect with --save",
        ),
        ((*BLUFFS, *MENUS, "--csv", "x.csv"), "--csv has no effect without --report"),
        ((*BLUFFS, *MENUS, "--report", "--hands", 3), "--hands has no effect with --report"),
        ((*BLUFFS, *MENUS, "--report", "--line", "check, check"), "no player acts there"),
        (
            (*BLUFFS, *MENUS, "--lock", "x.json", "--suit-isomorphism"),
            "--suit-isomorphism has no effect with --lock",
        ),
        ((*BLUFFS, *MENUS, "--lock", "x.json"), "file of locks 'x.json' cannot be read"),
        (
            (*BLUFFS, *MENUS, "--lock", "x.json", "--gadget", "resolving"),
            "--lock has no effect with --gadget",
        ),
        (("--open", "x.npz", "--lock", "x.json"), "--lock has no effect with --open"),
        ((*BLUFFS, *MENUS, "--whose", "ip"), "--whose has no effect without --plot or --hands"),
        (
            (*BLUFFS, *MENUS, "--plot", "grid.png", "--whose", "ip"),
            "--whose ip: oop acts after line=''; expected --whose oop, or --show ev or equity",
        ),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[object, ...], message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """Errors precede any solve."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delattr(solve, "build_batch")
    monkeypatch.delattr(solve, "lay_out_streets")
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows: expected at least one"),
        ("[1]", "line 1: expected a JSON object"),
        (
            json.dumps(ROW) + "\n" + json.dumps(ROW | {"pots": 3}),
            "line 2: 'pots' is not a field of a spot; similar names: 'pot'",
        ),
        (
            json.dumps(ROW | {"board": "2s3h4d6c", "ip_river_raises": 3}),
            "line 1: ip_river_raises=3: expected",
        ),
    ],
)
def test_bad_rows_name_their_line(text: str, message: str, tmp_path: pathlib.Path):
    spots = tmp_path / "spots.jsonl"
    spots.write_text(text)
    result = run("--spots", spots)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_file_of_something_else_is_left_alone(tmp_path: pathlib.Path):
    spots, results = tmp_path / "spots.jsonl", tmp_path / "notes.txt"
    spots.write_text(json.dumps(ROW))
    results.write_text("mine\n")
    result = run("--spots", spots, "--results", results)
    assert result.exit_code == 2
    assert "line 1" in " ".join(result.stderr.split())
    assert results.read_text() == "mine\n"
    results.write_bytes(b"\xff\xfe")
    result = run("--spots", spots, "--results", results)
    assert result.exit_code == 2
    assert f"file of results {str(results)!r}, line 1" in " ".join(result.stderr.split())
    assert results.read_bytes() == b"\xff\xfe"
