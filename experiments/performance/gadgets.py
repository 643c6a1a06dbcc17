"""Unsafe, resolving and max-margin, each alone: iterations per second with 1 and 64 blueprints.

Only jaxgadget's public functions are called, so that `commits` can time other commits with this file: run as
a script, it prints the rows as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import pandas as pd

from jaxgadget import MaxMargin, Policy, Resolving, Solver, UniformPrior, Unsafe, enumerate_game, load, refine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.study import Settings
    from jaxgadget import HistoryTree

NAME = "gadgets"
GAMES = (("leduc_poker", "flop"), ("liars_dice(dice_sides=4)", "depth:1"))
SMOKE_GAMES = (("kuhn_poker", "depth:2"),)
LANES = (1, 64)
EPSILON = 1e-3
GADGETS = {
    "unsafe": Unsafe(),
    "resolving": Resolving(UniformPrior(), EPSILON),
    "max-margin": MaxMargin(UniformPrior(), EPSILON),
}
FEW = 10
"""Iterations of the solve that is subtracted."""

MOST = 2_000_000
"""Maximum number of iterations."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, gadget and number of lanes."""
    return pd.DataFrame(time_gadgets(settings.pick(GAMES, SMOKE_GAMES), settings.pick(5.0, 0.01)))


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Microseconds per iteration of all subgames divided by the lanes, and iterations per second."""
    return frame.assign(iterations_per_second=1e6 / (frame["us_per_lane_iteration"] * frame["lanes"]))


def time_gadgets(games: Sequence[tuple[str, str]], seconds: float, repeats: int = 3) -> list[dict[str, Any]]:
    """Times solves that take about `seconds / repeats` each, the fastest of `repeats`.

    The time of a solve of `FEW` iterations is subtracted: building, certificate and everything but
    iterations.
    """
    rows: list[dict[str, Any]] = []
    for game, cut in games:
        tree = enumerate_game(load(game))
        for lanes in LANES:
            blueprint = Policy.stack([Policy.dirichlet(tree, seed) for seed in range(lanes)])
            for name, gadget in GADGETS.items():
                solve = solver(tree, cut, blueprint, gadget)
                spent, iterations = time_iterations(solve, seconds / repeats, repeats)
                row = {"game": game, "cut": cut, "gadget": name, "lanes": lanes, "iterations": iterations}
                rows.append(row | {"us_per_lane_iteration": spent / iterations / lanes * 1e6})
    return rows


def solver(tree: HistoryTree, cut: str, blueprint: Policy, gadget: Any) -> Callable[[int], float]:
    """A function from a number of iterations to the seconds that `refine` takes."""
    bound = tree.payoff_range

    def solve(iterations: int) -> float:
        began = time.perf_counter()
        refine(
            tree,
            cut,
            blueprint,
            gadget,
            solver=Solver(iterations=iterations, progress=False),
            value=(-bound, bound),
        )
        return time.perf_counter() - began

    return solve


def time_iterations(solve: Callable[[int], float], seconds: float, repeats: int) -> tuple[float, int]:
    """Time of iterations in seconds, and their number.

    Args:
      solve: function from a number of iterations to seconds, including overhead.
      seconds: approximate time of a repetition.
      repeats: number of repetitions, of which the fastest counts.
    """
    solve(FEW)  # the first run compiles
    iterations, least = FEW, solve(FEW)
    while True:
        iterations *= 2
        spent = max(solve(FEW + iterations) - least, 1e-9)
        if spent > seconds / 2 or iterations >= MOST:
            break
    iterations = min(MOST, max(1, round(iterations * seconds / spent)))
    pairs = [(solve(FEW), solve(FEW + iterations)) for _ in range(repeats)]
    few, many = (min(times) for times in zip(*pairs, strict=True))
    return max(many - few, 1e-9), iterations


def main() -> None:
    """Prints the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each row, about")
    parser.add_argument("--smoke", action="store_true", help="Kuhn poker only")
    asked = parser.parse_args()
    json.dump(time_gadgets(SMOKE_GAMES if asked.smoke else GAMES, asked.seconds), sys.stdout)


if __name__ == "__main__":
    main()
