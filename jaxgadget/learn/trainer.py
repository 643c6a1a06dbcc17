"""Training of any network with any lesson: compiled steps, and a run in parts with log and checkpoints.

All randomness is a function of the lesson's key and the step; no generator state is carried. A resumed
training therefore ends with the weights of an uninterrupted one: bit for bit on one CPU with one JAX version
and equally many cores, on which the order of XLA's summations depends.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import optax
import pandas as pd

from jaxgadget.learn.checkpoints import Row, TrainingFolder
from jaxgadget.learn.optimiser import LearningSchedule, make_optimiser
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.learn.perceptron import Weights
from jaxgadget.util.compilation import compiled

LOG_DRAWS, FINAL_DRAWS = 2**15, 2**20
"""Minimum number of draws to measure errors with noisy targets, in the log and at the end."""

SHOWN = 1024
"""Maximum number of examples of the log's error if none are held out."""

log = logging.getLogger(__name__)


class Lesson(Protocol):
    """Training data of a network: a pytree of examples on the device, the training set first.

    The network's shape and the batch size are static fields.
    """

    @property
    def scale(self) -> jax.Array:
        """Payoff unit of the network's outputs."""
        ...

    def loss(self, weights: Weights, step: jax.Array) -> jax.Array:
        """Mean squared error over the batch of a step, in units of `scale`²."""
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
          weights: of the network.
          rows: `[evaluated]` indices of examples.
          batch: index of the batch; batches with noisy targets have independent noise.
        """
        ...


# --- the compiled steps -----------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """State of a training.

    Attributes:
      weights: the network's.
      optimiser: state of the optimiser.
      step: number of completed steps.
      loss_sum: sum of the losses since `advance` was called; NaN if the loss or gradient of step `step` was
        not finite: all other fields are then those before it.
    """

    weights: Weights
    optimiser: optax.OptState
    step: jax.Array
    loss_sum: jax.Array


def begin(weights: Weights, schedule: LearningSchedule) -> Progress:
    """Initial state."""
    return Progress(
        weights=weights,
        optimiser=make_optimiser(schedule).init(weights),
        step=jnp.int32(0),
        loss_sum=jnp.float32(0),
    )


@compiled(static_argnames="schedule", donate_argnames="progress")
def advance(progress: Progress, lesson: Lesson, until: jax.Array, *, schedule: LearningSchedule) -> Progress:
    """Trains until step `until`, or until a step fails."""
    optimiser = make_optimiser(schedule)

    def goes_on(now: Progress) -> jax.Array:
        return (now.step < until) & jnp.isfinite(now.loss_sum)

    def train(now: Progress) -> Progress:
        loss, gradient = jax.value_and_grad(lesson.loss)(now.weights, now.step)
        is_finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
            updates, state = optimiser.update(gradient, now.optimiser, now.weights)
        # `optax.apply_if_finite` does not see the loss, and its branch slows small networks by a quarter.
        weights, state = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old),
            (optax.apply_updates(now.weights, updates), state),
            (now.weights, now.optimiser),
        )
        return Progress(
            weights=weights,
            optimiser=state,
            step=now.step + is_finite.astype(jnp.int32),
            loss_sum=now.loss_sum + jnp.where(is_finite, loss, jnp.nan),
        )

    start = dataclasses.replace(progress, loss_sum=jnp.float32(0))
    return jax.lax.while_loop(goes_on, train, start)


@compiled
def mean_square(
    lesson: Lesson, weights: Weights, first: jax.Array, last: jax.Array, rounds: jax.Array
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


# --- the run ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrainingResult:
    """Result of any training.

    Attributes:
      log: columns `step`, `loss` (mean squared error since the row before in squares of the payoff range,
        sampled returns' noise included), `heldout_rmse` (payoff units, without noise), elapsed `seconds`, and
        `examples_per_second`.
      train_rmse: root mean squared error over the training set, in payoff units.
      heldout_rmse: the same over held-out examples; NaN if there are none.
      payoff_range: maximum minus minimum payoff.
      seconds: total time of all runs, including targets and compilation.
    """

    log: pd.DataFrame
    train_rmse: float
    heldout_rmse: float
    payoff_range: float
    seconds: float

    @property
    def examples_per_second(self) -> float:
        """Median over the log."""
        return float(self.log["examples_per_second"].median())


class Trainer:
    """A training in parts; construct and call it under `precision(np.float32)`.

    Args:
      config: settings of the training.
      lesson: the training data.
      weights: initial weights; their buffers may be donated.
      counts: size of the training set, and number of all examples.
      keeper: a folder for checkpoints and the log; a training stored there is resumed.
      began: start of this run, from `time.perf_counter`.

    Attributes:
      lesson: the training data; may be replaced between calls of `train`, for example to add examples.
      counts: numbers of examples, replaced with the lesson.
      progress: state of the training.
      log: one row per part.

    Raises:
      ValueError: if the folder cannot be read.
    """

    def __init__(
        self,
        config: TrainingConfig,
        lesson: Lesson,
        weights: Weights,
        counts: tuple[int, int],
        keeper: TrainingFolder | None,
        began: float,
    ):
        self.lesson, self.counts = lesson, counts
        self._config, self._keeper, self._began, self._before = config, keeper, began, 0.0
        self.progress = begin(weights, config.schedule)
        self.log: list[Row] = []
        if keeper is not None:
            self.progress, self.log = keeper.load(self.progress)
            self._before = self.log[-1]["seconds"] if self.log else 0.0
            if 0 < (step := int(self.progress.step)) < config.steps:
                log.info("Going on in %r after step %d of %d.", str(keeper.path), step, config.steps)

    def seconds(self) -> float:
        """Elapsed time, including previous runs."""
        return self._before + time.perf_counter() - self._began

    def rmse(self, first: int, last: int, draws: int) -> float:
        """Root mean squared error over examples in payoff units, without the targets' noise; NaN for none.

        Args:
          first: the first example.
          last: the last example + 1.
          draws: minimum number of draws of noisy targets.
        """
        if first == last:
            return math.nan
        rounds = self.lesson.rounds(last - first, draws)
        error, noise = mean_square(
            self.lesson, self.progress.weights, jnp.int32(first), jnp.int32(last), jnp.int32(rounds)
        )
        return math.sqrt(max(0.0, float(error) - float(noise))) if math.isfinite(error) else math.inf

    def errors(self) -> tuple[float, float]:
        """Root mean squared errors in payoff units: over the training set, and over held-out examples."""
        num_train, total = self.counts
        return self.rmse(0, num_train, FINAL_DRAWS), self.rmse(num_train, total, FINAL_DRAWS)

    def train(self, report: Callable[[int], None], until: int | None = None) -> None:
        """Trains until all steps are completed.

        A part ends, with a checkpoint and a row of the log, at multiples of `config.interval` steps.

        Args:
          report: progress callback; receives the number of completed steps, before the first part and after
            each.
          until: stop at this step, which also ends a part.

        Raises:
          ValueError: if a number is not finite, or a checkpoint cannot be written.
        """
        steps, every = self._config.steps, self._config.interval
        last = steps if until is None else min(until, steps)
        done = int(self.progress.step)
        if done < last:
            self._advance(done)  # compiles
        report(done)
        while done < last:
            before, end = time.perf_counter(), min(last, (done // every + 1) * every)
            self._advance(end)
            elapsed = time.perf_counter() - before
            error, step = self.rmse(*self._shown(), LOG_DRAWS), int(self.progress.step)
            if step < end or not math.isfinite(error):
                self._fail(min(step, end - 1))
            row: Row = {
                "step": end,
                "loss": float(self.progress.loss_sum) / (end - done),
                "heldout_rmse": error if self.counts[0] < self.counts[1] else math.nan,
                "seconds": self.seconds(),
                "examples_per_second": (end - done) * self._config.batch_size / max(elapsed, 1e-9),
            }
            self.log.append(row)
            done = end
            if self._keeper is not None:
                self._keeper.save(self.progress, self.log)
            report(done)

    def _shown(self) -> tuple[int, int]:
        """Examples of the log's error: held-out examples, otherwise some of the training set."""
        num_train, total = self.counts
        return (num_train, total) if num_train < total else (0, min(total, SHOWN))

    def _advance(self, until: int) -> None:
        self.progress = jax.block_until_ready(
            advance(self.progress, self.lesson, jnp.int32(until), schedule=self._config.schedule)
        )

    def _fail(self, step: int) -> None:
        last = None if self._keeper is None else self._keeper.last_step()
        stored = "" if last is None else f"; the folder keeps the checkpoint of step {last}"
        raise ValueError(
            f"training stopped at step {step}: the loss, its gradient or a value is not finite; "
            f"choose a smaller learning_rate than {self._config.learning_rate:g}{stored}"
        )
