"""What every game does with its parameters: read them, check them, and write them down in its name."""

from __future__ import annotations

import dataclasses
import fractions
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jaxgadget.util.arguments import is_finite_number, read_number, read_whole_number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


MOST_ACTIONS = 10_000
"""Cards, sides or bids of a built-in game, at most: they are numbered in 16 bits, and listed before the first
history is counted."""

ALL_IN = "a"
"""Among bets: the whole stack."""


def check_integer(game: str, parameter: str, value: object, low: int, high: int | None = None) -> None:
    """Raises ValueError unless `value` is an integer of `low` … `high`."""
    if isinstance(value, int) and not isinstance(value, bool):
        if low <= value and (high is None or value <= high):
            return
    what = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    raise ValueError(f"{game}: {parameter}={value!r}: expected {what}; choose such a value")


def check_number(game: str, parameter: str, value: object) -> float:
    """A finite number as a float; ValueError otherwise."""
    if not is_finite_number(value):
        raise ValueError(f"{game}: {parameter}={value!r}: expected a finite number, such as 0.5")
    return float(value)


def check_flag(game: str, parameter: str, value: object) -> None:
    """Raises ValueError unless `value` is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"{game}: {parameter}={value!r}: expected True or False; write one of the two")


def check_choice(game: str, parameter: str, value: object, choices: Sequence[str]) -> None:
    """Raises ValueError unless `value` is one of the strings `choices`."""
    if value not in choices:
        raise ValueError(
            f"{game}: {parameter}={value!r}: expected one of {', '.join(choices)}; write one of them"
        )


def check_two_players(game: str, players: object) -> None:
    """Raises ValueError unless `players` is 2."""
    if isinstance(players, bool) or players != 2 or not isinstance(players, int):
        raise ValueError(
            f"{game}: players={players!r}: expected 2, as only two-player games are solved here; "
            "leave the parameter out"
        )


def canonical_name(short_name: str, game: DataclassInstance) -> str:
    """`short_name(key=value,…)` with the parameters that differ from their defaults, sorted."""
    fields = dataclasses.fields(game)
    values = {field.name: getattr(game, field.name) for field in fields}
    return name_with(short_name, values, {field.name: field.default for field in fields})


def name_with(short_name: str, values: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    """`short_name(key=value,…)` with the values that are not the defaults, sorted."""
    changed = sorted(f"{key}={value}" for key, value in values.items() if value != defaults[key])
    return f"{short_name}({','.join(changed)})" if changed else short_name


def read_parameter(game: str, key: str, text: str, kind: object, example: str = "") -> object:
    """Reads a parameter's text as a bool, int, float or str; of any other kind, as what it looks like.

    Args:
      game: which game's, for the error.
      key: the parameter.
      text: its value as it was written; digits are ASCII, numbers finite.
      kind: a type, or its name.
      example: what the error adds to what was expected.

    Raises:
      ValueError: if the text is no value of that kind.
    """
    kind = kind.__name__ if isinstance(kind, type) else kind
    readings = {
        "bool": ("True or False", {"True": True, "true": True, "False": False, "false": False}.get(text)),
        "int": ("an integer", read_whole_number(text)),
        "float": ("a number", read_number(text)),
        "str": ("a text", text),
    }
    if kind not in readings:
        return next(value for _, value in readings.values() if value is not None)
    expected, value = readings[str(kind)]
    if value is None:
        raise ValueError(f"{game}: {key}={text}: expected {expected}{example}")
    return value


def read_bets(game: str, bets: object) -> tuple[tuple[fractions.Fraction, ...], bool]:
    """Fractions of the pot, ascending, and whether all-in is among the bets.

    Args:
      game: which game's, for the error.
      bets: fractions or decimals, or `a`, with dashes between them: "1/2-1-a".

    Raises:
      ValueError: if there are none, or one is no number > 0, or there twice.
    """
    texts = bets.split("-") if isinstance(bets, str) else []
    sizes: list[fractions.Fraction] = []
    for text in texts:
        if text == ALL_IN:
            continue
        is_number = re.fullmatch(r"[0-9]{1,6}(/[0-9]{1,6}|\.[0-9]{1,6})?", text)
        size = (
            fractions.Fraction(text) if is_number and not re.search(r"/0+$", text) else fractions.Fraction(0)
        )
        if size <= 0 or size in sizes:
            problem = "is there twice" if size > 0 else "is no fraction of the pot > 0"
            raise ValueError(
                f"{game}: bets={bets!r}: {text!r} {problem}; expected distinct fractions of the pot, and a "
                'for all-in, with dashes between them; write "1/2-1-2-a", for example'
            )
        sizes.append(size)
    if not texts or texts.count(ALL_IN) > 1:
        raise ValueError(
            f"{game}: bets={bets!r}: expected distinct fractions of the pot, and a for all-in, with dashes "
            'between them; write "1/2-1-2-a", for example'
        )
    return tuple(sorted(sizes)), ALL_IN in texts
