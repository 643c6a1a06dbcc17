"""Two-player Goofspiel: both players bid a card for each point card; the higher bid wins its points.

The game and its parameters are OpenSpiel's. The bids are a simultaneous move. The last card of a full game is
played automatically. With `imp_info` a player observes the winner of a trick, but not the other player's bid.

Without `imp_info` OpenSpiel's infostate string shows both hands but not the order of the bids. Here players
have perfect recall, so from four cards on several infostates share a string (`HistoryTree.infoset_names` are
unique). `egocentric` only changes OpenSpiel's tensors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from jaxgadget.games.game import CHANCE, SIMULTANEOUS, TERMINAL, Move
from jaxgadget.games.machine import Array, StateMachine, namespace
from jaxgadget.games.parameters import (
    MAX_ACTIONS,
    canonical_name,
    check_choice,
    check_flag,
    check_integer,
    check_two_players,
)

_POINTS_ORDERS = ("random", "descending", "ascending")
_RETURNS_TYPES = ("win_loss", "point_difference")
_DRAW = -3  # OpenSpiel's invalid player, in its strings


class GoofspielState(NamedTuple):
    """States of Goofspiel, T tricks of C cards.

    Attributes:
      turn: `[n]` number of tricks played.
      bids: `[2, T, n]` both players' cards in each trick, -1 for none yet.
      points: `[T, n]` point card of each trick, -1 for none yet.
      hands: `[2, C, n]` cards not yet bid.
      deck: `[C, n]` point cards not yet dealt; `[0, n]` if the order is fixed.
      lead: `[n]` player 0's points minus player 1's.
    """

    turn: Array
    bids: Array
    points: Array
    hands: Array
    deck: Array
    lead: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goofspiel(StateMachine[GoofspielState]):
    """Goofspiel; action `a` bids card `a + 1`, chance outcome `c` deals point card `c + 1`.

    Attributes:
      players: 2.
      num_cards: cards of each player, and point cards.
      num_turns: number of tricks, -1 for all cards.
      points_order: `random` (chance deals), `descending` or `ascending`.
      imp_info: hides bids; only the winner of a trick is announced.
      egocentric: ignored; accepted for compatibility with OpenSpiel.
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

    @property
    def num_outcomes(self) -> int:
        """Number of point cards if they are dealt, otherwise 0."""
        return self.num_cards if self.is_random else 0

    @property
    def max_moves(self) -> int:
        """Tricks that are not forced, and the point cards dealt for them."""
        return (self.turns - self.plays_itself(self.turns - 1)) * (2 if self.is_random else 1)

    @property
    def is_random(self) -> bool:
        """True if chance deals the point cards."""
        return self.points_order == "random"

    def _integers(self, xp: Any) -> Any:
        """Smallest type of cards and numbers of tricks."""
        return xp.int8 if self.num_cards < 2**7 else xp.int16

    def start(self, n: int, xp: Any) -> GoofspielState:
        """The states before any bid; the first point card is dealt if the order is fixed."""
        cards, turns = self.num_cards, self.turns
        point = xp.full((turns, n), -1, self._integers(xp))
        if not self.is_random:
            order = xp.asarray([self.point_card(turn) for turn in range(turns)], self._integers(xp))
            point = xp.broadcast_to(order[:, None], (turns, n))
        return GoofspielState(
            turn=xp.zeros(n, self._integers(xp)),
            bids=xp.full((2, turns, n), -1, self._integers(xp)),
            points=point,
            hands=xp.ones((2, cards, n), bool),
            deck=xp.ones((cards if self.is_random else 0, n), bool),
            lead=xp.zeros(n, xp.int32),
        )

    def actor(self, state: GoofspielState) -> Array:
        """Chance deals a point card where it is random, then both players bid."""
        xp = namespace(state.turn)
        is_over = state.turn == self.turns
        if not self.is_random:
            return xp.where(is_over, xp.uint8(TERMINAL), xp.uint8(SIMULTANEOUS))
        is_dealt = xp.count_nonzero(state.points >= 0, axis=0) > state.turn
        return xp.where(
            is_over, xp.uint8(TERMINAL), xp.where(is_dealt, xp.uint8(SIMULTANEOUS), xp.uint8(CHANCE))
        )

    def legal(self, state: GoofspielState, player: int) -> Array:
        """The cards in the player's hand."""
        return state.hands[player]

    def chance(self, state: GoofspielState) -> Array:
        """Uniform over the remaining point cards."""
        return state.deck / namespace(state.deck).maximum(state.deck.sum(axis=0), 1)

    def step(self, state: GoofspielState, moves: Array) -> tuple[GoofspielState, Array]:
        """Deals a point card, or plays a trick, of which the winner or both bids are announced."""
        xp = namespace(state.turn)
        bids, card = xp.asarray(moves[:2], self._integers(xp)), xp.asarray(moves[2], self._integers(xp))
        if self.is_random:
            state = self._deal(state, card)
        state, result = self._bid(state, bids)
        if self.plays_itself(self.turns - 1):
            is_last = state.turn == self.turns - 1
            last_cards = [xp.where(is_last, xp.argmax(hand, axis=0), -1) for hand in state.hands]
            if self.is_random:
                state = self._deal(state, xp.where(is_last, xp.argmax(state.deck, axis=0), -1))
            state, last_result = self._bid(state, xp.asarray(xp.stack(last_cards), self._integers(xp)))
            result = xp.where(is_last, 3 * (1 + result) + last_result, result)
        both_bids = xp.asarray(bids[0], xp.int32) * self.num_cards + bids[1]
        announced = self.num_cards + (result if self.imp_info else both_bids)
        return state, xp.stack([xp.where(card < 0, announced, xp.asarray(card, xp.int32))] * 3)

    def _deal(self, state: GoofspielState, card: Array) -> GoofspielState:
        """The states after chance deals point cards, -1 for none."""
        xp = namespace(card)
        is_now = xp.arange(self.turns)[:, None] == state.turn
        return state._replace(
            points=xp.where(is_now & (card >= 0), xp.asarray(card, self._integers(xp)), state.points),
            deck=state.deck & (xp.arange(self.num_cards)[:, None] != card),
        )

    def _bid(self, state: GoofspielState, bids: Array) -> tuple[GoofspielState, Array]:
        """The states after a trick, and `[n]` 0, 1, 2 if player 0 loses, draws, wins; bids may be -1."""
        xp, is_bid = namespace(bids), bids[0] >= 0
        is_now = (xp.arange(self.turns)[:, None] == state.turn) & is_bid
        worth = xp.where(is_now, state.points + 1, 0).sum(axis=0, dtype=xp.int32)
        result = xp.asarray(xp.sign(bids[0] - bids[1]), xp.int32)
        after = state._replace(
            turn=state.turn + xp.asarray(is_bid, self._integers(xp)),
            bids=xp.where(is_now, bids[:, None], state.bids),
            hands=state.hands & (xp.arange(self.num_cards)[:, None] != bids[:, None]),
            lead=state.lead + result * worth,
        )
        return after, 1 + result

    def returns(self, state: GoofspielState) -> Array:
        """1 for the winner and -1 for the loser, or half of the difference in points."""
        xp = namespace(state.lead)
        won = xp.sign(state.lead) if self.returns_type == "win_loss" else state.lead / 2
        return xp.stack([won, 0 - won])

    def features(self, state: GoofspielState, player: int) -> Array:
        """One-hot by trick: the point card if dealt, the player's bid, the result or the opponent's bid."""
        xp = namespace(state.turn)
        cards = xp.arange(self.num_cards)[:, None]
        turns = xp.arange(self.turns)[:, None] == state.turn
        own, other = state.bids[player], state.bids[1 - player]
        seen = [own[:, None] == cards]
        if self.is_random:
            seen.append(state.points[:, None] == cards)
        if self.imp_info:
            is_bid = own >= 0
            seen.append(xp.stack([is_bid & (own < other), is_bid & (own > other)], axis=1))
        else:
            seen.append(other[:, None] == cards)
        return xp.concatenate(
            [turns, *[part.reshape(part.shape[0] * part.shape[1], part.shape[2]) for part in seen]]
        )

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


def _spaced(numbers: Sequence[int]) -> str:
    return "".join(map("{} ".format, numbers))
