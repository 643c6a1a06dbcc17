"""Subgames solved and certified per second, with many ranges at once and one at a time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import tree_of
from experiments.continuation.common import cases
from experiments.study import Settings
from jaxgadget import Forest, cut, draw_ranges
from jaxgadget.core.solver import Solver
from jaxgadget.learn.range_training import normalised
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.values.solved import RangeSolver

NAME = "speed"
GAP = 1e-3
"""Of the payoff range."""

LANES, SMOKE_LANES = (1, 16, 256), (1, 4)
TURNS = 3
ALONE, SMOKE_ALONE = 8, 2
"""Public states that are solved one at a time, spread over all."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut and number of pairs of ranges; medians of several turns, without compilation.

    A call solves one subgame for one pair of ranges, or all below the cut for every pair.
    """

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        tree = tree_of(key["game"])
        forest, rows = build_forest(tree, key["cut"]), list[dict[str, Any]]()
        options = Solver(
            algorithm="cfr+", iterations=1000, target_gap=GAP * tree.payoff_range, check_every=25
        )
        seconds, gaps = list[float](), list[float]()
        for state in _spread(forest.num_subgames, settings.pick(ALONE, SMOKE_ALONE)):
            turns, gap = _solve(build_forest(tree, _alone(forest, state)), 1, options)
            seconds.append(float(np.median(turns)))
            gaps.append(gap)
        rate = len(seconds) / sum(seconds)
        rows.append(_row(key, forest, "one subgame", 1, rate, max(gaps) / tree.payoff_range))
        for lanes in settings.pick(LANES, SMOKE_LANES):
            turns, gap = _solve(forest, lanes, options)
            rate = lanes * forest.num_subgames / float(np.median(turns))
            rows.append(_row(key, forest, "all subgames", lanes, rate, gap / tree.payoff_range))
        return pd.DataFrame(rows)

    return settings.gather(NAME, [{"game": game, "cut": cut} for game, cut in cases(settings)], measure)


def _solve(forest: Forest, lanes: int, options: Solver) -> tuple[list[float], float]:
    """Seconds of every turn after the first, which compiles, and the largest gap of the last."""
    solver, seconds, gap = RangeSolver(forest, options), list[float](), 0.0
    for turn in range(TURNS + 1):
        ranges = normalised(forest, draw_ranges(forest, lanes, seed=turn))
        began = time.perf_counter()
        solved = solver.solve(ranges)
        seconds.append(time.perf_counter() - began)
        gap = float(solved.gap.max())
    return seconds[1:], gap


def _spread(count: int, most: int) -> list[int]:
    """At most `count` indices, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def _alone(forest: Forest, state: int) -> Cut:
    """A cut with one public state."""
    roots = forest.cut.roots[forest.cut.subgame == state]
    return cut(forest.tree, lambda _: roots)


def _row(
    key: dict[str, Any], forest: Forest, call: str, lanes: int, rate: float, gap: float
) -> dict[str, Any]:
    sizes = {"call": call, "lanes": lanes, "subgames": forest.num_subgames}
    return key | sizes | {"per_second": rate, "largest_gap": gap}


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Subgames per second, until gaps are at most a thousandth of the payoff range or after 1,000 iterations.

    Certified in float64; `largest_gap` is that of the last turn, as a share of the payoff range. Every turn
    draws new ranges. One subgame: a call solves one public state for one pair of ranges; eight public states,
    each compiled once. Times: the rate divided by that of one subgame.
    """
    one = frame[frame["call"] == "one subgame"].set_index(["game", "cut"])["per_second"]
    keys = pd.MultiIndex.from_frame(frame[["game", "cut"]])
    return frame.assign(times=frame["per_second"] / one.reindex(keys).to_numpy())
