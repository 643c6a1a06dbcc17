"""Two-player Goofspiel: both players bid a card for each point card; the higher bid wins its points.

The game and its parameters are OpenSpiel's. The bids are a simultaneous move. The last card of a full game is
played automatically. With `imp_info` a player observes the winner of a trick, but not the other player's bid.

Without `imp_info` OpenSpiel's infostate string shows both hands but not the order of the bids. Here players
have perfect recall, so from four cards on several infostates share a string (`HistoryTree.infoset_names` are
unique). `egocentric` only changes OpenSpiel's tensors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from jaxgadget.games.game import CHANCE, SIMULTANEOUS, TERMINAL, Budget, CutRule, HistoryLevel, Move, Refiner
from jaxgadget.games.parameters import (
    MAX_ACTIONS,
    canonical_name,
    check_choice,
    check_flag,
    check_integer,
    check_two_players,
)
from jaxgadget.util.arrays import BoolArray, IntArray

_POINTS_ORDERS = ("random", "descending", "ascending")
_RETURNS_TYPES = ("win_loss", "point_difference")
_DRAW = -3  # OpenSpiel's invalid player, in its strings


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goofspiel:
    """Goofspiel; action `a` bids card `a + 1`, chance outcome `c` deals point card `c + 1`.

    Attributes:
      players: 2.
      num_cards: cards of each player, and point cards.
      num_turns: number of tricks, -1 for all cards.
      points_order: `random` (chance deals), `descending` or `ascending`.
      imp_info: hide bids; only the winner of a trick is announced.
      egocentric: no effect; accepted for compatibility with OpenSpiel.
      returns_type: `win_loss` (1, 0, -1) or `point_difference` (half of it, as in OpenSpiel).
    """

    short_name: ClassVar[str] = "goofspiel"

    players: int = 2
    num_cards: int = 13
    num_turns: int = -1
    points_order: str = "random"
    imp_info: bool = False
    egocentric: bool = False
    returns_type: str = "win_loss"

    def __post_init__(self) -> None:
        check_two_players(self.short_name, self.players)
        check_integer(self.short_name, "num_cards", self.num_cards, 1, MAX_ACTIONS)
        check_integer(self.short_name, "num_turns", self.num_turns, -1, self.num_cards)
        if self.num_turns in (0, self.num_cards - 1):
            raise ValueError(
                f"goofspiel: num_turns={self.num_turns}: expected -1 (all), {self.num_cards}, or a positive "
                f"number below {self.num_cards - 1}, as OpenSpiel's game never ends with this one; leave the "
                "parameter out to play all cards"
            )
        check_choice(self.short_name, "points_order", self.points_order, _POINTS_ORDERS)
        check_flag(self.short_name, "imp_info", self.imp_info)
        check_flag(self.short_name, "egocentric", self.egocentric)
        if self.returns_type == "total_points":
            raise ValueError(
                "goofspiel: returns_type='total_points': expected win_loss or point_difference, as total "
                "points are neither zero-sum nor constant-sum (drawn points are not scored)"
            )
        check_choice(self.short_name, "returns_type", self.returns_type, _RETURNS_TYPES)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def num_actions(self) -> int:
        """Number of cards."""
        return self.num_cards

    @property
    def turns(self) -> int:
        """Number of tricks."""
        return self.num_cards if self.num_turns < 0 else self.num_turns

    def plays_itself(self, turn: int) -> bool:
        """True if the trick after `turn` tricks is forced because each player has one card left."""
        return turn > 0 and turn == self.turns - 1 == self.num_cards - 1

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        """Yields one level per trick and, with random order, one per point card."""
        table = _Table(self, budget)
        yield table.root()
        for turn in range(self.turns):
            if self.plays_itself(turn):
                return
            if self.points_order == "random":
                yield table.deal()
            yield table.bid(turn)

    def point_card(self, turn: int) -> int:
        """The point card of a trick if the order is fixed."""
        return turn if self.points_order == "ascending" else self.num_cards - 1 - turn

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string; `history` holds a pair per trick, and the point cards if they are dealt."""
        bids = [move for move in history if isinstance(move, tuple)]
        if self.points_order == "random":
            cards = [move for move in history if not isinstance(move, tuple)]
        else:
            cards = [self.point_card(turn) for turn in range(len(bids) + 1)]
        winners = [_DRAW if a == b else 0 if a > b else 1 for a, b in bids]
        points = [0, 0, 0]  # player 0, player 1, drawn
        for winner, card in zip(winners, cards, strict=False):
            points[max(winner, -1)] += card + 1
        sequence = f"Point card sequence: {_spaced([card + 1 for card in cards])}\n"
        result = f"Win sequence: {_spaced(winners)}\nPoints: {points[0]} {points[1]} \n"
        if not self.imp_info:
            return f"{sequence}{self._hand(0, bids)}{self._hand(1, bids)}{result}"
        own_bids = f"P{player} action sequence: {_spaced([bid[player] for bid in bids])}\n"
        return f"{self._hand(player, bids)}{own_bids}{sequence}{result}Terminal?: 0\n"

    def _hand(self, player: int, bids: Sequence[tuple[int, int]]) -> str:
        used = [bid[player] for bid in bids]
        return f"P{player} hand: {_spaced([c + 1 for c in range(self.num_cards) if c not in used])}\n"

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's action string."""
        return f"[P{player}]Bid: {action + 1}"

    def cuts(self) -> Mapping[str, CutRule]:
        """No named cuts."""
        return {}


