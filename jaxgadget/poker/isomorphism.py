"""Suits that may be exchanged: hands that an exchange maps into each other are one, with a weight.

An exchange of suits that leaves the board, as a set, and both ranges as they are maps equilibria to
equilibria, and regret matching begins and stays symmetric under all of them. So one hand of each class is
carried, with the weight of all; on a turn its rivers are all there, but tables are those of one river of each
class: what hand h gets on river c is what the exchanged hand gets on the exchanged river.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import numpy as np

from jaxgadget.games.game import CHANCE
from jaxgadget.kernels.rows import on_host
from jaxgadget.poker.betting import PLAYERS, BettingTree
from jaxgadget.poker.cards import HAND_OF_CARDS, HANDS, SUITS, cards_left, hand_name
from jaxgadget.poker.operators import Folds, MergedHands, Showdowns
from jaxgadget.poker.spots import Spot
from jaxgadget.util.arrays import FloatArray, IntArray

_EXCHANGES = tuple(itertools.permutations(range(len(SUITS))))
"""All of them, that of nothing first."""


def find_exchanges(spot: Spot) -> tuple[tuple[tuple[int, ...], ...], str]:
    """The exchanges of suits that change neither the board nor a range, and why there is none.

    Args:
      spot: a river or turn.

    Returns:
      Permutations of the four suits, that of nothing first; and if there is no other, a reason.
    """
    board = np.sort(spot.cards)
    kept = [suits for suits in _EXCHANGES if np.array_equal(np.sort(_exchange(board, suits)), board)]
    if len(kept) == 1:
        return tuple(kept), f"every exchange of suits changes the board {spot.board}"
    found: list[tuple[int, ...]] = []
    reason = ""
    for suits in kept:
        hands = _exchanged_hands(suits)
        for name, held in zip(PLAYERS, spot.ranges, strict=True):
            # Only hands that are left on the board count.
            changed = spot.hands[held.weights[spot.hands] != held.weights[hands[spot.hands]]]
            if len(changed):
                hand = int(changed[0])
                reason = (
                    f"{name} is not symmetric: {hand_name(hand)} weighs {held.weights[hand]:g} and "
                    f"{hand_name(int(hands[hand]))} {held.weights[hands[hand]]:g}"
                )
                break
        else:
            found.append(suits)
    return tuple(found), "" if len(found) > 1 else reason


def _exchange(cards: IntArray, suits: Sequence[int]) -> IntArray:
    """Cards with other suits."""
    return cards // 4 * 4 + np.asarray(suits)[cards % 4]


@functools.cache
def _exchanged_hands(suits: tuple[int, ...]) -> IntArray:
    """`[1326]` every hand with other suits."""
    first, second = _exchange(HANDS, suits).T
    return HAND_OF_CARDS[first, second]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Merging:
    """Which hands of a board are carried for which. H hands left, M of them carried, C cards left.

    Attributes:
      exchanges: permutations of suits, see `find_exchanges`.
      cards: the board's.
      hands: `[M]` carried hands among the H: the first of each class.
      place: `[H]` where each hand's class is among them.
      by: `[H]` the exchange that maps each hand to the carried one.
      count: `[M]` hands of each class.
    """

    exchanges: tuple[tuple[int, ...], ...]
    cards: tuple[int, ...]
    hands: IntArray
    place: IntArray
    by: IntArray
    count: IntArray

    @staticmethod
    def of(spot: Spot, held: IntArray) -> Merging:
        """Of some of the hands that are left, which no exchange leads out of; `held` are their numbers."""
        exchanges, _ = find_exchanges(spot)
        number = np.zeros(len(HANDS), np.int64)
        number[spot.hands] = np.arange(len(spot.hands))
        images = np.stack([number[_exchanged_hands(suits)[spot.hands]] for suits in exchanges])
        first, by = images.min(axis=0), images.argmin(axis=0)
        hands, count = np.unique(first[held], return_counts=True)
        place = np.searchsorted(hands, first)
        return Merging(
            exchanges=exchanges,
            cards=spot.cards,
            hands=hands,
            place=np.minimum(place, len(hands) - 1),
            by=by,
            count=count,
        )

    @functools.cached_property
    def shown(self) -> IntArray:
        """`[exchanges, C]` which card each card that may be shown becomes."""
        left = cards_left(self.cards)
        return np.stack([np.searchsorted(left, _exchange(left, suits)) for suits in self.exchanges])

    @functools.cached_property
    def exchanged(self) -> IntArray:
        """`[exchanges, H]` which hand each hand becomes."""
        hands = np.flatnonzero(~np.isin(HANDS, np.asarray(self.cards)).any(axis=1))
        return np.stack([np.searchsorted(hands, _exchanged_hands(suits)[hands]) for suits in self.exchanges])

    def merge(self, tables: Folds | Showdowns, hands: IntArray, num_tables: int) -> MergedHands:
        """Tables over hands as tables over the carried ones.

        Args:
          tables: over all that are in a range.
          hands: `[n]` which of the H these are, ascending, -1 for padding at the end.
          num_tables: B, 1 or one for each card that may be shown.
        """
        several = num_tables > 1
        shown = self.shown if several else np.zeros((len(self.exchanges), 1), np.int64)
        to_first = shown.argmin(axis=0)  # the exchange that maps each table to the first of its class
        first = shown.min(axis=0)
        kept = np.unique(first)
        # A hand on a kept table is its carried one where its exchange leads.
        real = np.maximum(hands, 0)
        table = shown[self.by[real]][:, kept].T
        taken = table * len(self.hands) + self.place[real]
        weight = np.where(hands >= 0, 1 / self.count[self.place[real]], 0.0)
        # What a carried hand gets on a table, it gets as the exchanged hand on the first of the class.
        among = np.full(len(self.place), -1)
        among[hands[hands >= 0]] = np.flatnonzero(hands >= 0)
        given = among[self.exchanged[to_first][:, self.hands]]
        given += np.searchsorted(kept, first)[:, None] * len(hands)
        return MergedHands(
            tables=_keep_tables(tables, kept) if several else tables,
            taken=on_host(taken[None].astype(np.int32)),
            weight=on_host(weight[None]),
            given=on_host(given[None].astype(np.int32)),
        )

    def nodes(self, betting: BettingTree) -> IntArray:
        """`[exchanges, n]` the public node that each becomes when its card is exchanged."""
        tree = betting.tree
        slot = np.tile(tree.slot, (len(self.exchanges), 1))
        dealt = np.flatnonzero((tree.actor[tree.parent] == CHANCE) & (np.arange(len(tree)) > 0))
        if len(dealt):
            slot[:, dealt] = self.shown[:, tree.slot[dealt]]
        nodes = np.zeros_like(slot)
        for level in tree.levels_below():
            nodes[:, level] = tree.first_child[nodes[:, tree.parent[level]]] + slot[:, level]
        return nodes

    def spread(self, rows: FloatArray, children: IntArray, betting: BettingTree) -> FloatArray:
        """Rows of carried hands as rows of all hands left: `[n, M]` → `[n, H]`.

        Args:
          rows: of the nodes that a player's actions lead to.
          children: `[n]` these nodes, ascending.
          betting: the tree.
        """
        row = np.searchsorted(children, self.nodes(betting)[:, children])
        return rows[row[self.by], self.place[:, None]].T


def _keep_tables(tables: Folds | Showdowns, kept: IntArray) -> Folds | Showdowns:
    """Some of the tables of rivers."""
    if isinstance(tables, Folds):
        held = tables.held
        return tables if held is None else dataclasses.replace(tables, held=held[:, kept])
    folds = _keep_tables(tables.folds, kept)
    assert isinstance(folds, Folds)
    return dataclasses.replace(tables, folds=folds, group=tables.group[:, kept], signs=tables.signs[:, kept])
