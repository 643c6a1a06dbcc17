# pyright: reportIncompatibleVariableOverride=false
# Arrays of a `HandTreeplex` are created on demand: those of Liar's Dice with two dice have 16 million rows.
"""Treeplexes and payoffs on the host, in NumPy.

A treeplex holds one player's decisions: infosets in levels, each below a sequence of the level above; the
roots are above the first level. Infosets are sorted by (level, number of actions descending), a level's
sequences by (slot, infoset): the first actions of all infosets, then the second actions, and so on. A sum
over actions is therefore a sum of slices, without padding or index lookups, for any numbers of actions.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxgadget.games.game import dense_ids
from jaxgadget.games.hands import PublicEnds
from jaxgadget.util.arrays import FloatArray, IntArray

Rounding = Callable[[int], int]


def exact_size(size: int) -> int:
    """Returns the size unchanged: no padding."""
    return size


def doubled_size(size: int) -> int:
    """Rounds up to a power of two, which gives very few distinct shapes."""
    return 1 << max(size - 1, 0).bit_length() if size else 0


def rounded_size(size: int) -> int:
    """Rounds up to three significant bits (…, 8, 10, 12, 14, 16, 20, …), which gives few distinct shapes."""
    step = 1 << max(size.bit_length() - 3, 0)
    return -(-size // step) * step


class Run(NamedTuple):
    """`num_infosets` adjacent infosets of a level, including padding, with `num_actions` each."""

    num_infosets: int
    num_actions: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HostTreeplex:
    """One player's decisions below its roots, on the host.

    Sequences are sorted by level (roots first), slot, infoset.
    The shape (`num_roots`, `levels`) is static; everything else is data.

    Attributes:
      num_roots: number of roots, including padding.
      levels: the runs of every level, widest first.
      parent: `[I]` sequence above each infoset; 0 for padding.
      infoset: `[I]` id of the infoset in the source, -1 for padding; other negative ids are decisions that
        the source does not have.
      num_actions: `[I]` number of actions of each infoset.
      first_sequence: `[I]` the sequence of each infoset's first action; `sequence` computes the others.
    """

    num_roots: int
    levels: tuple[tuple[Run, ...], ...]
    parent: IntArray
    infoset: IntArray
    num_actions: IntArray
    first_sequence: IntArray

    @property
    def hands(self) -> int:
        """Number of adjacent roots, infosets and sequences that differ only in the player's hand."""
        return 1

    @property
    def one_hand(self) -> HostTreeplex:
        """The decisions with a single hand: each block of `hands` roots, infosets or sequences is one."""
        return self

    @property
    def num_infosets(self) -> int:
        """Number of infosets, including padding."""
        return len(self.parent)

    @property
    def num_sequences(self) -> int:
        """Number of roots and actions, including padding."""
        return self.num_roots + int(self.num_actions.sum())

    @functools.cached_property
    def sequence_infoset(self) -> IntArray:
        """`[num_sequences - num_roots]` position of the infoset of each action."""
        infosets_by_slot = [np.zeros(0, np.int64)]
        begin = 0
        for runs in self.levels:
            infosets_by_slot += [begin + np.arange(count) for count in slot_counts(runs)]
            begin += level_infosets(runs)
        return np.concatenate(infosets_by_slot)

    @functools.cached_property
    def sequence_slot(self) -> IntArray:
        """`[num_sequences - num_roots]` slot of each action: its index in its infoset."""
        counts = [slot_counts(runs) for runs in self.levels]
        slots = [np.arange(len(level)) for level in counts]
        return np.repeat(
            np.concatenate([np.zeros(0, np.int64), *slots]), [n for level in counts for n in level]
        )

    def sequence(self, infoset: IntArray, slot: IntArray) -> IntArray:
        """The sequence of each infoset's action `slot`, elementwise; every infoset must have that slot."""
        level, before = self._slots
        return self.first_sequence[infoset] + before[level[infoset], slot]

    def rows(self, infoset: int) -> IntArray:
        """Positions of an infoset's actions in arrays over actions."""
        slots = np.arange(self.num_actions[infoset])
        return self.sequence(np.full(len(slots), infoset), slots) - self.num_roots

    @functools.cached_property
    def _slots(self) -> tuple[IntArray, IntArray]:
        """`[I]` the level of each infoset, and the offset of each slot from its first sequence."""
        counts = [slot_counts(runs) for runs in self.levels]
        before = np.zeros((len(counts), 1 + max(map(len, counts), default=0)), np.int64)
        for level, sizes in enumerate(counts):
            before[level, 1 : len(sizes) + 1] = np.cumsum(sizes)
        return np.repeat(np.arange(len(counts)), [level_infosets(runs) for runs in self.levels]), before

    def level_slices(self) -> list[tuple[slice, slice]]:
        """Slices of the infosets and of the sequences of every level, top-down."""
        slices: list[tuple[slice, slice]] = []
        infoset, sequence = 0, self.num_roots
        for runs in self.levels:
            infosets, actions = level_infosets(runs), sum(slot_counts(runs))
            slices.append((slice(infoset, infoset + infosets), slice(sequence, sequence + actions)))
            infoset, sequence = infoset + infosets, sequence + actions
        return slices

    def root_of(self) -> IntArray:
        """`[num_sequences]` the root above each sequence."""
        root = np.arange(self.num_sequences)
        for _, actions in self.level_slices():
            infoset = self.sequence_infoset[actions.start - self.num_roots : actions.stop - self.num_roots]
            root[actions] = root[self.parent[infoset]]
        return root

    def realise(self, top: FloatArray, rows: FloatArray) -> FloatArray:
        """`[num_sequences, L]` realisation plan: probability of the player's own actions up to each sequence.

        Args:
          top: `[R, L]` reach of the first R roots; all other roots, such as padding, have reach 0.
          rows: `[num_sequences - num_roots, L]` probabilities of the actions.
        """
        plan = np.zeros((self.num_sequences, rows.shape[1]))
        plan[: len(top)] = top
        for _, actions in self.level_slices():
            own = slice(actions.start - self.num_roots, actions.stop - self.num_roots)
            plan[actions] = plan[self.parent[self.sequence_infoset[own]]] * rows[own]
        return plan


