"""Subgames of own infostates, from the definition: of the roots in I² only what lies below I is solved for.

I is one of the resolving player's root infostates, and I² every root history of the opponent's infostates
that meet it. The gadget game is that of I² as of any subgame, so its masses, alternative values and priors
are those of the opponent's whole infostates. Below own infostates other than I chance plays as the blueprint
would.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.reference import efg, gadgets
from tests.reference.efg import Chance, Decision, Floors, Label, Node, Past, Strategy, Terminal
from tests.reference.knowledge import neighbourhood


def own_infostates(above: gadgets.Above) -> list[Label]:
    """The resolving player's root infostates, ascending."""
    roots = [h for part in above.components for h in part]
    return sorted({above.game.infostate[above.resolver][h] for h in roots})


def own_roots(above: gadgets.Above, own: Label) -> list[int]:
    """The root histories of I."""
    states = above.game.infostate[above.resolver]
    return [h for part in above.components for h in part if states[h] == own]


def subgame(above: gadgets.Above, own: Label) -> gadgets.Subgame:
    """I²."""
    roots = sorted(h for part in above.components for h in part)
    return gadgets.Subgame(
        above, tuple(sorted(neighbourhood(above.game.infostate, roots, above.resolver, own, 2)))
    )


def free_infosets(above: gadgets.Above, own: Label) -> set[Label]:
    """The resolving player's infosets below I."""
    nodes = [node for h in own_roots(above, own) for node in efg.walk(above.game.nodes[h])]
    return {node.infoset for node in nodes if isinstance(node, Decision) and node.player == above.resolver}


def frozen(node: Node, player: int, free: set[Label], blueprint: Strategy) -> Node:
    """A copy in which chance plays a player's part as the blueprint would, but at its free infosets."""
    if isinstance(node, Terminal):
        return node
    if isinstance(node, Past):
        return Past(node.player, node.reach, frozen(node.child, player, free, blueprint))
    children = tuple(frozen(child, player, free, blueprint) for child in node.children)
    if isinstance(node, Decision) and node.player == player and node.infoset not in free:
        return Chance(tuple(map(float, blueprint[node.infoset])), children)
    return dataclasses.replace(node, children=children)


def build(
    kind: str, above: gadgets.Above, own: Label, prior: gadgets.Prior = "none", epsilon: float = 0.0
) -> gadgets.Gadget:
    """The gadget game of I by name; see `gadgets.build`."""
    whole = gadgets.build(kind, subgame(above, own), prior, epsilon)
    root = frozen(whole.root, above.resolver, free_infosets(above, own), above.blueprint)
    return gadgets.Gadget(root, whole.floors, above.resolver)


def with_floors(above: gadgets.Above, own: Label, whole: gadgets.Gadget) -> Floors:
    """What freezes a gadget game of I² without changing its tree: floors that are the blueprint."""
    free = free_infosets(above, own)
    held = {
        label: np.asarray(above.blueprint[label])
        for label, node in efg.infosets(whole.root).items()
        if node.player == above.resolver and label not in free
    }
    return {**whole.floors, **held}
