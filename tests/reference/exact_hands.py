"""The first update of regret matching in a public subgame, in exact arithmetic: recursion over nodes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from jaxgadget import Policy, PublicTree
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.util.arrays import IntArray

Row = list[Fraction]


Regrets = dict[int, tuple[Row, Fraction]]
"""For every public node below an action: its regret with every hand, and the largest payoff at the node
above."""


def first_regrets(policy: Policy, root: int, player: int) -> tuple[Regrets, Regrets]:
    """Both players' regrets after their first update, if both enter according to their policies.

    The other player updates first, from uniform strategies.

    Args:
      policy: a policy with one lane, whose floats count as exact.
      root: public node where the subgame begins.
      player: the player who updates second.

    Returns:
      The other player's regrets, and those of `player`.
    """
    assert isinstance(policy.tree, PublicTree)
    game, tree = policy.tree.hands_game, policy.tree.nodes
    pays = {
        int(node): (Fraction(scale), table)
        for group in game.ends
        for nodes, scales, table in zip(group.node, group.scale.tolist(), group.pays, strict=True)
        for node, scale in zip(nodes, scales, strict=True)
    }
    strategy: dict[int, Row] = {}  # by the node below an action

    def actor(node: int) -> int:
        return ACTOR_BIT.index(int(tree.actor[node])) if tree.num_children[node] else -1

    def children(node: int) -> range:
        return range(tree.first_child[node], tree.first_child[node] + tree.num_children[node])

    below = [root]
    for node in below:
        below += children(node)

    def played(node: int) -> Row:
        above = int(tree.parent[node])
        share = Fraction(1, int(tree.num_children[above]))
        return strategy.get(node, [share] * game.num_hands[actor(above)])

    def reach(own: int) -> dict[int, Row]:
        top = [_way(policy, root, own, hand) for hand in range(game.num_hands[own])]
        plan = {root: top}
        for node in below[1:]:
            above = int(tree.parent[node])
            plan[node] = plan[above]
            if actor(above) == own:
                plan[node] = [x * y for x, y in zip(plan[above], played(node), strict=True)]
        return plan

    def regrets(own: int) -> Regrets:
        plan, values, regret = reach(1 - own), dict[int, Row](), Regrets()
        hands = range(game.num_hands[own])
        for node in reversed(below):
            if node in pays:
                scale, table = pays[node]
                rows = table if own == 0 else -table.T
                values[node] = [
                    scale * sum(Fraction(x) * y for x, y in zip(row.tolist(), plan[node], strict=True))
                    for row in rows
                ]
            elif actor(node) == own:
                values[node] = [sum(played(k)[h] * values[k][h] for k in children(node)) for h in hands]
                most = max(abs(values[k][h]) for k in children(node) for h in hands)
                for k in children(node):
                    regret[k] = [values[k][h] - values[node][h] for h in hands], most
            else:
                values[node] = [sum((values[k][h] for k in children(node)), Fraction(0)) for h in hands]
        return regret

    others = regrets(1 - player)
    strategy.update(_matched(others, tree.parent))
    return others, regrets(player)


def _matched(regrets: Regrets, parent: IntArray) -> dict[int, Row]:
    """Regret matching: shares of positive regrets, uniform if there are none."""
    siblings: dict[int, list[int]] = {}
    for node in regrets:
        siblings.setdefault(int(parent[node]), []).append(node)
    strategy: dict[int, Row] = {}
    for nodes in siblings.values():
        for node in nodes:
            strategy[node] = []
            for hand, regret in enumerate(regrets[node][0]):
                total = sum(max(regrets[k][0][hand], Fraction(0)) for k in nodes)
                strategy[node].append(max(regret, Fraction(0)) / total if total else Fraction(1, len(nodes)))
    return strategy


def _way(policy: Policy, node: int, player: int, hand: int) -> Fraction:
    """The probability that a player's own choices lead to a public node with a hand."""
    assert isinstance(policy.tree, PublicTree)
    tree, reach = policy.tree.nodes, Fraction(1)
    while node:
        above = int(tree.parent[node])
        if tree.actor[above] == ACTOR_BIT[player]:
            sequence = int(policy.tree.sequence_to(player, np.array([node]))[0, hand])
            reach *= Fraction(float(policy.probabilities[player][sequence - 1, 0]))
        node = above
    return reach
