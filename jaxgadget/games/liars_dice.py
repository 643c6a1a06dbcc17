"""Two-player Liar's Dice: both players roll privately, then raise bids until one calls "Liar".

The highest face is wild: it counts for every bid. Chance rolls one die after another; a player observes its
sorted dice after its last roll, so rolls that differ in their order share an infostate, as in OpenSpiel.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import (
    ACTOR_BIT,
    CHANCE,
    PLAYER_0,
    PLAYER_1,
    TERMINAL,
    Move,
    TooLargeError,
    dense_ids,
)
from jaxgadget.games.hands import HandsGame, PublicLevel, PublicNodes, PublicSize, group_ends, pair_names
from jaxgadget.games.machine import Array, StateMachine, may_hold, namespace
from jaxgadget.games.parameters import (
    MAX_ACTIONS,
    canonical_name,
    check_choice,
    check_integer,
    check_two_players,
)
from jaxgadget.util.arrays import FloatArray, IntArray

_MOST_MATCHES = 2_000_000
_BIDDING_RULES = ("reset-face", "reset-quantity")


class LiarsDiceState(NamedTuple):
    """States of Liar's Dice with B bids.

    Attributes:
      rolled: `[n]` number of dice rolled; player 0 rolls first.
      hand: `[2, n]` both players' dice, numbered as in `Hands`.
      bids: `[B, n]` the player that made each bid, -1 for none.
      bid: `[n]` the last bid, -1 for none.
      turn: `[n]` number of actions.
      is_over: `[n]` True after "Liar".
    """

    rolled: Array
    hand: Array
    bids: Array
    bid: Array
    turn: Array
    is_over: Array


class Hands(NamedTuple):
    """Multisets of up to all dice of a player, those of fewer dice first, then in the order of sorted dice.

    Attributes:
      after: `[faces, hands]` the hand after another roll, 0 if all dice are rolled.
      faces: `[faces, hands]` number of dice of each face.
      first: the first hand of all dice.
    """

    after: IntArray
    faces: IntArray
    first: int

    @staticmethod
    def of(dice: int, sides: int) -> Hands:
        """All hands of up to `dice` dice with `sides` faces."""

        def add(faces: tuple[int, ...], face: int) -> tuple[int, ...]:
            return (*faces[:face], faces[face] + 1, *faces[face + 1 :])

        level, first = [(0,) * sides], 0
        number = {level[0]: 0}
        for _ in range(dice):
            level, first = sorted({add(h, face) for h in level for face in range(sides)})[::-1], len(number)
            number |= {hand: first + k for k, hand in enumerate(level)}
        after = [[number.get(add(hand, face), 0) for hand in number] for face in range(sides)]
        return Hands(np.array(after, np.int32), np.array(list(number), np.int16).T, first)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiarsDice(StateMachine[LiarsDiceState]):
    """Liar's Dice; actions are the bids in ascending order, then "Liar".

    Attributes:
      players: 2.
      numdice: dice of each player.
      dice_sides: faces of a die.
      bidding_rule: order of bids, by quantity and then face (`reset-face`), or by face
        and then quantity (`reset-quantity`).
    """

    short_name: ClassVar[str] = "liars_dice"
    publics_first: ClassVar[bool] = True

    players: int = 2
    numdice: int = 1
    dice_sides: int = 6
    bidding_rule: str = "reset-face"

    def __post_init__(self) -> None:
        check_two_players(self.short_name, self.players)
        check_integer(self.short_name, "numdice", self.numdice, 1, MAX_ACTIONS)
        check_integer(self.short_name, "dice_sides", self.dice_sides, 1, MAX_ACTIONS)
        if self.num_bids > MAX_ACTIONS:
            raise ValueError(
                f"{self.short_name}: numdice={self.numdice} and dice_sides={self.dice_sides} make "
                f"{self.num_bids:,} bids: expected at most {MAX_ACTIONS:,}; lower one of the two"
            )
        check_choice(self.short_name, "bidding_rule", self.bidding_rule, _BIDDING_RULES)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def num_actions(self) -> int:
        """Number of bids, plus 1 for "Liar"."""
        return self.num_bids + 1

    @property
    def num_bids(self) -> int:
        """Number of bids: quantities × faces."""
        return 2 * self.numdice * self.dice_sides

    @property
    def num_outcomes(self) -> int:
        """Number of faces."""
        return self.dice_sides

    @property
    def max_moves(self) -> int:
        """The rolls, every bid and "Liar"."""
        return 2 * self.numdice + self.num_bids + 1

    @functools.cached_property
    def _hands(self) -> Hands:
        count = math.comb(self.numdice + self.dice_sides, self.numdice)
        if count * self.num_bids > _MOST_MATCHES:
            raise TooLargeError(
                f"{self.name} has {count:,} hands of dice and {self.num_bids:,} bids, too many for a table "
                "of matches; choose a smaller numdice or dice_sides"
            )
        return Hands.of(self.numdice, self.dice_sides)

    @functools.cached_property
    def _matches(self) -> IntArray:
        """`[bids, hands]` number of a hand's dice that count for a bid."""
        face, faces = np.array(self.bids).T[1], self._hands.faces
        return faces[face - 1] + np.where(face == self.dice_sides, 0, 1)[:, None] * faces[-1]

    def start(self, n: int, xp: Any) -> LiarsDiceState:
        """The states before the first roll."""
        return LiarsDiceState(
            rolled=xp.zeros(n, xp.int16),
            hand=xp.zeros((2, n), xp.int32),
            bids=xp.full((self.num_bids, n), -1, xp.int8),
            bid=xp.full(n, -1, xp.int16),
            turn=xp.zeros(n, xp.int16),
            is_over=xp.zeros(n, bool),
        )

    def actor(self, state: LiarsDiceState) -> Array:
        """Chance rolls all dice, then the players alternate until "Liar"."""
        xp = namespace(state.turn)
        acting = xp.where(state.turn % 2 == 0, xp.uint8(PLAYER_0), xp.uint8(PLAYER_1))
        acting = xp.where(state.is_over, xp.uint8(TERMINAL), acting)
        return xp.where(state.rolled < 2 * self.numdice, xp.uint8(CHANCE), acting)

    def legal(self, state: LiarsDiceState, player: int) -> Array:
        """Higher bids, and "Liar" after a bid."""
        xp = namespace(state.bid)
        bids = xp.arange(self.num_bids, dtype=xp.int16)[:, None] > state.bid
        return xp.concatenate([bids, state.bid[None] >= 0])

    def chance(self, state: LiarsDiceState) -> Array:
        """Uniform over the faces."""
        return namespace(state.turn).full((self.dice_sides, len(state.turn)), 1.0 / self.dice_sides)

    def step(self, state: LiarsDiceState, moves: Array) -> tuple[LiarsDiceState, Array]:
        """Rolls a die, which its player sees after its last one, or takes an action, which both see."""
        xp = namespace(state.turn)
        action, face = xp.asarray(xp.maximum(moves[0], moves[1]), xp.int16), moves[2]
        rolls, bids = face >= 0, (action >= 0) & (action < self.num_bids)
        public = xp.where(rolls, 0, 1 + action)
        hand, seen = state.hand, xp.stack([public, public])
        if may_hold(rolls):
            is_own = rolls & (state.rolled // self.numdice == xp.arange(2)[:, None])
            hand = xp.where(is_own, xp.asarray(self._hands.after)[face, hand], hand)
            is_last = is_own & ((state.rolled + 1) % self.numdice == 0)
            seen = xp.where(is_last, 1 + self.num_actions + hand - self._hands.first, seen)
        is_now = xp.arange(self.num_bids, dtype=xp.int16)[:, None] == action
        after = LiarsDiceState(
            rolled=state.rolled + xp.asarray(rolls, xp.int16),
            hand=hand,
            bids=xp.where(is_now, xp.asarray(state.turn % 2, xp.int8), state.bids),
            bid=xp.where(bids, action, state.bid),
            turn=state.turn + xp.asarray(~rolls, xp.int16),
            is_over=action == self.num_bids,
        )
        return after, xp.concatenate([seen, public[None]])

    def returns(self, state: LiarsDiceState) -> Array:
        """The last bidder wins 1 if the bid holds, otherwise the challenger."""
        xp = namespace(state.turn)
        matches = xp.asarray(self._matches)[state.bid, state.hand].sum(axis=0)
        quantity = xp.asarray(np.array(self.bids)[:, 0])[state.bid]
        won = xp.where((matches >= quantity) == (state.turn % 2 == 0), 1.0, -1.0)
        return xp.stack([won, -won])

    def features(self, state: LiarsDiceState, player: int) -> Array:
        """Numbers of own dice by face, unary, once all are rolled; both players' bids."""
        xp, n = namespace(state.turn), state.turn.shape[0]
        faces = xp.asarray(self._hands.faces)[:, state.hand[player]]
        many = (faces[:, None] > xp.arange(self.numdice)[:, None]).reshape(len(faces) * self.numdice, n)
        is_rolled = state.rolled >= self.numdice * (player + 1)
        return xp.concatenate([many & is_rolled, state.bids == player, state.bids == 1 - player])

    def dice(self) -> IntArray:
        """`[numdice, rolls]` faces 0, 1, … of all rolls of one player, in the order of the histories."""
        value = self.dice_sides ** np.arange(self.numdice - 1, -1, -1)  # the last die changes fastest
        return np.arange(self.dice_sides**self.numdice) // value[:, None] % self.dice_sides

    def hands(self) -> tuple[IntArray, int]:
        """`[rolls]` id of a player's sorted dice, and the number of ids."""
        code = np.zeros(self.dice_sides**self.numdice, np.int64)
        for die in np.sort(self.dice(), axis=0):
            code = code * self.dice_sides + die
        hand, num_hands = dense_ids(code)
        return hand.astype(np.int32), num_hands

    @functools.cached_property
    def bids(self) -> tuple[tuple[int, int], ...]:
        """`(quantity, face)` of every bid, faces from 1."""
        quantities, faces = range(1, 2 * self.numdice + 1), range(1, self.dice_sides + 1)
        if self.bidding_rule == "reset-face":
            return tuple((quantity, face) for quantity in quantities for face in faces)
        return tuple((quantity, face) for face in faces for quantity in quantities)

    @functools.cached_property
    def _action_strings(self) -> tuple[str, ...]:
        return (*(f"{quantity}-{face}" for quantity, face in self.bids), "Liar")

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string: the player's sorted dice, then the bids."""
        moves = cast(Sequence[int], history)  # no simultaneous moves
        own_dice = sorted(moves[player * self.numdice : (player + 1) * self.numdice])
        hand = "".join([str(die + 1) for die in own_dice])
        names = self._action_strings
        return " ".join([hand, *[names[move] for move in moves[2 * self.numdice :]]])

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's action string: quantity-face, or "Liar"."""
        return self._action_strings[action]

    @property
    def public_size(self) -> PublicSize:
        """Size of the hand form: sets of bids, and non-empty ones followed by "Liar"."""
        num_nodes = 2 ** (self.num_bids + 1) - 1
        num_hands = math.comb(self.numdice + self.dice_sides - 1, self.numdice)
        return PublicSize(num_nodes, (num_nodes + 1) * num_hands)

    def by_hands(self) -> HandsGame:
        """The game in hand form; a hand is a player's sorted dice, weighted by the number of its rolls."""
        levels: list[PublicLevel] = []
        scales: list[FloatArray] = []
        doubts: list[IntArray] = []
        bidding = _Bidding.start(self.num_bids)
        while len(bidding.action):
            called = bidding.action == self.num_bids
            levels.append(PublicLevel(bidding.parent, bidding.actors(), bidding.action))
            doubts.append(bidding.doubted[called])
            scales.append(np.full(np.count_nonzero(called), float(bidding.sign())))
            bidding = bidding.next(bidding.num_children())
        tree, deal, holds = PublicNodes.of(levels), *_Rolls(game=self).tables()
        dice = np.sort(self.dice(), axis=0).T + 1
        hand_of_roll, num_hands = self.hands()
        first_roll = np.array([np.argmax(hand_of_roll == hand) for hand in range(num_hands)])
        return HandsGame(
            name=self.name,
            hands=pair_names(["".join(map(str, faces)) for faces in dice[first_roll].tolist()]),
            nodes=tree,
            ends=group_ends(tree.ends, np.concatenate(scales), np.concatenate(doubts), holds),
            payoff_bounds=(-1.0, 1.0),
            deals=deal[None],
            board=np.zeros(len(tree), np.int8),
            action_names=self._action_strings,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Bidding:
    """A level of the tree of bids, `[t]` rows.

    Attributes:
      num_bids: number of bids, and the action "Liar".
      depth: number of actions so far.
      parent: `[t]` row in the level above.
      action: `[t]` last action, -1 at the start.
      doubted: `[t]` the bid that "Liar" challenges, `num_bids` for none.
    """

    num_bids: int
    depth: int
    parent: IntArray
    action: IntArray
    doubted: IntArray

    @staticmethod
    def start(num_bids: int) -> _Bidding:
        """The start of the bidding."""
        none = np.full(1, -1, np.int32)
        return _Bidding(
            num_bids=num_bids,
            depth=0,
            parent=none + 1,
            action=none,
            doubted=none + 1 + num_bids,
        )

    def num_children(self) -> IntArray:
        """`[t]` number of higher bids and, after the first bid, "Liar", which is the highest action."""
        return self.num_bids - self.action - (1 if self.depth == 0 else 0)

    def actors(self) -> npt.NDArray[np.uint8]:
        """`[t]` acting player: alternating, `TERMINAL` after "Liar"."""
        called = self.action == self.num_bids
        return np.where(called, TERMINAL, ACTOR_BIT[self.depth % 2]).astype(np.uint8)

    def sign(self) -> int:
        """Player 0's payoff after "Liar" if the bid holds; the challenger acted last."""
        return 1 if self.depth % 2 == 0 else -1

    def next(self, count: IntArray) -> _Bidding:
        """The level below, given `num_children()`."""
        parent = np.repeat(np.arange(len(count), dtype=np.int32), count)
        start = np.cumsum(count) - count
        action = np.arange(len(parent), dtype=np.int32) - (start - self.action - 1)[parent].astype(np.int32)
        return _Bidding(
            num_bids=self.num_bids,
            depth=self.depth + 1,
            parent=parent,
            action=action,
            doubted=np.where(action == self.num_bids, self.action[parent], self.num_bids),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Rolls:
    """All rolls of both players, `[d]`, in the order of the histories."""

    game: LiarsDice

    @functools.cached_property
    def _hand(self) -> tuple[IntArray, int]:
        """`[2, d]` both players' hands, and the number of hands."""
        hand, num_hands = self.game.hands()
        return np.stack([np.repeat(hand, len(hand)), np.tile(hand, len(hand))]), num_hands

    @functools.cached_property
    def _bid_holds(self) -> npt.NDArray[np.int8]:
        """`[d, num_bids + 1]` 1 if a bid holds, -1 if not, 0 in the last column (no bid)."""
        wild = self.game.dice_sides - 1
        dice = self.game.dice()
        matches = np.stack(
            [((dice == face) | (dice == wild)).sum(axis=0, dtype=np.int16) for face in range(wild + 1)]
        )
        total_matches = (matches[:, :, None] + matches[:, None, :]).reshape(wild + 1, -1)
        holds = [np.where(total_matches[face - 1] >= quantity, 1, -1) for quantity, face in self.game.bids]
        return np.stack([*holds, np.zeros_like(holds[0])], axis=1).astype(np.int8)

    def tables(self) -> tuple[FloatArray, FloatArray]:
        """Probability of each pair of hands, and for every bid this probability × 1 if it holds, -1 if not.

        Returns:
          `[H, H]` and `[num_bids, H, H]`.
        """
        hand, num_hands = self._hand
        pair = hand[0].astype(np.int64) * num_hands + hand[1]
        count = np.bincount(pair, minlength=num_hands**2)
        holds = np.empty((num_hands**2, self.game.num_bids))
        holds[pair] = self._bid_holds[:, :-1]
        deal = count / hand.shape[1]
        tables = (deal[:, None] * holds).T.reshape(-1, num_hands, num_hands)
        return deal.reshape(num_hands, num_hands), tables
