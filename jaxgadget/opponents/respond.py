"""Responses to opponents in whole games: all models and all p in one batch, by CFR or linear programs."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.certificate import Certificate, certify, certify_average
from jaxgadget.kernels.problem import Parts, Problem
from jaxgadget.kernels.regret import Rule
from jaxgadget.opponents.games import biased_games, earned_against, mixed_games
from jaxgadget.opponents.opponent import Opponent, Opponents, list_opponents, show_probability
from jaxgadget.opponents.result import BEST_NASH, DATA_BIASED, RESTRICTED_NASH, Responses
from jaxgadget.policy.evaluate import (
    VALUE_TOLERANCE,
    check_value,
    evaluate_policy,
    normalise_rows,
    whole_problem,
)
from jaxgadget.policy.exact import exact_problem, find_value
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.solving.checkpoint import load_chunk, save_chunk
from jaxgadget.solving.devices import Device
from jaxgadget.solving.driver import Finished, checked_plan
from jaxgadget.solving.driver import solve as solve_batch
from jaxgadget.solving.lp import Goal, solve_lanes
from jaxgadget.solving.memory import Plan, plan_batch
from jaxgadget.solving.options import LP, SolveOptions, make_options
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.tree.sequence import sequence_form
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.compilation import compile_quickly
from jaxgadget.util.files import make_folder
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar

EQUILIBRIUM_TOLERANCE = 1e-9
"""By how much `best_nash` with linear programs may guarantee less than the value, as a share of the payoff
range."""

CFR_TOLERANCE = 1e-3
"""The same by CFR, unless another tolerance is asked for."""

WORDS = {
    RESTRICTED_NASH: "restricted Nash response",
    BEST_NASH: "best equilibrium",
    DATA_BIASED: "data-biased response",
}
"""What errors call a method."""

LABELS = {RESTRICTED_NASH: "rnr:{p}:", BEST_NASH: "best-equilibrium:", DATA_BIASED: "data-biased:{p}:"}
"""What stands before the model's label in a response's."""


def respond(
    tree: HistoryTree,
    opponents: Opponent | Opponents | Sequence[Opponent],
    *,
    player: int = 0,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float64",
    value: tuple[float, float] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    progress: bool | None = None,
) -> Responses:
    """A player's restricted Nash responses in the whole game, to every model with every p.

    Maximises p·u(x, σ_F) + (1−p)·guaranteed value: the opponent is its model σ_F with probability p, drawn
    once at the root, else free. p = 1 is a best response, p = 0 an equilibrium strategy, and in between the
    response is the least exploitable of all that gain as much. All lanes are one batch: the same program for
    another model or p. Source: Johanson, Zinkevich and Bowling (2007), Computing robust counter-strategies.

    Objectives are unique; strategies are not, and gains are but for the few p, and p = 0, at which one
    response gives way to another. At p = 1 nothing holds the response back where it makes no difference
    against the model, so its exploitability there is no property of the method, and has no bound. Near p = 1
    the free opponent's share vanishes beside the model's: below about 1−p = 1e-6 float32 does not see it.

    Args:
      tree: the game's histories.
      opponents: one or several, `Opponent(model, p)`; each may have several models and p, all crossed.
      player: 0 or 1, who responds.
      algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, `sapcfr+`, a `Rule`, or `lp`: exact, a linear
        program a lane, which needs no iterations or `dtype` and takes no `target_gap` or `checkpoint`.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when no lane of a chunk has a larger gap; in units of payoff.
      check_every: iterations between two looks at the gap.
      dtype: of the solve, `float32` or `float64`; certificates are always in float64.
      value: bracket of player 0's value of the game, if known; else `game_value(tree)`, or a linear program.
      checkpoint: a folder to resume from and to save to, a file a chunk of lanes.
      time_limit: for `lp`, in seconds for every lane; by default none.
      memory_limit: bytes that a solve may take on each device; lanes are split until that suffices.
      devices: over which lanes are spread; by default all of `jax.local_devices()`.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for a model of another game, something that is no `Opponent`, an argument out of range, or
        a `value` that best responses to the models contradict.
    """
    return _respond_by(
        RESTRICTED_NASH,
        tree,
        opponents,
        player=player,
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=dtype,
        value=value,
        checkpoint=checkpoint,
        time_limit=time_limit,
        memory_limit=memory_limit,
        devices=devices,
        progress=progress,
    )


def data_biased_response(
    tree: HistoryTree, opponents: Opponent | Opponents | Sequence[Opponent], **options: Any
) -> Responses:
    """A player's responses to opponents who follow their model with probability p at every infoset anew.

    The opponent plays at least p·σ_F everywhere. Unlike in `respond` the draw is not once for the whole
    game, so nothing bounds the response's exploitability; `objective` is what it gets at least against
    opponents who keep to these floors. At p = 1 both are best responses. Source: Johanson and Bowling (2009),
    Data biased robust counter strategies, with one p for all infosets.

    Args:
      tree: the game's histories.
      opponents: as in `respond`.
      **options: of `respond`.

    Raises:
      ValueError: as `respond`. With `lp` a lane where p × a model's probability is positive but tiny fails.
    """
    return _respond_by(DATA_BIASED, tree, opponents, **options)


def best_nash(
    tree: HistoryTree,
    models: PolicyLike | Sequence[PolicyLike],
    *,
    algorithm: str | Rule = LP,
    tolerance: float | None = None,
    **options: Any,
) -> Responses:
    """Of a player's equilibrium strategies those that do best against models: the limit of p → 0⁺.

    By linear programs, two for each model: the first finds the value of the game, the second maximises the
    value against the model among strategies that guarantee it less the tolerance. By CFR it is a restricted
    Nash response with p = tolerance / (tolerance + best-response gain), at most ½: as no gain is larger, its
    exploitability is at most tolerance + gap / (1−p), and its gain is at least the best equilibrium's less
    gap / p.

    Args:
      tree: the game's histories.
      models: of the opponent, a lane each, as `as_policy` takes them.
      algorithm: `lp`, or what else `respond` takes.
      tolerance: by how much the strategy may guarantee less than the value of the game, in units of payoff;
        by default `EQUILIBRIUM_TOLERANCE` of the payoff range, or `CFR_TOLERANCE` of it by CFR.
      **options: of `respond`; with `lp` strategies must guarantee the lower end of `value`.

    Raises:
      ValueError: as `respond`, or if the tolerance is not a positive number.
    """
    if tolerance is not None and not (is_finite_number(tolerance) and tolerance > 0):
        raise ValueError(f"tolerance={tolerance!r}: expected a positive number, in units of the payoff")
    listed: Sequence[Any] = (
        [models] if isinstance(models, str) or not isinstance(models, Sequence) else models
    )
    if any(isinstance(model, Opponent | Opponents) for model in listed):
        raise ValueError(f"models={models!r}: expected policies; a best equilibrium has no p")
    opponents = Opponent(as_policy(models, tree, name="models"))
    return _respond_by(BEST_NASH, tree, opponents, tolerance, algorithm=algorithm, **options)


def _respond_by(
    method: str,
    tree: HistoryTree,
    opponents: Opponent | Opponents | Sequence[Opponent],
    tolerance: float | None = None,
    *,
    player: int = 0,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    dtype: DTypeLike = "float64",
    value: tuple[float, float] | None = None,
    progress: bool | None = None,
    **how: Any,
) -> Responses:
    """Checks what was asked for, solves it, and measures what came out in the full game.

    Args:
      method: which responses.
      tree: the game's histories.
      opponents: to whom.
      tolerance: of `best_nash`.
      player: this and what follows as in `respond`.
      algorithm: see there.
      iterations: see there.
      dtype: see there.
      value: see there.
      progress: see there.
      **how: what else `make_options` takes.
    """
    options = make_options(algorithm=algorithm, iterations=iterations, dtype=dtype, **how)
    check_tree(tree)
    check_value(value, tree)
    task = _Task(tree, list_opponents(opponents, tree), check_player(player), method, options, progress)
    _check_bracket(value, task.opponents)
    by_cfr, watch = options.rule is not None, Stopwatch()
    if tolerance is None:
        tolerance = tree.payoff_range * (CFR_TOLERANCE if by_cfr else EQUILIBRIUM_TOLERANCE)
    given = "" if value is None else f", guaranteeing the lower end of value={value!r}"
    with watch.phase("run"):
        if value is None:
            value = find_value(tree, not by_cfr, progress, time_limit=options.time_limit)
        bracket = float(value[0]), float(value[1])
        least, most = bracket if player == 0 else (-bracket[1], -bracket[0])
        if method == BEST_NASH and by_cfr:
            task = task._replace(opponents=_nearly_nash(task, least, tolerance))
    solved = _solve_by_cfr(task, watch) if by_cfr else _solve_exactly(task, least - tolerance, given, watch)
    if method == BEST_NASH and not by_cfr:
        solved = solved._replace(gap=np.maximum(most - solved.objective, 0.0))
    with watch.phase("run"):
        return _measure(task, solved, bracket, watch)


def _check_bracket(value: tuple[float, float] | None, opponents: Opponents) -> None:
    """ValueError if what a player's best response gets against a model's half contradicts the bracket.

    Nobody can be kept from the game's value, so the best response to any strategy gets at least that.
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
    """What to solve, checked.

    Attributes:
      tree: the game's histories.
      opponents: a lane each.
      player: who responds.
      method: which responses.
      options: how.
      progress: see `respond`.
    """

    tree: HistoryTree
    opponents: Opponents
    player: int
    method: str
    options: SolveOptions
    progress: bool | None

    @property
    def name(self) -> str:
        """Of the method, the player and the game, for errors."""
        return f"{WORDS[self.method]} of player {self.player} in {self.tree.game.name}"

    def batch(self, whole: Problem) -> Batch:
        """The games, of the whole one in float64."""
        games = biased_games if self.method == DATA_BIASED else mixed_games
        batch = games(whole, sequence_form(self.tree), self.opponents, self.player)
        return dataclasses.replace(batch, name=f"{self.method}-player{self.player}")


