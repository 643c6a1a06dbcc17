"""Problems solved by linear programs: exact values, strategies, gadget game sequential equilibria.

`program` makes the programs. Here they are run, their realisation plans become behaviours,
completed to counterfactual best responses, and the result is checked.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxgadget.core.lp.decisions import Rows
from jaxgadget.core.lp.highs import TOLERANCE, Model, ProgramError, ProgramSolution, run, stays_optimal
from jaxgadget.core.lp.program import Goal, Plans, Program, build_program, lane_games
from jaxgadget.core.problem import Parts, Problem
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.players import pair_for

__all__ = [
    "Goal",
    "Optimum",
    "ProgramError",
    "Rows",
    "guaranteed_value",
    "refined",
    "solve_lanes",
    "solve_program",
]

GAP_TOLERANCE = 1e-7
"""What both players together may still gain, as a share of a game's largest payoff or constant."""

MIN_EPSILON = 1e-8
"""Smaller floors than this disappear in HiGHS's tolerances."""

VALUE_TOLERANCE = 1e-10
"""A solution that misses a game's optimum by no more, as a share of its largest payoff, has it."""

FallbackRows = tuple[FloatArray | None, FloatArray | None]
"""Both players' `[Q_body]` rows for infosets that no strategy reaches; None: all actions alike."""

NO_FALLBACK: FallbackRows = (None, None)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Optimum:
    """A solved program. G games, padding included.

    Attributes:
      value: `[G]` what the maximiser's strategy guarantees, in its utility; 0 where nothing is.
      gap: `[G]` what both players could still gain: the optimum lies between value and
        value + gap. `[1]` if the games are one linear program (`Goal.joint`).
      strategy: player 0's and player 1's behaviour, the opponent's from the duals.
      iterations: of the simplex method, all together.
      epsilon: `[G]` what sufficed, where `refined` looked for it (NaN where nothing is).
    """

    value: FloatArray
    gap: FloatArray
    strategy: tuple[Rows, Rows]
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

    Where a player does not get by its own plan (`decisions.REACH_TOLERANCE`), it plays a pure
    counterfactual best response to the other's strategy, as *Solving games using decomposition*
    asks; where that strategy does not get either, the fallback.

    Args:
      problem: the games, in float64, with a payoff that has `entries()`.
      lane: which lane of them.
      goal: what to look for.
      name: of the program, for errors.
      fallback: rows for unreachable infosets, for example a blueprint's; floors are mixed
        in where they lie below.
      time_limit: in seconds, for all games together; by default none.

    Raises:
      ProgramError: if HiGHS does not solve a game, or the solution is not optimal within
        `GAP_TOLERANCE`; names the program, the game and what HiGHS said.
      ValueError: if arrays or numbers are not as expected, or the payoff has no matrix.
    """
    program, time_left = build_program(problem, lane, goal, name), _countdown(time_limit)
    solutions = {
        number: run(program.part(number), program.part_name(number), time_limit=time_left())
        for number in program.parts()
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
    """A gadget game sequential equilibrium: an optimal basis for floors ε that is optimal for 0.

    Source: Kubíček, Lisý and Sandholm (2026), §7.1. Every game is solved with ε. If its optimal
    basis stays optimal at ε = 0 (HiGHS, started there, has nothing to do), or but for rounding (its
    value does, `VALUE_TOLERANCE`), it is accepted. Else ε shrinks, and we go on from that basis.

    The strategies are the basis's at ε = 0. Floors right below a game's root change its objective
    alone, and that affinely in ε; so a basis that is optimal at both ends is optimal for every ε' in
    between. The maximiser's plan is the same for all of them, the opponent's moves along a segment:
    the strategies at ε = 0 are the limits of equilibria of ever less perturbed games, which is what
    a sequential equilibrium is. (At ε itself the opponent still errs.) With floors further down,
    or on the maximiser, the result is an equilibrium and the basis's limit, and no more is claimed.

    The maximiser's completion asks the opponent at ε = 0, and where only mistakes lead, at ε.

    Args:
      problem_of: the problem for an ε; problems differ in the numbers of their floors only.
      lane: which of their lanes.
      goal: what to look for, in each game by itself.
      name: of the program, for errors.
      start: the first ε.
      shrink: by what it is multiplied.
      least: no smaller ε is tried.
      fallback: as in `solve_program`.
      time_limit: in seconds, for everything together.

    Raises:
      ProgramError: as `solve_program`, and if no ε down to `least` suffices for a game.
      ValueError: as `solve_program`, if a number is out of range, or if the goal joins the games.
    """
    if not (0 < least <= start < 1 and 0 < shrink < 1):
        given = f"start={start}, shrink={shrink}, least={least}"
        raise ValueError(f"{given}: expected 0 < least <= start < 1 and 0 < shrink < 1")
    if goal.joint:
        raise ValueError(f"goal={goal} of {name} joins its games: expected a maximiser and nothing else")
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
            what = f"{exact.part_name(game)} with ε = {epsilon:.0e}"
            solution = run(program_of(epsilon).part(game), what, time_limit=time_left(), basis=basis)
            limit = _limit(exact.part(game), what, solution, time_left)
            if limit is not None:
                break
            if epsilon * shrink < least:
                raise ProgramError(
                    f"{exact.part_name(game)}: no optimal basis stays optimal at ε = 0, down to ε = "
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
    exact: Model, what: str, solution: ProgramSolution, time_left: Callable[[], float | None]
) -> ProgramSolution | None:
    """The solution at ε = 0 of a perturbed program's basis, if it is optimal there too, else None."""
    limit = stays_optimal(exact, what, solution.basis, time_limit=time_left())
    if limit is not None:
        return limit
    rows = exact.matrix @ solution.x
    violation = np.maximum(exact.row_lower - rows, rows - exact.row_upper).max(initial=0.0)
    if violation > 10 * TOLERANCE:
        return None
    best = run(exact, what, time_limit=time_left(), basis=solution.basis)
    cost = float(exact.cost @ solution.x)
    if cost > best.cost + VALUE_TOLERANCE * max(1.0, abs(best.cost)):
        return None
    return dataclasses.replace(best, x=solution.x, cost=cost)


