"""Policies by hands: rows, frames, files, and the same in the enumerated game."""

import pathlib
import re

import numpy as np
import pytest

from jaxgadget import Policy, load
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.tree.hands import find_hands
from jaxgadget.tree.history import enumerate_game
from tests.hands import alike


@pytest.mark.parametrize("spec", alike.QUICK)
def test_policies_come_back_from_the_other_form(spec: str):
    policy, by_hand = alike.random_policies(spec)
    alike.assert_same_policies(by_hand, policy, spec, 0.0)
    uniform = HandsPolicy.uniform(alike.form(spec))
    alike.assert_same_policies(uniform, Policy.uniform(policy.tree), spec, 0.0)
    bodies = HandsPolicy.of_bodies(by_hand.form, by_hand.bodies(), by_hand.labels)
    for one, other in zip(bodies.probabilities, by_hand.probabilities, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-15)


def test_rows_of_kuhn():
    policy, by_hand = alike.random_policies("kuhn_poker")
    tree = by_hand.game.nodes
    pass_bet = next(node for node in range(len(tree)) if tree.moves(node) == (0, 1))
    expected = policy.lane(2).action_probabilities("1pb")
    assert by_hand.action_probabilities(pass_bet, 1, lane=2) == pytest.approx(dict(expected), abs=1e-15)
    frame = by_hand.to_frame(2)
    assert len(frame) == 24
    rows = frame[(frame.player == 0) & (frame.public == "Pass Bet") & (frame.hand == "1")]
    assert dict(zip(rows.action, rows.probability, strict=True)) == pytest.approx(
        {"Pass": expected[0], "Bet": expected[1]}, abs=1e-15
    )


def test_frames_leave_out_hands_that_are_impossible():
    frame = HandsPolicy.uniform(alike.form("leduc_poker")).to_frame()
    shown = frame[frame.public == "Call Call 5"]
    assert sorted(shown.hand.unique()) == ["0", "1", "2", "3", "4"]
    assert shown.probability.unique().tolist() == [0.5]


def test_files(tmp_path: pathlib.Path):
    _, by_hand = alike.random_policies("kuhn_poker")
    file = tmp_path / "policy.npz"
    by_hand.save(file)
    again = HandsPolicy.load(file, by_hand.form)
    assert again.labels == by_hand.labels
    for one, other in zip(again.probabilities, by_hand.probabilities, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="is of 'kuhn_poker'; expected one of 'leduc_poker'"):
        HandsPolicy.load(file, load("leduc_poker"))
    with pytest.raises(ValueError, match="does not exist"):
        HandsPolicy.load(tmp_path / "none.npz", by_hand.form)
    Policy.uniform(enumerate_game(load("kuhn_poker"))).save(file)
    with pytest.raises(ValueError, match="expected 'jaxgadget policy by hands'"):
        HandsPolicy.load(file, by_hand.form)
    file.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(ValueError, match="damaged"):
        HandsPolicy.load(file, by_hand.form)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x[:, :2], "shape (4, 2, 1): expected (4, 3, 1)"),
        (lambda x: x * 0.9, "hand '0' at 'the first move', lane 'uniform', sum to 0.9"),
        (lambda x: x * [[[3]], [[-1]], [[1]], [[1]]], "or are negative"),
        (lambda x: x * np.nan, "sum to nan"),
    ],
)
def test_wrong_rows(change, expected: str):
    uniform = HandsPolicy.uniform(load("kuhn_poker"))
    with pytest.raises(ValueError, match=re.escape(expected)):
        HandsPolicy(uniform.form, (change(uniform.probabilities[0]), uniform.probabilities[1]), ("uniform",))


def test_other_games_and_nodes_are_refused():
    _, by_hand = alike.random_policies("kuhn_poker")
    with pytest.raises(ValueError, match="other hands or public nodes"):
        by_hand.to_policy(alike.found("leduc_poker"))
    with pytest.raises(ValueError, match="is for 'kuhn_poker', not for 'leduc_poker'"):
        HandsPolicy.from_policy(alike.random_policies("kuhn_poker")[0], alike.found("leduc_poker"))
    with pytest.raises(ValueError, match="node=3: expected a public node"):
        by_hand.action_probabilities(3, 0)
    with pytest.raises(ValueError, match="hand=3: player 0 of kuhn_poker has 3 hands"):
        by_hand.action_probabilities(0, 3)


def test_a_policy_of_another_enumeration_will_do():
    policy, by_hand = alike.random_policies("kuhn_poker")
    other = find_hands(enumerate_game(load("kuhn_poker")))
    for one, same in zip(
        HandsPolicy.from_policy(policy, other).probabilities, by_hand.probabilities, strict=True
    ):
        np.testing.assert_array_equal(one, same)
