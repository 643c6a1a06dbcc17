"""Gadget games against an opponent who may follow a model, as explicit trees.

Chance first draws the opponent, unobserved by the resolving player. With probability 1 − p it is the free
one, in the gadget game of `gadgets.py`, including floors; with probability p it is the model, which enters
the same roots with its own reach in place of the blueprint's opponent's, without normalisation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tests.reference import efg, gadgets
from tests.reference.efg import Chance, Decision, Node, Past, Strategy, Terminal


def locked(node: Node, opponent: int, model: Strategy) -> Node:
    """A copy in which chance plays the opponent's part as the model."""
    if isinstance(node, Terminal):
        return node
    if isinstance(node, Past):
        return Past(node.player, node.reach, locked(node.child, opponent, model))
    children = tuple(locked(child, opponent, model) for child in node.children)
    if isinstance(node, Decision) and node.player == opponent:
        return Chance(tuple(map(float, model[node.infoset])), children)
    return dataclasses.replace(node, children=children)


def followed(subgames: Sequence[gadgets.Subgame], model: Strategy) -> Node:
    """The model's share of play below the roots of some subgames, weighted by its reach."""
    first = subgames[0]
    reach = efg.reaches(first.game.root, model)
    weights: list[float] = []
    children: list[Node] = []
    for subgame in subgames:
        for h in subgame.roots:
            node = subgame.game.nodes[h]
            weights.append(subgame.chance_reach(h) * reach[node][first.opponent])
            below = locked(node, first.opponent, model)
            children.append(Past(first.resolver, subgame.resolver_reach(h), below))
    return Chance(tuple(weights), tuple(children))


def parts_of(kind: str, subgame: gadgets.Subgame) -> Sequence[gadgets.Subgame]:
    """The subgames of a gadget game: all of them for an optimal continuation."""
    return subgame.above.subgames if gadgets.KINDS[kind].is_joint else [subgame]


def build(
    kind: str,
    subgame: gadgets.Subgame,
    model: Strategy,
    p: float,
    prior: gadgets.Prior = "none",
    epsilon: float = 0.0,
) -> gadgets.Gadget:
    """A gadget by name against the mixture; see `gadgets.build`."""
    free = gadgets.build(kind, subgame, prior, epsilon)
    share = followed(parts_of(kind, subgame), model)
    return dataclasses.replace(free, root=Chance((1 - p, p), (free.root, share)))


def earned(kind: str, subgame: gadgets.Subgame, model: Strategy, strategies: Strategy) -> float:
    """The resolving player's value in a gadget game against the model."""
    return efg.sign(subgame.resolver) * efg.value(followed(parts_of(kind, subgame), model), strategies)


def objective(
    kind: str,
    subgame: gadgets.Subgame,
    strategies: Strategy,
    model: Strategy,
    p: float,
    prior: gadgets.Prior = "none",
    epsilon: float = 0.0,
) -> float:
    """The objective of the linear programs, at a strategy."""
    free = gadgets.objective(kind, subgame, strategies, prior, epsilon)
    return (1 - p) * free + p * earned(kind, subgame, model, strategies)


def rise_bound(
    kind: str,
    subgame: gadgets.Subgame,
    strategies: Strategy,
    model: Strategy,
    p: float,
    gap: float,
    prior: gadgets.Prior = "none",
    epsilon: float = 0.0,
) -> float:
    """One gadget game's term in `exploitability_bound`, for p < 1; `epsilon` without a prior counts as 0.

    Resolving and max-margin: `[p·Δu + gap + (1 − p)·ε·Q]⁺ / ((1 − p)(1 − ε))`, with Δu the strategy's gain
    against the model minus the blueprint's.
    """
    before = earned(kind, subgame, model, subgame.blueprint)
    gained = p * (earned(kind, subgame, model, strategies) - before)
    return gadgets.rise_bound(kind, subgame, strategies, (gap + gained) / (1 - p), prior, epsilon)
