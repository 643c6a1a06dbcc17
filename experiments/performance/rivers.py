"""Rivers of hold'em on different boards, in one call."""

from __future__ import annotations

import functools
import time
from typing import Any

import jax
import numpy as np
import pandas as pd

import jaxgadget as jg
from experiments.performance.model import make_spots
from experiments.study import Settings

NAME = "rivers"
COUNTS = (1, 100, 1000)
ACCELERATED = (*COUNTS, 10_000)
"""Numbers of rivers on an accelerator."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every number of rivers."""
    counts = COUNTS if jax.default_backend() == "cpu" else ACCELERATED
    keys = [{"rivers": count} for count in settings.pick(counts, (2,))]
    return settings.gather(NAME, keys, functools.partial(measure, iterations=settings.pick(1000, 3)))


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds of solving rivers on random boards, by DCFR in float32.

    `spots` makes the spots, `one` is a call with one iteration, which compiles and has the certificates, and
    `all` is a call with all of them. `exploitability`: the largest, as a share of the pot.
    """
    return frame


def measure(key: dict[str, Any], iterations: int) -> pd.DataFrame:
    """A row."""
    began = time.perf_counter()
    spots = make_spots(key["rivers"])
    row: dict[str, Any] = {**key, "iterations": iterations, "spots": time.perf_counter() - began}
    for name, number in (("one", 1), ("all", iterations)):
        began = time.perf_counter()
        solver = jg.Solver(algorithm="dcfr", iterations=number, dtype="float32", progress=False)
        solved = jg.solve_spots(spots, solver=solver)
        row[name] = time.perf_counter() - began
    row["exploitability"] = float(np.max([each.exploitability / each.spot.pot for each in solved]))
    return pd.DataFrame([row])
