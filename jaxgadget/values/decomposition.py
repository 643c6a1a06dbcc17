"""CFR-D: subgames below a cut that are solved anew for the current ranges, without storing them.

The trunk is an ordinary problem of `cfr.py`; only its payoff is special (Burch, Johanson and Bowling 2014,
"Generating a Trunk Strategy using CFR-D"): given both players' ranges, the subgames are solved from scratch
by CFR, and only running sums of the counterfactual values of their roots are kept.

Deviation from the paper: updates alternate, as everywhere here, so the subgames are solved once
for each player's update, with the newest reaches, and not once an iteration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

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
    best_values_up,
    evaluation_game,
    follow,
    free_game,
    values_up,
    with_regret_tolerance,
)
from jaxgadget.core.regret import Rule
from jaxgadget.core.response import payoff_reaches
from jaxgadget.core.rows import Sums, array_bytes, build_row_sums, take_rows
from jaxgadget.gadgets.structure import build_bodies
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.trunk import Trunk
from jaxgadget.util.arrays import IntArray
from jaxgadget.values.ranged_payoff import Pair, RangedPayoff


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SolvedSubgames:
    """A `RangeFunction` that solves all subgames below a cut for the given ranges.

    Attributes:
      rule: the regret-matching rule.
      iterations: `[lanes]` CFR iterations, or `[1]` for all lanes.
      sides: both players' decisions in the subgames, with fixed entries.
      payoff: between them.
    """

    rule: Rule
    iterations: jax.Array
    sides: tuple[Side, Side]
    payoff: Payoff

    def __call__(self, ranges: Pair) -> Pair:
        """`[R, lanes]` both players' counterfactual values when both follow their averages of a solve.

        The averages below every root assume that its player reaches it with probability 1, so that they are
        mutual counterfactual best responses up to the error of the solve, also below unreachable roots.
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
        """The subgames as the players reach them."""
        problem = free_game(self.sides, self.payoff, ranges[0].shape[1], ranges[0].dtype)
        first, second = (
            dataclasses.replace(terms, scale=_pad(own, side))
            for terms, own, side in zip(problem.terms, ranges, self.sides, strict=True)
        )
        # About one more iteration; computed anew because it depends on the reaches.
        return with_regret_tolerance(dataclasses.replace(problem, terms=(first, second)))


def _pad(own: jax.Array, side: Side) -> jax.Array:
    """`[R, lanes]` a range with 0 at the roots that pad a side."""
    return jnp.pad(own, ((0, side.body.num_roots - len(own)), (0, 0)))


def _played_values(problem: Problem, strategy: tuple[Parts, Parts], player: int) -> jax.Array:
    """`[R, lanes]` counterfactual values of a player's roots when both follow these strategies."""
    plan = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    gradient, _ = problem.payoff.gradient(player, payoff_reaches(problem, (plan[0], plan[1])), None)
    return values_up(problem.sides[player], problem.terms[player], gradient, strategy[player]).roots


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgameBound:
    """A payoff of the trunk that bounds solved subgames: below the cut, players get the largest payoffs.

    Attributes:
      outside: the payoff of terminals outside all subgames.
      sides: both players' decisions in the subgames, with fixed entries.
      payoff: between them.
      sequence: for both players `[R]` the trunk's sequence above each root.
      linked: for both players, sums over roots into the trunk's sequences.
    """

    outside: Payoff
    sides: tuple[Side, Side]
    payoff: Payoff
    sequence: Pair
    linked: tuple[Sums, Sums]

    def gradient(self, player: int, reach: Pair, state: Any) -> tuple[jax.Array, Any]:
        """`[num_sequences, lanes]` gradient of `player`, given both players' reach, and the next state."""
        first, second = (
            side.below_roots(_pad(take_rows(above, sequence), side))
            for above, sequence, side in zip(reach, self.sequence, self.sides, strict=True)
        )
        below, _ = self.payoff.gradient(player, (first, second), None)
        problem = free_game(self.sides, self.payoff, below.shape[1], below.dtype)
        roots = best_values_up(self.sides[player], problem.terms[player], below).roots
        outside, _ = self.outside.gradient(player, reach, None)
        return outside + self.linked[player](roots[: len(self.sequence[player])]), state

    def absolute(self) -> SubgameBound:
        """The payoff of absolute values, without a state."""
        return dataclasses.replace(self, outside=self.outside.absolute(), payoff=self.payoff.absolute())

    def num_bytes(self) -> tuple[int, int]:
        """Bytes on a device: independent of the lanes, and per lane."""
        return array_bytes(self), 0

    def take_lanes(self, lanes: IntArray) -> SubgameBound:
        """The bound of some lanes: itself."""
        return self


def solved_subgames(
    forest: Forest, iterations: Sequence[int], rule: Rule, dtype: DTypeLike
) -> SolvedSubgames:
    """Transfers the subgames of a forest to the device; call inside `precision(dtype)`.

    Args:
      forest: the subgames.
      iterations: of CFR in the subgames, for every lane, or a single number for all.
      rule: the regret-matching rule in the subgames.
      dtype: of the numbers.
    """
    return SolvedSubgames(
        rule=jax.tree.map(jnp.asarray, rule),
        iterations=jax.device_put(np.asarray(iterations, np.int32)),
        sides=build_bodies(forest, dtype),
        payoff=build_payoff(forest.form.payoff, dtype, rounding=forest.rounding),
    )


def trunk_problem(
    forest: Forest,
    trunk: Trunk,
    *,
    iterations: Sequence[int],
    rule: Rule,
    weighting: Rule,
    dtype: DTypeLike,
) -> Problem:
    """The trunk above a forest, with the forest inside its payoff; call inside `precision(dtype)`.

    Args:
      forest: the subgames.
      trunk: the game above them.
      iterations: of CFR in the subgames, in every update of the trunk; a lane each.
      rule: the regret-matching rule in the subgames.
      weighting: the rule that the trunk will be solved with.
      dtype: of the numbers.
    """
    subgames = solved_subgames(forest, iterations, rule, dtype)
    outside = build_payoff(trunk.form.payoff, dtype)
    first, second = (jax.device_put(link.astype(np.int32)) for link in trunk.link)
    linked = [
        build_row_sums(link, np.arange(len(link)), np.ones(len(link)), treeplex.num_sequences, dtype)
        for link, treeplex in zip(trunk.link, trunk.form.treeplex, strict=True)
    ]
    bound = SubgameBound(
        outside=outside,
        sides=subgames.sides,
        payoff=subgames.payoff,
        sequence=(first, second),
        linked=(linked[0], linked[1]),
    )
    payoff = RangedPayoff(
        weighting=jax.tree.map(jnp.asarray, weighting),
        outside=outside,
        function=subgames,
        sequence=bound.sequence,
        linked=bound.linked,
        bound=bound,
    )
    return with_regret_tolerance(evaluation_game(trunk.form.treeplex, payoff, len(iterations), dtype))
