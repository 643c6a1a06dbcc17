"""Plans a solve's memory before any allocation: chunks of lanes, workers, devices.

The model counts the arrays of the games and adds measured multiples for XLA's temporaries; the driver
compares it with the memory analysis of the compiled loop (`fits_compiled`).
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.batch import Batch
from jaxgadget.core.devices import HOME, Placement
from jaxgadget.core.payoff import NestedPayoff
from jaxgadget.core.problem import Problem
from jaxgadget.core.regret import CFR_PLUS, Rule
from jaxgadget.core.rows import array_bytes
from jaxgadget.core.treeplex import Treeplex
from jaxgadget.util.compilation import compiled
from jaxgadget.util.memory import host_memory, megabytes
from jaxgadget.util.precision import precision

STATE_ARRAYS = 3.0
"""Number of arrays `[S_0 + S_1, lanes]` of a state without the rule's: strategies, plans and sums of
plans."""

LOOP_ARRAYS = 1.8
"""Temporaries of the loop, in arrays `[S_0 + S_1, lanes]`: 1.3 to 2.6 by XLA's memory analysis, and 3.0 on an
accelerator where arrays are kept in pieces."""

FINAL_ARRAYS = 4.0
"""Memory of the certificate without the games, in such arrays of float64: 3 to 4."""

CACHE_BYTES = 5 << 20
"""Maximum bytes that an iteration of one worker touches on a CPU."""

LANE_STEP = 16
"""Number of lanes of which chunks are multiples where possible: fewer do not fill a CPU's vector
registers."""

HAND_LANES, MAX_HAND_LANES = 4, 8
"""Replaces `LANE_STEP`, and is the maximum size of a chunk, if at least `LANE_STEP` adjacent rows are hands,
which fill vector registers.

In chunks of 16 rivers of 12 and 57 public nodes take 1.4 and 1.6 times as long with 1,081 hands, 1.15 and
1.25 times with 320; Leduc poker by tables of all pairs of 16 and 52 hands takes 1.4 times as long."""

CHUNK_LANES = 8
"""Fixed cost of an iteration on a CPU, as an equivalent number of lanes."""

LAUNCH_LANES = 1024
"""Fixed cost of an iteration on an accelerator, where every operation is a launch, as a number of lanes.

An H100 takes 45 µs for one lane of Leduc poker, and 0.036 µs for each of 65,536."""

DEVICE_SHARE = 0.75
"""Maximum share of an accelerator's free memory; the rest allows for planning errors and fragmentation."""

SOLVE_ARRAYS = 7.0
"""Memory that an iteration touches, in arrays over the forest's sequences: 6.2 to 7.2 on `bench`'s games."""

GAME_ARRAYS = {4: 6.5, 8: 9.5}
"""Memory of a lane by item size, in arrays of float64 over the forest's sequences: 4.5 to 5.8 and 6.7 to
8.4."""

FOREST_BYTES = 250
"""Additional bytes per sequence, payoffs included: 130 to 210."""

MANY_LANES = 1 << 16
"""Maximum number of blueprints whose ranges are computed in one pass."""

FLOAT32 = "dtype='float32'"

ADVICE = ("a larger memory_limit", FLOAT32)
"""Remedies for any solve."""

ONE_SUBGAME = (*ADVICE, "a single subgame, cut(tree, …).only(infostate)")
"""Remedies for a solve of several subgames."""

HANDS_FINAL_ARRAYS = 8.0
"""Memory of the certificate of a game in hand form, in arrays of float64 over all sequences: 6.5 by XLA's
analysis of one turn, and the strategies, which are copied to the host."""


log = logging.getLogger(__name__)


class DoesNotFit(ValueError):
    """Not even one lane fits in memory."""


class Size(NamedTuple):
    """Bytes on a device.

    Attributes:
      fixed: bytes independent of the lanes.
      lane: bytes per lane.
    """

    fixed: int
    lane: int

    def total(self, lanes: int) -> int:
        """Bytes of a number of lanes."""
        return self.fixed + lanes * self.lane


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """Split of the lanes of a solve into chunks.

    Attributes:
      lanes: number of lanes.
      chunk: number of lanes that are solved together; the last chunk is padded with copies.
      workers: number of chunks that are solved at the same time, one thread each.
      devices: number of devices that share the lanes of a chunk.
      size: bytes of a chunk.
      shared: bytes that all chunks share, on each device.
      available: available bytes on each device; None if unknown.
    """

    lanes: int
    chunk: int
    workers: int
    devices: int
    size: Size
    shared: int
    available: int | None

    @property
    def num_chunks(self) -> int:
        """Number of chunks, all of equal size."""
        return -(-self.lanes // self.chunk)

    @property
    def chunk_bytes(self) -> int:
        """Upper bound on the bytes of a chunk on each device."""
        return self.size.total(self.chunk // self.devices)

    @property
    def bytes(self) -> int:
        """Upper bound on the bytes of the solve on each device."""
        return self.shared + self.workers * self.chunk_bytes

    def __repr__(self) -> str:
        at_once = "" if self.workers == 1 else f", {self.workers} at a time"
        by_device = "" if self.devices == 1 else f" on each of {self.devices} devices"
        memory = "" if self.available is None else f" of {megabytes(self.available)}"
        return (
            f"<Plan: {self.lanes} lane(s) in {self.num_chunks} chunk(s) of {self.chunk}{at_once}; "
            f"{megabytes(self.bytes)}{memory}{by_device}>"
        )


def find_memory(placement: Placement, allocated: int = 0) -> int | None:
    """Bytes available to a solve on each device; None if unknown.

    On a GPU the limit is that of XLA's allocator, `XLA_PYTHON_CLIENT_MEM_FRACTION` of the memory, whether or
    not it is allocated in advance. XLA's allocator `platform` has no limit, so that the memory is unknown.

    Args:
      placement: the devices.
      allocated: bytes that the solve already holds on each device.
    """
    stats = _memory_stats(placement)
    if stats is not None:
        free = min(device["bytes_limit"] - device.get("bytes_in_use", 0) for device in stats)
        return int(DEVICE_SHARE * (free + allocated))
    if not placement.on_cpu:
        _warn_of_unknown_memory(placement.platform)
        return None
    memory = host_memory()
    return None if memory is None else memory // len(placement.devices)


@functools.cache
def _warn_of_unknown_memory(platform: str) -> None:
    """Logs a warning, once per platform, that solves are planned without knowing the devices' memory."""
    log.warning(
        "Devices of %r do not report their memory: set memory_limit if a solve needs too much.", platform
    )


def whole_memory(placement: Placement) -> int | None:
    """Bytes available to a solve on each empty accelerator; None on a CPU, which does not limit chunks."""
    stats = _memory_stats(placement)
    return None if stats is None else int(DEVICE_SHARE * min(device["bytes_limit"] for device in stats))


def _memory_stats(placement: Placement) -> list[dict[str, int]] | None:
    """Memory statistics of the devices; None unless all of them have some."""
    all_stats: list[dict[str, int]] = [device.memory_stats() or {} for device in placement.devices]
    return all_stats if all("bytes_limit" in stats for stats in all_stats) else None


def find_workers(placement: Placement) -> int:
    """Chunks to solve at the same time: one for every core that this process may use."""
    if not placement.on_cpu or len(placement.devices) > 1:
        return 1
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not available on every system
        return os.cpu_count() or 1


def loop_size(problem: Problem, rule: Rule = CFR_PLUS) -> Size:
    """Memory of the compiled loop: arguments, results and temporaries.

    Args:
      problem: the games, or their shapes, in the precision of the solve.
      rule: the regret-matching rule.
    """
    itemsize = np.dtype(problem.dtype).itemsize
    sequences = _num_sequences(problem)
    by_lane = array_bytes((problem.terms, problem.regret_tolerance)) / problem.num_lanes
    shared_payoff, lane_payoff = problem.payoff.num_bytes()
    by_lane += rule_bytes(problem, rule) / problem.num_lanes
    if isinstance(problem.payoff, NestedPayoff):
        with precision(problem.dtype):
            below = jax.eval_shape(lambda payoff: payoff.start(problem.dtype), problem.payoff)
        lane_payoff += array_bytes(below)
    temporary = (STATE_ARRAYS + LOOP_ARRAYS) * sequences * itemsize
    return Size(array_bytes(problem.sides) + shared_payoff, round(by_lane + lane_payoff + temporary))


def rule_bytes(problem: Problem, rule: Rule) -> int:
    """Bytes of a rule's state for both players, from its shapes."""
    treeplexes = [treeplex for side in problem.sides for treeplex in (side.entry, side.body)]
    num_lanes, dtype = problem.num_lanes, np.dtype(problem.dtype)
    with precision(dtype):
        return sum(array_bytes(_initial_state.eval_shape(rule, x, num_lanes, dtype)) for x in treeplexes)


@compiled(static_argnames=("num_lanes", "dtype"))
def _initial_state(rule: Rule, treeplex: Treeplex, num_lanes: int, dtype: DTypeLike) -> Any:
    """A rule's initial state; a module-level function, so that it is traced only once for each shape."""
    return rule.init(treeplex, num_lanes, dtype)


def _num_sequences(problem: Problem) -> int:
    return sum(part.num_sequences for side in problem.sides for part in (side.entry, side.body))


def batch_size(batch: Batch, dtype: DTypeLike, rule: Rule = CFR_PLUS) -> tuple[Size, Size]:
    """Memory of a chunk of a batch during its loop, and during its whole solve including the certificate."""
    problem = problem_shape(batch, 1, dtype)
    loop = loop_size(problem, rule)
    exact = array_bytes(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, np.float64), problem.terms))
    _, lane_payoff = batch.payoff.num_bytes()
    arrays = FINAL_ARRAYS if _num_hands(batch) == 1 else HANDS_FINAL_ARRAYS
    final = round(arrays * 8 * _num_sequences(problem))
    return loop, Size(loop.fixed, exact + lane_payoff + max(loop.lane, final))


def problem_shape(batch: Batch, count: int, dtype: DTypeLike) -> Problem:
    """Shapes and dtypes of a problem with `count` lanes of a batch; only one lane's numbers are computed."""

    def shape(x: Any) -> jax.ShapeDtypeStruct:
        floating = np.issubdtype(x.dtype, np.floating)
        return jax.ShapeDtypeStruct(x.shape, np.dtype(dtype) if floating else x.dtype)

    def with_lanes(x: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*x.shape[:-1], count), shape(x).dtype)

    first_lane = batch.problem(np.zeros(1, np.int64))
    payoff = batch.payoff
    if payoff.take_lanes(np.zeros(1, np.int64)) is not payoff:  # its numbers differ by lane
        with precision(np.float64):
            payoff = jax.eval_shape(lambda x: x.take_lanes(np.zeros(count, np.int64)), payoff)
    return Problem(
        order=batch.order,
        sides=jax.tree.map(shape, batch.sides),
        terms=jax.tree.map(with_lanes, first_lane.terms),
        payoff=jax.tree.map(shape, payoff),
        regret_tolerance=jax.tree.map(with_lanes, first_lane.regret_tolerance),
    )


def plan_batch(
    batch: Batch,
    dtype: DTypeLike,
    placement: Placement = HOME,
    *,
    rule: Rule = CFR_PLUS,
    memory_limit: int | None = None,
    chunk: int | None = None,
    advice: tuple[str, ...] = ADVICE,
) -> Plan:
    """Splits the lanes of a batch into chunks.

    Args:
      batch: the batch.
      dtype: precision of the solve.
      placement: the devices.
      rule: the regret-matching rule.
      memory_limit: maximum number of bytes on each device; by default the available memory.
      chunk: number of lanes of a chunk, if an earlier part of the solve determined it.
      advice: remedies for the error if not even one lane fits.

    Raises:
      DoesNotFit: if there is not enough memory for one lane.
      ValueError: if there is not enough memory for the given chunk, or its number of lanes is not a multiple
        of the number of devices.
    """
    loop, size = batch_size(batch, dtype, rule)
    shared = array_bytes((batch.sides, batch.payoff))
    description = f"{batch.name}: {{}} lane(s) of {batch.num_games} game(s)"
    needs = Needs(description, size, loop.lane, shared, remedies(advice, dtype), _num_hands(batch))
    return plan_lanes(batch.num_lanes, needs, placement, memory_limit, chunk)


def remedies(advice: Sequence[str], dtype: DTypeLike) -> str:
    """Formats remedies for an error; omits float32 if the solve already uses it."""
    *others, last = (remedy for remedy in advice if remedy != FLOAT32 or np.dtype(dtype) != np.float32)
    return f"expected {', '.join(others)}, or {last}" if others else f"expected {last}"


def plan_game(problem: Problem, lanes: int, rule: Rule = CFR_PLUS, placement: Placement = HOME) -> Plan:
    """Splits lanes of a whole game into chunks.

    Args:
      problem: the game with one lane, in the precision of the solve.
      lanes: number of lanes to solve.
      rule: the regret-matching rule.
      placement: the devices.
    """
    loop = loop_size(problem, rule)
    needs = Needs("the game: {} lane(s)", loop, loop.lane, 0, hands=_num_hands(problem))
    return plan_lanes(lanes, needs, placement, None, None)


def _num_hands(games: Batch | Problem) -> int:
    """Number of adjacent rows that differ only in a player's hand, minimum over both players' bodies."""
    return min(side.body.hands for side in games.sides)


def one_chunk(lanes: int) -> Plan:
    """A plan with one chunk on one device, for a payoff that cannot be split; memory is not checked."""
    return Plan(lanes, lanes, workers=1, devices=1, size=Size(0, 0), shared=0, available=None)


