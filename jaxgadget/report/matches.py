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
"""Columns of a table of matches that can be drawn, and what they are."""

INTERVALS = {"win_rate": "ci95", "mean_return": "return_ci95"}
"""Where half of the 95 % confidence interval of a column stands."""

SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""How far from ½ colours of win rates may reach."""

LONG_NAME = 12
"""Letters of a name from which on the columns of a map have the numbers of the rows."""


def draw_matches(
    frame: pd.DataFrame, ax: Axes | None = None, *, value: str = "win_rate", title: str | None = None
) -> Axes:
    """Draws the rows' win rates or mean returns against the columns.

    White is ½, or what both get on average; the colours span what there is. What all names share stands in
    the title; where they are long all the same, columns have the numbers of the rows.

    Args:
      frame: from `Matches.frame` or `expected_matches`: one line for every ordered pair. Nobody need
        play itself.
      ax: where to draw, else a new figure of matplotlib's pyplot, large enough for the names.
      value: a key of `SEATS`. The paper's figures are `win_rate_first`, its Figure 4 the minimum of
        `win_rate` over a row.
      title: what stands above.

    Raises:
      ValueError: if the table has no lines or lacks a column, a pair is missing or there twice, `value` is
        unknown, or a win rate lies outside [0, 1].
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
        written=lambda number: _written(number, decimals, is_rate),
    )
    note = SEATS[value]
    if value in INTERVALS and {"matches", INTERVALS[value]} <= set(frame.columns):
        half_width = float(frame[INTERVALS[value]].max())
        note += f"\n{int(frame['matches'].min()):,} matches a pair,\n± {half_width:.1g} at most"
    ax.set_xlabel(f"… against\n{note}\ncolours: {middle - spread:g} to {middle + spread:g}", fontsize=9)
    ax.set_ylabel("Win rate of …" if is_rate else "Mean return [payoff] of …", fontsize=9)
    write_title(ax, "\n".join(filter(None, (title, shared))))
    return ax


def match_picture(frame: pd.DataFrame, *, title: str | None = None) -> Figure:
    """Mean returns and win rates side by side, the rows' names once.

    Args:
      frame: as for `draw_matches`.
      title: what stands above both.

    Raises:
      ValueError: as `draw_matches`.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys([*frame["row"], *frame["column"]]))
    width, height = cells_size(without_shared(names)[0], ["1"] * len(names))
    width += max(0.46 * len(names), 1.4) + 0.5
    figure = Figure(figsize=(width, height + 0.5), layout="constrained")
    returns, rates = figure.subplots(1, 2)
    draw_matches(frame, returns, value="mean_return")
    draw_matches(frame, rates, value="win_rate")
    rates.set_yticks(range(len(names)), [""] * len(names))
    for ax, what in ((returns, "Mean return [payoff]"), (rates, "Win rate (wins + ½ draws)")):
        ax.set_title(what, fontsize=9)
        ax.set_ylabel("")
    shared = without_shared(names)[1]
    figure.suptitle("\n".join(filter(None, (title, shared))), fontsize=9)
    return figure


def _matrix(frame: pd.DataFrame, value: str) -> tuple[FloatArray, list[str]]:
    """`[players, players]` a column of the table, NaN where nobody played itself, and the players."""
    if value not in SEATS:
        raise ValueError(f"value={value!r}: expected one of {', '.join(SEATS)}")
    missing = [name for name in ("row", "column", value) if name not in frame.columns]
    if missing or frame.empty:
        what = f"lacks the columns {', '.join(missing)}" if missing else "has no rows"
        raise ValueError(f"frame {what}; expected row, column and {value} for every ordered pair")
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
    """What is white: ½, or what both get on average, half of a game's constant."""
    return 0.5 if is_rate else round(float(np.nanmean((values + values.T) / 2)), 9) + 0.0


def _round_up(number: float) -> float:
    """The least 1, 2 or 5 times a power of ten that is no smaller; 1 for 0."""
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
