"""Output of results to the terminal, standard output and files, and progress messages of commands."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Column, Table

from jaxgadget.report.names import break_lines
from jaxgadget.report.plots import check_picture
from jaxgadget.report.tables import to_json
from jaxgadget.util.files import atomic_writer, check_writable

STANDARD_OUTPUT = "-"
"""The file name that denotes standard output."""

PIPE_WIDTH = 120
"""Width in columns if the output is not a terminal."""

SHORTEST_NAME = 10
"""Minimum number of characters per line of a broken name."""

UNLIMITED = 10**4
"""A width in columns that exceeds any table."""


def check_outputs(
    files: Mapping[str, str | pathlib.Path | None], *, folder: pathlib.Path | None = None
) -> None:
    """Checks, before the work begins, that all files can be written and are different.

    Args:
      files: option → path; `--plot` must be a picture, and `-` is not a file.
      folder: folder of `--checkpoint`, which need not exist.

    Raises:
      ValueError: if a check fails; the message names the option.
    """
    seen: dict[str, str] = {}
    for option, path in files.items():
        if path is None or path == STANDARD_OUTPUT:
            continue
        other = seen.setdefault(os.path.realpath(path), option)
        if other != option:
            raise ValueError(
                f"{other} and {option} both name {os.fspath(path)!r}; choose another file for one"
            )
        check = check_picture if option == "--plot" else check_writable
        try:
            check(path)
        except ValueError as error:
            raise ValueError(f"{option}: {error}") from error
    if folder is not None:
        nearest = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
        if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
            raise ValueError(
                f"--checkpoint: cannot write into {str(folder)!r}, as {str(nearest)!r} is not a writable "
                "folder; choose another one"
            )


def write_json(path: str, record: Mapping[str, Any]) -> None:
    """Writes a record to standard output or, atomically, to a file."""
    text = to_json(record)
    if path == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    with atomic_writer(path) as file:
        file.write(text.encode())


def show(table: RenderableType, notes: Iterable[str]) -> None:
    """Prints a table and notes; empty notes are omitted."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=PIPE_WIDTH)
    Console(width=_fitted_width(table, console)).print(table)
    for note in filter(None, notes):
        for line in break_lines(note, console.width):
            console.print(line, markup=False, highlight=False, no_wrap=True, overflow="ignore", crop=False)


def _fitted_width(table: RenderableType, console: Console) -> int:
    """The width for printing a table; names in a wide table are broken into lines, numbers are not.

    If that is not enough, the padding between columns is removed; a table that is still too wide exceeds the
    console's width.
    """
    unlimited = console.options.update(max_width=UNLIMITED)
    if not isinstance(table, Table) or console.measure(table, options=unlimited).maximum <= console.width:
        return console.width
    for column in table.columns:
        if column.justify == "right":
            column.min_width = console.measure(_lines_of(column), options=unlimited).maximum
        else:
            column.no_wrap, column.overflow = False, "fold"
            column.min_width = min(
                SHORTEST_NAME, console.measure(_lines_of(column), options=unlimited).maximum
            )
    if console.measure(table, options=unlimited).minimum > console.width:
        table.padding = 0
    return max(console.width, console.measure(table, options=unlimited).minimum)


def _lines_of(column: Column) -> Group:
    """Heading and cells of a column."""
    return Group(column.header, *column.cells)


def warn(note: str) -> None:
    """Writes a note to standard error unless it is empty."""
    if note:
        print(note, file=sys.stderr)


@contextlib.contextmanager
def working(task: str) -> Generator[None]:
    """Shows a task on standard error during the block if standard error is a terminal."""
    console = Console(stderr=True)
    with console.status(f"{task} …") if console.is_terminal else contextlib.nullcontext():
        yield
