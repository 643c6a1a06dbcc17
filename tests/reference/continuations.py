"""The value of every history under every pair of continuation strategies, from the definition.

A portfolio is a list of strategies per player. If player 0 continues with its entry k and player 1 with its
entry l, the value of a history is the expected payoff of play from there: a recursion over its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference import efg
from tests.reference.efg import Array, Chance, Decision, Game, Node, Past, Strategy, Terminal


def continuation_values(game: Game, entries: tuple[Sequence[Strategy], Sequence[Strategy]]) -> Array:
    """`[histories, K_0, K_1]` player 0's expected payoff from each history, under each pair of entries."""
    values = np.empty((len(game.nodes), len(entries[0]), len(entries[1])))
    for i, first in enumerate(entries[0]):
        for j, second in enumerate(entries[1]):
            worth: dict[Node, float] = {}
            _visit(game.root, (first, second), worth)
            values[:, i, j] = [worth[node] for node in game.nodes]
    return values


def _visit(node: Node, strategies: tuple[Strategy, Strategy], worth: dict[Node, float]) -> float:
    """The expected payoff of player 0 from a node; stores that of every node below."""
    if isinstance(node, Terminal):
        worth[node] = node.payoff
    elif isinstance(node, Past):
        raise ValueError("a whole game has no past")
    else:
        below = [_visit(child, strategies, worth) for child in node.children]
        if isinstance(node, Chance):
            weights = list(node.weights)
        else:
            assert isinstance(node, Decision)
            weights = strategies[node.player][node.infoset].tolist()
        worth[node] = sum(weight * value for weight, value in zip(weights, below, strict=True))
    return worth[node]


def limited_values(
    game: Game, roots: Sequence[int], leaves: Mapping[int, Array], strategy: Strategy
) -> Array:
    """`[roots, …]` player 0's expected payoff from histories, where play ends at leaves.

    Args:
      game: the whole game.
      roots: histories where play begins.
      leaves: value of each leaf history, all of one shape.
      strategy: both players', before the leaves.
    """
    ends = {game.nodes[history]: value for history, value in leaves.items()}
    nothing = np.zeros(np.shape(next(iter(leaves.values()))))

    def visit(node: Node) -> Array:
        if node in ends:
            return ends[node]
        if isinstance(node, Terminal):
            return nothing + node.payoff
        assert isinstance(node, Chance | Decision)
        weights = node.weights if isinstance(node, Chance) else strategy[node.infoset].tolist()
        return sum((w * visit(child) for w, child in zip(weights, node.children, strict=True)), nothing)

    return np.stack([visit(game.nodes[history]) for history in roots])


def mixed(root: Node, player: int, entries: Sequence[Strategy], weights: Sequence[float]) -> Strategy:
    """The player's strategy that draws an entry before play and follows it.

    At an infoset an entry's row counts by its weight times the player's own reach with it (Kuhn's theorem);
    if all reaches are 0, rows count by their weights alone.
    """
    reaches = [efg.own_reaches(root, player, entry) for entry in entries]
    rows: dict[efg.Label, Array] = {}
    for label in efg.infosets_of(root, player):
        reach = np.array([weight * own[label] for weight, own in zip(weights, reaches, strict=True)])
        reach = reach if reach.sum() > 0 else np.array(weights)
        rows[label] = sum(
            (part * entry[label] for part, entry in zip(reach / reach.sum(), entries, strict=True)),
            np.zeros(len(entries[0][label])),
        )
    return rows
