"""Reports of many solved spots by classes of their boards: a table and a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jaxgadget.holdem.boards import BOARD, NUMBERS
from jaxgadget.report.holdem import ALL_IN_COLOR, action_color
from jaxgadget.report.layout import Column, count, decimal, rows_to_table, text
from jaxgadget.report.plots import save_picture
from jaxgadget.report.styles import own_axes, write_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

WIDTH, ROW_HEIGHT, MARGIN = 6.4, 0.24, 1.3
"""Width of a picture, height of a row and height of everything else, in inches."""

FIXED = ("group", "class", "boards", *NUMBERS)
"""Columns of a report that are not frequencies of actions."""


def boards_table(report: pd.DataFrame, *, boards: bool = False) -> Table:
    """Table of a report, with a section for each kind of classes.

    Args:
      report: from `aggregate_spots`.
      boards: also list every board.
    """
    actions = [str(name) for name in report.columns if name not in FIXED]
    columns: list[Column] = [text("class"), count("boards")]
    columns += [decimal(name.replace("_", " ").replace("ev", "EV"), name, digits=3) for name in NUMBERS]
    columns += [decimal(name, digits=3) for name in actions]
    return rows_to_table(_shown(report, boards=boards), columns, sections=("group",))


def cards_table(report: pd.DataFrame) -> Table:
    """Table of a report of `aggregate_cards`."""
    columns: list[Column] = [text("card"), decimal("chance", digits=4)]
    columns += [decimal(name.replace("_", " ").replace("ev", "EV"), name, digits=3) for name in NUMBERS]
    actions = [str(name) for name in report.columns if name not in ("card", "chance", *NUMBERS)]
    return rows_to_table(report, [*columns, *(decimal(name, digits=3) for name in actions)])


def _shown(report: pd.DataFrame, *, boards: bool) -> pd.DataFrame:
    return report if boards else report[report["group"] != BOARD]


def boards_picture(
    report: pd.DataFrame, ax: Axes | None = None, *, title: str | None = None, boards: bool = False
) -> Axes:
    """Draws the frequencies of actions in each class as stripes, beside the first player's EV and equity.

    Args:
      report: from `aggregate_spots`.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      title: title of the picture; by default the player that acts.
      boards: also draw every board.
    """
    rows = _shown(report, boards=boards)
    actions = [str(name) for name in report.columns if name not in FIXED]
    ax = own_axes(ax, picture_size(rows))
    places = _places(rows)
    left = np.zeros(len(rows))
    for action in actions:
        share = np.nan_to_num(rows[action].to_numpy(np.float64))
        ax.barh(places, share, 0.8, left, color=_color(action), label=action)
        left += share
    for place, row in zip(places.tolist(), rows.to_dict("records"), strict=True):
        ax.text(1.02, place, _beside(row), va="center", fontsize=7)
    ax.set_yticks(
        places, [f"{row['class']} ({row['boards']})" for row in rows.to_dict("records")], fontsize=8
    )
    ax.set_ylim(places.max() + 0.6, -0.6)
    ax.set_xlim(0, 1)
    ax.set_xlabel("frequency", fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=8)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(len(actions), 6), fontsize=7, frameon=False
    )
    write_title(ax, f"{report.attrs.get('actor', 'actions')}, by board" if title is None else title, pad=28)
    return ax


def draw_boards(report: pd.DataFrame, path: str | os.PathLike[str], *, title: str | None = None) -> None:
    """Writes `boards_picture` to a file; needs no display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=picture_size(_shown(report, boards=False)), layout="constrained")
    boards_picture(report, figure.add_subplot(), title=title)
    save_picture(figure, path)


def picture_size(rows: pd.DataFrame) -> tuple[float, float]:
    """Size of a picture of some rows, in inches."""
    return WIDTH, ROW_HEIGHT * (len(rows) + rows["group"].nunique()) + MARGIN


def _places(rows: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Heights of rows, with a gap between groups."""
    groups = rows["group"].to_numpy()
    gaps = np.cumsum(np.append(False, groups[1:] != groups[:-1]))
    return np.arange(len(rows)) + gaps.astype(np.float64)


def _color(action: str) -> str:
    """Colour of an action by its name in a report, such as `bet 50%`."""
    word, _, size = action.partition(" ")
    if word == "all-in":
        return ALL_IN_COLOR
    return action_color(word, float(size.rstrip("%")) / 100 if size else None)


def _beside(row: dict[Any, Any]) -> str:
    """EV and equity of the first player, as text."""
    ev, equity = row["ev_oop"], row["equity_oop"]
    shown = [f"{name} {value:.2f}" for name, value in (("EV", ev), ("equity", equity)) if np.isfinite(value)]
    return ", ".join(shown)
