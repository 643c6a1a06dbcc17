"""Benchmarks of CFR iterations on whole games with many lanes, against other solvers on the same machine.

Every engine builds a game, compiles and warms up; then the engines run in turns, so that a busy moment of the
machine affects all of them. The fastest repetition counts. An iteration updates both players; times include
waiting for the device.
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
    PEERS,
)
from jaxgadget.bench.peers import Runner, build_peer, check_peer, is_installed
from jaxgadget.core.batch import Batch
from jaxgadget.core.cfr import State, loop_program, start
from jaxgadget.core.devices import HOME, Device, Placement, find_placement
from jaxgadget.core.driver import run_all
from jaxgadget.core.loops import LOOP_FORM, LOOP_FORMS, LoopForm
from jaxgadget.core.memory import Plan, plan_game, problem_shape
from jaxgadget.core.payoff import build_payoff
from jaxgadget.core.problem import Problem, evaluation_game, whole_game, with_regret_tolerance
from jaxgadget.core.regret import Rule, find_rule
from jaxgadget.core.rows import array_bytes
from jaxgadget.core.solver import check_dtype, check_iterations
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES, Game
from jaxgadget.games.registry import load
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.accelerators import driver_version, find_plugins
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import compiled_afresh
from jaxgadget.util.machine import describe_device, find_versions
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

WARM_UP = 0.5
"""Minimum duration of the warm-up as a fraction of a repetition's, so that the overhead of a call is
negligible."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """Result of one game, engine and number of lanes.

    Attributes:
      game: its name with parameters.
      engine: one of `ENGINES`.
      algorithm: the regret-matching rule.
      dtype: the engine's precision.
      lanes: number of copies of the game.
      us_per_lane_iteration: microseconds per iteration divided by the lanes, in the fastest repetition.
      histories_per_second: histories of the game × iterations × lanes ÷ seconds, in the same repetition.
      compile_seconds: time of tracing and compilation; None if the engine does not compile.
      peak_bytes: on a CPU, XLA's memory analysis of the loop (arguments + outputs + temporaries −
        aliases); on a GPU, the increase of the peak in use (XLA's analysis if an earlier row had the
        peak). None if unknown. With several devices, the largest of theirs.
      build_seconds: time from the enumerated game (for peers, from OpenSpiel's game) to the first iteration,
        without compilation.
      run_seconds: time of the fastest repetition.
      iterations: iterations per repetition.
      threads: number of threads with which a peer was fastest; None if the engine chooses.
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
    """Results of a benchmark, with the machine and versions.

    Attributes:
      device: the devices that computed, and the machine's cores.
      devices: number of devices over which lanes were split, filled up with copies to a multiple of it.
      driver: version of the NVIDIA driver; None without one.
      loop: execution form of the loop on an accelerator.
      versions: versions of Python, of packages (None if not installed), and of installed plugins.
      rows: results by game, engine and number of lanes.
      skipped: installed engines that were skipped for a game, with the reason.
    """

    device: str
    devices: int
    driver: str | None
    loop: LoopForm
    versions: dict[str, str | None]
    rows: tuple[Row, ...]
    skipped: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _BenchSettings:
    """Validated settings of `bench`."""

    engines: tuple[str, ...]
    named: bool
    lanes: tuple[int, ...]
    rule: Rule
    dtype: np.dtype[Any]
    loop: LoopForm
    placement: Placement
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
    loop: LoopForm = LOOP_FORM,
    devices: Sequence[Device] | None = None,
    iterations: int | None = None,
    seconds: float = DEFAULT_SECONDS,
    repeats: int = DEFAULT_REPEATS,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    progress: bool | None = None,
) -> Benchmark:
    """Times CFR on whole games.

    The compilation cache is not used, so that `compile_seconds` is the actual compilation time. On an
    abstract device (`jaxgadget.bench.inspect`) nothing is timed, and the programs are only recorded.

    Args:
      games: one or several games, as for `load`.
      engines: elements of `ENGINES`; by default jaxgadget and all installed ones that support the
        game and the algorithm. Peers always have one lane.
      lanes: numbers of copies of a game, one row each.
      algorithm: the regret-matching rule; peers have `cfr` and `cfr+`.
      dtype: precision of jaxgadget, `float32` or `float64`; peers compute in float64.
      loop: execution form of the loop on an accelerator, see `jaxgadget.core.loops.LoopForm`; no effect on a
        CPU.
      devices: some of `jax.local_devices()`, over which the lanes, filled up with copies, are split; by
        default the first one.
      iterations: iterations per repetition; by default as many as fit in the time.
      seconds: total duration of all repetitions of a row.
      repeats: number of repetitions, of which the fastest counts.
      max_histories: maximum number of histories of a game.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range, or an engine in `engines` lacks a game or the algorithm.
      ImportError: if an engine in `engines` is not installed.
    """
    options = _BenchSettings(
        engines=_check_engines(engines, find_rule(algorithm)),
        named=engines is not None,
        lanes=_check_lanes(lanes),
        rule=find_rule(algorithm),
        dtype=check_dtype(dtype),
        loop=_check_loop(loop),
        placement=HOME if devices is None else find_placement(devices),
        iterations=None if iterations is None else check_iterations(iterations),
        seconds=_check_seconds(seconds),
        repeats=check_iterations(repeats, "repeats"),
    )
    chosen = _load_all(games)
    if HOME.is_abstract:
        for game in chosen:
            form = sequence_form(enumerate_game(game, max_histories=max_histories))
            for count in options.lanes:
                note_whole_game(form, options, count)
        return Benchmark(
            device="", devices=1, driver=None, loop=options.loop, versions={}, rows=(), skipped=()
        )
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
        device=describe_device(options.placement.devices),
        devices=len(options.placement.devices),
        driver=driver_version(),
        loop=options.loop,
        versions=find_versions() | find_plugins(),
        rows=tuple(rows),
        skipped=tuple(skipped),
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


def _check_loop(loop: object) -> LoopForm:
    for form in LOOP_FORMS:
        if form == loop:
            return form
    raise ValueError(f"loop={loop!r}: expected one of {', '.join(LOOP_FORMS)}")


def _check_seconds(seconds: object) -> float:
    if not is_finite_number(seconds) or not seconds > 0:
        raise ValueError(f"seconds={seconds!r}: expected a positive number")
    return float(seconds)


def _runners(
    tree: HistoryTree, options: _BenchSettings, skipped: list[str], progress: bool | None
) -> list[Runner]:
    """Builds a game in every engine; engines that were not requested explicitly are skipped on failure."""
    name, runners = tree.game.name, list[Runner]()
    peers = [engine for engine in options.engines if engine != OURS]
    lanes = options.lanes if OURS in options.engines else ()
    with progress_bar(f"building {name}", len(lanes) + len(peers), progress) as report:
        for count in lanes:
            report(len(runners))
            runners.append(
                whole_game_runner(
                    sequence_form(tree),
                    lanes=count,
                    dtype=options.dtype,
                    rule=options.rule,
                    loop_form=options.loop,
                    placement=options.placement,
                )
            )
        for peer_idx, engine in enumerate(peers):
            report(len(lanes) + peer_idx)
            try:
                runners += build_peer(engine, name, options.rule.name)
            except (ValueError, ImportError) as error:  # an installed peer may lack a package of its own
                if options.named:
                    raise
                skipped.append(f"{engine} is skipped for {name}: {error}")
    return runners


def place_whole_game(
    form: SequenceForm, lanes: int, dtype: np.dtype[Any], rule: Rule, placement: Placement
) -> tuple[Plan, Problem, list[State]]:
    """Copies of a whole game on their devices.

    Lanes are split as in `refine`: into chunks that fit a core's cache, one core per chunk; the lanes of a
    chunk over the devices.

    Returns:
      The plan, the games of a chunk, and the initial state of every chunk.
    """
    plan = plan_game(whole_game(form.treeplex, form.payoff, num_lanes=1, dtype=dtype), lanes, rule, placement)
    problem = whole_game(form.treeplex, form.payoff, num_lanes=plan.chunk, dtype=dtype)
    if placement != HOME:
        sides, payoff = placement.everywhere((problem.sides, problem.payoff))
        terms, tolerance = placement.by_lane((problem.terms, problem.regret_tolerance))
        problem = dataclasses.replace(
            problem, sides=sides, payoff=payoff, terms=terms, regret_tolerance=tolerance
        )
    states = [placement.call_by_lane(start, problem, rule) for _ in range(plan.num_chunks)]
    return plan, problem, jax.block_until_ready(states)


