"""The one driver: everything here that regret matching solves is solved by `solve`.

Lanes go in chunks that fit memory and caches, on a CPU several chunks at a time, or spread over
devices. The compiled loop runs in parts, so that the host hears of it, looks at gaps and keeps
checkpoints; results do not depend on where it is cut. What comes out is what `finish` makes of a chunk:
usually strategies with their certificate, in float64.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.core.batch import Batch
from jaxgadget.core.cfr import State, largest_gap, run, run_to_gap, start
from jaxgadget.core.checkpoint import fingerprint, hold_checkpoint, load_checkpoint, save_checkpoint
from jaxgadget.core.devices import Placement
from jaxgadget.core.memory import Plan, fits_compiled, plan_batch, problem_shape
from jaxgadget.core.problem import Parts, Problem, with_regret_tolerance
from jaxgadget.core.regret import Rule
from jaxgadget.core.solver import Solver
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.compilation import compile_quickly, drop_many_programs
from jaxgadget.util.precision import precision

LOOK_SECONDS = 0.1
"""How often the main thread looks at its workers."""

REPORT_SECONDS = 0.5
"""How often the host hears of a solve."""

CHECKPOINT_SECONDS = 20.0
"""How much work may be lost, or `CHECKPOINT_SHARE` times what it takes to save it, if that is more."""

CHECKPOINT_SHARE = 10
"""Saving may take that part of the time: a state of half a gigabyte is not written every 20 s."""

CHECKED_SHARE = 0.25
"""Plans that take a smaller share of the memory there is are not held against the compiled loop."""

log = logging.getLogger(__name__)

Report = Callable[[int], None]
"""Progress callback; receives the number of completed iterations."""

Result = TypeVar("Result")


class Stopped(Exception):
    """Another chunk failed, or the user interrupted the solve."""


@dataclasses.dataclass(eq=False)
class Finished:
    """A chunk of lanes whose iterations are done.

    Attributes:
      problem: its games, in the precision of the solve; None once they are released.
      state: where the loop ended; None likewise.
      lanes: `[chunk]` their numbers; the last chunk is filled up with copies of the last lane.
      placement: the devices.
      in_float64: makes its games in float64.
      is_kept: whether the solve continues from the state.
    """

    problem: Problem
    state: State
    lanes: IntArray
    placement: Placement
    in_float64: Callable[[], Problem]
    is_kept: bool

    def release(self) -> tuple[Parts, Parts]:
        """Both players' sums of plans; the certificate needs the memory of all else that the loop had."""
        sums = self.state.strategy_sum
        if not self.is_kept:
            del self.problem, self.state
        return sums


Finish = Callable[[Finished], Any]
"""Makes a pytree of arrays, lanes last, of a finished chunk. Called in float64."""


class Solved(NamedTuple):
    """A batch that is solved.

    Attributes:
      outcome: what `finish` made, on the host, lanes last.
      iterations: `[lanes]` done.
      plan: how the lanes were split.
      state: where the loop ended, to go on from there; None if that was not asked for.
    """

    outcome: Any
    iterations: npt.NDArray[np.int64]
    plan: Plan
    state: State | None


