"""Values and best responses by hands are those of the histories."""

import re

import numpy as np
import pytest

from jaxgadget import exploitability
from jaxgadget.hands import evaluate
from jaxgadget.hands.evaluate import (
    best_hands_response,
    evaluate_hands,
    hands_exploitability,
    hands_value,
)
from jaxgadget.hands.policy import HandsPolicy
from tests.hands import alike

KUHN_VALUE = -1 / 18


@pytest.mark.parametrize("spec", alike.QUICK)
def test_values_and_best_responses(spec: str):
    alike.check_evaluation(spec)


def test_lanes_are_evaluated_some_at_a_time(monkeypatch: pytest.MonkeyPatch):
    _, by_hand = alike.random_policies("kuhn_poker")
    expected = evaluate_hands(by_hand).best_response_values
    monkeypatch.setattr(evaluate, "EVALUATION_SIZE", 180)  # two lanes of 90 sequences
    np.testing.assert_array_equal(evaluate_hands(by_hand).best_response_values, expected)
    for lane in range(3):
        alone = evaluate_hands(by_hand.lane(lane)).best_response_values[:, 0]
        np.testing.assert_allclose(alone, expected[:, lane], rtol=0, atol=1e-15)


def test_exploitability_is_that_of_the_histories():
    policy, by_hand = alike.random_policies("kuhn_poker")
    bracket = KUHN_VALUE - 0.01, KUHN_VALUE + 0.01
    for player in (0, 1):
        np.testing.assert_allclose(
            hands_exploitability(by_hand, player, value=bracket),
            exploitability(policy, player, value=bracket),
            rtol=0,
            atol=1e-14,
        )


def test_the_value_is_bracketed():
    low, high = hands_value(alike.form("kuhn_poker"), tolerance=1e-3)
    assert low <= KUHN_VALUE <= high <= low + 4e-3
    uniform = HandsPolicy.uniform(alike.form("kuhn_poker"))
    exact = hands_exploitability(uniform, 0, value=(KUHN_VALUE, KUHN_VALUE))
    assert abs(hands_exploitability(uniform, 0) - exact) < 1e-5


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda policy: best_hands_response(policy, 2), "player=2"),
        (lambda policy: hands_exploitability(policy, 0, value=(1.0, 0.0)), "value=(1.0, 0.0)"),
        (lambda policy: hands_value(policy.form, tolerance=-1), "tolerance=-1"),
        (lambda policy: hands_value(policy.form, iterations=0), "iterations=0"),
        (lambda policy: hands_exploitability(policy, 0, value=0.5), "value=0.5: expected (low, high)"),
        (lambda policy: hands_exploitability(policy.form, 0), "policy=a HandsForm: expected a HandsPolicy"),
        (lambda policy: best_hands_response(policy.game, 0), "policy=a HandsGame: expected a HandsPolicy"),
        (lambda policy: evaluate_hands("uniform"), "policy=a str: expected a HandsPolicy"),
    ],
)
def test_bad_input(call, expected: str):
    with pytest.raises(ValueError, match=re.escape(expected)):
        call(HandsPolicy.uniform(alike.form("kuhn_poker")))
