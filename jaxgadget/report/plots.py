"""Pictures of results in publication quality, with colours for colour-blind readers (Okabe and Ito 2008).

`exploitability_scatter` reproduces Figure 2 of Kubíček, Lisý and Sandholm (2026).
"""

from __future__ import annotations

import math
import os
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxgadget.report.styles import (
    FIGURE_SIZE,
    Setting,
    at_edge_note,
    check_table,
    column,
    dress,
    find_settings,
    least_shown,
    marker_look,
    note_epsilons,
    own_axes,
    set_ticks,
)
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.files import atomic_writer, check_writable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE_FORMATS = ("png", "svg", "pdf")
"""Formats of pictures, by the suffix of the file's name."""

FEW_SETTINGS = 10
"""Maximum number of settings whose names fit beside a picture of the usual size."""

LOG_SPREAD = 30.0
"""Ratio of largest to smallest positive number above which axes are logarithmic."""

LOG_DECADES = 5
"""Maximum number of powers of ten below the largest number; smaller numbers are drawn at the edge."""

APART = 0.013
"""Distance between points that would hide each other, as a fraction of the x axis."""

EQUAL = "equal points: side by side"
"""Note for moved points."""

_COLUMNS = ("player", "gadget", "prior", "epsilon", "blueprint_exploitability", "refined_exploitability")


def exploitability_scatter(
    table: pd.DataFrame,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    resolution: float = 0.0,
    log: bool | None = None,
    after: str = "Refined",
) -> Axes:
    """Draws refined against blueprint exploitability, a point for each row.

    Points below the diagonal are improvements. Colour and marker denote a gadget with a prior, and the
    marker's filling an ε. Points that would hide each other are placed side by side along the diagonal, with
    a note. Both numbers are `v* − value against a best response`.

    Args:
      table: `Refinement.table`, or several of one game, concatenated.
      ax: axes to draw on; by default those of a new figure of matplotlib's pyplot.
      title: of the axes.
      resolution: accuracy of the game's value, in payoff units: smaller numbers cannot be distinguished
        from 0, and on logarithmic axes they are drawn at the edge, with a note.
      log: logarithmic axes; by default if the ratio of positive numbers exceeds `LOG_SPREAD`.
      after: name of the y axis's strategies.

    Raises:
      ValueError: if the table has no rows, or lacks a column or a number.
    """
    table = check_table(table, _COLUMNS, _COLUMNS[-2:], "a Refinement's table")
    ax = own_axes(ax)
    x, y = (column(table, name) for name in _COLUMNS[-2:])
    positive = np.concatenate([x, y])
    positive = positive[positive > resolution]
    if log is None:
        log = len(positive) > 0 and positive.max() > LOG_SPREAD * positive.min()
    edge = least_shown(positive, resolution, LOG_DECADES) if log and len(positive) else -math.inf
    at_edge = int(((x < edge) | (y < edge)).sum())
    x, y = np.maximum(x, edge), np.maximum(y, edge)
    _set_axes(ax, x, y, log=bool(log))
    x, y, moved = _side_by_side(ax, find_settings(table), x, y)
    if moved:
        _set_axes(ax, x, y, log=bool(log))
    ends = [min(ax.get_xlim()[0], ax.get_ylim()[0]), max(ax.get_xlim()[1], ax.get_ylim()[1])]
    ax.plot(ends, ends, color="#777777", linewidth=0.9, zorder=1, scalex=False, scaley=False)
    _draw_points(ax, table, x, y)
    _write_labels(ax, table, title, after, moved=moved)
    at_edge_note(ax, at_edge, edge)
    return ax


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raises ValueError unless a picture can be written to `path`; for use before the work."""
    _format(path)
    check_writable(path)


def save_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure as PNG, SVG or PDF, by the suffix, atomically and reproducibly.

    Raises:
      ValueError: if the suffix is another one or the file cannot be written.
    """
    import matplotlib as mpl

    kind = _format(path)
    metadata: dict[str, Any] = {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
    }
    with mpl.rc_context({"svg.hashsalt": "jaxgadget"}), atomic_writer(path) as file:
        figure.savefig(
            file, format=kind, dpi=200, metadata=metadata[kind], bbox_inches="tight", pad_inches=0.08
        )


