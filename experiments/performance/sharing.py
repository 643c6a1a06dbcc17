"""Kinds of gadgets in separate solves, or all as lanes of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import pandas as pd

from experiments.performance.grid import GRID, SMOKE_GRID, blueprints
from experiments.study import Settings
from jaxgadget import Policy, Solver, enumerate_game, load, refine
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.subgames.refine import default_gadgets
from jaxgadget.tree.history import HistoryTree

NAME = "sharing"


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut and method."""
    return time_sharing(SMOKE_GRID, 3, 2, 1, 1) if settings.smoke else time_sharing()


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds of compiling and running, for both methods; see `time_sharing`."""
    return frame


def apart() -> list[list[Gadget]]:
    """The settings of Figure 2, one kind at a time."""
    kinds: dict[str, list[Gadget]] = {}
    for gadget in default_gadgets():
        kinds.setdefault(gadget.name, []).append(gadget)
    return list(kinds.values())


def solve(
    tree: HistoryTree, cut: str, policy: Policy, groups: Sequence[Sequence[Gadget]], iterations: int
) -> dict[str, float]:
    """Re-solves for player 0, one group after the other; the total of seconds, without the game's value."""
    bound, total = tree.payoff_range, dict[str, float]()
    for gadgets in groups:
        how: dict[str, Any] = {
            "value": (-bound, bound),
            "solver": Solver(iterations=iterations, progress=False),
        }
        for phase, seconds in refine(tree, cut, policy, gadgets, **how).seconds.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total


def time_sharing(
    grid: Sequence[tuple[str, str]] = GRID,
    iterations: int = 1000,
    checkpoints: int = 25,
    draws: int = 20,
    repeats: int = 3,
) -> pd.DataFrame:
    """A row for every game, cut and method: the seven settings of Figure 2, player 0.

    `compile` is that of the first turn, with an empty cache; `run` is the fastest of alternating turns.
    """
    rows: list[dict[str, Any]] = []
    for game, cut in grid:
        tree = enumerate_game(load(game))
        policy, seconds = blueprints(tree, checkpoints, draws), dict[str, list[dict[str, float]]]()
        ways = {"apart": apart(), "shared": [list(default_gadgets())]}
        for turn in range(repeats):
            for how, groups in ways.items():
                if turn == 0:
                    jax.clear_caches()
                seconds.setdefault(how, []).append(solve(tree, cut, policy, groups, iterations))
        for how, turns in seconds.items():
            row = {"game": game, "cut": cut, "kinds": how, "lanes": 7 * policy.num_lanes}
            row |= {"iterations": iterations, "compile": turns[0]["compile"]}
            rows.append(row | {"run": min(turn["run"] for turn in turns)})
    return pd.DataFrame(rows)
