"""Sizes of bets and raises, and their notation, which menus of hold'em and of other games share.

| written | size |
|---|---|
| `50%`, `1/2`, `0.5` | a share of the pot; for a raise, of the pot after calling, in addition to the call |
| `2.5x` | for a raise: the total bet is a multiple of the opponent's bet on this street |
| `30c` | chips; for a raise, in addition to the call |
| `e`, `2e`, `e200%` | geometric: equal shares of the pot on several streets, up to all-in on the last one |
| `a` | all-in |

Sizes are separated by commas, or by dashes as in names of games (`1/2-1-a`). The notation is that of
postflop-solver, except its `20c3r`: the number of raises is limited by the menu's cap.
"""

from __future__ import annotations

import dataclasses
import fractions
import math
import re
from collections.abc import Iterable
from typing import Any

from jaxgadget.util.arguments import is_finite_number, read_number

ALL_IN = math.inf
"""The size of an all-in bet."""

MAX_SIZE = 20.0
"""Maximum size of a bet or raise, as a fraction of the pot; larger numbers are probably percentages."""

MAX_PLAIN = 5
"""Maximum share of the pot that is read without a percent sign; larger numbers are probably percentages."""

EXPECTED = (
    "expected a share of the pot such as 50% or 1/2, 100c for chips, e, 2e or e200% for geometric sizes, "
    "a for all-in, or 2.5x for raises"
)


@dataclasses.dataclass(frozen=True)
class Multiple:
    """A raise to a multiple of the opponent's bet on this street, `2.5x`.

    Attributes:
      factor: total bet after the raise, divided by the opponent's bet; more than 1.
    """

    factor: float


@dataclasses.dataclass(frozen=True)
class Chips:
    """A bet of some chips, or a raise by some chips on top of the call, `30c`.

    Attributes:
      chips: number of chips, more than 0.
    """

    chips: float


@dataclasses.dataclass(frozen=True)
class Geometric:
    """A share of the pot that, bet and called on every remaining street, is all-in on the last: `e`.

    Attributes:
      streets: number of streets, this one included; None for all streets up to the river. Each bet or raise
        on this street before the current one counts as a street, down to 1.
      most: maximum share of the pot.
    """

    streets: int | None = None
    most: float = math.inf


Size = float | Multiple | Chips | Geometric
"""A size: a share of the pot (`ALL_IN` for all-in), or one of the other kinds."""


def parse_sizes(text: object, name: str = "bets", *, max_plain: float = MAX_PLAIN) -> tuple[Size, ...]:
    """Parses sizes such as `50%,100%,a`; an empty text yields no sizes.

    Args:
      text: sizes in the notation of this module.
      name: name of the argument, for errors.
      max_plain: maximum share of the pot that is read without a percent sign.

    Raises:
      ValueError: if an item is not a size.
    """
    if not isinstance(text, str):
        raise ValueError(f"{name}={text!r}: expected a text such as '50%,100%,a'")
    items = re.split("[,-]", text.lower().replace("all-in", "a").replace("allin", "a"))
    return tuple(_parse_size(item.strip(), text, name, max_plain) for item in (items if text.strip() else ()))


def _parse_size(item: str, text: str, name: str, max_plain: float) -> Size:
    problem, number = "is not a size", read_number(item[:-1]) or 0
    if item == "a":
        return ALL_IN
    if geometric := re.fullmatch(r"([0-9]*)e(?:([0-9]+|[0-9]*\.[0-9]+)%)?", item):
        streets, most = geometric.groups()
        if streets != "0" and (most is None or float(most) > 0):
            pots = math.inf if most is None else float(most) / 100
            return Geometric(int(streets) if streets else None, pots)
    elif item.endswith("%") and number > 0:
        return number / 100
    elif item.endswith("x") and number > 1:
        return Multiple(number)
    elif item.endswith("c") and number > 0:
        return Chips(number)
    elif (share := read_share(item)) is not None and share > 0:
        if share <= max_plain:
            return float(share)
        problem = f"needs a percent sign: {item}% or {float(share):.0%}"
    raise ValueError(f"{name}={text!r}: {item!r} {problem}: {EXPECTED}")


def format_sizes(sizes: Iterable[Size]) -> str:
    """Sizes in the notation of `parse_sizes`."""
    return ",".join(map(_format_size, sizes))


def _format_size(size: Size) -> str:
    match size:
        case Multiple(factor):
            return f"{factor:g}x"
        case Chips(chips):
            return f"{chips:g}c"
        case Geometric(streets, most):
            return f"{'' if streets is None else streets}e" + ("" if most == math.inf else f"{100 * most:g}%")
        case _:
            return "a" if size == ALL_IN else f"{100 * size:g}%"


def read_share(text: str) -> fractions.Fraction | None:
    """Parses a share of the pot: `50%`, `1/2`, `0.5` or `2`; None for other texts.

    Numbers have at most six digits before and after the point or slash.
    """
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(%|/[0-9]{1,6})?", text)
    if match is None or (match[2] and re.fullmatch(r"/0+", match[2])) or ("." in match[1] and "/" in text):
        return None
    divisor = {None: 1, "%": 100}.get(match[2]) or int(match[2][1:])
    return fractions.Fraction(match[1]) / divisor


def check_sizes(sizes: Any, name: str, *, raises: bool) -> tuple[Size, ...]:
    """Returns sizes, given as a text or as an iterable of sizes, as a tuple.

    Args:
      sizes: the sizes.
      name: name of the argument, for errors.
      raises: whether they are sizes of raises, which may be multiples of a bet.

    Raises:
      ValueError: if they are not sizes, or too large.
    """
    found: Any = parse_sizes(sizes, name) if isinstance(sizes, str) else sizes
    if not isinstance(found, Iterable):
        raise ValueError(f"{name}={sizes!r}: expected sizes, such as (0.5, 1.0) or '50%,100%'")
    found = tuple(found)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    for size in found:
        if (problem := _find_fault(size, raises=raises)) is not None:
            raise ValueError(f"{name}={sizes!r}: {size!r} {problem}")
    return found


def _find_fault(size: Any, *, raises: bool) -> str | None:
    """Error in a size, with what is expected; None for a valid size."""
    match size:
        case Multiple(factor):
            if not raises:
                return "is a multiple of a bet: expected shares of the pot or chips, except for raises"
            return None if is_finite_number(factor) and factor > 1 else "expected a factor > 1"
        case Chips(chips):
            return None if is_finite_number(chips) and chips > 0 else "expected a number of chips > 0"
        case Geometric(streets, most):
            is_whole = streets is None or streets >= 1
            is_share = most == math.inf or (is_finite_number(most) and 0 < most <= MAX_SIZE)
            return None if is_whole and is_share else f"expected streets >= 1, and most > 0, up to {MAX_SIZE}"
        case _:
            pass
    if not (is_finite_number(size) or size == ALL_IN) or size <= 0:
        return "is not a size: expected fractions of the pot > 0"
    if MAX_SIZE < size < ALL_IN:
        return (
            f"is {size:.0%} of the pot; expected fractions of the pot up to {MAX_SIZE:g}, such as 0.5 for "
            "50%, or ALL_IN"
        )
    return None
