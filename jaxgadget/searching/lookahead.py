"""Cut + limit → Lookahead: subgames expanded to a depth limit, with multi-valued states below it.

At the limit both players choose once among K strategies for the rest of the game (Brown, Sandholm and Amos
2018, §4; Kovařík et al. 2023): below the leaf histories every leaf infostate of a player gets one infoset
of K actions, and every leaf history a K×K payoff. That is a sequence form like any other, so forests,
lanes, gadgets, priors and solvers work on it unchanged. Nothing below the limit is looked at.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from typing import NamedTuple

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, SIMULTANEOUS, BoolArray, FloatArray, IntArray, dense_ids
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.memory import find_memory, megabytes
from jaxgadget.tree.cut import Cut, cut_at
from jaxgadget.tree.forest import Forest, Roots, find_roots
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import (
    Entries,
    Rounding,
    SequenceForm,
    Treeplex,
    build_treeplex,
    depth_below,
    exact_size,
    merge_entries,
    rounded_size,
)

CELL_BYTES = 490
"""What a payoff takes on the host and the device while it is put there: in Goofspiel 6 350 bytes with 10
entries, 490 with 3."""

CHUNK = 1 << 22
"""Histories that are looked at at once: a temporary as long as a large tree is hundreds of megabytes."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Lookahead:
    """Subgames below a cut down to a limit, side by side, without the values at the limit.

    H leaf histories; K entries of a portfolio; player p has `len(states[p])` leaf infostates.

    Attributes:
      cut: root histories and subgames.
      leaves: `[H]` leaf histories, ascending.
      states: for both players, ids of the leaf infostates, ascending.
      num_entries: K.
      treeplex: both players' decisions; `infoset` is -2 − j for the choice at leaf infostate j.
      roots: both players' root infostates.
      chance: chance's reach of every pair of root infostates.
      terminals: chance probability × player 0's payoff of the terminals before the limit.
      below: for both players `[H, K]`, the sequence of each choice at each leaf.
      padded: whether sizes are rounded up.
    """

    cut: Cut
    leaves: IntArray
    states: tuple[IntArray, IntArray]
    num_entries: int
    treeplex: tuple[Treeplex, Treeplex]
    roots: tuple[Roots, Roots]
    chance: Entries
    terminals: Entries
    below: tuple[IntArray, IntArray]
    padded: bool

    def __repr__(self) -> str:
        return f"<Lookahead below {self.cut!r}: {len(self.leaves)} leaves with {self.num_entries} entries>"

    @property
    def tree(self) -> HistoryTree:
        """The game's histories."""
        return self.cut.tree

    def forest(self, values: FloatArray) -> Forest:
        """The depth-limited subgames.

        Args:
          values: `[H, K, K]` player 0's expected payoff below each leaf, for each pair of entries.

        Raises:
          ValueError: if the shape is another one.
        """
        expected = (len(self.leaves), self.num_entries, self.num_entries)
        if values.shape != expected:
            raise ValueError(f"leaf values of shape {values.shape}: expected {expected}, [leaves, K, K]")
        form = SequenceForm(tree=self.tree, treeplex=self.treeplex, payoff=self._payoff(values))
        return Forest(cut=self.cut, form=form, roots=self.roots, chance=self.chance, padded=self.padded)

    def _payoff(self, values: FloatArray) -> Entries:
        """Terminals and leaves; pairs of choices stay where their value is 0, so that shapes are equal."""
        if len(self.leaves) == 0:
            return self.terminals
        rows = np.broadcast_to(self.below[0][:, :, None], values.shape).ravel()
        columns = np.broadcast_to(self.below[1][:, None, :], values.shape).ravel()
        chance = self.tree.chance[self.leaves]
        shape = self.terminals.shape
        key = np.concatenate([self.terminals.row, rows]) * shape[1]
        key += np.concatenate([self.terminals.column, columns])
        pair, count = dense_ids(key)
        keys = np.empty(count, np.int64)
        keys[pair] = key
        weighted = np.concatenate([self.terminals.value, (chance[:, None, None] * values).ravel()])
        total = np.asarray(np.bincount(pair, weighted, minlength=count), np.float64)
        return Entries(row=keys // shape[1], column=keys % shape[1], value=total, shape=shape)

    def places(self, player: int) -> IntArray:
        """`[Q]` where each of a player's actions has its row in a `Profile`, -1 for padding.

        Rows of the tree's actions come first, then K for every leaf infostate.
        """
        treeplex, infosets = self.treeplex[player], self.tree.infosets[player]
        infoset = treeplex.infoset[treeplex.sequence_infoset]
        above = np.append(infosets.first_sequence, 0)[np.maximum(infoset, 0)] - 1
        limit = infosets.num_sequences - 1 + (-2 - infoset) * self.num_entries
        first = np.where(infoset >= 0, above, limit)
        return np.where(infoset == -1, -1, first + treeplex.sequence_slot)


def most_payoffs(memory_limit: int | None) -> int:
    """How many payoffs, K² a leaf and one a terminal, fit in so many bytes; by default in what there is."""
    available = find_memory(HOME) if memory_limit is None else memory_limit
    return sys.maxsize if available is None else available // CELL_BYTES


def _check_room(leaves: IntArray, num_entries: int, game: str) -> None:
    """ValueError if the values at the leaves take more memory than there is."""
    payoffs = len(leaves) * num_entries**2
    if payoffs > (most := most_payoffs(None)):
        raise ValueError(
            f"num_entries={num_entries}: a lookahead of {game} has {payoffs} payoffs, which take "
            f"{megabytes(payoffs * CELL_BYTES)}, {megabytes(most * CELL_BYTES)} may be taken; expected fewer "
            "entries (K), or a smaller depth"
        )


def limit_by_depth(tree: HistoryTree, where: Cut, depth: int) -> IntArray:
    """Leaf histories: the first decisions of anybody at least `depth` moves below the roots."""
    return first_below(tree, where, _far(tree, where, depth) & ((tree.actor & SIMULTANEOUS) > 0))


def limit_at_decisions(tree: HistoryTree, where: Cut, depth: int, player: int) -> IntArray:
    """Leaf histories: where `player` decides again, at least `depth` moves below the roots."""
    return first_below(tree, where, _far(tree, where, depth) & ((tree.actor & ACTOR_BIT[player]) > 0))


def _far(tree: HistoryTree, where: Cut, depth: int) -> BoolArray:
    far = where.root >= 0
    for begin in range(0, len(far), CHUNK):
        root, moves = where.root[begin : begin + CHUNK], tree.num_moves[begin : begin + CHUNK]
        far[begin : begin + CHUNK] &= moves - tree.num_moves[np.maximum(root, 0)] >= depth
    return far


def first_below(tree: HistoryTree, where: Cut, marked: BoolArray) -> IntArray:
    """The first marked histories at or below the roots, on every path.

    Raises:
      ValueError: if the tree is truncated before them.
    """
    passed = np.zeros(tree.num_histories, np.bool_)  # whether a marked one lies above
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above = tree.parent[begin:end]
        passed[begin:end] = passed[above] | (marked[above] & (where.root[above] >= 0))
    leaves = np.nonzero(marked & ~passed & (where.root >= 0))[0]
    short = np.setdiff1d(tree.leaves[where.root[tree.leaves] >= 0], leaves)
    if len(short):
        raise ValueError(
            f"depth: the limit lies below history {tree.moves(int(short[0]))}, where the tree of "
            f"{tree.game.name} was truncated; enumerate it deeper, by enumerate_game(game, depth=…)"
        )
    return leaves


class _Rows(NamedTuple):
    """One player's decisions before and at the limit, as `build_treeplex` takes them.

    Attributes:
      infosets: `[r]` the tree's infosets that come first; then a row a leaf infostate.
      parent_infoset: `[r + states]` row above, -1 for none.
      parent_slot: `[r + states]` which of its actions, or which root.
      depth: `[r + states]` decisions between root and row.
    """

    infosets: IntArray
    parent_infoset: IntArray
    parent_slot: IntArray
    depth: IntArray


def build_lookahead(where: Cut, leaves: IntArray, num_entries: int, *, padded: bool = True) -> Lookahead:
    """Lays all subgames below a cut side by side, down to the leaves.

    Args:
      where: root histories.
      leaves: leaf histories, at or below the roots, none below another; there may be none.
      num_entries: K, of the portfolio.
      padded: round level sizes up, so that lookaheads of nearly equal shape share a program.

    Raises:
      ValueError: if an infoset lies on both sides of the limit, or the payoffs do not fit into memory.
    """
    tree, rounding = where.tree, rounded_size if padded else exact_size
    _check_room(leaves, num_entries, tree.game.name)
    inside = (where.root >= 0) & (leaf_above(where, leaves) < 0)
    roots, index = zip(*(find_roots(where, player) for player in (0, 1)), strict=True)
    states: list[IntArray] = []
    treeplexes: list[Treeplex] = []
    ends: list[IntArray] = []  # the sequence above or at each terminal
    below: list[IntArray] = []
    terminals = tree.terminals[inside[tree.terminals]]
    for player in (0, 1):
        found, number = np.unique(tree.infostate[player, leaves], return_inverse=True)
        rows = _find_rows(where, inside, leaves, number, len(found), player, index[player])
        treeplex, position = _lay_out(tree, rows, len(roots[player]), num_entries, player, rounding)
        states.append(found)
        treeplexes.append(treeplex)
        ends.append(_ends(where, rows, treeplex, position, terminals, player, index[player]))
        at = position[len(rows.infosets) :][number]
        slots = np.broadcast_to(np.arange(num_entries), (len(leaves), num_entries))
        below.append(treeplex.sequence(np.broadcast_to(at[:, None], slots.shape), slots))
    first, second = treeplexes
    payoff = tree.chance[terminals] * tree.payoff[terminals]
    chance = merge_entries(
        index[0][where.roots],
        index[1][where.roots],
        tree.chance[where.roots],
        (first.num_roots, second.num_roots),
    )
    return Lookahead(
        cut=where,
        leaves=leaves,
        states=(states[0], states[1]),
        num_entries=num_entries,
        treeplex=(first, second),
        roots=(roots[0], roots[1]),
        chance=chance,
        terminals=merge_entries(ends[0], ends[1], payoff, (first.num_sequences, second.num_sequences)),
        below=(below[0], below[1]),
        padded=padded,
    )


def leaf_above(where: Cut, leaves: IntArray) -> IntArray:
    """`[n]` the leaf, of some below a cut, at or above each history, -1 if there is none."""
    if len(leaves) == 0:
        return np.full(where.tree.num_histories, -1, np.int64)
    return cut_at(where.tree, "limit", leaves, inside=where).root


def _find_rows(
    where: Cut,
    inside: BoolArray,
    leaves: IntArray,
    number: IntArray,
    num_states: int,
    player: int,
    root_index: IntArray,
) -> _Rows:
    """A player's decisions; `number[H]` says which leaf infostate each leaf is in."""
    tree = where.tree
    infosets = tree.infosets[player]
    mine = np.nonzero(inside[infosets.history])[0]
    row_of = np.full(len(infosets) + 1, -1, np.int64)  # the last one is infoset -1, above all
    row_of[mine] = np.arange(len(mine))
    example = np.empty(num_states, np.int64)
    example[number[::-1]] = leaves[::-1]
    below = where.root[leaves]
    _check_roots(where, leaves, root_index[below], root_index[where.root[example]][number], player)
    history = np.concatenate([infosets.history[mine], example])
    parent = np.concatenate([infosets.parent[mine], tree.sequence[player, example]])
    slot = np.arange(infosets.num_sequences)
    slot[1:] -= infosets.first_sequence[infosets.infoset[1:]]
    above = row_of[infosets.infoset[parent]]
    depth = np.zeros(len(parent), np.int64)
    depth[: len(mine)] = depth_below(infosets.depth[mine], above[: len(mine)])
    at_limit = above[len(mine) :]
    depth[len(mine) :] = np.where(at_limit >= 0, depth[at_limit] + 1, 0) if num_states else 0
    return _Rows(
        infosets=mine,
        parent_infoset=above,
        parent_slot=np.where(above >= 0, slot[parent], root_index[where.root[history]]),
        depth=depth,
    )


def _check_roots(where: Cut, leaves: IntArray, root: IntArray, usual: IntArray, player: int) -> None:
    """Every leaf infostate lies below one root infostate of its player, or ValueError."""
    differs = np.nonzero(root != usual)[0]
    if len(differs):
        tree, leaf = where.tree, int(leaves[differs[0]])
        raise ValueError(
            f"lookahead of {tree.game.name}: player {player} has an infostate at the limit, as after "
            f"history {tree.moves(leaf)}, which lies below two root infostates; expected a cut at which the "
            "player knows as much as it remembers at the limit, or another depth"
        )


def _lay_out(
    tree: HistoryTree, rows: _Rows, num_roots: int, num_entries: int, player: int, rounding: Rounding
) -> tuple[Treeplex, IntArray]:
    """The treeplex of a player's rows, and the position of each of them in it."""
    num_states = len(rows.depth) - len(rows.infosets)
    actions = tree.infosets[player].num_actions[rows.infosets]
    return build_treeplex(
        num_roots=num_roots,
        depth=rows.depth,
        num_actions=np.concatenate([actions, np.full(num_states, num_entries)]),
        parent_infoset=rows.parent_infoset,
        parent_slot=rows.parent_slot,
        infoset=np.concatenate([rows.infosets, -2 - np.arange(num_states)]),
        rounding=rounding,
    )


def _ends(
    where: Cut,
    rows: _Rows,
    treeplex: Treeplex,
    position: IntArray,
    histories: IntArray,
    player: int,
    root_index: IntArray,
) -> IntArray:
    """`[len(histories)]` a player's last sequence in the treeplex."""
    tree, infosets = where.tree, where.tree.infosets[player]
    row_of = np.full(len(infosets) + 1, -1, np.int64)
    row_of[rows.infosets] = np.arange(len(rows.infosets))
    sequence = tree.sequence[player, histories]
    row = row_of[infosets.infoset[sequence]]
    slot = sequence - np.append(infosets.first_sequence, 0)[infosets.infoset[sequence]]
    found = root_index[where.root[histories]]
    inside = row >= 0
    found[inside] = treeplex.sequence(position[row[inside]], slot[inside])
    return found
