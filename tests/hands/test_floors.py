"""Floors by hands are those of the histories: the same iterates, gaps and exact solutions."""

import re
from typing import Any

import numpy as np
import pytest

from jaxgadget import HandsPolicy, solve, solve_hands, tremble, tremble_hands
from jaxgadget.hands.floors import check_hands_floors
from tests.hands import alike

KUHN = "kuhn_poker"


@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
@pytest.mark.parametrize("kind", ["number", "arrays"])
def test_solutions_are_those_of_the_histories(kind: str, algorithm: str):
    tree, form = alike.histories(KUHN), alike.form(KUHN)
    policy, by_hand = alike.random_policies(KUHN)
    theirs: Any = 0.1
    ours: Any = 0.1
    if kind == "arrays":
        theirs = tremble(tree, 0.2, policy.lane(0))
        ours = tremble_hands(form, 0.2, by_hand.lane(0))
    asked: dict[str, Any] = {"algorithm": algorithm, "iterations": 7}
    expected = solve(tree, floors=theirs, **asked)
    found = solve_hands(form, floors=ours, **asked)
    for name in ("value", "gap"):
        assert abs(getattr(found, name) - getattr(expected, name)) < 1e-12
    assert found.nash_conv > 0.01  # the floors bind
    if algorithm == "lp":
        assert found.gap < 1e-9
        assert "within the floors" in found.message
    else:
        alike.assert_same_policies(found.policy, expected.policy, KUHN)
        assert abs(found.nash_conv - expected.nash_conv) < 1e-12
    for rows, least in zip(found.policy.probabilities, check_hands_floors(form, ours), strict=True):
        assert (rows[:, :, 0] >= least - 1e-12).all()


def test_no_floors_change_nothing():
    plain, none = (solve_hands(alike.form(KUHN), iterations=5, floors=floors) for floors in (None, 0.0))
    assert plain.nash_conv == none.nash_conv == none.gap


def of_kuhn(first: float) -> tuple[np.ndarray, np.ndarray]:
    return np.full((4, 3), first), np.zeros((4, 3))


@pytest.mark.parametrize(
    ("floors", "expected"),
    [
        (1.0, "epsilon=1.0: expected a number in [0, 1)"),
        ("much", "epsilon='much': expected a number in [0, 1)"),
        ((np.zeros((4, 3)),), "floors: 1 arrays; expected player 0's and player 1's"),
        (
            (np.zeros((4, 3)), np.zeros(12)),
            "floors of player 1 have shape (12,): expected (4, 3), the actions at public nodes, and",
        ),
        (of_kuhn(0.5), "expected numbers >= 0 that sum to less than 1"),
        (of_kuhn(-0.1), "expected numbers >= 0 that sum to less than 1"),
    ],
)
def test_bad_floors(floors: Any, expected: str):
    with pytest.raises(ValueError, match=re.escape(expected)):
        solve_hands(alike.form(KUHN), iterations=1, floors=floors)


def test_bad_trembles():
    form = alike.form(KUHN)
    with pytest.raises(ValueError, match="prior has 3 lanes"):
        tremble_hands(form, 0.1, alike.random_policies(KUHN)[1])
    with pytest.raises(ValueError, match="prior is of leduc_poker"):
        tremble_hands(form, 0.1, HandsPolicy.uniform(alike.form("leduc_poker")))
