"""The trunk above a cut: both players' decisions before any subgame, and the roots to which they lead.

Used by gadgets with the opponent's real trunk (full, optimal continuation) or with its forgone alternatives
(reach gadgets), and by `solve_trunk` and CFR-D, which solve the trunk itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from jaxgadget.core.host import Entries, HandEntries, HostTreeplex, Rounding, build_treeplex
from jaxgadget.games.game import TERMINAL
from jaxgadget.tree.cover import Roots, cover_of
from jaxgadget.tree.cut import Cut, whole_cut
from jaxgadget.tree.sequence import Frontier, Layout, SequenceForm, list_hands
from jaxgadget.tree.tree import Tree
from jaxgadget.util.arrays import BoolArray, IntArray
from jaxgadget.util.players import pair_for


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trunk:
    """Both players' decisions above a cut.

    Attributes:
      form: their sequence form, with one root per player; its payoff is that of terminals outside all
        subgames.
      link: for both players `[R]` the trunk's sequence that leads to each root below it.
      terminates: for both players `[num_actions]` True if the action ends the game at every history of its
        infoset.
      presence: for both players, chance's reach of the histories of each of its infosets (positions in its
        treeplex) and the other player's sequences.
    """

    form: SequenceForm
    link: tuple[IntArray, IntArray]
    terminates: tuple[BoolArray, BoolArray]
    presence: tuple[Entries | HandEntries, Entries | HandEntries]

    def sequences(self, player: int) -> IntArray:
        """`[num_sequences]` the tree's sequence of each of a player's sequences in the trunk."""
        return np.append(0, self.form.action_sequences(player))


class BelowTrunk(Protocol):
    """The part of a game below a trunk: a forest, or a depth limit."""

    @property
    def cut(self) -> Cut:
        """The cut at which the trunk ends."""
        ...

    @property
    def roots(self) -> tuple[Roots, Roots]:
        """Both players' infostates at the cut."""
        ...


def build_trunk(below: BelowTrunk) -> Trunk:
    """Builds the trunk above a forest or a depth limit: the game from its root down to the cut."""
    cut, tree = below.cut, below.cut.tree
    layout = Layout.of(cover_of(whole_cut(tree)), Frontier.at(cut, 0))
    decisions = list_hands(layout)
    sequence_of = (
        np.maximum(decisions.from_tree(0), 0),  # 0 for the empty sequence
        np.maximum(decisions.from_tree(1), 0),
    )

    def rows(player: int, nodes: IntArray) -> IntArray:
        """`[m, H]` the trunk's last sequence of a player with each hand."""
        sequence = tree.sequences_by_hand(player, tree.sequence[player, nodes])
        return sequence_of[player][np.maximum(sequence, 0)]

    def presence(player: int) -> Entries | HandEntries:
        treeplex, other = decisions.treeplex[player], 1 - player
        position = np.full(len(tree.infosets[player]) + 1, -1, np.int64)
        position[treeplex.infoset] = np.arange(treeplex.num_infosets)
        acts = np.nonzero((tree.infoset[player] >= 0) & (cut.root < 0))[0]
        own = position[tree.infosets_by_hand(player, tree.infoset[player, acts])]
        num_rows = treeplex.num_infosets, decisions.treeplex[other].num_sequences
        return tree.chance_entries(
            acts, pair_for(player, own, rows(other, acts)), pair_for(player, *num_rows)
        )

    terminals = tree.terminals[cut.root[tree.terminals] < 0]
    first, second = decisions.treeplex
    payoff = tree.payoff_entries(
        terminals, (rows(0, terminals), rows(1, terminals)), (first.num_sequences, second.num_sequences)
    )
    goes_on = (
        _goes_on(tree, 0)[decisions.action_sequences(0)],
        _goes_on(tree, 1)[decisions.action_sequences(1)],
    )
    return Trunk(
        form=SequenceForm(tree=tree, treeplex=decisions.treeplex, payoff=payoff),
        link=(sequence_of[0][below.roots[0].sequence], sequence_of[1][below.roots[1].sequence]),
        terminates=(~goes_on[0], ~goes_on[1]),
        presence=(presence(0), presence(1)),
    )


