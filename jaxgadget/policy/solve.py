"""Solving whole games: equilibria and blueprints, by CFR or exactly."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.problem import Problem, with_floors
from jaxgadget.kernels.regret import RegretMatching, Rule, find_rule
from jaxgadget.policy.evaluate import (
    average_bodies,
    evaluate_parts,
    evaluate_policy,
    to_parts,
    to_policy,
    whole_problem,
)
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.policy.floors import Floors, check_floors
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.driver import Solved
from jaxgadget.solving.driver import solve as solve_batch
from jaxgadget.solving.options import LP, SolveOptions, check_iterations, make_options
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.tree.sequence import sequence_form
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SolvedGame(abc.ABC):
    """How well a game is solved, in whatever form, with a certificate in float64.

    Attributes:
      value: what player 0 gets when both play them.
      best_response_values: what player 1 gets at best against player 0's, and player 0
        against player 1's.
      nash_conv: their sum; OpenSpiel's `exploitability` is half of it.
      gap: what both could gain by best responses that keep to the floors; without floors, NashConv.
      algorithm: the rule's name, or `lp`.
      iterations: how many were done; of the simplex method for `lp`.
      target_gap: what was aimed at, if anything.
      seconds: `build`, `compile` and `run`, the evaluation included.
    """

    value: float
    best_response_values: tuple[float, float]
    nash_conv: float
    gap: float
    algorithm: str
    iterations: int
    target_gap: float | None
    seconds: dict[str, float]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name}: value {self.value:.9g}, {self.message}>"

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The game's."""

    @property
    @abc.abstractmethod
    def payoff_range(self) -> float:
        """The game's largest minus its smallest payoff."""

    @property
    @abc.abstractmethod
    def constant(self) -> float:
        """The sum of both players' returns."""

    @property
    @abc.abstractmethod
    def sizes(self) -> dict[str, Any]:
        """How large the game is, by what `jaxgadget solve --json` calls it."""

    @property
    def bracket(self) -> tuple[float, float]:
        """Between what lies player 0's value of the game: what its average guarantees, and the other's."""
        first, second = self.best_response_values
        return -first, second

    @property
    def message(self) -> str:
        """How far the solve got, and what to do about it, in a sentence."""
        share = self.gap / self.payoff_range
        advice = "" if share <= 1e-3 or self.algorithm == LP else "; increase iterations to lower it"
        if self.target_gap is not None and self.gap > self.target_gap:
            advice = f"; the target of {self.target_gap:g} was not reached, increase iterations"
        within = "" if self.gap == self.nash_conv else f", {self.gap:.3g} within the floors,"
        iterations = "simplex iterations" if self.algorithm == LP else f"iterations of {self.algorithm}"
        return f"NashConv {self.nash_conv:.3g}{within} after {self.iterations} {iterations}{advice}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Solution(SolvedGame):
    """A solved game, with its certificate in float64.

    Attributes:
      policy: both players' average policies, one lane; an equilibrium's if `algorithm` is `lp`.
    """

    policy: Policy

    @property
    def name(self) -> str:
        """The game's."""
        return self.policy.tree.game.name

    @property
    def payoff_range(self) -> float:
        """The game's largest minus its smallest payoff."""
        return self.policy.tree.payoff_range

    @property
    def constant(self) -> float:
        """The sum of both players' returns."""
        return self.policy.tree.constant

    @property
    def sizes(self) -> dict[str, Any]:
        """How large the game is, by what `jaxgadget solve --json` calls it."""
        tree = self.policy.tree
        return {
            "num_histories": tree.num_histories,
            "num_terminals": tree.num_terminals,
            "num_infosets": [len(infosets) for infosets in tree.infosets],
        }


