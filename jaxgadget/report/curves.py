"""Convergence curves: a number over the iterations, with one line for every gadget with its prior."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

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
from jaxgadget.util.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MANY_LABELS = 12
"""Maximum number of lines that are named at their ends; more lines get a legend."""

CURVE_DECADES = 9
"""Maximum number of powers of ten below the largest number; smaller numbers are drawn at the edge."""

QUARTILES = (0.25, 0.5, 0.75)

NAMES = {
    "iterations": "Iterations",
    "seconds": "Seconds",
    "gap_max": "Largest gap of a subgame [payoff]",
    "gap_sum": "Sum of all gaps [payoff]",
    "refined_exploitability": r"Refined exploitability $\mathcal{E}$ [payoff]",
    "nash_conv": "NashConv [payoff]",
}
"""Axis labels of the usual columns; others are labelled by their names."""

_LINES = ("-", "--", "-.", ":")
_DASH = 4.0
"""Length of the dashes of coinciding curves, in line widths."""
_FONT = 8


class _Curve(NamedTuple):
    """`[n]` places on the x axis, ascending, and `[3, n]` quartiles there; `[n]` rows of the table."""

    x: FloatArray
    quartiles: FloatArray
    rows: IntArray


def convergence_curves(
    table: pd.DataFrame,
    ax: Axes | None = None,
    *,
    x: str = "iterations",
    y: str = "refined_exploitability",
    title: str | None = None,
    resolution: float = 0.0,
) -> Axes:
    """Draws one line for each gadget with its prior and ε, named at the right end; both axes are logarithmic.

    Lines that coincide have alternating dashes and markers, so that all are visible. If a setting has several
    rows at one x (blueprints, players, seeds), the line is their median and a pale band extends from the
    lower to the upper quartile. More than `MANY_LABELS` lines, or more than fit beside the axes, have a
    legend instead of names.

    Args:
      table: columns `gadget`, `prior`, `epsilon`, `x` and `y`.
      ax: axes to draw on; by default the axes of a new pyplot figure.
      x: the column on the x axis, positive.
      y: the column on the y axis.
      title: title of the axes.
      resolution: accuracy of `y`. Smaller numbers, and those more than `CURVE_DECADES` powers of ten below
        the largest, are drawn at the edge, with a note. If none is larger, the y axis is linear.

    Raises:
      ValueError: if the table has no rows or lacks a column, a number is not finite, or one in column `x` is
        not positive.
    """
    numbers = ("epsilon", x, y)
    expected = f"gadget, prior, epsilon, {x} and {y}"
    table = check_table(table, ("gadget", "prior", *numbers), numbers, expected)
    if not (column(table, x) > 0).all():
        raise ValueError(
            f"table: {x} is not positive everywhere; drop such rows first, its axis is logarithmic"
        )
    settings = find_settings(table)
    curves = [_find_curve(table[setting.rows], x, y) for setting in settings]
    height = FIGURE_SIZE[1] if len(settings) <= MANY_LABELS else 0.19 * len(settings) + 0.8
    ax = own_axes(ax, (FIGURE_SIZE[0] + 0.8, max(height, FIGURE_SIZE[1])))
    ax.set_xscale("log")
    medians = np.concatenate([curve.quartiles[1] for curve in curves])
    drawn = np.concatenate([curve.quartiles.ravel() for curve in curves])
    positive = drawn[drawn > resolution]
    edge = -math.inf
    if len(positive):
        ax.set_yscale("log")
        edge = least_shown(positive, resolution, CURVE_DECADES)
    for setting, curve, turn in zip(settings, curves, _turns(settings, curves, edge), strict=True):
        _draw_curve(ax, setting, curve, edge, turn)
    ax.set_xlim(*_x_limits(curves))
    _set_y_limits(ax, medians, edge)
    ax.set_xlabel(NAMES.get(x, x), fontsize=9)
    ax.set_ylabel(NAMES.get(y, y), fontsize=9)
    dress(ax, title)
    _name_lines(ax, table, settings, curves, edge)
    at_edge_note(ax, int((medians < edge).sum()), edge)
    return ax


def _find_curve(rows: pd.DataFrame, x: str, y: str) -> _Curve:
    positions, index = np.unique(column(rows, x), return_inverse=True)
    values = column(rows, y)
    groups = [values[index == k] for k in range(len(positions))]
    quartiles = np.stack([np.quantile(group, QUARTILES) for group in groups], axis=1)
    return _Curve(positions, quartiles, np.array([len(group) for group in groups]))


def _draw_curve(ax: Axes, setting: Setting, curve: _Curve, edge: float, turn: tuple[int, int]) -> None:
    low, middle, high = np.maximum(curve.quartiles, edge)
    style, (order, sharing) = setting.style, turn
    dashes = (_DASH * order, (_DASH, _DASH * (sharing - 1)))
    if curve.rows.max() > 1:
        ax.fill_between(curve.x, low, high, color=style.color, alpha=0.13, linewidth=0, zorder=2)
    ax.plot(
        curve.x,
        middle,
        color=style.color,
        linestyle=_LINES[setting.rank % len(_LINES)] if sharing == 1 else dashes,
        linewidth=1.4,
        label=setting.name,
        zorder=3,
    )
    every = max(sharing, math.ceil(len(curve.x) / 10))
    shown = np.arange(len(curve.x) - 1 - order, -1, -every)[::-1]  # of a line alone, the last one always
    look = marker_look(style, setting.fill)
    ax.scatter(curve.x[shown], middle[shown], s=16, marker=style.marker, linewidths=0.9, zorder=4, **look)


def _turns(settings: list[Setting], curves: list[_Curve], edge: float) -> list[tuple[int, int]]:
    """For each curve its index among those that coincide with it, and their number.

    Curves coincide if they have the same x and medians within one per cent of each other. Curves of one
    colour differ in their dashes and do not alternate.
    """
    groups: list[list[int]] = []
    for curve_idx, curve in enumerate(curves):
        height = np.maximum(curve.quartiles[1], edge)
        for group in groups:
            first = curves[group[0]]
            colors = {settings[other].style.color for other in group}
            if (
                settings[curve_idx].style.color not in colors
                and np.array_equal(first.x, curve.x)
                and np.allclose(np.maximum(first.quartiles[1], edge), height, rtol=0.01, atol=0)
            ):
                group.append(curve_idx)
                break
        else:
            groups.append([curve_idx])
    turns = {curve: (turn, len(group)) for group in groups for turn, curve in enumerate(group)}
    return [turns[curve] for curve in range(len(curves))]


def _x_limits(curves: list[_Curve]) -> tuple[float, float]:
    low, high = min(curve.x[0] for curve in curves), max(curve.x[-1] for curve in curves)
    room = max((high / low) ** 0.02, 1.05)
    return low / room, high * room


def _set_y_limits(ax: Axes, medians: FloatArray, edge: float) -> None:
    """Limits that contain the medians; a band may extend beyond them."""
    low, high = float(np.maximum(medians, edge).min()), float(medians.max())
    if ax.get_yscale() == "log":
        room = max((high / low) ** 0.08, 1.15)
        ax.set_ylim(low / room, high * room)
        set_ticks(ax.yaxis, high / low * room**2)
    else:
        room = 0.08 * (high - low) or 1.0
        ax.set_ylim(low - room, high + room)


def _name_lines(
    ax: Axes, table: pd.DataFrame, settings: list[Setting], curves: list[_Curve], edge: float
) -> None:
    """Names beside the right ends, moved apart and connected to their lines, or a legend for many lines."""
    epsilons = note_epsilons(table)
    note = f"priors with ε = {epsilons[0]:g}" if len(epsilons) == 1 else None
    ends = np.array([[curve.x[-1], max(curve.quartiles[1, -1], edge)] for curve in curves])
    to_axes = ax.transData + ax.transAxes.inverted()
    heights = to_axes.transform(ends)[:, 1]
    figure_height = ax.figure.get_figure(root=True).get_figheight()
    apart = 1.3 * _FONT / 72 / (figure_height * ax.get_position().height)
    if len(settings) > MANY_LABELS or (len(settings) + (note is not None)) * apart > 1:
        _write_legend(ax, settings, note)
        return
    order = np.argsort(heights, kind="stable")
    spaced = space_out(heights[order], apart, 1.0 - apart if note else 1.0)
    for k, height in zip(order.tolist(), spaced.tolist(), strict=True):
        color = settings[k].style.color
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.6, "relpos": (0, 0.5), "shrinkA": 1}
        ax.annotate(
            settings[k].name,
            xy=(ends[k, 0], ends[k, 1]),
            xytext=(1.05, height),
            textcoords="axes fraction",
            fontsize=_FONT,
            color=_dark(color),
            va="center",
            annotation_clip=False,
            arrowprops={**line, "shrinkB": 3},
        )
    if note:
        height = spaced[-1] + apart
        ax.text(1.05, height, note, transform=ax.transAxes, fontsize=_FONT, color="#555555", va="center")


def space_out(positions: FloatArray, apart: float, ceiling: float = 1.0) -> FloatArray:
    """Moves ascending positions as little as possible to distances of `apart` within [0, `ceiling`].

    Least squares (isotonic regression), then shifted into the range.
    """
    from scipy.optimize import isotonic_regression

    steps = apart * np.arange(len(positions))
    moved = np.asarray(isotonic_regression(positions - steps).x, np.float64)
    return np.clip(moved, 0.0, max(ceiling - steps[-1], 0.0)) + steps


def _write_legend(ax: Axes, settings: list[Setting], note: str | None) -> None:
    from matplotlib.lines import Line2D

    lines: list[Any] = []
    for setting in settings:
        color, marker = setting.style
        line = Line2D([], [], color=color, linestyle=_LINES[setting.rank % len(_LINES)], marker=marker)
        line.set_markerfacecolor(marker_look(setting.style, setting.fill).get("facecolors", [color])[0])
        line.set_markersize(4)
        line.set_label(setting.name)
        lines.append(line)
    ax.legend(
        handles=lines,
        title=note,
        title_fontsize=_FONT,
        alignment="left",
        fontsize=_FONT,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )


def _dark(color: str) -> tuple[float, float, float]:
    """The colour, dark enough for text on white."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(color)
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    scale = min(1.0, 0.45 / max(light, 1e-9))
    return red * scale, green * scale, blue * scale
