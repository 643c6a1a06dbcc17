"""What any training is told: the numbers of one kind's are checked in `test_examples.py` too."""

import json
from typing import Any

import pytest

from jaxgadget.learn import options
from jaxgadget.learn.optimiser import CONSTANTS, LearningSchedule
from jaxgadget.learn.options import TrainingConfig

SETTINGS: dict[str, Any] = {
    "steps": 120,
    "batch_size": 4,
    "width": 8,
    "depth": 1,
    "learning_rate": 0.5,
    "seed": 3,
    "heldout": 0.25,
}


def test_what_a_folder_is_told_of_them():
    told = TrainingConfig(**SETTINGS)
    assert json.loads(json.dumps(told.describe())) == SETTINGS | CONSTANTS
    assert told.schedule == LearningSchedule(learning_rate=0.5, steps=120)


@pytest.mark.parametrize(("steps", "every", "expected"), [(120, None, 2), (3, None, 1), (3, 100, 100)])
def test_parts_are_a_fiftieth_by_default(steps: int, every: int | None, expected: int):
    assert TrainingConfig(**SETTINGS | {"steps": steps, "every": every}).interval == expected


def test_what_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch):
    weights = (3 * 8 + 8) + (8 + 8) + 2 * (8 * 8 + 8) + (8 + 8) + (8 * 5 + 5)
    activations = 4 * (3 + 5 + 5 * 8)
    needed = 4 * (4 * weights + 2 * activations)
    told = TrainingConfig(**SETTINGS)
    for available in (None, needed):
        monkeypatch.setattr(options, "find_memory", lambda place, given=available: given)
        told.check_room(3, 5)
    monkeypatch.setattr(options, "find_memory", lambda place: needed - 1)
    with pytest.raises(ValueError, match="width="):
        told.check_room(3, 5)
