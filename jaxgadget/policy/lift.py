"""Policies between a game and its abstractions of either kind, in either direction, by the names of moves."""

from __future__ import annotations

import numpy as np

from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.tree.matching import match_histories, same_actions
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

_ROUNDING = 1e-12


def lift(policy: Policy, tree: HistoryTree, *, elsewhere: Policy | None = None) -> Policy:
    """A policy of an abstraction as a policy of the game itself, or of another abstraction of it.

    Histories are the same if their moves have the same names. An infoset takes the row of the infoset of the
    policy in which its histories lie: the bucket of an `Abstraction`, or the infoset where a
    `MenuAbstraction` has fewer actions. What the policy's infoset does not have is not played. Of what
    only the policy's infoset has, the rest is normalised, or uniform if there is none; so a policy of the
    game goes to its abstraction too.

    With an `Abstraction` both players' expected values stay what they were; best responses know more in the
    game, so NashConv may rise.

    Args:
      policy: all lanes are lifted and keep their labels.
      tree: of the game, or of an abstraction of the same game.
      elsewhere: what is played in infosets of which the policy has no history, in all lanes or lane by
        lane; by default all actions alike. `translate` plays there as near to the policy as it can.

    Raises:
      ValueError: if the trees are not of one game with other menus or other infosets, an infoset of the
        tree lies in several of the policy's, or `elsewhere` is of another tree or number of lanes.
    """
    check_tree(tree)
    filling = Policy.uniform(tree) if elsewhere is None else elsewhere.on(tree)
    if filling.num_lanes not in (1, policy.num_lanes):
        raise ValueError(
            f"elsewhere has {filling.num_lanes} lanes: expected one, or {policy.num_lanes} as the policy has"
        )
    match = match_histories(tree, policy.tree)
    first, second = (_lift_player(policy, tree, match, player, filling) for player in (0, 1))
    return Policy(tree, (first, second), policy.labels)


def _lift_player(
    policy: Policy, tree: HistoryTree, match: IntArray, player: int, filling: Policy
) -> FloatArray:
    """`[Q, lanes]` a player's rows."""
    infosets, rows = tree.infosets[player], filling.probabilities[player]
    infoset = infosets.infoset[1:]
    theirs = _matching_infosets(policy.tree, tree, match, player)
    row, has = _matching_rows(policy.tree, tree, theirs, player)
    if not has.any():
        return np.repeat(rows, policy.num_lanes, axis=1) if rows.shape[1] == 1 else rows
    lifted = np.where(has[:, None], policy.probabilities[player][row], 0.0)
    total = np.add.reduceat(lifted, infosets.first_sequence - 1, axis=0)[infoset]
    is_less = total < 1 - _ROUNDING  # rows that are whole stay as they are
    np.divide(lifted, total, out=lifted, where=is_less & (total > 0))
    lifted = np.where(total > 0, lifted, 1 / infosets.num_actions[infoset][:, None])
    return np.where((theirs >= 0)[infoset][:, None], lifted, rows)


def _matching_infosets(other: HistoryTree, tree: HistoryTree, match: IntArray, player: int) -> IntArray:
    """`[I]` the infoset of another tree in which every infoset's histories lie, -1 for none."""
    acts = np.nonzero((tree.infoset[player] >= 0) & (match >= 0))[0]
    infoset, theirs = tree.infoset[player, acts], other.infoset[player, match[acts]]
    found = np.full(len(tree.infosets[player]), -1, np.int64)
    found[infoset] = theirs
    if (found[infoset] != theirs).any():
        raise ValueError(
            f"tree: an infoset of player {player} of {tree.game.name!r} lies in several of "
            f"{other.game.name!r}; expected a tree whose players know at least as much as the policy's"
        )
    return found


def _matching_rows(
    other: HistoryTree, tree: HistoryTree, theirs: IntArray, player: int
) -> tuple[IntArray, BoolArray]:
    """`[Q]` another tree's row of every row with the same action, and whether there is one."""
    infosets, their_infosets = tree.infosets[player], other.infosets[player]
    width = other.game.num_actions
    action = same_actions(tree.game, other.game, player)[infosets.action[1:]]
    infoset = theirs[infosets.infoset[1:]]
    key = np.where((infoset >= 0) & (action >= 0), infoset * width + action, -1)
    their_key = their_infosets.infoset[1:].astype(np.int64) * width + their_infosets.action[1:]
    if len(their_key) == 0:
        return np.zeros(len(key), np.int64), np.zeros(len(key), np.bool_)
    row = np.minimum(np.searchsorted(their_key, key), len(their_key) - 1)
    return row, their_key[row] == key
