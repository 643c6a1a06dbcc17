"""Range-dependent values at a depth limit or a cut, as a payoff operator, and the solution above it.

As in DeepStack (Moravčík et al. 2017) and ReBeL (Brown et al. 2020): every CFR update maps both players'
ranges at the limit to counterfactual values of all infostates there. Used by `solve_trunk` and `cfr_d`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from jaxgadget.core.cfr import State, averages
from jaxgadget.core.payoff import Payoff
from jaxgadget.core.problem import Problem
from jaxgadget.core.regret import Rule
from jaxgadget.core.response import evaluate
from jaxgadget.core.rows import Sums, array_bytes, take_rows
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.players import replaced

Pair: TypeAlias = tuple[jax.Array, jax.Array]
"""Arrays of player 0 and player 1."""

RangeFunction: TypeAlias = Callable[[Pair], Pair]
"""Function of both players' ranges that returns both players' values; see `RangeValues`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RootSums:
    """State of a `RangedPayoff`: for each player, sums over its previous updates.

    Attributes:
      updates: number of updates.
      weight: sum of their weights.
      total: `[R, lanes]` the weighted sum of the counterfactual values of the player's roots, in
        its own utility: weighted by chance's and the other player's reach, not by its own.
    """

    updates: Pair
    weight: Pair
    total: Pair

    def add(self, player: int, values: jax.Array, rule: Rule) -> RootSums:
        """Adds a player's values in an update, weighted as in the trunk's average."""
        updates = self.updates[player] + 1
        weight = rule.weight(updates.astype(values.dtype))
        return RootSums(
            updates=replaced(self.updates, player, updates),
            weight=replaced(self.weight, player, self.weight[player] + weight),
            total=replaced(self.total, player, self.total[player] + weight * values),
        )

    def averages(self) -> Pair:
        """`[R, lanes]` both players' average counterfactual values, 0 before the first update."""
        first, second = (
            total / jnp.where(weight > 0, weight, 1)
            for total, weight in zip(self.total, self.weight, strict=True)
        )
        return first, second


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RangedPayoff:
    """Payoff of a trunk with range-dependent values of the R_p roots of each player below it.

    Attributes:
      weighting: the solve's rule, whose averaging weights apply to the sums of values.
      outside: the payoff of terminals outside all subgames.
      function: the `RangeFunction`, a pytree.
      sequence: for both players `[R]` the trunk's sequence above each root.
      linked: for both players, sums over roots into the trunk's sequences.
      added: for both players `[R, lanes]`, additional reach of their roots by another copy of the player;
        None for 0.
      bound: a payoff of the trunk that bounds all values, above the roots and at them.
    """

    weighting: Rule
    outside: Payoff
    function: Any
    sequence: Pair
    linked: tuple[Sums, Sums]
    bound: Payoff
    added: Pair | None = None

    def gradient(self, player: int, reach: Pair, state: RootSums) -> tuple[jax.Array, RootSums]:
        """Gradient, as in `Payoff`; adds the player's values to `state` until a value is not finite."""
        ranges = take_rows(reach[0], self.sequence[0]), take_rows(reach[1], self.sequence[1])
        if self.added is not None:
            ranges = ranges[0] + self.added[0], ranges[1] + self.added[1]
        values = self.function(ranges)[player].astype(reach[player].dtype)
        outside, _ = self.outside.gradient(player, reach, None)
        after = state.add(player, values, self.weighting)
        fine = jnp.isfinite(state.total[0]).all() & jnp.isfinite(state.total[1]).all()
        next_state = jax.tree.map(lambda new, old: jnp.where(fine, new, old), after, state)
        return outside + self.linked[player](values), next_state

    def absolute(self) -> Payoff:
        """Absolute values of `bound`, which bounds the unknown values."""
        return self.bound.absolute()

    def num_bytes(self) -> tuple[int, int]:
        """Memory of the payoff, shared and per lane; the function's arrays count as shared."""
        outside, bound = self.outside.num_bytes(), self.bound.num_bytes()
        rest = array_bytes((self.function, self.sequence, self.linked))
        return outside[0] + bound[0] + rest, outside[1] + bound[1]

    def take_lanes(self, lanes: IntArray) -> RangedPayoff:
        """Not supported, since the function takes the ranges of all lanes: raises TypeError."""
        raise TypeError("range-dependent values require all lanes at once; solve in one chunk")


def ranged_payoff_of(problem: Problem) -> RangedPayoff:
    """The payoff of a problem with range-dependent values; raises TypeError for another payoff."""
    if not isinstance(problem.payoff, RangedPayoff):
        raise TypeError(f"the payoff is a {type(problem.payoff).__name__}: expected a RangedPayoff")
    return problem.payoff


def no_values(problem: Problem) -> RootSums:
    """State of a `RangedPayoff` before the first update."""
    num_roots = [len(sequence) for sequence in ranged_payoff_of(problem).sequence]
    first, second = (jnp.zeros((count, problem.num_lanes), problem.dtype) for count in num_roots)
    none, zero = jnp.zeros((), jnp.int32), jnp.zeros((), problem.dtype)
    return RootSums(updates=(none, none), weight=(zero, zero), total=(first, second))


class TrunkSolution(NamedTuple):
    """Solution of a trunk.

    Attributes:
      strategy: both players' average strategies, `[Q, lanes]` in the trunk.
      values: both players' average counterfactual values of their roots, `[R, lanes]`.
      best: for both players `[lanes]`, the value of its best response to the other's average in the trunk if
        its roots have their average values.
      gap: `[lanes]` NashConv with values of the current ranges; NaN unless values are linear in the ranges.
    """

    strategy: Pair
    values: Pair
    best: Pair
    gap: jax.Array


@compiled(static_argnames=("linear",))
def conclude_trunk(problem: Problem, state: State, *, linear: bool = False) -> TrunkSolution:
    """Averages of a solved trunk and their best-response values.

    Args:
      problem: a problem with a `RangedPayoff`.
      state: final state of CFR.
      linear: True if the values are linear in the ranges, so that best responses are defined.
    """
    payoff, strategy = ranged_payoff_of(problem), averages(problem, state.strategy_sum)
    values = state.payoff.averages()
    fixed = dataclasses.replace(payoff, function=Partial(_fixed, values))
    guaranteed = evaluate(dataclasses.replace(problem, payoff=fixed), strategy, state.payoff).guaranteed
    best = -guaranteed[1][0], -guaranteed[0][0]
    gap = evaluate(problem, strategy, state.payoff).gap[0] if linear else jnp.full_like(best[0], jnp.nan)
    return TrunkSolution((strategy[0].body, strategy[1].body), values, best, gap)


def _fixed(values: Pair, _: Pair) -> Pair:
    return values
