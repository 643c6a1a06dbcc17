"""Depth-limited responses as explicit games: two copies of the opponent, one of them locked to a model.

From the definitions of Milec, Kubíček and Lisý (2024). Chance draws the copy once, at the root. The player
does not observe it: it has the same infosets against both. The locked copy follows the model down to the
limit and chooses below it, at its own infosets; the free one chooses everywhere. The player's decisions that
earlier searches settled are chance moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from jaxgadget.games.game import CHANCE, TERMINAL
from tests.reference import efg
from tests.reference.efg import Array, Chance, Decision, Label, Node, Strategy, Terminal

Kind = Literal["own", "moves"]


def level_histories(tree: Any, player: int, kind: Kind, number: int, step: int) -> set[int]:
    """Root histories of searches of level `number`, by recursion from the game's root."""
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
    """Leaf histories of searches at some roots: `depth` decisions, or own decisions, further down."""
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
    at_limit: Callable[[int, str], Node] | None = None,
) -> Node:
    """One step as a separate game.

    Args:
      tree: the production tree, of which only raw arrays are read.
      player: the searching player.
      model: the opponent's rows.
      p: the probability that the opponent is the model's copy.
      settled: the player's rows, used above the roots.
      roots: histories where this step's searches begin.
      limit: histories below which the locked copy is free.
      at_limit: the node at such a history in each copy; by default play continues to the end.
    """
    game = efg.from_tree(tree)
    number = {node: h for h, node in enumerate(game.nodes)}

    def copy(node: Node, who: str, below_root: bool, below_limit: bool) -> Node:
        if node in number:
            below_root |= number[node] in roots
            below_limit |= number[node] in limit
            if number[node] in limit and at_limit is not None:
                return at_limit(number[node], who)
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


def choice_of_entries(
    tree: Any, player: int, values: Array, model_values: Array | None = None
) -> Callable[[int, str], Node]:
    """Both players choose among K strategies at a limit: each opponent separately, the player once for both.

    Args:
      tree: the production tree.
      player: who searches.
      values: `[histories, K, K]` player 0's payoffs.
      model_values: `[histories, K]` the same for the player's entries against the model, which the locked
        copy then follows below the limit, too.
    """
    entries = tuple(range(values.shape[1]))

    def at_limit(h: int, who: str) -> Node:
        labels = [("entry", p, int(tree.infostate[p, h])) for p in (0, 1)]

        def pays(own: int) -> Node:
            if who == "locked" and model_values is not None:
                return Terminal(float(model_values[h, own]))
            row = values[h, own] if player == 0 else values[h, :, own]
            ends = tuple(Terminal(float(value)) for value in row)
            return Decision(1 - player, (who, labels[1 - player]), entries, ends)

        return Decision(player, labels[player], entries, tuple(pays(own) for own in entries))

    return at_limit


def _children(tree: Any) -> list[list[int]]:
    if "reference children" not in tree.cache:
        children: list[list[int]] = [[] for _ in tree.parent]
        for h in range(1, len(tree.parent)):
            children[tree.parent[h]].append(h)
        tree.cache["reference children"] = children
    return tree.cache["reference children"]
