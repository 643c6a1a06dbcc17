"""Continual re-solving against a model: every gadget, prior and p, jointly and branch by branch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend, tree_of, value_of
from experiments.opponents.common import COLORS, GAMES, SMALL, in_words, models_of, name_axes, nested_exactly
from experiments.study import Settings
from jaxgadget import (
    BlueprintPrior,
    Full,
    MaxMargin,
    NoPrior,
    Opponent,
    OptimalContinuation,
    ReachMaxMargin,
    ReachResolving,
    Resolving,
    Solver,
    UniformPrior,
    Unsafe,
    respond,
)
from jaxgadget.gadgets.gadget import Gadget

NAME = "gadgets"
EPSILON = 2e-2
"""As in the experiments on nested search."""

EVERY_P = (0.0, 0.01, 0.1, 0.5)
MODELS = ("cfr:3", "dirichlet:0")
SMOKE_MODELS = ("cfr:3",)

WAYS: dict[str, type[Any]] = {
    "joint": OptimalContinuation,
    "full, branch by branch": Full,
    "resolving": Resolving,
    "max-margin": MaxMargin,
    "reach-resolving": ReachResolving,
    "reach-max-margin": ReachMaxMargin,
}
PRIORS = {"none": NoPrior, "uniform": UniformPrior, "blueprint": BlueprintPrior}
RNR, UNSAFE = "RNR, whole game", "unsafe"


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, gadget, prior, model and p, for player 0."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    ways = [*itertools.product(WAYS, PRIORS), (UNSAFE, "none"), (RNR, "none")]
    keys = [
        {"game": game, "way": way, "prior": prior}
        for game, (way, prior) in itertools.product(settings.pick(GAMES, (SMALL,)), ways)
    ]
    return settings.gather(NAME, keys, measure)


def _measure(settings: Settings, game: str, way: str, prior: str) -> pd.DataFrame:
    tree, value = tree_of(game), value_of(game)
    models = models_of(game, settings.pick(MODELS, SMOKE_MODELS))
    opponent = Opponent(models, EVERY_P)
    best = respond(tree, Opponent(models, 1.0), solver=Solver(algorithm="lp", progress=False), value=value)
    if way == RNR:
        table = respond(tree, opponent, solver=Solver(algorithm="lp", progress=False), value=value).table
        table["searches"], table["first"] = 0, table["objective"]
    else:
        gadget: Gadget = Unsafe() if way == UNSAFE else WAYS[way](PRIORS[prior](), EPSILON)
        found = nested_exactly(tree, gadgets=gadget, opponent=opponent, limit="own", value=value)
        table = found.table
        table["first"] = found.objectives[0]
    columns = ["model", "p", "gain", "exploitability", "exploitability_bound", "first", "searches"]
    most = np.repeat(best.gain, len(EVERY_P))
    return table[columns].assign(game=game, way=way, prior=prior, best_response_gain=most)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain and exploitability, the mean over models, by p; searches at own decisions, one move deep.

    By linear programs, player 0. `over` counts the models and p > 0 with an exploitability above
    p·gain/(1−p), which joint searches without a prior and restricted Nash responses never exceed.
    """
    tables: dict[str, pd.DataFrame] = {}
    for game, rows in frame.groupby("game", sort=False):
        table: list[dict[str, Any]] = []
        for (way, prior), part in rows.groupby(["way", "prior"], sort=False):
            row: dict[str, Any] = {"gadget": way, "prior": prior}
            for p, lanes in part.groupby("p"):
                gain, lost = lanes["gain"].mean(), lanes["exploitability"].clip(lower=0).mean()
                row[f"p = {p:g}"] = f"{gain:.3f} / {lost:.4f}"
            limit = part["p"] * part["gain"] / (1 - part["p"])
            row["over"] = int(((part["p"] > 0) & (part["exploitability"] > limit + 1e-6)).sum())
            table.append(row)
        tables[f"{in_words(str(game))}, gain / exploitability"] = pd.DataFrame(table)
    return tables


def draw(frame: pd.DataFrame) -> Figure:
    """Gain over exploitability, the mean over models, without priors: one curve over p per gadget."""
    games = list(frame[frame["prior"] == "none"].groupby("game", sort=False))
    figure, axes = make_axes(len(games), 3, (4.0, 3.2))
    for ax, (game, rows) in zip(axes, games, strict=True):
        for way, part in rows[rows["way"] != UNSAFE].groupby("way", sort=False):
            mean = part.groupby("p")[["gain", "exploitability"]].mean()
            is_reach = str(way).startswith("reach-")  # in the gadget's colour
            color = COLORS["RNR"] if way == RNR else COLORS.get(str(way).removeprefix("reach-"), "#AAAAAA")
            style: dict[str, Any] = {"color": color, "linestyle": "--" if is_reach else "-", "linewidth": 1}
            style |= {"marker": "s" if is_reach else "o", "markersize": 6 if is_reach else 3}
            lost = mean["exploitability"].clip(lower=0)
            ax.plot(lost, mean["gain"], markerfacecolor="none" if is_reach else color, label=way, **style)
        name_axes(ax, in_words(str(game)), linear_to=1e-3)
    one_legend(figure, axes, 4)
    return figure
