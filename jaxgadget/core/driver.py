"""The driver of all solves by regret matching.

Lanes are solved in chunks that fit memory and caches: several chunks at a time on a CPU, or each chunk split
over the devices. The compiled loop runs in parts, between which the host reports progress, checks gaps and
saves checkpoints; results do not depend on the parts. `finish` turns a solved chunk into its result, usually
strategies with their certificate, in float64.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import math
import os
import pathlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.core.batch import Batch
from jaxgadget.core.cfr import State, run, run_to_gap, start, stop
from jaxgadget.core.checkpoint import (
    fingerprint,
    hold_checkpoint,
    load_checkpoint,
    load_stopped,
    save_checkpoint,
)
from jaxgadget.core.devices import HOME, AbstractDevice, Device, Placement
from jaxgadget.core.memory import Plan, fits_compiled, plan_batch, problem_shape
from jaxgadget.core.payoff import NestedPayoff, Payoff
from jaxgadget.core.problem import Parts, Problem, Side, with_regret_tolerance
from jaxgadget.core.regret import Rule
from jaxgadget.core.solver import Solver
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.compilation import compiled, drop_many_programs
from jaxgadget.util.memory import host_memory, megabytes
from jaxgadget.util.precision import precision

POLL_SECONDS = 0.1
"""Seconds between two polls of the workers by the main thread."""

REPORT_SECONDS = 0.5
"""Target duration of a part of the loop, which is the time between progress reports, in seconds."""

CHECKPOINT_SECONDS = 20.0
"""Seconds between two checkpoints, or `CHECKPOINT_SHARE` × the time of saving one if that is longer."""

CHECKPOINT_SHARE = 10
"""Saving takes at most 1 / `CHECKPOINT_SHARE` of the time: a state of half a gigabyte is not written every 20
s."""

ABSTRACT_ITERATIONS = 1
"""Iterations of a solve on an abstract device, where only the programs matter."""

CHECKED_SHARE = 0.25
"""Share of the available memory from which a plan is checked against the compiled loop."""

log = logging.getLogger(__name__)

Report = Callable[[int], None]
"""Progress callback; receives the number of completed iterations."""

OnCheck = Callable[[float], None]
"""Callback; receives the largest gap of a chunk's lanes at a check, in units of the payoff."""

Result = TypeVar("Result")


class Stopped(Exception):
    """Another chunk failed, or the user interrupted the solve."""


@dataclasses.dataclass(eq=False)
class Finished:
    """A chunk of lanes whose iterations are completed.

    Attributes:
      problem: the chunk's games, in the precision of the solve; deleted by `release`.
      state: final state of the loop; deleted by `release`.
      lanes: `[chunk]` indices of the chunk's lanes; the last chunk is padded with copies of the last lane.
      placement: the devices.
      in_float64: function that builds the chunk's games in float64.
      is_kept: True if the solve returns the state.
    """

    problem: Problem
    state: State
    lanes: IntArray
    placement: Placement
    in_float64: Callable[[], Problem]
    is_kept: bool

    def release(self) -> tuple[tuple[Parts, Parts], Any]:
        """Returns both players' sums of plans, and the state of a `NestedPayoff`.

        The loop's other memory is freed for the certificate.
        """
        sums = self.state.strategy_sum
        payoff_state = self.state.payoff if isinstance(self.problem.payoff, NestedPayoff) else None
        if not self.is_kept:
            del self.problem, self.state
        return sums, payoff_state


Finish = Callable[[Finished], Any]
"""Function that turns a finished chunk into a pytree of arrays, lanes last; called in float64."""


