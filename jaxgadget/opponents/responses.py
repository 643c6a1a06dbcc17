"""Exact strategies against a known opponent, by linear programs."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from scipy.sparse import csr_array

from jaxgadget.kernels.problem import Problem
from jaxgadget.policy.evaluate import to_policy
from jaxgadget.policy.exact import exact_problem
from jaxgadget.policy.policy import Policy, check_policy
from jaxgadget.solving.lp import Goal, Optimum, guaranteed_value, solve_program
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import SequenceForm, sequence_form
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.precision import precision

EQUILIBRIUM_TOLERANCE = 1e-9
"""By how much `best_equilibrium` may guarantee less than the value, as a share of the payoff range."""


@dataclasses.dataclass(frozen=True, eq=False)
class Response:
    """A player's strategy for a known opponent who may turn out another.

    Attributes:
      policy: the opponent's policy with the player's rows replaced, one lane.
      value_against_model: what the player gets against the opponent's policy.
      guaranteed_value: what it gets at least, against anybody.
      iterations: of the simplex method.
    """

    policy: Policy
    value_against_model: float
    guaranteed_value: float
    iterations: int


def best_equilibrium(opponent: Policy, player: int, *, time_limit: float | None = None) -> Response:
    """Of a player's equilibrium strategies the one that does best against a given opponent.

    Two linear programs: the first finds the value of the game, the second maximises the value
    against the opponent among strategies that guarantee it less `EQUILIBRIUM_TOLERANCE`.

    Args:
      opponent: a policy of one lane; the player's own rows do not matter.
      player: 0 or 1, whose strategy to find.
      time_limit: in seconds for each program; by default none.

    Raises:
      ProgramError: if HiGHS does not solve it.
      ValueError: if the policy has several lanes, or `player` is not 0 or 1.
    """
    tree, form = _check(opponent, player)
    name = f"best equilibrium of player {player} in {tree.game.name}"
    problem, free = exact_problem(form), Goal(maximiser=player)
    value = float(solve_program(problem, 0, free, name=name, time_limit=time_limit).value[0])
    goal = Goal(
        maximiser=player,
        guarantee_weight=0.0,
        at_least=value - EQUILIBRIUM_TOLERANCE * tree.payoff_range,
        bonus=_earned_against(form, opponent, player),
    )
    optimum = solve_program(problem, 0, goal, name=name, time_limit=time_limit)
    return _response(problem, form, opponent, player, optimum, f"best-equilibrium:{opponent.labels[0]}")


def restricted_nash_response(
    opponent: Policy, player: int, p: float, *, time_limit: float | None = None
) -> Response:
    """Best against an opponent who follows a model with probability p, and plays freely otherwise.

    Maximises p × value against the model + (1−p) × guaranteed value (a body constant, and a free opponent
    whose root is worth 1−p): a best response for p = 1, an
    equilibrium strategy for p = 0, and in between the least exploitable of those that gain as much.
    Source: Johanson, Zinkevich and Bowling (2007), Computing robust counter-strategies.

    Args:
      opponent: the model, a policy of one lane; the player's own rows do not matter.
      player: 0 or 1, whose strategy to find.
      p: in [0, 1].
      time_limit: in seconds; by default none.

    Raises:
      ProgramError: if HiGHS does not solve it.
      ValueError: if the policy has several lanes, `player` is not 0 or 1, or p is out of range.
    """
    tree, form = _check(opponent, player)
    if not is_finite_number(p) or not 0 <= p <= 1:
        raise ValueError(f"p={p!r}: expected a number in [0, 1], the probability that the model is followed")
    whole = exact_problem(form)
    with precision(np.float64):
        body_constant = jax.device_put(p * _earned_against(form, opponent, player)[:, None])
        terms = list(whole.terms)
        terms[player] = dataclasses.replace(terms[player], body_constant=body_constant)
        terms[1 - player] = dataclasses.replace(terms[1 - player], scale=(1 - p) * terms[1 - player].scale)
        problem = dataclasses.replace(whole, terms=(terms[0], terms[1]))
    optimum = solve_program(
        problem,
        0,
        Goal(maximiser=player),
        name=f"restricted Nash response of player {player} in {tree.game.name}",
        time_limit=time_limit,
    )
    return _response(whole, form, opponent, player, optimum, f"rnr:{p:g}:{opponent.labels[0]}")


def _check(opponent: Policy, player: int) -> tuple[HistoryTree, SequenceForm]:
    check_player(player)
    check_policy(opponent, "opponent")
    if opponent.num_lanes != 1:
        raise ValueError(f"opponent has {opponent.num_lanes} lanes: expected one; pick it by policy.lane(k)")
    return opponent.tree, sequence_form(opponent.tree)


def _earned_against(form: SequenceForm, opponent: Policy, player: int) -> FloatArray:
    """`[S]` what every sequence of the player earns against a policy."""
    other, entries = 1 - player, form.payoff
    reach = np.ones(form.treeplex[other].num_sequences)
    reach[form.treeplex[other].num_roots :] = opponent.reach(other)[form.action_sequences(other), 0]
    payoff = csr_array((entries.value, (entries.row, entries.column)), entries.shape)
    return payoff @ reach if player == 0 else -(payoff.T @ reach)


def _response(
    problem: Problem, form: SequenceForm, opponent: Policy, player: int, optimum: Optimum, label: str
) -> Response:
    """A player's strategy, and what it is worth in the whole game."""
    first, second = (rows.body[:, None] for rows in optimum.strategy)
    pair = list(opponent.probabilities)
    pair[player] = to_policy(form.tree, form, (first, second), (label,)).probabilities[player]
    policy = Policy(form.tree, (pair[0], pair[1]), (label,))
    plan = np.ones(form.treeplex[player].num_sequences)
    plan[form.treeplex[player].num_roots :] = policy.reach(player)[form.action_sequences(player), 0]
    return Response(
        policy,
        value_against_model=float(_earned_against(form, opponent, player) @ plan),
        guaranteed_value=float(guaranteed_value(problem, 0, player, optimum.strategy[player])[0]),
        iterations=optimum.iterations,
    )
