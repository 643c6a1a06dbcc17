"""Depth cuts and common-knowledge components, from the definitions (design §2)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.efg import Chance, Decision, Game


def num_moves(game: Game, history: int) -> int:
    """Moves of the players before a history: a simultaneous move is one, chance none."""
    count = 0
    while history:
        history = game.parent[history]
        count += not isinstance(game.nodes[history], Chance)
    return count


def depth_roots(game: Game, depth: int) -> list[int]:
    """`depth:D`: the first player decisions after D moves, past any chance."""
    return [
        h for h, node in enumerate(game.nodes) if isinstance(node, Decision) and num_moves(game, h) == depth
    ]


def components(game: Game, roots: Sequence[int]) -> list[list[int]]:
    """Subgames: roots connected by shared infostates of either player, by first root."""
    left = list(roots)
    found: list[list[int]] = []
    while left:
        inside = [left.pop(0)]
        for h in inside:  # grows while it is read
            near = [k for k in left if any(states[h] == states[k] for states in game.infostate)]
            left = [k for k in left if k not in near]
            inside.extend(near)
        found.append(sorted(inside))
    return found
