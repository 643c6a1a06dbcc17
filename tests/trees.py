"""Trees of games, enumerated once for all tests."""

from __future__ import annotations

import functools

from jaxgadget import HistoryTree, enumerate_game, load


@functools.cache
def tree_of(name: str) -> HistoryTree:
    """The histories of a game."""
    return enumerate_game(load(name))


def kuhn() -> HistoryTree:
    """The histories of Kuhn poker."""
    return tree_of("kuhn_poker")
