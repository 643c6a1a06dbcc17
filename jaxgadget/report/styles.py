"""Styles shared by all pictures: colours and markers of gadgets with priors, names, and axes.

The colours are those of Okabe and Ito (2008), for colour-blind readers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxgadget.report.layout import TITLE_WIDTH
from jaxgadget.report.names import break_lines
from jaxgadget.report.tables import defined, named
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis

FIGURE_SIZE = (5.6, 3.7)
"""Size in inches: slightly less than the text width of a page."""

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""Okabe and Ito's colours without black, ordered so that neighbours differ in lightness."""


class Style(NamedTuple):
    """A colour and a marker of matplotlib."""

    color: str
    marker: str


# Cold colours for resolving, warm for max-margin, grey for gadgets with the real trunk; markers differ, so
# that prints in grey remain readable.
STYLES = {
    ("unsafe", "none"): Style("#000000", "x"),
    ("resolving", "none"): Style("#56B4E9", "o"),
    ("resolving", "uniform"): Style("#0072B2", "s"),
    ("resolving", "blueprint"): Style("#009E73", "^"),
    ("max-margin", "none"): Style("#E69F00", "D"),
    ("max-margin", "uniform"): Style("#D55E00", "P"),
    ("max-margin", "blueprint"): Style("#CC79A7", "v"),
    ("reach-resolving", "none"): Style("#56B4E9", "8"),
    ("reach-resolving", "uniform"): Style("#0072B2", "p"),
    ("reach-resolving", "blueprint"): Style("#009E73", "<"),
    ("reach-max-margin", "none"): Style("#E69F00", "d"),
    ("reach-max-margin", "uniform"): Style("#D55E00", "X"),
    ("reach-max-margin", "blueprint"): Style("#CC79A7", ">"),
    ("full", "none"): Style("#999999", "h"),
    ("full", "uniform"): Style("#666666", "h"),
    ("full", "blueprint"): Style("#333333", "h"),
    ("optimal-continuation", "none"): Style("#999999", "*"),
    ("optimal-continuation", "uniform"): Style("#666666", "*"),
    ("optimal-continuation", "blueprint"): Style("#333333", "*"),
}
_OTHERS = ("#F0E442", "#999999", "#56B4E9", "#D55E00", "#009E73", "#CC79A7")


@dataclasses.dataclass(frozen=True)
class Setting:
    """A gadget with its prior and ε in pictures.

    Attributes:
      gadget: unique name, as from `tables.named`.
      prior: the prior's name.
      epsilon: ε.
      name: label; contains ε only if there are several.
      style: colour and marker.
      rank: index of its ε among all ε, ascending.
      fill: opacity of the marker's filling; 0, an open marker, for the smallest ε.
      rows: `[rows]` mask of its rows in the table.
    """

    gadget: str
    prior: str
    epsilon: float
    name: str
    style: Style
    rank: int
    fill: float
    rows: np.ndarray[Any, np.dtype[np.bool_]]


def find_settings(table: pd.DataFrame) -> list[Setting]:
    """The settings of a table that `tables.named` returned, in the order of their first rows."""
    records = table[["gadget", "prior", "epsilon"]].drop_duplicates().to_dict("records")
    epsilons = note_epsilons(table)
    styles = find_styles([(str(record["gadget"]), str(record["prior"])) for record in records])
    settings: list[Setting] = []
    for record in records:
        rows = np.ones(len(table), np.bool_)
        for name, value in record.items():
            rows &= np.asarray(table[str(name)] == value)
        gadget, prior, epsilon = str(record["gadget"]), str(record["prior"]), float(record["epsilon"])
        has_rank = len(epsilons) > 1 and prior != "none"
        rank = epsilons.index(epsilon) if has_rank else 0
        fill = 0.7 * rank / (len(epsilons) - 1) if has_rank else 0.0
        name = _name(gadget, prior) + (f", ε = {epsilon:g}" if has_rank else "")
        settings.append(Setting(gadget, prior, epsilon, name, styles[gadget, prior], rank, fill, rows))
    return settings


