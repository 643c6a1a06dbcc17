"""A heat map for comparisons of all pairs, as Figures 14 to 17 of Kubíček, Lisý and Sandholm (2026)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxgadget.report.styles import own_axes, write_title
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

ENDS = ("#D55E00", "#FFFFFF", "#0072B2")
"""Colours of 0, ½ and 1, safe for colour-blind readers."""

BLANK = "#E6E6E6"
"""Colour of a cell without a number."""


def pairwise_heatmap(
    matrix: pd.DataFrame,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    spread: float = 0.5,
    row_label: str = "Is this technique better …",
    column_label: str = "… than this one?\n(1: surely, 0: surely not)",
) -> Axes:
    """Draws the probabilities that the row's technique is better than the column's; ½ is white.

    Numbers that round to 0 or 1 but are neither are written as `<.01` and `>.99`. If the colours span less
    than a tenth on either side of ½, numbers have a third decimal.

    Args:
      matrix: square, with the same names for rows and columns; entries are in [0, 1], or NaN on the diagonal.
        `paired_t_tests` returns such a matrix.
      ax: axes to draw on; by default the axes of a new pyplot figure with room for the names.
      title: title of the axes.
      spread: colours are saturated from ½ ± spread on.
      row_label: label left of the rows' names.
      column_label: label below the columns' names.

    Raises:
      ValueError: if the matrix is empty or not square, the names differ, an entry lies outside [0, 1], or
        `spread` outside (0, ½].
    """
    if not 0 < spread <= 0.5:
        raise ValueError(f"spread={spread!r}: expected a number above 0 and at most 0.5")
    values = _check_matrix(matrix)
    names = [str(name) for name in matrix.index]
    ax = own_axes(ax, cells_size(names, names))
    decimals = 2 if spread >= 0.1 else 3
    draw_cells(
        ax,
        values,
        names,
        names,
        span=(0.5 - spread, 0.5 + spread),
        written=lambda row, column: _written(float(values[row, column]), decimals),
    )
    ax.set_xlabel(column_label, fontsize=9)
    ax.set_ylabel(row_label, fontsize=9)
    write_title(ax, title)
    return ax


def cells_size(rows: Sequence[str], columns: Sequence[str]) -> tuple[float, float]:
    """Size in inches of a figure with room for the cells and their names."""
    left, below = (0.055 * max(len(name) for name in names) for names in (rows, columns))
    width, height = max(0.46 * len(columns), 1.4), max(0.38 * len(rows), 1.6)
    return width + max(left, 0.75 * below) + 0.9, height + 0.75 * below + 1.1


def draw_cells(
    ax: Axes,
    values: FloatArray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    span: tuple[float, float],
    written: Callable[[int, int], str],
    ends: Sequence[str] = ENDS,
) -> None:
    """Fills axes with a coloured cell for each number, the first row on top, with names beside them.

    Args:
      ax: axes to draw on.
      values: `[rows, columns]`, NaN for a grey cell without a number.
      rows: names of the rows.
      columns: names of the columns, upright if they have at most two characters.
      span: lower and upper number of the colour scale.
      written: function from row and column to the text of a cell.
      ends: equally spaced colours from the lower to the upper number of the span.
    """
    from matplotlib.colors import LinearSegmentedColormap

    low, high = span
    colors = LinearSegmentedColormap.from_list("cells", ends).with_extremes(bad=BLANK)
    ax.imshow(np.ma.masked_invalid(values), cmap=colors, vmin=low, vmax=high, aspect="auto")
    for (row, column), number in np.ndenumerate(values):
        if not np.isnan(number):
            light = _luminance(colors((float(number) - low) / (high - low)))
            color = "#000000" if (light + 0.05) / 0.05 > 1.05 / (light + 0.05) else "#FFFFFF"
            ax.text(column, row, written(row, column), ha="center", va="center", fontsize=8, color=color)
    if max(map(len, columns)) <= 2:
        ax.set_xticks(range(len(columns)), columns, fontsize=8)
    else:
        ax.set_xticks(
            range(len(columns)), columns, rotation=40, ha="right", rotation_mode="anchor", fontsize=8
        )
    ax.set_yticks(range(len(rows)), rows, fontsize=8)
    ax.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
    ax.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
    ax.grid(True, which="minor", color="#FFFFFF", linewidth=1.5)
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)


def _check_matrix(matrix: pd.DataFrame) -> FloatArray:
    if matrix.empty or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix has shape {matrix.shape}; expected as many rows as columns, at least one")
    if list(matrix.index) != list(matrix.columns):
        raise ValueError(
            f"matrix: rows are {list(matrix.index)}, columns {list(matrix.columns)}; expected the same names "
            "in the same order"
        )
    values = np.asarray(matrix, np.float64)
    good = ((values >= 0) & (values <= 1)) | (np.isnan(values) & np.eye(len(values), dtype=np.bool_))
    if not good.all():
        row, column = np.argwhere(~good)[0].tolist()
        raise ValueError(
            f"matrix: {matrix.index[row]!r} against {matrix.columns[column]!r} is {values[row, column]}; "
            "expected a number in [0, 1] (on the diagonal NaN too)"
        )
    return values


def _written(number: float, decimals: int) -> str:
    if 0 < number < 0.005:
        return "<.01"
    if 0.995 <= number < 1:
        return ">.99"
    return f"{number:.{decimals}f}"


def _luminance(color: tuple[float, ...]) -> float:
    """Relative luminance of an sRGB colour, 0 black to 1 white (WCAG 2)."""
    parts = np.asarray(color[:3])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))
