"""CFR-D: a payoff that solves all subgames below a cut at each evaluation, without storing them.

The trunk is an ordinary problem of `cfr.py`; only its payoff is special (Burch, Johanson and Bowling 2014,
"Generating a Trunk Strategy using CFR-D"). Given both players' reaches, it solves the subgames from scratch
by CFR, adds the counterfactual values of their roots to the payoffs of terminals outside them, and keeps only
running sums of these values.

Deviation from the paper: updates alternate, as everywhere here, so the subgames are solved once
for each player's update, with the newest reaches, and not once an iteration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.cfr import State, averages, start, step
from jaxgadget.core.payoff import Payoff, build_payoff
from jaxgadget.core.problem import (
    Parts,
    Problem,
    Terms,
    best_values_up,
    build_side,
    check_precision,
    fixed_entry,
    follow,
    no_regret_tolerance,
    values_up,
    with_regret_tolerance,
)
from jaxgadget.core.regret import Rule
from jaxgadget.core.response import payoff_reaches
from jaxgadget.core.rows import RowSums, array_bytes, build_row_sums, pad_rows
from jaxgadget.gadgets.structure import build_bodies
from jaxgadget.tree.forest import Forest
from jaxgadget.tree.trunk import Trunk
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.players import replaced


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RootSums:
    """State of the subgames: for each player, sums over its updates so far.

    Attributes:
      updates: number of updates.
      weight: sum of their weights.
      total: `[R, lanes]` the weighted sum of the counterfactual values of the player's roots, in
        its own utility: chance's and the other player's reach included, its own not.
    """

    updates: tuple[jax.Array, jax.Array]
    weight: tuple[jax.Array, jax.Array]
    total: tuple[jax.Array, jax.Array]

    def add(self, player: int, values: jax.Array, rule: Rule) -> RootSums:
        """Adds the values of an update of a player; weighted as in the trunk's average."""
        updates = self.updates[player] + 1
        weight = rule.weight(updates.astype(values.dtype))
        return RootSums(
            updates=replaced(self.updates, player, updates),
            weight=replaced(self.weight, player, self.weight[player] + weight),
            total=replaced(self.total, player, self.total[player] + weight * values),
        )

    def averages(self) -> tuple[jax.Array, jax.Array]:
        """`[R, lanes]` both players' average counterfactual values, 0 before the first update."""
        first, second = (
            total / jnp.where(weight > 0, weight, 1)
            for total, weight in zip(self.total, self.weight, strict=True)
        )
        return first, second


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ForestPayoff:
    """The payoff above a cut, with equilibrium play below it.

    Attributes:
      rule: the regret-matching rule below the cut.
      weighting: the trunk's rule, whose weights the sums of root values have.
      iterations: `[lanes]` CFR iterations of each subgame solve.
      outside: payoff of terminals outside all subgames.
      below: the subgames, both entries fixed; the roots' scales are set for each solve.
      link: for both players `[R]` the trunk's sequence above each root; past the last for padding.
      linked: for both players, sums over roots into the trunk's sequences.
    """

    rule: Rule
    weighting: Rule
    iterations: jax.Array
    outside: Payoff
    below: Problem
    link: tuple[jax.Array, jax.Array]
    linked: tuple[RowSums, RowSums]

    def gradient(
        self, player: int, reach: tuple[jax.Array, jax.Array], state: RootSums
    ) -> tuple[jax.Array, RootSums]:
        """Gradient of `player`, and `state` with the values of the player's roots added."""
        values = self.root_values(player, reach)
        outside, _ = self.outside.gradient(player, reach, None)
        return outside + self.linked[player](values), state.add(player, values, self.weighting)

    def root_values(self, player: int, reach: tuple[jax.Array, jax.Array]) -> jax.Array:
        """`[R, lanes]` a player's counterfactual values when both follow their averages of a solve.

        The averages below every root assume that its player reaches it with probability 1, so that they are
        mutual counterfactual best responses up to the error of the solve, also below unreachable roots.

        Args:
          player: the player whose roots are evaluated.
          reach: `[num_sequences, lanes]` of both players in the trunk.
        """
        problem = self.subgames(reach)

        def advance(_: jax.Array, state: State) -> State:
            after = step(problem, self.rule, state)
            counts = (after.iteration <= self.iterations)[None, :]
            sums = jax.tree.map(
                lambda new, old: jnp.where(counts, new, old), after.strategy_sum, state.strategy_sum
            )
            return dataclasses.replace(after, strategy_sum=sums)

        solved = jax.lax.fori_loop(0, self.iterations.max(), advance, start(problem, self.rule))
        return played_values(problem, averages(problem, solved.strategy_sum), player)

    def subgames(self, reach: tuple[jax.Array, jax.Array]) -> Problem:
        """The subgames as the players reach them."""
        terms = [
            dataclasses.replace(side_terms, scale=own.at[link].get(mode="fill", fill_value=0))
            for side_terms, own, link in zip(self.below.terms, reach, self.link, strict=True)
        ]
        problem = dataclasses.replace(self.below, terms=(terms[0], terms[1]))
        # About one more iteration; computed anew because it depends on the reaches.
        return with_regret_tolerance(problem)

    def absolute(self) -> ForestBound:
        """The payoff of absolute values, without a state."""
        below = dataclasses.replace(self.below, payoff=self.below.payoff.absolute())
        return ForestBound(outside=self.outside.absolute(), below=below, link=self.link, linked=self.linked)

    def num_bytes(self) -> tuple[int, int]:
        """Bytes on a device: independent of the lanes, and per lane."""
        outside, payoff = self.outside.num_bytes(), self.below.payoff.num_bytes()
        structure = array_bytes((self.below.sides, self.link, self.linked))
        numbers = array_bytes((self.below.terms, self.below.regret_tolerance, self.iterations))
        return (
            outside[0] + payoff[0] + structure,
            outside[1] + payoff[1] + numbers // self.below.num_lanes,
        )

    def take_lanes(self, lanes: IntArray) -> ForestPayoff:
        """The payoff of some lanes; itself if all lanes share it."""
        terms, tolerance = jax.tree.map(
            lambda x: x[..., lanes], (self.below.terms, self.below.regret_tolerance)
        )
        payoff = self.below.payoff.take_lanes(lanes)
        return dataclasses.replace(
            self,
            iterations=self.iterations[lanes],
            outside=self.outside.take_lanes(lanes),
            below=dataclasses.replace(self.below, payoff=payoff, terms=terms, regret_tolerance=tolerance),
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ForestBound:
    """The most that a `ForestPayoff` can add up to: below the cut, players play for the largest payoffs.

    Attributes:
      outside: the payoff above the cut, without signs.
      below: the subgames, their payoff without signs.
      link: as in `ForestPayoff`.
      linked: as in `ForestPayoff`.
    """

    outside: Payoff
    below: Problem
    link: tuple[jax.Array, jax.Array]
    linked: tuple[RowSums, RowSums]

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """`[num_sequences, lanes]` gradient of `player`, given both players' reach, and the next state."""
        first, second = (
            side.below_roots(above.at[link].get(mode="fill", fill_value=0))
            for above, link, side in zip(reach, self.link, self.below.sides, strict=True)
        )
        below, _ = self.below.payoff.gradient(player, (first, second), None)
        roots = best_values_up(self.below.sides[player], self.below.terms[player], below).roots
        outside, _ = self.outside.gradient(player, reach, None)
        return outside + self.linked[player](roots), state

    def absolute(self) -> ForestBound:
        """The payoff of absolute values, without a state."""
        return self

    def num_bytes(self) -> tuple[int, int]:
        """Bytes on a device: independent of the lanes, and per lane."""
        return array_bytes(self), 0

    def take_lanes(self, lanes: IntArray) -> ForestBound:
        """The bound of some lanes."""
        terms = jax.tree.map(lambda x: x[..., lanes], self.below.terms)
        payoff = self.below.payoff.take_lanes(lanes)
        return dataclasses.replace(
            self,
            outside=self.outside.take_lanes(lanes),
            below=dataclasses.replace(self.below, payoff=payoff, terms=terms),
        )


def played_values(problem: Problem, strategy: tuple[Parts, Parts], player: int) -> jax.Array:
    """`[R, lanes]` counterfactual values of a player's roots when both follow these strategies."""
    plan = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    gradient, _ = problem.payoff.gradient(player, payoff_reaches(problem, (plan[0], plan[1])), None)
    return values_up(problem.sides[player], problem.terms[player], gradient, strategy[player]).roots


class TrunkSolution(NamedTuple):
    """A solved trunk.

    Attributes:
      strategy: both players' average strategies, `[Q, lanes]` in the trunk.
      values: both players' average counterfactual values of their roots, `[R, lanes]`.
      best: for both players `[lanes]`, what its best response to the other's average gets in the
        trunk if its roots are worth their average values.
    """

    strategy: tuple[jax.Array, jax.Array]
    values: tuple[jax.Array, jax.Array]
    best: tuple[jax.Array, jax.Array]


@jax.jit
def conclude_trunk(problem: Problem, state: State) -> TrunkSolution:
    """Strategies and values of a solved `trunk_problem`; the subgames are not solved again."""
    check_precision(problem)
    payoff, strategy = forest_payoff(problem), averages(problem, state.strategy_sum)
    values = state.payoff.averages()
    plan = [follow(problem.sides[p], problem.terms[p], strategy[p]) for p in (0, 1)]
    reach = payoff_reaches(problem, (plan[0], plan[1]))
    best: list[jax.Array] = []
    for player in (0, 1):
        outside, _ = payoff.outside.gradient(player, reach, None)
        gradient = outside + payoff.linked[player](values[player])
        values_of_best = best_values_up(problem.sides[player], problem.terms[player], gradient)
        best.append(values_of_best.subgames[0])
    return TrunkSolution((strategy[0].body, strategy[1].body), values, (best[0], best[1]))


def forest_payoff(problem: Problem) -> ForestPayoff:
    """The payoff of a `trunk_problem`."""
    if not isinstance(problem.payoff, ForestPayoff):
        raise TypeError(f"the payoff is a {type(problem.payoff).__name__}; expected a trunk_problem's")
    return problem.payoff


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
      trunk: what lies above them.
      iterations: of CFR in the subgames, in every update of the trunk; a lane each.
      rule: the regret-matching rule in the subgames.
      weighting: the rule that the trunk will be solved with.
      dtype: of the numbers.
    """
    num_lanes = len(iterations)
    sides = [
        build_side(treeplex, fixed_entry(1), np.zeros(1, np.int64), dtype) for treeplex in trunk.form.treeplex
    ]
    sizes = [treeplex.num_sequences for treeplex in trunk.form.treeplex]
    below = _subgames(forest, num_lanes, dtype)
    links = [
        pad_rows(trunk.link[p], below.sides[p].body.num_roots, size).astype(np.int32)
        for p, size in enumerate(sizes)
    ]
    linked = [
        build_row_sums(link, np.arange(len(link)), np.ones(len(link)), size, dtype)
        for link, size in zip(trunk.link, sizes, strict=True)
    ]
    payoff = ForestPayoff(
        rule=jax.tree.map(jnp.asarray, rule),
        weighting=jax.tree.map(jnp.asarray, weighting),
        iterations=jax.device_put(np.asarray(iterations, np.int32)),
        outside=build_payoff(trunk.form.payoff, dtype),
        below=below,
        link=(jax.device_put(links[0]), jax.device_put(links[1])),
        linked=(linked[0], linked[1]),
    )
    unit = Terms(scale=jnp.ones((1, num_lanes), dtype), constant=jnp.zeros((1, num_lanes), dtype))
    problem = Problem(
        order=(0, 1),
        sides=(sides[0], sides[1]),
        terms=(unit, unit),
        payoff=payoff,
        regret_tolerance=no_regret_tolerance(sides, num_lanes, dtype),
    )
    return with_regret_tolerance(problem)


def no_values(problem: Problem) -> RootSums:
    """The payoff's state before the first update of a `trunk_problem`."""
    nothing = [jnp.zeros_like(terms.scale) for terms in forest_payoff(problem).below.terms]
    return RootSums(
        updates=(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)),
        weight=(jnp.zeros((), problem.dtype), jnp.zeros((), problem.dtype)),
        total=(nothing[0], nothing[1]),
    )


def _subgames(forest: Forest, lanes: int, dtype: DTypeLike) -> Problem:
    """The subgames with every root's scale at 1."""
    sides = build_bodies(forest, dtype)
    first, second = (
        Terms(
            scale=jnp.ones((side.body.num_roots, lanes), dtype),
            constant=jnp.zeros((side.entry.num_sequences, lanes), dtype),
        )
        for side in sides
    )
    return Problem(
        order=(0, 1),
        sides=sides,
        terms=(first, second),
        payoff=build_payoff(forest.form.payoff, dtype, rounding=forest.rounding),
        regret_tolerance=no_regret_tolerance(sides, lanes, dtype),
    )
