"""Mixtures of two strategies, by realisation plans or by decisions."""

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

    `plans` mixes realisation plans: the strategy is drawn once, at the root. Values against a fixed opponent,
    and hence gains, are then linear in p; exploitability is convex in p, and at most the mixture of both
    exploitabilities. `decisions` mixes the rows of every infoset, with a new draw at each, and is not linear.
    Both agree where neither strategy has reach.

    p is the weight of the first strategy. Milec, Kubíček and Lisý's CDBR-NE, in which p is the weight of the
    *equilibrium*, is `mix(equilibrium, response, p)`; in a restricted Nash response p is the weight of the
    model.

    Args:
      first: a policy, or several, as `as_policy` accepts them.
      second: policies with as many lanes as `first`, unless one of the two has a single lane.
      p: a number in [0, 1], or several, each of which mixes every pair of lanes; results are ordered by pair.
      how: `plans` or `decisions`.
      tree: tree of the policies; by default their own.

    Raises:
      ValueError: if p or `how` is out of range, lanes do not fit, or the policies are of different games.
    """
    weights = np.array(check_probabilities(p, "the weight of the first strategy"))
    if how not in HOW:
        raise ValueError(f"how={how!r}: expected {' or '.join(map(repr, HOW))}")
    weighted = as_policy(first, tree, name="first")
    other = as_policy(second, weighted.tree, name="second")
    lanes = max(weighted.num_lanes, other.num_lanes)
    for name, policy in (("first", weighted), ("second", other)):
        if policy.num_lanes not in (1, lanes):
            raise ValueError(
                f"{name} has {policy.num_lanes} lanes; expected 1, or {lanes} as the other policy"
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
      policies: policies with equally many lanes.
      weights: weight of each policy: a number, `[lanes]`, or `[Q, lanes]` for every action, equal below
        actions of the player at which the plans differ; weights sum to 1.
      player: the player.
      how: as in `mix`.
    """
    infosets = policies[0].tree.infosets[player]
    mixed = list(zip(weights, policies, strict=True))
    rows = sum((weight * policy.probabilities[player] for weight, policy in mixed), np.zeros(()))
    if how == "plans":
        plan = sum((weight * policy.reach(player)[1:] for weight, policy in mixed), np.zeros(()))
        above = np.concatenate([np.ones_like(plan[:1]), plan])[infosets.parent[infosets.infoset[1:]]]
        rows = np.where(above > 0, plan / np.where(above > 0, above, 1.0), rows)
    return normalise_rows(rows, infosets.infoset[1:])
