"""What pairs of hands get at the ends of hold'em, without writing the pairs down.

With C cards left that may be in hands there are H = C(C − 1) / 2 hands, in the order of `triu_indices(C,
1)`; each card is in C − 1 of them. A pair of hands excludes each other if they share a card. So at a fold
a hand meets all hands, less those with its one card, less those with its other card, plus itself, which
was taken off twice. At a showdown hands are put into groups of equal strength, G of them in order: a hand
wins against the groups below its own and loses to those above, and from that is taken what hands with its
one card, and with its other card, would have brought: a small dense matrix of signs a card.

Where some hands are in nobody's range, only the others are there: H of them, up to K with each card. What
is left over where lanes carry different numbers of hands is padding, in nobody's hand by `Folds.held`.

These keep `jaxgadget.hands.payoff.PairTables`: B tables, T ends by each. All arrays begin with an axis of
lanes, of 1 where all lanes share them, so that each lane may have a board and hands of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.hands.payoff import HandsPayoff, PairTables
from jaxgadget.kernels.payoff import array_bytes
from jaxgadget.kernels.rows import EXACT, on_host, take_rows
from jaxgadget.poker.cards import HANDS, board_strengths, cards_left, hands_left
from jaxgadget.tree.sequence import Entries, rounded_size
from jaxgadget.util.arrays import FloatArray, IntArray

CARD_STEP = 8
"""Numbers of hands with a card are rounded up to multiples of that, so that spots share compiled programs."""


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
      has: `[1 or lanes, C, H]` which cards each hand has.
      held: `[1 or lanes, B or 1, H]` 1 for hands that are possible by each table, else 0; None for all.
    """

    has: jax.Array
    held: jax.Array | None = None

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """See `PairTables`."""
        reach = _only_held(self.held, reach)
        lane, has = ("", self.has[0]) if self.has.shape[0] == 1 else ("l", self.has)
        by_card = jnp.einsum(f"{lane}ch,bthl->btcl", has, reach, precision=EXACT)
        shared = jnp.einsum(f"{lane}ch,btcl->bthl", has, by_card, precision=EXACT)
        # Each hand has two cards, and a sum over hands takes longer.
        every = by_card.sum(axis=2, keepdims=True) / 2
        return _only_held(self.held, every - shared + reach)

    def absolute(self) -> Folds:
        """See `PairTables`."""
        return self

    def dense(self) -> FloatArray:
        """See `PairTables`; of lanes that share it."""
        has = np.asarray(self.has[0], np.float64)
        apart = ((has.T @ has) == 0).astype(np.float64)
        if self.held is None:
            return apart[None]
        held = np.asarray(self.held[0], np.float64)
        return held[:, :, None] * apart * held[:, None, :]

    def take_lanes(self, lanes: IntArray) -> Folds:
        """Those lanes only; itself if all share it."""
        return _take_lanes(self, lanes)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Showdowns:
    """The stronger hand gets 1 from the other; see `PairTables`.

    Attributes:
      folds: which pairs exclude each other.
      group: `[1 or lanes, B, H]` the group of each hand, the weakest first; any where a hand is impossible.
      order: `[1, G, G]` 1 where the row's group is above the column's, -1 where it is below.
      signs: `[1 or lanes, B, C, K, K]` the same of the hands with each card, 0 where there are fewer.
      hand_of_card: `[1 or lanes, C, K]` these hands; any where there are fewer.
      slot_of_hand: `[1 or lanes, H, 2]` where a hand is among them, laid end to end, by its two cards.
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
        # Columns are all that meet the same table: ends, and lanes if they share it.
        if self.group.shape[0] == 1:
            columns = reach.transpose(0, 2, 1, 3).reshape(1, tables, hands, ends * lanes)
            won = self._by_lane(columns)
            won = won.reshape(tables, hands, ends, lanes).transpose(0, 2, 1, 3)
        else:
            won = self._by_lane(reach.transpose(3, 0, 2, 1)).transpose(1, 3, 2, 0)
        return _only_held(self.folds.held, won if player == 0 else -won)

    def _by_lane(self, columns: jax.Array) -> jax.Array:
        """`[lanes, B, H, columns]` → `[lanes, B, H, columns]`."""
        by_table = jax.vmap(self._won, in_axes=(0, 0, 0, None, None))
        arrays = (columns, self.group, self.signs, self.hand_of_card, self.slot_of_hand)
        own = tuple(None if x.shape[0] < len(columns) else 0 for x in arrays)
        shared = (x[0] if axis is None else x for x, axis in zip(arrays, own, strict=True))
        return jax.vmap(by_table, in_axes=own)(*shared)

    def _won(
        self,
        x: jax.Array,
        group: jax.Array,
        signs: jax.Array,
        hand_of_card: jax.Array,
        slot_of_hand: jax.Array,
    ) -> jax.Array:
        """Of one table: `[H, columns]` → `[H, columns]`."""
        by_group = jax.ops.segment_sum(x, group, num_segments=self.order.shape[-1])
        above = jnp.matmul(self.order[0], by_group, precision=EXACT)
        by_card = take_rows(x, hand_of_card)
        excluded = jnp.einsum("cij,cjn->cin", signs, by_card, precision=EXACT).reshape(-1, x.shape[-1])
        first, second = (take_rows(excluded, slot_of_hand[:, place]) for place in (0, 1))
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
        return _take_lanes(self, lanes)


Tables = TypeVar("Tables", Folds, Showdowns)


def _take_lanes(tables: Tables, lanes: IntArray) -> Tables:
    """Those lanes of arrays that are theirs; the tables themselves if there are none."""
    if all(x.shape[0] == 1 for x in jax.tree.leaves(tables)):
        return tables
    return jax.tree.map(lambda x: x if x.shape[0] == 1 else x[lanes], tables)


def _only_held(held: jax.Array | None, x: jax.Array) -> jax.Array:
    """`[B, T, H, lanes]` 0 for hands that are impossible."""
    return x if held is None else x * held.transpose(1, 2, 0)[:, None]


def build_folds(num_cards: int, shown: Sequence[int] | None = None, hands: IntArray | None = None) -> Folds:
    """Folds, on the host.

    Args:
      num_cards: C.
      shown: the number of a card among the C for every table, which is in nobody's hand; None for one
        table without such a card.
      hands: `[1 or lanes, H]` which of all hands are there, -1 for padding; None for all.
    """
    has = incidence(num_cards)[None]
    held = None if shown is None else 1 - has[:, np.asarray(shown)]
    if hands is not None:
        real = (hands >= 0)[:, None]
        possible = np.ones((1, 1, has.shape[-1])) if held is None else held
        has, held = (np.where(real, np.moveaxis(x[0][:, hands], 1, 0), 0.0) for x in (has, possible))
    return Folds(has=on_host(has), held=None if held is None else on_host(held))


def build_showdowns(boards: Sequence[Sequence[int]], hands: IntArray | None = None) -> Showdowns:
    """Showdowns on the host: of rivers, or of turns with all rivers that may follow.

    Args:
      boards: of every lane, or one that all lanes share. All have 5 cards, or all have 4.
      hands: `[boards, H]` which hands of each board are there, ascending, -1 for padding at the end; None
        for all.
    """
    turn = len(boards[0]) == 4
    num_cards = 52 - len(boards[0])
    group = np.stack([_groups(board) if turn else _river_groups(board)[None] for board in boards])
    places = np.arange(group.shape[-1])[None] if hands is None else hands
    group = np.take_along_axis(group, np.maximum(places, 0)[:, None], axis=2)
    hand_of_card, slot_of_hand = _by_card(places, num_cards)
    of_card = np.take_along_axis(
        group, np.maximum(hand_of_card, 0).reshape(len(hand_of_card), 1, -1), axis=2
    ).reshape(*group.shape[:2], *hand_of_card.shape[1:])
    signs = np.empty((*of_card.shape, of_card.shape[-1]))
    np.sign(of_card[..., :, None] - of_card[..., None, :], out=signs, casting="unsafe")
    real = hand_of_card >= 0
    if not real.all():
        signs *= (real[..., :, None] & real[..., None, :])[:, None]
    ranks = np.arange(rounded_size(int(group.max()) + 1))
    return Showdowns(
        folds=build_folds(num_cards, range(num_cards) if turn else None, hands),
        group=on_host(group.astype(np.int32)),
        order=on_host(np.sign(ranks[:, None] - ranks).astype(np.float64)[None]),
        signs=on_host(signs),
        hand_of_card=on_host(np.maximum(hand_of_card, 0).astype(np.int32)),
        slot_of_hand=on_host(slot_of_hand.astype(np.int32)),
    )


def _by_card(hands: IntArray, num_cards: int) -> tuple[IntArray, IntArray]:
    """The hands with each card, and where each hand is among them.

    Args:
      hands: `[n, H]` as in `build_showdowns`.
      num_cards: C.

    Returns:
      `[n, C, K]` hands, as their places among the H, ascending, -1 where there are fewer; `[n, H, 2]` where
      each hand is there by its two cards, laid end to end, 0 for padding. K is a multiple of `CARD_STEP`.
    """
    real = hands >= 0
    has = (incidence(num_cards).T[hands] > 0) & real[..., None]
    slot = has.cumsum(axis=1) - 1  # which of its card's hands each hand is
    most = min(-(-int(has.sum(axis=1).max()) // CARD_STEP) * CARD_STEP, num_cards - 1)
    hand_of_card = np.full((len(hands), num_cards, most), -1)
    lane, hand, card = np.nonzero(has)
    hand_of_card[lane, card, slot[lane, hand, card]] = hand
    cards = np.stack(np.triu_indices(num_cards, 1), axis=1)[hands]
    slot_of_hand = cards * most + np.take_along_axis(slot, cards, axis=2)
    return hand_of_card, np.where(real[..., None], slot_of_hand, 0)


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
class MergedHands:
    """Tables over carried hands, by tables over all hands; see `PairTables`. M carried hands, N in all.

    Attributes:
      tables: B' of them, the first of each class.
      taken: `[1, B', N]` the table and carried hand that each hand's reach is taken from, laid end to end.
      weight: `[1, N]` its share of the carried hand's reach.
      given: `[1, B, M]` the table and hand that say what a carried hand gets.
    """

    tables: Folds | Showdowns
    taken: jax.Array
    weight: jax.Array
    given: jax.Array

    @property
    def growth(self) -> float:
        """How many times larger reaches of all hands are than those of the carried ones, at least 1."""
        return max(1.0, self.taken.size / self.given.size)

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """See `PairTables`."""
        every = _pick(reach, self.taken[0]) * self.weight[0][None, None, :, None]
        return _pick(self.tables(player, every), self.given[0])

    def absolute(self) -> MergedHands:
        """See `PairTables`."""
        return dataclasses.replace(self, tables=self.tables.absolute())

    def dense(self) -> FloatArray:
        """See `PairTables`; there is none, as of several spots."""
        raise ValueError("payoff of merged hands: no linear programs; solve without suit_isomorphism")

    def take_lanes(self, lanes: IntArray) -> MergedHands:
        """Those lanes only: all lanes share the classes."""
        return dataclasses.replace(self, tables=self.tables.take_lanes(lanes))


def _pick(x: jax.Array, index: jax.Array) -> jax.Array:
    """`[B, T, H, lanes]` and `[B', H']` of tables and hands laid end to end → `[B', T, H', lanes]`."""
    tables, ends, hands, lanes = x.shape
    rows = x.transpose(0, 2, 1, 3).reshape(tables * hands, ends * lanes)
    picked = take_rows(rows, index).reshape(*index.shape, ends, lanes)
    return jnp.transpose(picked, (0, 2, 1, 3))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Staked:
    """Tables whose ends are worth other numbers of chips in every lane; see `PairTables`.

    Attributes:
      tables: what one chip at stake brings.
      chips: `[B, T, lanes]` how many are at stake; below 0 if player 1 wins them.
    """

    tables: Folds | Showdowns | MergedHands
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
        expands = [
            t.tables.growth
            for t in self.hands.tables
            if isinstance(t, Staked) and isinstance(t.tables, MergedHands)
        ]
        working = round(working * max(expands, default=1.0))
        own = [
            (x, x.shape[axis])
            for tables in self.hands.tables
            for x, axis in _lane_arrays(tables)
            if x.shape[axis] > 1
        ]
        lanes = max((count for _, count in own), default=1)
        bytes_of_lanes = array_bytes([x for x, _ in own])
        return total - bytes_of_lanes, bytes_of_lanes // lanes + working

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
    return [(tables.chips, 2), *((x, 0) for x in jax.tree.leaves(tables.tables))]
