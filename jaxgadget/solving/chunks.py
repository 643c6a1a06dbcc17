"""Solves the lanes of gadgets that share an entry chunk by chunk, on a CPU several chunks at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import BoolArray, IntArray
from jaxgadget.kernels.regret import Rule
from jaxgadget.solving.drive import Report, drive, precision
from jaxgadget.solving.forest import KindLanes, cast, conclude, in_precision, lane_games
from jaxgadget.solving.memory import Plan

LOOK_SECONDS = 0.1
"""How often the main thread looks at its workers."""

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Loop:
    """What `drive` runs; see there."""

    rule: Rule
    dtype: np.dtype[Any]
    iterations: int
    target_gap: float | None
    check_every: int


class Solved(NamedTuple):
    """Lanes that are solved and certified, on the host.

    Attributes:
      found: strategies and certificates, lanes last; a `Conclusion`, or what else `finish` made.
      live: `[S, lanes]` whether a subgame had anything to solve.
      iterations: `[lanes]` done.
    """

    found: Any
    live: BoolArray
    iterations: npt.NDArray[np.int64]


class Stopped(Exception):
    """Another chunk failed, or somebody pressed Ctrl-C."""


def solve_chunks(
    lanes: KindLanes,
    plan: Plan,
    blueprint: Any,
    how: Loop,
    *,
    folder: pathlib.Path | None = None,
    report: Report,
    finish: Callable[..., Any] = conclude,
) -> Solved:
    """Solves all lanes of gadgets that share an entry.

    Args:
      lanes: the lanes.
      plan: how they are split.
      blueprint: `[Q, num_blueprints]` the resolving player's blueprints in its body, or what else `finish`
        takes, blueprints last.
      how: what to run.
      folder: of checkpoints, a file a chunk.
      report: is told the number of iterations done, the mean over chunks.
      finish: makes strategies and certificates of a finished solve, lanes last; as `conclude` does.
    """
    done = np.zeros(plan.num_chunks, np.int64)
    one_builds, stop = threading.Lock(), threading.Event()

    def solve(number: int) -> Solved:
        first = number * plan.chunk
        # The last chunk is filled up with copies of the last lane, so that all are of one shape.
        chosen = np.minimum(np.arange(first, first + plan.chunk), lanes.num_lanes - 1)

        def told(iterations: int) -> None:
            done[number] = iterations
            if stop.is_set():
                raise Stopped
            if plan.workers == 1:
                report(int(done.mean()))

        file = None if folder is None else folder / checkpoint_name(lanes.kind.name, number, plan)
        return _solve_chunk(lanes, chosen, blueprint, how, file, one_builds, told, finish)

    tasks = [functools.partial(solve, number) for number in range(plan.num_chunks)]
    solved = run_all(tasks, plan.workers, stop, lambda: report(int(done.mean())))
    return _side_by_side(solved, lanes.num_lanes)


def checkpoint_name(kind: str, number: int, plan: Plan) -> str:
    """The file of a chunk's checkpoints."""
    if plan.num_chunks == 1:
        return f"{kind}.npz"
    return f"{kind}-{number + 1}-of-{plan.num_chunks}.npz"


def _solve_chunk(
    lanes: KindLanes,
    chosen: IntArray,
    blueprint: Any,
    how: Loop,
    checkpoint: pathlib.Path | None,
    one_builds: threading.Lock,
    report: Report,
    finish: Callable[..., Any],
) -> Solved:
    """Builds, solves and certifies some lanes."""
    with contextlib.ExitStack() as building:
        building.enter_context(one_builds)  # so that what two chunks need is compiled once
        report(0)
        with precision(np.float64):
            games = lane_games(lanes, chosen)
            problem = in_precision(games.problem, how.dtype)

        def told(iterations: int) -> None:
            building.close()
            report(iterations)

        with precision(how.dtype):
            state = drive(
                problem,
                how.rule,
                iterations=how.iterations,
                target_gap=how.target_gap,
                check_every=how.check_every,
                checkpoint=checkpoint,
                report=told,
            )
    with one_builds, precision(np.float64):
        total = cast(state.strategy_sum, np.float64)
        iterations = np.full(len(chosen), int(state.iteration))
        del problem, state  # the certificate needs the memory
        mine = lanes.blueprint(chosen)
        rows = lanes.place.by_lane(jax.tree.map(lambda x: x[..., mine], blueprint))
        found = jax.tree.map(np.asarray, finish(games, total, rows, kind=lanes.kind))
        return Solved(found, np.asarray(games.live), iterations)


def _side_by_side(chunks: Sequence[Solved], lanes: int) -> Solved:
    """All chunks' lanes, without the copies."""
    if len(chunks) == 1 and len(chunks[0].iterations) == lanes:
        return chunks[0]
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis=-1)[..., :lanes], *chunks)


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
        futures = [pool.submit(task) for task in tasks]
        try:
            pending = set(futures)
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
