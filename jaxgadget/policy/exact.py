"""Whole games solved exactly, by linear programs."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np

from jaxgadget.kernels.payoff import build_payoff
from jaxgadget.kernels.problem import Problem, evaluation_game, with_floors
from jaxgadget.policy.evaluate import game_value, to_policy
from jaxgadget.policy.floors import Floors, check_floors
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.lp import Goal, ProgramError, solve_program
from jaxgadget.solving.options import check_time
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.tree.sequence import SequenceForm, sequence_form
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.precision import precision

EXACT_INFOSETS = 30_000
"""In games of up to so many infosets the value comes from a linear program, if solves do: seconds."""


@dataclasses.dataclass(frozen=True, eq=False)
class ExactSolution:
    """An equilibrium of a whole game.

    Attributes:
      policy: both players' strategies, one lane, `lp`: mutual counterfactual best responses
        (within the floors).
      value: what player 0's strategy guarantees against the best response that the floors allow.
      gap: by how much that and what player 1's strategy concedes differ: rounding.
      iterations: of the simplex method.
    """

    policy: Policy
    value: float
    gap: float
    iterations: int


def solve_exactly(
    tree: HistoryTree, *, floors: Floors | None = None, time_limit: float | None = None
) -> ExactSolution:
    """An equilibrium of a whole game, from one linear program (Koller et al. 1996; von Stengel 1996).

    Player 0's strategy is the program's solution, player 1's its dual one. Where a player does not
    get by its own strategy it plays a pure counterfactual best response, and where nobody gets,
    all actions alike.

    Args:
      tree: the game's histories.
      floors: least probability of every action, to which both then keep: a number ε for ε-uniform
        floors, or arrays as `tremble` makes them.
      time_limit: in seconds; by default none.

    Raises:
      ProgramError: if HiGHS does not solve it.
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
    """The whole game, one lane in float64, as linear programs take it: without tolerances for regrets.

    Args:
      form: the game.
      floors: least probability of both players' actions, by default 0.
    """
    with precision(np.float64):
        payoff = build_payoff(form.payoff, np.float64, form="rows")
        problem = evaluation_game(form, payoff, 1, np.float64)
        if floors is None:
            return problem
        first, second = (floors[p][form.action_sequences(p) - 1] for p in (0, 1))
        return with_floors(problem, (first, second))


def find_value(
    tree: HistoryTree, by_lp: bool, progress: bool | None, *, time_limit: float | None = None
) -> tuple[float, float]:
    """The bracket of player 0's value; by a linear program if that is asked for, small and solved in time.

    Args:
      tree: the game's histories; a program is solved once for each.
      by_lp: whether to try a linear program.
      progress: see `game_value`.
      time_limit: of the program, in seconds; by default none.
    """
    if by_lp and sum(map(len, tree.infosets)) <= EXACT_INFOSETS:
        with contextlib.suppress(ProgramError):
            if "exact value" not in tree.cache:
                solution = solve_exactly(tree, time_limit=time_limit)
                tree.cache["exact value"] = solution.value, solution.value + solution.gap
            return tree.cache["exact value"]
    return game_value(tree, progress=progress)
