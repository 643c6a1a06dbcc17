"""Parts of a forest: some of its subgames by themselves, where all of them do not fit."""

from __future__ import annotations

import numpy as np

from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.util.arrays import IntArray


def take_part(forest: Forest, subgames: IntArray) -> Forest:
    """The forest of some subgames alone; they are numbered in ascending order."""
    if len(subgames) == forest.num_subgames:
        return forest
    return build_forest(forest.tree, forest.cover.take(subgames), padded=forest.padded)


def root_numbers(part: Forest, whole: Forest, subgames: IntArray, player: int) -> IntArray:
    """`[R]` which root infostates of the whole forest are those of a part.

    Args:
      part: some of the subgames.
      whole: all of them.
      subgames: numbers of the part's in the whole forest, ascending.
      player: whose roots.
    """
    ours, theirs = part.roots[player], whole.roots[player]
    number = {
        pair: row
        for row, pair in enumerate(zip(theirs.subgame.tolist(), theirs.infostate.tolist(), strict=True))
    }
    pairs = zip(subgames[ours.subgame].tolist(), ours.infostate.tolist(), strict=True)
    return np.array([number[pair] for pair in pairs], np.int64)