def _countdown(limit: float | None) -> Callable[[], float | None]:
    """Seconds left of a time limit for many runs, None for no limit."""
    end = None if limit is None else time.perf_counter() + limit
    return lambda: None if end is None else end - time.perf_counter()


def _conclude(
    program: Program,
    plans: Plans,
    opponents: tuple[FloatArray, ...],
    fallback: FallbackRows,
    iterations: int,
) -> Optimum:
    """Behaviours, completed and checked.

    Args:
      program: what was solved.
      plans: what is played.
      opponents: `[S]` each, the opponent's plans that the maximiser's completion asks, in order.
      fallback: both players' rows at unreachable infosets.
      iterations: of the simplex method.
    """
    games, player = program.games, program.goal.maximiser
    maximiser, opponent = games.maximiser, games.opponent
    # What the guaranteed value weighs: 1, but for a joint goal.
    weight = plans.opponent[: opponent.num_games][opponent.game]
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
    strategy = (maximiser.split(rows), opponent.split(opponent_rows))
    return Optimum(
        value=np.where(program.nonempty, value, 0.0),
        gap=np.maximum(gap, 0.0),
        strategy=pair_for(player, *strategy),
        iterations=iterations,
    )


def _check(
    program: Program, plans: Plans, plan: FloatArray, opponent_plan: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Guaranteed value of the maximiser in every game, and its distance from the optimum at most.

    Args:
      program: what was solved.
      plans: what the linear programs said.
      plan: `[S]` what the maximiser plays.
      opponent_plan: `[S]` what the opponent plays, times what the guaranteed value weighs.

    Raises:
      ProgramError: if it is further than `GAP_TOLERANCE`.
    """
    games, goal = program.games, program.goal
    value = games.guaranteed(plan)
    most = games.maximiser.best_response(games.maximiser_values(opponent_plan))
    most -= games.opponent.sum_games(games.opponent.constants() * opponent_plan)
    if goal.joint:
        least = value.sum() if goal.at_least is None else goal.at_least
        earned = goal.guarantee_weight * value.sum() + games.bonus @ games.maximiser.payoff_reach(plan)
        gap, short = np.array([most.sum() - plans.price * least - earned]), np.array([least - value.sum()])
        unit = program.unit[:1]
    else:
        gap, short, unit = most - value, np.zeros_like(value), program.unit
    bad = ~((gap <= GAP_TOLERANCE * unit) & (short <= GAP_TOLERANCE * unit))
    if bad.any():
        number = int(np.argmax(bad))
        raise ProgramError(
            f"{program.part_name(number)} is solved badly: its strategies leave a gap of {gap[number]:.2g} "
            f"where payoffs reach {unit[number]:.2g}; its numbers may differ by too many orders of magnitude"
        )
    return value, gap


def guaranteed_value(problem: Problem, lane: int, player: int, strategy: Rows) -> FloatArray:
    """`[G]` what a player's strategy earns it in every game of a lane against a best response."""
    games = lane_games(problem, lane, Goal(maximiser=player), "a guaranteed value")
    return games.guaranteed(games.maximiser.plan(np.concatenate(strategy)))


class SolvedLanes(NamedTuple):
    """Lanes of a problem, solved by linear programs.

    Attributes:
      played: both players' strategies, `[Q, lanes]`.
      iterations: `[lanes]` of the simplex method.
      epsilon: `[lanes]` the smallest ε that any game of the lane needed, 0 where it has none, NaN in lanes
        that failed; None unless it was looked for.
      failures: lanes whose programs were not solved, and why; they are NaN in the rest.
    """

    played: tuple[Parts, Parts]
    iterations: IntArray
    epsilon: FloatArray | None
    failures: dict[int, str]


def solve_lanes(
    problem: Problem,
    names: Sequence[str],
    fallback: FallbackRows = NO_FALLBACK,
    *,
    perturbed: Callable[[float], Problem] | None = None,
    goals: Sequence[Goal] | None = None,
    time_limit: float | None = None,
    report: Callable[[int], None] = lambda lanes: None,
) -> SolvedLanes:
    """Solves all lanes of a problem by linear programs.

    A lane whose linear program is not solved leaves the others alone.

    Args:
      problem: the games, in float64.
      names: of the lanes, for errors.
      fallback: both players' rows `[Q_body, lanes]` for infosets that no strategy reaches.
      perturbed: makes the same games with another ε; if given, `problem` has ε = 0, see `refined`.
      goals: of the lanes; by default the player who updates last maximises its guaranteed value in each game.
      time_limit: in seconds, for every lane; by default none.
      report: progress callback; receives the number of lanes solved.
    """
    optima, failures = list[Optimum](), dict[int, str]()
    goals = [Goal(maximiser=problem.order[1])] * len(names) if goals is None else goals
    solve = functools.partial(solve_program, problem)
    if perturbed is not None:
        problem_of = functools.cache(perturbed)
        solve = functools.partial(refined, lambda epsilon: problem_of(epsilon) if epsilon else problem)
    for lane, (name, goal) in enumerate(zip(names, goals, strict=True)):
        first, second = (None if rows is None else rows[:, lane] for rows in fallback)
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
                found = solve(lane, goal, name=name, fallback=(first, second), time_limit=time_limit)
        except ProgramError as error:
            failures[lane] = str(error)
            found = _nothing(problem)
        optima.append(found)
        report(lane + 1)
    first, second = (_stack([optimum.strategy[p] for optimum in optima]) for p in (0, 1))
    epsilons = [np.nan if optimum.epsilon is None else _least(optimum.epsilon) for optimum in optima]
    return SolvedLanes(
        played=(first, second),
        iterations=np.array([optimum.iterations for optimum in optima]),
        epsilon=None if perturbed is None else np.array(epsilons),
        failures=failures,
    )


def _nothing(problem: Problem) -> Optimum:
    """A lane whose programs were not solved: all numbers are NaN."""
    first, second = (
        Rows(np.full(side.entry.num_actions, np.nan), np.full(side.body.num_actions, np.nan))
        for side in problem.sides
    )
    unknown = np.full(1, np.nan)
    return Optimum(value=unknown, gap=unknown, strategy=(first, second), iterations=0)


def _least(epsilon: FloatArray) -> float:
    """The smallest ε of a lane's games, 0 where none of them has one."""
    return 0.0 if np.isnan(epsilon).all() else float(np.nanmin(epsilon))


def _stack(strategies: Sequence[Rows]) -> Parts:
    """Lanes side by side, on the device."""
    entry, body = (np.stack(rows, axis=1) for rows in zip(*strategies, strict=True))
    return Parts(jax.device_put(entry), jax.device_put(body))
