"""Rows of a sweep as printed tables, a JSON record, files and a picture."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Group

from jaxgadget.report.layout import table_title
from jaxgadget.report.plots import draw_panels
from jaxgadget.report.tables import order_field, summary_table
from jaxgadget.sweeping.store import SCHEMA, TIMES
from jaxgadget.util.files import atomic_writer

if TYPE_CHECKING:
    import pandas as pd

_PANEL = ("game", "cut", "iterations")


def sweep_record(folder: str | os.PathLike[str], rows: pd.DataFrame) -> dict[str, Any]:
    """Record of `jaxgadget sweep --json`; undefined numbers and missing seeds are null."""
    table = rows.astype(object).where(rows.notna(), None)
    table["order"] = rows["order"].map(order_field).astype(object)
    return {"folder": os.fspath(folder), "rows": table.to_dict("records")}


def sweep_tables(rows: pd.DataFrame) -> Group:
    """One summary per game, cut, number of iterations and player."""
    tables: list[Any] = []
    for title, part in _panels(rows):
        for player, player_rows in part.groupby("player"):
            table = summary_table(player_rows)
            table.title = table_title(f"{title}, player {player}\n{table.title}")
            tables.append(table)
    return Group(*tables)


def sweep_notes(folder: str | os.PathLike[str], rows: pd.DataFrame) -> list[str]:
    """The number of results, the accuracy of the numbers, and their meaning."""
    pieces = rows.drop_duplicates("piece")
    seconds = ", ".join(f"{name.removesuffix('_seconds')} {pieces[name].sum():.2f}" for name in TIMES)
    width = float((rows["game_value_high"] - rows["game_value_low"]).max())
    return [
        f"{len(rows)} results in {len(pieces)} pieces, stored in {os.fspath(folder)}.",
        "Exploitability is v* − value against a best response (the papers' script E), in the player's "
        f"payoff, accurate to {width / 2:.2g}. OpenSpiel's is another number: half of NashConv.",
        f"Seconds of all pieces: {seconds}.",
    ]


def write_csv(rows: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Writes all columns atomically, numbers with all digits."""
    with atomic_writer(path) as file:
        file.write(rows.to_csv(index=False, lineterminator="\n").encode())


def write_parquet(rows: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Writes all columns atomically, with the types of the sweep's own files."""
    with atomic_writer(path) as file:
        pq.write_table(pa.Table.from_pandas(rows, schema=SCHEMA, preserve_index=False), file)


def draw_sweep(rows: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Draws refined against blueprint exploitability, one panel per game, cut, iterations and player."""
    tables: list[tuple[str | None, pd.DataFrame, float]] = []
    for title, panel in _panels(rows):
        width = float((panel["game_value_high"] - panel["game_value_low"]).max())
        tables.append((title, panel, width / 2))
    draw_panels(tables, path)


def _panels(rows: pd.DataFrame) -> Generator[tuple[str, pd.DataFrame]]:
    """Comparable rows with a title; rows of linear programs are comparable for all numbers of iterations."""
    exact = (rows["algorithm"] == "lp").all()
    for key, part in rows.groupby(list(_PANEL[:2] if exact else _PANEL), sort=False):
        game, cut, *iterations = key
        steps = "".join(f", {count} iterations" for count in iterations)
        yield f"{game}, cut {cut}{steps}", part