class Solved(NamedTuple):
    """A solved batch.

    Attributes:
      outcome: result of `finish`, on the host, lanes last.
      iterations: `[lanes]` number of iterations of each lane; a lane may reach the target gap before others.
      plan: split of the lanes.
      state: final state of the loop, from which to continue; None unless `keep_state`.
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
    on_check: OnCheck | None = None,
) -> Solved:
    """Solves all lanes of a batch by regret matching.

    Args:
      batch: the games.
      solver: settings; the checkpoint is a file if the lanes are one chunk, otherwise a folder of files.
      finish: turns a solved chunk into its result.
      plan: split of the lanes; by default planned here.
      state: the state to continue from, for a batch in one chunk; its buffers are donated, so it can be used
        only once.
      keep_state: return the final state.
      report: progress callback; receives the number of completed iterations, averaged over chunks; first
        called after compilation.
      on_check: called with the largest gap of a chunk before `report`, after each check of the gap.

    Raises:
      ValueError: if a checkpoint is of another solve or cannot be written, or the games do not fit in memory.
    """
    rule = solver.rule
    if rule is None:
        raise ValueError("algorithm='lp': expected a regret-matching rule here, such as 'cfr+'")
    if any(np.ndim(leaf) for leaf in jax.tree.leaves(rule)):
        raise ValueError(f"algorithm={rule!r}: expected a rule with numbers that all lanes share, not arrays")
    with solver.placement.exclusive():
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
                f"state of {batch.name}: expected a single chunk of lanes; there are {plan.num_chunks} "
                "chunks, each with its own state"
            )
        chunks = _ChunkedSolve(
            batch,
            solver,
            rule,
            plan,
            finish,
            initial=batch.payoff_state if state is None else state,
            keep_state=keep_state,
            report=report,
            on_check=on_check,
        )
        tasks = [functools.partial(chunks.solve, chunk_idx) for chunk_idx in range(plan.num_chunks)]
        solved = run_all(tasks, plan.workers, chunks.stop, chunks.report_progress)
        outcomes, iterations, states = zip(*solved, strict=True)

        def join_lanes(*parts: Any) -> Any:
            joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
            return joined[..., : batch.num_lanes]  # without the copies in the last chunk

        outcome = jax.tree.map(join_lanes, *outcomes)
        return Solved(outcome, join_lanes(*iterations), plan, states[0])


def checked_plan(batch: Batch, solver: Solver, plan: Plan) -> Plan:
    """The plan, checked against the compiled loop if it takes much of the available memory."""
    if solver.placement.is_abstract:
        memory = host_memory()
        if memory is not None and plan.bytes > memory:
            raise ValueError(
                f"{batch.name}: {plan!r} is computed on this host, where {megabytes(memory)} is available; "
                "expected fewer lanes"
            )
        return plan
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
    """File of a chunk's checkpoints: the given file for a single chunk, otherwise one in the given folder."""
    if checkpoint is None:
        return None
    if plan.num_chunks == 1:
        return checkpoint / f"{name}.npz" if checkpoint.is_dir() else checkpoint
    return checkpoint / f"{name}-{chunk_idx + 1}-of-{plan.num_chunks}.npz"


def cast_arrays(tree: Any, dtype: DTypeLike) -> Any:
    """The pytree with its floating-point arrays cast to another precision on the host."""

    def cast(x: Any) -> Any:
        if not np.issubdtype(x.dtype, np.floating) or x.dtype == dtype:
            return x
        with np.errstate(over="ignore"):  # the certificate reveals overflows
            return np.asarray(x).astype(dtype)

    return jax.tree.map(cast, tree)


@compiled(quick=True)
def _begin(problem: Problem, rule: Rule, payoff_state: Any) -> tuple[Any, State]:
    """Computes the regret tolerance and the initial state."""
    complete = with_regret_tolerance(problem)
    return complete.regret_tolerance, start(complete, rule, payoff_state)


