"""Shared by the experiments of this folder: the grid of Figure 2, its gadgets, sweeps over it."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from experiments.common import GOOFSPIEL, LIARS_DICE
from experiments.study import Settings
from jaxgadget import OptimalContinuation, Solver, SweepGrid, sweep
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.report.tables import KNOWLEDGE
from jaxgadget.subgames.refine import default_gadgets
from jaxgadget.sweeping.sweep import BLUEPRINTS_AT_ONCE

HERE = pathlib.Path(__file__).parent

GRID = {GOOFSPIEL: ("depth:1", "depth:2"), "leduc_poker": ("flop",), LIARS_DICE: ("depth:1",)}
"""The games and cuts of Figure 2."""

SMALL = {"kuhn_poker": ("depth:2",)}
"""Replaces them in a smoke test."""

BLUEPRINTS = ("cfr-spread:25:1000", "draws:20")
"""25 checkpoints of 1,000 iterations of CFR, spread over exploitability, and 20 draws from Dirichlet(1)."""

FEW_BLUEPRINTS = ("cfr-spread:10:1000", "draws:5")
SMOKE_BLUEPRINTS = ("cfr-spread:3:20", "draws:2")

TINY = 1e-5
"""A share of a game's largest blueprint exploitability; see `floor_of`."""

ITERATIONS = 5000
SMOKE_ITERATIONS = 10


def sweep_grid(
    settings: Settings,
    name: str,
    games: Mapping[str, Sequence[str]],
    *,
    blueprints: str | Sequence[str] = BLUEPRINTS,
    gadgets: Sequence[Gadget] | None = None,
    players: Sequence[int] = (0,),
    iterations: int | Sequence[int] = ITERATIONS,
    algorithm: str = "cfr+",
    blueprints_at_once: int = BLUEPRINTS_AT_ONCE,
) -> pd.DataFrame:
    """`jaxgadget.sweep`, which resumes, in `settings.work`; in a smoke test over a tiny grid.

    Args:
      settings: options and folders.
      name: the experiment's.
      games: cuts by game.
      blueprints: their specifications.
      gadgets: with priors; by default `figure2_gadgets`.
      players: the resolving players.
      iterations: iterations of CFR, one number or several.
      algorithm: algorithm of the solves.
      blueprints_at_once: number of blueprints per piece.
    """
    if settings.smoke:
        games, players = SMALL, players[:1]
        blueprints = blueprints if isinstance(blueprints, str) else SMOKE_BLUEPRINTS
        few = (SMOKE_ITERATIONS // 2, SMOKE_ITERATIONS)
        iterations = few if isinstance(iterations, Sequence) else SMOKE_ITERATIONS
    grid = SweepGrid(
        games=games,
        blueprints=blueprints,
        gadgets=figure2_gadgets() if gadgets is None else gadgets,
        players=tuple(players),
        iterations=iterations,
    )
    solver = Solver(algorithm=algorithm, progress=settings.progress)
    frame = sweep(settings.work / name, grid, solver=solver, blueprints_at_once=blueprints_at_once)
    if frame["failure"].notna().any():
        raise ValueError(f"{name}: {frame['failure'].dropna().iloc[0]}")
    # These are relevant with estimates, against models, and over own infostates.
    unused = ["form", "piece", "piece_rows", "failure", "guard_share", "model", "p", "gain", *KNOWLEDGE]
    return frame.drop(columns=unused)


def figure2_gadgets() -> list[Gadget]:
    """Unsafe, resolving and max-margin with every prior (ε = 1e-3), and the optimal continuation."""
    return [*default_gadgets(), OptimalContinuation(NoPrior())]


def floor_of(frame: pd.DataFrame) -> pd.Series:
    """Lower bound of exploitability in ratios; smaller numbers cannot be distinguished from 0.

    The larger of `TINY` times the game's largest blueprint exploitability and the width of the bracket of the
    game's value (none in a frame without one); a number for every row, in payoff.
    """
    largest = frame.groupby("game")["blueprint_exploitability"].transform("max")
    width = frame.get("game_value_high", 0.0) - frame.get("game_value_low", 0.0)
    return np.maximum(TINY * largest, width)
