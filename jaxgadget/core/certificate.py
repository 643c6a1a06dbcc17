"""Values of strategies against best responses; averages are completed where they have no mass."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.core.cfr import averages
from jaxgadget.core.problem import Parts, Problem
from jaxgadget.core.response import evaluate
from jaxgadget.core.rows import take_rows
from jaxgadget.core.treeplex import Treeplex, expand_infosets, reach, sum_actions
from jaxgadget.util.arrays import FloatArray


class Fallback(NamedTuple):
    """A player's strategy at infosets where its average strategy is not used.

    Attributes:
      rows: `[Q, lanes]` probabilities of the actions of its body.
      solved: `[Q, lanes]` True where the average strategy is used if it has mass.
    """

    rows: jax.Array
    solved: jax.Array


Fallbacks = tuple[Fallback | None, Fallback | None]
"""Both players' fallbacks; None stands for the average everywhere, and uniform where it has no mass."""


class Certificate(NamedTuple):
    """Strategies with their guaranteed values.

    Attributes:
      strategy: both players' strategies in their bodies, `[Q, lanes]`; `[0, lanes]` for a player whose
        strategy is not requested.
      guaranteed: for each player `[games, lanes]`, the least value of its strategy, in its own utility; see
        `Evaluation` for games that are not zero-sum.
      gap: `[games, lanes]` NashConv of each game: its optimum lies in [guaranteed, guaranteed + gap].
      below: for each player `[R, lanes]`, value `V(s)` of its strategy at the *other* player's roots against
        the other player's best response below them, in its own utility and before the root's scale.
      entered: for each player `[R, lanes]`, probability that its own choices in the entry lead to each root.
      value: `[games, lanes]` player 0's value when both players follow these strategies; None unless
        requested.
      root_values: for each player `[R, lanes]`, its value below each of its roots when both players follow
        these strategies, in its own utility and before the root's scale; None unless requested.
    """

    strategy: tuple[jax.Array, jax.Array]
    guaranteed: tuple[jax.Array, jax.Array]
    gap: jax.Array
    below: tuple[jax.Array, jax.Array]
    entered: tuple[jax.Array, jax.Array]
    value: jax.Array | None = None
    root_values: tuple[jax.Array, jax.Array] | None = None


def certify_average(
    problem: Problem,
    strategy_sum: tuple[Parts, Parts],
    fallback: Fallbacks,
    payoff_state: Any = None,
    *,
    players: tuple[int, ...] = (0, 1),
    played: bool = False,
) -> Certificate:
    """Certificate of average strategies.

    Args:
      problem: the games, in float64.
      strategy_sum: both players' weighted sums of plans, `[S, lanes]`, in any precision.
      fallback: both players' strategies where the average has no mass or is not used.
      payoff_state: state of a `NestedPayoff`.
      players: players whose strategies are returned.
      played: also compute the values of both strategies against each other.
    """
    exact = jax.tree.map(lambda x: x.astype(problem.dtype), strategy_sum)
    strategy = averages(problem, exact)
    first, second = (
        None if rows is None else Fallback(rows.rows, rows.solved & _has_mass(side.body, total.body))
        for side, total, rows in zip(problem.sides, exact, fallback, strict=True)
    )
    return certify(problem, strategy, (first, second), payoff_state, players=players, played=played)


def _has_mass(body: Treeplex, total: jax.Array) -> jax.Array:
    """`[Q, lanes]` True where the sum of plans at an action's infoset is positive."""
    return expand_infosets(body, sum_actions(body, total[body.num_roots :])) > 0


def certify(
    problem: Problem,
    strategy: tuple[Parts, Parts],
    fallback: Fallbacks,
    payoff_state: Any = None,
    *,
    players: tuple[int, ...] = (0, 1),
    played: bool = False,
) -> Certificate:
    """Certificate of strategies `[Q, lanes]` and their fallbacks; other arguments as in `certify_average`."""
    first, second = (
        own if rows is None else Parts(own.entry, jnp.where(rows.solved, own.body, rows.rows))
        for own, rows in zip(strategy, fallback, strict=True)
    )
    evaluation = evaluate(problem, (first, second), payoff_state)
    entered = [
        take_rows(_entry_reach(problem, player, own.entry), problem.sides[player].link)
        for player, own in enumerate((first, second))
    ]
    returned = [own.body if player in players else own.body[:0] for player, own in enumerate((first, second))]
    return Certificate(
        strategy=(returned[0], returned[1]),
        guaranteed=evaluation.guaranteed,
        gap=evaluation.gap,
        below=(-evaluation.below[0], -evaluation.below[1]),
        entered=(entered[0], entered[1]),
        value=evaluation.value if played else None,
        root_values=evaluation.root_values if played else None,
    )


def _entry_reach(problem: Problem, player: int, strategy: jax.Array) -> jax.Array:
    """`[E, lanes]` probability that a player plays each sequence of its entry."""
    entry = problem.sides[player].entry
    return reach(entry, strategy, jnp.ones((entry.num_roots, problem.num_lanes), problem.dtype))


def find_overflows(gap: FloatArray) -> dict[int, int]:
    """Maps each lane with a gap that is not finite to the first such game; the gaps are `[games, lanes]`."""
    failed = ~np.isfinite(gap)
    return {int(lane): int(failed[:, lane].argmax()) for lane in np.flatnonzero(failed.any(axis=0))}
