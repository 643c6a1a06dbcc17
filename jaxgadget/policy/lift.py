"""From a policy of an abstraction to a policy of the game that was abstracted."""

from __future__ import annotations

import numpy as np

from jaxgadget.games.abstraction import Abstraction
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import IntArray


def lift(policy: Policy, tree: HistoryTree) -> Policy:
    """A policy of an abstraction as a policy of the game itself.

    Every infoset takes the row of the bucket in which it lies. Both players' expected values stay
    what they were; best responses know more in the game, so NashConv may rise.

    Args:
      policy: of the tree of an `Abstraction`; all lanes are lifted and keep their labels.
      tree: of the game that was abstracted. Several abstractions, one upon the other, are undone
        one by one.

    Raises:
      ValueError: if the policy is not of an abstraction, or the tree not of the game that was abstracted.
    """
    coarse = policy.tree
    if not isinstance(coarse.game, Abstraction):
        raise ValueError(
            f"policy {policy.labels[0]!r} is for {coarse.game.name!r}, which is no abstraction; expected a "
            "policy of the tree of an Abstraction"
        )
    game = coarse.game.game
    same = tree.game.name == game.name and all(
        np.array_equal(getattr(tree, field), getattr(coarse, field))
        for field in ("parent", "actor", "action")
    )
    if not same:
        raise ValueError(
            f"tree is of {tree.game.name!r}, but policy {policy.labels[0]!r} is for an abstraction of "
            f"{game.name!r}; lift it to the tree of that game"
        )
    first, second = (policy.probabilities[p][_rows(coarse, tree, p)] for p in (0, 1))
    return Policy(tree, (first, second), policy.labels)


def _rows(coarse: HistoryTree, tree: HistoryTree, player: int) -> IntArray:
    """`[Q]` the abstract row of every row of the game."""
    infosets, buckets = tree.infosets[player], coarse.infosets[player]
    bucket = coarse.infoset[player, infosets.history]
    acts = np.nonzero(tree.infoset[player] >= 0)[0]
    apart = coarse.infoset[player, acts] != bucket[tree.infoset[player, acts]]
    if apart.any() or (bucket < 0).any() or (infosets.num_actions != buckets.num_actions[bucket]).any():
        raise ValueError(
            f"tree: an infoset of player {player} of {tree.game.name!r} lies in no bucket of "
            f"{coarse.game.name!r} or in several; enumerate both again"
        )
    slot = np.arange(infosets.num_sequences - 1) + 1 - infosets.first_sequence[infosets.infoset[1:]]
    return buckets.first_sequence[bucket[infosets.infoset[1:]]] + slot - 1
