"""The hands that a solve carries: those that either player may hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jaxgadget.holdem.spots import Spot
from jaxgadget.util.arrays import BoolArray, IntArray

HANDS_STEP = 64
"""The number of hands is rounded up to a multiple of this, so that batches share compiled programs."""


def carried_hands(spots: Sequence[Spot]) -> IntArray | None:
    """The hands that a batch carries: those that either player may hold.

    Args:
      spots: spots on the same street.

    Returns:
      `[1 or lanes, H]` indices among the hands that are left on each spot's board, ascending, -1 for padding;
      one row if all spots have one board. H is a multiple of `HANDS_STEP`. None if nearly all are carried.
    """
    held = np.stack([held_by_either(spot) for spot in spots])
    if same_board(spots):
        held = np.any(held, axis=0, keepdims=True)
    return pad_hands(held)


def pad_hands(held: BoolArray) -> IntArray | None:
    """Indices of hands by row, from masks `[rows, all hands]`; result as in `carried_hands`."""
    count = held.sum(axis=1)
    most = -(-int(count.max()) // HANDS_STEP) * HANDS_STEP
    if most >= held.shape[1]:
        return None
    hands = np.argsort(~held, axis=1, kind="stable")[:, :most]  # carried hands first
    return np.where(np.arange(most) < count[:, None], hands, -1)


def held_by_either(spot: Spot) -> BoolArray:
    """`[H]` mask of the hands that at least one player may hold."""
    first, second = spot.dealt
    return (first > 0) | (second > 0)


def same_board(spots: Sequence[Spot]) -> bool:
    """True if all spots have the same cards on the board, and the same dead cards."""
    return len({(frozenset(spot.cards), frozenset(spot.gone)) for spot in spots}) == 1
