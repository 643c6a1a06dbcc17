"""Games by hands: private hands are dealt once, and all that follows is public.

Such a game is a tree of public nodes and, at each of its ends, what every pair of hands gets. Its histories
are the product of the two and are never listed: Liar's Dice with two dice of five faces has 1.3e9, but
2.1 million public nodes and 15 hands. NumPy only; `jaxgadget.hands` solves these games.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


class PublicLevel(NamedTuple):
    """All public nodes of one length, `[t]`, in the order of their parents, then of their actions.

    Attributes:
      parent: `[t]` row in the level above; of the first level, which has one row, 0.
      actor: `[t]` who acts: `PLAYER_0`, `PLAYER_1`, `CHANCE`, or `TERMINAL` at an end.
      action: `[t]` what was done, or what chance showed, at the parent; of the root it does not matter.
    """

    parent: IntArray
    actor: npt.NDArray[np.uint8]
    action: IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublicTree:
    """What everybody sees, n nodes in breadth-first order, those of a parent side by side.

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
    def of(levels: Iterable[PublicLevel]) -> PublicTree:
        """Puts levels together."""
        parts = list(levels)
        sizes = [len(level.parent) for level in parts]
        offset = np.append(0, np.cumsum(sizes))
        above = np.repeat(np.append(0, offset[:-2]), sizes)
        action = np.concatenate([level.action for level in parts]).astype(np.int64)
        action[0] = -1
        return PublicTree(
            level_offset=offset,
            parent=np.concatenate([level.parent for level in parts]) + above,
            actor=np.concatenate([level.actor for level in parts]).astype(np.uint8),
            action=action,
        )

    def __len__(self) -> int:
        return len(self.parent)

    def levels_below(self) -> list[slice]:
        """The nodes of every level but the root's, top-down."""
        return [slice(*ends) for ends in itertools.pairwise(self.level_offset[1:].tolist())]

    def __repr__(self) -> str:
        return f"<PublicTree: {len(self)} nodes, {len(self.ends)} of them ends>"

    @functools.cached_property
    def ends(self) -> IntArray:
        """Where the game is over, ascending."""
        return np.flatnonzero(self.actor == TERMINAL)

    def decisions(self, player: int) -> IntArray:
        """Where a player acts, ascending."""
        return np.flatnonzero(self.actor == ACTOR_BIT[player])

    @functools.cached_property
    def num_children(self) -> IntArray:
        """`[n]` how many nodes lie right below each."""
        count = np.bincount(self.parent, minlength=len(self))
        count[0] -= 1  # the root is its own parent
        return count

    @functools.cached_property
    def first_child(self) -> IntArray:
        """`[n]` the first node right below each; the others follow in the order of actions."""
        return 1 + np.cumsum(self.num_children) - self.num_children

    @functools.cached_property
    def slot(self) -> IntArray:
        """`[n]` which child of its parent each node is, from 0."""
        slot = np.arange(len(self)) - self.first_child[self.parent]
        slot[0] = 0
        return slot

    def moves(self, node: int) -> tuple[int, ...]:
        """What was done and shown on the way to a node."""
        done: list[int] = []
        while node:
            done.append(int(self.action[node]))
            node = int(self.parent[node])
        return tuple(reversed(done))


