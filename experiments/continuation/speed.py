"""How many subgames are solved and certified a second, many ranges at once and one at a time."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd

from experiments.continuation.common import cases, tree_of
from experiments.study import Settings
from jaxgadget import draw_ranges, solve_ranges
from jaxgadget.learn.range_training import normalised
from jaxgadget.tree.forest import build_forest

NAME = "speed"
GAP = 1e-3
"""Of the payoff range."""

LANES, SMOKE_LANES = (1, 16, 256), (1, 4)
TURNS = 3


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut and number of pairs of ranges; medians of several turns, compiled before."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        tree = tree_of(key["game"])
        forest, rows = build_forest(tree, key["cut"]), list[dict[str, Any]]()
        for lanes in settings.pick(LANES, SMOKE_LANES):
            seconds: list[float] = []
            for turn in range(TURNS + 1):
                ranges = normalised(forest, draw_ranges(forest, lanes, seed=turn))
                began = time.perf_counter()
                solved = solve_ranges(
                    forest, ranges, iterations=1000, target_gap=GAP * tree.payoff_range, progress=False
                )
                seconds.append(time.perf_counter() - began)
            rate = solved.num_solved / float(np.median(seconds[1:]))
            sizes = {"lanes": lanes, "subgames": forest.num_subgames}
            gap = float(solved.gap.max()) / tree.payoff_range
            rows.append(key | sizes | {"per_second": rate, "largest_gap": gap})
        return pd.DataFrame(rows)

    return settings.gather(NAME, [{"game": game, "cut": cut} for game, cut in cases(settings)], measure)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Subgames a second, until gaps are at most a thousandth of the payoff range or after 1,000 iterations.

    Certified in float64; `largest_gap` is that of the last turn, of the payoff range. Ranges are drawn anew
    in every turn. Times: how often as many a second as with one pair of ranges.
    """
    one = frame[frame["lanes"] == 1].set_index(["game", "cut"])["per_second"]
    keys = pd.MultiIndex.from_frame(frame[["game", "cut"]])
    return frame.assign(times=frame["per_second"] / one.reindex(keys).to_numpy())
