"""Cuts by name: rules that mark the first histories of subgames."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from jaxgadget.games.game import SIMULTANEOUS, CutRule, CutView
from jaxgadget.util.arguments import read_whole_number
from jaxgadget.util.arrays import BoolArray


class HasCuts(Protocol):
    """A game with named cuts; see `Game`."""

    @property
    def name(self) -> str:
        """Name of the game."""
        ...

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts."""
        ...


def cut_rule(game: HasCuts, spec: str) -> CutRule:
    """The rule of a cut.

    Args:
      game: the game.
      spec: `depth:D`, `chance` or one of the game's named cuts; see `jaxgadget.cut`.

    Raises:
      ValueError: if the spec is unknown.
    """
    depth = read_whole_number(spec.removeprefix("depth:")) if spec.startswith("depth:") else None
    named = game.cuts()
    if depth is not None and depth >= 0:
        return functools.partial(_after_moves, depth=depth)
    if spec == "chance" and spec not in named:
        return _after_chance
    if spec not in named:
        raise ValueError(
            f"cut={spec!r} is unknown for {game.name}; expected 'depth:D' with a whole number D >= 0, "
            f"'chance', or {name_cuts(game)}"
        )
    return named[spec]


def name_cuts(game: HasCuts) -> str:
    """The game's named cuts, for errors."""
    names = ", ".join(repr(name) for name in game.cuts())
    none = "in Python, a predicate (the game has no named cuts)"
    return f"one of the game's cuts ({names})" if names else none


def _after_moves(tree: CutView, depth: int) -> BoolArray:
    """Player decisions after `depth` moves of the players."""
    return _player_acts(tree) & (tree.num_moves == depth)


def _after_chance(tree: CutView) -> BoolArray:
    """Player decisions right after a chance outcome that follows a move of a player."""
    return (tree.action[2] >= 0) & (tree.num_moves > 0) & _player_acts(tree)


def _player_acts(tree: CutView) -> BoolArray:
    return np.asarray((tree.actor & SIMULTANEOUS) > 0, np.bool_)
