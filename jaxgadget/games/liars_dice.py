"""Two-player Liar's Dice: both players roll privately, then raise bids until one calls "Liar".

The bidding tree is the same for every roll, so a level is the product of a bidding level and the rolls. The
highest face is wild: it counts for every bid.

Chance rolls one die after another; a player observes its sorted dice after its last roll, so rolls that
differ in their order share an infostate, as in OpenSpiel.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL, Budget, CutRule, HistoryLevel, Move, dense_ids
from jaxgadget.games.hands import HandsGame, PublicLevel, PublicNodes, PublicSize, group_ends, pair_names
from jaxgadget.games.parameters import (
    MAX_ACTIONS,
    canonical_name,
    check_choice,
    check_integer,
    check_two_players,
)
from jaxgadget.util.arrays import FloatArray, IntArray

_BIDDING_RULES = ("reset-face", "reset-quantity")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiarsDice:
    """Liar's Dice; actions are the bids in ascending order, then "Liar".

    Attributes:
      players: 2.
      numdice: dice of each player.
      dice_sides: faces of a die.
      bidding_rule: order of bids, by quantity and then face (`reset-face`), or by face
        and then quantity (`reset-quantity`).
    """

    short_name: ClassVar[str] = "liars_dice"

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

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        """Yields the rolls of the single dice, then the bidding for all rolls at once."""
        for dice in range(2 * self.numdice):
            budget.claim(self.dice_sides**dice)
            yield self._rolling(dice)
        num_rolls = self.dice_sides ** (2 * self.numdice)
        budget.claim(num_rolls)
        rolls = _Rolls(game=self)
        bidding = _Bidding.start(self.num_bids)
        level = rolls.cross(bidding)
        # The last die leads to the start of the bidding.
        row = np.arange(num_rolls, dtype=np.int32)
        action = level.action.copy()
        action[2] = row % self.dice_sides
        chance = np.full(num_rolls, 1.0 / self.dice_sides)
        yield dataclasses.replace(level, parent=row // self.dice_sides, action=action, chance=chance)
        while (count := bidding.num_children()).any():
            budget.claim(num_rolls * int(count.sum()))
            bidding = bidding.next(count)
            yield rolls.cross(bidding)

    def _rolling(self, dice: int) -> HistoryLevel:
        """All histories with `dice` dice rolled and at least one left to roll."""
        n = self.dice_sides**dice
        row = np.arange(n, dtype=np.int32)
        action = np.full((3, n), -1, np.int16)
        if dice:
            action[2] = row % self.dice_sides
        # Ids: number of dice rolled, then player 0's hand once it is observed.
        infostate = np.full((2, n), dice, np.int32)
        if dice >= self.numdice:
            hand, num_hands = self.hands()
            roll = row // self.dice_sides ** (dice - self.numdice)
            infostate[0] = 2 * self.numdice + (dice - self.numdice) * num_hands + hand[roll]
        return HistoryLevel(
            parent=row // self.dice_sides,
            actor=np.full(n, CHANCE, np.uint8),
            action=action,
            chance=np.full(n, 1.0 / self.dice_sides if dice else 1.0),
            returns=np.zeros((2, n)),
            infostate=infostate,
            public=np.full(n, dice, np.int32),
        )

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

    def cuts(self) -> Mapping[str, CutRule]:
        """No named cuts."""
        return {}

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
      first_id: number of rows in all levels above.
      num_above: number of rows in the level above.
      parent: `[t]` row in the level above.
      action: `[t]` last action, -1 at the start.
      doubted: `[t]` the bid that "Liar" challenges, `num_bids` for none.
    """

    num_bids: int
    depth: int
    first_id: int
    num_above: int
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
            first_id=0,
            num_above=1,
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
            first_id=self.first_id + len(count),
            num_above=len(count),
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

    def cross(self, bidding: _Bidding) -> HistoryLevel:
        """A level of the game: the product of rolls and bidding sequences."""
        game = self.game
        hand, num_hands = self._hand
        num_rolls, width = hand.shape[1], len(bidding.action)
        n = num_rolls * width
        row_above = np.arange(num_rolls, dtype=np.int32) * bidding.num_above
        action = np.full((3, n), -1, np.int16)
        won = np.zeros((2, n))
        if bidding.depth:
            action[(bidding.depth - 1) % 2] = np.tile(bidding.action, num_rolls)
            won[0] = bidding.sign() * self._bid_holds[:, bidding.doubted].reshape(-1)
            won[1] = 0.0 - won[0]
        first_id = 2 * game.numdice
        state = np.arange(bidding.first_id, bidding.first_id + width, dtype=np.int32)
        infostate = hand[:, :, None] + (first_id + game.numdice * num_hands + state * num_hands)
        return HistoryLevel(
            parent=(row_above[:, None] + bidding.parent).reshape(-1),
            actor=np.tile(bidding.actors(), num_rolls),
            action=action,
            chance=np.ones(n),
            returns=won,
            infostate=infostate.reshape(2, -1),
            public=np.tile(first_id + state, num_rolls),
        )
