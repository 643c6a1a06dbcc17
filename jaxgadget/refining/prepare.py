"""A forest on the device, and what blueprints bring to it: what comes before a gadget."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from jaxgadget.gadgets.frozen import Frozen, find_frozen, split_ranges
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.ranges import Ranges, join_lanes
from jaxgadget.gadgets.structure import Structure, build_structure, find_ranges, trunk_ranges
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.sequence import Treeplexes
from jaxgadget.tree.trunk import Trunk, build_trunk
from jaxgadget.util.arrays import FloatArray, IntArray


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


def prepare_known(base: Prepared, forest: Forest, *, root: IntArray | None = None) -> Prepared:
    """The same for the subgames of own infostates, from what blueprints bring to the cut that they are of.

    Args:
      base: the cut's own subgames.
      forest: of own infostates: a frozen cover of order 1, or some of its subgames.
      root: as in `prepare`.
    """
    player, blueprint = base.player, base.blueprint
    structure = build_structure(forest, player, base.structure.platform)
    ranges = split_ranges(base.ranges, base.forest, forest, player)
    plan = base.forest.form.treeplex[player].realise(base.ranges.resolver, base.rows(player))
    frozen = find_frozen(base.forest, forest, player, plan)
    ranges = ranges if root is None else dataclasses.replace(ranges, root=root)
    return Prepared(structure, None, blueprint, ranges, frozen)


def _in_turn(policy: Policy, count: int) -> Iterator[Policy]:
    """So many lanes at a time; the last ones are filled up with copies."""
    if count >= policy.num_lanes:
        yield policy
        return
    for begin in range(0, policy.num_lanes, count):
        lanes = np.minimum(np.arange(begin, begin + count), policy.num_lanes - 1)
        first, second = (rows[:, lanes] for rows in policy.probabilities)
        yield Policy(policy.tree, (first, second), tuple(policy.labels[lane] for lane in lanes.tolist()))
