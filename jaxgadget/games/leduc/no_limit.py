"""No-limit Leduc poker: one private card each, one public card, bets as fractions of the pot.

The betting is that of OpenSpiel's `universal_poker(betting=nolimit, …)` with two rounds and one hole card,
including minimum raises. With the bets `1-a` the game equals `bettingAbstraction=fcpa`, except that a
pot-sized bet of the whole stack is named all-in here.
"""

from __future__ import annotations

import dataclasses
import fractions
import functools
from collections.abc import Sequence
from typing import ClassVar

from jaxgadget.games.game import Move
from jaxgadget.games.leduc.betting import ANTE, CALL, FOLD, RAISE, BettingState
from jaxgadget.games.leduc.machine import Deck, LeducMachine
from jaxgadget.games.leduc.rules import MAX_RAISES, Replay, check_deck, infostate_text, replay
from jaxgadget.games.parameters import (
    ALL_IN,
    MAX_ACTIONS,
    canonical_name,
    check_choice,
    check_flag,
    check_integer,
    read_bets,
)

_LARGEST_STACK = 10**9


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoLimitLeduc(LeducMachine):
    """No-limit Leduc poker; actions are 0 fold, 1 call (or check), then the bets, ascending.

    A card is `rank · num_suits + suit`. The card that pairs the public card wins, otherwise the higher rank;
    equal ranks split the pot. Both players ante 1 chip. A bet is a fraction of the pot after calling, rounded
    to whole chips (half to even). It is legal if it is at least the minimum raise and at most the stack;
    all-in may be less than the minimum raise. If several bets round to the same number of chips, only the
    nearest is legal, or all-in if it is among them. After a called all-in there is no second betting round.

    Attributes:
      stack: chips of each player, the ante included.
      bets: fractions of the pot, and `a` for all-in, separated by dashes: "1/2-1-2-a".
      max_raises: maximum number of bets and raises in a round, by both players together; at most 100.
      min_raise: `poker`, as in OpenSpiel: a raise is at least as large as the last one of the round, and at
        least one chip; or `chip`: at least one chip.
      num_ranks: ranks in the deck.
      num_suits: cards of each rank.
      suit_isomorphism: suits are merged; chance deals ranks.
      starting_player: the player that begins both betting rounds.
    """

    short_name: ClassVar[str] = "no_limit_leduc"

    stack: int = 13
    bets: str = "1-a"
    max_raises: int = 3
    min_raise: str = "poker"
    num_ranks: int = 3
    num_suits: int = 2
    suit_isomorphism: bool = False
    starting_player: int = 0

    def __post_init__(self) -> None:
        check_integer(self.short_name, "stack", self.stack, ANTE + 1, _LARGEST_STACK)
        sizes, has_all_in = read_bets(self.short_name, self.bets)
        object.__setattr__(self, "bets", "-".join([*map(str, sizes), *[ALL_IN] * has_all_in]))
        check_integer(self.short_name, "max_raises", self.max_raises, 1, MAX_RAISES)
        check_choice(self.short_name, "min_raise", self.min_raise, ("poker", "chip"))
        check_integer(self.short_name, "num_ranks", self.num_ranks, 1, MAX_ACTIONS)
        check_integer(self.short_name, "num_suits", self.num_suits, 1, MAX_ACTIONS)
        check_deck(self.short_name, self.num_ranks, self.num_suits)
        check_flag(self.short_name, "suit_isomorphism", self.suit_isomorphism)
        check_integer(self.short_name, "starting_player", self.starting_player, 0, 1)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def num_actions(self) -> int:
        """Fold, call, and the bets."""
        return RAISE + len(self.bets.split("-"))

    @functools.cached_property
    def betting(self) -> NoLimitBetting:
        """The rules of the betting."""
        sizes, has_all_in = read_bets(self.short_name, self.bets)
        return NoLimitBetting(
            starting_player=self.starting_player,
            stack=self.stack,
            sizes=sizes,
            has_all_in=has_all_in,
            max_raises=self.max_raises,
            raises_grow=self.min_raise == "poker",
        )

    @functools.cached_property
    def deck(self) -> Deck:
        """The cards."""
        return Deck.of(self.num_ranks, self.num_suits, self.suit_isomorphism)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """Leduc poker's string with actions f, c and the bets; equal in games with other bets."""
        return infostate_text(player, history, self._replay(history), self.stack)

    def action_string(self, player: int, action: int) -> str:
        """`Fold`, `Call`, `Bet 1/2`, `AllIn`; equal in games with other bets."""
        if action < RAISE:
            return ("Fold", "Call")[action]
        token = self._token(action)
        return "AllIn" if token == ALL_IN else f"Bet {token}"

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """Chips of a legal bet divided by the pot after calling, 0 for a call; None for a fold."""
        state = self._replay(history).state
        return None if action == FOLD else self.betting.raise_of(action, state) / (2 * max(state.paid))

    def _token(self, action: int) -> str:
        return ("f", "c", *self.bets.split("-"))[action]

    def _replay(self, history: Sequence[Move]) -> Replay:
        return replay(self.betting, history, lambda action, state: self._token(action))


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoLimitBetting:
    """The rules of the betting; parameters as in `NoLimitLeduc`.

    Attributes:
      starting_player: the player that begins both rounds.
      stack: chips of each player, the ante included.
      sizes: bets as fractions of the pot after calling, ascending.
      has_all_in: True if all-in is the last action.
      max_raises: maximum number of bets and raises in a round, by both players together.
      raises_grow: True if a raise is at least as large as the last one of the round.
    """

    starting_player: int
    stack: int
    sizes: tuple[fractions.Fraction, ...]
    has_all_in: bool
    max_raises: int
    raises_grow: bool

    def start(self) -> BettingState:
        """Only the antes are in the pot."""
        return BettingState(self.starting_player)

    def second_round(self, state: BettingState) -> BettingState:
        """The state after the public card; an all-in player counts as having checked."""
        is_all_in = min(state.paid) == self.stack
        return BettingState(self.starting_player, state.paid, calls=2 if is_all_in else 0)

    def legal_actions(self, state: BettingState) -> tuple[int, ...]:
        """Legal actions, as described in `NoLimitLeduc`; no fold unless facing a bet."""
        can_fold = (FOLD,) if state.is_pressed else ()
        return (*can_fold, CALL, *self._raises(state))

    def played(self, action: int, state: BettingState) -> int:
        """The action itself."""
        return action

    def after(self, action: int, state: BettingState, is_second: bool) -> BettingState:
        """The state after a legal action."""
        return state.after(min(action, RAISE), self.raise_of(action, state))

    def raise_of(self, action: int, state: BettingState) -> int:
        """Number of chips of a raise; 0 for a fold or a call."""
        stakes = max(state.paid)
        if action < RAISE:
            return 0
        return (
            self.stack - stakes if self._is_all_in(action) else round(self.sizes[action - RAISE] * 2 * stakes)
        )

    def _is_all_in(self, action: int) -> bool:
        return action - RAISE == len(self.sizes)

    def _raises(self, state: BettingState) -> list[int]:
        """The legal bets, ascending."""
        stakes = max(state.paid)
        if state.raises == self.max_raises or stakes == self.stack:
            return []
        least = max(ANTE, state.last_raise) if self.raises_grow else ANTE
        nearest: dict[int, tuple[fractions.Fraction, int]] = {}  # chips → (distance, action)
        for action, size in enumerate(self.sizes, RAISE):
            chips = self.raise_of(action, state)
            if least <= chips <= self.stack - stakes:
                off = abs(size * 2 * stakes - chips)
                nearest[chips] = min((off, action), nearest.get(chips, (off, action)))
        if self.has_all_in:
            nearest[self.stack - stakes] = fractions.Fraction(0), RAISE + len(self.sizes)
        return sorted(action for _, action in nearest.values())
