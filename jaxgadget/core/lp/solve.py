"""Solves games by linear programs: exact values, strategies, gadget game sequential equilibria.

Realisation plans of the programs that `program` builds are converted to behaviour strategies, completed by
counterfactual best responses, and checked against best responses.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable

import numpy as np

from jaxgadget.core.lp.decisions import Behaviour
from jaxgadget.core.lp.highs import TOLERANCE, Model, ProgramError, ProgramSolution, run, stays_optimal
from jaxgadget.core.lp.program import Goal, Plans, Program, build_program
from jaxgadget.core.problem import Problem
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.players import pair_for

__all__ = ["Behaviour", "Goal", "Optimum", "ProgramError", "refined", "solve_program"]

GAP_TOLERANCE = 1e-7
"""Largest accepted gap of a solution, as a share of the game's largest payoff or constant."""

MIN_EPSILON = 1e-8
"""Smallest ε that is tried: smaller floors are within HiGHS's tolerances."""

VALUE_TOLERANCE = 1e-10
"""Largest distance from the optimum that counts as rounding, as a share of the game's largest payoff."""

FallbackRows = tuple[FloatArray | None, FloatArray | None]
"""Both players' strategies `[Q_body]` at infosets that neither strategy reaches; None for uniform ones."""

NO_FALLBACK: FallbackRows = (None, None)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Optimum:
    """Optimal strategies of one lane. G games, padding included.

    Attributes:
      value: `[G]` guaranteed value of the maximiser's strategy, in its utility; 0 in empty games.
      gap: `[G]` NashConv: the optimum lies in [value, value + gap]. `[1]` if the games are one linear
        program (`Goal.joint`).
      strategy: both players' strategies; the opponent's is the program's dual solution.
      iterations: total number of simplex iterations.
      epsilon: `[G]` the ε that `refined` accepted, NaN in empty games; None from `solve_program`.
    """

    value: FloatArray
    gap: FloatArray
    strategy: tuple[Behaviour, Behaviour]
    iterations: int
    epsilon: FloatArray | None = None


def solve_program(
    problem: Problem,
    lane: int,
    goal: Goal,
    *,
    name: str,
    fallback: FallbackRows = NO_FALLBACK,
    time_limit: float | None = None,
) -> Optimum:
    """Solves one lane of a problem with HiGHS, by the simplex method.

    At infosets that a player's own plan does not reach (`decisions.REACH_TOLERANCE`), it plays a pure
    counterfactual best response to the other's strategy, as in *Solving games using decomposition*;
    where the other's strategy does not reach them either, the fallback.

    Args:
      problem: the games, in float64, with a payoff that has `entries()`.
      lane: index of the lane.
      goal: objective.
      name: name of the program, for errors.
      fallback: strategies at unreachable infosets, for example a blueprint's; floors are mixed in where a
        probability lies below its floor.
      time_limit: time limit in seconds, for all games together; by default none.

    Raises:
      ProgramError: if HiGHS does not solve a game, or the solution's gap exceeds `GAP_TOLERANCE`; the message
        names the program, the game and HiGHS's status.
      ValueError: if an array has the wrong shape, a number is out of range, or the payoff has no matrix.
    """
    program, time_left = build_program(problem, lane, goal, name), _countdown(time_limit)
    solutions = {
        part: run(program.part(part), program.part_name(part), time_limit=time_left())
        for part in program.parts()
    }
    plans = program.plans(solutions)
    iterations = sum(solution.iterations for solution in solutions.values())
    return _conclude(program, plans, (plans.opponent,), fallback, iterations)


