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
from typing import Any, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import optax
import pandas as pd

from jaxgadget.core.loops import LOOP_FORM, LOOP_OPTIONS
from jaxgadget.learn.optimiser import LearningSchedule, make_optimiser
from jaxgadget.learn.options import TrainerConfig
from jaxgadget.networks.checkpoints import Row, TrainingFolder
from jaxgadget.networks.perceptron import Weights
from jaxgadget.util.compilation import compiled

Measure: TypeAlias = Callable[[Weights], dict[str, float]]
"""Columns of the log, given a network's weights."""

log = logging.getLogger(__name__)


Carried: TypeAlias = Any
"""State of a lesson: a pytree of arrays that changes during training, such as old weights or samples."""


class Lesson(Protocol):
    """Task of a network: a pytree on the device with everything besides the weights that determines the loss.

    The network's shape and the batch size are static fields. Lessons without state inherit `Stateless`.
    """

    def init(self, weights: Weights) -> Carried:
        """State before the first step; structure, shapes and dtypes never change."""
        ...

    def carry(self, carried: Carried, weights: Weights, step: jax.Array) -> Carried:
        """State for the loss of a step, from the state of the previous step and the current weights."""
        ...

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        """Mean loss over the batch of a step; training follows its gradient with respect to the weights."""
        ...


class Stateless:
    """A lesson whose losses depend only on the weights and the step."""

    def init(self, weights: Weights) -> Carried:
        """None."""
        return None

    def carry(self, carried: Carried, weights: Weights, step: jax.Array) -> Carried:
        """None."""
        return None


# --- the compiled steps -----------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """State of a training.

    Attributes:
      weights: weights of the network.
      optimiser: state of the optimiser.
      carried: state of the lesson.
      average: average of the weights so far; None if the schedule has none.
      step: number of completed steps.
      loss_sum: sum of the losses since `advance` was called; NaN if the loss or gradient of step `step` was
        not finite: the weights, their average and the optimiser are then those before it.
    """

    weights: Weights
    optimiser: optax.OptState
    carried: Carried
    average: Weights | None
    step: jax.Array
    loss_sum: jax.Array

    @property
    def parts(self) -> dict[str, Any]:
        """The parts of a checkpoint, by name."""
        names = "weights", "optimiser", "carried", "average"
        parts = {name: getattr(self, name) for name in names}
        return {name: part for name, part in parts.items() if jax.tree.leaves(part)}

    @property
    def network(self) -> Weights:
        """Weights of the trained network: the average if there is one."""
        return self.weights if self.average is None else self.average

    def at(self, step: int, parts: dict[str, Any]) -> Progress:
        """The state of a checkpoint."""
        return dataclasses.replace(self, **parts, step=jnp.int32(step))


def begin(weights: Weights, schedule: LearningSchedule, carried: Carried = None) -> Progress:
    """Initial state."""
    return Progress(
        weights=weights,
        optimiser=make_optimiser(schedule).init(weights),
        carried=jax.tree.map(jnp.copy, carried),  # perhaps the weights, and each buffer is donated once
        average=jax.tree.map(jnp.copy, weights) if schedule.average else None,
        step=jnp.int32(0),
        loss_sum=jnp.float32(0),
    )


@compiled(static_argnames="schedule", donate_argnames="progress", gpu_options=LOOP_OPTIONS[LOOP_FORM])
def advance(progress: Progress, lesson: Lesson, until: jax.Array, *, schedule: LearningSchedule) -> Progress:
    """Trains until step `until`, or until a step fails."""
    optimiser = make_optimiser(schedule)

    def goes_on(now: Progress) -> jax.Array:
        return (now.step < until) & jnp.isfinite(now.loss_sum)

    def train(now: Progress) -> Progress:
        carried = lesson.carry(now.carried, now.weights, now.step)
        loss, gradient = jax.value_and_grad(lesson.loss)(now.weights, carried, now.step)
        is_finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
            updates, state = optimiser.update(gradient, now.optimiser, now.weights)
        # `optax.apply_if_finite` does not see the loss, and its branch slows small networks by a quarter.
        weights = optax.apply_updates(now.weights, updates)
        average = now.average
        if average is not None:
            rate = schedule.average_rate(now.step)
            average = jax.tree.map(lambda old, new: old + rate * (new - old), average, weights)
        weights, state, average = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old),
            (weights, state, average),
            (now.weights, now.optimiser, now.average),
        )
        return Progress(
            weights=weights,
            optimiser=state,
            carried=carried,
            average=average,
            step=now.step + is_finite.astype(jnp.int32),
            loss_sum=now.loss_sum + jnp.where(is_finite, loss, jnp.nan),
        )

    start = dataclasses.replace(progress, loss_sum=jnp.float32(0))
    return jax.lax.while_loop(goes_on, train, start)


# --- the run ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrainingResult:
    """Result of any training.

    Attributes:
      log: columns `step`, `loss` (mean since the previous row), the training's measures, elapsed `seconds`,
        and `examples_per_second`.
      seconds: total time of all runs, including targets and compilation.
    """

    log: pd.DataFrame
    seconds: float

    @property
    def examples_per_second(self) -> float:
        """Median over the log."""
        return float(self.log["examples_per_second"].median())


class Trainer:
    """A training in parts; construct and call it under `precision(np.float32)`.

    Args:
      config: settings of the training.
      lesson: the task.
      weights: initial weights; their buffers may be donated.
      measure: further columns of the log, given the weights; infinite if a number is not finite, NaN if
        unknown.
      keeper: a folder for checkpoints and the log; a training stored there is resumed.
      began: start of this run, from `time.perf_counter`.

    Attributes:
      lesson: the task; may be replaced between calls of `train`, for example to add examples.
      measure: columns of the log; may be replaced with the lesson.
      progress: state of the training.
      log: one row per part.

    Raises:
      ValueError: if the folder cannot be read.
    """

    def __init__(
        self,
        config: TrainerConfig,
        lesson: Lesson,
        weights: Weights,
        measure: Measure,
        keeper: TrainingFolder | None,
        began: float,
    ):
        self.lesson, self.measure = lesson, measure
        self._config, self._keeper, self._began, self._before = config, keeper, began, 0.0
        self.progress = begin(weights, config.schedule, lesson.init(weights))
        self.log: list[Row] = []
        if keeper is not None:
            self.progress, self.log = keeper.load(self.progress)
            self._before = self.log[-1]["seconds"] if self.log else 0.0
            if 0 < (step := int(self.progress.step)) < config.steps:
                log.info("Resuming %r after step %d of %d.", str(keeper.path), step, config.steps)

    def seconds(self) -> float:
        """Elapsed time, including previous runs."""
        return self._before + time.perf_counter() - self._began

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
            measured, step = self.measure(self.progress.network), int(self.progress.step)
            if step < end or any(map(math.isinf, measured.values())):
                self._fail(min(step, end - 1))
            row: Row = {
                "step": end,
                "loss": float(self.progress.loss_sum) / (end - done),
                **measured,
                "seconds": self.seconds(),
                "examples_per_second": (end - done) * self._config.batch_size / max(elapsed, 1e-9),
            }
            self.log.append(row)
            done = end
            if self._keeper is not None:
                self._keeper.save(self.progress, self.log)
            report(done)

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
