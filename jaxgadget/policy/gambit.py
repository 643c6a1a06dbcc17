"""Policies as Gambit's behaviour profiles."""

from __future__ import annotations

import os

import numpy as np

from jaxgadget.policy.policy import Policy, check_policy
from jaxgadget.tree.gambit import decimal, infoset_order
from jaxgadget.tree.history import check_whole
from jaxgadget.util.files import atomic_writer


def write_profile(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Writes strategies as Gambit's tools print them, atomically; a line a lane.

    A line is `NE` and the probabilities of all actions, with commas between them: by player, by infoset in
    the order of `write_efg`'s file, and by action.

    Args:
      policy: for the whole game.
      path: of the file.

    Raises:
      ValueError: if it is no policy, its tree is truncated, or the file cannot be written.
    """
    check_policy(policy)
    check_whole(policy.tree)
    columns: list[np.ndarray] = []
    for player, infosets in enumerate(infoset_order(policy.tree)):
        first = policy.tree.infosets[player].first_sequence - 1
        counts = policy.tree.infosets[player].num_actions
        rows = [np.arange(first[k], first[k] + counts[k]) for k in infosets]
        columns.append(policy.probabilities[player][np.concatenate([*rows, np.zeros(0, np.int64)])])
    with atomic_writer(path) as file:
        for lane in np.concatenate(columns).T.tolist():
            file.write(",".join(["NE", *map(decimal, lane)]).encode() + b"\n")
