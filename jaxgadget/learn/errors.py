"""Errors of regression networks: root mean squares over examples, without the targets' noise."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

import jax
import jax.numpy as jnp

from jaxgadget.core.loops import LOOP_FORM, LOOP_OPTIONS
from jaxgadget.learn.trainer import Lesson, TrainingResult
from jaxgadget.networks.perceptron import Weights
from jaxgadget.util.compilation import compiled

LOG_DRAWS, FINAL_DRAWS = 2**15, 2**20
"""Minimum number of draws to measure errors with noisy targets, in the log and at the end."""

SHOWN = 1024
"""Maximum number of examples of the log's error if none are held out."""


class Regression(Lesson, Protocol):
    """A `Lesson` of examples, the training set first; its loss is the mean squared error in `scale`²."""

    @property
    def scale(self) -> jax.Array:
        """Payoff unit of the network's outputs."""
        ...

    def rounds(self, num_examples: int, draws: int) -> int:
        """Number of rounds over the examples for at least `draws` draws of noisy targets; 1 without noise."""
        ...

    @property
    def evaluated(self) -> int:
        """Number of examples per evaluation batch."""
        ...

    def errors(self, weights: Weights, rows: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean squared errors `[evaluated]` of examples in units of `scale`², and the targets' noise in them.

        Args:
          weights: weights of the network.
          rows: `[evaluated]` indices of examples.
          batch: index of the batch; batches with noisy targets have independent noise.
        """
        ...


@compiled(gpu_options=LOOP_OPTIONS[LOOP_FORM])
def mean_square(
    lesson: Regression, weights: Weights, first: jax.Array, last: jax.Array, rounds: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Mean squared error over examples `first` to `last - 1`, in payoff units², and its noise."""
    count = last - first
    total = count * rounds

    def add(batch: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        position = batch * lesson.evaluated + jnp.arange(lesson.evaluated, dtype=jnp.int32)
        errors, noise = (
            jnp.sum(jnp.where(position < total, squares, 0))
            for squares in lesson.errors(weights, first + position % count, batch)
        )
        return sums[0] + errors, sums[1] + noise

    zero, unit = jnp.float32(0), jnp.square(lesson.scale) / total.astype(jnp.float32)
    error, noise = jax.lax.fori_loop(0, -(-total // lesson.evaluated), add, (zero, zero))
    return error * unit, noise * unit


@dataclasses.dataclass(frozen=True, eq=False)
class Errors:
    """Errors over the examples of a lesson, in payoff units; callable as the measure of a training.

    Attributes:
      lesson: the examples.
      num_train: size of the training set.
      total: number of all examples.
    """

    lesson: Regression
    num_train: int
    total: int

    def __call__(self, weights: Weights) -> dict[str, float]:
        """`heldout_rmse`, NaN if there are no such examples; infinite if a number is not finite."""
        has_heldout = self.num_train < self.total
        shown = (self.num_train, self.total) if has_heldout else (0, min(self.total, SHOWN))
        error = self.rmse(weights, *shown, LOG_DRAWS)
        return {"heldout_rmse": error if has_heldout or math.isinf(error) else math.nan}

    def rmse(self, weights: Weights, first: int, last: int, draws: int) -> float:
        """Root mean squared error over examples, without the targets' noise; NaN for none.

        Args:
          weights: weights of the network.
          first: index of the first example.
          last: index of the last example + 1.
          draws: minimum number of draws of noisy targets.
        """
        if first == last:
            return math.nan
        rounds = self.lesson.rounds(last - first, draws)
        error, noise = mean_square(self.lesson, weights, jnp.int32(first), jnp.int32(last), jnp.int32(rounds))
        return math.sqrt(max(0.0, float(error) - float(noise))) if math.isfinite(error) else math.inf

    def final(self, weights: Weights) -> tuple[float, float]:
        """Root mean squared errors over the training set, and over held-out examples."""
        train, heldout = (0, self.num_train), (self.num_train, self.total)
        return self.rmse(weights, *train, FINAL_DRAWS), self.rmse(weights, *heldout, FINAL_DRAWS)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RegressionResult(TrainingResult):
    """Result of a training whose loss is a mean squared error.

    The log's `loss` is in squares of the payoff range, sampled returns' noise included; its measure is
    `heldout_rmse`, in payoff units without noise.

    Attributes:
      train_rmse: root mean squared error over the training set, in payoff units.
      heldout_rmse: the same over held-out examples; NaN if there are none.
      payoff_range: maximum minus minimum payoff.
    """

    train_rmse: float
    heldout_rmse: float
    payoff_range: float