class _Loop:
    """The compiled loop on a chunk of lanes, run in parts.

    Attributes:
      problem: the games.
      state: the current state.
      gap: largest gap of all lanes at the last check; NaN before the first.
    """

    def __init__(
        self,
        problem: Problem,
        rule: Rule,
        solver: Solver,
        checkpoint: pathlib.Path | None,
        initial: State | Any,
    ):
        """Compiles the programs and loads the checkpoint if there is one.

        Args:
          problem: the games, with regret tolerance 0.
          rule: the regret-matching rule.
          solver: settings of the solve.
          checkpoint: file of the checkpoint; None for none.
          initial: the state to continue from, or the payoff's initial state.
        """
        self._rule, self._solver, self._checkpoint = rule, solver, checkpoint
        self.gap = math.nan
        with precision(solver.precision):
            payoff_state = initial.payoff if isinstance(initial, State) else initial
            begun = solver.placement.call_by_lane(_begin, problem, rule, payoff_state)
            tolerance, first = solver.placement.by_lane(begun)
            self.problem = dataclasses.replace(problem, regret_tolerance=tolerance)
            self._stopped = np.zeros(problem.num_lanes, np.int32)
            shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), first)
            if checkpoint is None or not checkpoint.exists():
                self.state: State = initial if isinstance(initial, State) else first
            del first  # a state may take gigabytes
            self._key = "" if checkpoint is None else self._load(checkpoint, shapes)
            # An uninterrupted run would have checked the gap here, too.
            if (
                solver.max_gap is not None
                and self.iteration > 0
                and self._until_check() == solver.check_interval
            ):
                stopped, _ = stop(self.problem, self.state, *self._stop_at())
                self._stopped = np.asarray(stopped)
            # Compiles the loop without an iteration, so that the time of the first part excludes compilation.
            self._advance(self.iteration)

    @property
    def iteration(self) -> int:
        """Number of completed iterations."""
        return int(self.state.iteration)

    @property
    def iterations(self) -> IntArray:
        """`[lanes]` number of iterations in the average of each lane."""
        return np.where(self._stopped == 0, self.iteration, self._stopped).astype(np.int64)

    @property
    def is_done(self) -> bool:
        """True if all iterations are completed, or the gap of every lane is small enough."""
        last = self._solver.num_iterations
        if self._solver.placement.is_abstract:
            last = min(last, ABSTRACT_ITERATIONS)
        return self.iteration >= last or bool(self._stopped.all())

    def _until_check(self) -> int:
        """Iterations until the next check of the gap, at least 1."""
        return self._solver.check_interval - self.iteration % self._solver.check_interval

    def _load(self, checkpoint: pathlib.Path, shapes: State) -> str:
        """Loads the checkpoint if there is one; returns the key that identifies the solve."""
        key = fingerprint(self.problem, self._rule)
        saved = load_checkpoint(checkpoint, key, shapes, self._solver.placement.by_lane)
        if saved is not None:
            self.state = saved
            self._stopped = load_stopped(checkpoint, self.problem.num_lanes, self._solver.max_gap)
        if self.iteration > self._solver.num_iterations:
            raise ValueError(
                f"iterations={self._solver.num_iterations}: checkpoint {os.fspath(checkpoint)!r} has "
                f"{self.iteration} already; expected at least as many, or another file"
            )
        return key

    def run(self) -> Iterator[int]:
        """Iterates; yields the number of completed iterations after every part."""
        solver, saved, between = self._solver, time.perf_counter(), CHECKPOINT_SECONDS
        target = solver.max_gap
        # Parts end at checks of the gap, so that the result does not depend on them.
        part = 1 if target is None else self._until_check()
        while not self.is_done:
            began = time.perf_counter()
            self._advance(self.iteration + part)
            seconds = time.perf_counter() - began
            yield self.iteration
            if self._checkpoint is not None and time.perf_counter() - saved > between:
                began = time.perf_counter()
                self._save(self._checkpoint)
                saved = time.perf_counter()
                between = max(CHECKPOINT_SECONDS, CHECKPOINT_SHARE * (saved - began))
            if target is not None:
                part = max(part, solver.check_interval) // solver.check_interval * solver.check_interval
            if seconds < REPORT_SECONDS / 2:
                part *= 2
        if self._checkpoint is not None:
            self._save(self._checkpoint)

    def _save(self, checkpoint: pathlib.Path) -> None:
        target_gap = self._solver.max_gap
        save_checkpoint(checkpoint, self._key, self.state, stopped=self._stopped, target_gap=target_gap)

    def _stop_at(self) -> tuple[Any, npt.NDArray[Any]]:
        """`[lanes]` iteration at which each lane stopped, on the devices, and the target gap."""
        goal = np.asarray(self._solver.max_gap, self._solver.precision)
        return self._solver.placement.by_lane(self._stopped), goal

    def _advance(self, until: int) -> None:
        solver = self._solver
        last = np.asarray(min(until, solver.num_iterations), np.int32)
        with precision(solver.precision):
            if solver.max_gap is None:
                state = run(self.problem, self.state, last, rule=self._rule)
                self.state = jax.block_until_ready(solver.placement.by_lane(state))
                return
            stopped, goal = self._stop_at()
            state, stopped, gap = run_to_gap(
                self.problem,
                self.state,
                stopped,
                last,
                goal,
                rule=self._rule,
                check_every=solver.check_interval,
            )
            self.state, self._stopped = solver.placement.by_lane(state), np.asarray(stopped)
            if not math.isnan(largest := float(np.max(gap))):
                self.gap = largest


