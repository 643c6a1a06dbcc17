"""A model of an opponent from hands that were observed."""

from __future__ import annotations

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
    """What a player seems to play, from hands that were played to the end and seen in full.

    At every infoset the mean of a Dirichlet posterior: counts of its actions, and a prior policy counted as
    often as `strength` says. Where nothing was observed it is the prior.

    Args:
      tree: the game's histories.
      ends: terminal histories, of any shape, such as `play_matches(…).ends[pair, seating]`.
      player: 0 or 1, who was observed.
      prior: a policy of one lane; by default all actions alike. The other player's rows are its.
      strength: how many observations the prior is worth at each infoset.

    Raises:
      ValueError: if something is no terminal history of the tree, the prior has several lanes, or `strength`
        is not a positive number.
    """
    check_whole(tree)
    check_player(player)
    terminals = _check_ends(tree, ends)
    if not is_finite_number(strength) or strength <= 0:
        raise ValueError(f"strength={strength!r}: expected a positive number, observations at each infoset")
    before = Policy.uniform(tree) if prior is None else as_policy(prior, tree, name="prior")
    if before.num_lanes != 1:
        raise ValueError(f"prior has {before.num_lanes} lanes: expected one; pick it by policy.lane(k)")
    infosets = tree.infosets[player]
    count = np.bincount(tree.sequence[player, terminals], minlength=infosets.num_sequences).astype(np.float64)
    for infoset in np.argsort(-infosets.depth, kind="stable").tolist():  # what came later had come this way
        first, actions = int(infosets.first_sequence[infoset]), int(infosets.num_actions[infoset])
        count[infosets.parent[infoset]] += count[first : first + actions].sum()
    rows = strength * before.probabilities[player][:, 0] + count[1:]
    total = np.bincount(infosets.infoset[1:], rows, minlength=len(infosets))
    estimated = (rows / total[infosets.infoset[1:]])[:, None]
    other = before.probabilities[1 - player]
    pair = (estimated, other) if player == 0 else (other, estimated)
    return Policy(tree, pair, (f"{terminals.size} hands",))


def _check_ends(tree: HistoryTree, ends: Any) -> IntArray:
    """Terminal histories in a row, or ValueError."""
    given = np.asarray(ends)
    if given.size == 0:
        return np.zeros(0, np.int64)
    if given.dtype.kind not in "iu":
        raise ValueError(f"ends of type {given.dtype}: expected terminal histories, whole numbers")
    known = np.isin(given, tree.terminals)
    if not known.all():
        wrong = int(given[~known].flat[0])
        raise ValueError(f"ends has {wrong}, which is no terminal history of {tree.game.name}")
    return given.ravel().astype(np.int64)
