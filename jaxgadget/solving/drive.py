"""Runs the compiled loop from the host: progress, checkpoints, time, precision.

A solve is cut into chunks of iterations; the result does not depend on where.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.kernels.cfr import State, largest_gap, run, run_to_gap, start
from jaxgadget.kernels.problem import Problem
from jaxgadget.kernels.regret import Rule
from jaxgadget.solving.checkpoint import fingerprint, load_checkpoint, save_checkpoint
from jaxgadget.solving.devices import beside
from jaxgadget.util.files import check_writable

MOST_ITERATIONS = 2**31 - 1
"""What the device's counter holds."""

CHUNK_SECONDS = 0.5
"""How often the host hears of a solve."""

CHECKPOINT_SECONDS = 20.0
"""How much work may be lost."""

Report = Callable[[int], None]
"""Is told the number of iterations done."""


def precision(dtype: DTypeLike) -> contextlib.AbstractContextManager[Any]:
    """Lets JAX compute in `dtype` inside the block, whatever its global flag says."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def check_dtype(dtype: object) -> np.dtype[Any]:
    """float32 or float64; ValueError otherwise."""
    for name in ("float32", "float64"):
        if dtype == name or dtype is getattr(np, name) or dtype == np.dtype(name):
            return np.dtype(name)
    raise ValueError(f"dtype={dtype!r}: expected 'float32' or 'float64'")


def check_iterations(iterations: object, name: str = "iterations") -> int:
    """A whole number from 1 to what the device counts to; ValueError otherwise."""
    count = int(iterations) if isinstance(iterations, int | np.integer) else 0
    if isinstance(iterations, bool):
        count = 0
    if not 1 <= count <= MOST_ITERATIONS:
        raise ValueError(f"{name}={iterations!r}: expected a whole number >= 1, at most {MOST_ITERATIONS}")
    return count


def check_time(time_limit: object) -> float | None:
    """None or a positive number of seconds; ValueError otherwise."""
    if time_limit is None:
        return None
    seconds = float(time_limit) if isinstance(time_limit, float | int) else -1.0
    if isinstance(time_limit, bool) or not seconds > 0:
        raise ValueError(f"time_limit={time_limit!r}: expected a positive number of seconds")
    return seconds


def drive(
    problem: Problem,
    rule: Rule,
    *,
    iterations: int,
    target_gap: float | None = None,
    check_every: int = 100,
    checkpoint: str | os.PathLike[str] | None = None,
    state: State | None = None,
    report: Report | None = None,
) -> State:
    """Runs CFR until `iterations` are done or the gap is small enough.

    Args:
      problem: the games; call inside `precision(problem.dtype)`.
      rule: the regret-matching rule.
      iterations: stop after that many, counted from the very start.
      target_gap: stop when no subgame of any lane has a larger gap; looked at after every
        `check_every` iterations.
      check_every: iterations between two looks at the gap.
      checkpoint: file to resume from and to save to.
      state: where to go on, if there is no checkpoint yet; needed for a payoff that keeps a state.
      report: is told the number of iterations done, first when everything is compiled.

    Raises:
      ValueError: if a number is out of range, or the checkpoint is of another problem or rule,
        or cannot be written.
    """
    check_limits(iterations, target_gap, check_every)
    key = ""
    if checkpoint is not None:
        check_writable(checkpoint)
        key = fingerprint(problem, rule)
        begin = jax.eval_shape(start, problem, rule) if state is None else state
        saved = load_checkpoint(checkpoint, key, begin)
        state = state if saved is None else saved
        if state is not None and int(state.iteration) > iterations:
            raise ValueError(
                f"iterations={iterations}: checkpoint {os.fspath(checkpoint)!r} has {int(state.iteration)} "
                "already; ask for at least as many, or choose another file"
            )
    loop = _Loop(problem, rule, iterations, target_gap, check_every, state)
    if report is not None:
        report(int(loop.state.iteration))
    last = time.perf_counter()
    for done in loop.chunks():
        if report is not None:
            report(done)
        if checkpoint is not None and time.perf_counter() - last > CHECKPOINT_SECONDS:
            save_checkpoint(checkpoint, key, loop.state)
            last = time.perf_counter()
    if checkpoint is not None:
        save_checkpoint(checkpoint, key, loop.state)
    return loop.state


def check_limits(iterations: object, target_gap: object, check_every: object) -> None:
    """ValueError unless all three are in range."""
    check_iterations(iterations)
    check_iterations(check_every, "check_every")
    if target_gap is not None and not (isinstance(target_gap, float | int) and target_gap >= 0):
        raise ValueError(f"target_gap={target_gap!r}: expected a number >= 0, in units of the payoff")


class _Loop:
    """A solve in chunks of iterations."""

    def __init__(
        self,
        problem: Problem,
        rule: Rule,
        iterations: int,
        target_gap: float | None,
        check_every: int,
        state: State | None,
    ):
        self._problem, self._rule = problem, rule
        self._iterations, self._target, self._check_every = iterations, target_gap, check_every
        self._goal = None if target_gap is None else jax.device_put(np.asarray(target_gap, problem.dtype))
        resumed = state is not None and int(state.iteration) > 0
        self.state = beside(problem, start(problem, rule) if state is None else state)
        self._gap = float("inf")
        if target_gap is not None and resumed:
            self._gap = float(largest_gap(problem, self.state))
        # Nothing to do, but compiled: so the first chunk's time tells how large the next may be.
        self._advance(int(self.state.iteration))

    def _advance(self, until: int) -> None:
        last = jax.device_put(np.asarray(min(until, self._iterations), np.int32))
        if self._goal is None:
            state = run(self._problem, self.state, last, rule=self._rule)
            self.state = jax.block_until_ready(beside(self._problem, state))
            return
        before = int(self.state.iteration)
        state, gap = run_to_gap(
            self._problem, self.state, last, self._goal, rule=self._rule, check_every=self._check_every
        )
        self.state = beside(self._problem, state)
        if int(self.state.iteration) > before:
            self._gap = float(gap)

    def chunks(self) -> Iterator[int]:
        """Yields the number of iterations done after every chunk."""
        done = int(self.state.iteration)
        # Chunks begin where the gap is looked at, so that the result does not depend on them.
        chunk = 1 if self._target is None else self._check_every - done % self._check_every
        while done < self._iterations and not (self._target is not None and self._gap <= self._target):
            before = time.perf_counter()
            self._advance(done + chunk)
            done = int(self.state.iteration)
            yield done
            fast = time.perf_counter() - before < CHUNK_SECONDS / 2
            if self._target is not None:
                chunk = max(chunk, self._check_every) // self._check_every * self._check_every
            chunk = 2 * chunk if fast else chunk
