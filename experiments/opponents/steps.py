"""Figures 11, 12 and 14: depths of searches, and their gains against a model."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import LIARS_DICE, make_axes, one_legend, tree_of, value_of
from experiments.opponents.common import (
    COLORS,
    GADGETS,
    LEDUC,
    SMALL,
    goofspiel,
    in_words,
    models_of,
    name_axes,
    nested_exactly,
)
from experiments.study import Settings
from jaxgadget import Opponent, Solver, respond

NAME = "steps"
DEPTHS = {goofspiel(5): (1, 2, 3), LEDUC: (1, 3, 5), LIARS_DICE: (1, 3, 5)}
"""As in `gains`: searches at own decisions."""

MODELS = ("cfr:3",)
EVERY_P = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
SMOKE_EVERY_P = (0.1, 0.5)
RNR = "RNR"


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, method, depth, model and p, for player 0."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    games = settings.pick(tuple(DEPTHS), (SMALL,))
    keys = [{"game": game, "way": RNR, "depth": 0} for game in games]
    keys += [
        {"game": game, "way": way, "depth": depth}
        for game, way in itertools.product(games, GADGETS)
        for depth in DEPTHS.get(game, (1,))
    ]
    return settings.gather(NAME, keys, measure)


def _measure(settings: Settings, game: str, way: str, depth: int) -> pd.DataFrame:
    tree, value = tree_of(game), value_of(game)
    opponent = Opponent(models_of(game, MODELS), settings.pick(EVERY_P, SMOKE_EVERY_P))
    if way == RNR:
        exact = Solver(algorithm="lp", progress=False)
        table = respond(tree, opponent, value=value, solver=exact).table
    else:
        table = nested_exactly(
            tree,
            gadgets=GADGETS[way],
            opponent=opponent,
            limit="own",
            depth=depth,
            value=value,
        ).table
    return table[["model", "p", "gain", "exploitability"]].assign(game=game, way=way, depth=depth)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain / exploitability by p, by linear programs, for player 0 against `cfr:3`.

    Depth: moves from one own decision to the limit, as in `gains`. RNR: the response in the whole game.
    """
    tables: dict[str, pd.DataFrame] = {}
    for game, rows in frame.groupby("game", sort=False):
        table: list[dict[str, Any]] = []
        for (way, depth), part in rows.groupby(["way", "depth"], sort=False):
            cells = {
                f"p = {row['p']:g}": f"{row['gain']:.3f} / {max(row['exploitability'], 0):.4f}"
                for _, row in part.iterrows()
            }
            table.append({"searched": way, "depth": depth or "-"} | cells)
        tables[in_words(str(game))] = pd.DataFrame(table)
    return tables


def draw(frame: pd.DataFrame) -> Figure:
    """Gain over exploitability, one panel per game and depth."""
    groups = list(frame[frame["way"] != RNR].groupby(["game", "depth"], sort=False))
    figure, axes = make_axes(len(groups), 3, (3.6, 2.8))
    for ax, ((game, depth), rows) in zip(axes, groups, strict=True):
        whole = frame[(frame["game"] == game) & (frame["way"] == RNR)]
        for way, part in [(RNR, whole), *rows.groupby("way", sort=False)]:
            lost = part["exploitability"].clip(lower=0)
            style: dict[str, Any] = {"color": COLORS[str(way)], "markersize": 3, "linewidth": 1}
            ax.plot(lost, part["gain"], "o-", label=way, **style)
        name_axes(ax, f"{in_words(str(game))}, depth {depth}", linear_to=1e-3)
    one_legend(figure, axes, 5)
    return figure
