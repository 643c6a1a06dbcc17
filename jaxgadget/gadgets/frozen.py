"""Subgames of own infostates, of which the others play as the blueprint does, as numbers of a gadget game.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021), at order 1: of an own infostate I the
subgame has the opponent's infostates J that meet I, with all that the opponent may decide below them. What
these decisions earn against the own infostates of J other than I is the same whatever I plays: a constant of
the opponent's sequences. Alternative values, masses and priors are those of the whole J, never of the part
that I has of it. At order k the same is said of all own infostates that are freed, Iᵏ, in place of I.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.sparse import csr_array

from jaxgadget.gadgets.ranges import Ranges, sum_rows
from jaxgadget.gadgets.structure import as_matrix
from jaxgadget.kernels.rows import pad_rows
from jaxgadget.tree.forest import Forest, followed_payoff
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Frozen:
    """What the rest of an opponent's root infostates brings to the subgames of own ones, L blueprints.

    Attributes:
      earned: `[E, L]` what each sequence of the opponent's body earns against own infostates outside of its
        subgame, in its utility, weighted by the reach of chance and the blueprint.
      reached: `[S, L]` whether the resolving player and chance ever get to a subgame's own infostate.
    """

    earned: FloatArray
    reached: BoolArray


def split_ranges(ranges: Ranges, base: Forest, forest: Forest, player: int) -> Ranges:
    """The ranges of a cut, for the subgames of own infostates: a root for each pair of I and J.

    Args:
      ranges: what blueprints bring to the cut; its trunk is left out.
      base: the subgames of the cut.
      forest: the subgames of own infostates.
      player: who re-solves.
    """
    own, theirs = (_numbers(base, forest, p) for p in (player, 1 - player))
    return Ranges(
        num_subgames=forest.num_subgames,
        subgame=forest.roots[1 - player].subgame,
        root=np.arange(len(theirs)),
        resolver=ranges.resolver[own],
        opponent=ranges.opponent[theirs],
        mass=ranges.mass[theirs],
        cbv=ranges.cbv[theirs],
        played=None if ranges.played is None else ranges.played[theirs],
    )


def _numbers(base: Forest, forest: Forest, player: int) -> IntArray:
    """`[R]` which of a cut's root infostates each root of a forest is; the cut has each of them once."""
    return np.searchsorted(base.roots[player].infostate, forest.roots[player].infostate)


def find_frozen(base: Forest, forest: Forest, player: int, reach: FloatArray) -> Frozen:
    """What own infostates bring to each other's subgames.

    Args:
      base: the subgames of the cut.
      forest: the subgames of own infostates.
      player: who re-solves.
      reach: `[sequences of the tree, L]` the resolving player's blueprints.
    """
    other, own = 1 - player, forest.roots[player]
    resolver = pad_rows(reach[own.sequence], forest.form.treeplex[player].num_roots, 0)
    mass = np.asarray(as_matrix(forest.chance, other) @ resolver)[: len(forest.roots[other])]
    own_mass = sum_rows(forest.roots[other].subgame, mass, forest.num_subgames)
    sequence = _base_sequences(base, forest, other)
    whole = np.where(sequence[:, None] >= 0, _earned(base, other, reach)[sequence], 0)
    return Frozen(earned=whole - _earned(forest, other, reach), reached=own_mass > 0)


def _earned(forest: Forest, player: int, reach: FloatArray) -> FloatArray:
    """`[S, L]` what each sequence of a player earns there against the other one's reach."""
    entries = followed_payoff(forest, player)
    payoff = csr_array((entries.value, (entries.row, entries.column)), shape=entries.shape)
    return np.asarray(payoff @ reach)


def _base_sequences(base: Forest, forest: Forest, player: int) -> IntArray:
    """`[S]` which of a player's sequences below a cut each one of the forest is a copy of, -1 for padding."""
    action = forest.form.action_sequences(player)
    below = np.where(action >= 0, base.form.from_tree(player)[action], -1)
    return np.concatenate(
        [pad_rows(_numbers(base, forest, player), forest.form.treeplex[player].num_roots, -1), below]
    )
