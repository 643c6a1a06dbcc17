"""How fast an iteration is: whole games on many lanes, beside other solvers on the same machine.

Every engine builds a game, compiles, warms up, and then runs in turns with the others, so that a
busy moment of the machine hits all of them alike. The fastest of an engine's turns counts. An iteration
updates both players; the clock stops when the device is done.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.bench.defaults import (
    DEFAULT_GAMES,
    DEFAULT_LANES,
    DEFAULT_REPEATS,
    DEFAULT_SECONDS,
    ENGINES,
    OURS,
)
from jaxgadget.bench.peers import PEERS, Runner, build_peer, check_peer, is_installed
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES, Game
from jaxgadget.games.registry import load
from jaxgadget.kernels.cfr import State, run, start
from jaxgadget.kernels.problem import whole_game
from jaxgadget.kernels.regret import Rule, find_rule
from jaxgadget.solving.driver import run_all
from jaxgadget.solving.memory import Plan, num_bytes, plan_game
from jaxgadget.solving.options import check_dtype, check_iterations
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.sequence import SequenceForm, sequence_form
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import compiled_afresh
from jaxgadget.util.machine import describe_device, find_versions
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

WARM_UP = 0.5
"""Share of a repetition's time that the warm-up takes at least, so that what a call costs by itself is
not mistaken for iterations."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One game in one engine with so many lanes.

    Attributes:
      game: its name with parameters.
      engine: one of `ENGINES`.
      algorithm: the regret-matching rule.
      dtype: the precision that the engine computed in.
      lanes: copies of the game side by side.
      us_per_lane_iteration: microseconds of an iteration divided by the lanes, in the fastest repetition.
      histories_per_second: histories of the game × iterations × lanes ÷ seconds, in the same repetition.
      compile_seconds: tracing and compiling; None if the engine does not.
      peak_bytes: on a CPU, what XLA says that the loop needs (arguments + outputs + temporaries −
        aliases); on a GPU, the peak in use above what was in use before (XLA's figure if an earlier row
        had the peak). None if unknown.
      build_seconds: from the enumerated game (of peers: from OpenSpiel's) to the first iteration,
        without compiling.
      run_seconds: the fastest repetition.
      iterations: in a repetition.
      threads: of a peer, the number with which it was fastest; None where the engine chooses by itself.
    """

    game: str
    engine: str
    algorithm: str
    dtype: str
    lanes: int
    us_per_lane_iteration: float
    histories_per_second: float
    compile_seconds: float | None
    peak_bytes: int | None
    build_seconds: float
    run_seconds: float
    iterations: int
    threads: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What was timed, and on what.

    Attributes:
      device: JAX's device and the machine's cores.
      versions: of Python and the packages, None if one is not installed.
      rows: one for every game, engine and number of lanes.
      skipped: engines that were left out of a game though they are installed, and why.
    """

    device: str
    versions: dict[str, str | None]
    rows: tuple[Row, ...]
    skipped: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BenchOptions:
    """What to time, checked."""

    engines: tuple[str, ...]
    named: bool
    lanes: tuple[int, ...]
    rule: Rule
    dtype: np.dtype[Any]
    iterations: int | None
    seconds: float
    repeats: int


def bench(
    games: str | Sequence[str | Game] = DEFAULT_GAMES,
    *,
    engines: Sequence[str] | None = None,
    lanes: Sequence[int] = DEFAULT_LANES,
    algorithm: str | Rule = "cfr+",
    dtype: DTypeLike = "float32",
    iterations: int | None = None,
    seconds: float = DEFAULT_SECONDS,
    repeats: int = DEFAULT_REPEATS,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    progress: bool | None = None,
) -> Benchmark:
    """Times CFR on whole games.

    Compiled programs do not come from the compilation cache, so that `compile_seconds` is what it says.

    Args:
      games: one or several, as `load` takes them.
      engines: some of `ENGINES`; by default jaxgadget and those that are installed and have the
        game and the algorithm. Peers always have one lane.
      lanes: copies of a game side by side, a row for each number.
      algorithm: the regret-matching rule; peers have `cfr` and `cfr+`.
      dtype: precision of jaxgadget, `float32` or `float64`; peers compute in float64.
      iterations: in a repetition; by default as many as fill the time.
      seconds: how long to time a row, all repetitions together.
      repeats: how many repetitions, of which the fastest counts.
      max_histories: give up on a game of more.
      progress: show a bar; by default if it takes over two seconds and somebody watches.

    Raises:
      ValueError: if an argument is out of range, or an engine that is named lacks a game or the algorithm.
      ImportError: if an engine that is named is not installed.
    """
    options = _BenchOptions(
        engines=_check_engines(engines, find_rule(algorithm)),
        named=engines is not None,
        lanes=_check_lanes(lanes),
        rule=find_rule(algorithm),
        dtype=check_dtype(dtype),
        iterations=None if iterations is None else check_iterations(iterations),
        seconds=_check_seconds(seconds),
        repeats=check_iterations(repeats, "repeats"),
    )
    chosen = _load_all(games)
    rows: list[Row] = []
    skipped: list[str] = []
    with compiled_afresh():
        for game in chosen:
            tree = enumerate_game(game, max_histories=max_histories)
            runners = _runners(tree, options, skipped, progress)
            with progress_bar(
                f"timing {game.name}", len(runners) * (options.repeats + 1), progress
            ) as report:
                rows += _race(tree, runners, options, report)
    return Benchmark(
        device=describe_device(), versions=find_versions(), rows=tuple(rows), skipped=tuple(skipped)
    )


def _load_all(games: str | Sequence[str | Game]) -> list[Game]:
    loaded = [load(spec) for spec in ([games] if isinstance(games, str) else games)]
    if not loaded:
        raise ValueError("games=() is empty: expected at least one game, such as 'leduc_poker'")
    return list({game.name: game for game in loaded}.values())


def _check_engines(engines: Sequence[str] | None, rule: Rule) -> tuple[str, ...]:
    if engines is None:
        return (OURS, *filter(is_installed, PEERS))
    chosen = tuple(dict.fromkeys(engines))
    if not chosen:
        raise ValueError(f"engines=() is empty: expected some of {', '.join(ENGINES)}")
    for name in chosen:
        if name not in ENGINES:
            raise ValueError(f"engine {name!r} is unknown; expected one of {', '.join(ENGINES)}")
        if name != OURS:
            check_peer(name, rule.name)
    return chosen


def _check_lanes(lanes: Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(dict.fromkeys(check_iterations(count, "lanes") for count in lanes))
    if not chosen:
        raise ValueError("lanes=() is empty: expected at least one number of lanes, such as (1, 256)")
    return chosen


def _check_seconds(seconds: object) -> float:
    if not is_finite_number(seconds) or not seconds > 0:
        raise ValueError(f"seconds={seconds!r}: expected a positive number")
    return float(seconds)


def _runners(
    tree: HistoryTree, options: _BenchOptions, skipped: list[str], progress: bool | None
) -> list[Runner]:
    """Builds a game in every engine; one that was not named may lack it."""
    name, runners = tree.game.name, list[Runner]()
    peers = [engine for engine in options.engines if engine != OURS]
    lanes = options.lanes if OURS in options.engines else ()
    with progress_bar(f"building {name}", len(lanes) + len(peers), progress) as report:
        for count in lanes:
            report(len(runners))
            runners.append(
                whole_game_runner(sequence_form(tree), lanes=count, dtype=options.dtype, rule=options.rule)
            )
        for number, engine in enumerate(peers):
            report(len(lanes) + number)
            try:
                runners += build_peer(engine, name, options.rule.name)
            except ValueError as error:
                if options.named:
                    raise
                skipped.append(f"{engine} is left out of {name}: {error}")
    return runners


def whole_game_runner(form: SequenceForm, *, lanes: int, dtype: np.dtype[Any], rule: Rule) -> Runner:
    """Builds whole-game CFR on lanes, compiles it and runs an iteration: all that knows how it is run.

    Lanes are split as `refine` splits them: into chunks that fit a core's cache, a core for each.
    """
    watch = Stopwatch()
    with precision(dtype):
        used, peak = _device_bytes()
        with watch.phase("build"):
            plan = plan_game(whole_game(form, num_lanes=1, dtype=dtype), lanes)
            problem = whole_game(form, num_lanes=plan.chunk, dtype=dtype)
            states = [jax.block_until_ready(start(problem, rule)) for _ in range(plan.num_chunks)]
        jax.clear_caches()  # or an earlier row's program would be taken for this one's
        with watch.phase("compile"):
            loop = run.lower(problem, states[0], np.int32(0), rule=rule).compile()

    def advance(iterations: int) -> None:
        nonlocal done
        done += iterations

        def work(number: int) -> None:
            with precision(dtype):
                until = jax.device_put(np.int32(done))
                states[number] = jax.block_until_ready(loop(problem, states[number], until, rule=rule))

        tasks = [functools.partial(work, number) for number in range(plan.num_chunks)]
        run_all(tasks, plan.workers, threading.Event(), lambda: None)

    done = 0
    advance(1)
    in_use = _device_bytes()[1]
    return Runner(
        engine=OURS,
        dtype=str(dtype),
        lanes=lanes,
        advance=advance,
        build_seconds=watch.seconds["build"],
        compile_seconds=watch.seconds["compile"],
        peak_bytes=in_use - used if in_use > peak else _solve_bytes(loop, plan, states),
    )


def _device_bytes() -> tuple[int, int]:
    """Bytes in use on the device, and the most there ever were; 0 where it does not say."""
    stats = jax.local_devices()[0].memory_stats() or {}
    return int(stats.get("bytes_in_use", 0)), int(stats.get("peak_bytes_in_use", 0))


def _solve_bytes(loop: jax.stages.Compiled, plan: Plan, states: Sequence[State]) -> int | None:
    """What XLA says that the compiled program needs, for every worker, and the states that wait."""
    used = loop.memory_analysis()
    if used is None:
        return None
    kept = used.argument_size_in_bytes + used.output_size_in_bytes - used.alias_size_in_bytes
    waiting = (len(states) - plan.workers) * num_bytes(states[0])
    return int(plan.workers * (kept + used.temp_size_in_bytes) + waiting)


def _race(
    tree: HistoryTree, runners: Sequence[Runner], options: _BenchOptions, report: Callable[[int], None]
) -> list[Row]:
    """Times all runners by turns; a row for the fastest of every engine and number of lanes."""
    share = options.seconds / options.repeats
    counts: list[int] = []
    for number, runner in enumerate(runners):
        counts.append(options.iterations or iterations_within(runner.advance, share))
        report(number + 1)
    best = [math.inf] * len(runners)
    for turn in range(1, options.repeats + 1):
        for number, (runner, count) in enumerate(zip(runners, counts, strict=True)):
            best[number] = min(best[number], _seconds(runner.advance, count))
            report(turn * len(runners) + number + 1)
    fastest: dict[tuple[str, int], Row] = {}
    for runner, count, spent in zip(runners, counts, best, strict=True):
        row = _row(tree, runner, options.rule.name, count, spent)
        known = fastest.setdefault((row.engine, row.lanes), row)
        if row.us_per_lane_iteration < known.us_per_lane_iteration:
            fastest[row.engine, row.lanes] = row
    return list(fastest.values())


def _row(tree: HistoryTree, runner: Runner, algorithm: str, iterations: int, seconds: float) -> Row:
    return Row(
        game=tree.game.name,
        engine=runner.engine,
        algorithm=algorithm,
        dtype=runner.dtype,
        lanes=runner.lanes,
        us_per_lane_iteration=seconds / iterations / runner.lanes * 1e6,
        histories_per_second=tree.num_histories * iterations * runner.lanes / seconds,
        compile_seconds=runner.compile_seconds,
        peak_bytes=runner.peak_bytes,
        build_seconds=runner.build_seconds,
        run_seconds=seconds,
        iterations=iterations,
        threads=runner.threads,
    )


def iterations_within(advance: Callable[[int], None], seconds: float) -> int:
    """How many iterations fill the time, at least 1; found while warming up."""
    count = 1
    while (spent := _seconds(advance, count)) < WARM_UP * seconds:
        count *= 2
    return max(1, round(count * seconds / spent))


def _seconds(advance: Callable[[int], None], iterations: int) -> float:
    began = time.perf_counter()
    advance(iterations)
    return max(time.perf_counter() - began, 1e-9)
