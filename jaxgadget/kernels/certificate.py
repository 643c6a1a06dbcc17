"""What strategies are worth: averages completed where they say nothing, and played against best responses."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.kernels.cfr import averages
from jaxgadget.kernels.problem import Parts, Problem
from jaxgadget.kernels.response import evaluate
from jaxgadget.kernels.treeplex import expand_infosets, sum_actions
from jaxgadget.util.arrays import FloatArray


class Kept(NamedTuple):
    """What a player plays where its average is not taken.

    Attributes:
      rows: `[Q, lanes]` of its body.
      solved: `[Q, lanes]` where the average is taken, if it has any mass there.
    """

    rows: jax.Array
    solved: jax.Array


class Certificate(NamedTuple):
    """Strategies and what they guarantee.

    Attributes:
      strategy: both players' bodies, `[Q, lanes]`.
      guaranteed: for both players `[games, lanes]`, what its strategy is worth at least, in its own utility.
      gap: `[games, lanes]` NashConv of each game: an optimum lies between what is guaranteed and that + gap.
      below: for both players `[R, lanes]`, `V(s)` of the *other* player's roots in its own utility: against
        the best response below them, before the root's scale.
    """

    strategy: tuple[jax.Array, jax.Array]
    guaranteed: tuple[jax.Array, jax.Array]
    gap: jax.Array
    below: tuple[jax.Array, jax.Array]


def certify_average(
    problem: Problem, strategy_sum: tuple[Parts, Parts], kept: tuple[Kept | None, Kept | None]
) -> Certificate:
    """The certificate of averages.

    Args:
      problem: the games, in float64.
      strategy_sum: both players' weighted sums of plans, `[S, lanes]`.
      kept: what both play where their average has no mass, or is not taken; None: all actions alike.
    """
    strategy = averages(problem, strategy_sum)
    completed: list[Kept | None] = []
    for side, total, rows in zip(problem.sides, strategy_sum, kept, strict=True):
        if rows is not None:
            mass = expand_infosets(side.body, sum_actions(side.body, total.body[side.body.num_roots :]))
            rows = Kept(rows.rows, rows.solved & (mass > 0))
        completed.append(rows)
    return certify(problem, strategy, (completed[0], completed[1]))


def certify(
    problem: Problem, strategy: tuple[Parts, Parts], kept: tuple[Kept | None, Kept | None]
) -> Certificate:
    """The certificate of strategies, but where other rows are kept; see `certify_average`."""
    first, second = (
        parts if rows is None else Parts(parts.entry, jnp.where(rows.solved, parts.body, rows.rows))
        for parts, rows in zip(strategy, kept, strict=True)
    )
    evaluation = evaluate(problem, (first, second))
    below = (-evaluation.below[0], -evaluation.below[1])
    return Certificate((first.body, second.body), evaluation.guaranteed, evaluation.gap, below)


def find_overflows(value: FloatArray, gap: FloatArray) -> dict[int, int]:
    """Lanes with numbers that are not finite, and the first game in which they are, `[games, lanes]` each."""
    failed = ~(np.isfinite(value) & np.isfinite(gap))
    return {int(lane): int(failed[:, lane].argmax()) for lane in np.flatnonzero(failed.any(axis=0))}
