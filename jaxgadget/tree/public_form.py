"""PublicTree + public nodes → SequenceForm: the public tree of each player × its hands, node by node.

All hands of a public node lie side by side, so the reaches and values of a node are slices, and links between
nodes move blocks. The private rest is inside the payoff: the deal, public chance, and which hands exclude
each other. An infoset whose hand public chance has made impossible is there like padding: its reach never
counts, so it earns nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from jaxgadget.core.host import HandEntries, HandTreeplex, HostTreeplex, build_treeplex
from jaxgadget.games.hands import PublicEnds, group_ends
from jaxgadget.tree.cover import Cover, Roots
from jaxgadget.tree.public import PublicTree
from jaxgadget.tree.sequence import SequenceForm, Treeplexes
from jaxgadget.util.arrays import BoolArray, IntArray

Value = TypeVar("Value")


def subgame_of(tree: PublicTree, roots: IntArray) -> IntArray:
    """`[n]` number of the root at or above each public node, -1 if there is none.

    Args:
      tree: the game.
      roots: `[S]` public nodes, none below another.
    """
    number = np.full(len(tree.nodes), -1, np.int64)
    number[roots] = np.arange(len(roots))
    for level in tree.nodes.levels_below():
        number[level] = np.maximum(number[level], number[tree.parent[level]])
    return number


def lay_out_public(tree: PublicTree, roots: IntArray) -> SequenceForm:
    """Both players' decisions and the payoff below public nodes.

    Args:
      tree: the game.
      roots: `[S]` public nodes, none below another; `[0]` for the whole game. Each is a block of roots.
    """
    subgame = subgame_of(tree, roots)
    (first, row), (second, column) = (_lay_out(tree, player, subgame, len(roots)) for player in (0, 1))
    ends = tree.hands_game.ends if roots.tolist() == [0] else keep_nodes(tree.hands_game.ends, subgame >= 0)
    num_blocks = (first.one_hand.num_sequences, second.one_hand.num_sequences)
    payoff = hand_entries(tree.num_hands, ends, (row, column), num_blocks)
    return SequenceForm(tree=tree, treeplex=(first, second), payoff=payoff)


def _lay_out(
    tree: PublicTree, player: int, subgame: IntArray, num_roots: int
) -> tuple[HandTreeplex, IntArray]:
    """A player's decisions, and `[n]` its block of sequences at every public node, -1 outside."""
    nodes = tree.nodes
    decides = nodes.decisions(player)
    decides = decides[subgame[decides] >= 0]
    infoset = np.full(len(nodes), -1, np.int64)  # the player's last one, the node's own left aside
    slot, depth = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    number = np.full(len(nodes), -1, np.int64)
    number[decides] = np.arange(len(decides))
    acts = number >= 0
    for level in nodes.levels_below():
        above = nodes.parent[level]
        infoset[level] = np.where(acts[above], number[above], infoset[above])
        slot[level] = np.where(acts[above], nodes.slot[level], slot[above])
        depth[level] = depth[above] + acts[above]
    one_hand, position = build_treeplex(
        num_roots=num_roots,
        depth=depth[decides],
        num_actions=nodes.num_children[decides],
        parent_infoset=infoset[decides],
        parent_slot=np.where(infoset[decides] < 0, subgame[decides], slot[decides]),
        infoset=decides,
    )
    block = subgame.copy()
    below = np.flatnonzero(infoset >= 0)
    block[below] = one_hand.sequence(position[infoset[below]], slot[below])
    at = functools.partial(tree.infoset_at, player)
    return HandTreeplex(one_hand, tree.num_hands[player], at), block


def hand_entries(
    hands: tuple[int, int],
    ends: Sequence[PublicEnds],
    block: tuple[IntArray, IntArray],
    num_blocks: tuple[int, int],
) -> HandEntries:
    """A matrix by hands whose blocks are both players' sequences; see `HandEntries`."""
    num_rows = hands[0] * num_blocks[0], hands[1] * num_blocks[1]
    return HandEntries(ends=tuple(ends), block=block, num_blocks=num_blocks, hands=hands, num_rows=num_rows)


