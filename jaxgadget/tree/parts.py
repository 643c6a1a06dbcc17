"""Parts of a forest: subsets of its subgames, for forests that do not fit in memory."""

from __future__ import annotations

from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.util.arrays import IntArray


def take_part(forest: Forest, subgames: IntArray) -> Forest:
    """The forest of the given subgames only, which are numbered in ascending order."""
    if len(subgames) == forest.num_subgames:
        return forest
    return build_forest(forest.tree, forest.cover.take(subgames), padded=forest.padded)


def root_numbers(part: Forest, whole: Forest, subgames: IntArray, player: int) -> IntArray:
    """`[R]` index in the whole forest of each root infostate of a part.

    Args:
      part: forest of some of the subgames.
      whole: forest of all subgames.
      subgames: the part's subgames in the whole forest, ascending.
      player: the player of the roots.
    """
    roots = part.roots[player]
    return whole.find_root(player, roots.infostate, subgames[roots.subgame])
