"""HistoryTree → SequenceForm: two treeplexes and a payoff, for the whole game or below a cut.

A treeplex is one player's decisions: infosets in levels, each below a sequence of the
level above; the level above the first holds the roots. Infosets are sorted by (level,
number of actions, most first), and a level's sequences by (slot, infoset): the first
actions of all its infosets, then the second ones of those that have two, and so on. So a
sum over actions is a sum of slices however many different numbers of actions there are,
and nothing is padded or searched.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jaxgadget.games.game import FloatArray, IntArray, dense_ids
from jaxgadget.tree.history import HistoryTree, check_whole

Rounding = Callable[[int], int]


def exact_size(size: int) -> int:
    """No padding."""
    return size


def rounded_size(size: int) -> int:
    """The next number of three significant bits (…, 8, 10, 12, 14, 16, 20, …): few distinct shapes."""
    step = 1 << max(size.bit_length() - 3, 0)
    return -(-size // step) * step


class Run(NamedTuple):
    """`num_infosets` neighbouring infosets of a level, padding included, with `num_actions` each."""

    num_infosets: int
    num_actions: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Treeplex:
    """One player's decisions below its roots.

    Sequences are numbered roots first, then level by level, slot by slot, infoset by infoset.
    The shape (`num_roots`, `levels`) is static; everything else is data.

    Attributes:
      num_roots: sequences at the top, padding included.
      levels: the runs of every level, widest first.
      parent: `[I]` sequence above each infoset; 0 for padding.
      infoset: `[I]` which infoset of the source this is, -1 for padding; other negative numbers are
        decisions that the source does not have.
      num_actions: `[I]` actions of each infoset.
      first_sequence: `[I]` the sequence of its first action; see `sequence` for the others.
    """

    num_roots: int
    levels: tuple[tuple[Run, ...], ...]
    parent: IntArray
    infoset: IntArray
    num_actions: IntArray
    first_sequence: IntArray

    @property
    def num_infosets(self) -> int:
        """Infosets, padding included."""
        return len(self.parent)

    @property
    def num_sequences(self) -> int:
        """Roots and actions, padding included."""
        return self.num_roots + int(self.num_actions.sum())

    @functools.cached_property
    def sequence_infoset(self) -> IntArray:
        """`[num_sequences - num_roots]` position of the infoset of each action."""
        parts = [np.zeros(0, np.int64)]
        begin = 0
        for runs in self.levels:
            parts += [begin + np.arange(count) for count in slot_counts(runs)]
            begin += level_infosets(runs)
        return np.concatenate(parts)

    @functools.cached_property
    def sequence_slot(self) -> IntArray:
        """`[num_sequences - num_roots]` which action of its infoset each one is, from 0."""
        counts = [slot_counts(runs) for runs in self.levels]
        slots = [np.arange(len(level)) for level in counts]
        return np.repeat(
            np.concatenate([np.zeros(0, np.int64), *slots]), [n for level in counts for n in level]
        )

    def sequence(self, infoset: IntArray, slot: IntArray) -> IntArray:
        """The sequence of an infoset's action number `slot`, elementwise; slots must exist."""
        level, before = self._slots
        return self.first_sequence[infoset] + before[level[infoset], slot]

    def rows(self, infoset: int) -> IntArray:
        """Where an infoset's actions are in arrays over actions."""
        slots = np.arange(self.num_actions[infoset])
        return self.sequence(np.full(len(slots), infoset), slots) - self.num_roots

    @functools.cached_property
    def _slots(self) -> tuple[IntArray, IntArray]:
        """`[I]` the level of each infoset, and how far from its first sequence each slot is."""
        counts = [slot_counts(runs) for runs in self.levels]
        before = np.zeros((len(counts), 1 + max(map(len, counts), default=0)), np.int64)
        for level, sizes in enumerate(counts):
            before[level, 1 : len(sizes) + 1] = np.cumsum(sizes)
        return np.repeat(np.arange(len(counts)), [level_infosets(runs) for runs in self.levels]), before

    def level_slices(self) -> list[tuple[slice, slice]]:
        """The infosets and the sequences of every level, top-down."""
        found: list[tuple[slice, slice]] = []
        infoset, sequence = 0, self.num_roots
        for runs in self.levels:
            infosets, actions = level_infosets(runs), sum(slot_counts(runs))
            found.append((slice(infoset, infoset + infosets), slice(sequence, sequence + actions)))
            infoset, sequence = infoset + infosets, sequence + actions
        return found

    def root_of(self) -> IntArray:
        """`[num_sequences]` the root above each sequence."""
        root = np.arange(self.num_sequences)
        for _, actions in self.level_slices():
            infoset = self.sequence_infoset[actions.start - self.num_roots : actions.stop - self.num_roots]
            root[actions] = root[self.parent[infoset]]
        return root


