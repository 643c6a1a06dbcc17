"""The programs of the model on the device itself: time of an iteration, kernels and their durations.

Kernels are those that JAX's profiler records. The loop then returns to the host after every iteration
(`host`), as launches inside a CUDA graph need not be recorded; times are those of the default form.
"""

from __future__ import annotations

import collections
import functools
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

from experiments.performance import model
from experiments.performance.gadgets import time_iterations
from experiments.study import Settings
from jaxgadget.bench.bench import iterations_within, whole_game_runner
from jaxgadget.core.loops import LOOP_FORM, LoopForm
from jaxgadget.core.regret import CFR_PLUS
from jaxgadget.core.solver import Solver
from jaxgadget.games.registry import load
from jaxgadget.tree.history import enumerate_game
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.tree.whole import sequence_form

NAME = "programs"

REPEATS = 3
"""Turns, of which the fastest counts."""

TRACED = (8, 40)
"""Iterations of two traced calls, whose difference counts."""

LARGEST = 12
"""Kernels that are listed by name."""


class Kernels(NamedTuple):
    """Kernels and copies that a device executed.

    Attributes:
      count: number of kernels and copies, by name.
      seconds: their durations.
    """

    count: collections.Counter[str]
    seconds: collections.Counter[str]


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every whole game, then for every call of `model.CALLS`."""
    if settings.smoke:
        keys = [{"program": "kuhn_poker, 4 lanes", "game": "kuhn_poker", "lanes": 4}]
    else:
        keys = [
            {"program": model.name_of(game, lanes), "game": game, "lanes": lanes}
            for game, counts in model.LANES.items()
            for lanes in counts
        ]
    measure = functools.partial(_whole_game, seconds=settings.pick(1.0, 0.02))
    games = settings.gather(NAME, keys, measure)
    if settings.smoke:
        return games
    calls = settings.gather(NAME, [{"program": name} for name in model.CALLS], _call)
    return pd.concat([games, calls], ignore_index=True)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Microseconds of an iteration; kernels and copies of the device, and the sum of their durations."""
    return frame.drop(columns="largest", errors="ignore")


@functools.cache
def form_of(game: str) -> SequenceForm:
    """The sequence form of a game."""
    return sequence_form(enumerate_game(load(game)))


def fastest(advance: Callable[[int], None], seconds: float) -> float:
    """Microseconds of an iteration, in the fastest of `REPEATS` turns.

    Args:
      advance: runs a number of iterations.
      seconds: approximate duration of all turns.
    """
    iterations = iterations_within(advance, seconds / REPEATS)
    turns: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        advance(iterations)
        turns.append(time.perf_counter() - began)
    return min(turns) / iterations * 1e6


def _whole_game(key: dict[str, Any], seconds: float) -> pd.DataFrame:
    def build(form: LoopForm) -> Callable[[int], None]:
        return whole_game_runner(
            form_of(key["game"]),
            lanes=key["lanes"],
            dtype=np.dtype(np.float32),
            rule=CFR_PLUS,
            loop_form=form,
        ).advance

    row = {**key, "us": fastest(build(LOOP_FORM), seconds)}
    if jax.default_backend() != "cpu":
        row |= _kernels_of(build("host"))
    return pd.DataFrame([row])


def _call(key: dict[str, Any]) -> pd.DataFrame:
    """A call with several programs: its time with more iterations, less that with few."""
    call = model.CALLS[key["program"]]()

    def solve(iterations: int) -> float:
        began = time.perf_counter()
        call(Solver(iterations=iterations, dtype="float32", progress=False))
        return time.perf_counter() - began

    spent, iterations = time_iterations(solve, 1.0, 2)
    return pd.DataFrame([{**key, "us": spent / iterations * 1e6}])


def _kernels_of(advance: Callable[[int], None]) -> dict[str, Any]:
    """Columns on the kernels of an iteration."""
    advance(1)
    few, more = (trace(functools.partial(advance, count)) for count in TRACED)
    iterations = TRACED[1] - TRACED[0]
    count = {name: (more.count[name] - few.count[name]) / iterations for name in more.count}
    us = {name: (more.seconds[name] - few.seconds[name]) / iterations * 1e6 for name in more.count}
    copies = [name for name in count if name.lower().startswith(("memcpy", "memset"))]
    largest = sorted(us, key=lambda name: -us[name])[:LARGEST]
    return {
        "kernels": sum(count.values()) - sum(count[name] for name in copies),
        "copies": sum(count[name] for name in copies),
        "device_us": sum(us.values()),
        "largest": "; ".join(f"{name} {count[name]:.2f} {us[name]:.2f}" for name in largest),
    }


def trace(call: Callable[[], None]) -> Kernels:
    """Kernels and copies that GPUs execute during a call, as recorded by JAX's profiler."""
    ran = Kernels(collections.Counter(), collections.Counter())
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            call()
        for path in pathlib.Path(folder).rglob("*.xplane.pb"):
            for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
                for line in plane.lines if plane.name.startswith("/device:GPU") else ():
                    for event in line.events if line.name.startswith("Stream") else ():
                        ran.count[event.name] += 1
                        ran.seconds[event.name] += event.duration_ns * 1e-9
    return ran
