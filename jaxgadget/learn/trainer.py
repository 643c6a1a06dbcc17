"""Training of any network with any lesson: compiled steps, and a run in parts with log and checkpoints.

All randomness is a function of the lesson's key and the step; no generator state is carried. A resumed
training therefore ends with the weights of an uninterrupted one: bit for bit on one CPU with one JAX version
and equally many cores, on which the order of XLA's summations depends.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import time
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import optax

from jaxgadget.learn.checkpoints import Row, TrainingFolder
from jaxgadget.learn.perceptron import Weights

WARM_UP = 0.02
"""Fraction of the steps with a rising learning rate."""

SECOND_MOMENT = 0.99
"""Decay of the mean squared gradient. With the usual 0.999 the error was 1.7 times as large in Goofspiel 5
after 3,000 steps, and a seventh larger in Leduc with sampled returns after 2,000."""

WEIGHT_DECAY = 1e-4
LARGEST_GRADIENT = 1.0
"""Gradients are clipped to this norm."""

CONSTANTS: dict[str, float | str] = {
    "schedule": "warm-up, then cosine",
    "warm-up": WARM_UP,
    "second moment": SECOND_MOMENT,
    "weight decay": WEIGHT_DECAY,
    "largest gradient": LARGEST_GRADIENT,
}
"""Constants that determine the weights, besides settings; a training cannot resume with others."""

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

    def mean_square(
        self, weights: Weights, first: jax.Array, last: jax.Array, rounds: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Mean squared error over examples `first` to `last - 1`, in payoff units², and its noise."""
        ...


# --- the compiled steps -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningSchedule:
    """Static settings of the optimiser.

    Attributes:
      learning_rate: maximum learning rate.
      steps: steps of the whole training.
    """

    learning_rate: float
    steps: int


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


def learning_rate(schedule: LearningSchedule) -> optax.Schedule:
    """Learning rate by step: linear warm-up, then cosine decay."""
    warm_up = int(WARM_UP * schedule.steps)
    return optax.warmup_cosine_decay_schedule(
        init_value=schedule.learning_rate / (warm_up + 1),  # with 0 the first step would have no effect
        peak_value=schedule.learning_rate,
        warmup_steps=warm_up,
        decay_steps=schedule.steps,
    )


def _make_optimiser(schedule: LearningSchedule) -> optax.GradientTransformation:
    """AdamW on clipped gradients."""
    adamw = optax.adamw(learning_rate(schedule), b2=SECOND_MOMENT, weight_decay=WEIGHT_DECAY)
    return optax.chain(optax.clip_by_global_norm(LARGEST_GRADIENT), adamw)


def begin(weights: Weights, schedule: LearningSchedule) -> Progress:
    """Initial state."""
    return Progress(
        weights=weights,
        optimiser=_make_optimiser(schedule).init(weights),
        step=jnp.int32(0),
        loss_sum=jnp.float32(0),
    )


@functools.partial(jax.jit, static_argnames="schedule", donate_argnames="progress")
def advance(progress: Progress, lesson: Lesson, until: jax.Array, *, schedule: LearningSchedule) -> Progress:
    """Trains until step `until`, or until a step fails."""
    optimiser = _make_optimiser(schedule)

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


@jax.jit
def mean_square(
    lesson: Lesson, weights: Weights, first: jax.Array, last: jax.Array, rounds: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`Lesson.mean_square`, compiled."""
    return lesson.mean_square(weights, first, last, rounds)


# --- the run ----------------------------------------------------------------------------


class Trainer:
    """A training in parts; construct and call it under `precision(np.float32)`.

    Args:
      schedule: the learning rate and the number of steps.
      lesson: the training data.
      weights: initial weights; their buffers may be donated.
      counts: size of the training set, and number of all examples.
      keeper: a folder for checkpoints and the log; a training stored there is resumed.
      began: start of this run, from `time.perf_counter`.
      batch_size: examples per step.

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
        schedule: LearningSchedule,
        lesson: Lesson,
        weights: Weights,
        counts: tuple[int, int],
        keeper: TrainingFolder | None,
        began: float,
        *,
        batch_size: int,
    ):
        self.lesson, self.counts = lesson, counts
        self._schedule, self._batch_size = schedule, batch_size
        self._keeper, self._began, self._before = keeper, began, 0.0
        self.progress = begin(weights, schedule)
        self.log: list[Row] = []
        if keeper is not None:
            self.progress, self.log = keeper.load(self.progress)
            self._before = self.log[-1]["seconds"] if self.log else 0.0
            if 0 < (step := int(self.progress.step)) < schedule.steps:
                log.info("Going on in %r after step %d of %d.", str(keeper.path), step, schedule.steps)

    def seconds(self) -> float:
        """Time so far, including previous runs."""
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
        numbers = [jnp.int32(integer) for integer in (first, last, self.lesson.rounds(last - first, draws))]
        error, noise = mean_square(self.lesson, self.progress.weights, *numbers)
        return math.sqrt(max(0.0, float(error) - float(noise))) if math.isfinite(error) else math.inf

    def errors(self) -> tuple[float, float]:
        """Root mean squared errors in payoff units: over the training set, and over held-out examples."""
        num_train, total = self.counts
        return self.rmse(0, num_train, FINAL_DRAWS), self.rmse(num_train, total, FINAL_DRAWS)

    def train(self, every: int, report: Callable[[int], None], until: int | None = None) -> None:
        """Trains until all steps are completed.

        Args:
          every: a part ends, with a checkpoint and a row of the log, at multiples of this number of steps.
          report: progress callback; receives the number of completed steps, before the first part and after
            each.
          until: stop at this step, which also ends a part.

        Raises:
          ValueError: if a number is not finite, or a checkpoint cannot be written.
        """
        last = self._schedule.steps if until is None else min(until, self._schedule.steps)
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
                "examples_per_second": (end - done) * self._batch_size / max(elapsed, 1e-9),
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
            advance(self.progress, self.lesson, jnp.int32(until), schedule=self._schedule)
        )

    def _fail(self, step: int) -> None:
        last = None if self._keeper is None else self._keeper.last_step()
        kept = "" if last is None else f"; the folder keeps the checkpoint of step {last}"
        raise ValueError(
            f"training stopped at step {step}: the loss, its gradient or a value is not finite; "
            f"choose a smaller learning_rate than {self._schedule.learning_rate:g}{kept}"
        )
