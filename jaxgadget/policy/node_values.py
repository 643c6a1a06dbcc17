"""Counterfactual values of strategies at nodes of a tree with every hand, in float64.

They are computed for a node and all nodes below it, so that large trees can be evaluated part by part. In
history form every node has a single hand.
"""

from __future__ import annotations

import itertools

import numpy as np

from jaxgadget.core.payoff import multiply
from jaxgadget.tree.public import Tree
from jaxgadget.util.arrays import FloatArray, IntArray


def nodes_below(tree: Tree, top: int) -> IntArray:
    """A node and all nodes below it, ascending."""
    inside = np.zeros(len(tree.parent), np.bool_)
    inside[top] = True
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        inside[begin:end] |= inside[tree.parent[begin:end]]
    return np.flatnonzero(inside)


def reach_below(tree: Tree, nodes: IntArray, chosen: FloatArray, at_top: FloatArray) -> FloatArray:
    """A player's reach, from its reach of the first node.

    Args:
      tree: the tree.
      nodes: `[m]` nodes, from `nodes_below`.
      chosen: `[m, H, L]` probability of the player's action at the parent, 1 where it did not act.
      at_top: `[H, L]` reach of the first node.

    Returns:
      `[m, H, L]` product of the player's probabilities on the path to each node.
    """
    reach = np.empty_like(chosen)
    reach[0] = at_top
    for level, parent in _levels(tree, nodes):
        reach[level] = reach[parent] * chosen[level]
    return reach


def counterfactual_values(
    tree: Tree, player: int, nodes: IntArray, other: FloatArray, chosen: FloatArray
) -> FloatArray:
    """Values of nodes weighted by the reach of chance and of the other player, in the player's utility.

    Args:
      tree: the tree.
      player: 0 or 1.
      nodes: `[m]` nodes, from `nodes_below`.
      other: `[m, H_other, L]` the other player's reach.
      chosen: `[m, H, L]` probability of the player's action at the parent, 1 where it did not act.

    Returns:
      `[m, H, L]`.
    """
    lanes, values = other.shape[-1], np.zeros(chosen.shape)
    is_end = np.isin(nodes, tree.terminals, assume_unique=True)
    ends = nodes[is_end]
    if len(ends):
        rows = np.arange(len(ends))
        num_rows = len(ends) * tree.num_hands[0], len(ends) * tree.num_hands[1]
        entries = tree.payoff_entries(ends, (rows, rows), num_rows, player)
        earned = multiply(entries, player, other[is_end].reshape(-1, lanes))
        values[is_end] = earned.reshape(len(ends), -1, lanes)
    for level, parent in reversed([*_levels(tree, nodes)]):
        starts = np.flatnonzero(np.diff(parent, prepend=-1))
        values[parent[starts]] += np.add.reduceat(chosen[level] * values[level], starts, axis=0)
    return values


def _levels(tree: Tree, nodes: IntArray) -> list[tuple[slice, IntArray]]:
    """The levels below the first node, top-down: rows of `nodes`, and the row of each one's parent."""
    rows = np.searchsorted(nodes, tree.level_offset)
    parent = np.searchsorted(nodes, tree.parent[nodes])
    return [
        (slice(begin, end), parent[begin:end])
        for begin, end in itertools.pairwise(np.maximum(rows, 1).tolist())
        if end > begin
    ]
