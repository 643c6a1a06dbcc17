"""Base class of games that wrap another game and delegate to it by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxgadget.games.game import CutRule, Game, Move, bet_fraction


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
