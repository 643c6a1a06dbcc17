"""A game restricted to a subset of its histories, for subgames with fewer histories than their game."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from jaxgadget.games.game import Budget, Game, HistoryLevel
from jaxgadget.games.wrapped import WrappedGame
from jaxgadget.util.arrays import BoolArray


class PrunedGame(WrappedGame):
    """A game without some of its histories and their descendants; ids and names are unchanged.

    Attributes:
      game: the whole game.
      mask: `[n]` histories to keep, in the order of its tree; a kept non-terminal history keeps a child.
      name: the game's name and a description of the restriction.
    """

    def __init__(self, game: Game, mask: BoolArray, description: str):
        self.game, self.mask = game, mask
        self.name = f"{game.name} {description}"

    def levels(self, budget: Budget) -> Generator[HistoryLevel, BoolArray | None, None]:
        """Yields the game's levels, restricted to the mask; ignores requests not to expand histories."""
        begin, new_row, inside = 0, np.zeros(1, np.int64), np.ones(1, np.bool_)
        for level in self.game.levels(budget):
            end = begin + len(level.parent)
            inside = inside[level.parent] & self.mask[begin:end]
            if not inside.any():
                return
            budget.release(int(np.count_nonzero(~inside)))
            yield level.take(inside, new_row)
            begin, new_row = end, np.cumsum(inside) - 1
