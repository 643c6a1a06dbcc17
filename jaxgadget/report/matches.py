"""Head-to-head tables as pictures, as Figures 20 and 21 of Kubíček, Lisý and Sandholm (2026)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jaxgadget.report.heatmap import pairwise_heatmap

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SEATS = {
    "win_rate": "mean of both seats",
    "win_rate_first": "the row as player 0",
    "win_rate_second": "the row as player 1",
}
"""Columns of a table of matches that can be drawn, and what they are."""

SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""How far from ½ colours may reach."""


def draw_matches(
    frame: pd.DataFrame, ax: Axes | None = None, *, value: str = "win_rate", title: str | None = None
) -> Axes:
    """Draws the rows' win rates against the columns; ½ is white, and the colours span what there is.

    Args:
      frame: from `Matches.frame` or `expected_matches`: one line for every ordered pair. Nobody need
        play itself.
      ax: where to draw, else a new figure of matplotlib's pyplot, large enough for the names.
      value: a key of `SEATS`. The paper's figures are `win_rate_first`, its Figure 4 the minimum of
        `win_rate` over a row.
      title: what stands above.

    Raises:
      ValueError: if the table has no lines or lacks a column, a pair is missing or there twice, or `value`
        is unknown.
    """
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
    names = list(dict.fromkeys([*frame["row"], *frame["column"]]))
    matrix = frame.pivot(index="row", columns="column", values=value).reindex(index=names, columns=names)
    blank = np.argwhere(np.isnan(matrix.to_numpy()) & ~np.eye(len(names), dtype=np.bool_))
    if len(blank):
        row, column = (names[k] for k in blank[0].tolist())
        raise ValueError(f"frame has no {value} for {row!r} against {column!r}; expected every ordered pair")
    note = SEATS[value]
    if value == "win_rate" and {"matches", "ci95"} <= set(frame.columns):
        note += (
            f"\n{int(frame['matches'].min()):,} matches a pair,\n± {float(frame['ci95'].max()):.1g} at most"
        )
    furthest = float(np.nanmax(np.abs(matrix.to_numpy() - 0.5), initial=0.0))
    spread = min(half for half in SPREADS if half >= min(furthest, 0.5))
    return pairwise_heatmap(
        matrix,
        ax,
        title=title,
        spread=spread,
        row_label="Win rate of …",
        column_label=f"… against\n{note}\ncolours: {0.5 - spread:g} to {0.5 + spread:g}",
    )
