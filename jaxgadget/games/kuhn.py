"""Two-player Kuhn poker: three cards, one bet."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL, Move
from jaxgadget.games.hands import HandsGame, PublicLevel, PublicNodes, group_ends, name_cards
from jaxgadget.games.machine import Array, StateMachine, namespace
from jaxgadget.games.parameters import canonical_name, check_two_players
from jaxgadget.util.arrays import IntArray

_NUM_CARDS = 3
# Betting sequences of passes (p) and bets (b) by length, in the order of the histories.
_LINES = (("",), ("p", "b"), ("pp", "pb", "bp", "bb"), ("pbp", "pbb"))
_SHOWDOWN = {"pp": 1.0, "bb": 2.0, "pbb": 2.0}  # payoff of the higher card
_FOLDED = {"bp": 1.0, "pbp": -1.0}  # payoff of player 0

_TEXTS = tuple(line for lines in _LINES for line in lines)
_NEXT = np.array([[_TEXTS.index(t + a) if t + a in _TEXTS else 0 for t in _TEXTS] for a in "pb"])
_AT_SHOWDOWN = np.array([int(_SHOWDOWN.get(text, 0)) for text in _TEXTS])
_AFTER_PASS = np.array([int(_FOLDED.get(text, 0)) for text in _TEXTS])


class KuhnState(NamedTuple):
    """States of Kuhn poker.

    Attributes:
      cards: `[2, n]` both players' cards, -1 before they are dealt.
      line: `[n]` index of the betting sequence.
    """

    cards: Array
    line: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class KuhnPoker(StateMachine[KuhnState]):
    """Kuhn poker; actions are 0 pass and 1 bet, chance outcomes the cards 0, 1, 2."""

    short_name: ClassVar[str] = "kuhn_poker"

    players: int = 2

    def __post_init__(self) -> None:
        check_two_players(self.short_name, self.players)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def num_actions(self) -> int:
        """2: pass and bet."""
        return 2

    @property
    def num_outcomes(self) -> int:
        """Number of cards."""
        return _NUM_CARDS

    @property
    def max_moves(self) -> int:
        """Two deals and up to three actions."""
        return len(_LINES) + 1

    def start(self, n: int, xp: Any) -> KuhnState:
        """The states before the deal."""
        return KuhnState(xp.full((2, n), -1), xp.zeros(n, int))

    def actor(self, state: KuhnState) -> Array:
        """Chance deals both cards, then the players alternate."""
        xp = namespace(state.line)
        acting = np.concatenate([_actors(length) for length in range(len(_LINES))])
        return xp.where(state.cards[1] < 0, xp.uint8(CHANCE), xp.asarray(acting)[state.line])

    def legal(self, state: KuhnState, player: int) -> Array:
        """Both actions."""
        return namespace(state.line).ones((2, len(state.line)), bool)

    def chance(self, state: KuhnState) -> Array:
        """Uniform over the cards not yet dealt."""
        xp = namespace(state.line)
        left = xp.arange(_NUM_CARDS)[:, None] != state.cards[0]
        return left / xp.count_nonzero(left, axis=0)

    def step(self, state: KuhnState, moves: Array) -> tuple[KuhnState, Array]:
        """Deals a card, which only its player sees, or takes an action, which both see."""
        xp = namespace(state.line)
        first, second, card = xp.asarray(moves, int)
        is_dealt = xp.stack([state.cards[0] < 0, (state.cards[0] >= 0) & (state.cards[1] < 0)])
        played = xp.maximum(first, second)
        line = xp.where(card < 0, xp.asarray(_NEXT)[played, state.line], state.line)
        public = xp.where(card < 0, played, 2)
        seen = xp.concatenate([xp.where(is_dealt, 3 + card, public), public[None]])
        return KuhnState(xp.where(is_dealt, card, state.cards), line), seen

    def returns(self, state: KuhnState) -> Array:
        """The pot to the higher card, or to the player that did not pass."""
        xp = namespace(state.line)
        won = xp.sign(state.cards[0] - state.cards[1]) * xp.asarray(_AT_SHOWDOWN)[state.line]
        won = won + xp.asarray(_AFTER_PASS)[state.line]
        return xp.stack([won, 0 - won])

    def features(self, state: KuhnState, player: int) -> Array:
        """The player's card and the betting sequence, one-hot."""
        xp = namespace(state.line)
        return xp.concatenate(
            [
                xp.arange(_NUM_CARDS)[:, None] == state.cards[player],
                xp.arange(len(_TEXTS))[:, None] == state.line,
            ]
        )

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string: the card, then p and b."""
        return str(history[player]) + "".join("b" if move else "p" for move in history[2:])

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's action string."""
        return ("Pass", "Bet")[action]

    def by_hands(self) -> HandsGame:
        """The game in hand form; a hand is a card."""
        tree = PublicNodes.of(
            PublicLevel(_parents(length), _actors(length), np.array([line[-1:] == "b" for line in lines]))
            for length, lines in enumerate(_LINES)
        )
        text = np.concatenate(_LINES)[tree.ends].tolist()
        dealt = (1.0 - np.eye(_NUM_CARDS)) / (_NUM_CARDS * (_NUM_CARDS - 1))
        cards = np.arange(_NUM_CARDS)
        ahead = np.sign(cards[:, None] - cards) * 1.0
        shows = np.array([line in _SHOWDOWN for line in text])
        stakes = np.array([(_SHOWDOWN | _FOLDED)[line] for line in text])
        tables = np.stack([dealt, dealt * ahead])
        return HandsGame(
            name=self.name,
            hands=(name_cards(_NUM_CARDS), name_cards(_NUM_CARDS)),
            nodes=tree,
            ends=group_ends(tree.ends, stakes, shows.astype(np.int64), tables),
            payoff_bounds=(-2.0, 2.0),
            deals=dealt[None],
            board=np.zeros(len(tree), np.int64),
            action_names=(self.action_string(0, 0), self.action_string(0, 1)),
        )


def _is_over(line: str) -> bool:
    return line in _SHOWDOWN or line in _FOLDED


def _actors(length: int) -> npt.NDArray[np.uint8]:
    """Acting player after each betting sequence of a length."""
    actors = [TERMINAL if _is_over(line) else ACTOR_BIT[length % 2] for line in _LINES[length]]
    return np.array(actors, np.uint8)


def _parents(length: int) -> IntArray:
    """Index of each betting sequence's prefix that is one action shorter."""
    above = _LINES[max(length - 1, 0)]
    return np.array([above.index(line[:-1]) for line in _LINES[length]])