class _LaneResponses(NamedTuple):
    """What came out, a lane each.

    Attributes:
      rows: `[Q_body, lanes]` the responding player's.
      objective: `[lanes]`.
      gap: `[lanes]`.
      iterations: `[lanes]`.
      plan: how lanes were split.
      failures: lanes that were not solved, and why.
    """

    rows: FloatArray
    objective: FloatArray
    gap: FloatArray
    iterations: npt.NDArray[np.int64]
    plan: Plan | None
    failures: dict[int, str]


def _nearly_nash(task: _Task, least: float, tolerance: float) -> Opponents:
    """The same models with p so small that p·G / (1−p) is within the tolerance, as G ≤ best-response gain."""
    values = evaluate_policy(task.opponents.models).best_response_values[1 - task.player]
    most_gain = np.maximum(values[task.opponents.model] - least, 0.0)
    return dataclasses.replace(task.opponents, p=np.minimum(tolerance / (tolerance + most_gain), 0.5))


def _solve_by_cfr(task: _Task, watch: Stopwatch) -> _LaneResponses:
    options, folder = task.options, task.options.checkpoint
    with watch.phase("build"):
        batch = task.batch(whole_problem(task.tree, 1, np.float64))
        settled = options.chunk if folder is None else load_chunk(folder, batch.name, batch.num_lanes)
        plan = plan_batch(
            batch, options.dtype, options.placement, memory_limit=options.memory_limit, chunk=settled
        )
        if settled is None:
            plan = checked_plan(batch, options, plan)
        if folder is not None:
            make_folder(folder)
            save_chunk(folder, batch.name, batch.num_lanes, plan.chunk)

    def finish(ended: Finished) -> Certificate:
        sums = ended.release()
        return _conclude(ended.in_float64(), sums)

    with watch.phase("run"), progress_bar("responding", options.iterations, task.progress) as report:
        solved = solve_batch(batch, options, finish, plan=plan, report=report)
    return _solved(task, solved.outcome, solved.iterations, solved.plan, {})


