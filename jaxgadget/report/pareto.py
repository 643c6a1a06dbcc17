"""Gains of responses to opponents against their exploitability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jaxgadget.opponents.result import BEST_NASH, DATA_BIASED, RESTRICTED_NASH, Responses
from jaxgadget.report.styles import PALETTE, column, dress, own_axes
from jaxgadget.report.tables import defined

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = ("player", "model", "method", "p", "gain", "exploitability")
_LINES = {RESTRICTED_NASH: "-", BEST_NASH: "", DATA_BIASED: ":"}
_MARKERS = {RESTRICTED_NASH: "o", BEST_NASH: "*", DATA_BIASED: "D"}
_SIZES = {RESTRICTED_NASH: 20, BEST_NASH: 70, DATA_BIASED: 18}
_ROOM = 0.06
"""Margin around the points, as a fraction of the axes."""


def plot_responses(
    responses: Responses | pd.DataFrame, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draws gain against exploitability, with one curve over p for each model.

    Restricted Nash responses have a solid line, data-biased responses a dotted line, and best Nash strategies
    a star. A dashed line is the bound on the exploitability of restricted Nash responses, gain · p / (1−p),
    which may extend beyond the axes. Points with p = 1 are hollow: their exploitability depends on the best
    response that the solver finds.

    Args:
      responses: a result, or its table; tables of one game may be concatenated. Rows of failed solves and
        rows without a model are not drawn.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      title: title of the axes.

    Raises:
      ValueError: if `responses` is neither, a column is missing, or no row can be drawn.
    """
    table = _check(responses.table if isinstance(responses, Responses) else responses)
    ax = own_axes(ax)
    several = table["player"].nunique() > 1
    colors: dict[str, str] = {}
    for (player, model), rows in table.groupby(["player", "model"], sort=False):
        name = f"player {player}, {model}" if several else str(model)
        colors[name] = PALETTE[len(colors) % len(PALETTE)]
        for method, part in rows.groupby("method", sort=False):
            _draw(ax, part.sort_values("p"), str(method), colors[name])
    _limit(ax, table)
    ax.set_xlabel(r"Exploitability $\mathcal{E}$ [payoff]", fontsize=9)
    ax.set_ylabel("Gain against the model [payoff]", fontsize=9)
    dress(ax, title)
    _explain(ax, table, colors)
    return ax


def _check(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that can be drawn."""
    checked: Any = table
    if not isinstance(checked, pd.DataFrame):
        raise ValueError(f"responses={checked!r}: expected Responses, or their table")
    missing = [name for name in _COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table lacks the columns {', '.join(missing)}; expected that of Responses")
    table = defined(table)
    table = table[np.isfinite(column(table, "gain")) & np.isfinite(column(table, "exploitability"))]
    if table.empty:
        raise ValueError("table has no rows with a gain; expected responses to at least one model")
    return table


def _draw(ax: Axes, rows: pd.DataFrame, method: str, color: str) -> None:
    """Draws one method's responses to one model, by p."""
    x, y, p = (column(rows, key) for key in ("exploitability", "gain", "p"))
    is_bounded = p < 1
    if _LINES[method]:
        ax.plot(x, y, _LINES[method], color=color, linewidth=1.3, zorder=3)
    look: dict[str, Any] = {"marker": _MARKERS[method], "s": _SIZES[method], "linewidths": 1.0, "zorder": 4}
    ax.scatter(x[is_bounded], y[is_bounded], color=color, **look)
    ax.scatter(x[~is_bounded], y[~is_bounded], facecolors="white", edgecolors=color, **look)
    if method == RESTRICTED_NASH:
        gain, odds = y[is_bounded], p[is_bounded] / (1 - p[is_bounded])
        ax.plot(gain * odds, gain, "--", color=color, linewidth=0.8, zorder=2)


def _limit(ax: Axes, table: pd.DataFrame) -> None:
    """Sets limits that contain all points; bounds may extend beyond them."""
    for name, set_limits in (("exploitability", ax.set_xlim), ("gain", ax.set_ylim)):
        values = column(table, name)
        low, high = min(float(values.min()), 0.0), float(values.max())
        room = _ROOM * (high - low) or 1.0
        set_limits(low - room, high + room)


def _explain(ax: Axes, table: pd.DataFrame, colors: Mapping[str, str]) -> None:
    """Draws the legend: models by colour, then lines and markers of methods."""
    from matplotlib.lines import Line2D

    grey, methods = "#555555", set(table["method"])
    handles = [Line2D([], [], color=color, linewidth=1.3, label=name) for name, color in colors.items()]
    meanings: list[tuple[str, dict[str, Any]]] = []
    if RESTRICTED_NASH in methods:
        meanings.append(("bound G·p/(1−p)", {"linestyle": "--", "linewidth": 0.8}))
    if DATA_BIASED in methods:
        meanings.append((DATA_BIASED, {"linestyle": ":", "marker": "D", "markersize": 4}))
    if BEST_NASH in methods:
        meanings.append((BEST_NASH, {"linestyle": "", "marker": "*", "markersize": 8}))
    if (column(table, "p") == 1).any():
        meanings.append(
            ("p = 1: no bound", {"linestyle": "", "marker": "o", "markerfacecolor": "white", "markersize": 4})
        )
    handles += [Line2D([], [], color=grey, label=name, **look) for name, look in meanings]
    ax.legend(
        handles=handles,
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )
