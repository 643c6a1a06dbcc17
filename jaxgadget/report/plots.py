"""Pictures of results, fit for a paper: colours that the colour-blind tell apart (Okabe and Ito 2008).

`exploitability_scatter` draws what Figure 2 of Kubíček, Lisý and Sandholm (2026) draws.
"""

from __future__ import annotations

import math
import os
import pathlib
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxgadget.files import atomic_writer, check_writable
from jaxgadget.games.game import FloatArray
from jaxgadget.report.tables import named

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE_FORMATS = ("png", "svg", "pdf")
"""What pictures can be written as, by the ending of the file's name."""

FIGURE_SIZE = (5.6, 3.7)
"""Inches: a little less than a page's text is wide."""

TITLE_WIDTH = 60
"""Letters in a line of the title."""

FEW_SETTINGS = 10
"""Gadgets with priors whose names fit beside a picture of that size."""

LOG_SPREAD = 30.0
"""Largest over smallest positive number from which on the axes are logarithmic."""

LOG_DECADES = 5
"""So many powers of ten at most below the largest number; what is smaller is drawn at the edge."""


class _Style(NamedTuple):
    color: str
    marker: str


# Cold colours for resolving, warm for max-margin, grey for real ways in; a marker each, so that grey
# prints can be read.
_STYLES = {
    ("unsafe", "none"): _Style("#000000", "x"),
    ("resolving", "none"): _Style("#56B4E9", "o"),
    ("resolving", "uniform"): _Style("#0072B2", "s"),
    ("resolving", "blueprint"): _Style("#009E73", "^"),
    ("max-margin", "none"): _Style("#E69F00", "D"),
    ("max-margin", "uniform"): _Style("#D55E00", "P"),
    ("max-margin", "blueprint"): _Style("#CC79A7", "v"),
    ("reach-resolving", "none"): _Style("#56B4E9", "8"),
    ("reach-resolving", "uniform"): _Style("#0072B2", "p"),
    ("reach-resolving", "blueprint"): _Style("#009E73", "<"),
    ("reach-max-margin", "none"): _Style("#E69F00", "d"),
    ("reach-max-margin", "uniform"): _Style("#D55E00", "X"),
    ("reach-max-margin", "blueprint"): _Style("#CC79A7", ">"),
    ("full", "none"): _Style("#999999", "h"),
    ("full", "uniform"): _Style("#666666", "h"),
    ("full", "blueprint"): _Style("#333333", "h"),
    ("optimal-continuation", "none"): _Style("#999999", "*"),
    ("optimal-continuation", "uniform"): _Style("#666666", "*"),
    ("optimal-continuation", "blueprint"): _Style("#333333", "*"),
}
_OTHERS = ("#F0E442", "#999999", "#56B4E9", "#D55E00", "#009E73", "#CC79A7")
_COLUMNS = ("player", "gadget", "prior", "epsilon", "blueprint_exploitability", "refined_exploitability")


def exploitability_scatter(
    table: pd.DataFrame,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    resolution: float = 0.0,
    log: bool | None = None,
) -> Axes:
    """Draws refined against blueprint exploitability, a point for every row.

    Below the diagonal refinement helped. A colour and a marker stand for a gadget with a prior,
    and for an ε the marker's filling. Both numbers are `v* − value against a best response`.

    Args:
      table: `Refinement.table`, or several of one game one below the other.
      ax: where to draw, else a new figure of matplotlib's pyplot.
      title: what stands above.
      resolution: how sure the game's value is, in units of payoff: smaller numbers cannot be told
        from 0, and on logarithmic axes they are drawn at the edge, which is then said.
      log: logarithmic axes; by default if positive numbers spread over more than `LOG_SPREAD`.

    Raises:
      ValueError: if the table has no rows, or lacks a column or a number.
    """
    _check_table(table)
    table = named(table)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=FIGURE_SIZE, layout="constrained")[1]
    x, y = (_numbers(table, name) for name in _COLUMNS[-2:])
    positive = np.concatenate([x, y])
    positive = positive[positive > resolution]
    if log is None:
        log = len(positive) > 0 and positive.max() > LOG_SPREAD * positive.min()
    edge = _edge(positive, resolution) if log and len(positive) else -math.inf
    at_edge = int(((x < edge) | (y < edge)).sum())
    x, y = np.maximum(x, edge), np.maximum(y, edge)
    _set_axes(ax, x, y, log=bool(log))
    ends = [min(ax.get_xlim()[0], ax.get_ylim()[0]), max(ax.get_xlim()[1], ax.get_ylim()[1])]
    ax.plot(ends, ends, color="#777777", linewidth=0.9, zorder=1, scalex=False, scaley=False)
    _draw_points(ax, table, x, y)
    _write_labels(ax, table, title)
    if at_edge:
        text = f"{at_edge} point{'s' if at_edge > 1 else ''} at most {edge:.1g}: drawn there"
        place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "left", "va": "top"}
        ax.annotate(text, (0.02, 0.98), fontsize=7, color="#555555", **place)
    return ax


def check_picture(path: str | os.PathLike[str]) -> None:
    """ValueError unless a picture can be written at `path`: before the work, not after it."""
    _format(path)
    check_writable(path)


def save_picture(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a figure as PNG, SVG or PDF, by the ending, atomically; the same figure gives the same bytes.

    Raises:
      ValueError: if the ending is another one or the file cannot be written.
    """
    import matplotlib as mpl

    kind = _format(path)
    metadata: dict[str, Any] = {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
    }
    with mpl.rc_context({"svg.hashsalt": "jaxgadget"}), atomic_writer(path) as file:
        figure.savefig(file, format=kind, dpi=200, metadata=metadata[kind])


def draw_picture(
    table: pd.DataFrame, path: str | os.PathLike[str], *, title: str | None = None, resolution: float = 0.0
) -> None:
    """`exploitability_scatter` straight into a file; needs no display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_figure_size(table), layout="constrained")
    exploitability_scatter(table, figure.add_subplot(), title=title, resolution=resolution)
    save_picture(figure, path)


