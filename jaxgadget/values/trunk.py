"""Depth-limited solving from the root of a game, with range-dependent values at the limit."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.core.batch import Batch
from jaxgadget.core.devices import HOME
from jaxgadget.core.driver import Finished, solve
from jaxgadget.core.memory import one_chunk
from jaxgadget.core.problem import Problem, evaluation_game, with_regret_tolerance
from jaxgadget.core.regret import ChoiceRule, Rule
from jaxgadget.core.results import NO_FAILURES, LaneResult
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.cut import CutSpec, cut, first_below, whole_cut
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.trunk import Trunk, build_trunk
from jaxgadget.util.arguments import check_player, check_whole_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import pair_for
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.viewers import Explorable
from jaxgadget.values.ranged_payoff import (
    Pair,
    RootSums,
    TrunkSolution,
    conclude_trunk,
    no_values,
    ranged_payoff_of,
)
from jaxgadget.values.ranges import Limit, RangeValues, check_unary, function_at, ranged_payoff


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LimitedTrunk(LaneResult, Explorable):
    """Solution above a depth limit, with L lanes. The policy's exploitability is not bounded.

    Against opponents that follow models, lanes run over opponents, then blueprints; values are those of the
    free opponents; gaps and best-response values are NaN.

    Attributes:
      limit: the depth limit; player p has R_p leaf infostates there.
      policy: both players' average policies above the limit, the blueprint's rows below it.
      values: for both players `[R_p, L]`, average counterfactual values of its leaf infostates over the
        solve: including chance's and the other player's reach, not its own. The negated values of the
        opponent are alternative values (`ArrayValues`) for re-solving below the limit. 0 for a player with a
        fixed strategy.
      best_response_values: `[2, L]` best-response value above the limit of player 1 against player 0's
        average, with these values at leaf infostates, then of player 0 against player 1's. NaN against a
        player that solves alone.
      gap: `[L]` NashConv of the depth-limited game, in the precision of the solve, if its values are linear
        in the ranges and both players are solved for; otherwise NaN.
      iterations: number of iterations.
      algorithm: the rule's name.
      num_values: numbers stored for each lane between iterations: regrets, strategies and their sums above
        the limit, and one value for each leaf infostate.
      seconds: `build`, `compile` and `run`.
    """

    failures = NO_FAILURES

    limit: Limit
    policy: Policy
    values: tuple[FloatArray, FloatArray]
    best_response_values: FloatArray
    gap: FloatArray
    iterations: int
    algorithm: str
    num_values: int
    seconds: dict[str, float]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} above {self.limit.cut!r}: {self.message}>"

    @property
    def trunk_gap(self) -> FloatArray:
        """`[L]` NashConv above the limit with leaf infostates fixed at their average values.

        NaN if a player's strategy is fixed. A measure of convergence for zero-sum values, but not a
        certificate.
        """
        return self.best_response_values.sum(axis=0)

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Blueprint, algorithm and iterations."""
        return {
            "blueprint": self.policy.labels,
            "algorithm": self.algorithm,
            "iterations": self.iterations,
        }

    @property
    def number_columns(self) -> dict[str, Any]:
        """Gap of the depth-limited game, and of the trunk with values at the limit held fixed."""
        return {"gap": self.gap, "trunk_gap": self.trunk_gap}

    @property
    def message(self) -> str:
        """One-sentence summary of the solve's convergence."""
        done = f"{self.iterations} iterations of {self.algorithm}"
        for name, gap in (("gap", self.gap), ("gap of the trunk", self.trunk_gap)):
            if np.isfinite(gap).all():
                return f"{name} {float(gap.max()):.3g} after {done}"
        if np.isnan(self.best_response_values).all():
            return f"{done} against opponents that follow models"
        return f"{done} against a fixed strategy"