def _solve_exactly(task: _Task, at_least: float, given: str, watch: Stopwatch) -> _LaneResponses:
    """A linear program a lane; those of a best equilibrium guarantee at least so much.

    `given` says in their errors where that comes from.
    """
    opponents, form = task.opponents, sequence_form(task.tree)
    done = itertools.count(1)
    goals, ending = None, ""
    with watch.phase("build"), precision(np.float64):
        problem = task.batch(exact_problem(form)).problem()
        if task.method == BEST_NASH:
            ending = given
            earned = earned_against(form, opponents.models, task.player)
            best = Goal(maximiser=task.player, guarantee_weight=0.0, at_least=at_least)
            goals = [dataclasses.replace(best, bonus=earned[:, model]) for model in opponents.model.tolist()]
    names = [
        f"{task.name}, to {label!r} with p = {p:g}{ending}"
        for label, p in zip(opponents.labels, opponents.p, strict=True)
    ]
    with (
        watch.phase("run"),
        precision(np.float64),
        progress_bar("responding", len(names), task.progress) as report,
    ):
        programs = solve_lanes(
            lambda _: problem,
            range(len(names)),
            names,
            goals=goals,
            time_limit=task.options.time_limit,
            report=lambda: report(next(done)),
        )
        certificate = jax.tree.map(np.asarray, _certify(problem, programs.played))
    return _solved(task, certificate, programs.iterations, None, programs.failures)


