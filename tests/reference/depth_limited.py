"""Depth-limited responses as explicit games: two copies of the opponent, one of them locked to a model.

Written from the definitions of Milec, Kubíček and Lisý (2024). Chance draws the copy once, at the root. The
player sees none of it: it has the same infosets against both. The locked copy follows the model down to the
limit and chooses below it, at infosets of its own; the free one chooses everywhere. What the player has
settled in the searches above is a move of chance.
"""

from __future__ import annotations

from typing import Any, Literal

from jaxgadget.games.game import CHANCE, TERMINAL
from tests.reference import efg
from tests.reference.efg import Chance, Decision, Label, Node, Strategy, Terminal

Kind = Literal["own", "moves"]


def level_histories(tree: Any, player: int, kind: Kind, number: int, step: int) -> set[int]:
    """Where a search of level `number` begins, by recursion from the game's root."""
    found: set[int] = set()

    def visit(h: int, moves: int, own: int) -> None:
        actor = int(tree.actor[h])
        if actor == TERMINAL:
            return
        mine = actor != CHANCE and bool(actor & (1 << player))
        if kind == "moves" and (number == 0 or (actor != CHANCE and moves == number * step)):
            found.add(h)
            return
        if kind == "own" and mine and own == number * step:
            found.add(h)
            return
        for child in _children(tree)[h]:
            visit(child, moves + (actor != CHANCE), own + mine)

    visit(0, 0, 0)
    return found


def limit_histories(tree: Any, player: int, kind: Kind, roots: set[int], depth: int) -> set[int]:
    """Where searches at some roots end: decisions `depth` moves down, or own ones at least so far down."""
    found: set[int] = set()

    def visit(h: int, moves: int) -> None:
        actor = int(tree.actor[h])
        if actor == TERMINAL:
            return
        mine = bool(actor & (1 << player))
        if actor != CHANCE and moves >= depth and (kind == "moves" or mine):
            found.add(h)
            return
        for child in _children(tree)[h]:
            visit(child, moves + (actor != CHANCE))

    for root in roots:
        visit(root, 0)
    return found


def step_game(
    tree: Any,
    player: int,
    model: Strategy,
    p: float,
    settled: Strategy,
    roots: set[int],
    limit: set[int],
) -> Node:
    """One step as a game of its own.

    Args:
      tree: the production tree, of which only raw arrays are read.
      player: who searches.
      model: the opponent's rows.
      p: the probability that the opponent is the model's copy.
      settled: the player's rows, which count above the roots.
      roots: histories where this step's searches begin.
      limit: histories where the model is followed no longer.
    """
    game = efg.from_tree(tree)
    number = {node: h for h, node in enumerate(game.nodes)}

    def copy(node: Node, who: str, below_root: bool, below_limit: bool) -> Node:
        if node in number:
            below_root |= number[node] in roots
            below_limit |= number[node] in limit
        if isinstance(node, Terminal):
            return node
        assert isinstance(node, Chance | Decision)
        children = tuple(copy(child, who, below_root, below_limit) for child in node.children)
        if isinstance(node, Chance):
            return Chance(node.weights, children)
        rows: Strategy | None = None
        label: Label = node.infoset
        if node.player == player:
            rows = None if below_root else settled
        elif who == "locked" and not below_limit:
            rows = model
        else:
            label = (who, node.infoset)
        if rows is not None:
            return Chance(tuple(map(float, rows[node.infoset])), children)
        return Decision(node.player, label, node.actions, children)

    copies = tuple(copy(game.root, who, False, False) for who in ("free", "locked"))
    return Chance((1 - p, p), copies)


def _children(tree: Any) -> list[list[int]]:
    if "reference children" not in tree.cache:
        children: list[list[int]] = [[] for _ in tree.parent]
        for h in range(1, len(tree.parent)):
            children[tree.parent[h]].append(h)
        tree.cache["reference children"] = children
    return tree.cache["reference children"]
