"""Tree → SequenceForm: two treeplexes and a payoff, for the whole game or below a cut.

Treeplexes are laid out with one hand, then repeated for every hand: all hands of a public node are adjacent,
so that its reaches and values are slices, and links between nodes move blocks. An infoset whose hand is
impossible after a public chance outcome is treated as padding: its reach and value are never used.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from jaxgadget.core.host import (
    Entries,
    HandEntries,
    HostTreeplex,
    Rounding,
    build_treeplex,
    exact_size,
)
from jaxgadget.tree.cover import Cover, Roots, cover_of, find_roots
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.infosets import Infosets
from jaxgadget.tree.tree import Tree
from jaxgadget.util.arrays import BoolArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Treeplexes:
    """Both players' decisions.

    Attributes:
      tree: the source; `treeplex[p].infoset` holds its infoset ids.
      treeplex: player 0's and player 1's decisions.
    """

    tree: Tree
    treeplex: tuple[HostTreeplex, HostTreeplex]

    @property
    def num_sequences(self) -> int:
        """Number of sequences of both players, including padding."""
        return sum(treeplex.num_sequences for treeplex in self.treeplex)

    def action_sequences(self, player: int) -> IntArray:
        """`[num_sequences - num_roots]` the tree's sequence of every action, -1 for padding.

        Ids of choices at a limit follow the tree's sequences: K for the first leaf infostate, K for the next
        one, …. Impossible hands are treated as padding.
        """
        sequences = self._named_sequences(player)
        if self._lists_hands(player):
            return sequences
        return self.tree.sequences_by_hand(player, sequences).ravel()

    def _lists_hands(self, player: int) -> bool:
        """True if the infosets of a treeplex are individual infosets of the tree, not blocks of hands."""
        return self.treeplex[player].one_hand is self.treeplex[player]

    def _infosets(self, player: int) -> Infosets:
        """The tree's infosets to which `one_hand.infoset` of a treeplex refers."""
        return (self.tree.infosets if self._lists_hands(player) else self.tree.decisions)[player]

    def _named_sequences(self, player: int) -> IntArray:
        """The sequence of `_infosets` of every action of a treeplex with one hand."""
        treeplex, infosets = self.treeplex[player].one_hand, self._infosets(player)
        infoset = treeplex.infoset
        in_tree = np.append(infosets.first_sequence, 0)[np.maximum(infoset, -1)]
        at_limit = infosets.num_sequences + (-2 - infoset) * treeplex.num_actions
        first = np.where(infoset >= 0, in_tree, at_limit)
        owner = treeplex.sequence_infoset
        return np.where(infoset[owner] == -1, -1, first[owner] + treeplex.sequence_slot)

    def from_tree(self, player: int) -> IntArray:
        """`[tree's sequences]` the treeplex's sequence of each sequence of the tree, -1 for none."""
        sequence = np.arange(self._infosets(player).num_sequences)
        return self.below_roots(player, np.zeros(1, np.int64), np.full(len(sequence), -1), sequence)

    def below_roots(self, player: int, copy: IntArray, root: IntArray, sequence: IntArray) -> IntArray:
        """The treeplex's sequences below given roots, elementwise; the root itself for sequences above it.

        If roots and infosets are blocks of hands, sequences are as well.

        Args:
          player: the player.
          copy: `[R]` as returned by `Layout.copy`.
          root: `[m]` indices of roots.
          sequence: `[m]` the player's last sequence in the tree, or its choice at a limit.
        """
        treeplex, source = self.treeplex[player].one_hand, self._named_sequences(player)
        actions = np.nonzero(source >= 0)[0]
        source = source[actions]
        count = np.bincount(source, minlength=int(sequence.max(initial=0)) + 1)  # number of copies
        first = np.cumsum(count) - count
        by_copy = np.zeros(len(source) + 1, np.int64)  # the last entry: none
        if not copy.any():  # for a cut, `root` is not needed
            by_copy[first[source]] = treeplex.num_roots + actions
            below = np.where(count > 0, by_copy[first], -1)[sequence]
            return np.where(below >= 0, below, root)
        above = treeplex.root_of()[treeplex.num_roots + actions]
        by_copy[first[source] + copy[above]] = treeplex.num_roots + actions
        row = np.where(count > 0, first, -1)[sequence]
        return np.where(row >= 0, by_copy[np.where(row >= 0, row + copy[root], -1)], root)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SequenceForm(Treeplexes):
    """Two treeplexes and a payoff: the input of CFR, best responses and linear programs.

    Attributes:
      payoff: chance probability × player 0's payoff for every pair of sequences.
    """

    payoff: Entries | HandEntries


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Frontier:
    """Depth limit of a layout at H leaf histories.

    Attributes:
      cut: its roots are the leaf histories.
      roots: both players' leaf infostates.
      root_idx: for both players `[H]` index in `roots` of each leaf's infostate.
      num_choices: K, number of continuation strategies of each player; 0 for no choices.
    """

    cut: Cut
    roots: tuple[Roots, Roots]
    root_idx: tuple[IntArray, IntArray]
    num_choices: int

    @staticmethod
    def at(cut: Cut, num_choices: int) -> Frontier:
        """The frontier at the roots of a cut."""
        (first, row), (second, column) = (find_roots(cover_of(cut), player) for player in (0, 1))
        return Frontier(cut=cut, roots=(first, second), root_idx=(row, column), num_choices=num_choices)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ExtraRoots:
    """Duplicates of a player's decisions below E histories, with separate roots.

    They belong to a second copy of the player, with its own reach of these histories and its own strategy
    below them. The other player cannot distinguish the copies: it has the same decisions against both.

    Attributes:
      player: the player with two copies.
      cut: its roots are the E histories, at or below the cover's roots.
      roots: the player's infostates there; in a treeplex they follow all other roots.
      root_idx: `[E]` index in `roots` of each history's infostate.
    """

    player: int
    cut: Cut
    roots: Roots
    root_idx: IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Extent of a sequence form: from a cover's roots to the end of the game or a frontier.

    Attributes:
      cover: the subgames.
      roots: both players' root infostates, with one hand.
      root_idx: for both players `[P]`, index in `roots` of each of the cover's pairs.
      frontier: the depth limit; None for the end of the game.
      extra: duplicated decisions of a player; the cover is then a cut.
    """

    cover: Cover
    roots: tuple[Roots, Roots]
    root_idx: tuple[IntArray, IntArray]
    frontier: Frontier | None
    extra: ExtraRoots | None = None

    @staticmethod
    def of(cover: Cover, frontier: Frontier | None = None, extra: ExtraRoots | None = None) -> Layout:
        """The layout of a cover."""
        (first, row), (second, column) = (find_roots(cover, player) for player in (0, 1))
        return Layout(
            cover=cover, roots=(first, second), root_idx=(row, column), frontier=frontier, extra=extra
        )

    def extra_of(self, player: int) -> ExtraRoots | None:
        """The extra roots if they are `player`'s, otherwise None."""
        return self.extra if self.extra is not None and self.extra.player == player else None

    def copy(self, player: int) -> IntArray:
        """`[R]` number of preceding roots of a player with the same decisions below them."""
        usual, extra = self.roots[player].copy(), self.extra_of(player)
        return usual if extra is None else np.append(usual, np.ones(len(extra.roots), np.int64))

    def below_extra(self, histories: IntArray) -> IntArray:
        """Indices of the histories that are at or below the extra roots' histories."""
        if self.extra is None:
            return np.zeros(0, np.int64)
        return np.nonzero(self.extra.cut.root[histories] >= 0)[0]

    def extra_root(self, histories: IntArray) -> IntArray:
        """`[m]` the extra root of a treeplex above each history; all histories must have one."""
        extra = self.extra
        assert extra is not None
        above = np.searchsorted(extra.cut.roots, extra.cut.root[histories])
        return len(self.roots[extra.player]) + extra.root_idx[above]

    def inside(self, histories: IntArray) -> BoolArray:
        """Mask `[m]` of the histories at or below a root of the cut and above the frontier."""
        inside = self.cover.cut.root[histories] >= 0
        if self.frontier is not None:
            inside &= self.frontier.cut.root[histories] < 0
        return inside

    @functools.cached_property
    def _number_of_root(self) -> IntArray:
        """`[n]`, indexed by root history: its index among the cut's roots."""
        index = np.zeros(len(self.cover.tree.parent), np.int64)
        index[self.cover.cut.roots] = np.arange(len(self.cover.cut.roots))
        return index

    def pairs_above(self, histories: IntArray) -> tuple[IntArray | slice, IntArray]:
        """The cover's pairs at or above the given histories, which are all below the cut.

        Returns:
          `[m]` index of the history, repeated once per subgame, and `[m]` the pair.
        """
        cut = self.cover.cut
        root = self._number_of_root[cut.root[histories]]
        if self.cover.is_cut:
            return slice(None), root
        return spread_runs(*find_runs(self.cover.roots, cut.roots), root)

    def roots_above(self, player: int, histories: IntArray) -> tuple[IntArray | slice, IntArray]:
        """A player's roots of the infostate at the cut above the given histories.

        Returns:
          `[m]` index of the history, and `[m]` the index of a root, for every subgame with the infostate,
          whether or not the history is below one of the subgame's root histories.
        """
        if self.cover.is_cut:
            history_idx, pair = self.pairs_above(histories)
            return history_idx, self.root_idx[player][pair]
        tree, cut = self.cover.tree, self.cover.cut
        states = tree.infostate[player, cut.roots]
        root = self._number_of_root[cut.root[histories]]
        return spread_runs(*find_runs(self.roots[player].infostate, states), root)