def keep_nodes(groups: Sequence[PublicEnds], kept: BoolArray) -> tuple[PublicEnds, ...]:
    """Some of the nodes of groups, those where `kept` `[n]` is true; tables that lose nodes stand alone."""
    parts: list[PublicEnds] = []
    for group in groups:
        inside = kept[group.node]
        if inside.all():
            parts.append(group)
        elif not isinstance(group.pays, np.ndarray):
            # An operator takes all its nodes: those left out have weight 0.
            parts.append(group._replace(scale=np.where(inside, group.scale, 0.0)))
        else:
            parts += [
                PublicEnds(nodes[None, chosen], scales[None, chosen], table[None])
                for nodes, scales, table, chosen in zip(*group, inside, strict=True)
                if chosen.any()
            ]
    return tuple(parts)


def public_roots(tree: PublicTree, cover: Cover, player: int) -> Roots:
    """A player's roots: a block of hands at every public root of a cover.

    Raises:
      ValueError: if subgames overlap.
    """
    nodes, hands = cover.roots, tree.num_hands[player]
    if len(np.unique(nodes)) < len(nodes):
        raise ValueError(
            f"cover {cover!r} of {tree!r}: subgames overlap; expected every public node in one subgame"
        )
    possible = tree.possible(player, nodes).ravel()
    return Roots(
        infostate=(nodes[:, None] * hands + np.arange(hands)).ravel(),
        subgame=np.repeat(cover.subgame, hands),
        sequence=tree.last_sequence(player, nodes).ravel(),
        possible=None if possible.all() else possible,
    )


def name_public_roots(tree: PublicTree, player: int, nodes: IntArray) -> tuple[str, ...]:
    """`[R]` names of a player's roots at public nodes: its hand and the public actions."""
    lines = [tree.hands_game.describe(node) for node in nodes.tolist()]
    return tuple(f"{hand} {line}".rstrip() for line in lines for hand in tree.hands_game.hands[player])


def _deal_groups(tree: PublicTree, nodes: IntArray) -> tuple[PublicEnds, ...]:
    """Chance's reach of every pair of hands at public nodes, as tables of ends.

    Raises:
      ValueError: if the game has no table of deals.
    """
    game = tree.hands_game
    if game.deals is None or game.board is None:
        raise ValueError(
            f"deals of {game.name} are not tabulated; expected a game by hands with `deals` and `board`"
        )
    return group_ends(nodes, np.ones(len(nodes)), game.board[nodes].astype(np.int64), game.deals)


def deals_at(tree: PublicTree, nodes: IntArray) -> HandEntries:
    """Chance's reach of pairs of roots, blocks of hands at public nodes."""
    block = np.zeros(len(tree.nodes), np.int64)
    block[nodes] = np.arange(len(nodes))
    groups = _deal_groups(tree, nodes)
    return hand_entries(tree.num_hands, groups, (block, block), (len(nodes), len(nodes)))


RowsAt: TypeAlias = Callable[[IntArray], IntArray]
"""`[m, H]` row of each hand at public nodes `[m]`, -1 for none."""


def _entries_at(
    tree: PublicTree, ends: tuple[PublicEnds, ...], rows: tuple[RowsAt, RowsAt], num_rows: tuple[int, int]
) -> HandEntries:
    """A matrix by hands whose rows and columns have numbers of their own at every node."""
    nodes = np.unique(np.concatenate([np.zeros(0, np.int64), *(group.node.ravel() for group in ends)]))
    block = np.zeros(len(tree.nodes), np.int64)
    block[nodes] = np.arange(len(nodes))
    return HandEntries(
        ends=ends,
        block=(block, block),
        num_blocks=(len(nodes), len(nodes)),
        hands=tree.num_hands,
        rows=(rows[0](nodes).ravel(), rows[1](nodes).ravel()),
        num_rows=num_rows,
    )


def _by_player(player: int, own: Value, other: Value) -> tuple[Value, Value]:
    return (own, other) if player == 0 else (other, own)


