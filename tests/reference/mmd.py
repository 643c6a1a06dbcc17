"""Tabular magnetic mirror descent (Sokota et al. 2023) with exact values, history by history."""

from collections.abc import Callable

import numpy as np

from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray


def probability(policy: Policy, player: int, history: int, action: int) -> float:
    """Of a player's action at a history, 1 where it does not act."""
    tree = policy.histories
    infoset = int(tree.infoset[player, history])
    if infoset < 0:
        return 1.0
    infosets = tree.infosets[player]
    first = int(infosets.first_sequence[infoset])
    ids = infosets.action[first : first + int(infosets.num_actions[infoset])].tolist()
    return float(policy.probabilities[player][first - 1 + ids.index(action), 0])


def action_values(policy: Policy) -> tuple[FloatArray, FloatArray]:
    """For both players `[Q]`: the expected return after an action, given its infoset.

    The weight of a history in its infoset is the reach of chance and the opponent.
    """
    tree = policy.histories
    value, reach = np.zeros((2, tree.num_histories)), np.ones((2, tree.num_histories))
    value[0], value[1] = tree.payoff, -tree.payoff
    played = np.ones((2, tree.num_histories))
    for node in range(1, tree.num_histories):
        above = int(tree.parent[node])
        for player in (0, 1):
            played[player, node] = probability(policy, player, above, int(tree.action[player, node]))
        by_chance = tree.chance[node] / tree.chance[above]
        reach[:, node] = reach[:, above] * by_chance * played[::-1, node]
        played[:, node] *= by_chance**0.5
    for node in range(tree.num_histories - 1, 0, -1):
        value[:, tree.parent[node]] += played[0, node] * played[1, node] * value[:, node]
    found: list[FloatArray] = []
    for player in (0, 1):
        infosets = tree.infosets[player]
        total, mass = np.zeros(infosets.num_sequences), np.zeros(len(infosets))
        for history in np.flatnonzero(tree.infoset[player] >= 0).tolist():
            mass[tree.infoset[player, history]] += reach[player, history]
        for node in range(1, tree.num_histories):
            if tree.infoset[player, tree.parent[node]] >= 0:
                total[tree.sequence[player, node]] += reach[player, node] * value[player, node]
        found.append(total[1:] / mass[infosets.infoset[1:]])
    return found[0], found[1]


def improve(policy: Policy, eta: float, alpha: float) -> Policy:
    """The minimiser of -⟨π, Q⟩ + α KL(π ‖ uniform) + KL(π ‖ old) / η at every infoset."""
    rows: list[FloatArray] = []
    for infosets, old, values in zip(
        policy.histories.infosets, policy.probabilities, action_values(policy), strict=True
    ):
        owner = infosets.infoset[1:]
        odds = (old[:, 0] * np.exp(eta * values)) ** (1 / (1 + alpha * eta))
        total = np.zeros(len(infosets))
        np.add.at(total, owner, odds)
        rows.append((odds / total[owner])[:, None])
    return Policy(policy.tree, (rows[0], rows[1]), ("mmd",))


def mirror_descent(
    tree: HistoryTree, iterations: int, eta: Callable[[int], float], alpha: Callable[[int], float]
) -> Policy:
    """The last iterate from the uniform policy on."""
    policy = Policy.uniform(tree)
    for t in range(1, iterations + 1):
        policy = improve(policy, eta(t), alpha(t))
    return policy
