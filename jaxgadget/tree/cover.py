"""Covers: which root histories each subgame has, where subgames may overlap.

A cut is the cover in which no root repeats. Others are what a player may know of the opponent's knowledge
(Zhang and Sandholm 2021): their subgames are smaller than the components of a cut, and share infostates.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import dense_ids
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import BoolArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Cover:
    """Subgames as pairs (subgame, root history), P of them; a root history may be in several subgames.

    A root infostate is in a subgame with all that its player may decide below it, also where only root
    histories outside of the subgame lead: what is left out there may still earn something by itself.

    Attributes:
      cut: all root histories; its own subgames do not matter.
      roots: `[P]` the root history of each pair, ascending.
      subgame: `[P]` its subgame; numbers 0, 1, … without a gap.
      solved: for both players `[P]` whether the player's decisions below its infostate there are solved
        for; others are kept as they are.
    """

    cut: Cut
    roots: IntArray
    subgame: IntArray
    solved: tuple[BoolArray, BoolArray]

    def __repr__(self) -> str:
        what = f"{self.num_subgames} subgame(s) with {len(self.roots)} root histories"
        return f"<Cover of the cut {self.cut.name} of {self.tree.game.name}: {what}>"

    @property
    def tree(self) -> HistoryTree:
        """The game's histories."""
        return self.cut.tree

    @property
    def is_cut(self) -> bool:
        """Whether it is known to have the subgames of its cut; a cover that says the same may not know."""
        return self.roots is self.cut.roots

    @property
    def num_subgames(self) -> int:
        """S."""
        return int(self.subgame.max()) + 1

    def take(self, subgames: IntArray) -> Cover:
        """The cover of some subgames alone, in the order given."""
        number = np.full(self.num_subgames, -1)
        number[subgames] = np.arange(len(subgames))
        kept = number[self.subgame] >= 0
        return Cover(
            cut=self.cut,
            roots=self.roots[kept],
            subgame=number[self.subgame[kept]],
            solved=(self.solved[0][kept], self.solved[1][kept]),
        )


def cover_of(cut: Cut) -> Cover:
    """The cover that has the subgames of a cut, all of them solved for."""
    everything = np.ones(len(cut.roots), np.bool_)
    return Cover(cut=cut, roots=cut.roots, subgame=cut.subgame, solved=(everything, everything))


def build_cover(
    cut: Cut,
    roots: npt.NDArray[Any],
    subgame: npt.NDArray[Any],
    solved: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None,
) -> Cover:
    """Subgames of one's own.

    Args:
      cut: all root histories.
      roots: `[P]` the root history of each pair, in any order.
      subgame: `[P]` its subgame.
      solved: for both players `[P]`, see `Cover`; by default everything is solved for.

    Raises:
      ValueError: if shapes differ, a root is none of the cut's, a subgame has none, a pair occurs twice, or
        decisions below one infostate of a subgame are both solved for and not.
    """
    masks = (np.ones(len(roots), np.bool_),) * 2 if solved is None else solved
    if len(roots) == 0 or {np.shape(part) for part in (roots, subgame, *masks)} != {(len(roots),)}:
        raise ValueError(
            f"cover: roots {np.shape(roots)}, subgame {np.shape(subgame)}, solved "
            f"{[np.shape(mask) for mask in masks]}; expected arrays of one length >= 1, a number for each "
            "pair of a subgame and a root history"
        )
    strange = np.setdiff1d(roots, cut.roots)
    if len(strange):
        raise ValueError(
            f"cover: history {int(strange[0])} is no root of the cut {cut.name!r} of {cut.tree.game.name}; "
            "expected some of cut.roots"
        )
    numbers = np.unique(subgame)
    if not np.array_equal(numbers, np.arange(len(numbers))):
        raise ValueError(f"cover: subgames {numbers.tolist()}; expected numbers 0, 1, … without a gap")
    order = np.lexsort((subgame, roots))
    pairs = roots[order].astype(np.int64), subgame[order].astype(np.int64)
    again = (np.diff(pairs[0]) == 0) & (np.diff(pairs[1]) == 0)
    if again.any():
        root, number = (int(part[np.argmax(again)]) for part in pairs)
        raise ValueError(f"cover: root {root} is twice in subgame {number}; expected every pair once")
    first, second = (np.asarray(mask, np.bool_)[order] for mask in masks)
    cover = Cover(cut=cut, roots=pairs[0], subgame=pairs[1], solved=(first, second))
    for player in (0, 1):
        _check_solved(cover, player)
    return cover


def _check_solved(cover: Cover, player: int) -> None:
    """ValueError if some decisions below an infostate of a subgame are solved for, others not."""
    _, number = find_roots(cover, player)
    mask = np.empty(len(number), np.bool_)
    mask[number] = cover.solved[player]
    differs = mask[number] != cover.solved[player]
    if differs.any():
        pair = int(np.argmax(differs))
        raise ValueError(
            f"cover: root {cover.tree.moves(int(cover.roots[pair]))} of subgame {int(cover.subgame[pair])} "
            f"shares its infostate of player {player} with another one there, and only one of them is solved "
            "for; expected all or none"
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Roots:
    """One player's root infostates, padding not included; `R` of them, sorted by infostate, then subgame.

    Attributes:
      infostate: `[R]` id in the tree.
      subgame: `[R]` the subgame that it is in; an infostate may be in several, a root for each.
      sequence: `[R]` the tree's sequence that leads to it; its reach is the player's.
    """

    infostate: IntArray
    subgame: IntArray
    sequence: IntArray

    def __len__(self) -> int:
        return len(self.infostate)

    def copy(self) -> IntArray:
        """`[R]` how many roots of the same infostate stand before each root."""
        return np.arange(len(self)) - np.searchsorted(self.infostate, self.infostate)


def find_roots(cover: Cover, player: int) -> tuple[Roots, IntArray]:
    """A player's root infostates, and `[P]` which of them each pair is at."""
    tree = cover.tree
    infostate = tree.infostate[player, cover.roots]
    number, count = dense_ids(infostate)
    if not cover.is_cut:  # a cut has every infostate in one subgame
        number, count = dense_ids(number * cover.num_subgames + cover.subgame)
    pair = np.empty(count, np.int64)
    pair[number[::-1]] = np.arange(len(number))[::-1]  # the first one stays
    sequence = tree.sequence[player, cover.roots[pair]].astype(np.int64)
    return Roots(infostate=infostate[pair], subgame=cover.subgame[pair], sequence=sequence), number
