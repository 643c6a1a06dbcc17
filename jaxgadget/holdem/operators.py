"""Payoffs of pairs of hands at hold'em's terminal nodes, without materialising the pairs.

With C cards left that may be in hands there are H = C(C − 1) / 2 hands, in the order of `triu_indices(C, 1)`;
each card is in C − 1 of them. Two hands exclude each other if they share a card. By inclusion–exclusion, at a
fold a hand meets all hands, minus those with its first card, minus those with its second card, plus itself,
which was subtracted twice. At a showdown hands are in G groups of equal strength, ascending: a hand wins
against lower groups and loses to higher ones; the contributions of hands with either of its cards are
subtracted by a small dense matrix of signs per card.

Hands outside of both ranges are omitted: H remain, up to K with each card. Lanes with fewer hands are padded;
`Folds.held` is 0 for padding.

The classes implement `jaxgadget.core.hands.PairTables`: B tables, T terminal nodes per table. All arrays have
a leading axis of lanes, of size 1 if shared, so that lanes may have different boards and hands.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxgadget.core.cfr import State
from jaxgadget.core.hands import HandsPayoff, PairTables
from jaxgadget.core.host import Entries
from jaxgadget.core.problem import Parts, Problem
from jaxgadget.core.regret import RegretMatching, Rule
from jaxgadget.core.rows import EXACT, array_bytes, on_host, take_rows
from jaxgadget.holdem import kernels
from jaxgadget.holdem.cards import HANDS, NUM_CARDS, cards_left, hands_left, strength_groups
from jaxgadget.holdem.kernels import KERNELS, Board, Ends, LoopState
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.native import Kernel, call_kernel

CARD_STEP = 8
"""The number of hands with each card is padded to a multiple of this, so that spots share programs."""

GROUP_BLOCK = 12
"""Groups of equal strength are summed in blocks of this number, then over the blocks."""

GROUP_STEP = GROUP_BLOCK**2
"""The number of groups is padded to a multiple of this, so that boards share programs. Of
29,193 random rivers none has more than 136."""


@functools.cache
def incidence(num_cards: int) -> FloatArray:
    """`[C, H]` incidence of cards and hands, read-only."""
    first, second = np.triu_indices(num_cards, 1)
    has = np.zeros((num_cards, len(first)))
    has[first, np.arange(len(first))] = has[second, np.arange(len(first))] = 1
    has.flags.writeable = False
    return has


class LaneTables(PairTables, Protocol):
    """`PairTables` whose arrays have a leading axis of lanes."""

    @property
    def growth(self) -> float:
        """Factor of the working memory, at least 1."""
        ...

    def absolute(self) -> LaneTables:
        """Tables of absolute payoffs."""
        ...

    def take_lanes(self, lanes: IntArray) -> LaneTables:
        """Selects lanes; returns itself if all lanes share it."""
        ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Folds:
    """`PairTables` with payoff 1 for every pair of hands without a common card.

    Attributes:
      has: `[1 or lanes, C, H]` incidence of cards and hands.
      rest: `[1 or lanes, C, H]` 1/2 − `has`: as each hand has two cards, the product with sums by card is the
        sum over all hands without those that share a card.
      held: `[1 or lanes, B or 1, H]` 1 for hands that are possible in each table, otherwise 0; None for all.
    """

    has: jax.Array
    rest: jax.Array
    held: jax.Array | None = None

    @property
    def growth(self) -> float:
        """Factor of the working memory: 1."""
        return 1.0

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Payoffs of a player's hands, given the other player's reach."""
        reach = _only_held(self.held, reach)
        if len(self.has) == 1 and (len(reach) > 1 or reach.shape[-1] > 1):
            # Products of two matrices, for which XLA always finds tiles on a GPU. On a CPU the formula below
            # saves a twelfth of an iteration on a single river.
            columns = jnp.moveaxis(reach, 2, 0)
            by_card = jnp.matmul(self.has[0], columns.reshape(len(columns), -1), precision=EXACT)
            apart = jnp.matmul(self.rest[0].T, by_card, precision=EXACT)
            return _only_held(self.held, jnp.moveaxis(apart.reshape(columns.shape), 0, 2) + reach)
        lane, has, rest = (
            ("", self.has[0], self.rest[0]) if len(self.has) == 1 else ("l", self.has, self.rest)
        )
        by_card = jnp.einsum(f"{lane}ch,bthl->btcl", has, reach, precision=EXACT)
        apart = jnp.einsum(f"{lane}ch,btcl->bthl", rest, by_card, precision=EXACT)
        return _only_held(self.held, apart + reach)  # a hand shares both cards with itself

    def absolute(self) -> Folds:
        """Tables of absolute payoffs."""
        return self

    def dense(self) -> FloatArray:
        """Dense tables; only if lanes share them."""
        has = np.asarray(self.has[0], np.float64)
        apart = ((has.T @ has) == 0).astype(np.float64)
        if self.held is None:
            return apart[None]
        held = np.asarray(self.held[0], np.float64)
        return held[:, :, None] * apart * held[:, None, :]

    def take_lanes(self, lanes: IntArray) -> Folds:
        """Selects lanes; returns itself if all lanes share it."""
        return _take_lanes(self, lanes)

    def take_tables(self, selected: IntArray) -> Folds:
        """Selects tables."""
        return self if self.held is None else dataclasses.replace(self, held=self.held[:, selected])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Showdowns:
    """`PairTables` with payoff 1 for the stronger hand and -1 for the weaker one.

    Attributes:
      folds: pairs without a common card.
      group: `[1 or lanes, B, H]` group of each hand, ascending in strength; arbitrary for impossible hands.
      signs: `[1 or lanes, B, C, K, K]` the same comparison among the hands with each card, 0 for padding.
      hand_of_card: `[1 or lanes, C, K]` the hands with each card; arbitrary for padding.
      slot_of_hand: `[1 or lanes, H, 2]` flat positions of a hand in `hand_of_card`, for its two cards.
      num_groups: number of groups, padded.
    """

    folds: Folds
    group: jax.Array
    signs: jax.Array
    hand_of_card: jax.Array
    slot_of_hand: jax.Array
    num_groups: int = dataclasses.field(metadata={"static": True})

    @property
    def growth(self) -> float:
        """Factor of the working memory: 1."""
        return 1.0

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Payoffs of a player's hands, given the other player's reach."""
        reach = _only_held(self.folds.held, reach)
        tables, ends, hands, lanes = reach.shape
        # Columns are the reaches at one table: terminal nodes, and lanes if they share it.
        if self.group.shape[0] == 1:
            columns = reach.transpose(0, 2, 1, 3).reshape(1, tables, hands, ends * lanes)
            won = self._by_lane(columns)
            won = won.reshape(tables, hands, ends, lanes).transpose(0, 2, 1, 3)
        else:
            won = self._by_lane(reach.transpose(3, 0, 2, 1)).transpose(1, 3, 2, 0)
        return _only_held(self.folds.held, won if player == 0 else -won)

    def _by_lane(self, columns: jax.Array) -> jax.Array:
        """Applies the tables lane by lane: `[lanes, B, H, columns]` → `[lanes, B, H, columns]`."""
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
        """Applies one table: `[H, columns]` → `[H, columns]`."""
        above = jax.lax.platform_dependent(
            x,
            group,
            cpu=functools.partial(_above_by_sums, num_groups=self.num_groups),
            default=functools.partial(_above_by_signs, num_groups=self.num_groups),
        )
        by_card = take_rows(x, hand_of_card)
        excluded = jnp.einsum("cij,cjn->cin", signs, by_card, precision=EXACT).reshape(-1, x.shape[-1])
        first, second = (take_rows(excluded, slot_of_hand[:, card]) for card in (0, 1))
        return take_rows(above, group) - first - second

    def absolute(self) -> Folds:
        """Tables of absolute payoffs."""
        return self.folds

    def dense(self) -> FloatArray:
        """Dense tables; only if lanes share them."""
        group = np.asarray(self.group[0], np.int64)
        return np.sign(group[:, :, None] - group[:, None, :]) * self.folds.dense()

    def take_lanes(self, lanes: IntArray) -> Showdowns:
        """Selects lanes; returns itself if all lanes share it."""
        return _take_lanes(self, lanes)

    def take_tables(self, selected: IntArray) -> Showdowns:
        """Selects tables."""
        return dataclasses.replace(
            self,
            folds=self.folds.take_tables(selected),
            group=self.group[:, selected],
            signs=self.signs[:, selected],
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardTables:
    """Tables of folds or showdowns of boards that are given later, over the same hands.

    Attributes:
      shows: True for showdowns.
      folds: pairs without a common card.
      pairs: `[C, K, K]` 1 for pairs of two hands with each card, 0 for padding.
      hand_of_card: as in `Showdowns`.
      slot_of_hand: as in `Showdowns`.
    """

    shows: bool = dataclasses.field(metadata={"static": True})
    folds: Folds
    pairs: jax.Array
    hand_of_card: jax.Array
    slot_of_hand: jax.Array

    def on_boards(self, held: jax.Array, group: jax.Array | None) -> Folds | Showdowns:
        """The tables of boards, one for each lane.

        Args:
          held: `[lanes, H]` True for hands that are possible on each board.
          group: `[lanes, H]` group of each hand, ascending in strength; arbitrary for impossible hands.
        """
        folds = dataclasses.replace(self.folds, held=held[:, None].astype(self.folds.has.dtype))
        if not self.shows:
            return folds
        assert group is not None
        group = group.astype(jnp.int32)
        of_card = jax.vmap(take_rows, in_axes=(0, None))(group, self.hand_of_card[0])  # [lanes, C, K]
        signs = (
            jnp.sign(of_card[..., :, None] - of_card[..., None, :]).astype(self.pairs.dtype)
            * self.pairs[None]
        )
        return Showdowns(
            folds=folds,
            group=group[:, None],
            signs=signs[:, None],
            hand_of_card=self.hand_of_card,
            slot_of_hand=self.slot_of_hand,
            num_groups=GROUP_STEP,
        )


def build_board_tables(num_cards: int, hands: IntArray, *, shows: bool) -> BoardTables:
    """Builds `BoardTables` on the host.

    Args:
      num_cards: number of cards that may be in hands, C.
      hands: `[H]` indices of the carried hands among all with these cards, ascending, -1 for padding at the
        end.
      shows: True for showdowns.
    """
    hand_of_card, slot_of_hand = _by_card(hands[None], num_cards)
    real = (hand_of_card[0] >= 0).astype(np.float64)
    return BoardTables(
        shows=shows,
        folds=dataclasses.replace(build_folds(num_cards, None, hands[None]), held=None),
        pairs=on_host(real[:, :, None] * real[:, None, :]),
        hand_of_card=on_host(np.maximum(hand_of_card, 0).astype(np.int32)),
        slot_of_hand=on_host(slot_of_hand.astype(np.int32)),
    )


def _above_by_sums(x: jax.Array, group: jax.Array, num_groups: int) -> jax.Array:
    """Reach of the weaker groups minus that of the stronger ones: `[H, columns]` → `[G, columns]`."""
    num_blocks = num_groups // GROUP_BLOCK

    def above(sums: jax.Array) -> jax.Array:
        """Sum of the rows before each row minus that of the rows after it."""
        row = jnp.arange(len(sums))
        return jnp.matmul(jnp.sign(row[:, None] - row[None]).astype(x.dtype), sums, precision=EXACT)

    # Rows are [group in its block, block], so that both products are of two matrices.
    row = group % GROUP_BLOCK * num_blocks + group // GROUP_BLOCK
    by_group = jax.ops.segment_sum(x, row, num_segments=num_groups).reshape(GROUP_BLOCK, -1)
    blocks = by_group.reshape(GROUP_BLOCK, num_blocks, -1).sum(axis=0)
    whole = above(by_group).reshape(GROUP_BLOCK, num_blocks, -1) + above(blocks)[None]
    return whole.transpose(1, 0, 2).reshape(num_groups, -1)


def _above_by_signs(x: jax.Array, group: jax.Array, num_groups: int) -> jax.Array:
    """Equals `_above_by_sums`, by one product with an int8 matrix of signs of groups and hands.

    A GPU would add into groups by atomic operations, whose order differs from run to run. A CPU takes 1.1 to
    1.5 times as long for a showdown this way.
    """
    signs = jnp.sign(jnp.arange(num_groups, dtype=group.dtype)[:, None] - group[None]).astype(jnp.int8)
    return jnp.matmul(signs.astype(x.dtype), x, precision=EXACT)


Tables = TypeVar("Tables", Folds, Showdowns)


def _take_lanes(tables: Tables, lanes: IntArray) -> Tables:
    """Selects lanes of arrays that have them; returns the tables themselves if none has."""
    if all(x.shape[0] == 1 for x in jax.tree.leaves(tables)):
        return tables
    return jax.tree.map(lambda x: x if x.shape[0] == 1 else _take(x, lanes, 0), tables)


def _take(x: jax.Array, lanes: IntArray, axis: int) -> jax.Array:
    """Selects lanes on the host, where it takes microseconds; JAX takes half a millisecond for an array."""
    if isinstance(x, Tracer):
        return jnp.take(x, lanes, axis)
    return on_host(np.take(np.asarray(x), lanes, axis))


def _only_held(held: jax.Array | None, x: jax.Array) -> jax.Array:
    """Sets impossible hands of `[B, T, H, lanes]` to 0."""
    return x if held is None else x * held.transpose(1, 2, 0)[:, None]


def build_folds(num_cards: int, shown: Sequence[int] | None = None, hands: IntArray | None = None) -> Folds:
    """Builds `Folds` on the host.

    Args:
      num_cards: number of cards, C.
      shown: for every table the index of a public card among the C, which no hand has; None for one table
        without a public card.
      hands: `[1 or lanes, H]` indices of the carried hands, -1 for padding; None for all.
    """
    has = incidence(num_cards)[None]
    held = None if shown is None else 1 - has[:, np.asarray(shown)]
    if hands is not None:
        real = (hands >= 0)[:, None]
        possible = np.ones((1, 1, has.shape[-1])) if held is None else held
        has, held = (np.where(real, np.moveaxis(x[0][:, hands], 1, 0), 0.0) for x in (has, possible))
    return Folds(has=on_host(has), rest=on_host(0.5 - has), held=None if held is None else on_host(held))


def build_showdowns(
    boards: Sequence[Sequence[int]],
    hands: IntArray | None = None,
    dead: Sequence[Sequence[int]] | None = None,
) -> Showdowns:
    """Builds `Showdowns` on the host: of rivers, or of turns with all possible rivers.

    Args:
      boards: boards of every lane, or one for all lanes. All have 5 cards, or all have 4.
      hands: `[boards, H]` indices of the carried hands of each board, ascending, -1 for padding at the end;
        None for all.
      dead: for each board equally many cards that are in no hand and not dealt; None for none.
    """
    turn, dead = len(boards[0]) == 4, [()] * len(boards) if dead is None else dead
    num_cards = NUM_CARDS - len(boards[0]) - len(dead[0])
    find_groups = _turn_groups if turn else _river_groups
    carried = np.arange(math.comb(num_cards, 2))[None] if hands is None else hands
    own = np.broadcast_to(carried, (len(boards), carried.shape[1]))
    group = np.stack([find_groups(*cards) for cards in zip(boards, dead, own, strict=True)])
    hand_of_card, slot_of_hand = _by_card(carried, num_cards)
    of_card = np.take_along_axis(
        group, np.maximum(hand_of_card, 0).reshape(len(hand_of_card), 1, -1), axis=2
    ).reshape(*group.shape[:2], *hand_of_card.shape[1:])
    signs = np.empty((*of_card.shape, of_card.shape[-1]))
    np.sign(of_card[..., :, None] - of_card[..., None, :], out=signs, casting="unsafe")
    real = hand_of_card >= 0
    if not real.all():
        signs *= (real[..., :, None] & real[..., None, :])[:, None]
    return Showdowns(
        folds=build_folds(num_cards, range(num_cards) if turn else None, hands),
        group=on_host(group.astype(np.int32)),
        signs=on_host(signs),
        hand_of_card=on_host(np.maximum(hand_of_card, 0).astype(np.int32)),
        slot_of_hand=on_host(slot_of_hand.astype(np.int32)),
        num_groups=-(-(int(group.max()) + 1) // GROUP_STEP) * GROUP_STEP,
    )


def _by_card(hands: IntArray, num_cards: int) -> tuple[IntArray, IntArray]:
    """Lists the hands with each card, and each hand's positions in the lists.

    Args:
      hands: `[n, H]` hands as in `build_showdowns`.
      num_cards: number of cards, C.

    Returns:
      `[n, C, K]` indices of hands among the H, ascending, -1 for padding; `[n, H, 2]` flat positions of each
      hand there, for its two cards, 0 for padding. K is a multiple of `CARD_STEP`.
    """
    real = hands >= 0
    has = (incidence(num_cards).T[hands] > 0) & real[..., None]
    slot = has.cumsum(axis=1) - 1  # index of each hand among the hands with a card
    most = min(-(-int(has.sum(axis=1).max()) // CARD_STEP) * CARD_STEP, num_cards - 1)
    hand_of_card = np.full((len(hands), num_cards, most), -1)
    lane, hand, card = np.nonzero(has)
    hand_of_card[lane, card, slot[lane, hand, card]] = hand
    cards = np.stack(np.triu_indices(num_cards, 1), axis=1)[hands]
    slot_of_hand = cards * most + np.take_along_axis(slot, cards, axis=2)
    return hand_of_card, np.where(real[..., None], slot_of_hand, 0)


def _river_groups(board: Sequence[int], dead: Sequence[int], carried: IntArray) -> IntArray:
    """`[1, H]` groups of equal strength of the carried hands, ascending; 0 for padding."""
    hands = HANDS[hands_left([*board, *dead])[carried]]
    groups = np.zeros((1, len(carried)), np.int64)
    groups[0, carried >= 0] = strength_groups(board, hands[carried >= 0])
    return groups


def _turn_groups(board: Sequence[int], dead: Sequence[int], carried: IntArray) -> IntArray:
    """`[C, H]` groups for all rivers after a turn; 0 for padding and for hands with the card."""
    gone = [*board, *dead]
    hands, cards = HANDS[hands_left(gone)[carried]], cards_left(gone).tolist()
    groups = np.zeros((len(cards), len(hands)), np.int64)
    for row, card in enumerate(cards):
        possible = (carried >= 0) & ~(hands == card).any(axis=1)
        groups[row, possible] = strength_groups([*board, card], hands[possible])
    return groups


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class MergedHands:
    """`PairTables` over M carried hands, computed by tables over all N hands.

    Attributes:
      tables: B' tables, the first of each class.
      taken: `[1, B', N]` flat index of the table and carried hand that hold each hand's reach.
      weight: `[1, N]` each hand's fraction of the carried hand's reach.
      given: `[1, B, M]` flat index of the table and hand that hold a carried hand's payoff.
    """

    tables: Folds | Showdowns
    taken: jax.Array
    weight: jax.Array
    given: jax.Array

    @property
    def growth(self) -> float:
        """Factor of the working memory: ratio of all hands to carried hands, at least 1."""
        return max(1.0, self.taken.size / self.given.size)

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Payoffs of a player's hands, given the other player's reach."""
        every = _pick(reach, self.taken[0]) * self.weight[0][None, None, :, None]
        return _pick(self.tables(player, every), self.given[0])

    def absolute(self) -> MergedHands:
        """Tables of absolute payoffs."""
        return dataclasses.replace(self, tables=self.tables.absolute())

    def dense(self) -> FloatArray:
        """Not supported: raises ValueError."""
        raise ValueError(
            "payoff of merged hands: linear programs are not supported; solve without suit_isomorphism"
        )

    def take_lanes(self, lanes: IntArray) -> MergedHands:
        """Selects lanes; all lanes share the classes."""
        return dataclasses.replace(self, tables=self.tables.take_lanes(lanes))


def _pick(x: jax.Array, index: jax.Array) -> jax.Array:
    """Gathers `[B, T, H, lanes]` at flat indices `[B', H']` of tables and hands: `[B', T, H', lanes]`."""
    tables, ends, hands, lanes = x.shape
    rows = x.transpose(0, 2, 1, 3).reshape(tables * hands, ends * lanes)
    picked = take_rows(rows, index).reshape(*index.shape, ends, lanes)
    return jnp.transpose(picked, (0, 2, 1, 3))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Staked:
    """`PairTables` whose terminal nodes have different stakes in every lane.

    Attributes:
      tables: payoffs per chip at stake.
      chips: `[B, T, lanes]` chips at stake; negative if player 1 wins them.
    """

    tables: LaneTables
    chips: jax.Array

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Payoffs of a player's hands, given the other player's reach."""
        return self.tables(player, reach * self.chips[:, :, None, :])

    def absolute(self) -> Staked:
        """Tables of absolute payoffs."""
        return Staked(tables=self.tables.absolute(), chips=jnp.abs(self.chips))

    def dense(self) -> FloatArray:
        """Not supported, since stakes differ between nodes of a table: raises ValueError."""
        raise ValueError("payoff of several spots: linear programs are not supported; solve a single spot")

    def take_lanes(self, lanes: IntArray) -> Staked:
        """Selects lanes."""
        return Staked(tables=self.tables.take_lanes(lanes), chips=_take(self.chips, lanes, 2))

    def lane_arrays(self) -> list[tuple[jax.Array, int]]:
        """Arrays that may have an axis of lanes, and this axis."""
        return [(self.chips, 2), *((x, 0) for x in jax.tree.leaves(self.tables))]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Raked:
    """`PairTables` of a game that is not zero-sum: each player also loses chips to the house.

    Attributes:
      staked: the zero-sum payoffs.
      rake: `[B, T, lanes]` chips that each player loses at each terminal node.
    """

    staked: Staked
    rake: jax.Array

    @property
    def tables(self) -> LaneTables:
        """Payoffs per chip at stake."""
        return self.staked.tables

    @property
    def chips(self) -> jax.Array:
        """As in `Staked`."""
        return self.staked.chips

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Payoffs of a player's hands, given the other player's reach; those of player 1 are negated."""
        won = self.staked(player, reach)
        paid = self.tables.absolute()(player, reach * self.rake[:, :, None, :])
        return won - paid if player == 0 else won + paid

    def absolute(self) -> Staked:
        """Tables of upper bounds on absolute payoffs."""
        most = self.staked.absolute()
        return Staked(tables=most.tables, chips=most.chips + self.rake)

    def dense(self) -> FloatArray:
        """Not supported, since no single table has both players' payoffs: raises ValueError."""
        raise ValueError("payoff with rake: linear programs require a zero-sum game; expected no rake")

    def take_lanes(self, lanes: IntArray) -> Raked:
        """Selects lanes."""
        return Raked(staked=self.staked.take_lanes(lanes), rake=_take(self.rake, lanes, 2))

    def lane_arrays(self) -> list[tuple[jax.Array, int]]:
        """Arrays that may have an axis of lanes, and this axis."""
        return [(self.rake, 2), *self.staked.lane_arrays()]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Dealt:
    """`PairTables` multiplied by both players' probabilities of each hand.

    Attributes:
      tables: payoffs of pairs of hands.
      weights: weights of both players' hands, `[H]`.
    """

    tables: Folds | Showdowns
    weights: tuple[jax.Array, jax.Array]

    @property
    def growth(self) -> float:
        """Factor of the working memory: 1."""
        return 1.0

    def __call__(self, player: int, reach: jax.Array) -> jax.Array:
        """Payoffs of a player's hands, given the other player's reach."""
        own, other = self.weights[player][:, None], self.weights[1 - player][:, None]
        won = self.tables(player, reach * other[None, None])
        return won * own[None, None]

    def absolute(self) -> Dealt:
        """Tables of absolute payoffs."""
        return Dealt(tables=self.tables.absolute(), weights=self.weights)

    def dense(self) -> FloatArray:
        """Dense tables; only if lanes share them."""
        first, second = (np.asarray(weights, np.float64) for weights in self.weights)
        return first[:, None] * self.tables.dense() * second

    def take_lanes(self, lanes: IntArray) -> Dealt:
        """Selects lanes, which share the weights."""
        return dataclasses.replace(self, tables=self.tables.take_lanes(lanes))

    def take_tables(self, selected: IntArray) -> Dealt:
        """Selects tables."""
        return dataclasses.replace(self, tables=self.tables.take_tables(selected))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class SpotsPayoff:
    """`Payoff` of several spots, one per lane.

    Attributes:
      hands: the payoff in hand form; its tables are `Staked`, or with rake `Raked`.
    """

    hands: HandsPayoff

    @property
    def tables(self) -> tuple[Staked | Raked, ...]:
        """The tables of all groups of terminal nodes."""
        return cast("tuple[Staked | Raked, ...]", self.hands.tables)

    @property
    def zero_sum(self) -> bool:
        """True if one player's payoff is minus the other's: without rake."""
        return not any(isinstance(tables, Raked) for tables in self.tables)

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """Payoff gradient of a player, given both reaches."""
        if self.boards is None:
            return self.hands.gradient(player, reach, state)

        def pay(payoff: SpotsPayoff, reach: tuple[jax.Array, jax.Array]) -> jax.Array:
            assert payoff.boards is not None
            ends = ends_of(payoff.hands, player, reach[0].shape[-1])
            return kernels.pay(payoff.boards, ends, reach[1 - player], len(reach[player]))

        def multiply(payoff: SpotsPayoff, reach: tuple[jax.Array, jax.Array]) -> jax.Array:
            return payoff.hands.gradient(player, reach, None)[0]

        return call_kernel(Kernel(KERNELS, pay), multiply, self, reach), state

    def find_loop(self, problem: Problem, rule: Rule) -> Kernel | None:
        """A kernel for a single river; see `core.payoff.LoopedPayoff`."""
        choices = [terms.body for terms in problem.terms]
        is_plain = problem.order == (0, 1) and all(
            side.fixed
            and side.body.num_roots == side.body.hands
            and terms.scale is not None
            and terms.body_constant is None
            for side, terms in zip(problem.sides, problem.terms, strict=True)
        )
        if self.boards is None or problem.num_lanes > 1 or not is_plain or not kernels.applies(rule, choices):
            return None
        return Kernel(KERNELS, _iterate)

    @property
    def boards(self) -> Board | None:
        """The hands on the river of each lane, or of all; None with other tables, or several rivers."""
        showdowns: Showdowns | None = None
        for pays in self.tables:
            tables = pays.tables
            if not isinstance(tables, Folds | Showdowns) or pays.chips.shape[0] > 1:
                return None
            if isinstance(tables, Showdowns):
                showdowns = tables
        if showdowns is None or showdowns.group.shape[1] > 1:
            return None
        held, group = showdowns.folds.held, showdowns.group[:, 0]
        cards = cards_of(showdowns.slot_of_hand, showdowns.hand_of_card)
        return Board(
            cards=jnp.broadcast_to(cards, (*group.shape, 2)),
            group=group,
            held=jnp.broadcast_to(np.True_ if held is None else held[:, 0] > 0, group.shape),
        )

    def absolute(self) -> SpotsPayoff:
        """Tables of absolute payoffs."""
        return SpotsPayoff(hands=self.hands.absolute())

    def num_bytes(self) -> tuple[int, int]:
        """Memory in bytes, shared and per lane."""
        total, working = self.hands.num_bytes()
        working = round(working * max((staked.tables.growth for staked in self.tables), default=1.0))
        arrays = [array for staked in self.tables for array in staked.lane_arrays()]
        own = [(x, x.shape[axis]) for x, axis in arrays if x.shape[axis] > 1]
        lanes = max((count for _, count in own), default=1)
        bytes_of_lanes = array_bytes([x for x, _ in own])
        return total - bytes_of_lanes, bytes_of_lanes // lanes + working

    def take_lanes(self, lanes: IntArray) -> SpotsPayoff:
        """Selects lanes."""
        tables = tuple(staked.take_lanes(lanes) for staked in self.tables)
        return SpotsPayoff(hands=dataclasses.replace(self.hands, tables=tables))

    def entries(self) -> Entries:
        """The payoff as a sparse matrix."""
        return self.hands.entries()


def cards_of(slot_of_hand: jax.Array, hand_of_card: jax.Array) -> jax.Array:
    """`[1 or lanes, H, 2]` cards of each hand, from arrays of `Showdowns`; arbitrary for padding."""
    return slot_of_hand // hand_of_card.shape[-1]


def ends_of(payoff: HandsPayoff, player: int, lanes: int = 1) -> Ends:
    """The terminal nodes of a payoff whose tables have one river in each lane, for a player."""
    blocks: list[jax.Array] = []
    factors: list[jax.Array] = []
    for group, pays in enumerate(cast("tuple[Staked | Raked, ...]", payoff.tables)):
        own, other = (payoff.block[each][group][0] for each in (player, 1 - player))
        blocks.append(jnp.stack([own, other], axis=1))
        chips, scale = pays.chips[0].T, payoff.scale[0][group]
        folded = -pays.rake[0].T * scale if isinstance(pays, Raked) else jnp.zeros_like(chips)
        tables = cast("Folds | Showdowns | BoardTables", pays.tables)
        if tables.shows if isinstance(tables, BoardTables) else isinstance(tables, Showdowns):
            each = jnp.stack([chips * scale, folded], axis=2)
        else:
            folded += chips * payoff.scale[player][group]
            each = jnp.stack([jnp.zeros_like(chips), folded], axis=2)
        factors.append(jnp.broadcast_to(each, (lanes, *each.shape[1:])))
    return Ends(blocks=jnp.concatenate(blocks), factors=jnp.concatenate(factors, axis=1))


def _iterate(
    problem: Problem, rule: RegretMatching, state: State, until: jax.Array, running: jax.Array | None
) -> State:
    """Iterates a single river by a kernel."""
    payoff = cast("SpotsPayoff", problem.payoff)
    assert payoff.boards is not None
    scales = [cast("jax.Array", terms.scale)[:, 0] for terms in problem.terms]

    def bodies(pair: tuple[Parts, Parts]) -> tuple[jax.Array, jax.Array]:
        first, second = pair
        return first.body[:, 0], second.body[:, 0]

    def with_bodies(pair: tuple[Parts, Parts], new: tuple[jax.Array, jax.Array]) -> tuple[Parts, Parts]:
        first, second = (own._replace(body=body[:, None]) for own, body in zip(pair, new, strict=True))
        return first, second

    before = LoopState(*map(bodies, (state.rule, state.strategy, state.plan, state.strategy_sum)))
    after = kernels.iterate(
        jax.tree.map(lambda x: x[0], payoff.boards),
        [ends_of(payoff.hands, player) for player in (0, 1)],
        [side.body for side in problem.sides],
        [terms.body for terms in problem.terms],
        rule,
        bodies(problem.regret_tolerance),
        scales,
        before,
        (state.iteration, until),
        jnp.ones((), problem.dtype) if running is None else running[0].astype(problem.dtype),
    )
    return dataclasses.replace(
        state,
        iteration=jnp.maximum(state.iteration, until.astype(state.iteration.dtype)),
        rule=with_bodies(state.rule, after.regrets),
        strategy=with_bodies(state.strategy, after.strategies),
        plan=with_bodies(state.plan, after.plans),
        strategy_sum=with_bodies(state.strategy_sum, after.sums),
    )