def _figure_size(table: pd.DataFrame) -> tuple[float, float]:
    """As usual, or larger for a long legend."""
    width, height = FIGURE_SIZE
    entries = len(table[["gadget", "prior", "epsilon"]].drop_duplicates())
    return (width, height) if entries <= FEW_SETTINGS else (width + 1.4, max(height, 0.21 * (entries + 3)))


def _format(path: str | os.PathLike[str]) -> str:
    kind = pathlib.Path(path).suffix.removeprefix(".").lower()
    if kind not in PICTURE_FORMATS:
        endings = ", ".join(f".{name}" for name in PICTURE_FORMATS)
        raise ValueError(f"picture {os.fspath(path)!r}: expected a file name that ends in one of {endings}")
    return kind


def _check_table(table: pd.DataFrame) -> None:
    missing = [name for name in _COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table lacks the columns {', '.join(missing)}; expected a Refinement's table")
    if table.empty:
        raise ValueError("table has no rows; expected at least one")
    for name in _COLUMNS[-2:]:
        if not np.isfinite(_numbers(table, name)).all():
            raise ValueError(f"table: {name} is not finite everywhere; drop such rows first")


def _numbers(table: pd.DataFrame, name: str) -> FloatArray:
    return np.asarray(table[name], np.float64)


def _edge(positive: FloatArray, resolution: float) -> float:
    """The least number that is drawn in its place on a logarithmic axis."""
    return max(resolution, float(positive.max()) / 10**LOG_DECADES, float(positive.min()))


def _set_axes(ax: Axes, x: FloatArray, y: FloatArray, *, log: bool) -> None:
    """Scales and limits: a little air around the points, and room for the diagonal."""
    if log:
        ax.set_xscale("log")
        ax.set_yscale("log")
    for values, set_limits in ((x, ax.set_xlim), (y, ax.set_ylim)):
        low, high = float(values.min()), float(max(values.max(), x.max()))
        if log:
            room = max((high / low) ** 0.06, 1.25)
            set_limits(low / room, high * room)
        else:
            room = 0.06 * (high - min(low, 0.0)) or 1.0
            set_limits(min(low, 0.0) - room, high + room)


def _draw_points(ax: Axes, table: pd.DataFrame, x: FloatArray, y: FloatArray) -> None:
    settings = table[["gadget", "prior", "epsilon"]].drop_duplicates().to_dict("records")
    epsilons = sorted({float(s["epsilon"]) for s in settings if s["prior"] != "none"})
    styles = _find_styles([(str(s["gadget"]), str(s["prior"])) for s in settings])
    for setting in settings:
        mine = np.ones(len(table), np.bool_)
        for name, value in setting.items():
            mine &= np.asarray(table[name] == value)
        style = styles[str(setting["gadget"]), str(setting["prior"])]
        several = len(epsilons) > 1 and setting["prior"] != "none"
        fill = (epsilons.index(float(setting["epsilon"])) + 1) / len(epsilons) if several else 0.4
        edges: dict[str, Any] = (
            {"color": style.color}
            if style.marker == "x"
            else {
                "facecolors": [(*_rgb(style.color), fill)],
                "edgecolors": style.color,
            }
        )
        ax.scatter(
            x[mine],
            y[mine],
            s=22,
            marker=style.marker,
            linewidths=1.0,
            label=_name(setting, several),
            zorder=4 if style.marker == "x" else 3,  # a thin mark would vanish below
            **edges,
        )


def _find_styles(settings: Sequence[tuple[str, str]]) -> dict[tuple[str, str], _Style]:
    """The usual look of every setting; others, such as a user's priors, get what is left."""
    styles: dict[tuple[str, str], _Style] = {}
    for setting in settings:
        number = sum(found not in _STYLES for found in styles)
        other = _Style(_OTHERS[number % len(_OTHERS)], "<>*hXdp"[number % 7])
        styles.setdefault(setting, _STYLES.get(setting, other))
    return styles


def _name(setting: dict[Any, Any], several: bool) -> str:
    gadget, prior = str(setting["gadget"]), str(setting["prior"])
    if gadget == "unsafe":
        return gadget
    name = f"{gadget}, {'no' if prior == 'none' else prior} prior"
    return f"{name}, ε = {setting['epsilon']:g}" if several else name


def _write_labels(ax: Axes, table: pd.DataFrame, title: str | None) -> None:
    players = sorted({int(player) for player in table["player"]})
    whose = f"player {players[0]}" if len(players) == 1 else "players 0 and 1"
    ax.set_xlabel(rf"Blueprint exploitability $\mathcal{{E}}$ of {whose} [payoff]", fontsize=9)
    ax.set_ylabel(rf"Refined exploitability $\mathcal{{E}}$ of {whose} [payoff]", fontsize=9)
    if title:
        ax.set_title("\n".join(textwrap.wrap(title, TITLE_WIDTH)), fontsize=9)
    ax.grid(True, color="#DDDDDD", linewidth=0.5, zorder=0)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    handles, names = ax.get_legend_handles_labels()
    epsilons = sorted(
        {float(e) for e, p in zip(table["epsilon"], table["prior"], strict=True) if p != "none"}
    )
    note = f"priors with ε = {epsilons[0]:g}" if len(epsilons) == 1 else None
    ax.legend(
        [*handles, ax.lines[-1]],
        [*names, "unchanged"],
        title=note,
        title_fontsize=8,
        alignment="left",
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
    )


def _rgb(color: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)