def _spaced(numbers: Sequence[int]) -> str:
    return "".join(map("{} ".format, numbers))


class _Table:
    """Hands, deck and score in every history of the current level, `[n]`."""

    def __init__(self, game: Goofspiel, budget: Budget):
        self._game = game
        self._budget = budget
        self._hands = np.ones((2, 1, game.num_cards), np.bool_)  # cards not yet bid
        self._deck = np.ones((1, game.num_cards), np.bool_)  # point cards not yet dealt
        self._card: IntArray = np.full(1, -1, np.int16)  # the current point card
        self._lead: IntArray = np.zeros(1, np.int16)  # player 0's points minus player 1's
        self._refiners = (Refiner(), Refiner(), Refiner())  # of player 0, player 1 and the public
        self._num_histories = 1

    def root(self) -> HistoryLevel:
        """The first level: no moves; the first point card is dealt if the order is fixed."""
        self._budget.claim(1)
        return self._level(np.zeros(1, np.int32), np.full((3, 1), -1, np.int16), None)

    def deal(self) -> HistoryLevel:
        """The level after chance deals a point card."""
        n, num_left = len(self._deck), int(np.count_nonzero(self._deck[0]))
        self._budget.claim(n * num_left)
        parent = np.repeat(np.arange(n, dtype=np.int32), num_left)
        action = np.full((3, n * num_left), -1, np.int16)
        self._card = action[2] = np.nonzero(self._deck)[1]
        self._hands, self._lead = self._hands[:, parent], self._lead[parent]
        self._deck = _without(self._deck, parent, self._card)
        return self._level(parent, action, self._card, chance=1.0 / num_left)

    def bid(self, turn: int) -> HistoryLevel:
        """The level after a trick: all pairs of bids in every history."""
        game = self._game
        n, num_left = self._hands.shape[1], game.num_cards - turn
        self._budget.claim(n * num_left**2)
        parent = np.repeat(np.arange(n, dtype=np.int32), num_left**2)
        left = np.nonzero(self._hands)[2].astype(np.int16).reshape(2, n, num_left)
        action = np.full((3, len(parent)), -1, np.int16)
        shape = (n, num_left, num_left)
        action[0].reshape(shape)[:] = left[0, :, :, None]
        action[1].reshape(shape)[:] = left[1, :, None, :]
        bid_difference = action[0] - action[1]
        result = np.sign(bid_difference)
        seen = result + 1
        is_random = game.points_order == "random"
        card = self._card[parent] if is_random else game.point_card(turn)
        self._lead = self._lead[parent] + result * (card + 1)
        is_last = turn + 1 == game.turns
        if game.plays_itself(turn + 1):
            is_last = True
            rest = left[0].sum(axis=1) - left[1].sum(axis=1)
            last_result = np.sign(rest[parent] - bid_difference)
            seen = seen * 3 + last_result + 1
            last_card = np.argmax(self._deck, axis=1)[parent] if is_random else game.point_card(turn + 1)
            self._lead += last_result * (last_card + 1)
        if not is_last:
            self._hands = np.stack([_without(self._hands[p], parent, action[p]) for p in (0, 1)])
            self._deck = self._deck[parent] if is_random else self._deck
        return self._level(parent, action, seen, is_last=is_last)

    def _level(
        self,
        parent: IntArray,
        action: IntArray,
        seen: IntArray | None,
        *,
        chance: float = 1.0,
        is_last: bool = False,
    ) -> HistoryLevel:
        """Builds a level, given the public observation on arrival."""
        n, game = len(parent), self._game
        returns = np.zeros((2, n))
        if is_last:
            actor = TERMINAL
            returns[0] = np.sign(self._lead) if game.returns_type == "win_loss" else self._lead / 2
            np.subtract(0.0, returns[0], out=returns[1])
        else:
            actor = CHANCE if game.points_order == "random" and action[2, 0] < 0 else SIMULTANEOUS
        infostate = self._infostates(parent, action, seen)
        return HistoryLevel(
            parent=parent,
            actor=np.full(n, actor, np.uint8),
            action=action,
            chance=np.full(n, chance),
            returns=returns,
            infostate=infostate[:2],
            public=infostate[2],
        )

    def _infostates(self, parent: IntArray, action: IntArray, seen: IntArray | None) -> IntArray:
        """`[3, n]` ids for player 0, player 1 and the public."""
        n = len(parent)
        if seen is None:
            return np.zeros((3, 1), np.int64)
        if not self._game.imp_info:  # perfect information
            self._num_histories += n
            return np.broadcast_to(np.arange(self._num_histories - n, self._num_histories), (3, n))
        own = (action[0], action[1], np.full(n, -1, np.int16))
        return np.stack([r.extend(parent, a, seen) for r, a in zip(self._refiners, own, strict=True)])


def _without(cards: BoolArray, parent: IntArray, card: IntArray) -> BoolArray:
    """`[n, num_cards]` the parents' cards without one card each."""
    rest = cards[parent]
    rest[np.arange(len(parent)), card] = False
    return rest
