"""Covers: sets of root histories of subgames, which may overlap.

A cut is the cover without repeated roots. Other covers are limited orders of knowledge (Zhang and Sandholm
2021): their subgames are smaller than the components of a cut and share infostates.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import dense_ids, first_positions
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.tree import Tree
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Cover:
    """Subgames as pairs (subgame, root history), P of them; a root history may be in several subgames.

    A subgame has all decisions of a player below its root infostates, including those reachable only from
    root histories outside of the subgame: the omitted histories may contribute constants to the payoff.

    Attributes:
      cut: all root histories; its own subgames are ignored.
      roots: `[P]` the root history of each pair, ascending.
      subgame: `[P]` its subgame, from 0 without gaps.
    """

    cut: Cut
    roots: IntArray
    subgame: IntArray

    def __repr__(self) -> str:
        contents = f"{self.num_subgames} subgame(s) with {len(self.roots)} root histories"
        return f"<Cover of the cut {self.cut.name} of {self.tree.game.name}: {contents}>"

    @property
    def tree(self) -> Tree:
        """The game, in history or hand form."""
        return self.cut.tree

    @property
    def histories(self) -> HistoryTree:
        """The tree; raises ValueError if it is in hand form."""
        return self.cut.histories

    @property
    def is_cut(self) -> bool:
        """True if the cover was made from its cut; False for an equal cover made otherwise."""
        return self.roots is self.cut.roots

    @property
    def num_subgames(self) -> int:
        """Number of subgames, S."""
        return int(self.subgame.max()) + 1

    def take(self, subgames: IntArray) -> Cover:
        """The cover with only the given subgames, in this order."""
        new_subgame = np.full(self.num_subgames, -1)
        new_subgame[subgames] = np.arange(len(subgames))
        selected = new_subgame[self.subgame] >= 0
        return Cover(cut=self.cut, roots=self.roots[selected], subgame=new_subgame[self.subgame[selected]])

    def as_cut(self) -> Cut | None:
        """The subgames as a cut, if each has all root histories of its infostates; None otherwise."""
        if not all(self.is_complete(player).all() for player in (0, 1)):
            return None
        root = np.where(np.isin(self.cut.root, self.roots), self.cut.root, -1)
        whole = None if len(self.roots) == len(self.cut.roots) else self.cut.whole
        return dataclasses.replace(self.cut, roots=self.roots, subgame=self.subgame, root=root, part_of=whole)

    def is_complete(self, player: int) -> BoolArray:
        """`[P]` True where a pair's subgame has all root histories of its infostate, and is the only one."""
        state, count = dense_ids(self.tree.infostate[player, self.cut.roots])
        state_of_pair = state[np.searchsorted(self.cut.roots, self.roots)]
        _, root_idx = find_roots(self, player)
        in_subgame = np.bincount(root_idx)[root_idx]
        in_cover, in_cut = (
            np.bincount(each, minlength=count)[state_of_pair] for each in (state_of_pair, state)
        )
        return (in_subgame == in_cover) & (in_subgame == in_cut)


def cover_of(cut: Cut) -> Cover:
    """The cover with the subgames of a cut."""
    return Cover(cut=cut, roots=cut.roots, subgame=cut.subgame)


def build_cover(cut: Cut, roots: npt.NDArray[Any], subgame: npt.NDArray[Any]) -> Cover:
    """Builds a cover from user-defined subgames.

    Args:
      cut: all root histories.
      roots: `[P]` the root history of each pair, in any order.
      subgame: `[P]` its subgame.

    Raises:
      ValueError: if shapes differ, a root is not in the cut, a subgame has no root, or a pair is duplicate.
    """
    if len(roots) == 0 or {np.shape(roots), np.shape(subgame)} != {(len(roots),)}:
        raise ValueError(
            f"cover: roots {np.shape(roots)}, subgame {np.shape(subgame)}; expected arrays of equal length "
            ">= 1, an entry for each pair of a subgame and a root history"
        )
    strange = np.setdiff1d(roots, cut.roots)
    if len(strange):
        raise ValueError(
            f"cover: history {int(strange[0])} is not a root of the cut {cut.name!r} of "
            f"{cut.tree.game.name}; expected elements of cut.roots"
        )
    numbers = np.unique(subgame)
    if not np.array_equal(numbers, np.arange(len(numbers))):
        raise ValueError(f"cover: subgames {numbers.tolist()}; expected 0, 1, … without gaps")
    order = np.lexsort((subgame, roots))
    pairs = roots[order].astype(np.int64), subgame[order].astype(np.int64)
    again = (np.diff(pairs[0]) == 0) & (np.diff(pairs[1]) == 0)
    if again.any():
        root, subgame_idx = (int(part[np.argmax(again)]) for part in pairs)
        raise ValueError(
            f"cover: root {root} is duplicate in subgame {subgame_idx}; expected every pair once"
        )
    return Cover(cut=cut, roots=pairs[0], subgame=pairs[1])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Roots:
    """One player's R root infostates without padding, sorted by infostate, then subgame.

    Attributes:
      infostate: `[R]` id in the tree.
      subgame: `[R]` its subgame; an infostate in several subgames has a root for each.
      sequence: `[R]` the tree's sequence that leads to it.
      possible: `[R]` False for hands that are impossible at a public root; None if all roots are possible.
    """

    infostate: IntArray
    subgame: IntArray
    sequence: IntArray
    possible: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.infostate)

    @functools.cached_property
    def row(self) -> IntArray:
        """`[R]` row of each root in users' arrays, -1 for impossible hands."""
        if self.possible is None:
            return np.arange(len(self))
        return np.where(self.possible, np.cumsum(self.possible) - 1, -1)

    @property
    def num_rows(self) -> int:
        """Number of rows of users' arrays."""
        return int(self.row.max(initial=-1)) + 1

    def reach(self, plan: FloatArray) -> FloatArray:
        """`[R, L]` reach of the roots in realisation plans `[sequences of the tree, L]`, 0 if impossible."""
        reach = plan[self.sequence]
        return reach if self.possible is None else np.where(self.possible[:, None], reach, 0.0)

    def copy(self) -> IntArray:
        """`[R]` number of preceding roots of the same infostate."""
        return np.arange(len(self)) - np.searchsorted(self.infostate, self.infostate)


def find_roots(cover: Cover, player: int) -> tuple[Roots, IntArray]:
    """A player's root infostates, with one hand, and `[P]` the index of each pair's root."""
    tree = cover.tree
    infostate = tree.infostate[player, cover.roots]
    root_idx, count = dense_ids(infostate)
    if not cover.is_cut:  # in a cut every infostate is in one subgame
        root_idx, count = dense_ids(root_idx * cover.num_subgames + cover.subgame)
    pair = first_positions(root_idx, count)
    sequence = tree.sequence[player, cover.roots[pair]].astype(np.int64)
    return Roots(infostate=infostate[pair], subgame=cover.subgame[pair], sequence=sequence), root_idx


def roots_by_hand(tree: Tree, player: int, roots: Roots) -> Roots:
    """A player's root infostates with every hand; ids are `infostate × H + hand`."""
    hands, possible = tree.num_hands[player], tree.possible(player, roots.infostate).ravel()
    return Roots(
        infostate=(roots.infostate[:, None] * hands + np.arange(hands)).ravel(),
        subgame=np.repeat(roots.subgame, hands),
        sequence=np.maximum(tree.sequences_by_hand(player, roots.sequence), 0).ravel(),
        possible=None if possible.all() else possible,
    )
