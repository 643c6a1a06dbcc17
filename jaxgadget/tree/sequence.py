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

from jaxgadget.games.game import dense_ids
from jaxgadget.tree.cover import Cover, Roots, cover_of, find_roots
from jaxgadget.tree.cut import Cut, whole_cut
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

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
class HostTreeplex:
    """One player's decisions below its roots, on the host.

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
        """`[num_sequences, L]` a realisation plan: how likely the player's own choices lead to each sequence.

        Args:
          top: `[R, L]` reach of the roots; those that follow, such as padding, have 0.
          rows: `[num_sequences - num_roots, L]` probabilities of the actions.
        """
        plan = np.zeros((self.num_sequences, rows.shape[1]))
        plan[: len(top)] = top
        for _, actions in self.level_slices():
            own = slice(actions.start - self.num_roots, actions.stop - self.num_roots)
            plan[actions] = plan[self.parent[self.sequence_infoset[own]]] * rows[own]
        return plan


def slots_in_groups(group: IntArray, num_groups: int) -> tuple[IntArray, IntArray]:
    """`[n]` which member of its group each one is, in order, and `[num_groups]` how many there are."""
    size = np.bincount(group, minlength=num_groups)
    order = np.argsort(group, kind="stable")
    slot = np.empty(len(group), np.int64)
    slot[order] = np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)
    return slot, size


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
) -> tuple[HostTreeplex, IntArray]:
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
    treeplex: tuple[HostTreeplex, HostTreeplex]

    def action_sequences(self, player: int) -> IntArray:
        """`[num_sequences - num_roots]` the tree's sequence of every action, -1 for padding.

        Choices at a limit number on after the tree's sequences: K for the first leaf infostate, K for the
        next one, ….
        """
        treeplex, infosets = self.treeplex[player], self.tree.infosets[player]
        infoset = treeplex.infoset
        in_tree = np.append(infosets.first_sequence, 0)[np.maximum(infoset, -1)]
        at_limit = infosets.num_sequences + (-2 - infoset) * treeplex.num_actions
        first = np.where(infoset >= 0, in_tree, at_limit)
        owner = treeplex.sequence_infoset
        return np.where(infoset[owner] == -1, -1, first[owner] + treeplex.sequence_slot)

    def from_tree(self, player: int) -> IntArray:
        """`[tree's sequences]` the treeplex's sequence of each action of the tree, -1 where it has none."""
        sequence = np.arange(self.tree.infosets[player].num_sequences)
        return self.below_roots(player, np.zeros(1, np.int64), np.full(len(sequence), -1), sequence)

    def below_roots(self, player: int, copy: IntArray, root: IntArray, sequence: IntArray) -> IntArray:
        """The treeplex's sequences below some roots, elementwise; the root itself where it has none.

        Args:
          player: whose.
          copy: `[R]` see `Layout.copy`.
          root: `[m]` numbers of roots.
          sequence: `[m]` the player's last sequence in the tree, or its choice at a limit.
        """
        treeplex, source = self.treeplex[player], self.action_sequences(player)
        actions = np.nonzero(source >= 0)[0]
        source = source[actions]
        count = np.bincount(source, minlength=int(sequence.max(initial=0)) + 1)  # of copies
        first = np.cumsum(count) - count
        by_copy = np.zeros(len(source) + 1, np.int64)  # the last one of none
        if not copy.any():  # as in a cut: `root` need not be looked at
            by_copy[first[source]] = treeplex.num_roots + actions
            below = np.where(count > 0, by_copy[first], -1)[sequence]
            return np.where(below >= 0, below, root)
        above = treeplex.root_of()[treeplex.num_roots + actions]
        by_copy[first[source] + copy[above]] = treeplex.num_roots + actions
        row = np.where(count > 0, first, -1)[sequence]
        return np.where(row >= 0, by_copy[np.where(row >= 0, row + copy[root], -1)], root)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SequenceForm(Treeplexes):
    """Two treeplexes and a payoff: all that CFR, a best response or an LP needs.

    Attributes:
      payoff: chance probability × player 0's payoff for every pair of sequences.
    """

    payoff: Entries


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Frontier:
    """Where a layout stops before the game does: at leaf histories, H of them.

    Attributes:
      cut: its roots are the leaf histories.
      roots: both players' leaf infostates.
      number: for both players `[H]` which of them each leaf is in.
      num_choices: K, strategies that each player chooses from there; 0 if nobody chooses.
    """

    cut: Cut
    roots: tuple[Roots, Roots]
    number: tuple[IntArray, IntArray]
    num_choices: int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ExtraRoots:
    """A player's decisions below some histories once more, under roots of their own.

    So a second copy of the player may come there by a way of its own, and play on as it likes. The other
    player cannot tell the copies apart: it has the same decisions against both.

    Attributes:
      player: whose decisions.
      cut: its roots are these histories, below the cover's, E of them.
      roots: the player's infostates there; in a treeplex they come after all other roots.
      number: `[E]` which of them each history is at.
    """

    player: int
    cut: Cut
    roots: Roots
    number: IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Which part of a tree a sequence form has: from a cover's roots to the end of the game or a frontier.

    Attributes:
      cover: the subgames.
      roots: both players' root infostates.
      number: for both players `[P]`, which of them each of the cover's pairs is at.
      frontier: where it ends; None for the end of the game.
      extra: where a player's decisions are there once more; the cover is then a cut.
    """

    cover: Cover
    roots: tuple[Roots, Roots]
    number: tuple[IntArray, IntArray]
    frontier: Frontier | None
    extra: ExtraRoots | None = None

    @staticmethod
    def of(cover: Cover, frontier: Frontier | None = None, extra: ExtraRoots | None = None) -> Layout:
        """The layout of a cover."""
        (first, row), (second, column) = (find_roots(cover, player) for player in (0, 1))
        return Layout(
            cover=cover, roots=(first, second), number=(row, column), frontier=frontier, extra=extra
        )

    def extra_of(self, player: int) -> ExtraRoots | None:
        """A player's extra roots, if they are its own."""
        return self.extra if self.extra is not None and self.extra.player == player else None

    def copy(self, player: int) -> IntArray:
        """`[R]` how many roots of a player have the same decisions below them and stand before each root."""
        usual, extra = self.roots[player].copy(), self.extra_of(player)
        return usual if extra is None else np.append(usual, np.ones(len(extra.roots), np.int64))

    def below_extra(self, histories: IntArray) -> IntArray:
        """Numbers of those of some histories that lie at or below the extra roots' histories."""
        if self.extra is None:
            return np.zeros(0, np.int64)
        return np.nonzero(self.extra.cut.root[histories] >= 0)[0]

    def extra_root(self, histories: IntArray) -> IntArray:
        """`[m]` which root of a treeplex is the extra one above some histories, each of which has one."""
        extra = self.extra
        assert extra is not None
        above = np.searchsorted(extra.cut.roots, extra.cut.root[histories])
        return len(self.roots[extra.player]) + extra.number[above]

    def inside(self, histories: IntArray) -> BoolArray:
        """`[m]` which histories lie at or below a root of the cut, and before the frontier."""
        inside = self.cover.cut.root[histories] >= 0
        if self.frontier is not None:
            inside &= self.frontier.cut.root[histories] < 0
        return inside

    @functools.cached_property
    def _number_of_root(self) -> IntArray:
        """`[n]`, indexed by root history: which of the cut's roots it is."""
        number = np.zeros(self.cover.tree.num_histories, np.int64)
        number[self.cover.cut.roots] = np.arange(len(self.cover.cut.roots))
        return number

    def pairs_above(self, histories: IntArray) -> tuple[IntArray | slice, IntArray]:
        """The cover's pairs at or above some histories, each of which lies below the cut.

        Returns:
          Which of the histories, `[m]`, each as often as it is in a subgame; and `[m]` the pair.
        """
        cut = self.cover.cut
        root = self._number_of_root[cut.root[histories]]
        if self.cover.is_cut:
            return slice(None), root
        return spread_runs(*find_runs(self.cover.roots, cut.roots), root)

    def roots_above(self, player: int, histories: IntArray) -> tuple[IntArray | slice, IntArray]:
        """A player's roots of the infostate at the cut above some histories, likewise.

        Returns:
          Which of the histories, `[m]`, and `[m]` the number of a root: that of every subgame that has the
          infostate, be the history below one of the subgame's own root histories or not.
        """
        if self.cover.is_cut:
            which, pair = self.pairs_above(histories)
            return which, self.number[player][pair]
        tree, cut = self.cover.tree, self.cover.cut
        states = tree.infostate[player, cut.roots]
        root = self._number_of_root[cut.root[histories]]
        return spread_runs(*find_runs(self.roots[player].infostate, states), root)


