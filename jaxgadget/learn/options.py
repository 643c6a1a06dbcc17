"""What every training is told, checked at the door."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxgadget.learn.perceptron import count_weights
from jaxgadget.learn.trainer import CONSTANTS, LearningSchedule
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.memory import find_memory, megabytes
from jaxgadget.solving.options import check_iterations
from jaxgadget.util.arguments import check_whole_number, is_finite_number

LARGEST = 2**31 - 1
"""Of seeds, which the device draws from, and depths."""

PARTS = 50
"""By default so many checkpoints and rows of the log a training."""

TRAINED_ARRAYS = 4
"""What training holds at least of every weight: itself, its gradient, and both moments of Adam."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Numbers of any training, checked; as in `train_value`."""

    steps: int
    batch_size: int
    width: int
    depth: int
    learning_rate: float
    seed: int
    heldout: float

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "width"):
            object.__setattr__(self, name, check_iterations(getattr(self, name), name))
        for name in ("depth", "seed"):
            count = check_whole_number(name, getattr(self, name), 0, LARGEST)
            object.__setattr__(self, name, count)
        if not is_finite_number(self.learning_rate) or not self.learning_rate > 0:
            raise ValueError(
                f"learning_rate={self.learning_rate!r}: expected a positive number, such as 1e-3"
            )
        if not is_finite_number(self.heldout) or not 0 <= self.heldout < 1:
            raise ValueError(f"heldout={self.heldout!r}: expected a share of at least 0 and below 1")
        for name in ("learning_rate", "heldout"):
            object.__setattr__(self, name, float(getattr(self, name)))  # NumPy's cannot be written as JSON

    @property
    def schedule(self) -> LearningSchedule:
        """The optimiser's part."""
        return LearningSchedule(learning_rate=self.learning_rate, steps=self.steps)

    def describe(self) -> dict[str, Any]:
        """All that the weights depend on besides the network and its examples, for a `TrainingFolder`."""
        return dataclasses.asdict(self) | CONSTANTS

    def find_every(self, every: int | None) -> int:
        """Steps between two checkpoints and rows of the log, by default a fiftieth; ValueError if < 1."""
        return check_iterations(max(1, self.steps // PARTS) if every is None else every, "every")

    def check_room(self, inputs: int, outputs: int) -> None:
        """ValueError if the weights, and what a step makes of them and of a batch, do not fit into memory."""
        activations = self.batch_size * (inputs + outputs + (3 * self.depth + 2) * self.width)
        num_weights = count_weights(inputs, outputs, self.width, self.depth)
        needed = 4 * (TRAINED_ARRAYS * num_weights + 2 * activations)
        available = find_memory(HOME)
        if available is not None and needed > available:
            raise ValueError(
                f"width={self.width}, depth={self.depth}, batch_size={self.batch_size}: training takes at "
                f"least {megabytes(needed)}, {megabytes(available)} may be taken; choose smaller ones"
            )
