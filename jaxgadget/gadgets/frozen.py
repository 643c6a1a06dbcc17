"""Gadget games of own infostates, in which all other own infostates follow the blueprint.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021). At order 1 the subgame of an own
infostate I contains the opponent's infostates J that are compatible with I, and the opponent's decisions
below them. The payoff of these decisions against own infostates that meet J, other than I, does not depend on
the strategy at I: it is a constant of the opponent's sequences. Alternative values, masses and priors are
those of the whole J, not of its overlap with I. At order k, I is replaced by Iᵏ, all own infostates that are
freed.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.core.payoff import multiply
from jaxgadget.gadgets.ranges import Ranges, sum_rows
from jaxgadget.tree.forest import Forest, find_copies
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.players import sign_of


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Frozen:
    """Contribution of frozen own infostates to the subgames of other own infostates; L blueprints.

    Attributes:
      earned: `[E, L]` payoff of each sequence of the opponent's body against own infostates outside of the
        sequence's subgame, in the opponent's utility, weighted by the reach of chance and the blueprint.
      reached: `[S, L]` True where the resolving player and chance reach a subgame's own infostate.
    """

    earned: FloatArray
    reached: BoolArray


def split_ranges(
    ranges: Ranges,
    base: Forest,
    forest: Forest,
    player: int,
    within: IntArray | None = None,
    opponent: FloatArray | None = None,
) -> Ranges:
    """Converts the ranges of a cut to subgames of own infostates, with a root for each pair of I and J.

    Args:
      ranges: ranges of the cut; the result has no trunk.
      base: the subgames of the cut, or others in which each of the opponent's infostates is whole.
      forest: the subgames of own infostates.
      player: the resolving player.
      within: `[S]` the subgame of `base` that contains each subgame of `forest`; by default the cut's
        subgames.
      opponent: `[R, L]` the opponent's reach of its roots in `forest`; by default that of `ranges`.
    """
    own, theirs = (
        find_copies(base, forest, p, _around(forest, p, within))[: len(forest.roots[p])]
        for p in (player, 1 - player)
    )
    return Ranges(
        num_subgames=forest.num_subgames,
        subgame=forest.roots[1 - player].subgame,
        root=np.arange(len(theirs)),
        resolver=ranges.resolver[own],
        opponent=ranges.opponent[theirs] if opponent is None else opponent,
        mass=ranges.mass[theirs],
        cbv=ranges.cbv[theirs],
        played=None if ranges.played is None else ranges.played[theirs],
    )


def find_frozen(
    base: Forest, forest: Forest, player: int, plan: FloatArray, within: IntArray | None = None
) -> Frozen:
    """Computes the contribution of own infostates to each other's subgames.

    Args:
      base: as in `split_ranges`; must extend to the same limit as `forest`.
      forest: the subgames of own infostates.
      player: the resolving player.
      plan: `[sequences, L]` the resolving player's blueprints, as realisation plans in `base`.
      within: `[S]` as in `split_ranges`.
    """
    other = 1 - player
    own, theirs = (find_copies(base, forest, p, _around(forest, p, within)) for p in (player, other))
    own_plan = np.where(own[:, None] >= 0, plan[own], 0)
    mass = multiply(forest.chance, other, own_plan[: forest.form.treeplex[player].num_roots])
    own_mass = sum_rows(
        forest.roots[other].subgame, np.asarray(mass)[: len(forest.roots[other])], forest.num_subgames
    )
    whole = np.where(theirs[:, None] >= 0, _earned(base, other, plan)[theirs], 0)
    return Frozen(earned=whole - _earned(forest, other, own_plan), reached=own_mass > 0)


def _around(forest: Forest, player: int, within: IntArray | None) -> IntArray | None:
    """`[R]` the subgame of `base` that contains each of a player's roots; None for the cut's subgames."""
    return None if within is None else within[forest.roots[player].subgame]


def _earned(forest: Forest, player: int, plan: FloatArray) -> FloatArray:
    """`[S, L]` payoff of each sequence of a player against the other player's plan."""
    return sign_of(player) * multiply(forest.form.payoff, player, plan)
