"""Checks of numbers that a caller gives. A truth value is no number; NumPy's numbers are.

Numbers that come as text have ASCII digits, and not more of them than a number of ours needs.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeGuard

import numpy as np


def check_whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number of at least `least` and, unless None, at most `most`; ValueError otherwise."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if least <= value and (most is None or value <= most):
            return int(value)
    bound = "" if most is None else f" and <= {most}"
    raise ValueError(f"{name}={value!r}: expected a whole number >= {least}{bound}")


def check_player(player: object) -> int:
    """0 or 1; ValueError otherwise."""
    if isinstance(player, int | np.integer) and not isinstance(player, bool) and player in (0, 1):
        return int(player)
    raise ValueError(f"player={player!r}: expected 0 or 1")


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Whether something is a real, finite number."""
    known = isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    return known and math.isfinite(value)


def read_whole_number(text: str) -> int | None:
    """The integer that a text is, of at most 30 digits; None if it is none."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,30}", text) else None


def read_number(text: str) -> float | None:
    """The finite number that a text is; None if it is none."""
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None
