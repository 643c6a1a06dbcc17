"""Games of any number of players, defined one state at a time.

`team` (`team.py`) converts such a game to a two-player game, which can be solved. Seats are player indices.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from jaxgadget.games.game import CutRule

State = TypeVar("State")

CHANCE_SEAT = -1
"""Actor at chance nodes; not `game.CHANCE`, a bit mask that could also be a seat."""


class MultiplayerStep(NamedTuple, Generic[State]):
    """Result of one move.

    Attributes:
      state: the state after the move.
      rewards: reward of each seat for this move; `()` is 0 for all. Rewards add up
        along a history, and within a team.
      public: public observation, any hashable value; None for none.
      private: private observation of each seat, in the same form; `()` is none for all. A seat always knows
        its own actions, but those of others only through observations.
    """

    state: State
    rewards: Sequence[float] = ()
    public: Hashable = None
    private: Sequence[Hashable] = ()


class MultiplayerRules(abc.ABC, Generic[State]):
    """Base class of games of two or more players, defined one state at a time; use it with `team`.

    The analogue of `stepwise.Rules` for seats `0 … num_players - 1`. A state is any immutable value. `name`
    is the game's name, and `actions` are the names of the players' actions: action `a` is `actions[a]`.
    """

    name: str
    actions: Sequence[str]
    num_players: int

    @abc.abstractmethod
    def initial_state(self) -> State:
        """The state before the first move."""

    @abc.abstractmethod
    def actors(self, state: State) -> Collection[int]:
        """The seats that move, several if they move simultaneously; `(CHANCE_SEAT,)`, or `()` at the end."""

    @abc.abstractmethod
    def legal_actions(self, state: State, seat: int) -> Sequence[int]:
        """The seat's legal actions where it acts, in any order."""

    @abc.abstractmethod
    def step(self, state: State, move: Any) -> MultiplayerStep[State]:
        """Applies a move: an action, a chance outcome, or simultaneous actions by ascending seat."""

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        """`(outcome, probability)` pairs at a chance node; outcomes are integers >= 0."""
        raise NotImplementedError(f"{self.name} has chance nodes: implement chance_outcomes()")

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts of the two-player game that `team` returns; by default none."""
        return {}
