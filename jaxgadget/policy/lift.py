"""Conversion of policies between a game and its abstractions, in both directions, by names of moves."""

from __future__ import annotations

import numpy as np

from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.matching import match_histories, same_actions
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

_ROUNDING = 1e-12


def lift(policy: Policy, tree: HistoryTree, *, elsewhere: Policy | None = None) -> Policy:
    """Converts a policy of an abstraction to the game itself, or to another abstraction of it.

    Histories correspond if their moves have the same names. An infoset gets the row of the policy's infoset
    that contains its histories: the bucket of an `Abstraction`, or the infoset with fewer actions of a
    `MenuAbstraction`. Actions that the policy lacks have probability 0. Actions that only the policy has are
    removed and the remaining probabilities normalised (uniform if none remain), so a policy of the game can
    be converted to its abstraction, too.

    With an `Abstraction` both players' expected values are unchanged; NashConv may rise, because best
    responses have more information in the game.

    Args:
      policy: the policy; all lanes are converted and keep their labels.
      tree: tree of the game, or of an abstraction of the same game.
      elsewhere: policy at infosets without histories in the policy's tree, with one lane or as many as the
        policy; uniform by default. `translate` extends the policy to these infosets instead.

    Raises:
      ValueError: if the games differ in more than menus and infosets, an infoset of the tree lies in several
        of the policy's, or `elsewhere` has another tree or number of lanes.
    """
    check_histories(tree)
    filling = Policy.uniform(tree) if elsewhere is None else elsewhere.on(tree)
    if filling.num_lanes not in (1, policy.num_lanes):
        raise ValueError(
            f"elsewhere has {filling.num_lanes} lanes; expected 1, or {policy.num_lanes} as the policy"
        )
    match = match_histories(tree, policy.histories)
    first, second = (_lift_player(policy, tree, match, player, filling) for player in (0, 1))
    return Policy(tree, (first, second), policy.labels)


def _lift_player(
    policy: Policy, tree: HistoryTree, match: IntArray, player: int, filling: Policy
) -> FloatArray:
    """`[Q, lanes]` a player's rows."""
    infosets, rows = tree.infosets[player], filling.probabilities[player]
    infoset = infosets.infoset[1:]
    theirs = _matching_infosets(policy.histories, tree, match, player)
    row, has = _matching_rows(policy.histories, tree, theirs, player)
    if not has.any():
        return np.repeat(rows, policy.num_lanes, axis=1) if rows.shape[1] == 1 else rows
    lifted = np.where(has[:, None], policy.probabilities[player][row], 0.0)
    total = np.add.reduceat(lifted, infosets.first_sequence - 1, axis=0)[infoset]
    is_less = total < 1 - _ROUNDING  # complete rows are unchanged
    np.divide(lifted, total, out=lifted, where=is_less & (total > 0))
    lifted = np.where(total > 0, lifted, 1 / infosets.num_actions[infoset][:, None])
    return np.where((theirs >= 0)[infoset][:, None], lifted, rows)


def _matching_infosets(other: HistoryTree, tree: HistoryTree, match: IntArray, player: int) -> IntArray:
    """`[I]` the infoset of another tree that contains each infoset's histories, -1 for none."""
    acts = np.nonzero((tree.infoset[player] >= 0) & (match >= 0))[0]
    infoset, theirs = tree.infoset[player, acts], other.infoset[player, match[acts]]
    matched = np.full(len(tree.infosets[player]), -1, np.int64)
    matched[infoset] = theirs
    if (matched[infoset] != theirs).any():
        raise ValueError(
            f"tree: an infoset of player {player} of {tree.game.name!r} lies in several of "
            f"{other.game.name!r}; expected a tree with infosets at least as fine as the policy's"
        )
    return matched


def _matching_rows(
    other: HistoryTree, tree: HistoryTree, theirs: IntArray, player: int
) -> tuple[IntArray, BoolArray]:
    """`[Q]` another tree's row with the same action, and a mask of rows that have one."""
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
