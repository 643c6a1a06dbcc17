"""Strategies of a spot as arrays `[C, H]`: a row for every node after a player's action, over all hands.

Hands that a dealt card makes impossible are included, with equal probabilities; a `Policy` omits them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgadget.core.host import HandTreeplex
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.games.hands import PublicNodes
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import PublicTree
from jaxgadget.tree.sequence import SequenceForm
from jaxgadget.util.arrays import FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HeldRows:
    """A player's rows over all H hands of a spot, stored for the hands that it may hold.

    Attributes:
      rows: `[C, h]` probabilities with these hands.
      hands: `[h]` indices of these hands, ascending.
      others: `[C]` probabilities with each other hand.
      num_hands: number of all hands, H.
    """

    rows: FloatArray
    hands: IntArray
    others: FloatArray
    num_hands: int

    @staticmethod
    def of(nodes: PublicNodes, player: int, rows: FloatArray, hands: IntArray, num_hands: int) -> HeldRows:
        """Rows `[C, h]` of some hands in a public tree; the others play uniformly."""
        return HeldRows(rows=rows, hands=hands, others=uniform_rows(nodes, player), num_hands=num_hands)

    @staticmethod
    def every(rows: FloatArray) -> HeldRows:
        """Rows `[C, H]` of all hands."""
        count, num_hands = rows.shape
        return HeldRows(rows=rows, hands=np.arange(num_hands), others=np.zeros(count), num_hands=num_hands)

    def take(self, index: IntArray) -> FloatArray:
        """`[m, H]` some rows, over all hands."""
        taken = np.repeat(self.others[index][:, None], self.num_hands, axis=1)
        taken[:, self.hands] = self.rows[index]
        return taken

    def whole(self) -> FloatArray:
        """`[C, H]` all rows, over all hands."""
        return self.take(np.arange(len(self.rows)))

    def pack(self, player: int) -> dict[str, Any]:
        """The arrays of a file, with the player in their names."""
        return {f"probabilities_{player}": self.rows, f"held_{player}": self.hands.astype(np.int32)}

    @staticmethod
    def unpack(nodes: PublicNodes, player: int, num_hands: int, arrays: Mapping[str, Any]) -> HeldRows:
        """Restores rows from the arrays of `pack`, or from rows of all hands, as earlier files have them.

        Hands of -1 are padding.

        Raises:
          ValueError: if the arrays are not rows of the tree.
        """
        rows = arrays[f"probabilities_{player}"]
        hands = np.asarray(arrays.get(f"held_{player}", np.arange(num_hands)), np.int64)
        expected = (len(action_nodes(nodes, player)), *hands.shape)
        if rows.shape != expected or rows.dtype != np.float64:
            raise ValueError(f"probabilities_{player} has shape {rows.shape}, expected {expected} in float64")
        real = hands >= 0
        rows, hands = rows[:, real], hands[real]
        if (np.diff(hands, prepend=-1, append=num_hands) < 1).any():
            raise ValueError(f"held_{player} are not ascending indices of {num_hands} hands")
        return HeldRows.of(nodes, player, rows, hands, num_hands)


def action_nodes(nodes: PublicNodes, player: int) -> IntArray:
    """`[C]` public nodes after a player's actions, ascending."""
    acts = nodes.actor[nodes.parent] == ACTOR_BIT[player]
    acts[0] = False
    return np.flatnonzero(acts)


def find_same(nodes: PublicNodes, whole: PublicNodes, root: int) -> IntArray:
    """`[n]` nodes of a whole tree in place of those of a tree that equals the one below its node `root`."""
    same = np.full(len(nodes), root)
    for level in nodes.levels_below():
        same[level] = whole.first_child[same[nodes.parent[level]]] + nodes.slot[level]
    return same


def one_hand(form: SequenceForm, player: int) -> HandTreeplex:
    """A player's decisions in a public tree."""
    treeplex = form.treeplex[player]
    assert isinstance(treeplex, HandTreeplex)
    return treeplex


def body_order(form: SequenceForm, player: int) -> IntArray:
    """`[C]` row of each block of actions of the player's treeplex."""
    nodes, treeplex = _nodes(form), one_hand(form, player).one_hand
    node = nodes.decisions(player)[treeplex.infoset[treeplex.sequence_infoset]]
    child = nodes.first_child[node] + treeplex.sequence_slot
    return np.searchsorted(action_nodes(nodes, player), child)


def uniform_rows(nodes: PublicNodes, player: int) -> FloatArray:
    """`[C]` probabilities of the uniform strategy."""
    count = nodes.num_children[nodes.decisions(player)]
    return np.repeat(1 / count, count)


def body_to_rows(form: SequenceForm, player: int, body: FloatArray) -> FloatArray:
    """Converts a strategy `[C × H]` of the player's treeplex to normalised rows `[C, H]`, for any H."""
    nodes, order = _nodes(form), body_order(form, player)
    rows = np.empty((len(order), len(body) // max(len(order), 1)))
    rows[order] = body.reshape(rows.shape)
    if not len(rows):
        return rows
    count = nodes.num_children[nodes.decisions(player)]
    total = np.add.reduceat(rows, np.cumsum(count) - count, axis=0)
    return rows / np.repeat(total, count, axis=0)


def rows_to_policy(tree: PublicTree, rows: tuple[FloatArray, FloatArray], label: str) -> Policy:
    """Converts both players' rows `[C, H]` to a policy of one lane."""
    pair = rows_to_probabilities(tree, 0, rows[0]), rows_to_probabilities(tree, 1, rows[1])
    return Policy(tree, pair, (label,))


def rows_to_probabilities(tree: PublicTree, player: int, rows: FloatArray) -> FloatArray:
    """Converts a player's rows `[C, H]` to the probabilities `[Q, 1]` of a policy."""
    sequence = tree.sequence_to(player, action_nodes(tree.nodes, player))
    possible = sequence >= 0
    probabilities = np.empty((tree.infosets[player].num_sequences - 1, 1))
    probabilities[sequence[possible] - 1, 0] = rows[possible]
    return probabilities


def policy_to_rows(policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Converts a policy of one lane to both players' rows `[C, H]`.

    Raises:
      ValueError: if the policy's tree is not in hand form.
    """
    tree = policy.tree
    if not isinstance(tree, PublicTree):
        raise ValueError(f"policy={policy!r}: expected a policy of a public tree, from public_tree(spot)")
    pair: list[FloatArray] = []
    for player in (0, 1):
        sequence = tree.sequence_to(player, action_nodes(tree.nodes, player))
        probabilities = policy.probabilities[player][sequence - 1, 0]
        pair.append(np.where(sequence >= 0, probabilities, uniform_rows(tree.nodes, player)[:, None]))
    return pair[0], pair[1]


def _nodes(form: SequenceForm) -> PublicNodes:
    tree = form.tree
    assert isinstance(tree, PublicTree)
    return tree.nodes
