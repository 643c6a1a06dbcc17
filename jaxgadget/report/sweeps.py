"""What the command line makes of a sweep's rows: tables, a record, files, a picture."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Group

from jaxgadget.report.plots import exploitability_scatter, save_picture
from jaxgadget.report.styles import FIGURE_SIZE
from jaxgadget.report.tables import said_order, summary_table, table_title
from jaxgadget.sweeping.store import SCHEMA, TIMES
from jaxgadget.util.files import atomic_writer

if TYPE_CHECKING:
    import pandas as pd

_PANEL = ("game", "cut", "iterations")


def sweep_record(folder: str | os.PathLike[str], rows: pd.DataFrame) -> dict[str, Any]:
    """What `jaxgadget sweep --json` writes; null where a number is not defined or there is no seed."""
    known = rows.astype(object).where(rows.notna(), None)
    known["order"] = rows["order"].map(said_order).astype(object)
    return {"folder": os.fspath(folder), "rows": known.to_dict("records")}


def sweep_tables(rows: pd.DataFrame) -> Group:
    """A summary for every game, cut, number of iterations and player."""
    tables: list[Any] = []
    for title, part in _panels(rows):
        for player, player_rows in part.groupby("player"):
            table = summary_table(player_rows)
            table.title = table_title(f"{title}, player {player}\n{table.title}")
            tables.append(table)
    return Group(*tables)


def sweep_notes(folder: str | os.PathLike[str], rows: pd.DataFrame) -> list[str]:
    """How much was done, how sure the numbers are, and what they mean."""
    pieces = rows.drop_duplicates("piece")
    seconds = ", ".join(f"{name.removesuffix('_seconds')} {pieces[name].sum():.2f}" for name in TIMES)
    width = float((rows["game_value_high"] - rows["game_value_low"]).max())
    return [
        f"{len(rows)} results in {len(pieces)} pieces, kept in {os.fspath(folder)}.",
        "Exploitability is v* − value against a best response (the papers' script E), in the player's "
        f"payoff, and sure to {width / 2:.2g}. OpenSpiel's is another number: half of NashConv.",
        f"Seconds of all pieces: {seconds}.",
    ]


def write_csv(rows: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Writes all columns, numbers with all their digits, atomically."""
    with atomic_writer(path) as file:
        file.write(rows.to_csv(index=False, lineterminator="\n").encode())


def write_parquet(rows: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Writes all columns as the sweep's own files have them, atomically."""
    with atomic_writer(path) as file:
        pq.write_table(pa.Table.from_pandas(rows, schema=SCHEMA, preserve_index=False), file)


def draw_sweep(rows: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Refined against blueprint exploitability, a panel for every game, cut and number of iterations."""
    from matplotlib.figure import Figure

    panels = list(_panels(rows))
    width, height = FIGURE_SIZE
    figure = Figure(figsize=(width + 1.4, height * len(panels)), layout="constrained")
    for number, (title, part) in enumerate(panels):
        resolution = float((part["game_value_high"] - part["game_value_low"]).max()) / 2
        ax = figure.add_subplot(len(panels), 1, number + 1)
        exploitability_scatter(part, ax, title=title, resolution=resolution)
    save_picture(figure, pathlib.Path(path))


def _panels(rows: pd.DataFrame) -> Generator[tuple[str, pd.DataFrame]]:
    """The rows that may be compared, with a title; those of linear programs whatever their iterations."""
    exact = (rows["algorithm"] == "lp").all()
    for key, part in rows.groupby(list(_PANEL[:2] if exact else _PANEL), sort=False):
        game, cut, *iterations = key
        steps = "".join(f", {count} iterations" for count in iterations)
        yield f"{game}, cut {cut}{steps}", part
