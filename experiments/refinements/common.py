"""What the experiments of this folder share: games, blueprints, sweeps, pictures with several axes."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common import QUICK
from jaxgadget import OptimalContinuation, sweep
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.refining.refine import default_gadgets
from jaxgadget.report.plots import save_picture
from jaxgadget.util.files import atomic_writer, make_folder

HERE = pathlib.Path(__file__).parent
WORK = HERE.parent.parent / "build" / "refinements"
"""Where sweeps keep their pieces."""

GOOFSPIEL = "goofspiel(imp_info=True,num_cards=5,points_order=descending)"
LIARS_DICE = "liars_dice(dice_sides=4,numdice=1)"
GRID = {GOOFSPIEL: ("depth:1", "depth:2"), "leduc_poker": ("flop",), LIARS_DICE: ("depth:1",)}
"""The games and cuts of Figure 2."""

SMALL = {"kuhn_poker": ("depth:2",)}
"""Instead of them, for a smoke test."""

TITLES = {
    "goofspiel": "Goofspiel",
    "leduc_poker": "Leduc",
    "liars_dice": "Liar's Dice",
    "kuhn_poker": "Kuhn",
}

BLUEPRINTS = ("cfr-spread:25:1000", "draws:20")
"""25 checkpoints of 1,000 iterations of CFR, spread over exploitability, and 20 draws from Dirichlet(1)."""

FEW_BLUEPRINTS = ("cfr-spread:10:1000", "draws:5")
SMOKE_BLUEPRINTS = ("cfr-spread:3:20", "draws:2")

TINY = 1e-5
"""Of a game's largest blueprint exploitability; see `floor_of`."""

ITERATIONS = 5000
SMOKE_ITERATIONS = 10


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the command line asks for.

    Attributes:
      smoke: tiny games and numbers of iterations, to see that everything runs.
      folder: where `data/` and `pictures/` are.
      work: where sweeps keep their pieces.
      progress: show bars; by default if somebody watches.
    """

    smoke: bool = False
    folder: pathlib.Path = HERE
    work: pathlib.Path = WORK
    progress: bool | None = None

    @staticmethod
    def quick(folder: pathlib.Path | None = None) -> Settings:
        """Of a smoke test."""
        folder = folder or QUICK / "refinements"
        return Settings(smoke=True, folder=folder, work=folder / "work", progress=False)

    def games(self, grid: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
        """The games, or a tiny one."""
        return SMALL if self.smoke else grid

    def blueprints(self, specs: Sequence[str] = BLUEPRINTS) -> Sequence[str]:
        """The blueprints, or a few."""
        return SMOKE_BLUEPRINTS if self.smoke else specs

    def iterations(self, counts: int | Sequence[int] = ITERATIONS) -> int | Sequence[int]:
        """The number of iterations; of several, two."""
        several = isinstance(counts, Sequence)
        tiny = (SMOKE_ITERATIONS // 2, SMOKE_ITERATIONS) if several else SMOKE_ITERATIONS
        return tiny if self.smoke else counts

    def players(self, *players: int) -> tuple[int, ...]:
        """Who re-solves; the first of them in a smoke test."""
        return players[:1] if self.smoke else players

    def sweep(self, name: str, games: Mapping[str, Sequence[str]], **options: Any) -> pd.DataFrame:
        """`jaxgadget.sweep` in a folder of this name, over these games or a tiny one."""
        return sweep(self.work / name, self.games(games), progress=self.progress, **options)

    def keep(self, name: str, frame: pd.DataFrame) -> pd.DataFrame:
        """Writes an experiment's data, without what only matters in a sweep's folder."""
        frame = frame.drop(columns=["piece", "piece_rows"], errors="ignore")
        make_folder(self.folder / "data")
        with atomic_writer(self.folder / "data" / f"{name}.parquet") as file:
            frame.to_parquet(file, index=False, compression="zstd")
        return frame

    def data(self, name: str) -> pd.DataFrame | None:
        """An experiment's data, if they are there."""
        path = self.folder / "data" / f"{name}.parquet"
        return pd.read_parquet(path) if path.exists() else None

    def draw(self, name: str, figure: Figure) -> None:
        """Writes a picture, as PNG and SVG."""
        make_folder(self.folder / "pictures")
        for ending in ("png", "svg"):
            save_picture(figure, self.folder / "pictures" / f"{name}.{ending}")


def figure2_gadgets() -> list[Gadget]:
    """Unsafe, resolving and max-margin with every prior (ε = 1e-3), and the optimal continuation."""
    return [*default_gadgets(), OptimalContinuation(NoPrior())]


def floor_of(frame: pd.DataFrame) -> pd.Series:
    """What exploitability counts as in a ratio where it is less, as it cannot be told from 0 there.

    The larger of `TINY` times the game's largest blueprint exploitability and the width of the bracket of the
    game's value (none in a frame without one); a number for every row, in payoff.
    """
    largest = frame.groupby("game")["blueprint_exploitability"].transform("max")
    width = frame.get("game_value_high", 0.0) - frame.get("game_value_low", 0.0)
    return np.maximum(TINY * largest, width)


def markdown(frame: pd.DataFrame) -> str:
    """A table as Markdown has it, numbers with four digits."""
    rows = [frame.columns, ["---"] * len(frame.columns), *frame.itertuples(index=False)]
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def titled(game: str, cut: str = "") -> str:
    """A game and a cut in a few words."""
    name, _, parameters = game.partition("(")
    found = dict(part.split("=") for part in parameters.rstrip(")").split(",") if "=" in part)
    size = {
        "goofspiel": found.get("num_cards", ""),
        "liars_dice": f"{found.get('numdice', 1)}×{found.get('dice_sides', 6)}",
        "leduc_poker": f"{found['num_ranks']} ranks" if "num_ranks" in found else "",
    }.get(name, "")
    return " ".join(part for part in (TITLES.get(name, name), size, cut.replace(":", " ")) if part)


def panels(frame: pd.DataFrame, keys: Sequence[str]) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """The rows by their values in some columns, in order of appearance."""
    return [(key, rows) for key, rows in frame.groupby(list(keys), sort=False)]


def make_axes(count: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """So many axes in rows, each of `size` inches; those left over are gone."""
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
