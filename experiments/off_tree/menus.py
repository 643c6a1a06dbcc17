"""Exploitability by the size of the defender's menu, up to eight bets."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.off_tree import common
from experiments.off_tree.common import COLORS, EIGHT_BETS, EQUILIBRIUM, MARKERS, METHODS, answer, leduc
from experiments.study import Settings

NAME = "menus"
GAME, SMOKE_GAME = leduc(stack=20, bets=EIGHT_BETS), leduc(stack=9, raises=1)
MENUS = ("a", "1-a", "1/2-1-a", "1/2-1-2-a", "1/4-1/2-1-2-a")
SMOKE_MENUS = ("a", "1-a")
GOOD = ("cfr:100", "cfr+:1000", EQUILIBRIUM)
SHOWN = ("cfr:10", "cfr:100", EQUILIBRIUM)
"""The blueprints of the picture."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every menu, seat, method, blueprint and gadget with prior."""
    specs = settings.pick(common.BLUEPRINTS, common.SMOKE_BLUEPRINTS)
    iterations = settings.pick(common.ITERATIONS, common.SMOKE_ITERATIONS)
    game, menus = settings.pick((GAME, MENUS), (SMOKE_GAME, SMOKE_MENUS))

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        return answer(specs=specs, iterations=iterations, **key).assign(**key)

    keys = [
        {"game": game, "menu": menu, "player": player, "method": method}
        for menu in menus
        for player in (1, 0)
        for method in METHODS
    ]
    return settings.gather(NAME, keys, solve)


KEYS = ["game", "menu", "menu_size", "player"]


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability in antes; resolving without a prior by default. Columns as in `games`."""
    tables: dict[str, pd.DataFrame] = {}
    for blueprint, part in frame.groupby("blueprint", sort=False):
        table = common.by_method(part, KEYS)
        tables[f"Blueprint {blueprint}"] = table.drop(columns=["game", "menu_size"])
    good = frame[frame["blueprint"].isin(GOOD)]
    tables["How many times worse than nested solving"] = common.times_worse(good, KEYS)
    tables["Gadgets and priors"] = common.by_gadget(good, KEYS)
    return tables


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability by the size of the menu; one panel per player, three blueprints."""
    frame = common.plain(frame)
    names = [name for name in SHOWN if name in set(frame["blueprint"])]
    panels = [(player, name) for player in (1, 0) for name in names]
    figure, axes = make_axes(len(panels), len(names), (3.3, 2.9))
    for ax, (player, name) in zip(axes, panels, strict=True):
        part = frame[(frame["player"] == player) & (frame["blueprint"] == name)]
        for method in METHODS:
            line = part[part["method"] == method].sort_values("menu_size")
            style: dict[str, Any] = {"color": COLORS[method], "marker": MARKERS[method], "markersize": 4}
            ax.plot(line["menu_size"], line["exploitability"], linewidth=1.2, label=method, **style)
        best = part.groupby("menu_size")["menu_exploitability"].first()
        ax.plot(best.index, best, color=COLORS["menu"], linewidth=1, linestyle="--", label="menu's best")
        ax.set_yscale("log")
        ax.set_xticks(sorted(part["menu_size"].unique()))
        ax.set_title(f"player {player} answers, {name}", fontsize=9)
        ax.set_xlabel("Bets on the menu, of eight", fontsize=8)
        ax.set_ylabel("Exploitability [antes]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 4)
    return figure
