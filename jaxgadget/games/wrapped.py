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
        """As in the game."""
        return self.game.num_actions

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """As in the game."""
        return self.game.infostate_string(player, history)

    def action_string(self, player: int, action: int) -> str:
        """As in the game."""
        return self.game.action_string(player, action)

    def cuts(self) -> Mapping[str, CutRule]:
        """The game's cuts; their roots are the same, players' information there may be coarser."""
        return self.game.cuts()

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """As in the game."""
        return bet_fraction(self.game, history, action)
