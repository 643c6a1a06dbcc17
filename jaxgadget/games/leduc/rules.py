"""Leduc poker for two: one private card each, one public card, two betting rounds.

OpenSpiel's game and parameters, extended to any number of ranks, suits and raises.

`action_mapping` makes all three actions legal and plays a pointless fold or raise as a call. OpenSpiel's
infostate string then omits the player's choice. Here the player has perfect recall, so several infostates
share a string (`HistoryTree.infoset_names` are unique).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, cast

from jaxgadget.games.game import Move
from jaxgadget.games.hands import HandsGame
from jaxgadget.games.leduc.betting import Betting, BettingRules, BettingState
from jaxgadget.games.leduc.machine import Deck, LeducMachine, leduc_by_hands
from jaxgadget.games.parameters import (
    MAX_ACTIONS,
    canonical_name,
    check_flag,
    check_integer,
    check_two_players,
)

MAX_RAISES = 100  # bounds the length of betting sequences
_MONEY = 100  # a player's initial chips; only used in infostate strings


@dataclasses.dataclass(frozen=True, kw_only=True)
class LeducPoker(LeducMachine):
    """Leduc poker; actions are 0 fold, 1 call (or check), 2 raise.

    A card is `rank · num_suits + suit`. The card that pairs the public card wins, otherwise the
    higher rank; equal ranks split the pot.

    Attributes:
      players: 2.
      suit_isomorphism: suits are merged; chance deals ranks.
      action_mapping: all three actions are legal; a pointless fold or raise is played as a call.
      starting_player: the player that begins both betting rounds.
      num_ranks: ranks in the deck (this and the following parameters are fixed in OpenSpiel).
      num_suits: cards of each rank.
      raise_sizes: chips of a raise in the first and in the second round, as "2-4".
      max_raises: maximum number of raises in a round, by both players together; at most 100.
    """

    short_name: ClassVar[str] = "leduc_poker"

    players: int = 2
    suit_isomorphism: bool = False
    action_mapping: bool = False
    starting_player: int = 0
    num_ranks: int = 3
    num_suits: int = 2
    raise_sizes: str = "2-4"
    max_raises: int = 2

    def __post_init__(self) -> None:
        check_two_players(self.short_name, self.players)
        check_flag(self.short_name, "suit_isomorphism", self.suit_isomorphism)
        check_flag(self.short_name, "action_mapping", self.action_mapping)
        check_integer(self.short_name, "starting_player", self.starting_player, 0, 1)
        check_integer(self.short_name, "num_ranks", self.num_ranks, 1, MAX_ACTIONS)
        check_integer(self.short_name, "num_suits", self.num_suits, 1, MAX_ACTIONS)
        check_integer(self.short_name, "max_raises", self.max_raises, 1, MAX_RAISES)
        check_deck(self.short_name, self.num_ranks, self.num_suits)
        _parse_raises(self.raise_sizes)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def num_actions(self) -> int:
        """Fold, call, raise."""
        return 3

    @functools.cached_property
    def betting(self) -> Betting:
        """The rules of the betting."""
        return Betting(
            starting_player=self.starting_player,
            raise_sizes=_parse_raises(self.raise_sizes),
            max_raises=self.max_raises,
            action_mapping=self.action_mapping,
        )

    @functools.cached_property
    def deck(self) -> Deck:
        """The cards."""
        return Deck.of(self.num_ranks, self.num_suits, self.suit_isomorphism)

    @property
    def hides_actions(self) -> bool:
        """True with `action_mapping`: the other player and the public only see an action's effect."""
        return self.action_mapping

    def by_hands(self) -> HandsGame:
        """The game in hand form; a hand is a card, or a rank with `suit_isomorphism`."""
        if self.action_mapping:
            raise ValueError(
                f"{self.name}: action_mapping=True has no hand form, because a player's pointless actions "
                "are private; leave action_mapping out"
            )
        return leduc_by_hands(self)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string, extended to larger decks and more raises."""
        betting = self.betting

        def shown(action: int, state: BettingState) -> str:
            return str(betting.played(action, state))

        return infostate_text(player, history, replay(betting, history, shown), _MONEY)

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's action string."""
        return ("Fold", "Call", "Raise")[action]


class Replay(NamedTuple):
    """The betting after a history that includes both private deals.

    Attributes:
      state: the state of the betting.
      card: text of the public card, empty before it is dealt.
      shown: the actions of both rounds, as in infostate strings.
    """

    state: BettingState
    card: str
    shown: tuple[list[str], list[str]]


def replay(
    betting: BettingRules, history: Sequence[Move], show: Callable[[int, BettingState], str]
) -> Replay:
    """Replays the betting of a history; `show` returns the text of an action in a state."""
    moves = cast(Sequence[int], history)  # no simultaneous moves
    state, card = betting.start(), ""
    shown: tuple[list[str], list[str]] = ([], [])
    for move in moves[2:]:
        if state.round_is_over and not card:
            state, card = betting.second_round(state), f"[Public: {move}]"
            continue
        shown[1 if card else 0].append(show(move, state))
        state = betting.after(move, state, bool(card))
    return Replay(state, card, shown)


def infostate_text(player: int, history: Sequence[Move], play: Replay, stack: int) -> str:
    """OpenSpiel's infostate string of Leduc poker; `stack` is a player's chips before the antes."""
    state, card, (first, second) = play
    return (
        f"[Observer: {player}][Private: {history[player]}][Round {2 if card else 1}]"
        f"[Player: {state.mover}][Pot: {sum(state.paid)}]"
        f"[Money: {stack - state.paid[0]} {stack - state.paid[1]}]{card}"
        f"[Round1: {' '.join(first)}][Round2: {' '.join(second)}]"
    )


def check_deck(game: str, num_ranks: int, num_suits: int) -> None:
    """Raises ValueError unless the deck has at least three cards."""
    if not 3 <= num_ranks * num_suits <= MAX_ACTIONS:
        raise ValueError(
            f"{game}: num_ranks={num_ranks} and num_suits={num_suits} make {num_ranks * num_suits} cards: "
            f"expected at least 3, two private ones and a public one, and at most {MAX_ACTIONS}; change one "
            "of the two"
        )


def _parse_raises(raise_sizes: object) -> tuple[int, int]:
    if not isinstance(raise_sizes, str) or not re.fullmatch(r"[1-9][0-9]{0,8}-[1-9][0-9]{0,8}", raise_sizes):
        raise ValueError(
            f"leduc_poker: raise_sizes={raise_sizes!r}: expected two positive integers of at most 9 digits "
            "separated by a dash, the chips of a raise in the first and in the second round; write "
            '"2-4", for example'
        )
    first, second = raise_sizes.split("-")
    return int(first), int(second)
