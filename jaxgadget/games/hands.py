"""Games in hand form: private hands are dealt once, all later moves are public.

Such a game is a tree of public nodes with, at each terminal node, the payoff of every pair of hands. Its
histories are the product of the two and are never enumerated: Liar's Dice with two dice of five faces has
1.3e9 histories, but 2.1 million public nodes and 15 hands. This module uses NumPy only;
`jaxgadget.tree.public` lays such games out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL, CutRule
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


class PublicLevel(NamedTuple):
    """All public nodes of one depth, `[t]`, sorted by parent, then by action.

    Attributes:
      parent: `[t]` row in the level above; the first level has one row, parent 0.
      actor: `[t]` acting player: `PLAYER_0`, `PLAYER_1`, `CHANCE` or `TERMINAL`.
      action: `[t]` action or chance outcome at the parent; ignored at the root.
    """

    parent: IntArray
    actor: npt.NDArray[np.uint8]
    action: IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublicNodes:
    """Tree of n public nodes in breadth-first order; children of a node are adjacent.

    Attributes:
      level_offset: `[levels + 1]` first node of each level.
      parent: `[n]` the node above; the root is its own.
      actor: `[n]` as in `PublicLevel`.
      action: `[n]` as in `PublicLevel`, -1 at the root.
    """

    level_offset: IntArray
    parent: IntArray
    actor: npt.NDArray[np.uint8]
    action: IntArray

    @staticmethod
    def of(levels: Iterable[PublicLevel]) -> PublicNodes:
        """Concatenates levels."""
        level_list = list(levels)
        sizes = [len(level.parent) for level in level_list]
        offset = np.append(0, np.cumsum(sizes))
        above = np.repeat(np.append(0, offset[:-2]), sizes)
        action = np.concatenate([level.action for level in level_list]).astype(np.int64)
        action[0] = -1
        return PublicNodes(
            level_offset=offset,
            parent=np.concatenate([level.parent for level in level_list]) + above,
            actor=np.concatenate([level.actor for level in level_list]).astype(np.uint8),
            action=action,
        )

    def __len__(self) -> int:
        return len(self.parent)

    def levels_below(self) -> list[slice]:
        """Slices of the nodes of every level below the root, top-down."""
        return [slice(*ends) for ends in itertools.pairwise(self.level_offset[1:].tolist())]

    def __repr__(self) -> str:
        return f"<PublicNodes: {len(self)} nodes, {len(self.ends)} of them ends>"

    @functools.cached_property
    def ends(self) -> IntArray:
        """Terminal nodes, ascending."""
        return np.flatnonzero(self.actor == TERMINAL)

    def decisions(self, player: int) -> IntArray:
        """Nodes at which a player acts, ascending."""
        return np.flatnonzero(self.actor == ACTOR_BIT[player])

    @functools.cached_property
    def num_children(self) -> IntArray:
        """`[n]` number of children."""
        count = np.bincount(self.parent, minlength=len(self))
        count[0] -= 1  # the root is its own parent
        return count

    @functools.cached_property
    def first_child(self) -> IntArray:
        """`[n]` first child; the others follow in the order of actions."""
        return 1 + np.cumsum(self.num_children) - self.num_children

    @functools.cached_property
    def slot(self) -> IntArray:
        """`[n]` position among the children of its parent, from 0."""
        slot = np.arange(len(self)) - self.first_child[self.parent]
        slot[0] = 0
        return slot

    def moves(self, node: int) -> tuple[int, ...]:
        """Actions and chance outcomes on the path to a node."""
        done: list[int] = []
        while node:
            done.append(int(self.action[node]))
            node = int(self.parent[node])
        return tuple(reversed(done))


class PublicEnds(NamedTuple):
    """Terminal nodes grouped by payoff table: B tables, T nodes per table.

    Player 0's payoff at `node[b, t]` for a pair of hands, times chance's reach probability of the pair there
    (deal and public chance), is `scale[b, t] × pays[b, hand 0, hand 1]`.

    Attributes:
      node: `[B, T]` terminal nodes.
      scale: `[B, T]` factor, for example the chips in the pot.
      pays: `[B, H_0, H_1]` tables, or an operator that applies all B without materialising them
        (`jaxgadget.core.hands.PairTables`).
    """

    node: IntArray
    scale: FloatArray
    pays: Any


@runtime_checkable
class SelectsTables(Protocol):
    """An operator of `PublicEnds` that can be restricted to some tables and takes any number of nodes."""

    def take_tables(self, selected: IntArray) -> Any:
        """The operator of the selected tables."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HandsGame:
    """A game in hand form. Player p holds one of H_p hands.

    Attributes:
      name: the canonical string of the game.
      hands: names of both players' hands.
      nodes: the public nodes.
      ends: payoffs of terminal nodes, each node at most once; omitted nodes pay 0.
      deals: `[K, H_0, H_1]` joint probability of each pair of hands and the public chance outcomes, for K
        boards, including the empty one; None if not tabulated.
      board: `[n]` index of the board at every public node; None if `deals` is.
      possible: per player `[n, H_p]` mask of the hands that it may hold at every public node (not those with
        a public card); None for all.
      payoff_bounds: minimum and maximum of player 0's payoff.
      constant: the sum of both players' returns; half of it is subtracted from each player's payoff.
      action_names: names of the players' actions, by id.
      zero_sum: whether one player's payoff is minus the other's, apart from the constant. Otherwise `pays`
        are operators that return each player's own payoff, with the opposite sign for player 1.
    """

    name: str
    hands: tuple[tuple[str, ...], tuple[str, ...]]
    nodes: PublicNodes
    ends: tuple[PublicEnds, ...]
    payoff_bounds: tuple[float, float]
    deals: FloatArray | None = None
    board: IntArray | None = None
    possible: tuple[BoolArray | None, BoolArray | None] = (None, None)
    constant: float = 0.0
    action_names: tuple[str, ...] = ()
    zero_sum: bool = True

    def __post_init__(self) -> None:
        nodes = np.concatenate([np.zeros(0, np.int64), *(group.node.ravel() for group in self.ends)])
        unknown = nodes[~np.isin(nodes, self.nodes.ends)]
        if len(unknown):
            raise ValueError(
                f"ends of {self.name}: public node {int(unknown[0])} has a payoff but is "
                "not terminal; expected some of nodes.ends"
            )
        if len(np.unique(nodes)) != len(nodes):
            raise ValueError(
                f"ends of {self.name}: duplicate node; expected every terminal node at most once"
            )
        first, second = self.num_hands
        for group_idx, group in enumerate(self.ends):
            shape, tables = group.node.shape, getattr(group.pays, "shape", None)
            expected = (len(group.node), first, second)
            if group.scale.shape != shape or (tables is not None and tables != expected):
                raise ValueError(
                    f"ends[{group_idx}] of {self.name}: nodes {shape}, scales {group.scale.shape} and tables "
                    f"{tables}; expected as many scales as nodes, and tables {expected}"
                )

    def __repr__(self) -> str:
        first, second = self.num_hands
        return f"<HandsGame {self.name}: {first} × {second} hands, {self.nodes!r}>"

    @property
    def num_hands(self) -> tuple[int, int]:
        """Number of hands of player 0 and player 1."""
        return len(self.hands[0]), len(self.hands[1])

    @property
    def payoff_range(self) -> float:
        """Range of player 0's payoff, at least a tiny positive number."""
        low, high = self.payoff_bounds
        return max(high - low, np.finfo(np.float64).tiny)

    def num_infosets(self, player: int) -> int:
        """Number of pairs of a public node where the player acts and a hand possible there."""
        nodes, possible = self.nodes.decisions(player), self.possible[player]
        return len(nodes) * self.num_hands[player] if possible is None else int(possible[nodes].sum())

    def action_string(self, player: int, action: int) -> str:
        """Name of a player's action; its id if the game has no names."""
        return self.action_names[action] if action < len(self.action_names) else str(action)

    def cuts(self) -> Mapping[str, CutRule]:
        """No named cuts."""
        return {}

    def describe(self, node: int) -> str:
        """Names of the actions on the path to a public node; chance outcomes as numbers."""
        words: list[str] = []
        while node:
            above, action = int(self.nodes.parent[node]), int(self.nodes.action[node])
            is_chance = self.nodes.actor[above] == CHANCE
            words.append(str(action) if is_chance else self.action_string(0, action))
            node = above
        return " ".join(reversed(words))


