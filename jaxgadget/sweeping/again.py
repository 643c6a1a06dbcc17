"""Strategies of a finished sweep, which stores rows alone: its pieces are solved again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from jaxgadget.games.game import DEFAULT_MAX_HISTORIES
from jaxgadget.policy.identity import differences
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.refine import Refinement
from jaxgadget.sweeping.grid import SweepGrid
from jaxgadget.sweeping.pieces import Piece
from jaxgadget.sweeping.request import Request, make_request, read_request, read_solver
from jaxgadget.sweeping.setups import SetupFiles
from jaxgadget.sweeping.store import Manifest
from jaxgadget.sweeping.sweep import Workshop, open_sweep
from jaxgadget.util.compilation import drop_many_programs
from jaxgadget.util.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd


class SolvedPiece(NamedTuple):
    """A finished piece, solved again.

    Attributes:
      piece: the piece.
      blueprints: all blueprints of its game.
      refinement: the strategies, one lane for each row.
      rows: the rows of `refinement`, as `sweep` would store them.
      stored: the rows in the folder. Except times they equal `rows`, if versions and device are the same.
    """

    piece: Piece
    blueprints: Policy
    refinement: Refinement
    rows: pd.DataFrame
    stored: pd.DataFrame


def solve_again(
    folder: str | os.PathLike[str],
    grid: SweepGrid | None = None,
    *,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    progress: bool | None = None,
) -> Iterator[SolvedPiece]:
    """Solves the finished pieces of a sweep again, in order; a sweep stores rows, but no strategies.

    Args:
      folder: folder of the sweep.
      grid: the grid of the sweep; required if a game, gadget, prior or generation is a user's object, which
        a name in the folder does not describe.
      max_histories: maximum number of histories of a game, as in `enumerate_game`; with a grid its own.
      progress: as in `Solver`.

    Raises:
      ValueError: if the folder holds no sweep, a damaged one, or one of another grid; if a game's rules or
        files have changed; if the grid is required; or if a solve fails.
    """
    store, manifest = open_sweep(folder)
    request = _request_of(folder, manifest, grid, max_histories)
    finished = store.finished()
    pieces = [piece for piece in manifest.pieces if piece.key in finished]
    for name in dict.fromkeys(piece.game for piece in pieces):
        if not SetupFiles(store.games, request.game_key(name)).exist():
            raise ValueError(
                f"the sweep in {os.fspath(folder)!r} lacks the blueprints of {name}, and its files have "
                "changed or were deleted; sweep again"
            )
    workshop = Workshop(store, request, progress)
    with progress_bar("solving again", sum(piece.work for piece in pieces), progress, coarse=True) as report:
        done = 0
        for piece in pieces:
            report(done)
            refinement, rows = workshop.refine(piece)
            yield SolvedPiece(
                piece, workshop.setup(piece.game).blueprints, refinement, rows, store.collect([piece])
            )
            drop_many_programs()
            done += piece.work


def _request_of(
    folder: str | os.PathLike[str], manifest: Manifest, grid: SweepGrid | None, max_histories: int
) -> Request:
    """The request of a manifest, made from its record or from a grid that must have the same."""
    record = manifest.request
    if grid is None:
        try:
            return read_request(record, max_histories)
        except ValueError as error:
            raise ValueError(
                f"the sweep in {os.fspath(folder)!r} cannot be solved again from its folder alone: {error}; "
                "give its grid (on the command line, its --game and all other options)"
            ) from error
    request = make_request(grid, read_solver(record), record["blueprints_at_once"])
    if changed := differences(record, request.record):
        raise ValueError(
            f"grid: the sweep in {os.fspath(folder)!r} has other settings ({'; '.join(changed)})"
        )
    return request
