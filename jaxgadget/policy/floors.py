"""Floors: the least probability of every action, for behaviourally constrained play and trembling hands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.arrays import FloatArray

Floors = float | Sequence[FloatArray]
"""ε for ε-uniform floors, or both players' arrays, as `tremble` and `tremble_hands` make them."""


def tremble(
    tree: HistoryTree, epsilon: float, prior: PolicyLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Floors ε·p at every infoset: with probability ε the hand trembles, and then p is played.

    Args:
      tree: the game's histories.
      epsilon: how likely that is, in [0, 1).
      prior: what is played then, one lane; by default all legal actions alike.

    Returns:
      For both players `[num_sequences - 1]`, in the order of `Policy.probabilities`.

    Raises:
      ValueError: if ε is out of range, or the prior has several lanes or is of another game.
    """
    share = check_trembling(epsilon)
    played = Policy.uniform(tree) if prior is None else as_policy(prior, tree, name="prior")
    if played.num_lanes != 1:
        raise ValueError(f"prior has {played.num_lanes} lanes: expected one; pick it by policy.lane(k)")
    first, second = (share * rows[:, 0] for rows in played.probabilities)
    return first, second


def check_floors(tree: HistoryTree, floors: Floors) -> tuple[FloatArray, FloatArray]:
    """Both players' floors.

    Raises:
      ValueError: if they are not a number in [0, 1), or two arrays of numbers ≥ 0 that fit the
        tree and sum to less than 1 at every infoset.
    """
    if isinstance(floors, str) or not isinstance(floors, Sequence):
        return tremble(tree, cast("float", floors))
    sizes = [(infosets.num_sequences - 1,) for infosets in tree.infosets]

    def add_up(player: int, given: FloatArray) -> FloatArray:
        infosets = tree.infosets[player]
        return np.bincount(infosets.infoset[1:], given, len(infosets)).astype(np.float64)

    return check_floor_rows(floors, sizes, f"the actions of all infosets of {tree.game.name}", add_up)


def check_trembling(epsilon: float) -> float:
    """ValueError unless a number in [0, 1): how likely a hand trembles."""
    if not is_finite_number(epsilon) or not 0 <= epsilon < 1:
        raise ValueError(f"epsilon={epsilon!r}: expected a number in [0, 1)")
    return float(epsilon)


def check_floor_rows(
    floors: Sequence[FloatArray],
    shapes: Sequence[tuple[int, ...]],
    what: str,
    add_up: Callable[[int, FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Both players' floors in float64.

    Args:
      floors: of both.
      shapes: what is expected of both.
      what: there is a number for.
      add_up: a player's floors summed over the actions of every infoset.

    Raises:
      ValueError: if they are no numbers ≥ 0 of these shapes that sum to less than 1 at every infoset.
    """
    if len(floors) != 2:
        raise ValueError(f"floors: {len(floors)} arrays; expected player 0's and player 1's, or a number")
    pair: list[FloatArray] = []
    for player in (0, 1):
        given = np.asarray(floors[player], np.float64)
        if given.shape != shapes[player]:
            raise ValueError(
                f"floors of player {player} have shape {given.shape}: expected {shapes[player]}, {what}"
            )
        total = add_up(player, given)
        if not (np.isfinite(given).all() and (given >= 0).all() and (total < 1).all()):
            raise ValueError(
                f"floors of player {player} lie between {given.min():.3g} and {given.max():.3g} and sum to "
                f"at most {total.max():.3g} in an infoset: expected numbers >= 0 that sum to less than 1"
            )
        pair.append(given)
    return pair[0], pair[1]