def find_styles(settings: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Style]:
    """Styles of gadgets with priors; custom gadgets and priors get the remaining colours."""
    styles: dict[tuple[str, str], Style] = {}
    for setting in settings:
        num_others = sum(styled not in STYLES for styled in styles)
        other = Style(_OTHERS[num_others % len(_OTHERS)], "<>*hXdp"[num_others % 7])
        styles.setdefault(setting, STYLES.get(setting, other))
    return styles


def note_epsilons(table: pd.DataFrame) -> list[float]:
    """The ε of all priors, ascending."""
    return sorted({float(e) for e, p in zip(table["epsilon"], table["prior"], strict=True) if p != "none"})


def _name(gadget: str, prior: str) -> str:
    return gadget if gadget == "unsafe" else f"{gadget}, {'no' if prior == 'none' else prior} prior"


def check_table(
    table: pd.DataFrame, columns: Sequence[str], numbers: Sequence[str], expected: str
) -> pd.DataFrame:
    """Returns the rows of solves that did not fail, with unique gadget names (`tables.named`).

    Args:
      table: the table.
      columns: required columns.
      numbers: columns that must be finite.
      expected: description of the table, for errors.

    Raises:
      ValueError: if the table has no rows or lacks a column, or a number is not finite.
    """
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise ValueError(f"table lacks the columns {', '.join(missing)}; expected {expected}")
    if table.empty:
        raise ValueError("table has no rows; expected at least one")
    table = defined(table)
    if table.empty:
        raise ValueError("table: all of its rows are undefined, see the column failure; expected numbers")
    for name in numbers:
        if not np.isfinite(column(table, name)).all():
            raise ValueError(f"table: {name} is not finite everywhere; drop such rows first")
    return named(table if "player" in table else table.assign(player=0))  # `named` groups by player


def column(table: pd.DataFrame, name: str) -> FloatArray:
    """A column in float64."""
    return np.asarray(table[name], np.float64)


def least_shown(positive: FloatArray, resolution: float, decades: int) -> float:
    """The lower edge of a logarithmic axis, at which smaller numbers are drawn.

    Args:
      positive: the numbers above `resolution`, at least one.
      resolution: numbers up to this one cannot be distinguished from 0.
      decades: maximum number of powers of ten below the largest number.
    """
    return max(resolution, float(positive.max()) / 10**decades, float(positive.min()))


def at_edge_note(ax: Axes, count: int, edge: float, *, below: bool = False) -> None:
    """Writes the number of points that are drawn at the edge into an upper or lower corner."""
    if count:
        text = f"{count} point{'s' if count > 1 else ''} at most {edge:.1g}: drawn there"
        corner: dict[str, Any] = {
            "xycoords": "axes fraction",
            "ha": "left",
            "va": "bottom" if below else "top",
        }
        ax.annotate(text, (0.02, 0.02 if below else 0.98), fontsize=7, color="#555555", **corner)


def set_ticks(axis: XAxis | YAxis, ratio: float) -> None:
    """Sets plain numbers as ticks of a logarithmic axis of less than two decades."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

    if ratio < 100:
        axis.set_major_locator(MaxNLocator(6) if ratio < 10 else LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def own_axes(ax: Axes | None, size: tuple[float, float] = FIGURE_SIZE) -> Axes:
    """Returns `ax`, by default the axes of a new figure of matplotlib's pyplot with `size` in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def dress(ax: Axes, title: str | None) -> None:
    """Sets a pale grid, no frame, small tick labels, and the title."""
    ax.grid(True, color="#DDDDDD", linewidth=0.5, zorder=0)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    write_title(ax, title)


def write_title(ax: Axes, title: str | None, pad: float | None = None) -> None:
    """Sets the title in lines of at most `TITLE_WIDTH`, `pad` points above the axes."""
    if title:
        ax.set_title("\n".join(break_lines(title, TITLE_WIDTH)), fontsize=9, pad=pad)


def marker_look(style: Style, fill: float) -> Mapping[str, Any]:
    """Colours of a scatter's markers: an outline, and a filling of opacity `fill`."""
    from matplotlib.colors import to_rgba

    if style.marker == "x":
        return {"color": style.color}
    return {"facecolors": [to_rgba(style.color, fill)], "edgecolors": style.color}
