"""Responses to opponents in whole games: all models and all p in one batch, by CFR or linear programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.checkpoint import load_chunk, save_chunk
from jaxgadget.core.driver import checked_plan
from jaxgadget.core.lp.solve import Goal
from jaxgadget.core.memory import plan_batch
from jaxgadget.core.problem import Problem
from jaxgadget.core.regret import Rule
from jaxgadget.core.solution import BatchSolution, solve_batch
from jaxgadget.core.solver import LP, Solver, choose_solver
from jaxgadget.opponents.games import biased_games, mixed_games
from jaxgadget.opponents.opponent import Opponent, OpponentLike, Opponents, list_opponents, show_probability
from jaxgadget.opponents.result import BEST_NASH, DATA_BIASED, RESTRICTED_NASH, Responses
from jaxgadget.policy.evaluate import (
    VALUE_TOLERANCE,
    check_value,
    evaluate_policy,
    normalise_rows,
    whole_problem,
)
from jaxgadget.policy.exact import exact_problem, find_value
from jaxgadget.policy.policy import PolicyLike, as_policy
from jaxgadget.tree.public import Tree, check_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.files import make_folder
from jaxgadget.util.players import Bracket, sign_of
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

EQUILIBRIUM_TOLERANCE = 1e-9
"""Default tolerance of `best_nash` with linear programs, as a fraction of the payoff range."""

CFR_TOLERANCE = 1e-3
"""Default tolerance of `best_nash` with CFR, as a fraction of the payoff range."""

WORDS = {
    RESTRICTED_NASH: "restricted Nash response",
    BEST_NASH: "best equilibrium",
    DATA_BIASED: "data-biased response",
}
"""Names of the methods in errors."""

DEFAULTS = Solver(iterations=1000, dtype="float64")
"""Default settings of responses, those of whole games."""

LABELS = {RESTRICTED_NASH: "rnr:{p}:", BEST_NASH: "best-equilibrium:", DATA_BIASED: "data-biased:{p}:"}
"""Prefixes of the model's label in the label of a response."""


