"""A game of any number of players, one state at a time.

`team` (`team.py`) makes a two-player game of it, which is what can be solved. Seats are the players' numbers.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from jaxgadget.games.game import CutRule

State = TypeVar("State")

CHANCE_SEAT = -1
"""Who acts where chance does; `game.CHANCE` is a bit, which a fifth player's number would equal."""


class MultiplayerStep(NamedTuple, Generic[State]):
    """What one move does.

    Attributes:
      state: the state after the move.
      rewards: what each seat gets for this move, one number each; `()` is nothing for all. Rewards add up
        along a history, and within a team.
      public: what all seats see, any hashable value; None is nothing.
      private: what each seat alone sees, in the same way; `()` is nothing for all. A seat always knows its
        own actions, those of others only if an observation says so.
    """

    state: State
    rewards: Sequence[float] = ()
    public: Hashable = None
    private: Sequence[Hashable] = ()


class MultiplayerRules(abc.ABC, Generic[State]):
    """A game of two or more players, one state at a time. Subclass it, and call `team`.

    As `stepwise.Rules`, with seats `0 … num_players - 1`. A state is any immutable value. `name` is the
    game's name, and `actions` are the names of the players' actions: action `a` is `actions[a]`.
    """

    name: str
    actions: Sequence[str]
    num_players: int

    @abc.abstractmethod
    def initial_state(self) -> State:
        """The state before the first move."""

    @abc.abstractmethod
    def actors(self, state: State) -> Collection[int]:
        """The seats that move, several if they move at once; `(CHANCE_SEAT,)`, or `()` at the end."""

    @abc.abstractmethod
    def legal_actions(self, state: State, seat: int) -> Sequence[int]:
        """The seat's legal actions where it acts, in any order."""

    @abc.abstractmethod
    def step(self, state: State, move: Any) -> MultiplayerStep[State]:
        """Makes a move: an action, a chance outcome, or if several act their actions by ascending seat."""

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        """`(outcome, probability)` pairs where chance acts; outcomes are integers >= 0."""
        raise NotImplementedError(f"{self.name}: chance acts, so write chance_outcomes() too")

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts of the two-player game that `team` makes, by default none."""
        return {}