NODE_BYTES = 250
"""Bytes per public node, for the tree and its layout in both treeplexes."""

SEQUENCE_BYTES = 80
"""Minimum bytes per sequence (an action with a hand) in a solve with one lane and its certificate: ten arrays
of float64. The planned memory for Liar's Dice 2×5 is 3.0 GB; the process grew from 0.4 GB to 3.4 GB.
"""


class PublicSize(NamedTuple):
    """Size of a game in hand form.

    Attributes:
      num_nodes: number of public nodes.
      num_sequences: number of both players' sequences, including an empty one for each hand.
    """

    num_nodes: int
    num_sequences: int


@runtime_checkable
class KnowsPublicSize(Protocol):
    """Optional protocol of games whose hand form may be too large to lay out."""

    @property
    def public_size(self) -> PublicSize:
        """Size of the hand form, computed without laying it out."""
        ...


@runtime_checkable
class DealsHands(Protocol):
    """A game that has a hand form."""

    def by_hands(self) -> HandsGame:
        """Returns the game in hand form.

        Raises:
          ValueError: if a move after the deal is private with the game's parameters.
        """
        ...


def group_ends(
    node: IntArray, scale: FloatArray, kind: IntArray, tables: FloatArray
) -> tuple[PublicEnds, ...]:
    """Groups terminal nodes by payoff table; tables with equally many nodes share a group.

    Args:
      node: `[m]` terminal nodes, ascending.
      scale: `[m]` factor of the table.
      kind: `[m]` index of the table.
      tables: `[K, H_0, H_1]`.
    """
    count = np.bincount(kind, minlength=len(tables))
    order = np.argsort(kind, kind="stable")
    start = np.cumsum(count) - count
    groups: list[PublicEnds] = []
    for size in np.unique(count[count > 0]).tolist():
        kinds = np.flatnonzero(count == size)
        rows = order[start[kinds][:, None] + np.arange(size)]
        groups.append(PublicEnds(node[rows], scale[rows], tables[kinds]))
    return tuple(groups)


def name_cards(count: int) -> tuple[str, ...]:
    """Names of single-card hands."""
    return tuple(map(str, range(count)))


def pair_names(hands: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Equal hand names for both players."""
    return tuple(hands), tuple(hands)
