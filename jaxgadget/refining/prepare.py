"""A forest on the device, and what blueprints bring to it: what comes before a gadget."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from jaxgadget.gadgets.frozen import Frozen, find_frozen, split_ranges
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.ranges import Ranges, join_lanes, join_roots
from jaxgadget.gadgets.structure import Structure, build_structure, find_ranges, trunk_ranges
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.devices import HOME, Placement
from jaxgadget.solving.memory import DoesNotFit, plan_ranges
from jaxgadget.solving.parts import root_numbers, take_part
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Treeplexes
from jaxgadget.tree.trunk import Trunk, build_trunk
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """What comes before a gadget, in float64.

    Attributes:
      structure: the forest on the device.
      trunk: what lies above the subgames, if a gadget needs it.
      blueprint: the blueprints, a lane each.
      ranges: what they bring.
      frozen: what is not solved for, in subgames of own infostates; None in those of a cut.
    """

    structure: Structure
    trunk: Trunk | None
    blueprint: Policy
    ranges: Ranges
    frozen: Frozen | None = None

    @property
    def forest(self) -> Forest:
        """The subgames."""
        return self.structure.forest

    @property
    def player(self) -> int:
        """Who re-solves."""
        return self.structure.player

    def rows(self, player: int) -> FloatArray:
        """`[Q, lanes]` a player's blueprints below the cut."""
        return body_rows(self.forest.form, self.blueprint, player)


def body_rows(form: Treeplexes, policy: Policy, player: int) -> FloatArray:
    """`[Q, lanes]` a player's policies as strategies of its treeplex, 0 for padding."""
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
    """Puts a forest on the device and finds what blueprints bring to it.

    Args:
      forest: the subgames.
      player: who re-solves.
      blueprint: profiles of the forest's game, a lane each.
      gadgets: what is asked for; they say what they need.
      root: `[R]` the number of each of the opponent's roots in arrays of the gadgets; by default 0, 1, ….
      at_once: for how many blueprints ranges are computed at a time; by default all.
      platform: of the devices that will solve; by default that of JAX's default backend.
    """
    needs = frozenset[str]().union(*(gadget.needs for gadget in gadgets))
    trunk = build_trunk(forest) if "trunk" in needs else None
    structure, other = build_structure(forest, player, platform), 1 - player
    parts: list[Ranges] = []
    for profiles in _in_turn(blueprint, at_once or blueprint.num_lanes):
        strategy = body_rows(forest.form, profiles, 0), body_rows(forest.form, profiles, 1)
        first, second = (profiles.reach(p)[forest.roots[p].sequence] for p in (0, 1))
        ranges = find_ranges(structure, strategy, (first, second), played="played" in needs)
        if trunk is not None:
            own = profiles.reach(player)[trunk.sequences(player)]
            theirs = profiles.probabilities[other][trunk.form.action_sequences(other) - 1]
            ranges = dataclasses.replace(ranges, trunk=trunk_ranges(trunk, player, own, theirs))
        parts.append(ranges if root is None else dataclasses.replace(ranges, root=root))
    return Prepared(structure, trunk, blueprint, join_lanes(parts, blueprint.num_lanes))


@dataclasses.dataclass(frozen=True, eq=False)
class Base:
    """What blueprints bring to a cut at which subgames of own infostates begin; nothing is on a device.

    Attributes:
      forest: the subgames of the cut.
      player: who re-solves.
      blueprint: the blueprints, a lane each.
      ranges: what they bring.
      platform: of the devices that will solve.
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
    """What blueprints bring to a cut, found in as many parts as memory allows.

    Args:
      forest: the subgames of the cut.
      player: who re-solves.
      blueprint: profiles of the forest's game, a lane each.
      gadgets: what is asked for; none that needs the trunk.
      placement: the devices.
      memory_limit: see `solving.memory.plan_ranges`.

    Raises:
      DoesNotFit: if not even one blueprint and subgame fit.
    """
    gadgets, parts, numbers = tuple(gadgets), list[Ranges](), list[tuple[IntArray, IntArray]]()
    for subgames, part, at_once in _fitting(forest, np.arange(forest.num_subgames), placement, memory_limit):
        here = prepare(part, player, blueprint, gadgets, at_once=at_once, platform=placement.platform)
        own, theirs = (root_numbers(part, forest, subgames, p) for p in (player, 1 - player))
        parts.append(here.ranges)
        numbers.append((own, theirs))
    ranges = join_roots(parts, numbers, forest.roots[1 - player].subgame)
    return Base(forest, player, blueprint, ranges, placement.platform)


def _fitting(
    forest: Forest, subgames: IntArray, placement: Placement, memory_limit: int | None
) -> Iterator[tuple[IntArray, Forest, int]]:
    """Subgames whose ranges can be found at once, and for how many blueprints at a time."""
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
    """The same as `prepare` for subgames of own infostates, from what blueprints bring to their cut.

    Args:
      base: what they bring.
      forest: of own infostates: a frozen cover, or some of its subgames.
      root: as in `prepare`.
      considered: `[R, lanes]` which of the opponent's roots are considered; by default all.
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
    return Prepared(structure, None, blueprint, ranges, frozen)


def _in_turn(policy: Policy, count: int) -> Iterator[Policy]:
    """So many lanes at a time; the last ones are filled up with copies."""
    if count >= policy.num_lanes:
        yield policy
        return
    for begin in range(0, policy.num_lanes, count):
        lanes = np.minimum(np.arange(begin, begin + count), policy.num_lanes - 1)
        yield policy.take_lanes(lanes)
