"""Exact solutions of whole games by linear programs."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np

from jaxgadget.core.lp.solve import Goal, ProgramError, solve_program
from jaxgadget.core.payoff import build_payoff
from jaxgadget.core.problem import Problem, evaluation_game, with_floors
from jaxgadget.core.solver import check_time
from jaxgadget.policy.evaluate import game_value, to_policy
from jaxgadget.policy.floors import Floors, check_floors
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import Tree, check_tree
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.players import Bracket
from jaxgadget.util.precision import precision

EXACT_INFOSETS = 30_000
"""Maximum number of infosets for which `find_value` solves a linear program, which then takes seconds."""


@dataclasses.dataclass(frozen=True, eq=False)
class ExactSolution:
    """An equilibrium of a whole game.

    Attributes:
      policy: both players' strategies, with the single lane `lp`: mutual counterfactual best responses
        (within the floors).
      value: guaranteed value of player 0's strategy, against the best response within the floors.
      gap: difference between the value that player 1's strategy concedes and `value`, due to rounding.
      iterations: number of iterations of the simplex method.
    """

    policy: Policy
    value: float
    gap: float
    iterations: int


def solve_exactly(
    tree: Tree, *, floors: Floors | None = None, time_limit: float | None = None
) -> ExactSolution:
    """An equilibrium of a whole game, from one linear program (Koller et al. 1996; von Stengel 1996).

    Player 0's strategy is the program's primal solution, player 1's the dual one. At infosets that its
    own strategy does not reach, a player has a pure counterfactual best response; at unreachable
    infosets, the uniform strategy.

    Args:
      tree: the game, by histories or by hands.
      floors: least probability of every action of both players: a number ε for ε-uniform floors, or
        arrays from `tremble`.
      time_limit: time limit in seconds; by default none.

    Raises:
      ProgramError: if HiGHS does not solve the program.
      ValueError: if floors have the wrong shape, are negative or sum to more than 1.
    """
    check_tree(tree)
    time_limit = check_time(time_limit)
    least = None if floors is None else check_floors(tree, floors)
    form = sequence_form(tree)
    problem, name = exact_problem(form, least), f"whole game {tree.game.name}"
    optimum = solve_program(problem, 0, Goal(maximiser=0), name=name, time_limit=time_limit)
    first, second = (rows.body[:, None] for rows in optimum.strategy)
    policy = to_policy(tree, form, (first, second), ("lp",))
    return ExactSolution(policy, float(optimum.value[0]), float(optimum.gap[0]), optimum.iterations)


def exact_problem(form: SequenceForm, floors: tuple[FloatArray, FloatArray] | None = None) -> Problem:
    """The whole game for linear programs: one lane in float64, without regret tolerances.

    Args:
      form: the game.
      floors: least probability of both players' actions, by default 0.
    """
    with precision(np.float64):
        payoff = build_payoff(form.payoff, np.float64, form="rows")
        problem = evaluation_game(form.treeplex, payoff, 1, np.float64)
        return problem if floors is None else with_tree_floors(problem, form, floors)


def with_tree_floors(problem: Problem, form: SequenceForm, floors: tuple[FloatArray, FloatArray]) -> Problem:
    """The same problem with floors in the order of `Policy.probabilities`."""
    first, second = (floors[p][form.action_sequences(p) - 1] for p in (0, 1))
    return with_floors(problem, (first, second))


def find_value(tree: Tree, by_lp: bool, progress: bool | None, *, time_limit: float | None = None) -> Bracket:
    """The bracket of player 0's value; from a linear program if requested, small enough, and solved in time.

    Args:
      tree: the game; the result of a program is cached with it.
      by_lp: whether to try a linear program.
      progress: as in `game_value`.
      time_limit: time limit of the program in seconds; by default none.
    """
    if by_lp and sum(map(len, tree.infosets)) <= EXACT_INFOSETS:
        with contextlib.suppress(ProgramError):
            if "exact value" not in tree.cache:
                solution = solve_exactly(tree, time_limit=time_limit)
                tree.cache["exact value"] = Bracket(solution.value, solution.value + solution.gap)
            return tree.cache["exact value"]
    return game_value(tree, progress=progress)
