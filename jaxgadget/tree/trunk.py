"""The trunk above a cut: both players' decisions before any subgame, and the roots they lead to.

Used by gadgets with the opponent's real trunk (full, optimal continuation) or with its forgone alternatives
(reach gadgets), and by CFR-D, which solves the trunk itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from jaxgadget.core.host import Entries, HandEntries, HostTreeplex, Rounding, build_treeplex, merge_oriented
from jaxgadget.tree.cut import Cut, whole_cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.public import PublicTree
from jaxgadget.tree.public_form import lay_out_trunk
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.util.arrays import BoolArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Trunk:
    """Both players' decisions above a cut.

    Attributes:
      form: their sequence form, with one root each; its payoff is that of terminals outside all subgames.
      link: for both players `[R]` the trunk's sequence that leads to each root of the forest.
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


def trunk_form(where: Cut) -> SequenceForm:
    """Sequence form of a game from its root down to a cut; its payoff is that of terminals not below it."""
    if isinstance(where.tree, PublicTree):
        return lay_out_trunk(where.tree, where.roots).form
    return build_forest(where.tree, whole_cut(where.tree), limit=where, num_choices=0, padded=False).form


def build_trunk(forest: Forest) -> Trunk:
    """Builds the trunk of a forest: the game from its root down to the forest's cut."""
    if isinstance(forest.tree, PublicTree):
        form, sequence_of, goes_on, presence = lay_out_trunk(forest.tree, forest.cover.roots)
    else:
        cut, tree = forest.cut, forest.tree
        form = trunk_form(cut)
        sequence_of = [np.maximum(form.from_tree(player), 0) for player in (0, 1)]  # 0 for the empty sequence
        goes_on = [_goes_on(tree, player) for player in (0, 1)]
        presence = (_presence(cut, form, 0, sequence_of[1]), _presence(cut, form, 1, sequence_of[0]))
    first, second = (~goes_on[player][form.action_sequences(player)] for player in (0, 1))
    return Trunk(
        form=form,
        link=(sequence_of[0][forest.roots[0].sequence], sequence_of[1][forest.roots[1].sequence]),
        terminates=(first, second),
        presence=presence,
    )


def _presence(cut: Cut, form: SequenceForm, player: int, sequence_of: IntArray) -> Entries:
    """Computes `Trunk.presence`; `sequence_of` maps the other player's sequences to the trunk's."""
    tree, treeplex = cut.histories, form.treeplex[player]
    row = np.full(len(tree.infosets[player]) + 1, -1, np.int64)
    row[treeplex.infoset] = np.arange(treeplex.num_infosets)
    acts = np.nonzero((tree.infoset[player] >= 0) & (cut.root < 0))[0]
    return merge_oriented(
        player,
        row[tree.infoset[player, acts]],
        sequence_of[tree.sequence[1 - player, acts]],
        tree.chance[acts],
        (treeplex.num_infosets, form.treeplex[1 - player].num_sequences),
    )


def _goes_on(tree: HistoryTree, player: int) -> BoolArray:
    """`[sequences of the tree]` True if the game goes on at some history right after a player's action."""
    moved = np.nonzero(tree.action[player] >= 0)[0]
    goes_on = np.zeros(tree.infosets[player].num_sequences, np.bool_)
    goes_on[tree.sequence[player, moved[tree.actor[moved] != 0]]] = True
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
