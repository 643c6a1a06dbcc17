"""A model of an opponent from observed hands."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_player, is_finite_number
from jaxgadget.util.arrays import IntArray


def estimate_policy(
    tree: HistoryTree,
    ends: npt.NDArray[np.integer],
    player: int,
    *,
    prior: PolicyLike | None = None,
    strength: float = 1.0,
) -> Policy:
    """Estimates a player's policy from hands that were played to the end and fully observed.

    The estimate is the mean of a Dirichlet posterior at every infoset: counts of actions plus a prior policy
    with the weight of `strength` observations. Infosets without observations keep the prior.

    Args:
      tree: the game's histories.
      ends: terminal histories, of any shape, such as `play_matches(…).ends[pair, seating]`.
      player: the observed player, 0 or 1.
      prior: a policy with one lane, also the source of the other player's rows; by default uniform.
      strength: weight of the prior at each infoset, in observations.

    Raises:
      ValueError: if a history is not a terminal one of the tree, the prior has several lanes, or `strength`
        is not a positive number.
    """
    check_whole(tree)
    check_player(player)
    terminals = _check_ends(tree, ends)
    if not is_finite_number(strength) or strength <= 0:
        raise ValueError(f"strength={strength!r}: expected a positive number of observations at each infoset")
    before = Policy.uniform(tree) if prior is None else as_policy(prior, tree, name="prior")
    if before.num_lanes != 1:
        raise ValueError(f"prior has {before.num_lanes} lanes; expected one, such as policy.lane(0)")
    infosets = tree.infosets[player]
    count = np.bincount(tree.sequence[player, terminals], minlength=infosets.num_sequences).astype(np.float64)
    for infoset in np.argsort(-infosets.depth, kind="stable").tolist():  # deepest first
        first, actions = int(infosets.first_sequence[infoset]), int(infosets.num_actions[infoset])
        count[infosets.parent[infoset]] += count[first : first + actions].sum()
    rows = strength * before.probabilities[player][:, 0] + count[1:]
    total = np.bincount(infosets.infoset[1:], rows, minlength=len(infosets))
    estimated = (rows / total[infosets.infoset[1:]])[:, None]
    return dataclasses.replace(before.with_player(player, estimated), labels=(f"{terminals.size} hands",))


def _check_ends(tree: HistoryTree, ends: Any) -> IntArray:
    """Terminal histories in a flat array; raises ValueError for others."""
    array = np.asarray(ends)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"ends of type {array.dtype}: expected terminal histories, whole numbers")
    is_terminal = np.isin(array, tree.terminals)
    if not is_terminal.all():
        wrong = int(array[~is_terminal].flat[0])
        raise ValueError(f"ends has {wrong}, which is no terminal history of {tree.game.name}")
    return array.ravel().astype(np.int64)