def refined(
    problem_of: Callable[[float], Problem],
    lane: int,
    goal: Goal,
    *,
    name: str,
    start: float = 1e-3,
    shrink: float = 0.1,
    least: float = MIN_EPSILON,
    fallback: FallbackRows = NO_FALLBACK,
    time_limit: float | None = None,
) -> Optimum:
    """Finds a gadget game sequential equilibrium: a basis that is optimal for floors ε and for ε = 0.

    Source: Kubíček, Lisý and Sandholm (2026), §7.1. Each game is solved with ε. Its optimal basis is
    accepted if it remains optimal at ε = 0 (HiGHS, started at the basis, performs no iteration), exactly or
    up to rounding of the value (`VALUE_TOLERANCE`). Otherwise ε is reduced, and the next solve starts at the
    basis.

    The strategies are those of the basis at ε = 0. Floors immediately below a game's root only change its
    objective, affinely in ε; a basis that is optimal at both ends is therefore optimal for every ε' in
    between. The maximiser's plan is the same for all ε', and the opponent's moves along a segment:
    the strategies at ε = 0 are limits of equilibria of games with vanishing perturbations, which is the
    definition of a sequential equilibrium. (At ε itself the opponent still makes mistakes.) With floors
    further down, or on the maximiser's actions, the result is an equilibrium and the limit of the basis, but
    not necessarily a sequential equilibrium.

    Where the maximiser's strategy is completed, it responds to the opponent's plan at ε = 0, and to the plan
    at ε below infosets that only mistakes reach.

    Args:
      problem_of: function that builds the problem for an ε; problems differ only in the values of their
        floors.
      lane: index of the lane.
      goal: objective, in each game separately.
      name: name of the program, for errors.
      start: the first ε.
      shrink: factor from one ε to the next.
      least: smallest ε that is tried.
      fallback: as in `solve_program`.
      time_limit: time limit in seconds, for all solves together; by default none.

    Raises:
      ProgramError: as `solve_program`, or if no ε down to `least` is accepted for a game.
      ValueError: as `solve_program`, if a number is out of range, or if the goal joins the games.
    """
    if not (0 < least <= start < 1 and 0 < shrink < 1):
        raise ValueError(
            f"start={start}, shrink={shrink}, least={least}: expected 0 < least <= start < 1 and "
            "0 < shrink < 1"
        )
    if goal.joint:
        raise ValueError(f"goal={goal} of {name} joins its games: expected a goal with only a maximiser")
    time_left = _countdown(time_limit)

    @functools.cache
    def program_of(epsilon: float) -> Program:
        return build_program(problem_of(epsilon), lane, goal, name)

    exact = program_of(0.0)
    accepted: dict[int, ProgramSolution] = {}
    trembling: dict[int, ProgramSolution] = {}
    epsilons, weight = np.full(len(exact.nonempty), np.nan), exact.weight.copy()
    for game in exact.parts():
        epsilon, basis, limit = start, None, None
        while True:
            part_name = f"{exact.part_name(game)} with ε = {epsilon:.0e}"
            solution = run(program_of(epsilon).part(game), part_name, time_limit=time_left(), basis=basis)
            limit = _limit(exact.part(game), part_name, solution, time_left)
            if limit is not None:
                break
            if epsilon * shrink < least:
                raise ProgramError(
                    f"{exact.part_name(game)}: no optimal basis remains optimal at ε = 0, down to ε = "
                    f"{epsilon:.0e}; use a fixed ε, or a prior without tiny probabilities"
                )
            epsilon, basis = epsilon * shrink, solution.basis
        trembling[game], accepted[game] = solution, limit
        epsilons[game], weight[game] = epsilon, program_of(epsilon).weight[game]
    plans = exact.plans(accepted)
    opponents = (plans.opponent, exact.plans(trembling, weight).opponent)
    iterations = sum(solution.iterations for solution in accepted.values())
    optimum = _conclude(exact, plans, opponents, fallback, iterations)
    return dataclasses.replace(optimum, epsilon=epsilons)


def _limit(
    exact: Model, name: str, solution: ProgramSolution, time_left: Callable[[], float | None]
) -> ProgramSolution | None:
    """The solution at ε = 0 of a perturbed program's basis; None if the basis is not optimal at ε = 0."""
    limit = stays_optimal(exact, name, solution.basis, time_limit=time_left())
    if limit is not None:
        return limit
    rows = exact.matrix @ solution.x
    violation = np.maximum(exact.row_lower - rows, rows - exact.row_upper).max(initial=0.0)
    if violation > 10 * TOLERANCE:
        return None
    best = run(exact, name, time_limit=time_left(), basis=solution.basis)
    cost = float(exact.cost @ solution.x)
    if cost > best.cost + VALUE_TOLERANCE * max(1.0, abs(best.cost)):
        return None
    return dataclasses.replace(best, x=solution.x, cost=cost)