def public_followed_payoff(tree: PublicTree, form: SequenceForm, player: int) -> HandEntries:
    """See `tree.forest.followed_payoff`."""
    payoff, other = form.payoff, 1 - player
    assert isinstance(payoff, HandEntries)
    hands = np.arange(tree.num_hands[player])
    own: RowsAt = lambda nodes: payoff.block[player][nodes, None] * len(hands) + hands  # noqa: E731
    theirs = functools.partial(tree.last_sequence, other)
    num_rows = form.treeplex[player].num_sequences, tree.infosets[other].num_sequences
    sign = 1.0 if player == 0 else -1.0
    ends = tuple(group._replace(scale=sign * group.scale) for group in payoff.ends)
    return _entries_at(tree, ends, _by_player(player, own, theirs), _by_player(player, *num_rows))


class PublicTrunk(NamedTuple):
    """Both players' decisions above public roots; see `tree.trunk.Trunk`.

    Attributes:
      form: with one root each; its payoff is that of ends outside all subgames.
      sequence_of: for both players `[sequences of the tree]` those of the form, 0 where it has none.
      goes_on: for both players `[sequences of the tree]` True if the game goes on after the action.
      presence: for both players, chance's reach of its infosets and the other player's sequences.
    """

    form: SequenceForm
    sequence_of: tuple[IntArray, IntArray]
    goes_on: tuple[BoolArray, BoolArray]
    presence: tuple[HandEntries, HandEntries]


def lay_out_trunk(tree: PublicTree, roots: IntArray) -> PublicTrunk:
    """The decisions and payoffs above public nodes.

    Args:
      tree: the game.
      roots: `[S]` public nodes, none below another.
    """
    above = subgame_of(tree, roots) < 0
    first, second = (_lay_out_above(tree, player, above) for player in (0, 1))
    treeplexes = Treeplexes(tree=tree, treeplex=(first, second))
    sequence_of = (np.maximum(treeplexes.from_tree(0), 0), np.maximum(treeplexes.from_tree(1), 0))

    def sequences(player: int) -> RowsAt:
        return lambda nodes: sequence_of[player][tree.last_sequence(player, nodes)]

    def presence(player: int) -> HandEntries:
        nodes = tree.nodes.decisions(player)
        nodes, treeplex = nodes[above[nodes]], treeplexes.treeplex[player]
        row = np.full(len(tree.infosets[player]) + 1, -1, np.int64)
        row[treeplex.infoset] = np.arange(treeplex.num_infosets)
        own: RowsAt = lambda nodes: row[tree.infoset_at(player, nodes)]  # noqa: E731
        num_rows = treeplex.num_infosets, treeplexes.treeplex[1 - player].num_sequences
        return _entries_at(
            tree,
            _deal_groups(tree, nodes),
            _by_player(player, own, sequences(1 - player)),
            _by_player(player, *num_rows),
        )

    ends = keep_nodes(tree.hands_game.ends, above)
    payoff = _entries_at(
        tree, ends, (sequences(0), sequences(1)), (first.num_sequences, second.num_sequences)
    )
    form = SequenceForm(tree=tree, treeplex=(first, second), payoff=payoff)
    goes_on = _goes_on(tree, 0), _goes_on(tree, 1)
    return PublicTrunk(form, sequence_of, goes_on, (presence(0), presence(1)))


def _lay_out_above(tree: PublicTree, player: int, above: BoolArray) -> HostTreeplex:
    """A player's decisions above the roots, hand by hand below one root; impossible hands have none."""
    infosets = tree.infosets[player]
    inside = np.flatnonzero(above[infosets.history])
    number = np.zeros(len(infosets), np.int64)
    number[inside] = np.arange(len(inside))
    parent = infosets.parent[inside].astype(np.int64)
    owner = infosets.infoset[parent]
    treeplex, _ = build_treeplex(
        num_roots=1,
        depth=infosets.depth[inside],
        num_actions=infosets.num_actions[inside].astype(np.int64),
        parent_infoset=np.where(parent > 0, number[owner], -1),
        parent_slot=np.where(parent > 0, parent - infosets.first_sequence[owner], 0),
        infoset=inside,
    )
    return treeplex


def _goes_on(tree: PublicTree, player: int) -> BoolArray:
    """`[sequences of the tree]` True if the game goes on after a player's action."""
    goes_on = np.zeros(tree.infosets[player].num_sequences, np.bool_)
    children = np.flatnonzero((tree.action[player] >= 0) & (tree.nodes.num_children > 0))
    sequence = tree.sequence_to(player, children)
    goes_on[sequence[sequence >= 0]] = True
    return goes_on