def draw_picture(
    table: pd.DataFrame,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    resolution: float = 0.0,
    after: str = "Refined",
) -> None:
    """Writes an `exploitability_scatter` to a file; needs no display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_figure_size(table), layout="constrained")
    exploitability_scatter(table, figure.add_subplot(), title=title, resolution=resolution, after=after)
    save_picture(figure, path)


def _figure_size(table: pd.DataFrame) -> tuple[float, float]:
    """The usual size, or a larger one for a long legend."""
    width, height = FIGURE_SIZE
    entries = len(table[["gadget", "prior", "epsilon"]].drop_duplicates())
    return (width, height) if entries <= FEW_SETTINGS else (width + 1.4, max(height, 0.21 * (entries + 3)))


def _format(path: str | os.PathLike[str]) -> str:
    kind = pathlib.Path(path).suffix.removeprefix(".").lower()
    if kind not in PICTURE_FORMATS:
        endings = ", ".join(f".{name}" for name in PICTURE_FORMATS)
        raise ValueError(f"picture {os.fspath(path)!r}: expected a file name that ends in one of {endings}")
    return kind


def _set_axes(ax: Axes, x: FloatArray, y: FloatArray, *, log: bool) -> None:
    """Sets scales and limits, with margins around the points and the diagonal."""
    if log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    for axis, values, set_limits in ((ax.xaxis, x, ax.set_xlim), (ax.yaxis, y, ax.set_ylim)):
        low, high = float(values.min()), float(max(values.max(), x.max()))
        if log:
            room = max((high / low) ** 0.06, 1.25)
            set_limits(low / room, high * room)
            set_ticks(axis, high / low * room**2)
        else:
            room = 0.06 * (high - min(low, 0.0)) or 1.0
            set_limits(min(low, 0.0) - room, high + room)


def _draw_points(ax: Axes, table: pd.DataFrame, x: FloatArray, y: FloatArray) -> None:
    for setting in find_settings(table):
        ax.scatter(
            x[setting.rows],
            y[setting.rows],
            s=22,
            marker=setting.style.marker,
            linewidths=1.0,
            label=setting.name,
            zorder=4 if setting.style.marker == "x" else 3,  # a thin mark would vanish below
            **marker_look(setting.style, setting.fill),
        )


def _side_by_side(
    ax: Axes, settings: list[Setting], x: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Separates points of several settings that would hide each other.

    Points hide each other if they fall into one cell of a grid over the axes. They are moved along the
    diagonal, which preserves a point's distance from it, or its ratio on logarithmic axes.

    Returns:
      `[rows]` coordinates on both axes, and True if some points were moved.
    """
    is_log = ax.get_xscale() == "log"
    (left, right), (bottom, top) = (
        np.log(limits) if is_log else limits for limits in (ax.get_xlim(), ax.get_ylim())
    )
    across, up = (np.log(values) if is_log else values for values in (x, y))
    places = np.stack([(across - left) / (right - left), (up - bottom) / (top - bottom)])
    cell = np.unique(np.round(places / APART), axis=1, return_inverse=True)[1].ravel()
    number = np.argmax([setting.rows for setting in settings], axis=0)
    pairs, pair = np.unique(np.stack([cell, number]), axis=1, return_inverse=True)
    count = np.bincount(pairs[0])
    order = np.arange(pairs.shape[1]) - (np.cumsum(count) - count)[pairs[0]]
    shift = (APART * (right - left) * (order - (count[pairs[0]] - 1) / 2))[pair.ravel()]
    moved = count[cell] > 1
    first, second = (np.exp(values + shift) if is_log else values + shift for values in (across, up))
    return np.where(moved, first, x), np.where(moved, second, y), bool(moved.any())


def _write_labels(ax: Axes, table: pd.DataFrame, title: str | None, after: str, *, moved: bool) -> None:
    players = sorted({int(player) for player in table["player"]})
    whose = f"player {players[0]}" if len(players) == 1 else "players 0 and 1"
    ax.set_xlabel(rf"Blueprint exploitability $\mathcal{{E}}$ of {whose} [payoff]", fontsize=9)
    ax.set_ylabel(rf"{after} exploitability $\mathcal{{E}}$ of {whose} [payoff]", fontsize=9)
    dress(ax, title)
    handles, names = ax.get_legend_handles_labels()
    epsilons = note_epsilons(table)
    notes = [f"priors with ε = {epsilons[0]:g}"] if len(epsilons) == 1 else []
    notes += [EQUAL] if moved else []
    ax.legend(
        [*handles, ax.lines[-1]],
        [*names, "unchanged"],
        title="\n".join(notes) or None,
        title_fontsize=8,
        alignment="left",
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )
