"""A game that stands for another one: what it does not say otherwise is as there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxgadget.games.game import CutRule, Game, Move, bet_fraction


class WrappedGame:
    """All of the `Game` protocol but `levels`, and `BetSizes`, as another game answers.

    Attributes:
      game: the other game.
      name: the canonical string of this one.
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
        """The game's, which say where roots are; players may know less there."""
        return self.game.cuts()

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """As in the game."""
        return bet_fraction(self.game, history, action)
