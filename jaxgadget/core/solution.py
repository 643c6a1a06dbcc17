"""Solves batches of games by regret matching or linear programs, and certifies the strategies."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from jaxgadget.core.batch import Batch
from jaxgadget.core.certificate import Certificate, Fallbacks, certify, certify_average, find_overflows
from jaxgadget.core.cfr import State
from jaxgadget.core.driver import Finished, OnCheck, Report, solve
from jaxgadget.core.lp.solve import Behaviour, Goal, ProgramError, refined, solve_program
from jaxgadget.core.memory import Plan
from jaxgadget.core.problem import Parts, Problem, Side, Terms, earned_alone, follow
from jaxgadget.core.solver import Solver
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision

Pair = tuple[FloatArray, FloatArray]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class BatchSolution:
    """A solved batch, on the host and in float64; G games without padding, L lanes.

    Attributes:
      strategy: both players' strategies below their roots, `[Q_p, L]`; `[0, L]` for a player whose strategy
        is not requested.
      guaranteed: for each player `[G, L]`, the least value of its strategy, in its own utility; see
        `Evaluation` for games that are not zero-sum.
      gap: `[G, L]` NashConv of each game: its optimum lies in [guaranteed, guaranteed + gap]. Rounding may
        make it negative.
      below: for each player `[R_o, L]`, value `V(s)` of its strategy at the *other* player's roots against
        the other player's best response below them, in its own utility and before the root's scale.
      entered: for each player `[R_p, L]`, probability that its own choices in the entry lead to each root.
      value: `[G, L]` player 0's value when both players follow these strategies; None unless requested.
      root_values: for each player `[R_p, L]`, its value below each of its roots when both players follow
        these strategies, in its own utility and before the root's scale; None unless requested.
      iterations: `[L]` number of iterations; of the simplex method for linear programs.
      epsilon: `[L]` the smallest ε of the lane's games, 0 if all are empty, NaN in failed lanes; None
        unless linear programs determine ε.
      plan: split of the lanes; None for linear programs.
      state: final state of the loop, from which to continue; None unless requested.
      failures: lanes whose linear programs were not solved, with the reason; their numbers are NaN.
    """

    strategy: Pair
    guaranteed: Pair
    gap: FloatArray
    below: Pair
    entered: Pair
    value: FloatArray | None
    root_values: Pair | None
    iterations: npt.NDArray[np.int64]
    epsilon: FloatArray | None = None
    plan: Plan | None = None
    state: State | None = None
    failures: dict[int, str] = dataclasses.field(default_factory=dict[int, str])

    @functools.cached_property
    def overflows(self) -> dict[int, int]:
        """Maps each lane with a gap that is not finite to the first such game."""
        return find_overflows(self.gap)


def solve_batch(
    batch: Batch,
    solver: Solver,
    fallback: Callable[[IntArray], Fallbacks] | None = None,
    *,
    players: tuple[int, ...] = (0, 1),
    played: bool = False,
    plan: Plan | None = None,
    state: State | None = None,
    keep_state: bool = False,
    names: Sequence[str] | None = None,
    goals: Sequence[Goal] | None = None,
    perturbed: Callable[[float], Batch] | None = None,
    report: Report | None = None,
    on_check: OnCheck | None = None,
) -> BatchSolution:
    """Solves all lanes of a batch and certifies both players' strategies in float64.

    Args:
      batch: the games.
      solver: settings of the solve.
      fallback: function of lane indices that returns both players' strategies where the average is not used
        or has no mass; by default the strategy is uniform where the average has no mass.
      players: players whose strategies are returned.
      played: also compute the values of both strategies against each other.
      plan: split of the lanes; by default planned here. No effect with linear programs.
      state: the state to continue from, as in `driver.solve`. No effect with linear programs.
      keep_state: also return the final state, of a batch in one chunk. No effect with linear programs.
      names: `L` names of the lanes, for errors of linear programs.
      goals: `L` goals of linear programs; by default the player who updates last maximises its guaranteed
        value in every game.
      perturbed: function of ε that builds the same games with that ε. If given, `batch` has ε = 0, and linear
        programs search for the largest ε whose optimal basis remains optimal at ε = 0 (`lp.refined`).
      report: progress callback; receives the number of completed iterations; for linear programs,
        `solver.num_iterations` × the share of solved lanes.
      on_check: as in `driver.solve`. No effect with linear programs.

    Raises:
      ValueError: if a checkpoint is of another solve or cannot be written, or the games do not fit in memory.
    """
    make_fallback = _no_fallback if fallback is None else fallback
    if names is None:
        names = [f"lane {lane} of {batch.name}" for lane in range(batch.num_lanes)]
    if solver.rule is None:
        return _solve_exactly(
            batch,
            solver,
            make_fallback,
            players=players,
            played=played,
            names=names,
            goals=goals,
            perturbed=perturbed,
            report=report,
        )

    def finish(ended: Finished) -> Certificate:
        sums, payoff_state = ended.release()
        rows = ended.placement.by_lane(make_fallback(ended.lanes))
        return _certify_average(ended.in_float64(), sums, rows, payoff_state, players=players, played=played)

    solved = solve(
        batch,
        solver,
        finish,
        plan=plan,
        state=state,
        keep_state=keep_state,
        report=report,
        on_check=on_check,
    )
    return _of_certificate(
        solved.outcome, batch, iterations=solved.iterations, plan=solved.plan, state=solved.state
    )


def _solve_exactly(
    batch: Batch,
    solver: Solver,
    fallback: Callable[[IntArray], Fallbacks],
    *,
    players: tuple[int, ...],
    played: bool,
    names: Sequence[str],
    goals: Sequence[Goal] | None,
    perturbed: Callable[[float], Batch] | None,
    report: Report | None,
) -> BatchSolution:
    """Solves a batch by linear programs, lane by lane; arguments as in `solve_batch`.

    A lane whose linear program is not solved is recorded in `failures` and does not affect the others.
    """
    num_lanes = batch.num_lanes
    strategies, failures = list[tuple[Behaviour, Behaviour]](), dict[int, str]()
    iterations, epsilon = np.zeros(num_lanes, np.int64), np.full(num_lanes, np.nan)
    with precision(np.float64):
        problem, fallbacks = batch.problem(), fallback(np.arange(num_lanes))
        if goals is None:
            goals = [Goal(maximiser=problem.order[1])] * num_lanes
        solve_lane = functools.partial(solve_program, problem)
        if perturbed is not None:
            problem_of = functools.cache(lambda e: perturbed(e).problem() if e else problem)
            solve_lane = functools.partial(refined, problem_of)
        fallback_rows = [None if x is None else np.asarray(x.rows) for x in fallbacks]
        for lane, (name, goal) in enumerate(zip(names, goals, strict=True)):
            first, second = (None if rows is None else rows[:, lane] for rows in fallback_rows)
            try:
                with np.errstate(
                    over="ignore", invalid="ignore"
                ):  # linear programs reject numbers that are not finite
                    optimum = solve_lane(
                        lane, goal, name=name, fallback=(first, second), time_limit=solver.time_limit
                    )
            except ProgramError as error:
                failures[lane] = str(error)
                strategies.append(_undefined_rows(problem))
            else:
                strategies.append(optimum.strategy)
                iterations[lane] = optimum.iterations
                if optimum.epsilon is not None:
                    is_empty = np.isnan(optimum.epsilon)
                    epsilon[lane] = min(optimum.epsilon[~is_empty].tolist(), default=0.0)
            if report is not None:
                report(solver.num_iterations * (lane + 1) // num_lanes)
        first, second = (_stack_lanes(rows) for rows in zip(*strategies, strict=True))
        certificate = _certify(problem, (first, second), fallbacks, players=players, played=played)
    return _of_certificate(
        jax.tree.map(np.asarray, certificate),
        batch,
        iterations=iterations,
        epsilon=None if perturbed is None else epsilon,
        failures=failures,
    )


def _undefined_rows(problem: Problem) -> tuple[Behaviour, Behaviour]:
    """Strategies of NaN, for a lane whose solve failed."""
    first, second = (
        Behaviour(np.full(side.entry.num_actions, np.nan), np.full(side.body.num_actions, np.nan))
        for side in problem.sides
    )
    return first, second


def _stack_lanes(rows: Sequence[Behaviour]) -> Parts:
    """Strategies of one player in every lane, on the device."""
    entry, body = (np.stack(lanes, axis=1) for lanes in zip(*rows, strict=True))
    return Parts(jax.device_put(entry), jax.device_put(body))


_certify = compiled(certify, quick=True, static_argnames=("players", "played"))
_certify_average = compiled(certify_average, quick=True, static_argnames=("players", "played"))


def _no_fallback(lanes: IntArray) -> Fallbacks:
    return None, None


def _of_certificate(
    certificate: Certificate, batch: Batch, *, iterations: npt.NDArray[np.int64], **more: Any
) -> BatchSolution:
    """Converts a certificate to a solution, without padding of games."""

    def games(x: Any) -> FloatArray:
        return x[: batch.num_games]

    first, second = certificate.guaranteed
    fields = certificate._asdict() | more
    fields["guaranteed"], fields["gap"] = (games(first), games(second)), games(certificate.gap)
    if certificate.value is not None:
        fields["value"] = games(certificate.value)
    return BatchSolution(iterations=np.asarray(iterations, np.int64), **fields)


def find_earnings(
    batch: Batch, player: int, strategies: Sequence[FloatArray], plan: Plan | None = None
) -> list[FloatArray]:
    """Payoff of a player with a fixed entry from the constants of its body, `[G, L]` for each strategy.

    Args:
      batch: the games, in float64.
      player: the player.
      strategies: strategies `[Q, L]` below the player's roots.
      plan: split of the lanes; by default a single chunk.
    """
    chunk, last = batch.num_lanes if plan is None else plan.chunk, batch.num_lanes - 1
    earned = [np.empty((batch.num_games, batch.num_lanes)) for _ in strategies]
    with precision(np.float64):
        for begin in range(0, batch.num_lanes, chunk):
            lanes = np.minimum(np.arange(begin, begin + chunk), last)
            terms = batch.terms(lanes)[player]
            for total, rows in zip(earned, strategies, strict=True):
                total[:, lanes] = _earned(batch.sides[player], terms, rows[:, lanes])[: batch.num_games]
    return earned


@compiled(quick=True)
def _earned(side: Side, terms: Terms, rows: jax.Array) -> jax.Array:
    entry = rows[: side.entry.num_actions]  # no rows, as the entry is fixed
    return earned_alone(side, terms, follow(side, terms, Parts(entry, rows)))