def level_infosets(runs: tuple[Run, ...]) -> int:
    """Infosets of a level, padding included."""
    return sum(run.num_infosets for run in runs)


def slot_counts(runs: tuple[Run, ...]) -> tuple[int, ...]:
    """How many infosets of a level have a first action, a second one, …; its first so many."""
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
) -> tuple[Treeplex, IntArray]:
    """Lays infosets out in levels and runs.

    Args:
      num_roots: roots, padding not included.
      depth: `[m]` level of each infoset; 0 is below the roots.
      num_actions: `[m]` its number of actions.
      parent_infoset: `[m]` row of the infoset above, -1 if below a root.
      parent_slot: `[m]` which action of that infoset, or which root.
      infoset: `[m]` the caller's name of each infoset.
      rounding: how run sizes and the number of roots are rounded up.

    Returns:
      The treeplex, and `[m]` the position in it of every given infoset.
    """
    padded_roots = rounding(num_roots)
    parent, position = parent_slot.astype(np.int64), np.zeros(len(depth), np.int64)
    first_sequence: list[IntArray] = [np.zeros(0, np.int64)]
    next_infoset, next_sequence = 0, padded_roots
    levels: list[tuple[Run, ...]] = []
    before = np.zeros(1, np.int64)  # sequences of the level above before each slot of its infosets
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
    treeplex = Treeplex(
        num_roots=padded_roots,
        levels=tuple(levels),
        parent=padded_parent,
        infoset=padded_infoset,
        num_actions=widths,
        first_sequence=np.concatenate(first_sequence),
    )
    return treeplex, position


def _lay_out_level(widths: IntArray, rounding: Rounding) -> tuple[tuple[Run, ...], IntArray]:
    """The runs of a level.

    Args:
      widths: `[k]` actions of the level's infosets, descending.
      rounding: how sizes are rounded up.

    Returns:
      The runs, and `[k]` how many infosets of the level, padding included, lie before each.
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
    """A sparse matrix over pairs of sequences (or of roots), sorted by row, no pair twice.

    Attributes:
      row: `[m]` sequence of player 0.
      column: `[m]` sequence of player 1.
      value: `[m]` chance probability × player 0's payoff (or just the probability).
      shape: number of rows and columns.
    """

    row: IntArray
    column: IntArray
    value: FloatArray
    shape: tuple[int, int]


def merge_entries(row: IntArray, column: IntArray, value: FloatArray, shape: tuple[int, int]) -> Entries:
    """Sums entries of the same pair; entries that are exactly zero are left out."""
    key = row.astype(np.int64) * shape[1] + column
    pair, count = dense_ids(key)
    total = np.asarray(np.bincount(pair, value, minlength=count), np.float64)
    keys = np.empty(count, np.int64)
    keys[pair] = key
    kept = total != 0
    keys = keys[kept]
    return Entries(row=keys // shape[1], column=keys % shape[1], value=total[kept], shape=shape)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Treeplexes:
    """Both players' decisions.

    Attributes:
      tree: where they came from; `treeplex[p].infoset` names the tree's infosets.
      treeplex: player 0's and player 1's decisions.
    """

    tree: HistoryTree
    treeplex: tuple[Treeplex, Treeplex]

    def action_sequences(self, player: int) -> IntArray:
        """`[num_sequences - num_roots]` the tree's sequence of every action, -1 for padding."""
        treeplex = self.treeplex[player]
        infosets = self.tree.infosets[player]
        real = treeplex.infoset >= 0
        first = np.where(real, infosets.first_sequence[treeplex.infoset], 0)
        infoset = treeplex.sequence_infoset
        return np.where(real[infoset], first[infoset] + treeplex.sequence_slot, -1)

    def from_tree(self, player: int) -> IntArray:
        """`[tree's sequences]` the treeplex's sequence of each action of the tree, -1 where it has none."""
        found = np.full(self.tree.infosets[player].num_sequences, -1, np.int64)
        sequence = self.action_sequences(player)
        found[sequence[sequence >= 0]] = self.treeplex[player].num_roots + np.nonzero(sequence >= 0)[0]
        return found


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SequenceForm(Treeplexes):
    """Two treeplexes and a payoff: all that CFR, a best response or an LP needs.

    Attributes:
      payoff: chance probability × player 0's payoff for every pair of sequences.
    """

    payoff: Entries


