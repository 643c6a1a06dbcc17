"""What every built-in game does with its parameters: check them, and write them down in its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_integer(game: str, parameter: str, value: object, low: int, high: int | None = None) -> None:
    """Raises ValueError unless `value` is an integer of `low` … `high`."""
    if isinstance(value, int) and not isinstance(value, bool):
        if low <= value and (high is None or value <= high):
            return
    what = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    raise ValueError(f"{game}: {parameter}={value!r}: expected {what}; choose such a value")


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
    changed = [
        f"{field.name}={getattr(game, field.name)}"
        for field in dataclasses.fields(game)
        if getattr(game, field.name) != field.default
    ]
    return f"{short_name}({','.join(sorted(changed))})" if changed else short_name
