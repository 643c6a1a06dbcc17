"""Sweep → pages: one of its rows, and those of the subgames that a click on a row leads to."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from jaxgadget.explorer.document import MAX_BYTES, PageTooLargeError, RowLink
from jaxgadget.explorer.page import Page, make_page, report
from jaxgadget.explorer.sources import RefinedLanes, Source, has_subgames
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.policy.policy import Policy
from jaxgadget.sweeping.again import SolvedPiece, solve_again
from jaxgadget.sweeping.store import TIMES
from jaxgadget.sweeping.sweep import read_sweep
from jaxgadget.util.files import make_folder

if TYPE_CHECKING:
    from jaxgadget.sweeping.grid import SweepGrid

INDEX = "index.html"
"""Name of the page with the rows."""

HIDDEN = ("piece", "piece_rows", *TIMES)
"""Columns of rows that pages omit."""

NAME_LENGTH = 60
"""Maximum number of characters of a page's name that describe its content."""

SPARE = 0.95
"""Share of a page that is filled, by an estimate of the number of results that fit."""


def report_of_sweep(folder: str | os.PathLike[str], rows: pd.DataFrame | None = None) -> Page:
    """A page of the rows in a sweep's folder, read from it by default."""
    return _report(folder, read_sweep(folder) if rows is None else rows, [])


def explore_sweep(
    folder: str | os.PathLike[str],
    pages: str | os.PathLike[str],
    grid: SweepGrid | None = None,
    *,
    max_bytes: int = MAX_BYTES,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    progress: bool | None = None,
) -> pathlib.Path:
    """Writes a folder of pages: the rows of a sweep, and for each the strategies and subgames behind it.

    A sweep stores rows, but no strategies, so its finished pieces are solved again, which takes as long as
    the first time. `index.html` has the rows; there is a page for each game, cut, player, knowledge and
    number of iterations, or several if one would be too large. Pages refer to each other by relative links,
    so that the folder can be moved.

    Args:
      folder: folder of the sweep.
      pages: folder to write; created if missing.
      grid: the grid of the sweep; required if a game, gadget, prior or generation is an object of your own,
        which a name in the folder does not describe.
      max_bytes: maximum size of a page.
      max_histories: maximum number of histories of a game, as in `enumerate_game`; with a grid its own.
      progress: as in `Solver`.

    Returns:
      The path of `index.html`.

    Raises:
      ValueError: if the folder holds no sweep, a damaged one, or one of another grid; if a game's rules or
        files have changed; or if the grid is required.

    Warns:
      UserWarning: if strategies have other exploitabilities than the rows, as from another version or device.
    """
    out = pathlib.Path(pages)
    make_folder(out)
    if os.path.realpath(pages) == os.path.realpath(folder):
        raise ValueError(f"pages={os.fspath(pages)!r} is the folder of the sweep; choose another one")
    again = solve_again(folder, grid, max_histories=max_histories, progress=progress)
    links: dict[tuple[str, int], RowLink] = {}
    taken: set[str] = {INDEX}
    difference = 0.0
    for _, pieces in itertools.groupby(again, _content):
        solved = list(pieces)
        difference = max(difference, *map(_difference, solved))
        source, keys = _find_source(solved), _row_keys(solved)
        for page, part, rows in _make_pages(source, max_bytes):
            name = _file_name(page.document.header["title"], taken)
            page.save(out / name)
            for row, lane in zip(rows, part.rows, strict=True):
                links[keys[row]] = RowLink(name, lane, part.base[lane])
    rows = read_sweep(folder)
    row_of_piece = rows.groupby("piece").cumcount() % rows["piece_rows"]
    places = [links.get(key) for key in zip(rows["piece"], row_of_piece, strict=True)]
    _report(folder, rows, places).save(out / INDEX)
    if difference > 0:
        warnings.warn(
            f"the strategies in {os.fspath(pages)!r} have other exploitabilities than the rows, by up to "
            f"{difference:.2g}: the sweep was computed by another version or device",
            stacklevel=2,
        )
    return out / INDEX


def _report(folder: str | os.PathLike[str], rows: pd.DataFrame, links: Sequence[RowLink | None]) -> Page:
    title = f"Sweep in {pathlib.Path(folder).name}"
    return report(rows.drop(columns=list(HIDDEN)), title=title, links=links)


def _content(solved: SolvedPiece) -> tuple[str, str, int, int, int]:
    """Values that all pieces on a page share."""
    piece = solved.piece
    return piece.game, piece.cut, piece.player, piece.iterations, piece.knowledge


def _row_keys(solved: Sequence[SolvedPiece]) -> list[tuple[str, int]]:
    """The piece of each row, and the row's number in it."""
    return [(each.piece.key, row) for each in solved for row in range(len(each.rows))]


def _difference(solved: SolvedPiece) -> float:
    """Largest difference of the exploitabilities of strategies and of stored rows."""
    name = "refined_exploitability"
    return float(np.nanmax(np.abs(solved.rows[name] - solved.stored[name]), initial=0.0))


def _find_source(solved: Sequence[SolvedPiece]) -> Source:
    """The results of pieces of one game, cut and player, after their blueprints."""
    piece, blueprints = solved[0].piece, solved[0].blueprints
    first, base, refined = blueprints.num_lanes, list[int](), list[RefinedLanes]()
    for each in solved:
        lanes = each.piece.blueprints[0] + each.refinement.lanes.blueprint
        begin = first + len(base)
        base += lanes.tolist()
        if has_subgames(each.refinement):
            refined.append(RefinedLanes(each.refinement, tuple(range(begin, first + len(base)))))
    lanes = tuple(range(first, first + len(base)))
    order = solved[0].rows["order"].iloc[0]
    words = [f"{piece.game}: {piece.cut}", f"player {piece.player}"]
    words += [f"order {order:g}"] if not np.isnan(order) else []
    words += [f"{piece.iterations} iterations"] if piece.iterations else []
    rows = pd.concat([each.rows for each in solved], ignore_index=True)
    source = Source(
        title=", ".join(words),
        policy=Policy.stack([blueprints, *(each.refinement.policy for each in solved)]),
        groups=("blueprint",) * first + ("refined",) * len(base),
        base=(-1,) * first + tuple(base),
        message="Solved again from a sweep",
        table=rows.drop(columns=list(HIDDEN)),
        rows=lanes,
        refined=tuple(refined),
    )
    return source.take(lanes)


def _make_pages(source: Source, max_bytes: int) -> Iterator[tuple[Page, Source, Sequence[int]]]:
    """Pages of a source, as few as fit: each with the part of the source, and its rows in the source."""
    left: Sequence[int] = range(len(source.rows))
    count, number = len(left), 1
    while left:
        chosen = left[:count]
        part = source.take([source.rows[row] for row in chosen])
        title = source.title if count == len(source.rows) else f"{source.title}, part {number}"
        try:
            page = make_page([part], title=title, max_bytes=max_bytes, fit=count == 1)
        except PageTooLargeError as error:
            if count == 1:
                raise
            count = max(1, min(count - 1, int(SPARE * error.share * count)))
            continue
        yield page, part, chosen
        left, number = left[count:], number + 1


def _file_name(title: str, taken: set[str]) -> str:
    """A name of letters, digits, dots and hyphens for a page, which is added to those taken."""
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", title)[:NAME_LENGTH].strip("-") or "page"
    numbered = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    name = next(name for name in (f"{each}.html" for each in numbered) if name.casefold() not in taken)
    taken.add(name.casefold())
    return name
