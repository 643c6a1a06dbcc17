"""Solving whole games: equilibria and blueprints, by CFR or exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.batch import Batch
from jaxgadget.core.devices import HOME
from jaxgadget.core.driver import Solved
from jaxgadget.core.driver import solve as run_batch
from jaxgadget.core.memory import (
    FINAL_ARRAYS,
    LOOP_ARRAYS,
    STATE_ARRAYS,
    DoesNotFit,
    find_memory,
)
from jaxgadget.core.regret import RegretMatching, Rule, find_rule
from jaxgadget.core.results import NO_FAILURES, LaneResult, convergence
from jaxgadget.core.solver import LP, Solver, check_iterations, choose_solver
from jaxgadget.games.hands import NODE_BYTES, HandsGame
from jaxgadget.policy.evaluate import (
    average_bodies,
    evaluate_parts,
    evaluate_policy,
    find_whole_placement,
    to_parts,
    to_policy,
    whole_problem,
)
from jaxgadget.policy.exact import solve_exactly, with_tree_floors
from jaxgadget.policy.floors import Floors, check_floors
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import PublicTree, Tree, check_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.memory import megabytes
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.viewers import Explorable

REGRET_ARRAYS = 1.0
"""Arrays of a regret-matching rule's state."""

STRUCTURE_ARRAYS = 1.5
"""Memory of the structure, in arrays over all sequences in the precision of the solve."""

POLICY_ARRAYS = 6.0
"""Memory of policies while they are made and certified, in such arrays of float64. The plan for Liar's Dice
2×5 is 3.0 GB; the process grew from 0.4 GB to 3.4 GB."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Solution(LaneResult, Explorable):
    """A solved game, with its certificate in float64; one lane. `policy.save` writes the strategies.

    Attributes:
      policy: both players' average policies, one lane; an equilibrium's if `algorithm` is `lp`.
      value: expected payoff of player 0 when both play them.
      best_response_values: value of player 1's best response to player 0's policy, and of
        player 0's to player 1's.
      nash_conv: their sum; OpenSpiel's `exploitability` is half of it.
      gap: sum of both players' gains by best responses within the floors; without floors, NashConv.
      algorithm: the rule's name, or `lp`.
      iterations: number of completed iterations; of the simplex method for `lp`.
      target_gap: the requested gap, if any.
      seconds: `build`, `compile` and `run`, the evaluation included.
    """

    failures = NO_FAILURES

    policy: Policy
    value: float
    best_response_values: tuple[float, float]
    nash_conv: float
    gap: float
    algorithm: str
    iterations: int
    target_gap: float | None
    seconds: dict[str, float]

    def __repr__(self) -> str:
        return f"<Solution of {self.name}: value {self.value:.9g}, {self.message}>"

    @property
    def name(self) -> str:
        """Name of the game."""
        return self.policy.tree.game.name

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Game and algorithm."""
        return {"game": [self.name], "algorithm": [self.algorithm]}

    @property
    def number_columns(self) -> dict[str, Any]:
        """Value, bracket of the game's value, NashConv and iterations."""
        low, high = self.bracket
        numbers = {"value": self.value, "game_value_low": low, "game_value_high": high}
        numbers |= {"nash_conv": self.nash_conv, "gap": self.gap, "iterations": self.iterations}
        return {name: np.array([number]) for name, number in numbers.items()}

    @property
    def payoff_range(self) -> float:
        """Largest minus smallest payoff of the game."""
        return self.policy.tree.payoff_range

    @property
    def constant(self) -> float:
        """The sum of both players' returns."""
        return self.policy.tree.constant

    @property
    def sizes(self) -> dict[str, Any]:
        """Size of the game, by the names that `jaxgadget solve --json` uses."""
        return self.policy.tree.sizes

    @property
    def bracket(self) -> tuple[float, float]:
        """ChoiceRule of player 0's value of the game: guaranteed by its average, conceded by player 1's."""
        first, second = self.best_response_values
        return -first, second

    @property
    def message(self) -> str:
        """Convergence of the solve and the remedy, in a sentence."""
        has_floors = self.gap != self.nash_conv
        return convergence(
            np.array([self.gap]),
            self.iterations,
            self.algorithm,
            small=1e-3 * self.payoff_range,
            target_gap=self.target_gap,
            name=f"NashConv {self.nash_conv:.3g}, gap within the floors" if has_floors else "NashConv",
        )


def solve(
    tree: Tree,
    *,
    floors: Floors | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> Solution:
    """Solves a whole game, by CFR or by linear programs.

    CFR's updates alternate, player 0 first; the average is OpenSpiel's, to the last digits.

    Args:
      tree: the game, by histories or by hands.
      floors: least probabilities of actions, so that the result is an equilibrium of constrained behaviour or
        a trembling-hand approximation (Farina, Kroer and Sandholm 2017): a number ε, for at least ε divided
        by the number of legal actions each, or arrays from `tremble`.
      solver: settings; by default 1000 iterations of CFR+ in float64. Takes no `devices`, and a
        `memory_limit` for games by hands alone.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: if an argument is out of range, the checkpoint is of another solve, or a game by hands
        does not fit in memory.
    """
    check_tree(tree)
    watch = Stopwatch()
    solver = choose_solver(
        solver,
        Solver(iterations=1000, dtype="float64"),
        iterations=iterations,
        algorithm=algorithm,
        without=("devices",) if isinstance(tree, PublicTree) else ("memory_limit", "devices"),
    )
    if isinstance(tree, PublicTree):
        check_fits(tree.hands_game, solver.precision, solver.memory_limit)
    least = None if floors is None else check_floors(tree, floors)
    if solver.rule is None:
        with watch.phase("run"):
            exact = solve_exactly(tree, floors=least, time_limit=solver.time_limit)
        return _certified(exact.policy, least, LP, exact.iterations, watch)
    policy, done = _iterate(tree, solver, least, watch)
    return _certified(policy, least, solver.name, done, watch, solver.max_gap)


def _iterate(
    tree: Tree, solver: Solver, floors: tuple[FloatArray, FloatArray] | None, watch: Stopwatch
) -> tuple[Policy, int]:
    """The average policy of CFR, and the number of iterations; frees the arrays of the solve."""
    with watch.phase("build"):
        placement = find_whole_placement(tree, solver.precision)
        solver = dataclasses.replace(solver, devices=placement.devices)
        problem = whole_problem(tree, 1, solver.precision, placement)
        if floors is not None:
            problem = with_tree_floors(problem, sequence_form(tree), floors)
    with watch.phase("run"), progress_bar("solving", solver.num_iterations, solver.progress) as report:
        solved = run_batch(Batch.of(problem), solver, average_bodies, report=report)
        del problem
        return _policy(tree, solved, solver), int(solved.iterations[0])


def check_fits(
    game: HandsGame,
    dtype: DTypeLike,
    memory_limit: int | None = None,
    *,
    lanes: int = 1,
    policies: float = POLICY_ARRAYS,
) -> None:
    """Checks that the solve of a game by hands fits in memory, before the game is laid out.

    Args:
      game: the game to solve.
      dtype: precision of the solve.
      memory_limit: maximum memory of the solve in bytes; by default the available memory.
      lanes: number of lanes.
      policies: memory of the policies, in arrays over all sequences in float64.

    Raises:
      DoesNotFit: if it does not fit.
    """
    (first, second), tree = game.num_hands, game.nodes
    sequences = sum(  # one root per hand, and every action with every hand
        (1 + int(tree.num_children[tree.decisions(player)].sum())) * hands
        for player, hands in enumerate(game.num_hands)
    )
    loop = (STATE_ARRAYS + REGRET_ARRAYS + LOOP_ARRAYS + STRUCTURE_ARRAYS) * np.dtype(dtype).itemsize
    final = (FINAL_ARRAYS + policies) * 8
    needed = NODE_BYTES * len(tree) + round(max(loop, final) * sequences * lanes)
    available = find_memory(HOME) if memory_limit is None else memory_limit
    if available is not None and needed > available:
        raise DoesNotFit(
            f"{game.name} by hands: {len(tree):,} public nodes, {first} × {second} hands and {lanes} lane(s) "
            f"take {megabytes(needed)} of memory, but {megabytes(available)} is available; expected a "
            "larger memory_limit, or a smaller game"
        )


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
            form = sequence_form(policy.tree)
            problem = whole_problem(policy.tree, 1, np.float64, find_whole_placement(policy.tree))
            problem = with_tree_floors(problem, form, floors)
            with precision(np.float64):
                evaluation = evaluate_parts(problem, to_parts(form, policy, np.float64))
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


def cfr_checkpoints(
    tree: Tree, counts: Sequence[int], *, algorithm: str | Rule = "cfr", progress: bool | None = None
) -> Policy:
    """Average policies after several numbers of iterations of one run in float64, one lane each.

    Args:
      tree: the game, by histories or by hands.
      counts: numbers of iterations, in any order, which is that of the lanes.
      algorithm: as in `solve`.
      progress: as in `solve`.
    """
    check_tree(tree)
    rule = find_rule(algorithm)
    if isinstance(rule, RegretMatching):
        rule = rule.general()  # the program of `game_value`
    if not hasattr(counts, "__iter__"):
        raise ValueError(f"counts={counts!r}: expected numbers of iterations, such as (10, 100)")
    placement = find_whole_placement(tree)
    game = Batch.of(whole_problem(tree, 1, np.float64, placement))
    policies: dict[int, Policy] = {}
    state = None
    goals = sorted({check_iterations(count) for count in counts})
    if not goals:
        raise ValueError("counts=() is empty: expected at least one number of iterations")
    with progress_bar("blueprints", goals[-1], progress) as report:
        for goal in goals:
            solver = Solver(algorithm=rule, iterations=goal, dtype="float64", devices=placement.devices)
            solved = run_batch(game, solver, average_bodies, state=state, keep_state=True, report=report)
            state, policies[goal] = solved.state, _policy(tree, solved, solver)
    return Policy.stack([policies[count] for count in counts])


def _policy(tree: Tree, solved: Solved, solver: Solver) -> Policy:
    label = f"{solver.name}:{int(solved.iterations[0])}"
    return to_policy(tree, sequence_form(tree), solved.outcome, (label,))
