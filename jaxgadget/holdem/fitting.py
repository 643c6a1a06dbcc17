"""Smaller menus for spots that do not fit in memory."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

from jaxgadget.games.sizes import Size, format_sizes
from jaxgadget.holdem.betting import PLAYERS, BetMenu, count_nodes
from jaxgadget.holdem.spots import Spot

SEARCH_SECONDS = 1.0
"""Time after which the search for a menu gives up."""

STREETS = ("flop", "turn", "river")

Menus = tuple[tuple[BetMenu, BetMenu], ...]
"""Both players' menus on every street."""


class Fitting(NamedTuple):
    """Menus that fit in memory.

    Attributes:
      text: description of the streets on which they differ from the spot's.
      num_bytes: memory that the spot needs with them.
    """

    text: str
    num_bytes: int


def find_fitting(spot: Spot, num_bytes: Callable[[Sequence[int]], int], available: int) -> Fitting | None:
    """Finds menus with a few sizes fewer than the spot's that fit in memory; None if there are none.

    Only the last street's menus are changed if that suffices, otherwise also earlier ones. One size is
    removed, or a cap lowered by one, at a time: the change that leaves the most memory in use and fits, or
    else the one that saves most. Removed lines are ignored, so that sizes are upper bounds.

    Args:
      spot: the spot.
      num_bytes: function from the numbers of public nodes on each street, below one card of each deal, to
        bytes.
      available: available bytes.
    """
    deadline = time.perf_counter() + SEARCH_SECONDS
    for first in reversed(range(len(spot.rules.menus))):
        fitting = _find_from(spot, first, num_bytes, available, deadline)
        if fitting is not None or time.perf_counter() > deadline:
            return fitting
    return None


def _find_from(
    spot: Spot, first: int, num_bytes: Callable[[Sequence[int]], int], available: int, deadline: float
) -> Fitting | None:
    """`find_fitting` with the menus of the streets from the given one on."""
    betting = spot.rules
    menus = betting.menus
    while True:
        sizes: list[tuple[int, Menus]] = []
        for smaller in _smaller(menus, first):
            if time.perf_counter() > deadline:
                return None
            try:
                counts = count_nodes(betting._replace(menus=smaller, removed=()))
            except ValueError:  # still too many nodes
                continue
            sizes.append((num_bytes(counts), smaller))
        fits = [each for each in sizes if each[0] <= available]
        if fits:
            size, fitting_menus = max(fits, key=lambda each: each[0])
            return Fitting(_describe(betting.menus, fitting_menus), size)
        if not sizes:
            return None
        _, menus = min(sizes, key=lambda each: each[0])


def _smaller(menus: Menus, from_street: int) -> Iterator[Menus]:
    """Menus without a size of both players on a street, or with a cap lower by one, from a street on."""
    for street, pair in list(enumerate(menus))[from_street:]:
        for kind in ("raises", "bets"):
            for size in dict.fromkeys(size for menu in pair for size in getattr(menu, kind)):
                changed = [
                    dataclasses.replace(menu, **{kind: tuple(x for x in getattr(menu, kind) if x != size)})
                    for menu in pair
                ]
                if any(menu.bets for menu in changed):
                    yield (*menus[:street], (changed[0], changed[1]), *menus[street + 1 :])
        if any(menu.raises and (menu.cap is None or menu.cap > 1) for menu in pair):
            caps = (max((4 if menu.cap is None else menu.cap) - 1, 0) for menu in pair)
            first, second = (dataclasses.replace(menu, cap=cap) for menu, cap in zip(pair, caps, strict=True))
            yield (*menus[:street], (first, second), *menus[street + 1 :])


def _describe(old: Menus, new: Menus) -> str:
    """The menus from the first street on that differs, such as `on the river bets 50% and no raises`."""
    texts: list[str] = []
    for street, before, pair in zip(STREETS[-len(old) :], old, new, strict=True):
        if before == pair and not texts:  # later streets inherit from those that differ
            continue
        first, second = (_sizes(menu) for menu in pair)
        sizes = first if first == second else f"{first} ({PLAYERS[0]}), {second} ({PLAYERS[1]})"
        texts.append(f"on the {street} {sizes}")
    return "; ".join(texts)


def _sizes(menu: BetMenu) -> str:
    if menu.cap == 0:
        return "no bets and no raises"
    own, beyond = (cast("tuple[Size, ...]", sizes) for sizes in (menu.bets, menu.raises))
    bets = f"bets {format_sizes(own)}" if own else "no bets"
    raises = f"raises {format_sizes(beyond)}" if beyond and menu.cap != 1 else "no raises"
    limit = "" if menu.cap is None or not menu.raises else f", cap {menu.cap}"
    return f"{bets} and {raises}{limit}"