def solve(
    batch: Batch,
    solver: Solver,
    finish: Finish,
    *,
    plan: Plan | None = None,
    state: State | None = None,
    keep_state: bool = False,
    report: Report | None = None,
) -> Solved:
    """Solves all lanes of a batch by regret matching.

    Args:
      batch: the games.
      solver: how; its checkpoint is a file if the lanes are one chunk, else a folder of files.
      finish: what to make of a chunk that is done.
      plan: how lanes are split; by default planned here.
      state: where to go on, for a batch in one chunk; its buffers are donated, so it can be used once.
      keep_state: whether to return where the loop ended.
      report: progress callback; receives the number of completed iterations, averaged over chunks; first
        called when everything is compiled.

    Raises:
      ValueError: if a checkpoint is of another solve or cannot be written, or the games do not fit.
    """
    rule = solver.rule
    if rule is None:
        raise ValueError("algorithm='lp': this runs regret matching; expected 'cfr+', for example")
    if any(np.ndim(leaf) for leaf in jax.tree.leaves(rule)):
        raise ValueError(f"algorithm={rule!r}: a rule has numbers for all lanes; expected no arrays in it")
    drop_many_programs(2)  # callers may solve many shapes without dropping programs in between
    if plan is None:
        plan = plan_batch(
            batch,
            solver.precision,
            solver.placement,
            rule=rule,
            memory_limit=solver.memory_limit,
            chunk=solver.chunk,
        )
        plan = checked_plan(batch, solver, plan)
    if plan.num_chunks > 1 and (keep_state or state is not None or batch.payoff_state is not None):
        raise ValueError(
            f"state of {batch.name}: {plan.num_chunks} chunks of lanes have none in common; expected one"
        )
    structure = (batch.sides, batch.payoff)
    with precision(solver.precision):
        # Where games are in the solve's precision, what is in another is so on purpose: a network's weights.
        same = batch.dtype == solver.precision
        shared = solver.placement.everywhere(structure if same else cast_arrays(structure, solver.precision))
    done = np.zeros(plan.num_chunks, np.int64)
    building, stop = threading.Lock(), threading.Event()
    resumed: list[int] = []

    def tell() -> None:
        if report is not None:
            report(int(done.mean()))

    def solve_chunk(chunk_idx: int) -> tuple[Any, int, State | None]:
        file = checkpoint_file(solver.checkpoint_path, batch.name, chunk_idx, plan)
        with hold_checkpoint(file):
            return solve_held(chunk_idx, file)

    def solve_held(chunk_idx: int, file: pathlib.Path | None) -> tuple[Any, int, State | None]:
        lanes = np.minimum(
            np.arange(chunk_idx * plan.chunk, (chunk_idx + 1) * plan.chunk), batch.num_lanes - 1
        )

        def problem_of(parts: Any, dtype: DTypeLike) -> Problem:
            sides, payoff = parts
            problem = dataclasses.replace(batch, sides=sides, payoff=payoff).problem(lanes)
            by_lane = cast_arrays((problem.terms, problem.regret_tolerance), dtype)
            with precision(dtype):
                terms, tolerance = solver.placement.by_lane(by_lane)
            return dataclasses.replace(problem, terms=terms, regret_tolerance=tolerance)

        with building:  # so that what two chunks need is compiled once
            begun = state if state is not None else batch.payoff_state
            loop = _Loop(problem_of(shared, solver.precision), rule, solver, file, begun)
            done[chunk_idx] = loop.iteration
            if file is not None and loop.iteration > 0 and not loop.is_done and not resumed:
                progress_at = (str(file), loop.iteration, solver.num_iterations)
                log.info("Going on from %r at iteration %d of %d.", *progress_at)
                resumed.append(chunk_idx)
            if plan.workers == 1:
                tell()
        for iteration in loop.run():
            done[chunk_idx] = iteration
            if stop.is_set():
                raise Stopped
            if plan.workers == 1:
                tell()

        def in_float64() -> Problem:
            with precision(np.float64):
                exact = solver.placement.everywhere(cast_arrays(structure, np.float64))
            return problem_of(exact, np.float64)

        last, final_state = loop.iteration, loop.state if keep_state else None
        with building, precision(np.float64):
            ended = Finished(loop.problem, loop.state, lanes, solver.placement, in_float64, keep_state)
            del loop
            outcome = jax.tree.map(np.array, finish(ended))  # copies: a CPU's views keep buffers
            return outcome, last, final_state

    tasks = [functools.partial(solve_chunk, chunk_idx) for chunk_idx in range(plan.num_chunks)]
    chunks = run_all(tasks, plan.workers, stop, tell)
    lanes = batch.num_lanes
    outcomes, done_by_chunk, states = zip(*chunks, strict=True)
    outcome = jax.tree.map(lambda *x: _join_lanes(x, lanes), *outcomes)
    iterations = np.repeat(done_by_chunk, plan.chunk)[:lanes]
    return Solved(outcome, iterations.astype(np.int64), plan, states[0])


def _join_lanes(parts: Sequence[Any], lanes: int) -> Any:
    """All chunks' lanes, without the copies."""
    return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))[..., :lanes]


def checked_plan(batch: Batch, solver: Solver, plan: Plan) -> Plan:
    """The plan, held against what the compiled loop says if it takes much of what there is."""
    if solver.rule is None or plan.devices > 1 or plan.available is None:
        return plan
    if plan.bytes < CHECKED_SHARE * plan.available or solver.chunk is not None:
        return plan
    problem = problem_shape(batch, plan.chunk, solver.precision)
    with precision(solver.precision):
        state = jax.eval_shape(start, problem, solver.rule, batch.payoff_state)
        last = jax.ShapeDtypeStruct((), np.int32)
        loop = run.lower(problem, state, last, rule=solver.rule).compile()
    return fits_compiled(plan, loop)


def checkpoint_file(
    checkpoint: pathlib.Path | None, name: str, chunk_idx: int, plan: Plan
) -> pathlib.Path | None:
    """The file of a chunk's checkpoints: of a file in one chunk itself, else in a folder."""
    if checkpoint is None:
        return None
    if plan.num_chunks == 1:
        return checkpoint / f"{name}.npz" if checkpoint.is_dir() else checkpoint
    return checkpoint / f"{name}-{chunk_idx + 1}-of-{plan.num_chunks}.npz"


def cast_arrays(tree: Any, dtype: DTypeLike) -> Any:
    """The same pytree with its floating-point arrays in another precision, changed on the host."""

    def cast(x: Any) -> Any:
        same = not np.issubdtype(x.dtype, np.floating) or x.dtype == dtype
        with np.errstate(over="ignore"):  # what overflows shows in the certificate
            return x if same else np.asarray(x).astype(dtype)

    return jax.tree.map(cast, tree)


@compile_quickly
def _begin(problem: Problem, rule: Rule, payoff_state: Any) -> tuple[Any, State]:
    """Regret tolerance, and the initial state."""
    complete = with_regret_tolerance(problem)
    return complete.regret_tolerance, start(complete, rule, payoff_state)


