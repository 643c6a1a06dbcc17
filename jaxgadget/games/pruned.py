"""A game of which some histories are left out, as a subgame that is solved may have fewer than its game."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import numpy as np

from jaxgadget.games.game import Budget, CutRule, Game, HistoryLevel, Move, bet_fraction
from jaxgadget.util.arrays import BoolArray


class PrunedGame:
    """A game less some of its histories and all that follows them; ids and names of what is left stay.

    Attributes:
      game: the whole game.
      kept: `[n]` which of its histories stay, in the order of its tree; one that goes on keeps a child.
      name: the game's, and what was left out.
    """

    def __init__(self, game: Game, kept: BoolArray, what: str):
        self.game, self.kept = game, kept
        self.name = f"{game.name} {what}"

    @property
    def num_actions(self) -> int:
        """As in the game."""
        return self.game.num_actions

    def levels(self, budget: Budget) -> Generator[HistoryLevel, BoolArray | None, None]:
        """Yields the game's levels without what is left out; what is asked not to be expanded is."""
        begin, new_row, inside = 0, np.zeros(1, np.int64), np.ones(1, np.bool_)
        for level in self.game.levels(budget):
            end = begin + len(level.parent)
            inside = inside[level.parent] & self.kept[begin:end]
            if not inside.any():
                return
            budget.release(int(np.count_nonzero(~inside)))
            yield level.take(inside, new_row)
            begin, new_row = end, np.cumsum(inside) - 1

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """As in the game."""
        return self.game.infostate_string(player, history)

    def action_string(self, player: int, action: int) -> str:
        """As in the game."""
        return self.game.action_string(player, action)

    def cuts(self) -> Mapping[str, CutRule]:
        """The game's."""
        return self.game.cuts()

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """As in the game."""
        return bet_fraction(self.game, history, action)