def find_runs(sorted_values: IntArray, values: IntArray) -> tuple[IntArray, IntArray]:
    """`[m]` first position of each value in a sorted array, and `[m]` its number of occurrences."""
    first = np.searchsorted(sorted_values, values)
    return first, np.searchsorted(sorted_values, values, "right") - first


def spread_runs(first: IntArray, count: IntArray, group: IntArray) -> tuple[IntArray, IntArray]:
    """Concatenates groups: ids repeated `count[m]` times, and members `first[m]`, `first[m] + 1`, …."""
    first, count = first[group], count[group]
    group_idx = np.repeat(np.arange(len(group)), count)
    return group_idx, np.arange(len(group_idx)) + (first - (np.cumsum(count) - count))[group_idx]


def build_treeplexes(layout: Layout, rounding: Rounding) -> Treeplexes:
    """Builds both players' decisions; in hand form, with a block per root, infoset and sequence."""
    tree = layout.cover.tree
    first, second = (
        tree.treeplex_by_hand(player, _build_decisions(layout, player, tree.decisions[player], rounding))
        for player in (0, 1)
    )
    return Treeplexes(tree=tree, treeplex=(first, second))


def list_hands(layout: Layout) -> Treeplexes:
    """Builds both players' decisions hand by hand; `layout` has one root, that of the game."""
    tree = layout.cover.tree
    first, second = (_build_decisions(layout, player, tree.infosets[player], exact_size) for player in (0, 1))
    return Treeplexes(tree=tree, treeplex=(first, second))


