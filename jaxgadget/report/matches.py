"""Head-to-head tables as pictures, as Figures 20 and 21 of Kubíček, Lisý and Sandholm (2026)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from jaxgadget.report.heatmap import cells_size, draw_cells
from jaxgadget.report.names import without_shared
from jaxgadget.report.styles import own_axes, write_title
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEATS = {
    "win_rate": "mean of both seats",
    "win_rate_first": "the row as player 0",
    "win_rate_second": "the row as player 1",
    "mean_return": "mean of both seats",
    "mean_return_first": "the row as player 0",
    "mean_return_second": "the row as player 1",
}
"""Columns of a table of matches that can be drawn, with their labels."""

INTERVALS = {"win_rate": "ci95", "mean_return": "return_ci95"}
"""Columns with half the width of the 95 % confidence interval."""

SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Possible ranges of colours of win rates on either side of ½."""

LONG_NAME = 12
"""Maximum length of names for columns to be labelled by names and not by row numbers."""


def draw_matches(
    frame: pd.DataFrame, ax: Axes | None = None, *, value: str = "win_rate", title: str | None = None
) -> Axes:
    """Draws the rows' win rates or mean returns against the columns.

    White is ½, or half of the game's constant for mean returns; the colours span the range of values. The
    title contains common parts of the names; if names are still long, columns are labelled by row numbers.

    Args:
      frame: from `Matches.table` or `expected_matches`: one row for each ordered pair, except for pairs of a
        player with itself, which are optional.
      ax: axes to draw on; by default the axes of a new pyplot figure with room for the names.
      value: a key of `SEATS`. The paper's figures are `win_rate_first`, its Figure 4 the minimum of
        `win_rate` over a row.
      title: title of the axes.

    Raises:
      ValueError: if the table has no rows or lacks a column, a pair is missing or duplicate, `value` is
        unknown, or a win rate is outside [0, 1].
    """
    values, players = _matrix(frame, value)
    names, shared = without_shared(players)
    rows, columns = names, names
    if max(map(len, names)) > LONG_NAME:
        columns = [str(number) for number in range(1, len(names) + 1)]
        rows = [f"{name}  {number}" for name, number in zip(names, columns, strict=True)]
    ax = own_axes(ax, cells_size(rows, columns))
    is_rate = value.startswith("win_rate")
    furthest = float(np.nanmax(np.abs(values - (middle := _middle(values, is_rate))), initial=0.0))
    spread = min(half for half in SPREADS if half >= min(furthest, 0.5)) if is_rate else _round_up(furthest)
    decimals = max(2 if spread >= 0.1 else 3, 1 - math.floor(math.log10(spread)) if not is_rate else 0)
    draw_cells(
        ax,
        values,
        rows,
        columns,
        span=(middle - spread, middle + spread),
        written=lambda row, column: _written(float(values[row, column]), decimals, is_rate),
    )
    note = SEATS[value]
    if value in INTERVALS and {"matches", INTERVALS[value]} <= set(frame.columns):
        half_width = float(frame[INTERVALS[value]].max())
        note += f"\n{int(frame['matches'].min()):,} matches per pair,\n± {half_width:.1g} at most"
    ax.set_xlabel(f"… against\n{note}\ncolours: {middle - spread:g} to {middle + spread:g}", fontsize=9)
    ax.set_ylabel("Win rate of …" if is_rate else "Mean return [payoff] of …", fontsize=9)
    write_title(ax, "\n".join(filter(None, (title, shared))))
    return ax


def match_picture(frame: pd.DataFrame, *, win_rates: bool = True, title: str | None = None) -> Figure:
    """Draws mean returns and, beside them, win rates, with one set of row names.

    Args:
      frame: as for `draw_matches`.
      win_rates: draw win rates, too; they are misleading if wins differ in payoff.
      title: title of the picture.

    Raises:
      ValueError: as `draw_matches`.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys([*frame["row"], *frame["column"]]))
    short, shared = without_shared(names)
    width, height = cells_size(short, ["1"] * len(names))
    panels = {"mean_return": "Mean return [payoff]"}
    panels |= {"win_rate": "Win rate (wins + ½ draws)"} if win_rates else {}
    width += (len(panels) - 1) * (max(0.46 * len(names), 1.4) + 0.5)
    figure = Figure(figsize=(width, height + 0.5), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for number, (ax, (value, label)) in enumerate(zip(axes, panels.items(), strict=True)):
        draw_matches(frame, ax, value=value)
        if number:
            ax.set_yticks(range(len(names)), [""] * len(names))
        ax.set_title(label, fontsize=9)
        ax.set_ylabel("")
    figure.suptitle("\n".join(filter(None, (title, shared))), fontsize=9)
    return figure


def _matrix(frame: pd.DataFrame, value: str) -> tuple[FloatArray, list[str]]:
    """`[players, players]` values of a column, NaN for pairs that did not play, and the players' names."""
    if value not in SEATS:
        raise ValueError(f"value={value!r}: expected one of {', '.join(SEATS)}")
    missing = [name for name in ("row", "column", value) if name not in frame.columns]
    if missing or frame.empty:
        problem = f"lacks the columns {', '.join(missing)}" if missing else "has no rows"
        raise ValueError(f"frame {problem}; expected row, column and {value} for every ordered pair")
    twice = frame[frame.duplicated(["row", "column"])]
    if len(twice):
        row, column = twice["row"].iloc[0], twice["column"].iloc[0]
        raise ValueError(f"frame has several rows for {row!r} against {column!r}; expected one")
    names: list[str] = list(dict.fromkeys([*frame["row"], *frame["column"]]))
    table = frame.pivot(index="row", columns="column", values=value).reindex(index=names, columns=names)
    matrix = np.asarray(table, np.float64)
    blank = np.argwhere(np.isnan(matrix) & ~np.eye(len(names), dtype=np.bool_))
    if len(blank):
        row, column = (names[k] for k in blank[0].tolist())
        raise ValueError(f"frame has no {value} for {row!r} against {column!r}; expected every ordered pair")
    wrong = np.argwhere((matrix < 0) | (matrix > 1)) if value.startswith("win_rate") else []
    if len(wrong):
        row, column = (names[k] for k in wrong[0].tolist())
        number = frame[(frame["row"] == row) & (frame["column"] == column)][value].iloc[0]
        raise ValueError(
            f"frame: {value} of {row!r} against {column!r} is {number}; expected a number in [0, 1]"
        )
    return matrix, names


def _middle(values: FloatArray, is_rate: bool) -> float:
    """The value of white cells: ½, or the mean return of both players, half of a game's constant."""
    return 0.5 if is_rate else round(float(np.nanmean((values + values.T) / 2)), 9) + 0.0


def _round_up(number: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is at least `number`; 1 for 0."""
    if number == 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= number * (1 - 1e-9))


def _written(number: float, decimals: int, is_rate: bool) -> str:
    if is_rate and 0 < number < 0.005:
        return "<.01"
    if is_rate and 0.995 <= number < 1:
        return ">.99"
    return f"{round(number, decimals) + 0.0:.{decimals}f}"