class HandTreeplex(HostTreeplex):
    """One player's decisions with every hand: adjacent rows of a block differ only in the hand.

    Arrays over all hands are created on first use; solving a whole game only needs `one_hand`.
    """

    def __init__(
        self, one_hand: HostTreeplex, hands: int, infoset_at: Callable[[IntArray], IntArray] | None = None
    ):
        """Repeats decisions for every hand.

        Args:
          one_hand: the decisions with a single hand; its infosets are decisions at public nodes.
          hands: number of hands, H.
          infoset_at: function of decisions `[m]` that returns the tree's infoset `[m, H]` with each hand, -1
            if the hand is impossible; only `infoset` needs it.
        """
        levels = tuple(
            tuple(Run(hands * run.num_infosets, run.num_actions) for run in runs) for runs in one_hand.levels
        )
        self.__dict__.update(
            num_roots=hands * one_hand.num_roots,
            levels=levels,
            _one_hand=one_hand,
            _hands=hands,
            _infoset_at=infoset_at,
        )

    @property
    def hands(self) -> int:
        """Number of adjacent roots, infosets and sequences that differ only in the player's hand."""
        return self.__dict__["_hands"]

    @property
    def one_hand(self) -> HostTreeplex:
        """The decisions with a single hand: each block of `hands` roots, infosets or sequences is one."""
        return self.__dict__["_one_hand"]

    @property
    def num_infosets(self) -> int:
        """Number of infosets, including padding."""
        return self.hands * self.one_hand.num_infosets

    @property
    def num_sequences(self) -> int:
        """Number of roots and actions, including padding."""
        return self.hands * self.one_hand.num_sequences

    @functools.cached_property
    def parent(self) -> IntArray:
        """`[I]` sequence above each infoset; 0 for padding."""
        return self._blocks(self.one_hand.parent)

    @functools.cached_property
    def infoset(self) -> IntArray:
        """`[I]` id of the infoset in the source, -1 for impossible hands and padding."""
        return self.__dict__["_infoset_at"](self.one_hand.infoset).ravel()

    @functools.cached_property
    def num_actions(self) -> IntArray:
        """`[I]` number of actions of each infoset."""
        return np.repeat(self.one_hand.num_actions, self.hands)

    @functools.cached_property
    def first_sequence(self) -> IntArray:
        """`[I]` the sequence of each infoset's first action; `sequence` computes the others."""
        return self._blocks(self.one_hand.first_sequence)

    def _blocks(self, x: IntArray) -> IntArray:
        """Indices of all members of the given blocks, `[n]` → `[n × hands]`."""
        return (self.hands * x[:, None] + np.arange(self.hands)).ravel()