def _goes_on(tree: Tree, player: int) -> BoolArray:
    """`[sequences of the tree]` True if some node right after a player's action is not terminal."""
    moved = np.nonzero(tree.action[player] >= 0)[0]
    moved = moved[tree.actor[moved] != TERMINAL]
    sequence = tree.sequences_by_hand(player, tree.sequence[player, moved])
    goes_on = np.zeros(tree.infosets[player].num_sequences, np.bool_)
    goes_on[sequence[sequence >= 0]] = True
    return goes_on


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """A player's trunk decisions above given games, copied for each game.

    Attributes:
      treeplex: the decisions, with one root per game.
      link: `[R]` the sequence above each of the player's roots, without padding.
      source: `[num_sequences]` the copied sequence of the trunk, -1 for padding.
      infoset: `[I]` position of the copied infoset of the trunk, -1 for padding.
    """

    treeplex: HostTreeplex
    link: IntArray
    source: IntArray
    infoset: IntArray


def build_way(above: HostTreeplex, link: IntArray, game: IntArray, rounding: Rounding) -> Way:
    """Copies a player's trunk decisions above its roots, once per game.

    Args:
      above: its decisions above the cut.
      link: `[R]` the sequence of the trunk that leads to each of its roots.
      game: `[R]` the game of each of the player's roots; 0, 1, … without gaps.
      rounding: rounding of sizes.
    """
    owner = np.append(-1, above.sequence_infoset)  # `[num_sequences]` the infoset of each sequence
    pairs = {
        (int(g), infoset)
        for g, sequence in zip(game.tolist(), link.tolist(), strict=True)
        for infoset in _up(above, owner, sequence)
    }
    rows = sorted(pairs, key=lambda pair: (pair[1], pair[0]))  # infosets are sorted by level
    row_of = {pair: row for row, pair in enumerate(rows)}
    games, infosets = (np.array([pair[k] for pair in rows], np.int64) for k in (0, 1))
    parent, slots = above.parent[infosets], np.append(0, above.sequence_slot)
    depth = np.zeros(len(rows), np.int64)
    inside = np.full(len(rows), -1, np.int64)
    for row, (g, sequence) in enumerate(zip(games.tolist(), parent.tolist(), strict=True)):
        if sequence:
            inside[row] = row_of[g, int(owner[sequence])]
            depth[row] = depth[inside[row]] + 1
    num_games = int(game.max(initial=-1)) + 1
    treeplex, position = build_treeplex(
        num_roots=num_games,
        depth=depth,
        num_actions=above.num_actions[infosets],
        parent_infoset=inside,
        parent_slot=np.where(inside >= 0, slots[parent], games),
        infoset=np.arange(len(rows)),
        rounding=rounding,
    )
    copied = np.where(treeplex.infoset >= 0, np.append(infosets, -1)[treeplex.infoset], -1)
    source = np.full(treeplex.num_sequences, -1, np.int64)
    source[:num_games] = 0
    copy = copied[treeplex.sequence_infoset]
    source[treeplex.num_roots :][copy >= 0] = above.sequence(
        copy[copy >= 0], treeplex.sequence_slot[copy >= 0]
    )
    row = [row_of[g, int(owner[s])] if s else -1 for g, s in zip(game.tolist(), link.tolist(), strict=True)]
    ends, last = game.astype(np.int64), np.array(row, np.int64)
    ends[last >= 0] = treeplex.sequence(position[last[last >= 0]], slots[link[last >= 0]])
    return Way(treeplex=treeplex, link=ends, source=source, infoset=copied)


def _up(treeplex: HostTreeplex, owner: IntArray, sequence: int) -> Iterator[int]:
    """The infosets above a sequence, bottom-up."""
    while sequence:
        infoset = int(owner[sequence])
        yield infoset
        sequence = int(treeplex.parent[infoset])