@compile_quickly
def _conclude(problem: Problem, strategy_sum: tuple[Parts, Parts]) -> Certificate:
    """The certificate of averages."""
    exact = jax.tree.map(lambda x: x.astype(problem.dtype), strategy_sum)
    return certify_average(problem, exact, (None, None))


@compile_quickly
def _certify(problem: Problem, played: tuple[Parts, Parts]) -> Certificate:
    """The certificate of strategies that come from linear programs."""
    return certify(problem, played, (None, None))


def _solved(
    task: _Task,
    certificate: Certificate,
    iterations: Any,
    plan: Plan | None,
    failures: dict[int, str],
) -> _LaneResponses:
    rows, objective = (np.asarray(x[task.player]) for x in (certificate.strategy, certificate.guaranteed))
    gap = np.maximum(np.asarray(certificate.gap)[0], 0.0)  # less is rounding
    return _LaneResponses(rows, objective[0], gap, np.asarray(iterations, np.int64), plan, failures)


def _measure(
    task: _Task, solved: _LaneResponses, bracket: tuple[float, float], watch: Stopwatch
) -> Responses:
    """The responses as policies, against their models and against best responses."""
    tree, player, opponents = task.tree, task.player, task.opponents
    models, infosets = opponents.policy, tree.infosets[player]
    rows = np.empty_like(models.probabilities[player])
    rows[sequence_form(tree).action_sequences(player) - 1] = solved.rows
    is_solved = np.array([lane not in solved.failures for lane in range(len(opponents))])
    rows = np.where(is_solved, rows, models.probabilities[player])
    rows = normalise_rows(rows, infosets.infoset[1:])
    pair = (rows, models.probabilities[1]) if player == 0 else (models.probabilities[0], rows)
    labels = tuple(
        LABELS[task.method].format(p=show_probability(p)) + ("none" if label is None else label)
        for p, label in zip(opponents.p, opponents.labels, strict=True)
    )
    policy = Policy(tree, pair, labels)
    values = evaluate_policy(policy)
    against_model = values.value if player == 0 else -values.value
    numbers = against_model, -values.best_response_values[player], solved.objective, solved.gap
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
        algorithm=task.options.algorithm,
        iterations=solved.iterations,
        target_gap=task.options.target_gap,
        seconds=watch.seconds,
        plan=solved.plan,
        failures=solved.failures,
    )
