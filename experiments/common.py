"""Games, their names and values, and pictures with several axes, for all studies."""

from __future__ import annotations

import functools
import pathlib
import resource
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxgadget import HistoryTree, enumerate_game, load
from jaxgadget.policy.exact import find_value

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=5,points_order=descending)"
LIARS_DICE = "liars_dice(dice_sides=4,numdice=1)"

TITLES = {
    "goofspiel": "Goofspiel",
    "leduc_poker": "Leduc",
    "liars_dice": "Liar's Dice",
    "kuhn_poker": "Kuhn",
    "dark_hex": "Dark Hex",
}


def peak_bytes() -> int:
    """Peak memory of this process."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@functools.cache
def tree_of(game: str) -> HistoryTree:
    """The histories of a game."""
    return enumerate_game(load(game))


@functools.cache
def value_of(game: str, exact: bool = True) -> tuple[float, float]:
    """A bracket of player 0's value; `exact`: by a linear program."""
    return find_value(tree_of(game), exact, False)


def titled(game: str, cut: str = "") -> str:
    """A game and a cut as a short title."""
    name, _, parameters = game.partition("(")
    given = dict(part.split("=") for part in parameters.rstrip(")").split(",") if "=" in part)
    size = {
        "goofspiel": given.get("num_cards", ""),
        "liars_dice": f"{given.get('numdice', 1)}×{given.get('dice_sides', 6)}",
        "leduc_poker": f"{given['num_ranks']} ranks" if "num_ranks" in given else "",
        "dark_hex": f"{given.get('board_size', 3)}×{given.get('board_size', 3)}",
    }.get(name, "")
    return " ".join(part for part in (TITLES.get(name, name), size, cut.replace(":", " ")) if part)


def panels(frame: pd.DataFrame, keys: Sequence[str]) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """The rows by their values in some columns, in order of appearance."""
    return [(key, rows) for key, rows in frame.groupby(list(keys), sort=False)]


def make_axes(count: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A number of axes in rows, each of `size` inches; surplus axes are removed."""
    columns = min(count, columns)
    rows = -(-count // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).flat)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def one_legend(figure: Figure, axes: Iterable[Axes], columns: int) -> None:
    """Replaces the legends of all axes by one below."""
    entries: dict[str, Any] = {}
    for ax in axes:
        legend = ax.get_legend()
        if legend is not None:
            for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True):
                entries.setdefault(text.get_text(), handle)
            legend.remove()
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside lower center",
        ncols=columns,
        fontsize=8,
        frameon=False,
    )
