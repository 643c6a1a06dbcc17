"""Settings of trainings, validated on construction."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Self

from jaxgadget.core.devices import HOME
from jaxgadget.core.memory import find_memory
from jaxgadget.core.solver import check_iterations
from jaxgadget.learn.optimiser import ADAM_EPSILON, CONSTANTS, LearningSchedule
from jaxgadget.networks.perceptron import count_weights
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.memory import megabytes

LARGEST = 2**31 - 1
"""Limit on seeds, which are 32-bit on the device, and on depths."""

NETWORKS = ("padded", "infostates")
"""Kinds of networks of range values."""

PARTS = 50
"""Default number of checkpoints and rows of the log per training."""

TRAINED_ARRAYS = 4
"""Minimum number of copies of every weight in training: weight, gradient, and both moments of Adam."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Settings of any training.

    Attributes:
      steps: training steps.
      batch_size: examples of a training step.
      width: units of a layer of the network.
      depth: residual blocks of the network, of two layers each.
      learning_rate: largest learning rate; it rises over 2 % of the steps, then falls.
      seed: seed of all random numbers.
      every: steps between checkpoints and rows of the log; by default 1/50 of all.

    Raises:
      ValueError: if a setting is out of range.
    """

    steps: int = 10_000
    batch_size: int = 256
    width: int = 512
    depth: int = 1
    learning_rate: float = 3e-3
    seed: int = 0
    every: int | None = None

    DETERMINING: ClassVar = ("steps", "batch_size", "width", "depth", "learning_rate", "seed")
    """Settings on which the weights depend, besides the network's kind."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "width"):
            object.__setattr__(self, name, check_iterations(getattr(self, name), name))
        for name in ("depth", "seed"):
            count = check_whole_number(name, getattr(self, name), 0, LARGEST)
            object.__setattr__(self, name, count)
        if self.every is not None:
            check_iterations(self.every, "every")
        if not is_finite_number(self.learning_rate) or not self.learning_rate > 0:
            raise ValueError(
                f"learning_rate={self.learning_rate!r}: expected a positive number, such as 1e-3"
            )
        # NumPy scalars cannot be written as JSON
        object.__setattr__(self, "learning_rate", float(self.learning_rate))

    @classmethod
    def of(cls, config: object) -> Self:
        """The given settings, or the defaults for None; raises ValueError for another class."""
        config = cls() if config is None else config
        if not isinstance(config, cls):
            raise ValueError(
                f"config={config!r}: expected a {cls.__name__}, such as {cls.__name__}(steps=1000)"
            )
        return config

    @property
    def schedule(self) -> LearningSchedule:
        """The optimiser's learning schedule."""
        return LearningSchedule(learning_rate=self.learning_rate, steps=self.steps)

    def describe(self) -> dict[str, Any]:
        """Settings that determine the weights, besides network and examples, for a `TrainingFolder`."""
        return {name: getattr(self, name) for name in self.DETERMINING} | CONSTANTS

    @property
    def interval(self) -> int:
        """Steps between checkpoints and rows of the log, resolved."""
        return max(1, self.steps // PARTS) if self.every is None else self.every

    def check_room(self, inputs: int, outputs: int) -> None:
        """Raises ValueError if the weights and the arrays of a training step do not fit into memory."""
        activations = self.batch_size * (inputs + outputs + (3 * self.depth + 2) * self.width)
        num_weights = count_weights(inputs, outputs, self.width, self.depth)
        needed = 4 * (TRAINED_ARRAYS * num_weights + 2 * activations)
        available = find_memory(HOME)
        if available is not None and needed > available:
            raise ValueError(
                f"width={self.width}, depth={self.depth}, batch_size={self.batch_size}: training needs at "
                f"least {megabytes(needed)}, but {megabytes(available)} is available; choose smaller values"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig(TrainerConfig):
    """Settings of a training with examples; the defaults are those of `train_value`.

    Attributes:
      batch_size: examples of a training step, drawn with replacement.
      heldout: fraction of held-out examples, at least 0 and below 1, which only measure the error.
    """

    heldout: float = 0.02

    DETERMINING: ClassVar = (*TrainerConfig.DETERMINING, "heldout")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_finite_number(self.heldout) or not 0 <= self.heldout < 1:
            raise ValueError(f"heldout={self.heldout!r}: expected a fraction in [0, 1)")
        object.__setattr__(self, "heldout", float(self.heldout))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeTrainingConfig(TrainingConfig):
    """Settings of a training of range values; the defaults are those of `train_ranges`.

    Attributes:
      samples: number of pairs of ranges that are drawn at random.
      rounds: number of rounds, each of which collects half as many more from searches.
      network: `padded`, most accurate for its cut; or `infostates`, which supports other cuts, too.
      iterations: CFR+ iterations in every subgame.
      width: units of a layer; for `padded`, of the largest public states, fewer for smaller ones.
      heldout: fraction of held-out samples, and of held-out blueprints in rounds.
    """

    batch_size: int = 64
    width: int = 128
    learning_rate: float = 2e-3
    heldout: float = 0.05
    samples: int = 8192
    rounds: int = 2
    network: str = "padded"
    iterations: int = 300

    DETERMINING: ClassVar = (*TrainingConfig.DETERMINING, "samples", "rounds", "iterations")

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "samples", check_whole_number("samples", self.samples, 16))
        object.__setattr__(self, "rounds", check_whole_number("rounds", self.rounds, 0, 100))
        object.__setattr__(self, "iterations", check_iterations(self.iterations))
        if self.network not in NETWORKS:
            raise ValueError(f"network={self.network!r} is unknown; expected one of {', '.join(NETWORKS)}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PolicyTrainingConfig(TrainerConfig):
    """Settings of a training of a policy; each method has defaults of its own.

    Attributes:
      batch_size: number of infosets, decisions or games of a training step, as the method defines.
      average: the network's weights are averaged over about the last `average * steps` steps; 0 for no
        averaging.
      adam_epsilon: ε of Adam, in units of the gradients. Much smaller gradients hardly move the weights; with
        a smaller ε even their rounding would.
    """

    width: int = 128
    learning_rate: float = 1e-3
    average: float = 0.0
    adam_epsilon: float = ADAM_EPSILON

    DETERMINING: ClassVar = (*TrainerConfig.DETERMINING, "average", "adam_epsilon")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, largest in (("average", 1.0), ("adam_epsilon", math.inf)):
            object.__setattr__(self, name, check_number(name, getattr(self, name), largest))

    @property
    def schedule(self) -> LearningSchedule:
        """The optimiser's learning schedule, with averaging of weights."""
        return dataclasses.replace(super().schedule, average=self.average, epsilon=self.adam_epsilon)


def check_number(name: str, value: object, largest: float = math.inf) -> float:
    """A setting as a float; raises ValueError unless it is a finite number from 0 to `largest`."""
    if not is_finite_number(value) or not 0 <= value <= largest:
        below = f" to {largest:g}" if largest < math.inf else ""
        raise ValueError(f"{name}={value!r}: expected a number from 0{below}")
    return float(value)