class PublicEnds(NamedTuple):
    """Ends that pay by the same tables: B tables, T ends by each.

    What player 0 gets at the end `node[b, t]` with a pair of hands, times chance's part of the pair's reach
    there (the deal and public chance), is `scale[b, t] × pays[b, hand 0, hand 1]`.

    Attributes:
      node: `[B, T]` ends.
      scale: `[B, T]` such as the chips in the pot.
      pays: `[B, H_0, H_1]` tables; or an operator for all B of them that never writes them down, see
        `jaxgadget.hands.payoff.PairTables`.
    """

    node: IntArray
    scale: FloatArray
    pays: Any


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HandsGame:
    """A game by hands. Player p holds one of H_p hands.

    Attributes:
      name: the canonical string of the game.
      hands: names of both players' hands.
      tree: what is public.
      ends: what is paid, every end once; an end that pays nothing may be left out.
      deals: `[K, H_0, H_1]` probability of each pair of hands together with what public chance showed, by K
        boards, the empty one among them; None if nobody wrote them down.
      board: `[n]` which of these lies at every public node; None likewise.
      possible: for both players `[n, H_p]` which hands it may hold at every public node, None for all:
        a public card is in nobody's hand.
      payoff_bounds: the least and the most that player 0 gets.
      constant: the sum of both players' returns; half of it is taken off everybody's payoff.
      action_names: what the players' actions are called, by their number.
    """

    name: str
    hands: tuple[tuple[str, ...], tuple[str, ...]]
    tree: PublicTree
    ends: tuple[PublicEnds, ...]
    payoff_bounds: tuple[float, float]
    deals: FloatArray | None = None
    board: IntArray | None = None
    possible: tuple[BoolArray | None, BoolArray | None] = (None, None)
    constant: float = 0.0
    action_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        nodes = np.concatenate([np.zeros(0, np.int64), *(group.node.ravel() for group in self.ends)])
        unknown = nodes[~np.isin(nodes, self.tree.ends)]
        if len(unknown):
            raise ValueError(
                f"ends of {self.name}: something is paid at public node {int(unknown[0])}, where the game is "
                "not over; expected nodes of tree.ends"
            )
        if len(np.unique(nodes)) != len(nodes):
            raise ValueError(f"ends of {self.name} pay twice at some node; expected every end at most once")
        first, second = self.num_hands
        for number, group in enumerate(self.ends):
            shape, tables = group.node.shape, getattr(group.pays, "shape", None)
            expected = (len(group.node), first, second)
            if group.scale.shape != shape or (tables is not None and tables != expected):
                raise ValueError(
                    f"ends[{number}] of {self.name}: nodes {shape}, scales {group.scale.shape} and tables "
                    f"{tables}; expected as many scales as nodes, and tables {expected}"
                )

    def __repr__(self) -> str:
        first, second = self.num_hands
        return f"<HandsGame {self.name}: {first} × {second} hands, {self.tree!r}>"

    @property
    def num_hands(self) -> tuple[int, int]:
        """How many hands player 0 and player 1 may hold."""
        return len(self.hands[0]), len(self.hands[1])

    @property
    def payoff_range(self) -> float:
        """Most less least of what player 0 gets, at least a tiny positive number."""
        low, high = self.payoff_bounds
        return max(high - low, np.finfo(np.float64).tiny)

    def num_infosets(self, player: int) -> int:
        """Pairs of a public node where the player acts and a hand that it may hold there."""
        nodes, possible = self.tree.decisions(player), self.possible[player]
        return len(nodes) * self.num_hands[player] if possible is None else int(possible[nodes].sum())

    def describe(self, node: int) -> str:
        """What was done on the way to a public node, in words; cards that chance showed as their numbers."""
        words: list[str] = []
        while node:
            above, action = int(self.tree.parent[node]), int(self.tree.action[node])
            named = self.tree.actor[above] != CHANCE and action < len(self.action_names)
            words.append(self.action_names[action] if named else str(action))
            node = above
        return " ".join(reversed(words))


@runtime_checkable
class DealsHands(Protocol):
    """A game that knows its form by hands."""

    def by_hands(self) -> HandsGame:
        """The game without its histories.

        Raises:
          ValueError: if its parameters make something private after the deal.
        """
        ...


def group_ends(
    node: IntArray, scale: FloatArray, kind: IntArray, tables: FloatArray
) -> tuple[PublicEnds, ...]:
    """Ends by their tables; tables with as many ends go together.

    Args:
      node: `[m]` ends, ascending.
      scale: `[m]` what the table is multiplied by.
      kind: `[m]` which table pays.
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
    """Hands that are a single card each, by number."""
    return tuple(map(str, range(count)))


def pair_names(hands: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same hands for both players."""
    return tuple(hands), tuple(hands)
