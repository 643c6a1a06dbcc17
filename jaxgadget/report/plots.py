"""Pictures of results in publication quality, with colours for colour-blind readers (Okabe and Ito 2008).

`exploitability_scatter` reproduces Figure 2 of Kubíček, Lisý and Sandholm (2026).
"""

from __future__ import annotations

import itertools
import math
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxgadget.report.styles import (
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
from jaxgadget.util.arrays import BoolArray, FloatArray
from jaxgadget.util.files import atomic_writer, check_writable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE_FORMATS = ("png", "svg", "pdf")
"""Formats of pictures, by the suffix of the file's name."""

MAX_SERIES = 8
"""Maximum number of series in a panel of a picture in a file."""

PANEL = (3.6, 3.1)
"""Size of a panel without its legend, in inches."""

ENTRY_HEIGHT, LETTER_WIDTH = 0.19, 0.062
"""Inches of an entry of a legend, and of a letter in it."""

LOG_SPREAD = 30.0
"""Ratio of largest to smallest positive number above which axes are logarithmic."""

LOG_DECADES = 5
"""Maximum number of powers of ten below the largest number; smaller numbers are drawn at the edge."""

_COLUMNS = ("player", "gadget", "prior", "epsilon", "blueprint_exploitability", "refined_exploitability")


class _Scatter(NamedTuple):
    """Points of a scatter plot, and their axes.

    Attributes:
      settings: gadgets with priors and ε.
      x: `[rows]` blueprint exploitability, at least `edge`.
      y: `[rows]` refined exploitability, at least `edge`.
      log: True for logarithmic axes.
      edge: numbers up to this one are drawn at the edge of the axes; minus infinity on linear axes.
      at_edge: `[rows]` mask of points drawn at the edge.
      players: the players in the table.
      epsilons: every ε of priors.
    """

    settings: list[Setting]
    x: FloatArray
    y: FloatArray
    log: bool
    edge: float
    at_edge: BoolArray
    players: list[int]
    epsilons: list[float]


def exploitability_scatter(
    table: pd.DataFrame,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    resolution: float = 0.0,
    log: bool | None = None,
    after: str = "Refined",
) -> Axes:
    """Draws refined against blueprint exploitability, with one point per row.

    Points below the diagonal are improvements. Colour and marker denote a gadget with a prior, and the
    marker's filling an ε; with a single ε all markers are open, so that coinciding points remain visible.
    Both numbers are `v* − value against a best response`.

    Args:
      table: `Refinement.table`, or several of one game, concatenated.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      title: title of the axes.
      resolution: accuracy of the game's value, in payoff units: smaller numbers cannot be distinguished
        from 0, and on logarithmic axes they are drawn at the edge, with a note.
      log: logarithmic axes; by default if the ratio of positive numbers exceeds `LOG_SPREAD`.
      after: name of the strategies on the y axis.

    Raises:
      ValueError: if the table has no rows, or lacks a column or a number.
    """
    scatter = _find_scatter(table, resolution, log)
    ax = own_axes(ax, _size([scatter.settings]))
    _draw_scatter(ax, scatter, scatter.settings, title, after)
    return ax


def _find_scatter(table: pd.DataFrame, resolution: float, log: bool | None) -> _Scatter:
    """The points of a table."""
    table = check_table(table, _COLUMNS, _COLUMNS[-2:], "a Refinement's table")
    x, y = (column(table, name) for name in _COLUMNS[-2:])
    positive = np.concatenate([x, y])
    positive = positive[positive > resolution]
    if log is None:
        log = len(positive) > 0 and bool(positive.max() > LOG_SPREAD * positive.min())
    edge = least_shown(positive, resolution, LOG_DECADES) if log and len(positive) else -math.inf
    return _Scatter(
        settings=find_settings(table),
        x=np.maximum(x, edge),
        y=np.maximum(y, edge),
        log=log,
        edge=edge,
        at_edge=(x < edge) | (y < edge),
        players=sorted({int(player) for player in table["player"]}),
        epsilons=note_epsilons(table),
    )


def _draw_scatter(
    ax: Axes, scatter: _Scatter, settings: Sequence[Setting], title: str | None, after: str
) -> None:
    """Draws some of a table's settings, on axes whose limits include all settings."""
    _set_axes(ax, scatter.x, scatter.y, log=scatter.log)
    ends = [min(ax.get_xlim()[0], ax.get_ylim()[0]), max(ax.get_xlim()[1], ax.get_ylim()[1])]
    ax.plot(ends, ends, color="#777777", linewidth=0.9, zorder=1, scalex=False, scaley=False)
    for setting in settings:
        ax.scatter(
            scatter.x[setting.rows],
            scatter.y[setting.rows],
            s=22,
            marker=setting.style.marker,
            linewidths=0.9,
            label=setting.name,
            zorder=4 if setting.style.marker == "x" else 3,  # a thin mark would be hidden below other markers
            **marker_look(setting.style, setting.fill),
        )
    _write_labels(ax, scatter, title, after)
    shown = np.any([setting.rows for setting in settings], axis=0)
    at_edge_note(ax, int((scatter.at_edge & shown).sum()), scatter.edge)


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raises ValueError unless a picture can be written to `path`; call it before long work."""
    _format(path)
    check_writable(path)


def save_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure as PNG, SVG or PDF, by the suffix, atomically and reproducibly.

    Raises:
      ValueError: if the suffix is none of these or the file cannot be written.
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
    """Writes an `exploitability_scatter` to a file; needs no display.

    Each player has one panel for every `MAX_SERIES` settings; all panels have the same axes.
    """
    draw_panels([(title, table, resolution)], path, after=after)


def draw_panels(
    tables: Iterable[tuple[str | None, pd.DataFrame, float]],
    path: str | os.PathLike[str],
    *,
    after: str = "Refined",
) -> None:
    """Writes an `exploitability_scatter` for each of several tables, in panels as `draw_picture`.

    Args:
      tables: title, table and resolution of each.
      path: the file.
      after: name of the strategies on the y axes.
    """
    from matplotlib.figure import Figure

    panels: list[tuple[_Scatter, list[Setting], str | None]] = []
    for title, table, resolution in tables:
        for player, rows in table.groupby("player"):
            whose = (
                title if table["player"].nunique() == 1 else f"{title or ''}, player {player}".lstrip(", ")
            )
            scatter = _find_scatter(rows, resolution, None)
            panels += [(scatter, settings, whose) for settings in _in_groups(scatter.settings)]
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    width, height = _size([settings for _, settings, _ in panels])
    figure = Figure(figsize=(width * columns, height * lines), layout="constrained")
    for number, (scatter, settings, title) in enumerate(panels, 1):
        _draw_scatter(figure.add_subplot(lines, columns, number), scatter, settings, title, after)
    save_picture(figure, path)


def _in_groups(settings: Sequence[Setting]) -> list[list[Setting]]:
    """Groups of at most `MAX_SERIES` settings; those of one gadget are together if they fit."""
    groups: list[list[Setting]] = []
    for _, same in itertools.groupby(settings, key=lambda setting: setting.gadget):
        gadget = list(same)
        for begin in range(0, len(gadget), MAX_SERIES):
            part = gadget[begin : begin + MAX_SERIES]
            if groups and len(groups[-1]) + len(part) <= MAX_SERIES:
                groups[-1] += part
            else:
                groups.append(part)
    return groups


def _size(panels: Sequence[Sequence[Setting]]) -> tuple[float, float]:
    """Size in inches of a panel with its legend, which is beside the axes and does not narrow them."""
    letters = max(len(setting.name) for settings in panels for setting in settings)
    entries = max(map(len, panels)) + 3
    return PANEL[0] + 0.5 + LETTER_WIDTH * letters, max(PANEL[1], ENTRY_HEIGHT * entries)


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


def _write_labels(ax: Axes, scatter: _Scatter, title: str | None, after: str) -> None:
    players = scatter.players
    whose = f"player {players[0]}" if len(players) == 1 else "players 0 and 1"
    ax.set_xlabel(rf"Blueprint exploitability $\mathcal{{E}}$ of {whose} [payoff]", fontsize=8)
    ax.set_ylabel(rf"{after} exploitability $\mathcal{{E}}$ [payoff]", fontsize=8)
    dress(ax, title)
    handles, names = ax.get_legend_handles_labels()
    epsilons = scatter.epsilons
    ax.legend(
        [*handles, ax.lines[-1]],
        [*names, "unchanged"],
        title=f"priors with ε = {epsilons[0]:g}" if len(epsilons) == 1 else None,
        title_fontsize=8,
        alignment="left",
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )
