"""Preparation of a gadget's inputs: a forest on the device, and the blueprints' ranges at its roots."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from jaxgadget.core.devices import HOME, Placement
from jaxgadget.core.memory import ADVICE, MANY_LANES, DoesNotFit, find_memory, remedies
from jaxgadget.core.payoff import payoff_bytes
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.frozen import find_frozen, split_ranges
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import Prepared
from jaxgadget.gadgets.ranges import Ranges, join_lanes, join_roots
from jaxgadget.gadgets.structure import build_structure, find_ranges, trunk_ranges
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.parts import root_numbers, take_part
from jaxgadget.tree.sequence import Treeplexes
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.memory import megabytes

RANGE_ARRAYS = 2.5
"""Memory needed to compute a blueprint's ranges, in arrays `[S_0 + S_1, lanes]` of float64."""

STRUCTURE_BYTES = 40
"""Memory of a sequence in a forest's index arrays, without payoffs."""


def body_rows(form: Treeplexes, policy: Policy, player: int) -> FloatArray:
    """Converts a player's policies to strategies `[Q, lanes]` of its treeplex, 0 for padding."""
    sequence = form.action_sequences(player)
    return np.where(sequence[:, None] >= 0, policy.probabilities[player][sequence - 1], 0)


def prepare(
    forest: Forest,
    player: int,
    blueprint: Policy,
    gadgets: Iterable[Gadget] = (),
    *,
    root: IntArray | None = None,
    at_once: int | None = None,
    platform: str | None = None,
) -> Prepared:
    """Places a forest on the device and computes the blueprints' ranges at its roots.

    Args:
      forest: the subgames.
      player: the resolving player.
      blueprint: profiles of the forest's game, one per lane.
      gadgets: the requested gadgets, which determine the inputs to compute.
      root: `[R]` index of each of the opponent's roots in the gadgets' arrays; by default 0, 1, ….
      at_once: number of blueprints whose ranges are computed at a time; by default all.
      platform: platform of the devices that solve; by default that of JAX's default backend.
    """
    required = frozenset[Capability]().union(*(gadget.requires for gadget in gadgets))
    trunk = build_trunk(forest) if Capability.TRUNK in required else None
    structure, other = build_structure(forest, player, platform), 1 - player
    parts: list[Ranges] = []
    for profiles in _in_turn(blueprint, at_once or blueprint.num_lanes):
        strategy = body_rows(forest.form, profiles, 0), body_rows(forest.form, profiles, 1)
        first, second = (forest.roots[p].reach(profiles.reach(p)) for p in (0, 1))
        ranges = find_ranges(structure, strategy, (first, second), played=Capability.PLAYED in required)
        if trunk is not None:
            own = profiles.reach(player)[trunk.sequences(player)]
            theirs = profiles.probabilities[other][trunk.form.action_sequences(other) - 1]
            ranges = dataclasses.replace(ranges, trunk=trunk_ranges(trunk, player, own, theirs))
        parts.append(ranges if root is None else dataclasses.replace(ranges, root=root))
    return Prepared(
        structure=structure,
        ranges=join_lanes(parts, blueprint.num_lanes),
        rows=(body_rows(forest.form, blueprint, 0), body_rows(forest.form, blueprint, 1)),
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Base:
    """Ranges of blueprints at the cut where subgames of own infostates begin, in host memory.

    Attributes:
      forest: the subgames of the cut.
      player: the resolving player.
      blueprint: the blueprints, one per lane.
      ranges: their ranges at the cut.
      platform: platform of the devices that solve.
    """

    forest: Forest
    player: int
    blueprint: Policy
    ranges: Ranges
    platform: str | None = None


def prepare_base(
    forest: Forest,
    player: int,
    blueprint: Policy,
    gadgets: Iterable[Gadget] = (),
    *,
    placement: Placement = HOME,
    memory_limit: int | None = None,
) -> Base:
    """Computes the ranges of blueprints at a cut, in chunks that fit in memory.

    Args:
      forest: the subgames of the cut.
      player: the resolving player.
      blueprint: profiles of the forest's game, one per lane.
      gadgets: the requested gadgets; none may need the trunk.
      placement: the devices.
      memory_limit: see `plan_ranges`.

    Raises:
      DoesNotFit: if not even one blueprint and subgame fit.
    """
    gadgets, parts, numbers = tuple(gadgets), list[Ranges](), list[tuple[IntArray, IntArray]]()
    for subgames, part, at_once in _fitting(forest, np.arange(forest.num_subgames), placement, memory_limit):
        prepared = prepare(part, player, blueprint, gadgets, at_once=at_once, platform=placement.platform)
        own, theirs = (root_numbers(part, forest, subgames, p) for p in (player, 1 - player))
        parts.append(prepared.ranges)
        numbers.append((own, theirs))
    ranges = join_roots(parts, numbers, forest.roots[1 - player].subgame)
    return Base(forest, player, blueprint, ranges, placement.platform)


def _fitting(
    forest: Forest, subgames: IntArray, placement: Placement, memory_limit: int | None
) -> Iterator[tuple[IntArray, Forest, int]]:
    """Numbers of subgames and blueprints whose ranges are computed at a time."""
    part = take_part(forest, subgames)
    try:
        at_once = plan_ranges(part, placement, memory_limit)
    except DoesNotFit:
        if len(subgames) == 1:
            raise
        for half in np.array_split(subgames, 2):
            yield from _fitting(forest, half, placement, memory_limit)
    else:
        yield subgames, part, at_once


def prepare_known(
    base: Base, forest: Forest, *, root: IntArray | None = None, considered: BoolArray | None = None
) -> Prepared:
    """Counterpart of `prepare` for subgames of own infostates, given the blueprints' ranges at their cut.

    Args:
      base: the ranges at the cut.
      forest: subgames of own infostates: a frozen cover, or a subset of its subgames.
      root: as in `prepare`.
      considered: `[R, lanes]` mask of the opponent's roots considered; by default all.
    """
    player, blueprint = base.player, base.blueprint
    structure = build_structure(forest, player, base.platform)
    ranges = split_ranges(base.ranges, base.forest, forest, player)
    rows = body_rows(base.forest.form, blueprint, player)
    plan = base.forest.form.treeplex[player].realise(base.ranges.resolver, rows)
    frozen = find_frozen(base.forest, forest, player, plan)
    ranges = ranges if root is None else dataclasses.replace(ranges, root=root)
    if considered is not None:
        ranges = ranges.considering(considered)
    return Prepared(
        structure=structure,
        ranges=ranges,
        rows=(body_rows(forest.form, blueprint, 0), body_rows(forest.form, blueprint, 1)),
        frozen=frozen,
    )


def _in_turn(policy: Policy, count: int) -> Iterator[Policy]:
    """Yields `count` lanes at a time; the last batch is padded with copies."""
    if count >= policy.num_lanes:
        yield policy
        return
    for begin in range(0, policy.num_lanes, count):
        lanes = np.minimum(np.arange(begin, begin + count), policy.num_lanes - 1)
        yield policy.take_lanes(lanes)


def plan_ranges(
    forest: Forest,
    placement: Placement,
    memory_limit: int | None = None,
    *,
    advice: tuple[str, ...] = ADVICE,
) -> int:
    """Largest number of blueprints whose ranges can be computed together.

    Args:
      forest: the subgames, in host memory.
      placement: the devices.
      memory_limit: as in `plan_batch`.
      advice: as in `plan_batch`.

    Raises:
      DoesNotFit: if there is not enough memory for one blueprint.
    """
    available = find_memory(placement) if memory_limit is None else memory_limit
    sequences = forest.form.num_sequences
    entries = STRUCTURE_BYTES * sequences + 4 * payoff_bytes(forest.form.payoff, np.float64)
    lane = round(RANGE_ARRAYS * 8 * sequences)
    if available is None:
        return MANY_LANES
    if available < entries + lane:
        raise DoesNotFit(
            f"{forest.num_subgames} subgame(s) of {forest.tree.game.name} take {megabytes(entries + lane)} "
            f"of memory before they are solved, but {megabytes(available)} is available; "
            f"{remedies(advice, np.float32)}"  # ranges are computed in float64 in any case
        )
    return min((available - entries) // lane, MANY_LANES)