def whole_treeplexes(tree: HistoryTree) -> Treeplexes:
    """The whole game's decisions, not truncated; each player has one root, the empty sequence. Built once."""
    check_whole(tree)
    if "treeplexes" not in tree.cache:
        top = np.broadcast_to(np.int64(0), tree.num_histories)
        tree.cache["treeplexes"] = build_treeplexes(tree, top, (top, top), (1, 1), exact_size)
    return tree.cache["treeplexes"]


def sequence_form(tree: HistoryTree) -> SequenceForm:
    """The whole game's decisions and payoff, likewise."""
    form = whole_treeplexes(tree)
    if "sequence form" not in tree.cache:
        top = np.broadcast_to(np.int64(0), tree.num_histories)
        tree.cache["sequence form"] = _with_payoff(form, top, (top, top))
    return tree.cache["sequence form"]


def build_sequence_form(
    tree: HistoryTree,
    root: IntArray,
    root_index: tuple[IntArray, IntArray],
    num_roots: tuple[int, int],
    rounding: Rounding,
) -> SequenceForm:
    """The sequence form below some root histories.

    Args:
      tree: all histories.
      root: `[n]` the root history at or above each history, -1 if there is none.
      root_index: for both players `[n]`, indexed by root history, the number of its root.
      num_roots: of both players.
      rounding: how sizes are rounded up.
    """
    return _with_payoff(build_treeplexes(tree, root, root_index, num_roots, rounding), root, root_index)


def build_treeplexes(
    tree: HistoryTree,
    root: IntArray,
    root_index: tuple[IntArray, IntArray],
    num_roots: tuple[int, int],
    rounding: Rounding,
) -> Treeplexes:
    """Both players' decisions below some root histories; see `build_sequence_form`."""
    treeplexes: list[Treeplex] = []
    for player in (0, 1):
        infosets = tree.infosets[player]
        rows = np.nonzero(root[infosets.history] >= 0)[0]
        row_of = np.full(len(infosets) + 1, -1, np.int64)  # the last one is infoset -1, above all
        row_of[rows] = np.arange(len(rows))
        slot = np.arange(infosets.num_sequences)
        slot[1:] -= infosets.first_sequence[infosets.infoset[1:]]
        parent = infosets.parent[rows]
        parent_infoset = row_of[infosets.infoset[parent]]
        under_root = root_index[player][root[infosets.history[rows]]]
        treeplex, _ = build_treeplex(
            num_roots=num_roots[player],
            depth=depth_below(infosets.depth[rows], parent_infoset),
            num_actions=infosets.num_actions[rows],
            parent_infoset=parent_infoset,
            parent_slot=np.where(parent_infoset >= 0, slot[parent], under_root),
            infoset=rows,
            rounding=rounding,
        )
        treeplexes.append(treeplex)
    return Treeplexes(tree=tree, treeplex=(treeplexes[0], treeplexes[1]))


def _with_payoff(form: Treeplexes, root: IntArray, root_index: tuple[IntArray, IntArray]) -> SequenceForm:
    tree = form.tree
    below = tree.terminals[root[tree.terminals] >= 0]
    columns: list[IntArray] = []
    for player in (0, 1):
        column = form.from_tree(player)[tree.sequence[player, below]]
        columns.append(np.where(column >= 0, column, root_index[player][root[below]]))
    payoff = merge_entries(
        columns[0],
        columns[1],
        tree.chance[below] * tree.payoff[below],
        (form.treeplex[0].num_sequences, form.treeplex[1].num_sequences),
    )
    return SequenceForm(tree=tree, treeplex=form.treeplex, payoff=payoff)


def depth_below(depth: IntArray, parent_row: IntArray) -> IntArray:
    """Number of the player's decisions between a root and each infoset; rows are sorted by depth."""
    below = np.zeros(len(depth), np.int64)
    for level in np.unique(depth).tolist():
        rows = np.nonzero(depth == level)[0]
        above = parent_row[rows]
        below[rows] = np.where(above >= 0, below[above] + 1, 0)
    return below