def respond(
    tree: Tree,
    opponents: OpponentLike | Sequence[OpponentLike],
    *,
    player: int = 0,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Responses:
    """A player's restricted Nash responses in the whole game, to every model with every p.

    Maximises p·u(x, σ_F) + (1−p)·guaranteed value: the opponent follows its model σ_F with probability p,
    drawn once at the root, and is free otherwise. p = 1 is a best response, p = 0 an equilibrium strategy,
    and in between the response is the least exploitable of all strategies with the same gain. All lanes are
    one batch, and another model or p reuses its program. Source: Johanson, Zinkevich and Bowling (2007),
    Computing robust counter-strategies.

    The objective is unique; strategies need not be. Gains are unique except at p = 0 and at the few p where
    the optimal response changes. At p = 1 the response is arbitrary where it makes no difference against the
    model, so its exploitability is not determined and has no bound. Near p = 1 the free opponent's share
    vanishes relative to the model's: float32 does not resolve it below 1−p ≈ 1e-6.

    Args:
      tree: the game, by histories or by hands.
      opponents: one or several, `Opponent(model, p)`; each may have several models and p, all crossed.
      player: the responding player, 0 or 1.
      value: bracket of player 0's value of the game; by default from `game_value(tree)` or a linear program.
      solver: settings; by default 1000 iterations of CFR+ in float64. With `lp`, one linear program per lane.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: for a model of another game, an object that is no `Opponent`, an argument out of range, or a
        `value` that contradicts the best responses to the models.
    """
    chosen = choose_solver(solver, DEFAULTS, iterations=iterations, algorithm=algorithm)
    return _respond_by(RESTRICTED_NASH, tree, opponents, chosen, player, value)


def data_biased_response(
    tree: Tree,
    opponents: OpponentLike | Sequence[OpponentLike],
    *,
    player: int = 0,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Responses:
    """A player's responses to opponents that follow their model with probability p at every infoset.

    The opponent's probabilities are at least p·σ_F. Unlike in `respond`, there is a draw at every infoset, so
    the response's exploitability has no bound; `objective` is its guaranteed value against opponents within
    these floors. At p = 1 both are best responses. Source: Johanson and Bowling (2009), Data biased robust
    counter strategies, with one p for all infosets.

    Args:
      tree: the game, by histories or by hands.
      opponents: as in `respond`.
      player: the responding player, 0 or 1.
      value: bracket of player 0's value of the game, as in `respond`.
      solver: settings and defaults of `respond`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: as `respond`. With `lp` a lane where p × a model's probability is positive but tiny fails.
    """
    chosen = choose_solver(solver, DEFAULTS, iterations=iterations, algorithm=algorithm)
    return _respond_by(DATA_BIASED, tree, opponents, chosen, player, value)


def best_nash(
    tree: Tree,
    models: PolicyLike | Sequence[PolicyLike],
    *,
    player: int = 0,
    tolerance: float | None = None,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Responses:
    """Equilibrium strategies of a player with the highest value against models: the limit of p → 0⁺.

    There are two linear programs for each model: the first computes the value of the game, the second
    maximises the value against the model among strategies that guarantee it up to the tolerance. With CFR the
    result is a restricted Nash response with p = tolerance / (tolerance + best-response gain), at most ½: as
    no gain is larger, its exploitability is at most tolerance + gap / (1−p), and its gain is at least that of
    the best equilibrium minus gap / p.

    Args:
      tree: the game, by histories or by hands.
      models: models of the opponent, one lane each, as `as_policy` accepts them.
      player: the responding player, 0 or 1.
      tolerance: maximum of the value of the game minus the guaranteed value, in units of payoff; by default
        `EQUILIBRIUM_TOLERANCE` times the payoff range, or with CFR `CFR_TOLERANCE` times it.
      value: bracket of player 0's value of the game; with `lp` strategies must guarantee its lower end.
      solver: settings, with the defaults of `respond` except for linear programs.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`; by default `lp`.

    Raises:
      ValueError: as `respond`, or if the tolerance is not a positive number.
    """
    if tolerance is not None and not (is_finite_number(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance={tolerance!r}: expected a positive number, in units of the payoff")
    listed: Sequence[Any] = (
        [models] if isinstance(models, str) or not isinstance(models, Sequence) else models
    )
    if any(isinstance(model, OpponentLike) for model in listed):
        raise ValueError(f"models={models!r}: expected policies; a best equilibrium has no p")
    opponents = Opponent(as_policy(models, tree, name="models"))
    default = dataclasses.replace(DEFAULTS, algorithm=LP)
    chosen = choose_solver(solver, default, iterations=iterations, algorithm=algorithm)
    return _respond_by(BEST_NASH, tree, opponents, chosen, player, value, tolerance)


def _respond_by(
    method: str,
    tree: Tree,
    opponents: OpponentLike | Sequence[OpponentLike],
    solver: Solver,
    player: int,
    value: tuple[float, float] | None,
    tolerance: float | None = None,
) -> Responses:
    """Validates the arguments, solves, and evaluates the responses in the full game."""
    check_tree(tree)
    check_value(value, tree)
    task = _Task(tree, list_opponents(opponents, tree), check_player(player), method, solver)
    _check_bracket(value, task.opponents)
    by_cfr, watch = solver.rule is not None, Stopwatch()
    if tolerance is None:
        tolerance = tree.payoff_range * (CFR_TOLERANCE if by_cfr else EQUILIBRIUM_TOLERANCE)
    guarantee = "" if value is None else f", guaranteeing the lower end of value={value!r}"
    with watch.phase("run"):
        if value is None:
            value = find_value(tree, not by_cfr, solver.progress, time_limit=solver.time_limit)
        bracket = Bracket(float(value[0]), float(value[1]))
        least, most = bracket.for_player(player)
        if method == BEST_NASH and by_cfr:
            task = task._replace(opponents=_nearly_nash(task, least, tolerance))
    if by_cfr:
        solution = _solve_by_cfr(task, watch)
    else:
        solution = _solve_exactly(task, least - tolerance, guarantee, watch)
    gap = most - solution.guaranteed[player] if method == BEST_NASH and not by_cfr else solution.gap
    with watch.phase("run"):
        return _measure(task, solution, np.maximum(gap[0], 0.0), bracket, watch)  # below 0 is rounding


def _check_bracket(value: tuple[float, float] | None, opponents: Opponents) -> None:
    """Raises ValueError if the value of a best response to a model contradicts the bracket.

    A best response to any strategy has at least the value of the game.
    """
    if value is None:
        return
    to_first, to_second = evaluate_policy(opponents.models).best_response_values
    most, least = float(to_second.min()), float(-to_first.min())
    if value[0] > most + VALUE_TOLERANCE or value[1] < least - VALUE_TOLERANCE:
        raise ValueError(
            f"value={value!r}: best responses to the models show that player 0's value of "
            f"{opponents.models.tree.game.name} lies between {least:.6g} and {most:.6g}; expected a bracket "
            "of it, or None"
        )


class _Task(NamedTuple):
    """Validated arguments of a solve.

    Attributes:
      tree: the game, by histories or by hands.
      opponents: the opponents, one lane each.
      player: the responding player.
      method: kind of the responses.
      solver: settings of the solve.
    """

    tree: Tree
    opponents: Opponents
    player: int
    method: str
    solver: Solver

    @property
    def name(self) -> str:
        """Method, player and game, for errors."""
        return f"{WORDS[self.method]} of player {self.player} in {self.tree.game.name}"

    def batch(self, whole: Problem) -> Batch:
        """The batch of games, given the whole game in float64."""
        games = biased_games if self.method == DATA_BIASED else mixed_games
        batch = games(whole, sequence_form(self.tree), self.opponents, self.player)
        return dataclasses.replace(batch, name=f"{self.method}-player{self.player}")


def _nearly_nash(task: _Task, least: float, tolerance: float) -> Opponents:
    """The models, with a p such that p·G / (1−p) is within the tolerance for all G ≤ best-response gain."""
    values = evaluate_policy(task.opponents.models).best_response_values[1 - task.player]
    most_gain = np.maximum(values[task.opponents.model] - least, 0.0)
    return dataclasses.replace(task.opponents, p=np.minimum(tolerance / (tolerance + most_gain), 0.5))


def _solve_by_cfr(task: _Task, watch: Stopwatch) -> BatchSolution:
    solver, folder = task.solver, task.solver.checkpoint_path
    with watch.phase("build"):
        batch = task.batch(whole_problem(task.tree, 1, np.float64, solver.placement))
        settled = solver.chunk if folder is None else load_chunk(folder, batch.name, batch.num_lanes)
        plan = plan_batch(
            batch,
            solver.precision,
            solver.placement,
            rule=solver.iterative_rule(),
            memory_limit=solver.memory_limit,
            chunk=settled,
        )
        if settled is None:
            plan = checked_plan(batch, solver, plan)
        if folder is not None:
            make_folder(folder)
            save_chunk(folder, batch.name, batch.num_lanes, plan.chunk)

    with (
        watch.phase("run"),
        progress_bar("responding", solver.num_iterations, solver.progress) as report,
    ):
        return solve_batch(batch, solver, players=(task.player,), plan=plan, report=report)


def _solve_exactly(task: _Task, at_least: float, guarantee: str, watch: Stopwatch) -> BatchSolution:
    """Solves a linear program for each lane.

    Those of a best equilibrium guarantee `at_least`; `guarantee` describes its source in errors.
    """
    opponents, form = task.opponents, sequence_form(task.tree)
    goals, ending = None, ""
    with watch.phase("build"), precision(np.float64):
        batch = task.batch(exact_problem(form))
        if task.method == BEST_NASH:
            ending = guarantee
            earned = opponents.in_form(form, task.player).earned
            best = Goal(maximiser=task.player, guarantee_weight=0.0, at_least=at_least)
            goals = [dataclasses.replace(best, bonus=earned[:, model]) for model in opponents.model.tolist()]
    names = [
        f"{task.name}, to {label!r} with p = {p:g}{ending}"
        for label, p in zip(opponents.labels, opponents.p, strict=True)
    ]
    solver = task.solver
    with (
        watch.phase("run"),
        progress_bar("responding", solver.num_iterations, solver.progress) as report,
    ):
        return solve_batch(batch, solver, players=(task.player,), names=names, goals=goals, report=report)


def _measure(
    task: _Task, solution: BatchSolution, gap: FloatArray, bracket: tuple[float, float], watch: Stopwatch
) -> Responses:
    """The responses as policies, against their models and against best responses."""
    tree, player, opponents = task.tree, task.player, task.opponents
    models, infosets = opponents.policy, tree.infosets[player]
    rows = np.empty_like(models.probabilities[player])
    sequence = sequence_form(tree).action_sequences(player)
    is_possible = sequence >= 0  # the others are of impossible hands
    rows[sequence[is_possible] - 1] = solution.strategy[player][is_possible]
    is_solved = np.array([lane not in solution.failures for lane in range(len(opponents))])
    rows = np.where(is_solved, rows, models.probabilities[player])
    rows = normalise_rows(rows, infosets.infoset[1:])
    labels = tuple(
        LABELS[task.method].format(p=show_probability(p)) + ("none" if label is None else label)
        for p, label in zip(opponents.p, opponents.labels, strict=True)
    )
    policy = dataclasses.replace(models.with_player(player, rows), labels=labels)
    values = evaluate_policy(policy)
    against_model = sign_of(player) * values.value
    objective = solution.guaranteed[player][0]
    numbers = against_model, -values.best_response_values[player], objective, gap
    against_model, guaranteed, objective, gap = (np.where(is_solved, x, np.nan) for x in numbers)
    return Responses(
        player=player,
        method=task.method,
        opponents=opponents,
        policy=policy,
        value_against_model=against_model,
        guaranteed_value=guaranteed,
        best_response_value=values.best_response_values[1 - player],
        objective=objective,
        gap=gap,
        game_value=bracket,
        algorithm=task.solver.name,
        iterations=solution.iterations,
        target_gap=task.solver.max_gap,
        seconds=watch.seconds,
        plan=solution.plan,
        failures=solution.failures,
    )