def _countdown(limit: float | None) -> Callable[[], float | None]:
    """Returns a function that gives the seconds left of a time limit for several runs; None for no limit."""
    end = None if limit is None else time.perf_counter() + limit
    return lambda: None if end is None else end - time.perf_counter()


def _conclude(
    program: Program,
    plans: Plans,
    opponents: tuple[FloatArray, ...],
    fallback: FallbackRows,
    iterations: int,
) -> Optimum:
    """Converts a program's plans to behaviour strategies, completed and checked.

    Args:
      program: the solved program.
      plans: both players' plans.
      opponents: arrays `[S]`, the opponent's plans to which the maximiser's completion responds, in this
        order.
      fallback: both players' strategies at unreachable infosets.
      iterations: number of iterations of the simplex method.
    """
    games, player = program.games, program.goal.maximiser
    maximiser, opponent = games.maximiser, games.opponent
    weight = plans.opponent[: opponent.num_games][opponent.game]  # of the guaranteed value: 1 unless joint
    response = np.where(weight > 0, plans.opponent / np.where(weight > 0, weight, 1.0), 0.0)
    rows, _ = maximiser.respond(
        tuple(games.maximiser_values(plan) for plan in opponents),
        *maximiser.behaviour(plans.maximiser, program.stakes[0]),
        maximiser.fallback(fallback[player]),
    )
    opponent_rows, _ = opponent.respond(
        (games.opponent_values(plans.maximiser),),
        *opponent.behaviour(response, program.stakes[1]),
        opponent.fallback(fallback[1 - player]),
    )
    value, gap = _check(program, plans, maximiser.plan(rows), opponent.plan(opponent_rows) * weight)
    return Optimum(
        value=np.where(program.nonempty, value, 0.0),
        gap=np.maximum(gap, 0.0),
        strategy=pair_for(player, maximiser.split(rows), opponent.split(opponent_rows)),
        iterations=iterations,
    )


def _check(
    program: Program, plans: Plans, plan: FloatArray, opponent_plan: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Computes the maximiser's guaranteed value, `[G]`, and the gap of both strategies, `[G]` or `[1]`.

    Args:
      program: the solved program.
      plans: both players' plans before completion, with the price of the least guaranteed value.
      plan: `[S]` the maximiser's plan.
      opponent_plan: `[S]` the opponent's plan × the weight of the guaranteed value.

    Raises:
      ProgramError: if a gap exceeds `GAP_TOLERANCE`.
    """
    games, goal = program.games, program.goal
    value = games.guaranteed(plan)
    best = games.maximiser.best_response(games.maximiser_values(opponent_plan))
    best -= games.opponent.sum_games(games.opponent.constants() * opponent_plan)
    if goal.joint:
        least = value.sum() if goal.at_least is None else goal.at_least
        earned = goal.guarantee_weight * value.sum() + games.bonus @ games.maximiser.payoff_reach(plan)
        gap = np.array([best.sum() - plans.price * least - earned])
        shortfall, unit = np.array([least - value.sum()]), program.unit[:1]
    else:
        gap, shortfall, unit = best - value, np.zeros_like(value), program.unit
    bad = ~((gap <= GAP_TOLERANCE * unit) & (shortfall <= GAP_TOLERANCE * unit))
    if bad.any():
        part = int(np.argmax(bad))
        raise ProgramError(
            f"{program.part_name(part)} is solved inaccurately: its strategies have a gap of {gap[part]:.2g} "
            f"for payoffs up to {unit[part]:.2g}; its numbers may differ by too many orders of magnitude"
        )
    return value, gap
