"""What pairs of hands get at the ends of hold'em, without writing the pairs down.

With C cards left that may be in hands there are H = C(C − 1) / 2 hands, in the order of `triu_indices(C,
1)`; each card is in C − 1 of them. A pair of hands excludes each other if they share a card. So at a fold
a hand meets all hands, less those with its one card, less those with its other card, plus itself, which
was taken off twice. At a showdown hands are put into groups of equal strength, G of them in order: a hand
wins against the groups below its own and loses to those above, and from that is taken what hands with its
one card, and with its other card, would have brought: a small dense matrix of signs a card.

These keep `jaxgadget.hands.payoff.PairTables`: B tables, T ends by each. Tables that all lanes share have
a first axis of 1, others have one of lanes, so that each lane may have a board of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.hands.payoff import HandsPayoff, PairTables
from jaxgadget.kernels.payoff import array_bytes
from jaxgadget.kernels.rows import EXACT, on_host, take_rows
from jaxgadget.poker.cards import HANDS, board_strengths, cards_left, hands_left
from jaxgadget.tree.sequence import Entries, rounded_size
from jaxgadget.util.arrays import FloatArray, IntArray

WORKING_COPIES = 8
"""Arrays of the size of all ends' reaches that a showdown's products take besides."""


def incidence(num_cards: int) -> FloatArray:
    """`[C, H]` which cards each hand has."""
    first, second = np.triu_indices(num_cards, 1)
    has = np.zeros((num_cards, len(first)))
    has[first, np.arange(len(first))] = has[second, np.arange(len(first))] = 1
    return has


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Folds:
    """Every pair of hands that does not exclude each other gets 1; see `PairTables`.

    Attributes:
      has: `[C, H]` which cards each hand has.
      held: `[B, H]` 1 for hands that are possible by each table, else 0; None for all.
    """

    has: jax.Array
    held: jax.Array | None = None

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """See `PairTables`."""
        reach = _only_held(self.held, reach)
        by_card = jnp.einsum("ch,bthl->btcl", self.has, reach, precision=EXACT)
        shared = jnp.einsum("ch,btcl->bthl", self.has, by_card, precision=EXACT)
        return _only_held(self.held, reach.sum(axis=2, keepdims=True) - shared + reach)

    def absolute(self) -> Folds:
        """See `PairTables`."""
        return self

    def dense(self) -> FloatArray:
        """See `PairTables`."""
        has = np.asarray(self.has, np.float64)
        apart = ((has.T @ has) == 0).astype(np.float64)
        if self.held is None:
            return apart[None]
        held = np.asarray(self.held, np.float64)
        return held[:, :, None] * apart * held[:, None, :]

    def take_lanes(self, lanes: IntArray) -> Folds:
        """Those lanes only: all lanes share it."""
        return self


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Showdowns:
    """The stronger hand gets 1 from the other; see `PairTables`.

    Attributes:
      folds: which pairs exclude each other.
      group: `[1 or lanes, B, H]` the group of each hand, the weakest first; any where a hand is impossible.
      order: `[G, G]` 1 where the row's group is above the column's, -1 where it is below.
      signs: `[1 or lanes, B, C, C - 1, C - 1]` the same of the hands with each card.
      hand_of_card: `[C, C - 1]` these hands.
      slot_of_hand: `[H, 2]` where a hand is among them, laid end to end, by its two cards.
    """

    folds: Folds
    group: jax.Array
    order: jax.Array
    signs: jax.Array
    hand_of_card: jax.Array
    slot_of_hand: jax.Array

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """See `PairTables`."""
        reach = _only_held(self.folds.held, reach)
        tables, ends, hands, lanes = reach.shape
        every_table = jax.vmap(jax.vmap(self._won))
        # Columns are all that meet the same table: ends, and lanes if they share it.
        if self.group.shape[0] == 1:
            columns = reach.transpose(0, 2, 1, 3).reshape(1, tables, hands, ends * lanes)
            won = every_table(columns, self.group, self.signs)
            won = won.reshape(tables, hands, ends, lanes).transpose(0, 2, 1, 3)
        else:
            won = every_table(reach.transpose(3, 0, 2, 1), self.group, self.signs).transpose(1, 3, 2, 0)
        return _only_held(self.folds.held, won if player == 0 else -won)

    def _won(self, x: jax.Array, group: jax.Array, signs: jax.Array) -> jax.Array:
        """Of one table: `[H, columns]` → `[H, columns]`."""
        by_group = jax.ops.segment_sum(x, group, num_segments=self.order.shape[0])
        above = jnp.matmul(self.order, by_group, precision=EXACT)
        by_card = take_rows(x, self.hand_of_card)
        excluded = jnp.einsum("cij,cjn->cin", signs, by_card, precision=EXACT).reshape(-1, x.shape[-1])
        first, second = (take_rows(excluded, self.slot_of_hand[:, place]) for place in (0, 1))
        return take_rows(above, group) - first - second

    def absolute(self) -> Folds:
        """See `PairTables`."""
        return self.folds

    def dense(self) -> FloatArray:
        """See `PairTables`; of lanes that share it."""
        group = np.asarray(self.group[0], np.int64)
        return np.sign(group[:, :, None] - group[:, None, :]) * self.folds.dense()

    def take_lanes(self, lanes: IntArray) -> Showdowns:
        """Those lanes only; itself if all share it."""
        if self.group.shape[0] == 1:
            return self
        return dataclasses.replace(self, group=self.group[lanes], signs=self.signs[lanes])


def _only_held(held: jax.Array | None, x: jax.Array) -> jax.Array:
    """`[B, T, H, lanes]` 0 for hands that are impossible."""
    return x if held is None else x * held[:, None, :, None]


def build_folds(num_cards: int, shown: Sequence[int] | None = None) -> Folds:
    """Folds, on the host.

    Args:
      num_cards: C.
      shown: the number of a card among the C for every table, which is in nobody's hand; None for one
        table without such a card.
    """
    has = incidence(num_cards)
    return Folds(has=on_host(has), held=None if shown is None else on_host(1 - has[np.asarray(shown)]))


def build_showdowns(boards: Sequence[Sequence[int]]) -> Showdowns:
    """Showdowns on the host: of rivers, or of turns with all rivers that may follow.

    Args:
      boards: of every lane, or one that all lanes share. All have 5 cards, or all have 4.
    """
    turn = len(boards[0]) == 4
    num_cards = 52 - len(boards[0])
    group = np.stack([_groups(board) if turn else _river_groups(board)[None] for board in boards])
    first, second = np.triu_indices(num_cards, 1)
    number = np.zeros((num_cards, num_cards), np.int64)
    number[first, second] = number[second, first] = np.arange(len(first))
    others = np.array([[other for other in range(num_cards) if other != card] for card in range(num_cards)])
    hand_of_card = number[np.arange(num_cards)[:, None], others]
    slot_of_hand = np.stack([first * (num_cards - 1) + second - 1, second * (num_cards - 1) + first], axis=1)
    of_card = group[:, :, hand_of_card]
    signs = np.empty((*of_card.shape, num_cards - 1))
    np.sign(of_card[..., :, None] - of_card[..., None, :], out=signs, casting="unsafe")
    ranks = np.arange(rounded_size(int(group.max()) + 1))
    return Showdowns(
        folds=build_folds(num_cards, range(num_cards) if turn else None),
        group=on_host(group.astype(np.int32)),
        order=on_host(np.sign(ranks[:, None] - ranks).astype(np.float64)),
        signs=on_host(signs),
        hand_of_card=on_host(hand_of_card.astype(np.int32)),
        slot_of_hand=on_host(slot_of_hand.astype(np.int32)),
    )


def _river_groups(board: Sequence[int]) -> IntArray:
    """`[H]` groups of equal strength of all hands left, numbered from the weakest."""
    return np.unique(board_strengths(board, HANDS[hands_left(board)]), return_inverse=True)[1]


def _groups(board: Sequence[int]) -> IntArray:
    """`[C, H]` the same for all rivers that may follow a turn; 0 for hands with the card."""
    hands = hands_left(board)
    left = cards_left(board).tolist()
    groups = np.zeros((len(left), len(hands)), np.int64)
    for place, card in enumerate(left):
        possible = ~(HANDS[hands] == card).any(axis=1)
        groups[place, possible] = _river_groups([*board, card])
    return groups


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Staked:
    """Tables whose ends are worth other numbers of chips in every lane; see `PairTables`.

    Attributes:
      tables: what one chip at stake brings.
      chips: `[B, T, lanes]` how many are at stake; below 0 if player 1 wins them.
    """

    tables: Folds | Showdowns
    chips: jax.Array

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """See `PairTables`."""
        return self.tables(player, reach * self.chips[:, :, None, :])

    def absolute(self) -> Staked:
        """See `PairTables`."""
        return Staked(tables=self.tables.absolute(), chips=jnp.abs(self.chips))

    def dense(self) -> FloatArray:
        """See `PairTables`; there is none, since ends by one table differ in chips."""
        raise ValueError("payoff of several spots: no linear programs; solve a spot by itself")

    def take_lanes(self, lanes: IntArray) -> Staked:
        """Those lanes only."""
        return Staked(tables=self.tables.take_lanes(lanes), chips=self.chips[:, :, lanes])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Dealt:
    """Tables times how likely both players hold each hand; see `PairTables`.

    Attributes:
      tables: what pairs of hands get.
      weights: of both players' hands, `[H]`.
    """

    tables: Folds | Showdowns
    weights: tuple[jax.Array, jax.Array]

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """See `PairTables`."""
        own, other = self.weights[player][:, None], self.weights[1 - player][:, None]
        won = self.tables(player, reach * other[None, None])
        return won * own[None, None]

    def absolute(self) -> Dealt:
        """See `PairTables`."""
        return Dealt(tables=self.tables.absolute(), weights=self.weights)

    def dense(self) -> FloatArray:
        """See `PairTables`."""
        first, second = (np.asarray(weights, np.float64) for weights in self.weights)
        return first[:, None] * self.tables.dense() * second


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class SpotsPayoff:
    """The payoff of spots side by side, a lane each; see `Payoff`.

    Attributes:
      hands: the payoff by hands; its tables are `Staked`.
    """

    hands: HandsPayoff

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """See `Payoff`."""
        return self.hands.gradient(player, reach, state)

    def absolute(self) -> SpotsPayoff:
        """See `Payoff`."""
        return SpotsPayoff(hands=self.hands.absolute())

    def num_bytes(self) -> tuple[int, int]:
        """See `Payoff`."""
        total, working = self.hands.num_bytes()
        own = [
            (x, x.shape[axis])
            for tables in self.hands.tables
            for x, axis in _lane_arrays(tables)
            if x.shape[axis] > 1
        ]
        lanes = max((count for _, count in own), default=1)
        bytes_of_lanes = array_bytes([x for x, _ in own])
        return total - bytes_of_lanes, bytes_of_lanes // lanes + WORKING_COPIES * working

    def take_lanes(self, lanes: IntArray) -> SpotsPayoff:
        """See `Payoff`."""
        tables = tuple(t.take_lanes(lanes) if isinstance(t, Staked) else t for t in self.hands.tables)
        return SpotsPayoff(hands=dataclasses.replace(self.hands, tables=tables))

    def entries(self) -> Entries:
        """See `Payoff`."""
        return self.hands.entries()


def _lane_arrays(tables: PairTables) -> list[tuple[jax.Array, int]]:
    """Arrays that may be a lane's own, and their axis of lanes."""
    if not isinstance(tables, Staked):
        return []
    inner = tables.tables
    boards = [(inner.group, 0), (inner.signs, 0)] if isinstance(inner, Showdowns) else []
    return [(tables.chips, 2), *boards]
