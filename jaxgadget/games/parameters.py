"""Parsing, validation and canonical names of game parameters."""

from __future__ import annotations

import dataclasses
import fractions
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jaxgadget.games.sizes import read_share
from jaxgadget.util.arguments import is_finite_number, read_number, read_whole_number

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


MAX_ACTIONS = 10_000
"""Maximum number of cards, sides or bids of a built-in game: ids have 16 bits, and all of them are listed
before histories are counted."""

ALL_IN = "a"
"""The all-in bet in a list of bets; other notation is that of `jaxgadget.games.sizes`."""


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Splits `name(key=value,…)` into the name and the values' texts; values may contain parentheses.

    Raises:
      ValueError: if the text is not of this form, or a parameter is duplicate.
    """
    match = re.fullmatch(r"\s*([^\s()=,]+)\s*(?:\((.*)\))?\s*", spec, re.DOTALL)
    if not match:
        raise ValueError(f"{_form(spec)}; correct its spelling")
    return match[1], parse_parameters(spec, match[2] or "")


def _form(spec: str) -> str:
    return f"game {spec!r}: expected name or name(parameter=value,…)"


def parse_parameters(spec: str, text: str) -> dict[str, str]:
    """Parses the parameters between a specification's parentheses into texts."""
    form, parameters = _form(spec), dict[str, str]()
    for parameter in _split(text, form):
        key, equals, value = (text.strip() for text in parameter.partition("="))
        if not key or not equals or not value:
            raise ValueError(f"{form}, got the parameter {parameter!r}; write it as parameter=value")
        if key in parameters:
            raise ValueError(f"{form}, got duplicate parameter {key!r}; remove one")
        parameters[key] = value
    return parameters


def _split(text: str, form: str) -> list[str]:
    """Splits at commas outside of parentheses."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    if depth:
        raise ValueError(f"{form}, got unbalanced parentheses")
    return pieces if text.strip() else []


def check_integer(game: str, parameter: str, value: object, low: int, high: int | None = None) -> None:
    """Raises ValueError unless `value` is an integer of `low` … `high`."""
    if isinstance(value, int) and not isinstance(value, bool):
        if low <= value and (high is None or value <= high):
            return
    expected = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    raise ValueError(f"{game}: {parameter}={value!r}: expected {expected}")


def check_number(game: str, parameter: str, value: object) -> float:
    """Converts a finite number to float; raises ValueError for other values."""
    if not is_finite_number(value):
        raise ValueError(f"{game}: {parameter}={value!r}: expected a finite number, such as 0.5")
    return float(value)


def check_flag(game: str, parameter: str, value: object) -> None:
    """Raises ValueError unless `value` is a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"{game}: {parameter}={value!r}: expected True or False")


def check_choice(game: str, parameter: str, value: object, choices: Sequence[str]) -> None:
    """Raises ValueError unless `value` is one of the strings `choices`."""
    if value not in choices:
        raise ValueError(f"{game}: {parameter}={value!r}: expected one of {', '.join(choices)}")


def check_two_players(game: str, players: object) -> None:
    """Raises ValueError unless `players` is 2."""
    if isinstance(players, bool) or players != 2 or not isinstance(players, int):
        raise ValueError(
            f"{game}: players={players!r}: expected 2, as only two-player games can be solved; "
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
    """Parses a parameter's text as a bool, int, float or str; infers the type if `kind` is none of these.

    Args:
      game: the game's name, for errors.
      key: the parameter.
      text: its value; digits are ASCII, numbers finite.
      kind: a type or its name.
      example: suffix of the error, such as an example.

    Raises:
      ValueError: if the text is not a value of that type.
    """
    kind = kind.__name__ if isinstance(kind, type) else kind
    readings = {
        "bool": ("True or False", {"True": True, "true": True, "False": False, "false": False}.get(text)),
        "int": ("an integer", read_whole_number(text)),
        "float": ("a number", read_number(text)),
        "str": ("a string", text),
    }
    if kind not in readings:
        return next(value for _, value in readings.values() if value is not None)
    expected, value = readings[str(kind)]
    if value is None:
        raise ValueError(f"{game}: {key}={text}: expected {expected}{example}")
    return value


def read_bets(game: str, bets: object) -> tuple[tuple[fractions.Fraction, ...], bool]:
    """Parses bets: fractions of the pot, ascending, and whether all-in is among them.

    Args:
      game: the game's name, for errors.
      bets: shares of the pot (`read_share`) or `a` (all-in), separated by dashes: "1/2-1-a", "50%-100%-a".

    Raises:
      ValueError: if there are none, or one is not a number > 0 or is duplicate.
    """
    texts = bets.split("-") if isinstance(bets, str) else []
    sizes: list[fractions.Fraction] = []
    for text in texts:
        if text == ALL_IN:
            continue
        size = read_share(text)
        if size is None or size <= 0 or size in sizes:
            problem = "is a duplicate" if size else "is not a fraction of the pot > 0"
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
