"""HistoryTree + cut → Forest: all subgames below a cut, side by side in one sequence form.

The subgames share nothing, so one pair of treeplexes holds them all; its roots are the
infostates at the cut. Only level sizes are rounded up, so that two forests of nearly the
same shape reuse one compiled program.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.games.game import IntArray, dense_ids
from jaxgadget.tree.cut import Cut, CutSpec, cut
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.tree.sequence import (
    Entries,
    Rounding,
    SequenceForm,
    build_sequence_form,
    exact_size,
    merge_entries,
    rounded_size,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Roots:
    """One player's root infostates, padding not included; `R` of them.

    Attributes:
      infostate: `[R]` id in the tree.
      subgame: `[R]` the subgame that it is in.
      sequence: `[R]` the tree's sequence that leads to it; its reach is the player's.
    """

    infostate: IntArray
    subgame: IntArray
    sequence: IntArray

    def __len__(self) -> int:
        return len(self.infostate)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Forest:
    """The subgames below one cut.

    Attributes:
      cut: the root histories and their subgames.
      form: sequence form; roots of `form.treeplex[p]` are player p's root infostates.
      roots: both players' root infostates.
      chance: chance's reach of every pair of root infostates (summed over root histories).
      padded: whether sizes were rounded up.
    """

    cut: Cut
    form: SequenceForm
    roots: tuple[Roots, Roots]
    chance: Entries
    padded: bool

    def __repr__(self) -> str:
        return f"<Forest below {self.cut!r}: {len(self.roots[0])} + {len(self.roots[1])} root infostates>"

    @property
    def tree(self) -> HistoryTree:
        """The game's histories."""
        return self.cut.tree

    @property
    def num_subgames(self) -> int:
        """Subgames below the cut."""
        return self.cut.num_subgames

    def infosets(self, player: int) -> IntArray:
        """The tree's infosets of a player that lie in the forest, ascending."""
        infoset = self.form.treeplex[player].infoset
        return np.sort(infoset[infoset >= 0])

    def infoset_subgame(self, player: int) -> IntArray:
        """`[num_infosets]` of the tree: the subgame that each infoset lies in, -1 above the cut."""
        root = self.cut.root[self.tree.infosets[player].history]
        place = np.searchsorted(self.cut.roots, np.maximum(root, 0))
        return np.where(root >= 0, self.cut.subgame[np.minimum(place, len(self.cut.roots) - 1)], -1)


def find_roots(where: Cut, player: int) -> tuple[Roots, IntArray]:
    """A player's root infostates, and `[n]`, indexed by root history, the number of its root."""
    tree = where.tree
    number, count = dense_ids(tree.infostate[player, where.roots])
    index = np.zeros(tree.num_histories, np.int64)
    index[where.roots] = number
    first, subgame = np.empty(count, np.int64), np.empty(count, np.int64)
    first[number[::-1]] = where.roots[::-1]
    subgame[number] = where.subgame
    sequence = tree.sequence[player, first].astype(np.int64)
    return Roots(infostate=tree.infostate[player, first], subgame=subgame, sequence=sequence), index


def build_forest(tree: HistoryTree, spec: CutSpec, *, padded: bool = True) -> Forest:
    """Lays all subgames below a cut side by side.

    Args:
      tree: the game's histories.
      spec: the cut, see `jaxgadget.cut`.
      padded: round level sizes up, so that forests of nearly equal shape share a program.

    Raises:
      ValueError: if the tree is truncated, or as `cut` does.
    """
    check_whole(tree)
    where = cut(tree, spec)
    rounding: Rounding = rounded_size if padded else exact_size
    roots: list[Roots] = []
    root_index: list[IntArray] = []
    for player in (0, 1):
        mine, index = find_roots(where, player)
        roots.append(mine)
        root_index.append(index)
    counts = (len(roots[0]), len(roots[1]))
    form = build_sequence_form(tree, where.root, (root_index[0], root_index[1]), counts, rounding)
    chance = merge_entries(
        root_index[0][where.roots],
        root_index[1][where.roots],
        tree.chance[where.roots],
        (form.treeplex[0].num_roots, form.treeplex[1].num_roots),
    )
    return Forest(cut=where, form=form, roots=(roots[0], roots[1]), chance=chance, padded=padded)
