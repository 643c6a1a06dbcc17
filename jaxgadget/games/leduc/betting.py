"""Betting rounds of Leduc poker: player to move, legal actions and their effects."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

FOLD, CALL, RAISE = 0, 1, 2
ANTE = 1


class BettingState(NamedTuple):
    """State of the betting.

    Attributes:
      mover: the player to move.
      paid: chips of both players in the pot.
      raises: number of raises in this round.
      calls: number of calls and checks since the last raise, or in this round.
      last_raise: chips of the last raise in this round, 0 before the first.
    """

    mover: int
    paid: tuple[int, int] = (ANTE, ANTE)
    raises: int = 0
    calls: int = 0
    last_raise: int = 0

    @property
    def is_pressed(self) -> bool:
        """True if the player to move faces a raise."""
        return self.paid[self.mover] < self.paid[1 - self.mover]

    @property
    def round_is_over(self) -> bool:
        """True if both players have acted on the last raise without a fold."""
        return self.calls == (1 if self.raises else 2)

    def after(self, played: int, raise_size: int) -> BettingState:
        """The state after a sensible action; a fold does not change the chips."""
        mover, paid, raises, calls, last_raise = self
        stakes = max(paid)
        puts = (paid[mover], stakes, stakes + raise_size)[played]
        paid = (puts, paid[1]) if mover == 0 else (paid[0], puts)
        if played == RAISE:
            return BettingState(1 - mover, paid, raises + 1, 0, raise_size)
        return BettingState(1 - mover, paid, raises, calls + 1, last_raise)


class BettingRules(Protocol):
    """Betting rules as used by `leduc_levels`."""

    def start(self) -> BettingState:
        """Only the antes are in the pot."""
        ...

    def second_round(self, state: BettingState) -> BettingState:
        """The state after the public card; the round is already over if a player is all-in."""
        ...

    def legal_actions(self, state: BettingState) -> tuple[int, ...]:
        """Legal actions, ascending."""
        ...

    def played(self, action: int, state: BettingState) -> int:
        """The public effect of an action, as an action."""
        ...

    def after(self, action: int, state: BettingState, is_second: bool) -> BettingState:
        """The state after a legal action in the first or the second round."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Betting:
    """The rules of the betting; parameters as in `leduc.LeducPoker`.

    Attributes:
      starting_player: the player that begins both rounds.
      raise_sizes: chips of a raise in the first and in the second round.
      max_raises: maximum number of raises in a round, by both players together.
      action_mapping: all actions are legal; a pointless fold or raise is played as a call.
    """

    starting_player: int
    raise_sizes: tuple[int, int]
    max_raises: int
    action_mapping: bool

    def start(self) -> BettingState:
        """Only the antes are in the pot."""
        return BettingState(self.starting_player)

    def second_round(self, state: BettingState) -> BettingState:
        """The state after the public card."""
        return BettingState(self.starting_player, state.paid)

    def sensible(self, state: BettingState) -> tuple[int, ...]:
        """Actions with an effect: no fold unless facing a raise, and at most `max_raises` raises."""
        can_fold = (FOLD,) if state.is_pressed else ()
        can_raise = (RAISE,) if state.raises < self.max_raises else ()
        return (*can_fold, CALL, *can_raise)

    def legal_actions(self, state: BettingState) -> tuple[int, ...]:
        """Legal actions, ascending."""
        return (FOLD, CALL, RAISE) if self.action_mapping else self.sensible(state)

    def played(self, action: int, state: BettingState) -> int:
        """The action's effect: a call for a pointless action with `action_mapping`."""
        return CALL if self.action_mapping and action not in self.sensible(state) else action

    def after(self, action: int, state: BettingState, is_second: bool) -> BettingState:
        """The state after a legal action in the first or the second round."""
        return state.after(self.played(action, state), self.raise_sizes[is_second])
