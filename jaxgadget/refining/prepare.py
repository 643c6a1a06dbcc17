"""Subgames and blueprints on the device: what comes before a gadget."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator

import jax
import numpy as np

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import (
    Structure,
    blueprint_ranges,
    blueprint_values,
    build_structure,
    build_trunk_structure,
    pad_rows,
    trunk_ranges,
)
from jaxgadget.games.game import FloatArray
from jaxgadget.kernels.problem import Parts
from jaxgadget.policy.evaluate import to_parts
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.drive import precision
from jaxgadget.solving.forest import join_ranges
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.trunk import Trunk, build_trunk


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """What comes before a gadget, in float64.

    Attributes:
      forest: the subgames.
      trunk: what lies above them, if a gadget needs it.
      structure: the forest on the device.
      blueprint: the blueprints, a lane each.
      ranges: what they bring.
    """

    forest: Forest
    trunk: Trunk | None
    structure: Structure
    blueprint: Policy
    ranges: Ranges

    @functools.cached_property
    def strategy(self) -> tuple[Parts, Parts]:
        """Both players' blueprints below the cut, `[Q, lanes]`."""
        with precision(np.float64):
            return to_parts(self.forest.form, self.blueprint, np.float64)

    @property
    def rows(self) -> FloatArray:
        """The resolving player's, `[Q, lanes]`, on the host."""
        player = self.structure.player
        sequence = self.forest.form.action_sequences(player)
        return np.where(sequence[:, None] >= 0, self.blueprint.probabilities[player][sequence - 1], 0)


def prepare(
    forest: Forest,
    player: int,
    blueprint: Policy,
    gadgets: Iterable[Gadget] = (),
    *,
    at_once: int | None = None,
) -> Prepared:
    """Puts a forest and blueprints on the device.

    Args:
      forest: the subgames.
      player: who re-solves.
      blueprint: profiles of the forest's game, a lane each.
      gadgets: what is asked for; they say what they need.
      at_once: for how many blueprints ranges are computed at a time; by default all.
    """
    needs = frozenset[str]().union(*(gadget.needs for gadget in gadgets))
    trunk = build_trunk(forest) if "trunk" in needs else None
    with precision(np.float64):
        structure = build_structure(forest, player, np.float64)
        above = None if trunk is None else build_trunk_structure(trunk, forest, player, np.float64)
        found: list[Ranges] = []
        for some in _in_turn(blueprint, at_once or blueprint.num_lanes):
            strategy, reach = to_parts(forest.form, some, np.float64), _root_reach(forest, some)
            ranges = blueprint_ranges(structure, strategy, reach)
            if "played" in needs:
                ranges = dataclasses.replace(ranges, played=blueprint_values(structure, strategy, reach))
            if above is not None and trunk is not None:
                own = some.reach(player)[trunk.sequences(player)]
                theirs = some.probabilities[1 - player][trunk.form.action_sequences(1 - player) - 1]
                way = trunk_ranges(above, jax.device_put(own), jax.device_put(theirs))
                ranges = dataclasses.replace(ranges, trunk=way)
            found.append(ranges)
        joined = join_ranges(found, blueprint.num_lanes)
    return Prepared(forest, trunk, structure, blueprint, joined)


def _in_turn(policy: Policy, count: int) -> Iterator[Policy]:
    """So many lanes at a time; the last ones are filled up with copies."""
    if count >= policy.num_lanes:
        yield policy
        return
    for begin in range(0, policy.num_lanes, count):
        lanes = np.minimum(np.arange(begin, begin + count), policy.num_lanes - 1)
        first, second = (rows[:, lanes] for rows in policy.probabilities)
        yield Policy(policy.tree, (first, second), tuple(policy.labels[lane] for lane in lanes.tolist()))


def _root_reach(forest: Forest, blueprint: Policy) -> tuple[jax.Array, jax.Array]:
    """Both players' own reach of their roots, `[R, lanes]`, 0 for padding."""
    first, second = (
        pad_rows(blueprint.reach(p)[forest.roots[p].sequence], forest.form.treeplex[p].num_roots, 0)
        for p in (0, 1)
    )
    return jax.device_put(first), jax.device_put(second)
