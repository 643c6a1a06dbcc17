"""What the experiments share: tables that survive an interruption, re-solving for both, Leduc's ranks."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table as Printed

from jaxgadget import HistoryTree, Policy, Refinement, refine
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.util.files import atomic_writer, make_folder

HERE = pathlib.Path(__file__).parent
QUICK = HERE.parent / "build" / "experiments"
"""Where quick runs write, so that they leave the real data alone."""

WIDTH = 160
"""Letters in a line of a table that goes into a file."""

SAFE, UNSAFE, PAPER = "#0072B2", "#D55E00", "#555555"
"""Colours of the curves and of the paper's numbers (Okabe and Ito 2008)."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the command line asks for.

    Attributes:
      quick: tiny numbers of iterations, to see that everything runs.
      folder: where `data/` and `pictures/` are.
    """

    quick: bool
    folder: pathlib.Path

    def data(self, name: str) -> pathlib.Path:
        """The experiment's table; its folder is made."""
        make_folder(self.folder / "data")
        return self.folder / "data" / f"{name}.csv"

    def picture(self, name: str) -> pathlib.Path:
        """The experiment's picture; its folder is made."""
        make_folder(self.folder / "pictures")
        return self.folder / "pictures" / f"{name}.png"


def read_settings(description: str, arguments: Sequence[str] | None = None) -> Settings:
    """Reads `--quick` and `--folder`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a few iterations only, into build/experiments")
    parser.add_argument("--folder", type=pathlib.Path, help="where data/ and pictures/ go")
    found = parser.parse_args(arguments)
    return Settings(found.quick, found.folder or (QUICK if found.quick else HERE))


class Table:
    """Rows of an experiment in a CSV file; what is there already need not be computed again."""

    def __init__(self, path: pathlib.Path, columns: Sequence[str], key: Sequence[str]):
        """Reads the file if it exists.

        Args:
          path: the file.
          columns: its columns.
          key: the columns that tell rows apart.

        Raises:
          ValueError: if the file has other columns.
        """
        self._path, self._columns, self._key = path, list(columns), list(key)
        self._rows: dict[tuple[str, ...], dict[str, Any]] = {}
        if path.exists():
            with open(path, encoding="utf-8", newline="") as file:
                header, *lines = csv.reader(file)
            if header != self._columns:
                raise ValueError(
                    f"{path} has the columns {header}, expected {self._columns}; move the file away"
                )
            self._keep([dict(zip(header, map(_read, line), strict=True)) for line in lines])

    def has(self, **key: object) -> bool:
        """Whether there is a row with this key."""
        return tuple(str(key[name]) for name in self._key) in self._rows

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Takes rows in and writes the file, atomically."""
        self._keep(rows)
        with atomic_writer(self._path) as file:
            file.write(self.frame.to_csv(index=False, lineterminator="\n").encode())

    def _keep(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for row in rows:
            self._rows[tuple(str(row[name]) for name in self._key)] = {c: row[c] for c in self._columns}

    @property
    def frame(self) -> pd.DataFrame:
        """All rows, sorted by their keys."""
        frame = pd.DataFrame(list(self._rows.values()), columns=self._columns)
        return frame.sort_values(self._key, ignore_index=True)


def _read(text: str) -> int | float | str:
    """A cell as it was written, to the last digit; nothing is NaN."""
    for kind in (int, float):
        try:
            return kind(text or "nan")
        except ValueError:
            continue
    return text


def resolve_both(
    tree: HistoryTree,
    where: str,
    blueprint: Policy,
    gadgets: tuple[Sequence[Gadget], Sequence[Gadget]],
    *,
    iterations: int,
    value: tuple[float, float],
) -> tuple[Policy, tuple[Refinement, Refinement]]:
    """Re-solves all subgames for both players by CFR in float64.

    Args:
      tree: the game's histories.
      where: the cut.
      blueprint: profiles, a lane each.
      gadgets: player 0's and player 1's.
      iterations: of CFR in every gadget game.
      value: bracket of the game's value.

    Returns:
      Profiles in which both players re-solved, lanes as in `Refinement`; and the two refinements.
    """
    first, second = (
        refine(
            tree,
            where,
            blueprint,
            gadgets[player],
            player=player,
            algorithm="cfr",
            iterations=iterations,
            dtype="float64",
            value=value,
            progress=False,
        )
        for player in (0, 1)
    )
    pair = (first.policy.probabilities[0], second.policy.probabilities[1])
    return Policy(tree, pair, first.policy.labels), (first, second)


def ranks(player: int, infostate: str) -> str:
    """An infostate of Leduc with ranks 0, 1, 2 for cards 0 … 5: suits never matter."""
    return re.sub(r"\[(Private|Public): (\d)\]", lambda card: f"[{card[1]}: {int(card[2]) // 2}]", infostate)


def show(title: str, frame: pd.DataFrame) -> None:
    """Prints a table of results."""
    printed = Printed(title=title)
    for name in frame.columns:
        printed.add_column(str(name))
    for row in frame.itertuples(index=False):
        printed.add_row(*(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row))
    console = Console()
    Console(width=None if console.is_terminal else WIDTH).print(printed)