def fits_compiled(plan: Plan, loop: Any) -> Plan:
    """The plan, with a smaller chunk if the compiled loop does not fit in memory.

    Args:
      plan: split of the lanes, on one device.
      loop: the loop, compiled for a chunk.
    """
    analysis = loop.memory_analysis()
    if analysis is None or plan.available is None:
        return plan
    loop_bytes = analysis.argument_size_in_bytes + analysis.output_size_in_bytes + analysis.temp_size_in_bytes
    excess = loop_bytes - analysis.alias_size_in_bytes - plan.chunk_bytes
    if excess * plan.workers <= plan.available - plan.bytes:
        return plan
    share = plan.chunk_bytes / (plan.chunk_bytes + excess)
    chunk = max(int(plan.chunk * share), 1)
    return dataclasses.replace(plan, chunk=chunk, workers=min(plan.workers, -(-plan.lanes // chunk)))


class Needs(NamedTuple):
    """Memory requirements of lanes.

    Attributes:
      description: description of the lanes, with a placeholder for their number.
      size: bytes of a chunk.
      loop: bytes per lane that an iteration touches.
      shared: bytes that all chunks share.
      advice: remedy if not even one lane fits.
      hands: number of adjacent rows that differ only in a player's hand.
    """

    description: str
    size: Size
    loop: int
    shared: int
    advice: str = "expected a larger memory_limit"
    hands: int = 1


def plan_lanes(
    lanes: int, needs: Needs, placement: Placement, memory_limit: int | None, chunk: int | None
) -> Plan:
    """Splits lanes into chunks; arguments as in `plan_batch`."""
    size, shared = needs.size, needs.shared
    available = find_memory(placement, shared) if memory_limit is None else memory_limit
    devices, cores = len(placement.devices), find_workers(placement)
    if chunk is not None and chunk % devices:
        raise ValueError(
            f"devices: {devices} devices cannot share chunks of {chunk} lanes, with which this solve began; "
            f"expected a number of devices that divides {chunk}, as that at the start, or another checkpoint"
        )
    cached, step, overhead = None, LANE_STEP, LAUNCH_LANES
    if placement.on_cpu:
        fills_vectors = needs.hands >= LANE_STEP
        step, overhead = (HAND_LANES, 0) if fills_vectors else (LANE_STEP, CHUNK_LANES)
        cached = max(CACHE_BYTES // needs.loop // step, 1) * step
        if fills_vectors:
            cached = min(cached, MAX_HAND_LANES)
    splits: list[tuple[int, int, int]] = []
    for workers in range(1, cores + 1):
        room = lanes if chunk is None else max(lanes, chunk)  # a chunk may have copies besides
        if available is not None:
            room = ((available - shared) // workers - size.fixed) // size.lane
        limit = devices * (room if cached is None else min(room, cached))
        chunk_lanes = choose_chunk(lanes, limit, devices, workers, overhead, step) if chunk is None else chunk
        if devices <= limit and chunk_lanes <= devices * room:
            rounds = -(-lanes // (chunk_lanes * workers))
            splits.append((rounds * (chunk_lanes + overhead), workers, chunk_lanes))
    if not splits:
        required = 1 if chunk is None else -(-chunk // devices)
        required_bytes = shared + size.total(required)
        began = "" if chunk is None else f", as this solve began with chunks of {chunk} lanes"
        raise (DoesNotFit if chunk is None else ValueError)(
            f"{needs.description.format(required)} take {megabytes(required_bytes)} of memory{began}, "
            f"but {megabytes(available or 0)} is available; {needs.advice}"
        )
    _, workers, chunk_lanes = min(splits)
    plan = Plan(lanes, chunk_lanes, workers, devices, size, shared, available)
    return dataclasses.replace(plan, workers=min(workers, plan.num_chunks))


def choose_chunk(
    lanes: int, limit: int, devices: int, workers: int, overhead: int, lane_step: int = LANE_STEP
) -> int:
    """Number of lanes of a chunk.

    Args:
      lanes: number of lanes.
      limit: largest number of lanes of a chunk that fits in memory.
      devices: number of devices, a divisor of the chunk.
      workers: number of chunks that are solved at the same time.
      overhead: fixed cost of a chunk, in lanes.
      lane_step: divisor of a chunk's lanes on a device, where possible.

    Returns:
      All lanes or a multiple of the step, whichever is cheapest and fits; if neither fits, as many lanes as
      do, possibly 0.
    """
    whole, step = -(-lanes // devices) * devices, lane_step * devices
    sizes = [*range(step, min(limit, whole) + 1, step), *([whole] if whole <= limit else [])]
    if not sizes:
        return limit // devices * devices

    def cost(size: int) -> tuple[float, int]:
        padding = -lanes % size  # occupies a core without a result
        return -(-lanes // (size * workers)) * (size + overhead) + padding / 4, -size

    return min(sizes, key=cost)


def suggest_chunk(
    sequences: int, lanes: int, dtype: DTypeLike, placement: Placement = HOME, memory: int | None = None
) -> int:
    """Number of lanes of a chunk, estimated from the games' size alone, without arrays.

    Args:
      sequences: number of sequences of both players, below the roots.
      lanes: number of lanes.
      dtype: precision of the solve.
      placement: the devices.
      memory: bytes available to the solve on each device; None if unknown.

    Returns:
      A multiple of the number of devices. One lane per device if not even these fit; the solve then raises.
    """
    devices, size = len(placement.devices), np.dtype(dtype).itemsize
    limit, overhead = -(-lanes // devices), LAUNCH_LANES
    if placement.on_cpu:
        touched = SOLVE_ARRAYS * sequences * size
        limit, overhead = max(int(CACHE_BYTES / touched) // LANE_STEP, 1) * LANE_STEP, CHUNK_LANES
    if memory is not None:
        limit = min(limit, int((memory / sequences - FOREST_BYTES) / (GAME_ARRAYS[size] * 8)))
    return max(choose_chunk(lanes, limit * devices, devices, find_workers(placement), overhead), devices)
