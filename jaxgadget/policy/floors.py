"""Floors: the least probability of every action, for behaviourally constrained play and trembling hands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.public import Tree
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.arrays import FloatArray

Floors = float | Sequence[FloatArray]
"""ε for ε-uniform floors, or both players' arrays, as from `tremble`."""


def tremble(tree: Tree, epsilon: float, prior: PolicyLike | None = None) -> tuple[FloatArray, FloatArray]:
    """Floors ε·p at every infoset: with probability ε the hand trembles, and the player plays the prior p.

    Args:
      tree: the game, by histories or by hands.
      epsilon: probability of a tremble, in [0, 1).
      prior: policy of a trembling player, with one lane; uniform by default.

    Returns:
      For both players `[num_sequences - 1]`, in the order of `Policy.probabilities`.

    Raises:
      ValueError: if ε is out of range, or the prior has several lanes or is of another game.
    """
    if not is_finite_number(epsilon) or not 0 <= epsilon < 1:
        raise ValueError(f"epsilon={epsilon!r}: expected a number in [0, 1)")
    played = Policy.uniform(tree) if prior is None else as_policy(prior, tree, name="prior")
    if played.num_lanes != 1:
        raise ValueError(f"prior has {played.num_lanes} lanes; expected one, such as policy.lane(0)")
    first, second = (float(epsilon) * rows[:, 0] for rows in played.probabilities)
    return first, second


def check_floors(tree: Tree, floors: Floors) -> tuple[FloatArray, FloatArray]:
    """Both players' floors in float64.

    Raises:
      ValueError: if they are not a number in [0, 1), or two arrays of numbers ≥ 0 that fit the
        tree and sum to less than 1 at every infoset.
    """
    if isinstance(floors, str) or not isinstance(floors, Sequence):
        return tremble(tree, cast("float", floors))
    if len(floors) != 2:
        raise ValueError(f"floors: {len(floors)} arrays; expected player 0's and player 1's, or a number")
    pair: list[FloatArray] = []
    for player, infosets in enumerate(tree.infosets):
        rows, shape = np.asarray(floors[player], np.float64), (infosets.num_sequences - 1,)
        if rows.shape != shape:
            raise ValueError(
                f"floors of player {player} have shape {rows.shape}: expected {shape}, the actions of all "
                f"infosets of {tree.game.name}"
            )
        total = np.bincount(infosets.infoset[1:], rows, len(infosets))
        if not (np.isfinite(rows).all() and (rows >= 0).all() and (total < 1).all()):
            raise ValueError(
                f"floors of player {player} lie between {rows.min():.3g} and {rows.max():.3g} and sum to "
                f"at most {total.max():.3g} in an infoset: expected numbers >= 0 that sum to less than 1"
            )
        pair.append(rows)
    return pair[0], pair[1]