def solve(
    tree: HistoryTree,
    *,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float64",
    floors: Floors | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    progress: bool | None = None,
) -> Solution:
    """Solves a whole game, by CFR or by linear programs.

    CFR's updates alternate, player 0 first; the average is OpenSpiel's, to the last digits.

    Args:
      tree: the game's histories.
      algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, `sapcfr+`, a `Rule`, or `lp`: exact, which
        needs no iterations or `dtype` and takes no `target_gap` or `checkpoint`.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when the gap, NashConv within the floors, is no larger; in units of payoff.
      check_every: iterations between two looks at NashConv.
      dtype: `float32` or `float64`; JAX's global flag need not be set.
      floors: keep to these, so that the result is an equilibrium of constrained behaviour or a
        trembling-hand approximation (Farina, Kroer and Sandholm 2017): a number ε, each action
        then gets ε ÷ the number of legal ones at least, or arrays as `tremble` makes them.
      checkpoint: a file to resume from and to save to.
      time_limit: for `lp`, in seconds; by default none.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range or the checkpoint is of another solve.
    """
    check_tree(tree)
    watch = Stopwatch()
    least = None if floors is None else check_floors(tree, floors)
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=dtype,
        checkpoint=checkpoint,
        time_limit=time_limit,
        devices=HOME.devices,
    )
    if options.rule is None:
        with watch.phase("run"):
            exact = solve_exactly(tree, floors=least, time_limit=options.time_limit)
        return _certified(exact.policy, least, LP, exact.iterations, watch)
    with watch.phase("build"):
        problem = _floored(tree, whole_problem(tree, 1, options.dtype), least)
    with watch.phase("run"), progress_bar("solving", iterations, progress) as report:
        solved = solve_batch(Batch.of(problem), options, average_bodies, report=report)
        policy = _policy(tree, solved, options)
    return _certified(policy, least, options.algorithm, int(solved.iterations[0]), watch, target_gap)


def _certified(
    policy: Policy,
    floors: tuple[FloatArray, FloatArray] | None,
    algorithm: str,
    iterations: int,
    watch: Stopwatch,
    target_gap: float | None = None,
) -> Solution:
    """Evaluates a policy in the full game, and within the floors."""
    with watch.phase("run"):
        values = evaluate_policy(policy)
        first, second = values.best_response_values[:, 0].tolist()
        gap = first + second
        if floors is not None:
            tree = policy.tree
            problem = _floored(tree, whole_problem(tree, 1, np.float64), floors)
            with precision(np.float64):
                evaluation = evaluate_parts(problem, to_parts(sequence_form(tree), policy, np.float64))
            gap = float(evaluation.gap[0, 0])
    return Solution(
        policy=policy,
        value=float(values.value[0]),
        best_response_values=(first, second),
        nash_conv=first + second,
        gap=gap,
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        seconds=watch.seconds,
    )


def _floored(tree: HistoryTree, problem: Problem, floors: tuple[FloatArray, FloatArray] | None) -> Problem:
    """The same problem with floors at all infosets."""
    if floors is None:
        return problem
    form = sequence_form(tree)
    first, second = (floors[p][form.action_sequences(p) - 1] for p in (0, 1))
    return with_floors(problem, (first, second))


def cfr_checkpoints(
    tree: HistoryTree, counts: Sequence[int], *, algorithm: str | Rule = "cfr", progress: bool | None = None
) -> Policy:
    """Average policies after several numbers of iterations of one run in float64, a lane each.

    Args:
      tree: the game's histories.
      counts: numbers of iterations, in any order; lanes follow it.
      algorithm: as in `solve`.
      progress: as in `solve`.
    """
    check_tree(tree)
    rule = find_rule(algorithm)
    if isinstance(rule, RegretMatching):
        rule = rule.general()  # the program of `game_value`
    if not hasattr(counts, "__iter__"):
        raise ValueError(f"counts={counts!r}: expected numbers of iterations, such as (10, 100)")
    game = Batch.of(whole_problem(tree, 1, np.float64))
    policies: dict[int, Policy] = {}
    state = None
    goals = sorted({check_iterations(count) for count in counts})
    if not goals:
        raise ValueError("counts=() is empty: expected at least one number of iterations")
    with progress_bar("blueprints", goals[-1], progress) as report:
        for goal in goals:
            options = SolveOptions(rule=rule, iterations=goal, dtype=np.dtype(np.float64))
            solved = solve_batch(game, options, average_bodies, state=state, keep_state=True, report=report)
            state, policies[goal] = solved.state, _policy(tree, solved, options)
    return Policy.stack([policies[count] for count in counts])


def _policy(tree: HistoryTree, solved: Solved, options: SolveOptions) -> Policy:
    label = f"{options.algorithm}:{int(solved.iterations[0])}"
    return to_policy(tree, sequence_form(tree), solved.outcome, (label,))
