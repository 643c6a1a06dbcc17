"""GS2's six research games: some of the opponent's infostates considered, random or the most diverse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend, tree_of, value_of
from experiments.knowledge.common import LEDUC, blueprints_of, cut_of, in_words, liars_dice, ratio, with_rise
from experiments.study import Settings
from jaxgadget import (
    BlueprintPrior,
    DiverseGeneration,
    Knowledge,
    MaxMargin,
    NoPrior,
    RandomGeneration,
    Resolving,
    Solver,
    Unsafe,
    refine,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.tree.cut import Cut
from jaxgadget.util.arrays import FloatArray

NAME = "generation"


def goofspiel_of_three(num_cards: int, points: str) -> str:
    """Goofspiel of three rounds, as in GS2."""
    return f"goofspiel(imp_info=True,num_cards={num_cards},num_turns=3,points_order={points})"


SPOTS = (
    (LEDUC, "flop"),
    (goofspiel_of_three(5, "random"), "depth:1"),
    (goofspiel_of_three(10, "ascending"), "depth:1"),
)
"""The paper does not state the infostates of its searches."""

LARGER_SPOTS = (
    (liars_dice(6), "depth:1"),
    (goofspiel_of_three(12, "ascending"), "depth:1"),
    (liars_dice(7), "depth:1"),
)

SMOKE_SPOTS = ((goofspiel_of_three(5, "ascending"), "depth:1"),)

PLAYER = 0
NUMBERS, SMOKE_NUMBERS = (1, 2, 3, 5, 10), (1, 2)
"""Number of the opponent's considered infostates."""


class Effort(NamedTuple):
    """Numbers of solves in a game.

    Attributes:
      blueprints: SPECs.
      gadgets: the gadgets.
      draws: number of draws of random generation.
      iterations: iterations of CFR+.
    """

    blueprints: tuple[str, ...]
    gadgets: tuple[Gadget, ...]
    draws: int
    iterations: int


GADGETS = (Unsafe(), Resolving(NoPrior()), Resolving(BlueprintPrior()), MaxMargin(NoPrior()))
"""The paper uses max-margin."""

FULL = Effort(("uniform", "cfr:10", "cfr:100"), GADGETS, 8, 500)
LARGE = Effort(FULL.blueprints, GADGETS[2:], 4, 200)
"""For all games except Leduc poker."""

SMOKE = Effort(("cfr:3",), GADGETS, 3, 20)

