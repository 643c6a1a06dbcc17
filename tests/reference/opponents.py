"""Responses to a model of the opponent, by definition: explicit trees in which chance plays the model.

With probability p, drawn at the root, the opponent's decisions are chance moves with the model's
probabilities; otherwise they are its own. The player's infosets are the same in both copies. The player's
guaranteed value in that tree is the objective of a restricted Nash response.
"""

from __future__ import annotations

from tests.reference import efg, lp
from tests.reference.efg import Chance, Decision, Node, Past, Strategy, Terminal


def locked(node: Node, opponent: int, model: Strategy) -> Node:
    """The tree in which chance plays the opponent's model."""
    if isinstance(node, Terminal):
        return node
    if isinstance(node, Past):
        return Past(node.player, node.reach, locked(node.child, opponent, model))
    children = tuple(locked(child, opponent, model) for child in node.children)
    if isinstance(node, Chance):
        return Chance(node.weights, children)
    if node.player == opponent:
        return Chance(tuple(float(q) for q in model[node.infoset]), children)
    return Decision(node.player, node.infoset, node.actions, children)


def mixture(root: Node, player: int, model: Strategy, p: float) -> Node:
    """Chance first draws whether the opponent is the model, unobserved by the players."""
    return Chance((p, 1 - p), (locked(root, 1 - player, model), root))


def objective(root: Node, player: int, model: Strategy, p: float) -> float:
    """The largest value that a player can guarantee in the mixture, in its utility."""
    return lp.solve(mixture(root, player, model, p), player).value


def biased_objective(root: Node, player: int, model: Strategy, p: float) -> float:
    """The largest value that a player can guarantee against an opponent with floors p × model."""
    return lp.solve(root, player, model_floors(root, player, model, p)).value


def model_floors(root: Node, player: int, model: Strategy, p: float) -> efg.Floors:
    """Floors p × model at all infosets of the player's opponent."""
    return {label: p * model[label] for label in efg.infosets_of(root, 1 - player)}
