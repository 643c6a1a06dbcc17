"""The betting of a hand of Leduc poker: whose turn it is, what may be done, what that does."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple, Protocol

FOLD, CALL, RAISE = 0, 1, 2
ANTE = 1


class BettingState(NamedTuple):
    """The betting so far.

    Attributes:
      mover: whose turn it is.
      paid: chips of both players in the pot.
      raises: raises in this round.
      calls: calls and checks since the last raise, or in this round.
      last_raise: chips of the last raise in this round, 0 before the first.
    """

    mover: int
    paid: tuple[int, int] = (ANTE, ANTE)
    raises: int = 0
    calls: int = 0
    last_raise: int = 0

    @property
    def is_pressed(self) -> bool:
        """Whether there is a raise to answer."""
        return self.paid[self.mover] < self.paid[1 - self.mover]

    @property
    def round_is_over(self) -> bool:
        """Whether everyone answered, nobody having folded."""
        return self.calls == (1 if self.raises else 2)

    def after(self, played: int, raise_size: int) -> BettingState:
        """The state after a sensible action; a fold leaves the chips as they are."""
        mover, paid, raises, calls, last_raise = self
        stakes = max(paid)
        puts = (paid[mover], stakes, stakes + raise_size)[played]
        paid = (puts, paid[1]) if mover == 0 else (paid[0], puts)
        if played == RAISE:
            return BettingState(1 - mover, paid, raises + 1, 0, raise_size)
        return BettingState(1 - mover, paid, raises, calls + 1, last_raise)


class BettingRules(Protocol):
    """What the levels of a game ask of its betting."""

    def start(self) -> BettingState:
        """Only the antes are in the pot."""
        ...

    def second_round(self, state: BettingState) -> BettingState:
        """The state after the public card; its round is over already if nobody has chips to bet."""
        ...

    def legal_actions(self, state: BettingState) -> tuple[int, ...]:
        """What the game offers, ascending."""
        ...

    def played(self, action: int, state: BettingState) -> int:
        """What everybody sees that an action counts as."""
        ...

    def after(self, action: int, state: BettingState, is_second: bool) -> BettingState:
        """The state after a legal action in the first or the second round."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Betting:
    """The rules of the betting; parameters as in `leduc.LeducPoker`.

    Attributes:
      starting_player: who begins both rounds.
      raise_sizes: chips of a raise in the first and in the second round.
      max_raises: raises in a round, of both players together.
      action_mapping: all actions are legal, and a pointless one is played as a call.
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
        """What may be done: no fold without a raise to answer, and at most `max_raises` raises."""
        can_fold = (FOLD,) if state.is_pressed else ()
        can_raise = (RAISE,) if state.raises < self.max_raises else ()
        return (*can_fold, CALL, *can_raise)

    def legal_actions(self, state: BettingState) -> tuple[int, ...]:
        """What the game offers."""
        return (FOLD, CALL, RAISE) if self.action_mapping else self.sensible(state)

    def played(self, action: int, state: BettingState) -> int:
        """What an action counts as: with `action_mapping` a pointless one is a call."""
        return CALL if self.action_mapping and action not in self.sensible(state) else action

    def after(self, action: int, state: BettingState, is_second: bool) -> BettingState:
        """The state after a legal action in the first or the second round."""
        return state.after(self.played(action, state), self.raise_sizes[is_second])
