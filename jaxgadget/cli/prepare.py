"""What every command that computes does first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jaxgadget.report.output import working

if TYPE_CHECKING:
    from jaxgadget.games.game import Game
    from jaxgadget.tree.history import HistoryTree


def keep_programs() -> None:
    """Switches on JAX's compilation cache, and so imports JAX: not before there is something to compute."""
    from jaxgadget.util.compilation import enable_compilation_cache

    enable_compilation_cache()


def enumerate_named(game: str, max_histories: int, *, computes: bool = True) -> tuple[HistoryTree, float]:
    """The histories of the game that was named, and the seconds that enumerating took.

    Args:
      game: its name.
      max_histories: stop with an error beyond that many.
      computes: whether JAX has something to compute afterwards.
    """
    if computes:
        keep_programs()
    from jaxgadget.games.registry import load
    from jaxgadget.tree.history import enumerate_game

    began = time.perf_counter()
    with working(f"enumerating {game}"):
        tree = enumerate_game(load(game), max_histories=max_histories)
    return tree, time.perf_counter() - began


def first_cut(game: Game) -> str:
    """The cut of a game if none is asked for: the first that it names, else after a move of the players."""
    return next(iter(game.cuts()), "depth:1")
