"""A game solved from its root down to a depth limit, with values there that depend on the ranges."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jax.typing import DTypeLike
from scipy.sparse import csr_array

from jaxgadget.kernels.batch import Batch
from jaxgadget.kernels.cfr import State, averages
from jaxgadget.kernels.problem import Problem, evaluation_game, with_regret_tolerance
from jaxgadget.kernels.regret import Bounds, Rule
from jaxgadget.kernels.response import evaluate
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.solving.decomposition import RootSums
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.driver import Finished, solve
from jaxgadget.solving.memory import one_chunk
from jaxgadget.solving.options import make_options
from jaxgadget.tree.cut import Cut, CutSpec, cut, first_below, whole_cut
from jaxgadget.tree.forest import Forest, build_forest, followed_payoff
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.util.arguments import check_player, check_whole_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.ranges import (
    Limit,
    Pair,
    RangedPayoff,
    RangeValues,
    check_unary,
    function_at,
    no_sums,
    ranged_payoff,
)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LimitedTrunk:
    """What was found above a depth limit; L lanes. Nothing bounds how exploitable the policy is.

    Against opponents who follow models, lanes run over opponents, then blueprints, values are those of the
    free opponents, and neither gaps nor best-response values are known.

    Attributes:
      limit: where the solve stopped; player p has R_p leaf infostates there.
      policy: both players' average policies above the limit, the blueprint's rows below it.
      values: for both players `[R_p, L]`, the average counterfactual values of its leaf infostates, as the
        solve saw them: chance's and the other player's reach included, its own not. Minus the
        opponent's are alternative values (`ArrayValues`) to re-solve with below the limit. 0 for a player
        whose strategy was given.
      best_response_values: `[2, L]` what player 1 gets at most above the limit against player 0's average
        if leaf infostates are worth these values, then player 0 against player 1's. NaN against a player who
        solves alone: the other one's strategy is given, and nobody asked for its values.
      gap: `[L]` NashConv of the depth-limited game, in the precision of the solve, if its values are linear
        in the ranges and both players are solved for; else NaN, as nothing is certified.
      iterations: done.
      algorithm: the rule's name.
      seconds: `build`, `compile` and `run`.
    """

    limit: Limit
    policy: Policy
    values: tuple[FloatArray, FloatArray]
    best_response_values: FloatArray
    gap: FloatArray
    iterations: int
    algorithm: str
    seconds: dict[str, float]

    def __repr__(self) -> str:
        return f"<LimitedTrunk above {self.limit.cut!r}: {self.message}>"

    @property
    def trunk_gap(self) -> FloatArray:
        """`[L]` what both players could gain above the limit if leaf infostates kept their average values.

        NaN if a player's strategy was given. For zero-sum values it tells how far the solve got; it is no
        certificate, whatever the values.
        """
        return self.best_response_values.sum(axis=0)

    @property
    def message(self) -> str:
        """How far the solve got, in a sentence."""
        done = f"{self.iterations} iterations of {self.algorithm}"
        for what, worst in (("gap", self.gap), ("gap of the trunk", self.trunk_gap)):
            if np.isfinite(worst).all():
                return f"{what} {float(worst.max()):.3g} after {done}"
        if np.isnan(self.best_response_values).all():
            return f"{done} against opponents who follow models"
        return f"{done} against a player whose strategy was given"


def solve_trunk(
    tree: HistoryTree,
    limit: CutSpec,
    values: RangeValues,
    *,
    blueprint: PolicyLike | None = None,
    fixed: int | None = None,
    against: tuple[int, Opponents] | None = None,
    algorithm: str | Rule = "cfr+",
    iterations: int = 1000,
    dtype: DTypeLike = "float64",
    progress: bool | None = None,
) -> LimitedTrunk:
    """Solves a game down to a limit by CFR, which asks for values at its ranges in every update.

    Nothing below the limit is looked at, but by `values`.

    Args:
      tree: the game's histories, at least to the limit.
      limit: a cut, whose roots are the leaf histories: `depth:D` is D moves of the players. Play that
        does not come through it goes on to the end.
      values: see `RangeValues`.
      blueprint: what both players do below the limit; uniform by default. Its lanes are the result's, unless
        `values` say how many these are (`num_lanes`).
      fixed: a player who follows the blueprint above the limit, too; the other one solves alone, and finds
        the optimal continuation's values. By default nobody.
      against: a player, and whom it plays: opponents who follow models down to the limit. Values there are
        asked for at what comes of both, p × the model's range + (1−p) × that of the free opponent.
      algorithm: `cfr`, `cfr+`, `linear-cfr`, `dcfr`, `pcfr+`, `sapcfr+`, or a `Rule`.
      iterations: one updates both players, player 0 first.
      dtype: `float32` or `float64`.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for an argument out of range, a limit or blueprint of another game, a limit that
        crosses an infoset, or values of another shape or that are not finite.
    """
    check_tree(tree)
    options = make_options(
        algorithm=algorithm, iterations=iterations, dtype=dtype, devices=HOME.devices, exact=False
    )
    rule = options.rule
    assert rule is not None
    count = _check_values(values)
    below = Policy.uniform(tree) if blueprint is None else as_policy(blueprint, tree, name="blueprint")
    if against is not None:
        below = _against(below, against, fixed)
    below = _spread(below, count)
    num_lanes = below.num_lanes
    if fixed is not None and blueprint is None:
        raise ValueError(f"fixed={fixed!r} without a blueprint: expected the one that player follows")
    given = None if fixed is None else (check_player(fixed, "fixed"), below)
    watch = Stopwatch()
    with watch.phase("build"), precision(options.dtype):
        at_limit = Limit.of(cut(tree, limit), options.dtype)
        look = _above(at_limit.cut)
        problem = _problem(look, at_limit, values, rule, num_lanes, given)
        if against is not None:
            problem = _mixed(problem, look, at_limit, *against)
        game = Batch.of(problem, "trunk", no_sums(at_limit, num_lanes))
    linear = bool(getattr(values, "linear", False))

    def finish(ended: Finished) -> _LimitedTrunkSolution:
        with precision(options.dtype):
            _check_finite(values, at_limit, ended.state.payoff)
            return _conclude(ended.problem, ended.state, linear=linear)

    with watch.phase("run"), progress_bar("trunk", iterations, progress) as report:
        plan = one_chunk(num_lanes)  # values are asked for all lanes' ranges at once
        solved = solve(game, options, finish, plan=plan, report=report).outcome
        first, second = (np.asarray(part, np.float64) for part in solved.values)
        best = np.stack([np.asarray(part, np.float64) for part in solved.best])
        gap = np.array(solved.gap, np.float64)
        if fixed is not None:
            best[1 - fixed], gap[:] = np.nan, np.nan
        if against is not None:
            best[:], gap[:] = np.nan, np.nan
    return LimitedTrunk(
        limit=at_limit,
        policy=_policy(
            look, below, solved.strategy, f"{rule.name}:{iterations} to {at_limit.cut.name}", fixed
        ),
        values=(first, second),
        best_response_values=best,
        gap=gap,
        iterations=iterations,
        algorithm=rule.name,
        seconds=watch.seconds,
    )


def _check_values(values: object) -> int | None:
    """How many lanes range-dependent values have, None for any; ValueError if they are none."""
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


def _spread(rows: Policy, num_lanes: int | None) -> Policy:
    """A blueprint with so many lanes, its own if that is not known."""
    if num_lanes is None:
        return rows
    if rows.num_lanes not in (1, num_lanes):
        raise ValueError(
            f"blueprint has {rows.num_lanes} lanes, values have {num_lanes}: expected as many, or 1"
        )
    return rows if rows.num_lanes == num_lanes else Policy.stack([rows] * num_lanes)


def _above(where: Cut) -> Forest:
    """The game from its root down to a cut, with K = 1."""
    tree, top = where.tree, whole_cut(where.tree)
    marked = np.zeros(tree.num_histories, np.bool_)
    marked[where.roots] = True
    first_below(tree, top, marked)  # refuses a tree that was truncated before the cut
    return build_forest(tree, top, limit=where, num_choices=1, padded=False)


def _problem(
    look: Forest,
    limit: Limit,
    values: RangeValues,
    rule: Rule,
    num_lanes: int,
    given: tuple[int, Policy] | None,
) -> Problem:
    """The depth-limited game; a player whose policy is given has it as floors, and never updates."""
    payoff = ranged_payoff(look, limit, function_at(values, limit, num_lanes), rule)
    game = evaluation_game(look.form, payoff, num_lanes, limit.dtype)
    if given is not None:
        player, policy = given
        sequence, rows = look.form.action_sequences(player), policy.probabilities[player]
        real = (sequence > 0) & (sequence <= len(rows))  # the rest is padding, and the one entry at the limit
        # A little less than 1, so that rounding leaves nothing below 0 for what is not given.
        least = 1 - 8 * float(np.finfo(limit.dtype).eps)
        floor = least * np.where(real[:, None], rows[np.where(real, sequence, 1) - 1], 0)
        floor = floor.astype(limit.dtype)
        terms = list(game.terms)
        terms[player] = dataclasses.replace(terms[player], body=Bounds(floor=jnp.asarray(floor)))
        game = dataclasses.replace(game, order=(1 - player,), terms=(terms[0], terms[1]))
    return with_regret_tolerance(game)


def _against(below: Policy, against: tuple[int, Opponents], fixed: int | None) -> Policy:
    """Blueprints once for each opponent: `lane = opponent * num_blueprints + blueprint`."""
    player, opponents = against
    check_player(player)
    if fixed is not None:
        raise ValueError(f"fixed={fixed!r} with opponents who follow models: expected one of the two")
    if "model" in opponents.beyond:
        raise ValueError(
            "beyond='model' with values that depend on the ranges: these are of players who play on "
            "rationally below the limit; expected beyond='rational'"
        )
    return Policy.stack([below] * len(opponents))


def _mixed(problem: Problem, look: Forest, limit: Limit, player: int, opponents: Opponents) -> Problem:
    """The depth-limited game against mixtures; at the limit both copies of the opponent arrive."""
    other = 1 - player
    blueprints = problem.num_lanes // len(opponents)
    opponent = np.repeat(np.arange(len(opponents)), blueprints)
    p, reach = opponents.p[opponent], opponents.policy.reach(other)[:, opponent]
    entries = followed_payoff(look, player)
    earned = csr_array((entries.value, (entries.row, entries.column)), shape=entries.shape) @ reach
    terms = list(problem.terms)
    terms[player] = dataclasses.replace(
        terms[player], body_constant=jnp.asarray((p * earned).astype(limit.dtype))
    )
    free = np.asarray(terms[other].scale) * (1 - p)
    terms[other] = dataclasses.replace(terms[other], scale=jnp.asarray(free.astype(limit.dtype)))
    added = [np.zeros((len(roots), len(p)), limit.dtype) for roots in limit.roots]
    added[other] = (p * reach[limit.roots[other].sequence]).astype(limit.dtype)
    payoff = problem.payoff
    assert isinstance(payoff, RangedPayoff)
    joined = dataclasses.replace(payoff, added=(jnp.asarray(added[0]), jnp.asarray(added[1])))
    return with_regret_tolerance(dataclasses.replace(problem, terms=(terms[0], terms[1]), payoff=joined))


def _check_finite(values: RangeValues, limit: Limit, sums: RootSums) -> None:
    """ValueError if a value was not finite: the sums stopped with the first such answer."""
    for player in (0, 1):
        total = np.asarray(sums.total[player])
        bad = np.argwhere(~np.isfinite(total))
        if len(bad):
            row, lane = bad[0].tolist()
            raise ValueError(
                f"values={values!r} gave {total[row, lane]} in iteration {int(sums.updates[player])}, lane "
                f"{lane}, for infostate {limit.infostate(player, row)!r} of player {player} (row {row}); "
                "expected finite numbers, also for ranges that are 0 everywhere"
            )


class _LimitedTrunkSolution(NamedTuple):
    strategy: Pair
    values: Pair
    best: Pair
    gap: jax.Array


@functools.partial(jax.jit, static_argnames=("linear",))
def _conclude(problem: Problem, state: State, *, linear: bool) -> _LimitedTrunkSolution:
    """Both players' averages, and what best responses to them get."""
    payoff, strategy = problem.payoff, averages(problem, state.strategy_sum)
    assert isinstance(payoff, RangedPayoff)
    values = state.payoff.averages()
    held = dataclasses.replace(payoff, function=Partial(_held, values))
    evaluation = evaluate(dataclasses.replace(problem, payoff=held), strategy, state.payoff)
    best = -evaluation.guaranteed[0][0], -evaluation.guaranteed[1][0]
    gap = evaluate(problem, strategy, state.payoff).gap[0] if linear else jnp.full_like(best[0], jnp.nan)
    return _LimitedTrunkSolution((strategy[0].body, strategy[1].body), values, best, gap)


def _held(values: Pair, _: Pair) -> Pair:
    return values


def _policy(look: Forest, below: Policy, strategy: Pair, label: str, fixed: int | None) -> Policy:
    """The strategies above the limit, normalised in float64, and the blueprint elsewhere."""
    tree, pair = look.tree, list[FloatArray]()
    for player in (0, 1):
        if player == fixed:
            pair.append(below.probabilities[player])
            continue
        rows, sequence = below.probabilities[player].copy(), look.form.action_sequences(player)
        above = (sequence > 0) & (sequence <= len(rows))
        taken = sequence[above] - 1
        rows[taken] = np.asarray(strategy[player], np.float64)[above]
        rows[taken] = normalise_rows(rows, tree.infosets[player].infoset[1:])[taken]
        pair.append(rows)
    lanes = range(below.num_lanes)
    labels = tuple(f"{label} #{lane}" for lane in lanes) if len(lanes) > 1 else (label,)
    return Policy(tree, (pair[0], pair[1]), labels)