def _build_decisions(layout: Layout, player: int, infosets: Infosets, rounding: Rounding) -> HostTreeplex:
    """Builds one player's infosets, then its choices at the frontier; one copy per root of its infostate."""
    roots, extra = layout.roots[player], layout.extra_of(player)
    inside = np.nonzero(layout.inside(infosets.history))[0]
    history, parent, num_actions = (
        infosets.history[inside],
        infosets.parent[inside],
        infosets.num_actions[inside],
    )
    name = inside
    if layout.frontier is not None and layout.frontier.num_choices > 0:
        leaf_states, leaf = layout.frontier.roots[player], layout.frontier.root_idx[player]
        example = np.empty(len(leaf_states), np.int64)
        example[leaf] = layout.frontier.cut.roots
        history = np.concatenate([history, example])
        parent = np.concatenate([parent, leaf_states.sequence])
        num_actions = np.append(num_actions, np.full(len(example), layout.frontier.num_choices))
        name = np.append(name, -2 - np.arange(len(example)))
    before = np.append(infosets.depth + 1, 0)[infosets.infoset]  # number of own decisions up to each sequence
    slot = np.arange(infosets.num_sequences)
    slot[1:] -= infosets.first_sequence[infosets.infoset[1:]]
    history_idx, root = layout.roots_above(player, history)
    leads_to = roots.sequence
    if extra is not None:
        again = layout.below_extra(history)
        history_idx = np.concatenate([np.arange(len(history))[history_idx], again])
        root = np.concatenate([root, layout.extra_root(history[again])])
        leads_to = np.concatenate([leads_to, extra.roots.sequence])
    parent, copy = parent[history_idx], layout.copy(player)[root]
    depth = before[parent] - before[leads_to[root]]
    row_of = np.zeros(
        (len(infosets) + 1, int(copy.max(initial=0)) + 1), np.int64
    )  # rows of an infoset's copies
    infoset = name[history_idx]
    own = np.nonzero(infoset >= 0)[0]
    row_of[infoset[own], copy[own]] = own
    treeplex, _ = build_treeplex(
        num_roots=len(leads_to),
        depth=depth,
        num_actions=num_actions[history_idx],
        parent_infoset=np.where(depth > 0, row_of[infosets.infoset[parent], copy], -1),
        parent_slot=np.where(depth > 0, slot[parent], root),
        infoset=infoset,
        rounding=rounding,
    )
    return treeplex