def solve_trunk(
    tree: HistoryTree,
    limit: CutSpec,
    values: RangeValues,
    *,
    blueprint: PolicyLike | None = None,
    fixed: int | None = None,
    against: tuple[int, Opponents] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> LimitedTrunk:
    """Solves a game down to a depth limit by CFR, with values of the current ranges in every update.

    Only `values` may depend on the game below the limit.

    Args:
      tree: the game's histories, at least down to the limit.
      limit: a cut, whose roots are the leaf histories: `depth:D` is D moves of the players. Play that avoids
        it continues to the end.
      values: range-dependent values at the limit.
      blueprint: both players' strategies below the limit; uniform by default. The result has its lanes, or
        `values.num_lanes` if defined.
      fixed: a player that also follows the blueprint above the limit, so that only the other player's
        strategy is solved for (optimal continuation). By default None.
      against: a player and its opponents, which follow models down to the limit. Values there are computed
        for the mixed range, p × the model's range + (1−p) × the free opponent's.
      solver: settings; by default 1000 iterations of CFR+ in float64. Takes `algorithm`, `iterations`,
        `dtype`, `checkpoint` and `progress`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: for an argument out of range, a limit or blueprint of another game, a limit that
        crosses an infoset, or values of another shape or that are not finite.
    """
    check_histories(tree)
    default = Solver(iterations=1000, dtype="float64", devices=HOME.devices)
    without = ("target_gap", "check_every", "time_limit", "memory_limit", "devices")
    solver = choose_solver(solver, default, iterations=iterations, algorithm=algorithm, without=without)
    rule = solver.iterative_rule()
    count = _check_values(values)
    below = Policy.uniform(tree) if blueprint is None else as_policy(blueprint, tree, name="blueprint")
    if against is not None:
        below = _against(below, against, fixed)
    below = _broadcast(below, count)
    num_lanes = below.num_lanes
    if fixed is not None and blueprint is None:
        raise ValueError(f"fixed={fixed!r} requires a blueprint: expected the policy of that player")
    fixed_policy = None if fixed is None else (check_player(fixed, "fixed"), below)
    watch = Stopwatch()
    with watch.phase("build"), precision(solver.precision):
        at_limit = Limit.of(cut(tree, limit), solver.precision)
        trunk = _above(at_limit)
        problem = trunk_problem(trunk, at_limit, values, rule, num_lanes, fixed_policy)
        if against is not None:
            problem = _mixed(problem, trunk, at_limit, *against)
        game = Batch.of(problem, "trunk", no_values(problem))
    linear = bool(getattr(values, "linear", False))

    def finish(ended: Finished) -> TrunkSolution:
        with precision(solver.precision):
            _check_finite(values, at_limit, ended.state.payoff)
            return conclude_trunk(ended.problem, ended.state, linear=linear)

    with watch.phase("run"), progress_bar("trunk", solver.num_iterations, solver.progress) as report:
        plan = one_chunk(num_lanes)  # values are queried for all lanes' ranges at once
        ended = solve(game, solver, finish, plan=plan, keep_state=True, report=report)
        solved, state = ended.outcome, ended.state
        first, second = (np.asarray(part, np.float64) for part in solved.values)
        best = np.stack([np.asarray(part, np.float64) for part in solved.best[::-1]])
        gap = np.array(solved.gap, np.float64)
        if fixed is not None:
            best[1 - fixed], gap[:] = np.nan, np.nan
        if against is not None:
            best[:], gap[:] = np.nan, np.nan
    label = f"{rule.name}:{solver.num_iterations} to {at_limit.cut.name}"
    return LimitedTrunk(
        limit=at_limit,
        policy=_policy(trunk, below, solved.strategy, label, fixed),
        values=(first, second),
        best_response_values=best,
        gap=gap,
        iterations=solver.num_iterations,
        algorithm=rule.name,
        num_values=sum(leaf.size // (leaf.shape or (1,))[-1] for leaf in jax.tree.leaves(state)),
        seconds=watch.seconds,
    )


def _check_values(values: object) -> int | None:
    """Number of lanes of range-dependent values, None for any; raises ValueError for other objects."""
    if isinstance(values, type) or not callable(values):
        raise ValueError(
            f"values={values!r}: expected range-dependent values, such as ResolvedValues(100) or "
            "FixedValues(ExactValues(blueprint))"
        )
    if hasattr(values, "num_entries"):
        raise ValueError(f"values={values!r} are values of histories; wrap them: FixedValues(values)")
    check_unary("values", values, "the limit")
    count = getattr(values, "num_lanes", None)
    return None if count is None else check_whole_number("values.num_lanes", count, 1)


def _broadcast(rows: Policy, num_lanes: int | None) -> Policy:
    """Broadcasts a blueprint to `num_lanes`; None keeps its lanes."""
    if num_lanes is None:
        return rows
    if rows.num_lanes not in (1, num_lanes):
        raise ValueError(
            f"blueprint has {rows.num_lanes} lanes, values have {num_lanes}: expected equal numbers, or 1"
        )
    return rows if rows.num_lanes == num_lanes else Policy.stack([rows] * num_lanes)


def _above(limit: Limit) -> Trunk:
    """The game from its root down to a depth limit; raises ValueError if its tree is truncated above it."""
    tree = limit.tree
    marked = np.zeros(tree.num_histories, np.bool_)
    marked[limit.cut.roots] = True
    first_below(tree, whole_cut(tree), marked)
    return build_trunk(limit)


def trunk_problem(
    trunk: Trunk,
    limit: Limit,
    values: RangeValues,
    rule: Rule,
    num_lanes: int,
    fixed_policy: tuple[int, Policy] | None = None,
) -> Problem:
    """The depth-limited game; call inside `precision(limit.dtype)`.

    Args:
      trunk: the game above the limit.
      limit: the depth limit.
      values: range-dependent values at the limit.
      rule: the rule of the solve.
      num_lanes: number of lanes.
      fixed_policy: a player and its fixed policy, which is imposed by floors on all its probabilities.
    """
    payoff = ranged_payoff(trunk, limit, function_at(values, limit, num_lanes), rule)
    game = evaluation_game(trunk.form.treeplex, payoff, num_lanes, limit.dtype)
    if fixed_policy is not None:
        player, policy = fixed_policy
        rows = policy.probabilities[player][trunk.form.action_sequences(player) - 1]
        # Slightly less than 1, so that rounding cannot make the remaining probability negative.
        least = 1 - 8 * float(np.finfo(limit.dtype).eps)
        floor = (least * rows).astype(limit.dtype)
        terms = list(game.terms)
        terms[player] = dataclasses.replace(terms[player], body=ChoiceRule(floor=jnp.asarray(floor)))
        game = dataclasses.replace(game, order=(1 - player,), terms=(terms[0], terms[1]))
    return with_regret_tolerance(game)


def _against(below: Policy, against: tuple[int, Opponents], fixed: int | None) -> Policy:
    """Repeats blueprints for each opponent: `lane = opponent * num_blueprints + blueprint`."""
    player, opponents = against
    check_player(player)
    if fixed is not None:
        raise ValueError(
            f"fixed={fixed!r} cannot be combined with opponents that follow models; expected one of the two"
        )
    if "model" in opponents.beyond:
        raise ValueError(
            "beyond='model' cannot be combined with range-dependent values, which assume rational play below "
            "the limit; expected beyond='rational'"
        )
    return below.take_lanes(_lanes(opponents, below.num_lanes).blueprint)


def _lanes(opponents: Opponents, blueprints: int) -> Lanes:
    return Lanes.product(opponents=len(opponents), blueprints=blueprints)


def _mixed(problem: Problem, trunk: Trunk, limit: Limit, player: int, opponents: Opponents) -> Problem:
    """The depth-limited game against mixtures; both copies of the opponent reach the limit."""
    other = 1 - player
    opponent = _lanes(opponents, problem.num_lanes // len(opponents)).opponent
    own, free = opponents.in_form(trunk.form, player).mix(
        opponent, problem.terms[player], problem.terms[other], trunk.form.treeplex[other].num_roots
    )
    terms = pair_for(player, own, free)
    at_limit = opponents.policy.reach(other)[limit.roots[other].sequence]
    entered = (opponents.p * at_limit)[:, opponent]
    added = pair_for(player, np.zeros((len(limit.roots[player]), len(opponent))), entered)
    terms, added = jax.tree.map(lambda x: jnp.asarray(x, limit.dtype), (terms, added))
    joined = dataclasses.replace(ranged_payoff_of(problem), added=added)
    return with_regret_tolerance(dataclasses.replace(problem, terms=terms, payoff=joined))


def _check_finite(values: RangeValues, limit: Limit, sums: RootSums) -> None:
    """Raises ValueError if a value was not finite; the sums stop at the first such value."""
    for player in (0, 1):
        total = np.asarray(sums.total[player])
        bad = np.argwhere(~np.isfinite(total))
        if len(bad):
            row, lane = bad[0].tolist()
            raise ValueError(
                f"values={values!r} returned {total[row, lane]} in iteration {int(sums.updates[player])}, "
                f"lane {lane}, for infostate {limit.infostate(player, row)!r} of player {player} (row "
                f"{row}); expected finite numbers, also for ranges that are 0 everywhere"
            )


def _policy(trunk: Trunk, below: Policy, strategy: Pair, label: str, fixed: int | None) -> Policy:
    """The strategies above the limit, normalised in float64, with the blueprint below it."""
    tree, pair = trunk.form.tree, list[FloatArray]()
    for player in (0, 1):
        rows = below.probabilities[player]
        if player != fixed:
            rows, above = rows.copy(), trunk.form.action_sequences(player) - 1
            rows[above] = np.asarray(strategy[player], np.float64)
            rows[above] = normalise_rows(rows, tree.infosets[player].infoset[1:])[above]
        pair.append(rows)
    lanes = range(below.num_lanes)
    labels = tuple(f"{label} #{lane}" for lane in lanes) if len(lanes) > 1 else (label,)
    return Policy(tree, (pair[0], pair[1]), labels)