ALL, RANDOM, DIVERSE = "all (1-KLSS)", "random", "diverse"


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, generation, blueprint and gadget with prior; all own infostates at once."""
    return refine_spots(settings, NAME, settings.pick(SPOTS, SMOKE_SPOTS))


def refine_spots(settings: Settings, name: str, spots: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """A row for every spot, generation, blueprint and gadget with prior."""
    numbers = settings.pick(NUMBERS, SMOKE_NUMBERS)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        where = cut_of(key["game"], key["cut"], PLAYER)
        effort = settings.pick(FULL if key["game"] == LEDUC else LARGE, SMOKE)
        generate = {
            ALL: lambda number: None,
            RANDOM: lambda number: RandomGeneration(number, draws=effort.draws),
            DIVERSE: DiverseGeneration,
        }[key["way"]](key["considered"])
        found = refine(
            tree_of(key["game"]),
            where,
            blueprints_of(key["game"], effort.blueprints),
            effort.gadgets,
            knowledge=Knowledge(order=1, generate=generate, combine="together"),
            player=PLAYER,
            solver=Solver(iterations=effort.iterations, progress=False),
            value=_value(key["game"]),
        )
        columns = ["blueprint", "gadget", "prior", "blueprint_exploitability", "refined_exploitability"]
        table = found.table[[*columns, "mean_exploitability", "gap_max", "failure"]]
        cells = searched_cells(where, key["considered"])
        return table.assign(cells=cells, seconds=sum(found.seconds.values()), **key)

    return settings.gather(name, list(_keys(spots, numbers)), solve)


def _keys(spots: Sequence[tuple[str, str]], numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    for game, where in spots:
        spot = {"game": game, "cut": where}
        yield spot | {"way": ALL, "considered": 0}
        for way in (RANDOM, DIVERSE):
            yield from (spot | {"way": way, "considered": number} for number in numbers)


def _value(game: str) -> tuple[float, float]:
    """The game's value: Goofspiel is fair; the others' values are computed."""
    return (0.0, 0.0) if game.startswith("goofspiel") else value_of(game, game == LEDUC)


def searched_cells(where: Cut, considered: int) -> float:
    """Mean number of payoff entries of a search over own infostates, for a number of considered infostates.

    Args:
      where: the cut.
      considered: number of the opponent's infostates in each subgame; 0 for all.
    """
    tree = where.tree
    below = tree.terminals[where.root[tree.terminals] >= 0]
    _, first = np.unique(tree.sequence[:, below], axis=1, return_index=True)
    own, theirs = tree.infostate[[PLAYER, 1 - PLAYER]][:, where.root[below[first]]]
    pairs, cells = np.unique(np.stack([own, theirs]), axis=1, return_counts=True)
    _, of_pair, met = np.unique(pairs[0], return_inverse=True, return_counts=True)
    share: FloatArray = np.minimum(1, considered / met) if considered else np.ones(len(met))
    return float((cells * share[of_pair]).sum() / len(met))


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability over that of the blueprint, geometric means over blueprints; player 0, order 1.

    `random`: of the mixture of all draws, and the mean of single draws. All own infostates are re-solved and
    combined, by CFR+. `cells`: mean number of payoff entries of a search.
    """
    tables: dict[str, pd.DataFrame] = {}
    for (game, where), rows in with_rise(frame).groupby(["game", "cut"], sort=False):
        table: list[dict[str, Any]] = []
        for (name, number), part in rows.groupby(["way", "considered"], sort=False):
            cells: dict[str, Any] = {}
            for solved, lanes in part.groupby("solved", sort=False):
                drawn = lanes.assign(refined_exploitability=lanes["mean_exploitability"])
                cells[str(solved)] = f"{ratio(lanes):.3f}" + (
                    f" ({ratio(drawn):.3f})" if name == RANDOM else ""
                )
            row = {
                "considered": name if name == ALL else f"{name} {number}",
                "cells": f"{part['cells'].iloc[0]:,.0f}",
            }
            table.append(row | cells)
        title = f"{in_words(str(game), str(where))}: mixture of draws (mean of draws)"
        tables[title] = pd.DataFrame(table)
    return tables


SHOWN = "max-margin"
LINES = {RANDOM: ("#D55E00", "-"), "random, one draw": ("#D55E00", ":"), DIVERSE: ("#0072B2", "-")}


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability over that of the blueprint by cells searched, max-margin; one panel per game."""
    frame = with_rise(frame)
    groups = list(frame[frame["solved"] == SHOWN].groupby(["game", "cut"], sort=False))
    figure, axes = make_axes(len(groups), 3, (3.8, 2.9))
    for ax, ((game, where), rows) in zip(axes, groups, strict=True):
        for name, (color, dash) in LINES.items():
            part = rows[rows["way"] == name.partition(",")[0]]
            if "one draw" in name:
                part = part.assign(refined_exploitability=part["mean_exploitability"])
            points = [(lanes["cells"].iloc[0], ratio(lanes)) for _, lanes in part.groupby("considered")]
            ax.plot(*zip(*points, strict=True), dash, marker="o", markersize=3, color=color, label=name)
        everything = rows[rows["way"] == ALL]
        ax.axhline(ratio(everything), color="#009E73", linewidth=1.2, label=ALL)
        ax.axvline(everything["cells"].iloc[0], color="#009E73", linewidth=0.6, linestyle=":")
        ax.axhline(1, color="#000000", linewidth=0.8, linestyle="--", label="blueprint")
        ax.set_xlim(left=0)
        ax.set_title(in_words(str(game), str(where)), fontsize=9)
        ax.set_xlabel("Payoff entries of a search", fontsize=8)
        ax.set_ylabel("Exploitability / blueprint's", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 5)
    return figure