class _ChunkedSolve:
    """The chunks of a batch, which threads solve independently of each other.

    Attributes:
      stop: set if a chunk fails or the user interrupts the solve; the other chunks end early.
    """

    def __init__(
        self,
        batch: Batch,
        solver: Solver,
        rule: Rule,
        plan: Plan,
        finish: Finish,
        *,
        initial: State | Any,
        keep_state: bool,
        report: Report | None,
        on_check: OnCheck | None,
    ):
        """Places what all chunks share on the devices; arguments as in `solve` and `_Loop`."""
        self._batch, self._solver, self._rule, self._plan = batch, solver, rule, plan
        self._finish, self._initial, self._keep_state, self._report = finish, initial, keep_state, report
        with precision(solver.precision):
            # Games in the solve's precision are not cast: a network's weights may differ from it on purpose.
            is_cast = batch.dtype != solver.precision
            structure = (batch.sides, batch.payoff)
            self._structure = solver.placement.everywhere(
                cast_arrays(structure, solver.precision) if is_cast else structure
            )
        self._on_check = on_check
        self._completed = np.zeros(plan.num_chunks, np.int64)
        self._setup, self.stop = threading.Lock(), threading.Event()
        self._is_resuming = False

    def report_progress(self) -> None:
        """Reports the number of completed iterations, averaged over the chunks."""
        if self._report is not None:
            self._report(int(self._completed.mean()))

    def solve(self, chunk_idx: int) -> tuple[Any, IntArray, State | None]:
        """Solves a chunk; returns its result, the iterations of its lanes, and its state if that is kept."""
        file = checkpoint_file(self._solver.checkpoint_path, self._batch.name, chunk_idx, self._plan)
        with hold_checkpoint(file):
            return self._solve_held(chunk_idx, file)

    def _solve_held(self, chunk_idx: int, file: pathlib.Path | None) -> tuple[Any, IntArray, State | None]:
        """`solve` while no other process uses the checkpoint."""
        begin = chunk_idx * self._plan.chunk
        lanes = np.minimum(np.arange(begin, begin + self._plan.chunk), self._batch.num_lanes - 1)
        with self._setup:  # one chunk at a time, so that programs of several chunks are compiled once
            problem = self._build_problem(self._structure, lanes, self._solver.precision)
            loop = _Loop(problem, self._rule, self._solver, file, self._initial)
            del problem
            self._log_resuming(loop, file)
            self._record(chunk_idx, loop.iteration)
        for iteration in loop.run():
            if self._on_check is not None and not math.isnan(loop.gap):
                self._on_check(loop.gap)
            self._record(chunk_idx, iteration)
            if self.stop.is_set():
                raise Stopped
        last, final_state = loop.iterations, loop.state if self._keep_state else None
        with self._setup, precision(np.float64):
            in_float64 = functools.partial(self._build_in_float64, lanes)
            placement = self._solver.placement
            ended = Finished(loop.problem, loop.state, lanes, placement, in_float64, self._keep_state)
            del loop
            outcome = jax.tree.map(np.array, self._finish(ended))  # copies: a CPU's views keep buffers
            return outcome, last, final_state

    def _build_problem(
        self, structure: tuple[tuple[Side, Side], Payoff], lanes: IntArray, dtype: DTypeLike
    ) -> Problem:
        """The games of some lanes on the devices, with a structure that is there already."""
        sides, payoff = structure
        problem = dataclasses.replace(self._batch, sides=sides, payoff=payoff).problem(lanes)
        by_lane = cast_arrays((problem.terms, problem.regret_tolerance), dtype)
        with precision(dtype):
            terms, tolerance = self._solver.placement.by_lane(by_lane)
        return dataclasses.replace(problem, terms=terms, regret_tolerance=tolerance)

    def _build_in_float64(self, lanes: IntArray) -> Problem:
        """The games of some lanes in float64, for their certificates."""
        structure = cast_arrays((self._batch.sides, self._batch.payoff), np.float64)
        with precision(np.float64):
            exact = self._solver.placement.everywhere(structure)
        return self._build_problem(exact, lanes, np.float64)

    def _record(self, chunk_idx: int, iteration: int) -> None:
        """Records a chunk's completed iterations; with several threads, `run_all` reports them."""
        self._completed[chunk_idx] = iteration
        if self._plan.workers == 1:
            self.report_progress()

    def _log_resuming(self, loop: _Loop, file: pathlib.Path | None) -> None:
        """Logs the first chunk that resumes from a checkpoint."""
        if file is None or loop.iteration == 0 or loop.is_done or self._is_resuming:
            return
        self._is_resuming = True
        total = self._solver.num_iterations
        log.info("Resuming %r at iteration %d of %d.", str(file), loop.iteration, total)


