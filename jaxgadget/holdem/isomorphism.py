"""Suit isomorphism: hands that a permutation of suits maps to each other are merged into one weighted hand.

A permutation of suits that preserves the board, as a set, and both ranges maps equilibria to equilibria, and
regret matching starts and stays symmetric under it. Hence the solve carries only one hand of each class, with
the weight of the class. On a turn the tree has all rivers, but only one river of each class has tables: the
payoff of hand h on river c equals that of the permuted hand on the permuted river.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import numpy as np

from jaxgadget.core.rows import on_host
from jaxgadget.games.game import CHANCE
from jaxgadget.holdem.betting import PLAYERS, BettingTree
from jaxgadget.holdem.cards import HAND_OF_CARDS, HANDS, SUITS, cards_left, hand_name
from jaxgadget.holdem.operators import Folds, MergedHands, Showdowns
from jaxgadget.holdem.spots import Spot
from jaxgadget.util.arrays import FloatArray, IntArray

_EXCHANGES = tuple(itertools.permutations(range(len(SUITS))))
"""All permutations of suits, the identity first."""

IDENTITY = _EXCHANGES[0]
"""The permutation of suits that changes nothing."""


def find_exchanges(spot: Spot) -> tuple[tuple[tuple[int, ...], ...], str]:
    """Finds the permutations of suits that preserve the board, the dead cards and both ranges.

    Args:
      spot: a flop, turn or river.

    Returns:
      Permutations of the four suits, the identity first; and the reason if there is no other permutation.
    """
    board_symmetries = [
        suits
        for suits in _EXCHANGES
        if all(
            set(_exchange(np.array(cards, np.int64), suits).tolist()) == set(cards)
            for cards in (spot.cards, spot.dead_cards)
        )
    ]
    if len(board_symmetries) == 1:
        dead = f" or the dead cards {spot.dead}" if spot.dead_cards else ""
        return tuple(board_symmetries), f"every exchange of suits changes the board {spot.board}{dead}"
    symmetries: list[tuple[int, ...]] = []
    reason = ""
    for suits in board_symmetries:
        hands = exchanged_hands(suits)
        for name, held in zip(PLAYERS, spot.ranges, strict=True):
            # Hands that contain a card of the board are irrelevant.
            changed = spot.hands[held.weights[spot.hands] != held.weights[hands[spot.hands]]]
            if len(changed):
                hand = int(changed[0])
                reason = (
                    f"{name} is not symmetric: {hand_name(hand)} weighs {held.weights[hand]:g} and "
                    f"{hand_name(int(hands[hand]))} {held.weights[hands[hand]]:g}"
                )
                break
        else:
            symmetries.append(suits)
    return tuple(symmetries), "" if len(symmetries) > 1 else reason


def _exchange(cards: IntArray, suits: Sequence[int]) -> IntArray:
    """Applies a permutation of suits to cards."""
    return cards // 4 * 4 + np.asarray(suits)[cards % 4]


@functools.cache
def exchanged_hands(suits: tuple[int, ...]) -> IntArray:
    """`[1326]` image of every hand under a permutation of suits."""
    first, second = _exchange(HANDS, suits).T
    return HAND_OF_CARDS[first, second]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Merging:
    """Classes of isomorphic hands of a board with H possible hands, M of them carried, and C remaining cards.

    Attributes:
      exchanges: permutations of suits, from `find_exchanges`.
      cards: cards of the board, and dead cards.
      hands: `[M]` carried hands among the H: the first of each class.
      class_idx: `[H]` index of each hand's class among the carried hands.
      by: `[H]` index of the permutation that maps each hand to the carried one.
      count: `[M]` number of hands of each class.
    """

    exchanges: tuple[tuple[int, ...], ...]
    cards: tuple[int, ...]
    hands: IntArray
    class_idx: IntArray
    by: IntArray
    count: IntArray

    @staticmethod
    def of(spot: Spot, held: IntArray) -> Merging:
        """Classes of the possible hands with indices `held`, a subset that is closed under permutations."""
        exchanges, _ = find_exchanges(spot)
        hand_idx = np.zeros(len(HANDS), np.int64)
        hand_idx[spot.hands] = np.arange(len(spot.hands))
        images = np.stack([hand_idx[exchanged_hands(suits)[spot.hands]] for suits in exchanges])
        first, by = images.min(axis=0), images.argmin(axis=0)
        hands, count = np.unique(first[held], return_counts=True)
        class_idx = np.searchsorted(hands, first)
        return Merging(
            exchanges=exchanges,
            cards=spot.gone,
            hands=hands,
            class_idx=np.minimum(class_idx, len(hands) - 1),
            by=by,
            count=count,
        )

    @functools.cached_property
    def shown(self) -> IntArray:
        """`[exchanges, C]` image of each card that may be dealt."""
        left = cards_left(self.cards)
        return np.stack([np.searchsorted(left, _exchange(left, suits)) for suits in self.exchanges])

    @functools.cached_property
    def exchanged(self) -> IntArray:
        """`[exchanges, H]` image of each hand."""
        hands = np.flatnonzero(~np.isin(HANDS, np.asarray(self.cards)).any(axis=1))
        return np.stack([np.searchsorted(hands, exchanged_hands(suits)[hands]) for suits in self.exchanges])

    def merge(self, tables: Folds | Showdowns, hands: IntArray, num_tables: int) -> MergedHands:
        """Converts tables over hands to tables over the carried hands.

        Args:
          tables: tables over all hands of a range.
          hands: `[n]` indices of these among the H, ascending, -1 for padding at the end.
          num_tables: B, 1 or one per card that may be dealt.
        """
        several = num_tables > 1
        shown = self.shown if several else np.zeros((len(self.exchanges), 1), np.int64)
        to_first = shown.argmin(axis=0)  # the permutation that maps each table to the first of its class
        first = shown.min(axis=0)
        kept_tables = np.unique(first)
        # A hand on a kept table corresponds to its carried hand on the image of the table.
        real = np.maximum(hands, 0)
        table = shown[self.by[real]][:, kept_tables].T
        taken = table * len(self.hands) + self.class_idx[real]
        weight = np.where(hands >= 0, 1 / self.count[self.class_idx[real]], 0.0)
        # A carried hand's payoff on a table is the permuted hand's on the first table of the class.
        among = np.full(len(self.class_idx), -1)
        among[hands[hands >= 0]] = np.flatnonzero(hands >= 0)
        source = among[self.exchanged[to_first][:, self.hands]]
        source += np.searchsorted(kept_tables, first)[:, None] * len(hands)
        return MergedHands(
            tables=tables.take_tables(kept_tables) if several else tables,
            taken=on_host(taken[None].astype(np.int32)),
            weight=on_host(weight[None]),
            given=on_host(source[None].astype(np.int32)),
        )

    def nodes(self, betting: BettingTree) -> IntArray:
        """`[exchanges, n]` image of each public node under the permutation of its card."""
        tree = betting.tree
        slot = np.tile(tree.slot, (len(self.exchanges), 1))
        dealt = np.flatnonzero((tree.actor[tree.parent] == CHANCE) & (np.arange(len(tree)) > 0))
        if len(dealt):
            slot[:, dealt] = self.shown[:, tree.slot[dealt]]
        nodes = np.zeros_like(slot)
        for level in tree.levels_below():
            nodes[:, level] = tree.first_child[nodes[:, tree.parent[level]]] + slot[:, level]
        return nodes

    def expand(self, rows: FloatArray, children: IntArray, betting: BettingTree) -> FloatArray:
        """Expands rows of carried hands to rows of all possible hands: `[n, M]` → `[n, H]`.

        Args:
          rows: rows of the nodes after a player's actions.
          children: `[n]` these nodes, ascending.
          betting: the tree.
        """
        row = np.searchsorted(children, self.nodes(betting)[:, children])
        return rows[row[self.by], self.class_idx[:, None]].T
