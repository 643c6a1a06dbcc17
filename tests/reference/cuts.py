"""Depth cuts and common-knowledge components, from the definitions (design §2)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference import efg
from tests.reference.efg import Chance, Decision, Game, Label, Node


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
        for h in inside:  # grows during the loop
            near = [k for k in left if any(states[h] == states[k] for states in game.infostate)]
            left = [k for k in left if k not in near]
            inside.extend(near)
        found.append(sorted(inside))
    return found


def crosses(game: Game, parts: Sequence[Sequence[int]]) -> bool:
    """Whether an infoset lies on both sides of a cut, in two subgames, or below two own root infostates."""
    places: dict[Label, set[object]] = {}
    below: set[Node] = set()
    for number, roots in enumerate(parts):
        for h in roots:
            for node in efg.walk(game.nodes[h]):
                below.add(node)
                if isinstance(node, Decision):
                    place = number, game.infostate[node.player][h]
                    places.setdefault(node.infoset, set()).add(place)
    for node in efg.walk(game.root):
        if isinstance(node, Decision) and node not in below:
            places.setdefault(node.infoset, set()).add("above")
    return any(len(where) > 1 for where in places.values())
