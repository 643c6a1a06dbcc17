"""Checks of numbers that a caller gives. A truth value is no number; NumPy's numbers are."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np


def check_whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number of at least `least` and, unless None, at most `most`; ValueError otherwise."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if least <= value and (most is None or value <= most):
            return int(value)
    bound = "" if most is None else f" and <= {most}"
    raise ValueError(f"{name}={value!r}: expected a whole number >= {least}{bound}")


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Whether something is a real, finite number."""
    known = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    return known and math.isfinite(value)