def slots_in_groups(group: IntArray, num_groups: int) -> tuple[IntArray, IntArray]:
    """`[n]` rank of each member in its group, and `[num_groups]` sizes of the groups."""
    size = np.bincount(group, minlength=num_groups)
    order = np.argsort(group, kind="stable")
    slot = np.empty(len(group), np.int64)
    slot[order] = np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)
    return slot, size


def level_infosets(runs: tuple[Run, ...]) -> int:
    """Number of infosets of a level, including padding."""
    return sum(run.num_infosets for run in runs)


def slot_counts(runs: tuple[Run, ...]) -> tuple[int, ...]:
    """Numbers of infosets of a level with a first action, a second one, …; always its first infosets."""
    widest = max((run.num_actions for run in runs), default=0)
    return tuple(sum(run.num_infosets for run in runs if run.num_actions > slot) for slot in range(widest))


def build_treeplex(
    *,
    num_roots: int,
    depth: IntArray,
    num_actions: IntArray,
    parent_infoset: IntArray,
    parent_slot: IntArray,
    infoset: IntArray,
    rounding: Rounding = exact_size,
) -> tuple[HostTreeplex, IntArray]:
    """Arranges infosets in levels and runs.

    Args:
      num_roots: number of roots, without padding.
      depth: `[m]` level of each infoset; 0 is below the roots.
      num_actions: `[m]` number of actions of each infoset.
      parent_infoset: `[m]` row of the infoset above each, -1 if it is below a root.
      parent_slot: `[m]` slot of the action in that infoset, or index of the root.
      infoset: `[m]` the caller's id of each infoset.
      rounding: rounding of run sizes and of the number of roots.

    Returns:
      The treeplex, and `[m]` the position in it of every given infoset.
    """
    padded_roots = rounding(num_roots)
    parent, position = parent_slot.astype(np.int64), np.zeros(len(depth), np.int64)
    first_sequence: list[IntArray] = [np.zeros(0, np.int64)]
    next_infoset, next_sequence = 0, padded_roots
    levels: list[tuple[Run, ...]] = []
    before = np.zeros(1, np.int64)  # number of sequences of the level above before each slot
    for level in range(int(depth.max(initial=-1)) + 1):
        rows = np.nonzero(depth == level)[0]
        inside = rows[parent_infoset[rows] >= 0]
        first = np.concatenate(first_sequence)[position[parent_infoset[inside]]]
        parent[inside] = first + before[parent_slot[inside]]
        rows = rows[np.lexsort((parent[rows], -num_actions[rows]))]
        runs, infosets_before = _lay_out_level(num_actions[rows], rounding)
        position[rows] = next_infoset + infosets_before
        first_sequence.append(next_sequence + np.arange(level_infosets(runs)))
        before = np.concatenate([[0], np.cumsum(slot_counts(runs))])
        next_infoset += level_infosets(runs)
        next_sequence += int(before[-1])
        levels.append(runs)
    every_run = [run for runs in levels for run in runs]
    widths = np.repeat(
        np.array([run.num_actions for run in every_run], np.int64),
        [run.num_infosets for run in every_run],
    )
    padded_parent, padded_infoset = np.zeros(next_infoset, np.int64), np.full(next_infoset, -1, np.int64)
    padded_parent[position], padded_infoset[position] = parent, infoset
    treeplex = HostTreeplex(
        num_roots=padded_roots,
        levels=tuple(levels),
        parent=padded_parent,
        infoset=padded_infoset,
        num_actions=widths,
        first_sequence=np.concatenate(first_sequence),
    )
    return treeplex, position