def whole_game_runner(
    form: SequenceForm,
    *,
    lanes: int,
    dtype: np.dtype[Any],
    rule: Rule,
    loop_form: LoopForm = LOOP_FORM,
    placement: Placement = HOME,
) -> Runner:
    """Builds CFR of a whole game on lanes, compiles it and runs one iteration."""
    watch = Stopwatch()
    with precision(dtype):
        before = _device_bytes(placement)
        with watch.phase("build"):
            plan, problem, states = place_whole_game(form, lanes, dtype, rule, placement)
        jax.clear_caches()  # so that an earlier row's program is not reused
        with watch.phase("compile"):
            loop = loop_program(loop_form).lower(problem, states[0], np.int32(0), rule=rule).compile()

    def advance(iterations: int) -> None:
        nonlocal done
        done += iterations

        def work(chunk_idx: int) -> None:
            with precision(dtype):
                until = placement.everywhere(np.int32(done))
                state = loop(problem, states[chunk_idx], until, rule=rule)
                states[chunk_idx] = jax.block_until_ready(
                    state if placement == HOME else placement.by_lane(state)
                )

        tasks = [functools.partial(work, chunk_idx) for chunk_idx in range(plan.num_chunks)]
        run_all(tasks, plan.workers, threading.Event(), lambda: None)

    done = 0
    advance(1)
    peaks = [peak for _, peak in _device_bytes(placement)]
    grown = [peak - used for peak, (used, last) in zip(peaks, before, strict=True) if peak > last]
    return Runner(
        engine=OURS,
        dtype=str(dtype),
        lanes=lanes,
        advance=advance,
        build_seconds=watch.seconds["build"],
        compile_seconds=watch.seconds["compile"],
        peak_bytes=max(grown) if grown else _solve_bytes(loop, plan, states),
    )


def note_whole_game(form: SequenceForm, options: _BenchSettings, lanes: int) -> None:
    """Records the programs of whole-game CFR on lanes, whose arrays are not built."""
    dtype, rule = options.dtype, options.rule
    with precision(dtype):
        payoff = build_payoff(form.payoff, dtype)
        game = evaluation_game(form.treeplex, payoff, 1, dtype)
        chunk = plan_game(game, lanes, rule).chunk
        problem = problem_shape(Batch.of(game), chunk, dtype)
        with_regret_tolerance.note(problem)
        start.note(problem, rule)
        until = jax.ShapeDtypeStruct((), np.int32)
        loop = loop_program(options.loop)
        loop.note(problem, start.eval_shape(problem, rule), until, rule=rule)


def _device_bytes(placement: Placement) -> list[tuple[int, int]]:
    """Bytes in use on each device, and their peak; 0 if unknown."""
    stats = [device.memory_stats() or {} for device in placement.devices]
    return [(int(each.get("bytes_in_use", 0)), int(each.get("peak_bytes_in_use", 0))) for each in stats]


def _solve_bytes(loop: jax.stages.Compiled, plan: Plan, states: Sequence[State]) -> int | None:
    """Memory on each device: of the program by XLA's analysis, for every worker, and of waiting states."""
    used = loop.memory_analysis()
    if used is None:
        return None
    held_bytes = used.argument_size_in_bytes + used.output_size_in_bytes - used.alias_size_in_bytes
    waiting = (len(states) - plan.workers) * array_bytes(states[0]) // plan.devices
    return int(plan.workers * (held_bytes + used.temp_size_in_bytes) + waiting)


def _race(
    tree: HistoryTree, runners: Sequence[Runner], options: _BenchSettings, report: Callable[[int], None]
) -> list[Row]:
    """Times all runners in turns; returns the fastest row of every engine and number of lanes."""
    share = options.seconds / options.repeats
    counts: list[int] = []
    for runner_idx, runner in enumerate(runners):
        counts.append(options.iterations or iterations_within(runner.advance, share))
        report(runner_idx + 1)
    best = [math.inf] * len(runners)
    for turn in range(1, options.repeats + 1):
        for runner_idx, (runner, count) in enumerate(zip(runners, counts, strict=True)):
            best[runner_idx] = min(best[runner_idx], _seconds(runner.advance, count))
            report(turn * len(runners) + runner_idx + 1)
    fastest: dict[tuple[str, int], Row] = {}
    for runner, count, spent in zip(runners, counts, best, strict=True):
        row = _row(tree, runner, options.rule.name, count, spent)
        best_row = fastest.setdefault((row.engine, row.lanes), row)
        if row.us_per_lane_iteration < best_row.us_per_lane_iteration:
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
    """Number of iterations that fit in the time, at least 1; measured while warming up."""
    count = 1
    while (spent := _seconds(advance, count)) < WARM_UP * seconds:
        count *= 2
    return max(1, round(count * seconds / spent))


def _seconds(advance: Callable[[int], None], iterations: int) -> float:
    began = time.perf_counter()
    advance(iterations)
    return max(time.perf_counter() - began, 1e-9)
