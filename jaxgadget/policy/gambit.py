"""Policies as Gambit's behaviour profiles."""

from __future__ import annotations

import os

import numpy as np

from jaxgadget.policy.policy import PolicyLike, as_policy
from jaxgadget.tree.gambit import decimal, infoset_order
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.files import atomic_writer


def write_profile(
    policy: PolicyLike, path: str | os.PathLike[str], *, tree: HistoryTree | None = None
) -> None:
    """Writes strategies in the output format of Gambit's tools, atomically; one line per lane.

    A line has `NE` and the probabilities of all actions, separated by commas: by player, by infoset in
    the order of `write_efg`'s file, and by action.

    Args:
      policy: policy of the whole game.
      path: path of the file.
      tree: tree of the policy, required unless it is a `Policy`.

    Raises:
      ValueError: if it is not a policy, its tree is truncated, or the file cannot be written.
    """
    policy = as_policy(policy, tree)
    check_whole(policy.tree)
    columns: list[np.ndarray] = []
    for player, infosets in enumerate(infoset_order(policy.histories)):
        first = policy.tree.infosets[player].first_sequence - 1
        counts = policy.tree.infosets[player].num_actions
        rows = [np.arange(first[k], first[k] + counts[k]) for k in infosets]
        columns.append(policy.probabilities[player][np.concatenate([*rows, np.zeros(0, np.int64)])])
    with atomic_writer(path) as file:
        for lane in np.concatenate(columns).T.tolist():
            file.write(",".join(["NE", *map(decimal, lane)]).encode() + b"\n")
