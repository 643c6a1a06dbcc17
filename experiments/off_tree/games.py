"""Both players of no-limit Leduc with four bets, for several stacks, ranks and raises; menus of two."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.off_tree import common
from experiments.off_tree.common import COLORS, EQUILIBRIUM, MARKERS, METHODS, answer, leduc
from experiments.study import Settings

NAME = "games"
GAMES = (
    leduc(),
    leduc(raises=1),
    leduc(raises=3),
    leduc(stack=7),
    leduc(stack=20),
    leduc(stack=50),
    leduc(ranks=6),
)
SMOKE_GAMES = (leduc(stack=7, raises=1),)
MENU, SECOND_MENU = "1-a", "1/2-1-a"
"""Menus of the blueprint; the second one only in the first game."""

GOOD = ("cfr:100", "cfr+:1000", EQUILIBRIUM)
"""Blueprints of the tables of ratios, gadgets and priors."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, menu, seat, method, blueprint and gadget with prior."""
    specs = settings.pick(common.BLUEPRINTS, common.SMOKE_BLUEPRINTS)
    iterations = settings.pick(common.ITERATIONS, common.SMOKE_ITERATIONS)
    games = settings.pick(GAMES, SMOKE_GAMES)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        return answer(specs=specs, iterations=iterations, **key).assign(**key)

    spots = [(games[0], MENU), (games[0], SECOND_MENU), *((game, MENU) for game in games[1:])]
    keys = [
        {"game": game, "menu": menu, "player": player, "method": method}
        for game, menu in spots
        for player in (1, 0)
        for method in METHODS
    ]
    return settings.gather(NAME, keys, solve)


KEYS = ["game", "menu", "player"]


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability in antes; resolving without a prior by default.

    `on_menu`: the opponent is restricted to the menu, too (negative: the value exceeds the game's); `menu's
    best`: the least exploitability of a defender restricted to the menu. `times` are geometric means of
    ratios; `better` and `worse` differ by more than a twentieth. Tables of gadgets and of ratios are of the
    good blueprints.
    """
    tables: dict[str, pd.DataFrame] = {}
    for blueprint, part in frame.groupby("blueprint", sort=False):
        table = common.by_method(part, KEYS)
        tables[f"Blueprint {blueprint}"] = table.assign(game=table["game"].map(common.short))
    good = frame[frame["blueprint"].isin(GOOD)]
    tables["How many times worse than nested solving"] = common.times_worse(good, KEYS)
    tables["Gadgets and priors"] = common.by_gadget(good, KEYS)
    return tables


def draw(frame: pd.DataFrame) -> Figure:
    """Every game with its methods, an exact blueprint; one panel per player."""
    shown = common.plain(frame[(frame["blueprint"] == EQUILIBRIUM) & (frame["menu"] == MENU)])
    names = list(dict.fromkeys(shown["game"]))
    figure, axes = make_axes(2, 2, (4.6, 0.38 * len(names) + 1.5))
    for ax, player in zip(axes, (1, 0), strict=True):
        part = shown[shown["player"] == player]
        for number, method in enumerate(METHODS):
            line = part[part["method"] == method].set_index("game").reindex(names)
            shift = 0.12 * (number - (len(METHODS) - 1) / 2)
            style: dict[str, Any] = {"color": COLORS[method], "marker": MARKERS[method], "linestyle": "none"}
            at = [row + shift for row in range(len(names))]
            ax.plot(line["exploitability"], at, markersize=5, label=method, **style)
        best = part.groupby("game")["menu_exploitability"].first().reindex(names)
        ax.plot(best, range(len(names)), "|", color=COLORS["menu"], markersize=15, label="menu's best")
        for row in range(1, len(names)):
            ax.axhline(row - 0.5, color="#DDDDDD", linewidth=0.6)
        ax.set_xscale("log")
        ax.set_yticks(range(len(names)), [common.short(name) for name in names])
        ax.invert_yaxis()
        ax.set_title(f"player {player} answers", fontsize=9)
        ax.set_xlabel("Exploitability [antes]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    axes[1].set_yticklabels([])
    one_legend(figure, axes, 4)
    return figure
