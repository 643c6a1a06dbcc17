"""Mixtures of two strategies, of whole plans or decision by decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from jaxgadget.opponents.opponent import check_probabilities
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.public import Tree
from jaxgadget.util.arrays import FloatArray

How = Literal["plans", "decisions"]
HOW: tuple[How, ...] = ("plans", "decisions")


def mix(
    first: PolicyLike | Sequence[PolicyLike],
    second: PolicyLike | Sequence[PolicyLike],
    p: float | Sequence[float],
    *,
    how: How = "plans",
    tree: Tree | None = None,
) -> Policy:
    """p·first + (1−p)·second, for both players.

    `plans` mixes realisation plans: the strategy is drawn once, at the root. Every value against a fixed
    opponent is then linear in p, and so is a response's gain; exploitability is convex, at most the
    mixture of both exploitabilities. `decisions` mixes the rows of every infoset, with a new draw at each,
    and is not linear. Both agree where neither strategy has reach.

    p weighs the first strategy. Milec, Kubíček and Lisý's CDBR-NE gives p to the *equilibrium*: that is
    `mix(equilibrium, response, p)`; in a restricted Nash response p weighs the model.

    Args:
      first: a policy, or several, as `as_policy` accepts them.
      second: as many lanes as `first`, or one of the two has one.
      p: in [0, 1], or several: then every pair of lanes is mixed with each, one pair after the other.
      how: `plans` or `decisions`.
      tree: for which tree; by default that of the policies.

    Raises:
      ValueError: if p or `how` is out of range, lanes do not fit, or the policies are of different games.
    """
    weights = np.array(check_probabilities(p, "how much the first strategy weighs"))
    if how not in HOW:
        raise ValueError(f"how={how!r}: expected {' or '.join(map(repr, HOW))}")
    weighted = as_policy(first, tree, name="first")
    other = as_policy(second, weighted.tree, name="second")
    lanes = max(weighted.num_lanes, other.num_lanes)
    for name, policy in (("first", weighted), ("second", other)):
        if policy.num_lanes not in (1, lanes):
            raise ValueError(
                f"{name} has {policy.num_lanes} lanes: expected 1 or {lanes}, as the other one has"
            )
    pair, weight_idx = np.indices((lanes, len(weights))).reshape(2, -1)
    weight = weights[weight_idx]
    weighted, other = (
        policy.take_lanes(np.minimum(pair, policy.num_lanes - 1)) for policy in (weighted, other)
    )
    halves = [mix_rows((weighted, other), (weight, 1 - weight), player, how) for player in (0, 1)]
    labels = tuple(
        f"mix:{p:g}:{first_label}:{second_label}"
        for first_label, second_label, p in zip(weighted.labels, other.labels, weight, strict=True)
    )
    return Policy(weighted.tree, (halves[0], halves[1]), labels)


def mix_rows(
    policies: Sequence[Policy], weights: Sequence[FloatArray | float], player: int, how: How = "plans"
) -> FloatArray:
    """`[Q, lanes]` one player's rows of a mixture of policies.

    Args:
      policies: as many lanes each.
      weights: of each policy, a number, `[lanes]`, or `[Q, lanes]` of every action, which must be equal below
        actions of the player at which the plans differ; together 1.
      player: whose.
      how: see `mix`.
    """
    infosets = policies[0].tree.infosets[player]
    mixed = list(zip(weights, policies, strict=True))
    rows = sum((weight * policy.probabilities[player] for weight, policy in mixed), np.zeros(()))
    if how == "plans":
        plan = sum((weight * policy.reach(player)[1:] for weight, policy in mixed), np.zeros(()))
        above = np.concatenate([np.ones_like(plan[:1]), plan])[infosets.parent[infosets.infoset[1:]]]
        rows = np.where(above > 0, plan / np.where(above > 0, above, 1.0), rows)
    return normalise_rows(rows, infosets.infoset[1:])
