"""Best responses and gaps."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from jaxgadget.kernels.problem import (
    Parts,
    Problem,
    best_values_up,
    check_precision,
    earned_alone,
    follow,
    payoff_reach,
    values_up,
)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Two strategies against best responses.

    Attributes:
      guaranteed: for both players `[num_subgames, lanes]`, what its strategy is worth at least,
        in its own utility, against the best response that the other's bounds allow.
      below: for both players `[R, lanes]`, what the *other* player's best response earns below
        each of its roots, before the root's scale, in the other's utility.
      value: `[num_subgames, lanes]` what player 0 gets when both play these strategies.
      gap: `[num_subgames, lanes]` sum of what both could gain: NashConv of each subgame's game.
    """

    guaranteed: tuple[jax.Array, jax.Array]
    below: tuple[jax.Array, jax.Array]
    value: jax.Array
    gap: jax.Array


def evaluate(problem: Problem, strategy: tuple[Parts, Parts], payoff_state: Any = None) -> Evaluation:
    """Plays both strategies against best responses, in every subgame and lane."""
    check_precision(problem)
    plan = tuple(follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1))
    reach = payoff_reaches(problem, (plan[0], plan[1]))
    below: list[jax.Array] = []
    own: list[jax.Array] = []
    for player in (0, 1):
        side, terms, other = problem.sides[player], problem.terms[player], 1 - player
        gradient, _ = problem.payoff.gradient(player, reach, payoff_state)
        best = best_values_up(side, terms, gradient)
        below.append(best.roots)
        own.append(best.subgames - earned_alone(problem.sides[other], problem.terms[other], plan[other]))
    gradient, _ = problem.payoff.gradient(0, reach, payoff_state)
    played = values_up(problem.sides[0], problem.terms[0], gradient, strategy[0])
    value = played.subgames - earned_alone(problem.sides[1], problem.terms[1], plan[1])
    return Evaluation(
        guaranteed=(-own[1], -own[0]), below=(below[1], below[0]), value=value, gap=own[0] + own[1]
    )


def payoff_reaches(problem: Problem, plan: tuple[Parts, Parts]) -> tuple[jax.Array, jax.Array]:
    """Both players' reaches as the payoff sees them."""
    first, second = (payoff_reach(problem.sides[p], problem.terms[p], plan[p]) for p in (0, 1))
    return first, second
