"""The grid behind Figure 2 of *Equilibrium refinements improve subgame solving*, timed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.study import Settings
from jaxgadget import Policy, Solver, cfr_checkpoints, enumerate_game, load, refine
from jaxgadget.subgames.refine import default_gadgets
from jaxgadget.tree.history import HistoryTree

NAME = "grid"
GRID = (
    ("leduc_poker", "flop"),
    ("liars_dice(dice_sides=4)", "depth:1"),
    ("goofspiel(num_cards=5,imp_info=True,points_order=descending)", "depth:1"),
    ("goofspiel(num_cards=5,imp_info=True,points_order=descending)", "depth:2"),
)
SMOKE_GRID = (("kuhn_poker", "depth:2"),)
CHECKPOINTS, DRAWS = 25, 20
ITERATIONS = 5000


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and cut."""
    if settings.smoke:
        return time_grid(SMOKE_GRID, iterations=3, checkpoints=2, draws=1)
    return time_grid()


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds of re-solving, player 0, all seven settings; see `time_grid`."""
    return frame


def blueprints(tree: HistoryTree, checkpoints: int, draws: int) -> Policy:
    """Averages of one CFR run, spread over its iterations, and Dirichlet(1) draws."""
    counts = sorted({round(1.4**k) for k in range(checkpoints)})
    while len(counts) < checkpoints:
        counts.append(counts[-1] + 1)
    rng = np.random.default_rng(0)
    halves = []
    for player in (0, 1):
        infosets = tree.infosets[player]
        weight = rng.exponential(size=(infosets.num_sequences - 1, draws))
        total = np.add.reduceat(weight, infosets.first_sequence - 1, axis=0)
        halves.append(weight / total[infosets.infoset[1:]])
    drawn = Policy(tree, (halves[0], halves[1]), tuple(f"dirichlet:{k}" for k in range(draws)))
    return Policy.stack([cfr_checkpoints(tree, counts, progress=False), drawn])


def time_grid(
    grid: Sequence[tuple[str, str]] = GRID,
    iterations: int = ITERATIONS,
    checkpoints: int = CHECKPOINTS,
    draws: int = DRAWS,
) -> pd.DataFrame:
    """A row for every game and cut: the seconds of re-solving, player 0, all seven settings.

    `run` excludes building, compilation, blueprints and the game's value; `wall` is the duration of `refine`.
    """
    rows: list[dict[str, Any]] = []
    trees: dict[str, HistoryTree] = {}
    for game, cut in grid:
        tree = trees.setdefault(game, enumerate_game(load(game)))
        policy = blueprints(tree, checkpoints, draws)
        bound = tree.payoff_range
        began = time.perf_counter()
        refined = refine(
            tree,
            cut,
            policy,
            default_gadgets(),
            solver=Solver(iterations=iterations, progress=False),
            value=(-bound, bound),
        )
        wall = time.perf_counter() - began
        solves = refined.num_subgames * policy.num_lanes * len(refined.gadgets)
        row: dict[str, Any] = {
            "game": game,
            "cut": cut,
            "blueprints": policy.num_lanes,
            "subgame_solves": solves,
        }
        row |= {
            "iterations": iterations,
            **refined.seconds,
            "wall": wall,
            "gap_max": float(np.nanmax(refined.gap)),
        }
        rows.append(row)
    return pd.DataFrame(rows)
