"""What lies above a cut: both players' decisions before any subgame, and where they lead.

A gadget may need the opponent's real way in (full, optimal continuation) or what it passed up on
that way (reach gadgets), and CFR-D solves the trunk itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from jaxgadget.tree.cut import Cut, whole_cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.sequence import (
    Entries,
    HostTreeplex,
    Rounding,
    SequenceForm,
    build_treeplex,
    merge_entries,
)
from jaxgadget.util.arrays import BoolArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trunk:
    """Both players' decisions above a cut.

    Attributes:
      form: their sequence form, one root each; its payoff is that of terminals outside all subgames.
      link: for both players `[R]` the trunk's sequence that leads to each root of the forest.
      terminates: for both players `[num_actions]` whether an action ends the game at once, wherever
        in its infoset it is taken.
      presence: for both players, chance's reach of the histories of each of its infosets: rows are
        its infosets (positions in its treeplex), columns the other player's sequences.
    """

    form: SequenceForm
    link: tuple[IntArray, IntArray]
    terminates: tuple[BoolArray, BoolArray]
    presence: tuple[Entries, Entries]

    def sequences(self, player: int) -> IntArray:
        """`[num_sequences]` the tree's sequence of each of a player's sequences in the trunk."""
        return np.append(0, self.form.action_sequences(player))


def build_trunk(forest: Forest) -> Trunk:
    """Lays out what lies above a forest's cut: the whole game, which ends there."""
    cut, tree = forest.cut, forest.tree
    form = build_forest(tree, whole_cut(tree), limit=cut, num_choices=0, padded=False).form
    number = [np.maximum(form.from_tree(player), 0) for player in (0, 1)]  # of the empty sequence: 0
    return Trunk(
        form=form,
        link=(number[0][forest.roots[0].sequence], number[1][forest.roots[1].sequence]),
        terminates=(_terminates(cut, form, 0), _terminates(cut, form, 1)),
        presence=(_presence(cut, form, 0, number[1]), _presence(cut, form, 1, number[0])),
    )


def _presence(cut: Cut, form: SequenceForm, player: int, number: IntArray) -> Entries:
    """See `Trunk.presence`; `number` maps the tree's sequences of the other player to the trunk's."""
    tree, treeplex = cut.tree, form.treeplex[player]
    row = np.full(len(tree.infosets[player]) + 1, -1, np.int64)
    row[treeplex.infoset] = np.arange(treeplex.num_infosets)
    acts = np.nonzero((tree.infoset[player] >= 0) & (cut.root < 0))[0]
    return merge_entries(
        row[tree.infoset[player, acts]],
        number[tree.sequence[1 - player, acts]],
        tree.chance[acts],
        (treeplex.num_infosets, form.treeplex[1 - player].num_sequences),
    )


def _terminates(cut: Cut, form: SequenceForm, player: int) -> BoolArray:
    """`[num_actions]` which of a player's actions above the cut always end the game."""
    tree = cut.tree
    moved = np.nonzero(tree.action[player] >= 0)[0]
    goes_on = np.zeros(tree.infosets[player].num_sequences, np.bool_)
    goes_on[tree.sequence[player, moved[tree.actor[moved] != 0]]] = True
    return ~goes_on[form.action_sequences(player)]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """A player's decisions on the way to some games, a copy of the trunk's for each of them.

    Attributes:
      treeplex: one root a game.
      link: `[R]` the sequence above each of the player's roots, padding not included.
      source: `[num_sequences]` the trunk's sequence that each one copies, -1 for padding.
      infoset: `[I]` position of the trunk's infoset that each one copies, -1 for padding.
    """

    treeplex: HostTreeplex
    link: IntArray
    source: IntArray
    infoset: IntArray


def build_way(above: HostTreeplex, link: IntArray, game: IntArray, rounding: Rounding) -> Way:
    """A player's decisions on the way to its roots.

    Args:
      above: its decisions above the cut.
      link: `[R]` the sequence there that leads to each of its roots.
      game: `[R]` the game that each of the player's roots belongs to; all games 0, 1, … occur.
      rounding: how sizes are rounded up.
    """
    owner = np.append(-1, above.sequence_infoset)  # `[num_sequences]` the infoset of each sequence
    pairs = {
        (int(g), infoset)
        for g, sequence in zip(game.tolist(), link.tolist(), strict=True)
        for infoset in _up(above, owner, sequence)
    }
    rows = sorted(pairs, key=lambda pair: (pair[1], pair[0]))  # infosets are sorted by level
    number = {pair: row for row, pair in enumerate(rows)}
    games, infosets = (np.array([pair[k] for pair in rows], np.int64) for k in (0, 1))
    parent, slots = above.parent[infosets], np.append(0, above.sequence_slot)
    depth = np.zeros(len(rows), np.int64)
    inside = np.full(len(rows), -1, np.int64)
    for row, (g, sequence) in enumerate(zip(games.tolist(), parent.tolist(), strict=True)):
        if sequence:
            inside[row] = number[g, int(owner[sequence])]
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
    row = [number[g, int(owner[s])] if s else -1 for g, s in zip(game.tolist(), link.tolist(), strict=True)]
    ends, last = game.astype(np.int64), np.array(row, np.int64)
    ends[last >= 0] = treeplex.sequence(position[last[last >= 0]], slots[link[last >= 0]])
    return Way(treeplex=treeplex, link=ends, source=source, infoset=copied)


def _up(treeplex: HostTreeplex, owner: IntArray, sequence: int) -> Iterator[int]:
    """The infosets above a sequence, from below."""
    while sequence:
        infoset = int(owner[sequence])
        yield infoset
        sequence = int(treeplex.parent[infoset])
