"""Subgames of own infostates, from the definition: the kept histories, and the solved part of them.

I is one of the resolving player's root infostates. At order k all of Iᵏ⁺¹ is kept: root histories that form
whole infostates of the opponent. The gadget game is therefore that of Iᵏ⁺¹ as of any subgame, with its
masses, alternative values and priors. If only some of the opponent's infostates are considered, the gadget
game has their root histories, which are still whole infostates. Below own infostates outside of Iᵏ chance
plays the blueprint; if unfrozen, everything that is kept is solved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from tests.reference import efg, gadgets
from tests.reference.efg import Chance, Decision, Floors, Label, Node, Past, Strategy, Terminal
from tests.reference.knowledge import neighbourhood


def own_infostates(above: gadgets.Above) -> list[Label]:
    """The resolving player's root infostates, ascending."""
    roots = [h for part in above.components for h in part]
    return sorted({above.game.infostate[above.resolver][h] for h in roots})


def own_roots(above: gadgets.Above, own: Label) -> list[int]:
    """The root histories of infostate I."""
    states = above.game.infostate[above.resolver]
    return [h for part in above.components for h in part if states[h] == own]


def subgame(
    above: gadgets.Above, own: Label, order: float = 1, considered: Collection[Label] | None = None
) -> gadgets.Subgame:
    """Iᵏ⁺¹, or its part in the opponent's infostates that are considered."""
    states = above.game.infostate[above.opponent]
    near = _near(above, own, order + 1)
    return gadgets.Subgame(above, tuple(h for h in near if considered is None or states[h] in considered))


def _near(above: gadgets.Above, own: Label, order: float) -> list[int]:
    roots = sorted(h for part in above.components for h in part)
    return sorted(neighbourhood(above.game.infostate, roots, above.resolver, own, order))


def freed_roots(above: gadgets.Above, own: Label, order: float = 1, unfrozen: bool = False) -> list[int]:
    """The root histories of Iᵏ; unfrozen, those of Iᵏ⁺¹."""
    return _near(above, own, order + unfrozen)


def free_infosets(above: gadgets.Above, own: Label, order: float = 1, unfrozen: bool = False) -> set[Label]:
    """The resolving player's infosets below Iᵏ; unfrozen, below Iᵏ⁺¹."""
    near = freed_roots(above, own, order, unfrozen)
    nodes = [node for h in near for node in efg.walk(above.game.nodes[h])]
    return {node.infoset for node in nodes if isinstance(node, Decision) and node.player == above.resolver}


def frozen(node: Node, player: int, free: set[Label], blueprint: Strategy) -> Node:
    """A copy in which chance plays a player's blueprint except at its free infosets."""
    if isinstance(node, Terminal):
        return node
    if isinstance(node, Past):
        return Past(node.player, node.reach, frozen(node.child, player, free, blueprint))
    children = tuple(frozen(child, player, free, blueprint) for child in node.children)
    if isinstance(node, Decision) and node.player == player and node.infoset not in free:
        return Chance(tuple(map(float, blueprint[node.infoset])), children)
    return dataclasses.replace(node, children=children)


def build(
    kind: str,
    above: gadgets.Above,
    own: Label,
    prior: gadgets.Prior = "none",
    epsilon: float = 0.0,
    order: float = 1,
    unfrozen: bool = False,
    considered: Collection[Label] | None = None,
) -> gadgets.Gadget:
    """The gadget game of I by name, with some or all of the opponent's infostates; see `gadgets.build`."""
    whole = gadgets.build(kind, subgame(above, own, order, considered), prior, epsilon)
    free = free_infosets(above, own, order, unfrozen)
    root = frozen(whole.root, above.resolver, free, above.blueprint)
    return gadgets.Gadget(root, whole.floors, above.resolver)


def with_floors(above: gadgets.Above, own: Label, whole: gadgets.Gadget) -> Floors:
    """Freezing in a gadget game of I² by floors equal to the blueprint, without changing the tree."""
    free = free_infosets(above, own)
    held = {
        label: np.asarray(above.blueprint[label])
        for label, node in efg.infosets(whole.root).items()
        if node.player == above.resolver and label not in free
    }
    return {**whole.floors, **held}