def find_runs(numbers: IntArray, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """`[m]` where the first of each wanted one stands among ascending numbers, and `[m]` how many do."""
    first = np.searchsorted(numbers, wanted)
    return first, np.searchsorted(numbers, wanted, "right") - first


def spread_runs(first: IntArray, count: IntArray, group: IntArray) -> tuple[IntArray, IntArray]:
    """Members of groups, one below the other: which of `group[m]`, and its `first`, `first + 1`, …."""
    first, count = first[group], count[group]
    which = np.repeat(np.arange(len(group)), count)
    return which, np.arange(len(which)) + (first - (np.cumsum(count) - count))[which]


def whole_treeplexes(tree: HistoryTree) -> Treeplexes:
    """The whole game's decisions, not truncated; each player has one root, the empty sequence. Built once."""
    check_whole(tree)
    if "treeplexes" not in tree.cache:
        tree.cache["treeplexes"] = build_treeplexes(Layout.of(cover_of(whole_cut(tree))), exact_size)
    return tree.cache["treeplexes"]


def sequence_form(tree: HistoryTree) -> SequenceForm:
    """The whole game's decisions and payoff, likewise."""
    form = whole_treeplexes(tree)
    if "sequence form" not in tree.cache:
        tree.cache["sequence form"] = with_terminals(form, Layout.of(cover_of(whole_cut(tree))))
    return tree.cache["sequence form"]


def build_treeplexes(layout: Layout, rounding: Rounding) -> Treeplexes:
    """Both players' decisions in some part of a tree."""
    first, second = (_build_decisions(layout, player, rounding) for player in (0, 1))
    return Treeplexes(tree=layout.cover.tree, treeplex=(first, second))


def _build_decisions(layout: Layout, player: int, rounding: Rounding) -> HostTreeplex:
    """One player's infosets, then its choices at the frontier; each once for each root of its infostate."""
    tree, roots, extra = layout.cover.tree, layout.roots[player], layout.extra_of(player)
    infosets = tree.infosets[player]
    kept = np.nonzero(layout.inside(infosets.history))[0]
    history, parent, num_actions = infosets.history[kept], infosets.parent[kept], infosets.num_actions[kept]
    name = kept
    if layout.frontier is not None and layout.frontier.num_choices > 0:
        leaf_states, leaf = layout.frontier.roots[player], layout.frontier.number[player]
        example = np.empty(len(leaf_states), np.int64)
        example[leaf] = layout.frontier.cut.roots
        history = np.concatenate([history, example])
        parent = np.concatenate([parent, leaf_states.sequence])
        num_actions = np.append(num_actions, np.full(len(example), layout.frontier.num_choices))
        name = np.append(name, -2 - np.arange(len(example)))
    before = np.append(infosets.depth + 1, 0)[infosets.infoset]  # own decisions up to each sequence
    slot = np.arange(infosets.num_sequences)
    slot[1:] -= infosets.first_sequence[infosets.infoset[1:]]
    which, root = layout.roots_above(player, history)
    leads_to = roots.sequence
    if extra is not None:
        again = layout.below_extra(history)
        which = np.concatenate([np.arange(len(history))[which], again])
        root = np.concatenate([root, layout.extra_root(history[again])])
        leads_to = np.concatenate([leads_to, extra.roots.sequence])
    parent, copy = parent[which], layout.copy(player)[root]
    depth = before[parent] - before[leads_to[root]]
    row_of = np.zeros((len(infosets) + 1, int(copy.max(initial=0)) + 1), np.int64)  # of an infoset's copies
    infoset = name[which]
    own = np.nonzero(infoset >= 0)[0]
    row_of[infoset[own], copy[own]] = own
    treeplex, _ = build_treeplex(
        num_roots=len(leads_to),
        depth=depth,
        num_actions=num_actions[which],
        parent_infoset=np.where(depth > 0, row_of[infosets.infoset[parent], copy], -1),
        parent_slot=np.where(depth > 0, slot[parent], root),
        infoset=infoset,
        rounding=rounding,
    )
    return treeplex


def with_terminals(form: Treeplexes, layout: Layout) -> SequenceForm:
    """The payoff of the terminals there; one in several subgames counts in each of them."""
    tree = layout.cover.tree
    terminals = tree.terminals[layout.inside(tree.terminals)]
    which, pair = layout.pairs_above(terminals)
    terminals = terminals[which]
    again = layout.below_extra(terminals)  # once more, for the second copy of a player
    rows: list[IntArray] = []
    for player in (0, 1):
        root, sequence = layout.number[player][pair], tree.sequence[player, terminals]
        below = form.below_roots(player, layout.copy(player), root, sequence)
        copied = below[again]
        if layout.extra_of(player) is not None:
            copied = below_extra(form, layout, player, terminals[again], sequence[again])
        rows.append(np.concatenate([below, copied]))
    terminals = np.concatenate([terminals, terminals[again]])
    payoff = merge_entries(
        rows[0],
        rows[1],
        tree.chance[terminals] * tree.payoff[terminals],
        (form.treeplex[0].num_sequences, form.treeplex[1].num_sequences),
    )
    return SequenceForm(tree=tree, treeplex=form.treeplex, payoff=payoff)


def below_extra(
    form: Treeplexes, layout: Layout, player: int, histories: IntArray, sequence: IntArray
) -> IntArray:
    """`[m]` the sequences of a player's second copy; the root itself where it has not acted since.

    Args:
      form: the treeplexes.
      layout: with extra roots of this player.
      player: whose.
      histories: `[m]` below the extra roots' histories.
      sequence: `[m]` the player's last sequence in the tree, or its choice at a limit.
    """
    extra = layout.extra
    assert extra is not None
    root = layout.extra_root(histories)
    at_root = sequence == extra.roots.sequence[root - len(layout.roots[player])]
    return np.where(at_root, root, form.below_roots(player, layout.copy(player), root, sequence))