class _Loop:
    """The compiled loop on a chunk of lanes, in parts.

    Attributes:
      problem: the games.
      state: where it stands.
    """

    def __init__(
        self,
        problem: Problem,
        rule: Rule,
        solver: Solver,
        checkpoint: pathlib.Path | None,
        begun: State | Any,
    ):
        """Compiles everything; finds the checkpoint if there is one.

        Args:
          problem: the games, regrets that count as none still 0.
          rule: the rule.
          solver: settings of the solve.
          checkpoint: the file.
          begun: where to go on, or the payoff's own state in the beginning.
        """
        self._rule, self._solver, self._checkpoint = rule, solver, checkpoint
        with precision(solver.precision):
            payoff_state = begun.payoff if isinstance(begun, State) else begun
            tolerance, first = solver.placement.by_lane(_begin(problem, rule, payoff_state))
            self.problem = dataclasses.replace(problem, regret_tolerance=tolerance)
            self.state: State = begun if isinstance(begun, State) else first
            self._key = "" if checkpoint is None else self._find(checkpoint, first)
            self._gap = float("inf")
            if solver.max_gap is not None and self.iteration > 0 and self._at_a_look:
                self._gap = float(largest_gap(self.problem, self.state))
            # Nothing to do, but compiled: so the first part's time tells how large the next may be.
            self._advance(self.iteration)

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return int(self.state.iteration)

    @property
    def is_done(self) -> bool:
        """True if all iterations are done, or the gap is small enough."""
        target = self._solver.max_gap
        return self.iteration >= self._solver.num_iterations or (target is not None and self._gap <= target)

    @property
    def _at_a_look(self) -> bool:
        """True if an uninterrupted run would compute the gap here."""
        return self.iteration % self._solver.check_interval == 0

    def _find(self, checkpoint: pathlib.Path, first: State) -> str:
        """Goes on from the checkpoint, if there is one; what it must match."""
        key = fingerprint(self.problem, self._rule)
        saved = load_checkpoint(checkpoint, key, first)
        if saved is not None:
            self.state = self._solver.placement.by_lane(saved)
        if self.iteration > self._solver.num_iterations:
            raise ValueError(
                f"iterations={self._solver.num_iterations}: checkpoint {os.fspath(checkpoint)!r} has "
                f"{self.iteration} already; ask for at least as many, or choose another file"
            )
        return key

    def run(self) -> Iterator[int]:
        """Iterates; yields the number of iterations done after every part."""
        solver, saved, between = self._solver, time.perf_counter(), CHECKPOINT_SECONDS
        target = solver.max_gap
        # Parts begin where the gap is looked at, so that the result does not depend on them.
        part = 1 if target is None else solver.check_interval - self.iteration % solver.check_interval
        while not self.is_done:
            began = time.perf_counter()
            self._advance(self.iteration + part)
            seconds = time.perf_counter() - began
            yield self.iteration
            if self._checkpoint is not None and time.perf_counter() - saved > between:
                began = time.perf_counter()
                save_checkpoint(self._checkpoint, self._key, self.state)
                saved = time.perf_counter()
                between = max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * (saved - began))
            if target is not None:
                part = max(part, solver.check_interval) // solver.check_interval * solver.check_interval
            if seconds < REPORT_SECONDS / 2:
                part *= 2
        if self._checkpoint is not None:
            save_checkpoint(self._checkpoint, self._key, self.state)

    def _advance(self, until: int) -> None:
        solver, before = self._solver, self.iteration
        last = np.asarray(min(until, solver.num_iterations), np.int32)
        with precision(solver.precision):
            if solver.max_gap is None:
                state = run(self.problem, self.state, last, rule=self._rule)
                self.state = jax.block_until_ready(solver.placement.by_lane(state))
                return
            goal = np.asarray(solver.max_gap, solver.precision)
            how = {"rule": self._rule, "check_every": solver.check_interval}
            state, gap = run_to_gap(self.problem, self.state, last, goal, **how)
            self.state = solver.placement.by_lane(state)
            if self.iteration > before:
                self._gap = float(gap)


def run_all(
    tasks: Sequence[Callable[[], Result]],
    workers: int,
    stop: threading.Event,
    look: Callable[[], None],
) -> list[Result]:
    """Runs tasks, several at a time, and returns their results in order.

    Args:
      tasks: what to do.
      workers: how many threads; with one, everything runs in the caller's.
      stop: set if a task fails or the main thread is interrupted; tasks look at it and end early.
      look: called now and then while threads work.
    """
    if workers == 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(workers, thread_name_prefix="jaxgadget") as pool:
        futures = [pool.submit(_unless_stopped, task, stop) for task in tasks]
        try:
            pending: set[Future[Any]] = set(futures)
            while pending:
                ended, pending = wait(pending, timeout=LOOK_SECONDS, return_when=FIRST_EXCEPTION)
                for future in ended:
                    future.result()
                look()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _unless_stopped(task: Callable[[], Result], stop: threading.Event) -> Any:
    """A task's result. The thread of a failed task starts the next one before it can be cancelled."""
    if stop.is_set():
        return None
    try:
        return task()
    except BaseException:
        stop.set()
        raise
