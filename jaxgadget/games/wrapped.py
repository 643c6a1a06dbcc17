"""Base class of games that wrap another game and delegate to it by default."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from jaxgadget.games.game import Budget, CutRule, Game, HistoryLevel, Move, bet_fraction
from jaxgadget.games.machine import Array, State, StateMachine
from jaxgadget.util.arrays import BoolArray


class WrappedGame:
    """Delegates `BetSizes` and the `Game` protocol, except `levels`, to another game.

    Attributes:
      game: the wrapped game.
      name: the canonical string of the wrapper.
    """

    game: Game
    name: str

    @property
    def num_actions(self) -> int:
        """Number of distinct actions of the wrapped game."""
        return self.game.num_actions

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """Name of an infostate in the wrapped game."""
        return self.game.infostate_string(player, history)

    def action_string(self, player: int, action: int) -> str:
        """Name of an action in the wrapped game."""
        return self.game.action_string(player, action)

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts of the wrapped game, with the same roots; players' information may be coarser."""
        return self.game.cuts()

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """Size of a bet in the wrapped game."""
        return bet_fraction(self.game, history, action)


class WrappedMachine(StateMachine[State]):
    """Delegates to another state machine; the base class of state machines that change some of its methods.

    Attributes:
      game: the wrapped state machine.
    """

    def __init__(self, game: StateMachine[Any]):
        self.game = game
        self.publics_first = game.publics_first  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def name(self) -> str:
        """The canonical string of the wrapped state machine."""
        return self.game.name

    @property
    def num_actions(self) -> int:
        """Number of distinct player actions."""
        return self.game.num_actions

    @property
    def num_outcomes(self) -> int:
        """Number of distinct chance outcomes."""
        return self.game.num_outcomes

    @property
    def max_moves(self) -> int:
        """Maximum length of a history."""
        return self.game.max_moves

    def start(self, n: int, xp: Any) -> State:
        """The initial state, n times."""
        return self.game.start(n, xp)

    def actor(self, state: State) -> Array:
        """Acting players."""
        return self.game.actor(state)

    def legal(self, state: State, player: int) -> Array:
        """Mask of the player's legal actions."""
        return self.game.legal(state, player)

    def chance(self, state: State) -> Array:
        """Probabilities of chance outcomes."""
        return self.game.chance(state)

    def step(self, state: State, moves: Array) -> tuple[State, Array]:
        """The states after moves, and observations."""
        return self.game.step(state, moves)

    def returns(self, state: State) -> Array:
        """Both players' returns."""
        return self.game.returns(state)

    def features(self, state: State, player: int) -> Array:
        """Features of a player's infostate."""
        return self.game.features(state, player)

    def levels(self, budget: Budget) -> Generator[HistoryLevel, BoolArray | None, None]:
        """Yields the state machine's levels."""
        return self.game.levels(budget)

    def action_string(self, player: int, action: int) -> str:
        """Name of a player's action."""
        return self.game.action_string(player, action)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """Name of an infostate."""
        return self.game.infostate_string(player, history)

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts."""
        return self.game.cuts()

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """Size of a bet, if the state machine defines it."""
        return bet_fraction(self.game, history, action)