def with_terminals(form: Treeplexes, layout: Layout) -> SequenceForm:
    """Adds the payoff of the layout's terminals; a terminal in several subgames counts in each."""
    tree = layout.cover.tree
    terminals = tree.terminals[layout.inside(tree.terminals)]
    history_idx, pair = layout.pairs_above(terminals)
    terminals = terminals[history_idx]
    again = layout.below_extra(terminals)  # for the second copy of a player
    rows: list[IntArray] = []
    for player in (0, 1):
        root, sequence = layout.root_idx[player][pair], tree.sequence[player, terminals]
        below = form.below_roots(player, layout.copy(player), root, sequence)
        copied = below[again]
        if layout.extra_of(player) is not None:
            copied = below_extra(form, layout, player, terminals[again], sequence[again])
        rows.append(np.concatenate([below, copied]))
    terminals = np.concatenate([terminals, terminals[again]])
    num_rows = form.treeplex[0].num_sequences, form.treeplex[1].num_sequences
    payoff = tree.payoff_entries(terminals, (rows[0], rows[1]), num_rows)
    return SequenceForm(tree=tree, treeplex=form.treeplex, payoff=payoff)


def below_extra(
    form: Treeplexes, layout: Layout, player: int, histories: IntArray, sequence: IntArray
) -> IntArray:
    """`[m]` sequences of a player's second copy; the root itself if it has not acted below it.

    Args:
      form: the treeplexes.
      layout: the layout, with extra roots of this player.
      player: the player.
      histories: `[m]` below the extra roots' histories.
      sequence: `[m]` the player's last sequence in the tree, or its choice at a limit.
    """
    extra = layout.extra
    assert extra is not None
    root = layout.extra_root(histories)
    at_root = sequence == extra.roots.sequence[root - len(layout.roots[player])]
    return np.where(at_root, root, form.below_roots(player, layout.copy(player), root, sequence))
