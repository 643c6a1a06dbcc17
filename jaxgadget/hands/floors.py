"""Floors by hands: the least probability of every action at every public node with every hand."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import cast

from jaxgadget.games.game import Game
from jaxgadget.games.hands import HandsGame
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy, as_form, check_hands_policy, sum_siblings
from jaxgadget.policy.floors import Floors, check_floor_rows, check_trembling
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray


def tremble_hands(
    game: Game | HistoryTree | HandsGame | HandsForm, epsilon: float, prior: HandsPolicy | None = None
) -> tuple[FloatArray, FloatArray]:
    """Floors ε·p at every public node with every hand; see `tremble`.

    Args:
      game: see `by_hands`, or its form.
      epsilon: how likely the hand trembles, in [0, 1).
      prior: what is played then, one lane; by default all actions alike.

    Returns:
      For both players `[C, H]`, in the order of `HandsPolicy.probabilities`.

    Raises:
      ValueError: if ε is out of range, or the prior has several lanes or is of another game.
    """
    share, form = check_trembling(epsilon), as_form(game)
    played = HandsPolicy.uniform(form) if prior is None else prior
    check_hands_policy(played)
    if played.num_lanes != 1:
        raise ValueError(f"prior has {played.num_lanes} lanes: expected one; pick it by policy.lane(k)")
    if played.game.name != form.game.name:
        raise ValueError(f"prior is of {played.game.name}: expected a policy by hands of {form.game.name}")
    first, second = (share * rows[:, :, 0] for rows in played.probabilities)
    return first, second


def check_hands_floors(form: HandsForm, floors: Floors) -> tuple[FloatArray, FloatArray]:
    """Both players' floors `[C, H]`.

    Raises:
      ValueError: if they are not a number in [0, 1), or two arrays of numbers ≥ 0 that fit the game and sum
        to less than 1 at every public node with every hand.
    """
    if isinstance(floors, str) or not isinstance(floors, Sequence):
        return tremble_hands(form, cast("float", floors))
    what, shapes = (
        f"the actions at public nodes, and the hands, of {form.game.name}",
        [(len(form.children[player]), form.game.num_hands[player]) for player in (0, 1)],
    )
    return check_floor_rows(floors, shapes, what, functools.partial(sum_siblings, form))


def floor_bodies(form: HandsForm, floors: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Floors in the order of the form's treeplexes, `[Q × H]`."""
    first, second = (rows[order].ravel() for rows, order in zip(floors, form.rows, strict=True))
    return first, second
