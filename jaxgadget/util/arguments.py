"""Checks of what a caller gives. A truth value is no number; NumPy's numbers are.

Numbers that come as text have ASCII digits, and not more of them than a number of ours needs.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np

MOST_COMPARED = 20_000
"""So many names at most are looked at for those that are near to an unknown one."""


def near_names(name: str, known: Iterable[str]) -> str:
    """Up to three known names that are near to an unknown one, else the first, in quotes: for messages."""
    names = list(itertools.islice(known, MOST_COMPARED))
    return ", ".join(map(repr, difflib.get_close_matches(name, names, n=3) or names[:3]))


def function_name(function: object) -> str:
    """What a function or class is called; empty for a lambda."""
    name = getattr(function, "__name__", type(function).__name__)
    return "" if name == "<lambda>" else name


def check_whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """A whole number of at least `least` and, unless None, at most `most`; ValueError otherwise."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if least <= value and (most is None or value <= most):
            return int(value)
    bound = "" if most is None else f" and <= {most}"
    raise ValueError(f"{name}={value!r}: expected a whole number >= {least}{bound}")


def check_player(player: object, name: str = "player") -> int:
    """0 or 1; ValueError otherwise."""
    if isinstance(player, int | np.integer) and not isinstance(player, bool) and player in (0, 1):
        return int(player)
    raise ValueError(f"{name}={player!r}: expected 0 or 1")


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
