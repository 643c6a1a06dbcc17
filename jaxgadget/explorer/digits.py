"""Numbers → records of integers times a unit, such as probabilities in thousandths."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jaxgadget.explorer.nodes import Cells
from jaxgadget.explorer.values import SeatNumbers
from jaxgadget.util.arrays import FloatArray

THOUSANDTH = 1e-3


class SeatDigits:
    """A player's numbers in a lane, as integers.

    They are rounded for all cells at once, as trees may have millions of them.

    Args:
      cells: the player's cells.
      seat: the player's numbers.
      lane: the lane.
      unit: unit of values.
    """

    def __init__(self, cells: Cells, seat: SeatNumbers, lane: int, unit: float) -> None:
        self._cells, self._unit = cells, unit
        self._reach, self._reach_units = _relative(cells, seat.reach[:, lane])
        self._weight, self._weight_units = _relative(cells, seat.weight[:, lane])
        self._ev = _integers(seat.ev[:, lane], unit)
        self._equity = _integers(seat.equity[:, lane], THOUSANDTH)
        self._strategy = _integers(seat.probability[:, lane], THOUSANDTH)
        self._action_ev = _integers(seat.action_ev[:, lane], unit)
        self._mean_ev = seat.mean_ev[:, lane].tolist()
        width = np.diff(cells.first_slot)
        cell = np.repeat(np.arange(len(width)), width)
        column = np.arange(len(cell)) - cells.first_slot[cell]
        first = np.append(0, np.cumsum([len(actions) for actions in cells.actions]))
        played = seat.weight[cell, lane] * np.nan_to_num(seat.probability[:, lane])
        self._first = first.tolist()
        self._frequency = np.bincount(first[cells.node[cell]] + column, played, first[-1]).tolist()

    def at(self, node: int) -> dict[str, Any] | None:
        """The record of a public node, None if the player has no private states there."""
        cells, at = self._cells, self._cells.at(node)
        if at.stop == at.start:
            return None
        record: dict[str, Any] = {
            "reach": {"unit": self._reach_units[node], "n": self._reach[at]},
            "weight": {"unit": self._weight_units[node], "n": self._weight[at]},
        }
        if _has_numbers(ev := self._ev[at]):
            record["ev"] = {"unit": self._unit, "n": ev}
            mean = self._mean_ev[node]
            record["mean_ev"] = None if math.isnan(mean) else round(mean / self._unit) * self._unit
        if _has_numbers(equity := self._equity[at]):
            record["equity"] = {"unit": THOUSANDTH, "n": equity}
        if width := len(cells.actions[node]):
            slots = slice(int(cells.first_slot[at.start]), int(cells.first_slot[at.stop]))
            strategy, values = self._strategy[slots], self._action_ev[slots]
            record["strategy"] = {"unit": THOUSANDTH, "n": [strategy[k::width] for k in range(width)]}
            frequency = self._frequency[self._first[node] : self._first[node + 1]]
            record["frequency"] = [significant(share) for share in frequency]
            if _has_numbers(values):
                record["action_ev"] = {"unit": self._unit, "n": [values[k::width] for k in range(width)]}
        return record


def significant(x: float) -> float:
    """A number with four significant digits."""
    return float(f"{x:.4g}")


def _has_numbers(values: list[int | None]) -> bool:
    return values.count(None) < len(values)


def _relative(cells: Cells, x: FloatArray) -> tuple[list[int | None], list[float]]:
    """Numbers ≥ 0 of cells in thousandths of the largest at their node, and for each node this unit."""
    largest = np.zeros(len(cells.actions))
    starts = np.flatnonzero(np.diff(cells.node, prepend=-1))
    largest[cells.node[starts]] = np.maximum.reduceat(x, starts) if len(starts) else 0
    units = [float(f"{each / 1000:.6g}") or THOUSANDTH for each in largest.tolist()]
    return _integers(x, np.array(units)[cells.node]), units


def _integers(x: FloatArray, unit: float | FloatArray) -> list[int | None]:
    """Numbers as integers times a unit; None for NaN."""
    missing = np.isnan(x)
    whole = np.rint(np.where(missing, 0, x) / unit).astype(np.int64)
    if not missing.any():
        return whole.tolist()
    listed = whole.astype(object)
    listed[missing] = None
    return listed.tolist()
