"""Flops of hold'em in full: time of an iteration, and to an exploitability of 0.5 % of the pot."""

from __future__ import annotations

import functools
import time
from typing import Any

import jax
import pandas as pd

import jaxgadget as jg
from experiments.holdem.flops import ITERATIONS, TARGET, flop
from experiments.study import Settings

NAME = "flops"
FLOPS = (("two-tone", "narrow"), ("two-tone", "full"))
"""Boards and ranges."""

FEW, MORE = 2, 12
"""Iterations of two calls, whose difference is the time of an iteration."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every flop."""
    keys = [{"board": board, "ranges": ranges} for board, ranges in settings.pick(FLOPS, FLOPS[:1])]
    return settings.gather(NAME, keys, functools.partial(measure, smoke=settings.smoke))


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds of four calls, one after the other, by DCFR in float32.

    `first` compiles; `few` has 2 iterations and `more` 12; `solved` ends at an exploitability of 0.5 % of the
    pot and compiles the check of the gap. All include the certificate. `exploitability` and `ev` of the
    first player are shares of the pot.
    """
    return frame.assign(iteration=(frame["more"] - frame["few"]) / (MORE - FEW))


def measure(key: dict[str, Any], *, smoke: bool) -> pd.DataFrame:
    """A row."""
    spot, row = flop(key["board"], key["ranges"], smoke=smoke), dict(key)
    most = 20 if smoke else ITERATIONS
    for name, iterations, target in (
        ("first", FEW, None),
        ("few", FEW, None),
        ("more", MORE, None),
        ("solved", most, f"{200 * TARGET}%"),
    ):
        solver = jg.Solver(
            algorithm="dcfr", iterations=iterations, dtype="float32", target_gap=target, progress=False
        )
        began = time.perf_counter()
        (solution,) = jg.solve_spots([spot], solver=solver)
        row[name] = time.perf_counter() - began
        row |= {"iterations": solution.iterations, "exploitability": solution.exploitability / spot.pot}
        row["ev"] = solution.ev[0] / spot.pot
    stats = jax.local_devices()[0].memory_stats() or {}
    return pd.DataFrame([row | {"peak_bytes": stats.get("peak_bytes_in_use", float("nan"))}])
