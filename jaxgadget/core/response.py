"""Best responses and gaps."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from jaxgadget.core.payoff import NestedPayoff
from jaxgadget.core.problem import (
    Parts,
    Problem,
    SideValues,
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
    """Values of two strategies against each other and against best responses.

    Attributes:
      guaranteed: for each player `[num_subgames, lanes]`, value of its strategy against a best response
        within the other player's bounds, in its own utility; in a game that is not zero-sum, minus the value
        of that best response.
      below: for each player `[R, lanes]`, value of the *other* player's best response below each of the other
        player's roots, in the other player's utility and before the root's scale.
      value: `[num_subgames, lanes]` player 0's value when both players follow these strategies.
      root_values: for each player `[R, lanes]`, its value below each of its roots when both players follow
        these strategies, in its own utility and before the root's scale.
      gap: `[num_subgames, lanes]` NashConv of each subgame's game.
    """

    guaranteed: tuple[jax.Array, jax.Array]
    below: tuple[jax.Array, jax.Array]
    value: jax.Array
    root_values: tuple[jax.Array, jax.Array]
    gap: jax.Array


def evaluate(problem: Problem, strategy: tuple[Parts, Parts], payoff_state: Any = None) -> Evaluation:
    """Evaluates both strategies `[Q, lanes]` in every subgame and lane, also against best responses."""
    check_precision(problem)
    plan = tuple(follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1))
    reach = payoff_reaches(problem, (plan[0], plan[1]))
    best: list[SideValues] = []
    played: list[SideValues] = []
    for player in (0, 1):
        side, terms = problem.sides[player], problem.terms[player]
        if isinstance(problem.payoff, NestedPayoff):
            best_gradient, gradient = problem.payoff.values(player, reach, payoff_state)
        else:
            gradient, _ = problem.payoff.gradient(player, reach, payoff_state)
            best_gradient = gradient
        best.append(best_values_up(side, terms, best_gradient))
        played.append(values_up(side, terms, gradient, strategy[player]))
    first, second = (earned_alone(problem.sides[p], problem.terms[p], plan[p]) for p in (0, 1))
    own = best[0].subgames - second, best[1].subgames - first
    gap = own[0] + own[1]
    if not problem.zero_sum:
        gap -= (played[0].subgames - second) + (played[1].subgames - first)
    return Evaluation(
        guaranteed=(-own[1], -own[0]),
        below=(best[1].roots, best[0].roots),
        value=played[0].subgames - second,
        root_values=(played[0].roots, played[1].roots),
        gap=gap,
    )


def payoff_reaches(problem: Problem, plan: tuple[Parts, Parts]) -> tuple[jax.Array, jax.Array]:
    """`[S, lanes]` both players' reach as used by the payoff; see `problem.payoff_reach`."""
    first, second = (payoff_reach(problem.sides[p], problem.terms[p], plan[p]) for p in (0, 1))
    return first, second
