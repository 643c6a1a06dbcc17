"""Pictures of every view of the explorer: `python -m tests.explorer.pictures FOLDER`.

Draws a river, Leduc poker refined, answers to actions off the menu and a sweep, at two widths, light and
dark, to look at after a change of the page.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jaxgadget as jg
from tests.explorer.browser import Browser

SIZES = ((1280, 800), (1920, 1080))


class Picture(NamedTuple):
    """A view: its name, the page, the link, and elements to click or keys to press."""

    name: str
    page: pathlib.Path
    link: str = ""
    clicks: tuple[str, ...] = ()
    keys: str = ""
    media: str = "screen"


def river(folder: pathlib.Path) -> Iterator[Picture]:
    """A river with two ranges, and the same re-solved."""
    ranges = {"oop": "22+,A2s+,KTs+,QTs+,JTs,AJo+,KQo", "ip": "22+,A2s+,KTs+,QTs+,JTs,T9s,AJo+,KQo"}
    spot = jg.Spot(board="Td9d6hQc2s", **ranges, pot=100, stack=200)
    (solution,) = jg.solve_spots([spot], iterations=300)
    page, compared = folder / "river.html", folder / "river_refined.html"
    solution.explore().save(page)
    (rough,) = jg.solve_spots([spot], iterations=5)
    jg.explore(jg.refine_spots([spot], blueprints=[rough], iterations=100)).save(compared)
    line = "line=check"
    yield Picture("river", page)
    for layer in ("strategy", "ev", "reach", "equity"):
        yield Picture(f"river_{layer}", page, f"{line}&layer={layer}&select=A5s")
    yield Picture("river_takers", page, line, ("[data-legend='1']", "[data-takers=equity]"))
    yield Picture("river_results", page, "tab=results")
    yield Picture("river_end", page, "line=check,+check")
    yield Picture("river_print", page, f"{line}&select=A5s", media="print")
    yield Picture("river_help", page, line, keys="?")
    yield Picture("river_search", page, line, ("#search",), "AK")
    yield Picture("river_pair", compared, "policy=0&with=1")
    yield Picture("river_difference", compared, "policy=0&with=1&difference=1&select=AKs")
    yield Picture("river_difference_ev", compared, "policy=0&with=1&difference=1&layer=ev")
    yield Picture("river_changes", compared, "policy=0&with=1&tab=changes")
    yield Picture("river_subgames", compared, "policy=0&with=1&tab=subgames&subgame=0")


def leduc(folder: pathlib.Path) -> Iterator[Picture]:
    """Leduc poker's flops refined for two gadgets."""
    tree = jg.enumerate_game(jg.load("leduc_poker"))
    gadgets = [jg.Resolving(), jg.MaxMargin()]
    refinement = jg.refine(tree, "flop", jg.make_blueprints(tree, ["cfr:10", "uniform"]), gadgets)
    page = folder / "leduc.html"
    refinement.explore().save(page)
    pair = "policy=0&with=2"
    yield Picture("leduc", page)
    yield Picture("leduc_chance", page, f"{pair}&line=Call,+Raise,+Call")
    for layer in ("strategy", "ev", "reach"):
        yield Picture(
            f"leduc_{layer}", page, f"{pair}&line=Call,+Raise,+Call,+deal+2,+Call&layer={layer}&select=2"
        )
    yield Picture("leduc_subgames", page, f"{pair}&tab=subgames", ("[data-subgame]",))
    yield Picture("leduc_changes", page, f"{pair}&tab=changes")
    yield Picture("leduc_print", page, f"{pair}&line=Call,+Raise,+Call,+deal+2,+Call", media="print")
    yield Picture("leduc_results", page, f"{pair}&tab=results")


def off_tree(folder: pathlib.Path) -> Iterator[Picture]:
    """Answers to raises that the blueprint's menu lacks."""
    rules = jg.load("no_limit_leduc(bets=1/2-1-a,max_raises=1,num_ranks=3,stack=5,suit_isomorphism=True)")
    menu = jg.MenuAbstraction(rules, {0: ["Fold", "Call"], 1: ["Fold", "Call"]})
    tree = jg.enumerate_game(menu)
    page = folder / "off_tree.html"
    jg.translate_off_tree(tree, jg.Policy.uniform(tree)).explore().save(page)
    yield Picture("off_tree", page)
    yield Picture("off_tree_results", page, "policy=0&with=1&tab=results")


def goofspiel(folder: pathlib.Path) -> Iterator[Picture]:
    """Simultaneous moves."""
    tree = jg.enumerate_game(jg.load("goofspiel(num_cards=4,imp_info=True)"))
    page = folder / "goofspiel.html"
    jg.Policy.dirichlet(tree, 1).explore().save(page)
    yield Picture("goofspiel", page)
    yield Picture("goofspiel_select", page, "select=the+only+one", (".block.here [data-child]",))


def sweep(folder: pathlib.Path) -> Iterator[Picture]:
    """A sweep, and the page of a row."""
    grid = jg.SweepGrid(
        games={"leduc_poker": "flop", "kuhn_poker": "depth:1"},
        blueprints=["cfr-spread:5", "draws:3"],
        iterations=100,
    )
    jg.sweep(folder / "sweep", grid)
    index = jg.explore_sweep(folder / "sweep", folder / "pages", grid)
    yield Picture("sweep", index)
    yield Picture("sweep_row", index, "", ("[data-row='20']",))
    yield Picture("sweep_subgames", index, "", ("[data-row='20']", "[data-link='20']", "[data-subgame]"))


VIEWS: tuple[Callable[[pathlib.Path], Iterator[Picture]], ...] = (river, leduc, off_tree, goofspiel, sweep)


def draw(opened: Browser, picture: Picture, size: tuple[int, int], theme: str, out: pathlib.Path) -> None:
    """Draws a view into a file of the folder."""
    emulated = {"media": picture.media, "features": [{"name": "prefers-color-scheme", "value": theme}]}
    opened.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    opened.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    opened.open(picture.page, picture.link)
    for selector in picture.clicks:
        opened.click(selector)
    if picture.clicks[-1:] == ("#search",):
        opened.type("search", picture.keys)
        opened.wait(lambda: opened.texts("#found > *"))
    else:
        for key in picture.keys:
            opened.key(key)
    opened.driver.save_screenshot(str(out / f"{picture.name}-{size[0]}-{theme}.png"))
    assert not (log := opened.log()), log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="views whose name contains this text")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        opened = Browser(pathlib.Path(folder))
        for view in VIEWS:
            if asked.only and asked.only.partition("_")[0] != view.__name__.partition("_")[0]:
                continue
            for picture in view(pathlib.Path(folder)):
                if asked.only in picture.name:
                    for size in SIZES:
                        for theme in ("light", "dark"):
                            draw(opened, picture, size, theme, asked.folder)
        opened.driver.quit()


if __name__ == "__main__":
    main()
