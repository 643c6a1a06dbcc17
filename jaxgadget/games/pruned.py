"""A game of which some histories are left out, as a subgame that is solved may have fewer than its game."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from jaxgadget.games.game import Budget, Game, HistoryLevel
from jaxgadget.games.wrapped import WrappedGame
from jaxgadget.util.arrays import BoolArray


class PrunedGame(WrappedGame):
    """A game less some of its histories and all that follows them; ids and names of what is left stay.

    Attributes:
      game: the whole game.
      kept: `[n]` which of its histories stay, in the order of its tree; one that goes on keeps a child.
      name: the game's, and what was left out.
    """

    def __init__(self, game: Game, kept: BoolArray, what: str):
        self.game, self.kept = game, kept
        self.name = f"{game.name} {what}"

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
