"""Solving whole games: equilibria and blueprints by CFR."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.evaluate import evaluate_policy, to_policy, whole_problem
from jaxgadget.policy import Policy
from jaxgadget.progress import progress_bar
from jaxgadget.solve.cfr import State, average
from jaxgadget.solve.clock import Stopwatch
from jaxgadget.solve.drive import check_dtype, check_iterations, drive, precision
from jaxgadget.solve.problem import Problem
from jaxgadget.solve.regret import Rule, find_rule
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import sequence_form


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """A solved game, with its certificate in float64.

    Attributes:
      policy: both players' average policies, one lane.
      value: what player 0 gets when both play them.
      best_response_values: what player 1 gets at best against player 0's, and player 0
        against player 1's.
      nash_conv: their sum; OpenSpiel's `exploitability` is half of it.
      algorithm: the rule's name.
      iterations: how many were done.
      seconds: `build`, `compile` and `run`, the evaluation included.
    """

    policy: Policy
    value: float
    best_response_values: tuple[float, float]
    nash_conv: float
    algorithm: str
    iterations: int
    seconds: dict[str, float]

    @property
    def message(self) -> str:
        """How far the solve got, and what to do about it, in a sentence."""
        share = self.nash_conv / self.policy.tree.payoff_range
        advice = "" if share <= 1e-3 else "; increase iterations to lower it"
        return f"NashConv {self.nash_conv:.3g} after {self.iterations} iterations of {self.algorithm}{advice}"


def solve(
    tree: HistoryTree,
    *,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float64",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Solution:
    """Solves a whole game by CFR.

    Updates alternate, player 0 first; the average is OpenSpiel's, to the last digits.

    Args:
      tree: the game's histories.
      algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, or a `Rule`.
      iterations: at most that many; an iteration updates both players.
      target_gap: stop when NashConv is no larger, in units of the game's payoff.
      check_every: iterations between two looks at NashConv.
      dtype: `float32` or `float64`; JAX's global flag need not be set.
      checkpoint: a file to resume from and to save to.
      progress: show a bar; by default if it takes over two seconds and somebody watches.

    Raises:
      ValueError: if an argument is out of range or the checkpoint is of another solve.
    """
    watch = Stopwatch()
    rule, precise = find_rule(algorithm), check_dtype(dtype)
    check_iterations(iterations)
    with watch.phase("build"):
        problem = whole_problem(tree, 1, precise)
    with watch.phase("run"), precision(precise), progress_bar("solving", iterations, progress) as report:
        state = drive(
            problem,
            rule,
            iterations=iterations,
            target_gap=target_gap,
            check_every=check_every,
            checkpoint=checkpoint,
            report=report,
        )
        policy = _policy(tree, problem, state, rule)
    with watch.phase("run"):
        values = evaluate_policy(policy)
    first, second = values.best_response_values[:, 0].tolist()
    return Solution(
        policy=policy,
        value=float(values.value[0]),
        best_response_values=(first, second),
        nash_conv=first + second,
        algorithm=rule.name,
        iterations=int(state.iteration),
        seconds=watch.seconds,
    )


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
    rule = find_rule(algorithm)
    problem = whole_problem(tree, 1, np.float64)
    found: dict[int, Policy] = {}
    state = None
    goals = sorted({check_iterations(count) for count in counts})
    if not goals:
        raise ValueError("counts=() is empty: expected at least one number of iterations")
    with precision(np.float64), progress_bar("blueprints", goals[-1], progress) as report:
        for goal in goals:
            state = drive(problem, rule, iterations=goal, state=state, report=report)
            found[goal] = _policy(tree, problem, state, rule)
    return Policy.stack([found[count] for count in counts])


def _policy(tree: HistoryTree, problem: Problem, state: State, rule: Rule) -> Policy:
    first, second = (part.body for part in average(problem, state))
    label = f"{rule.name}:{int(state.iteration)}"
    return to_policy(tree, sequence_form(tree), (first, second), (label,))
