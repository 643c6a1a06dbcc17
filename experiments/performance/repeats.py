"""Results bit for bit: the same call twice, and a digest to compare with other processes and machines."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

import jaxgadget as jg
from experiments.holdem.flops import flop
from experiments.performance.model import LEDUC, SOLVER, make_spots, refined
from experiments.study import Settings
from jaxgadget.holdem.solution import SpotSolution

NAME = "repeats"
ITERATIONS = 200
"""Iterations of every solve; a tenth on a flop."""

Result = list[np.ndarray[Any, Any]]


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every call."""
    keys = [{"call": name} for name in settings.pick(tuple(CALLS), ("Leduc", "refined"))]
    measure = functools.partial(repeat, iterations=settings.pick(ITERATIONS, 3))
    return settings.gather(NAME, keys, measure)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """`same`: two calls in one process give the same bits, of as many `numbers`.

    A process that compiles anew (with another folder in `JAX_COMPILATION_CACHE_DIR`) may choose other kernels
    for matrix products, and then has another digest; with `XLA_FLAGS=--xla_gpu_autotune_level=0` it has not.
    """
    return frame


def repeat(key: dict[str, Any], iterations: int) -> pd.DataFrame:
    """A row."""
    call = CALLS[key["call"]]
    solver = jg.Solver(iterations=iterations, dtype="float32", progress=False)
    first, second = call(solver), call(solver)
    same = all(np.array_equal(one, other, equal_nan=True) for one, other in zip(first, second, strict=True))
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in first)).hexdigest()[:16]
    numbers = sum(x.size for x in first)
    return pd.DataFrame([{**key, "same": same, "numbers": numbers, "digest": digest}])


def _game(solver: jg.Solver) -> Result:
    return list(jg.solve(jg.enumerate_game(jg.load(LEDUC)), solver=solver).policy.probabilities)


def _refined(solver: jg.Solver) -> Result:
    return [x for x in vars(refined()(solver)).values() if isinstance(x, np.ndarray)]


def _spots(spots: Sequence[jg.Spot], solver: jg.Solver) -> Result:
    return [x for solution in jg.solve_spots(spots, solver=solver) for x in _numbers(solution)]


def _numbers(solution: SpotSolution) -> Result:
    return [*solution.probabilities, np.array(solution.ev), *map(np.nan_to_num, solution.hand_ev)]


def _resolved(solver: jg.Solver) -> Result:
    spots = make_spots(1)
    blueprints = jg.solve_spots(spots, solver=SOLVER)
    gadgets = (jg.Resolving(), jg.MaxMargin())
    refinements = jg.refine_spots(spots, gadgets, blueprints=blueprints, solver=solver)
    return [refinements.table.select_dtypes("number").to_numpy()]


def _flop(solver: jg.Solver) -> Result:
    spot = flop("two-tone", "narrow", smoke=False)
    return _spots([spot], jg.Solver(iterations=ITERATIONS // 10, dtype=solver.dtype, progress=False))


CALLS: dict[str, Callable[[jg.Solver], Result]] = {
    "Leduc": _game,
    "refined": _refined,
    "64 rivers": lambda solver: _spots(make_spots(64), solver),
    "a river re-solved": _resolved,
    "a flop": _flop,
}
"""Functions that return the arrays of a result, by name."""
