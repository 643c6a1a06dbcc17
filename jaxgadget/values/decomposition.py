"""CFR-D: subgames below a cut, solved from scratch for the current ranges and not stored.

Given both players' ranges, the subgames are solved from scratch by CFR, and only running sums of the
counterfactual values of their roots are kept (Burch, Johanson and Bowling 2014, "Generating a Trunk Strategy
using CFR-D").

Deviation from the paper: updates alternate, as in all solvers of this package, so that the subgames are
solved once for each player's update, with the newest reaches, and not once per iteration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.cfr import State, averages, start, step
from jaxgadget.core.payoff import Payoff, build_payoff
from jaxgadget.core.problem import (
    Parts,
    Problem,
    Side,
    follow,
    free_game,
    values_up,
    with_regret_tolerance,
)
from jaxgadget.core.regret import Rule
from jaxgadget.core.response import payoff_reaches
from jaxgadget.gadgets.structure import build_bodies
from jaxgadget.tree.forest import Forest
from jaxgadget.values.ranged_payoff import Pair


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SolvedSubgames:
    """A `RangeFunction` that solves all subgames below a cut for the given ranges.

    Attributes:
      rule: the regret-matching rule.
      iterations: `[lanes]` CFR iterations, or `[1]` for all lanes.
      sides: both players' decisions in the subgames, with fixed entries.
      payoff: payoff operator between both players' decisions.
    """

    rule: Rule
    iterations: jax.Array
    sides: tuple[Side, Side]
    payoff: Payoff

    def __call__(self, ranges: Pair) -> Pair:
        """`[R, lanes]` both players' counterfactual values under the average strategies of a solve.

        The averages below each root assume that its player reaches it with probability 1, so that they are
        mutual counterfactual best responses up to the error of the solve, even below unreachable roots.
        """
        problem = self.problem(ranges)

        def advance(_: jax.Array, state: State) -> State:
            after = step(problem, self.rule, state)
            counts = (after.iteration <= self.iterations)[None, :]
            sums = jax.tree.map(
                lambda new, old: jnp.where(counts, new, old), after.strategy_sum, state.strategy_sum
            )
            return dataclasses.replace(after, strategy_sum=sums)

        solved = jax.lax.fori_loop(0, self.iterations.max(), advance, start(problem, self.rule))
        strategy = averages(problem, solved.strategy_sum)
        first, second = (
            _played_values(problem, strategy, player)[: len(ranges[player])] for player in (0, 1)
        )
        return first, second

    def problem(self, ranges: Pair) -> Problem:
        """The subgames with the given ranges at their roots."""
        problem = free_game(self.sides, self.payoff, ranges[0].shape[1], ranges[0].dtype)
        first, second = (
            dataclasses.replace(terms, scale=_pad(own, side))
            for terms, own, side in zip(problem.terms, ranges, self.sides, strict=True)
        )
        # Costs about one iteration; recomputed because it depends on the reaches.
        return with_regret_tolerance(dataclasses.replace(problem, terms=(first, second)))


def _pad(own: jax.Array, side: Side) -> jax.Array:
    """`[R, lanes]` a range with 0 at the roots that pad a side."""
    return jnp.pad(own, ((0, side.body.num_roots - len(own)), (0, 0)))


def _played_values(problem: Problem, strategy: tuple[Parts, Parts], player: int) -> jax.Array:
    """`[R, lanes]` counterfactual values of a player's roots when both follow these strategies."""
    plan = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    gradient, _ = problem.payoff.gradient(player, payoff_reaches(problem, (plan[0], plan[1])), None)
    return values_up(problem.sides[player], problem.terms[player], gradient, strategy[player]).roots


def solved_subgames(
    forest: Forest, iterations: Sequence[int], rule: Rule, dtype: DTypeLike
) -> SolvedSubgames:
    """Transfers the subgames of a forest to the device; call inside `precision(dtype)`.

    Args:
      forest: the subgames.
      iterations: number of CFR iterations in the subgames, for each lane, or a single number for all.
      rule: the regret-matching rule in the subgames.
      dtype: precision of the solve.
    """
    return SolvedSubgames(
        rule=jax.tree.map(jnp.asarray, rule),
        iterations=jax.device_put(np.asarray(iterations, np.int32)),
        sides=build_bodies(forest, dtype),
        payoff=build_payoff(forest.form.payoff, dtype, rounding=forest.rounding),
    )
