"""Argument validation. NumPy's numbers count as numbers, bools do not.

Numbers in text must have ASCII digits, of limited length.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeGuard, TypeVar

import numpy as np

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

MAX_COMPARED = 20_000
"""Maximum number of names to compare with an unknown one."""


def near_names(name: str, candidates: Iterable[str]) -> str:
    """Up to three quoted names that are close to an unknown one, otherwise the first ones; for messages."""
    names = list(itertools.islice(candidates, MAX_COMPARED))
    return ", ".join(map(repr, difflib.get_close_matches(name, names, n=3) or names[:3]))


def function_name(function: object) -> str:
    """Name of a function or class; empty for a lambda."""
    name = getattr(function, "__name__", type(function).__name__)
    return "" if name == "<lambda>" else name


def moved(**replacements: str) -> Callable[[Callable[Arguments, Returned]], Callable[Arguments, Returned]]:
    """Decorator that raises a TypeError for keywords that an earlier version of the function had.

    Args:
      **replacements: for each former keyword, a description of its replacement.
    """

    def decorate(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
        @functools.wraps(function)
        def call(*positional: Arguments.args, **keywords: Arguments.kwargs) -> Returned:
            for name in replacements.keys() & keywords.keys():
                raise TypeError(
                    f"{function.__name__}() has no argument {name!r}: "
                    f"expected {replacements[name]} in its place"
                )
            return function(*positional, **keywords)

        return call

    return decorate


def check_whole_number(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    """Returns an integer in [`minimum`, `maximum`] (unbounded for None); raises ValueError otherwise."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if minimum <= value and (maximum is None or value <= maximum):
            return int(value)
    bound = "" if maximum is None else f" and <= {maximum}"
    raise ValueError(f"{name}={value!r}: expected a whole number >= {minimum}{bound}")


def check_player(player: object, name: str = "player") -> int:
    """Returns a player, 0 or 1; raises ValueError otherwise."""
    if isinstance(player, int | np.integer) and not isinstance(player, bool) and player in (0, 1):
        return int(player)
    raise ValueError(f"{name}={player!r}: expected 0 or 1")


def is_finite_number(value: Any) -> TypeGuard[float]:
    """True for a real, finite number; False for an integer beyond the largest float."""
    if not isinstance(value, float | int | np.floating | np.integer) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def read_whole_number(text: str) -> int | None:
    """Parses an integer of at most 30 digits; returns None for other text."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,30}", text) else None


def read_number(text: str) -> float | None:
    """Parses a finite number; returns None for other text."""
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None
