"""Two-player Kuhn poker: three cards, one bet."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL, Budget, CutRule, HistoryLevel, Move
from jaxgadget.games.hands import HandsGame, PublicLevel, PublicNodes, group_ends, name_cards
from jaxgadget.games.parameters import canonical_name, check_two_players
from jaxgadget.util.arrays import FloatArray, IntArray

_NUM_CARDS = 3
# Betting sequences of passes (p) and bets (b) by length, in the order of the histories.
_LINES = (("",), ("p", "b"), ("pp", "pb", "bp", "bb"), ("pbp", "pbb"))
_SHOWDOWN = {"pp": 1.0, "bb": 2.0, "pbb": 2.0}  # payoff of the higher card
_FOLDED = {"bp": 1.0, "pbp": -1.0}  # payoff of player 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class KuhnPoker:
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
        """Pass and bet."""
        return 2

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        """Yields the two deals, then the betting for all deals at once."""
        budget.claim(1)
        yield _dealing(np.zeros(1, np.int64), np.full(1, -1), np.zeros((2, 1), np.int64))
        cards = np.arange(_NUM_CARDS)
        budget.claim(_NUM_CARDS)
        # Player 1 and the public only see that a card is dealt.
        yield _dealing(np.zeros(_NUM_CARDS, np.int64), cards, np.stack([1 + cards, np.ones_like(cards)]))
        deals = np.array([(a, b) for a in range(_NUM_CARDS) for b in range(_NUM_CARDS) if a != b]).T
        ahead = np.where(deals[0] > deals[1], 1.0, -1.0)
        first_id = 1 + _NUM_CARDS
        for length, lines in enumerate(_LINES):
            budget.claim(deals.shape[1] * len(lines))
            yield _betting(length, deals, ahead, first_id)
            first_id += _NUM_CARDS * len(lines)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string: the card, then p and b."""
        return str(history[player]) + "".join("b" if move else "p" for move in history[2:])

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's action string."""
        return ("Pass", "Bet")[action]

    def cuts(self) -> Mapping[str, CutRule]:
        """No named cuts."""
        return {}

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


def _dealing(parent: IntArray, card: IntArray, infostate: IntArray) -> HistoryLevel:
    n = len(parent)
    action = np.full((3, n), -1, np.int16)
    action[2] = card
    return HistoryLevel(
        parent=parent,
        actor=np.full(n, CHANCE, np.uint8),
        action=action,
        chance=np.where(card < 0, 1.0, 1.0 / _NUM_CARDS),
        returns=np.zeros((2, n)),
        infostate=infostate,
        public=infostate[1],
    )


def _betting(length: int, deals: IntArray, ahead: FloatArray, first_id: int) -> HistoryLevel:
    """All histories with `length` bets or passes: rows are deals × betting sequences."""
    lines, num_deals = _LINES[length], deals.shape[1]
    line = np.tile(np.arange(len(lines)), num_deals)
    deal = np.repeat(np.arange(num_deals), len(lines))
    action = np.full((3, len(line)), -1, np.int16)
    if length == 0:
        parent, chance = deals[0], 1.0 / (_NUM_CARDS - 1)
        action[2] = deals[1]
    else:
        above = _LINES[length - 1]
        parent = deal * len(above) + _parents(length)[line]
        chance = 1.0
        action[(length - 1) % 2] = np.array([text[-1] == "b" for text in lines])[line]
    won = np.array([_SHOWDOWN.get(text, 0.0) for text in lines])[line] * ahead[deal]
    won += np.array([_FOLDED.get(text, 0.0) for text in lines])[line]
    return HistoryLevel(
        parent=parent,
        actor=_actors(length)[line],
        action=action,
        chance=np.full(len(line), chance),
        returns=np.stack([won, 0.0 - won]),
        infostate=first_id + deals[:, deal] * len(lines) + line,
        public=first_id + line,
    )