def run_all(
    tasks: Sequence[Callable[[], Result]],
    workers: int,
    stop: threading.Event,
    poll: Callable[[], None],
) -> list[Result]:
    """Runs tasks, several at a time, and returns their results in order.

    Args:
      tasks: the tasks.
      workers: number of threads; with 1 the tasks run in the calling thread.
      stop: set if a task fails or the main thread is interrupted; tasks check it and end early.
      poll: called every `POLL_SECONDS` while threads work.
    """
    if workers == 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(workers, thread_name_prefix="jaxgadget") as pool:
        futures = [pool.submit(_unless_stopped, task, stop) for task in tasks]
        try:
            pending: set[Future[Any]] = set(futures)
            while pending:
                ended, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_EXCEPTION)
                for future in ended:
                    future.result()
                poll()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def run_on_devices(
    tasks: Sequence[Callable[[Device], Result]], devices: Sequence[Device], stop: threading.Event
) -> Iterator[Result]:
    """Runs independent tasks, one at a time on each device, and yields their results as they end.

    Args:
      tasks: functions of the device on which they compute.
      devices: the devices; with several, each has a thread.
      stop: set if a task fails or the caller is interrupted; tasks check it and end early.
    """

    def run_on(device: Device, task: Callable[[Device], Result]) -> Result:
        if device in HOME.devices or isinstance(device, AbstractDevice):
            return task(device)  # a context with the same device would compile programs anew
        with jax.default_device(device):
            return task(device)

    if len(devices) == 1:
        for task in tasks:
            yield run_on(devices[0], task)
        return
    free: queue.SimpleQueue[Device] = queue.SimpleQueue()

    def run_one(task: Callable[[Device], Result]) -> Result:
        device = free.get()
        try:
            return run_on(device, task)
        finally:
            free.put(device)

    waiting, pending = iter(tasks), set[Future[Result]]()
    with ThreadPoolExecutor(len(devices), thread_name_prefix="jaxgadget") as pool:
        try:
            for device in devices:
                free.put(device)
                pending.update(pool.submit(run_one, task) for task in itertools.islice(waiting, 1))
            while pending:
                ended, pending = wait(pending, return_when=FIRST_COMPLETED)
                while ended:
                    pending.update(pool.submit(run_one, task) for task in itertools.islice(waiting, 1))
                    yield ended.pop().result()  # no variable keeps the future, and so the result
        except BaseException:
            stop.set()
            raise


def _unless_stopped(task: Callable[[], Result], stop: threading.Event) -> Any:
    """Runs a task unless `stop` is set; the thread of a failed task may take the next one uncancelled."""
    if stop.is_set():
        return None
    try:
        return task()
    except BaseException:
        stop.set()
        raise