def _lay_out_level(widths: IntArray, rounding: Rounding) -> tuple[tuple[Run, ...], IntArray]:
    """Arranges the infosets of a level in runs.

    Args:
      widths: `[k]` numbers of actions of the level's infosets, descending.
      rounding: rounding of sizes.

    Returns:
      The runs, and `[k]` the position of each infoset in the level, including padding.
    """
    narrowness, starts = np.unique(-widths, return_index=True)
    counts = np.diff(starts, append=len(widths))
    sizes = np.array([rounding(count) for count in counts.tolist()], np.int64)
    run = np.repeat(np.arange(len(narrowness)), counts)
    nth = np.arange(len(widths)) - starts[run]
    runs = tuple(map(Run, sizes.tolist(), (-narrowness).tolist()))
    return runs, (np.cumsum(sizes) - sizes)[run] + nth


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Entries:
    """A sparse matrix over pairs of sequences (or of roots), sorted by row, without duplicates.

    Attributes:
      row: `[m]` sequence of player 0.
      column: `[m]` sequence of player 1.
      value: `[m]` chance probability × player 0's payoff (or the probability alone).
      shape: number of rows and columns.
    """

    row: IntArray
    column: IntArray
    value: FloatArray
    shape: tuple[int, int]

    @property
    def num_entries(self) -> int:
        """Number of entries, m."""
        return len(self.row)

    def swapped(self) -> Entries:
        """The same payoff with the players exchanged: rows and columns swapped, values negated."""
        num_rows, num_columns = self.shape
        return Entries(row=self.column, column=self.row, value=-self.value, shape=(num_columns, num_rows))


def merge_entries(row: IntArray, column: IntArray, value: FloatArray, shape: tuple[int, int]) -> Entries:
    """Sums entries of the same pair and drops exact zeros."""
    key = row.astype(np.int64) * shape[1] + column
    pair, count = dense_ids(key)
    total = np.asarray(np.bincount(pair, value, minlength=count), np.float64)
    keys = np.empty(count, np.int64)
    keys[pair] = key
    nonzero = total != 0
    keys = keys[nonzero]
    return Entries(row=keys // shape[1], column=keys % shape[1], value=total[nonzero], shape=shape)


def merge_oriented(
    player: int, own: IntArray, other: IntArray, value: FloatArray, shape: tuple[int, int]
) -> Entries:
    """`merge_entries` for a player's own sequences, the other player's, and the number of each."""
    if player == 0:
        return merge_entries(own, other, value, shape)
    return merge_entries(other, own, value, (shape[1], shape[0]))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HandEntries:
    """A matrix over pairs of sequences in hand form: one bilinear form at each public node, without entries.

    Rows of either player form blocks of hands. With `rows`, each row of a block is mapped to a sequence;
    without it, the blocks one after the other are the player's sequences.

    Attributes:
      ends: groups of public nodes and their tables over pairs of hands.
      block: for each player `[n]` the block at each public node; only nodes of `ends` are used.
      num_blocks: number of blocks of each player.
      hands: numbers of hands, H_0 and H_1.
      rows: for each player `[blocks × H]` the sequence of each row, -1 for none; None if row k is sequence k.
      num_rows: number of sequences of each player.
      zero_sum: as in `HandsGame`.
    """

    ends: tuple[PublicEnds, ...]
    block: tuple[IntArray, IntArray]
    num_blocks: tuple[int, int]
    hands: tuple[int, int]
    rows: tuple[IntArray | None, IntArray | None] = (None, None)

    num_rows: tuple[int, int]
    zero_sum: bool = True

    @property
    def num_entries(self) -> int:
        """Number of reaches that one product with the matrix reads: both players' hands at all ends."""
        return sum(self.hands) * sum(group.node.size for group in self.ends)
