"""Opponents as data: their fields and lanes."""

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.opponents.opponent import Opponent, list_opponents
from tests.solving import nested_exactly


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"p": 0.5}, "without a model"),
        ({"p": (0.5, -0.1)}, "expected a number in"),
        ({"p": ()}, "expected a number in"),
        ({"beyond": "the sea"}, "expected 'rational' or 'model'"),
        ({"model": ["uniform", "uniformly"]}, "model 'uniformly' is unknown"),
    ],
)
def test_opponents_that_make_no_sense_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Opponent(**arguments)


def test_models_are_crossed_with_p_one_opponent_after_the_other() -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    models = jg.Policy.stack([jg.Policy.uniform(tree), jg.Policy.geometric(tree, 0.5)])
    opponents = list_opponents([Opponent(models, (0.25, 1)), Opponent()], tree)
    assert opponents.p.tolist() == [0.25, 1, 0.25, 1, 0]
    assert opponents.labels == ("uniform", "uniform", "geometric:0.5", "geometric:0.5", None)
    assert opponents.model.tolist() == [0, 0, 1, 1, 2]
    assert opponents.policy.num_lanes == len(opponents) == 5
    np.testing.assert_array_equal(opponents.policy.probabilities[1][:, 3], models.probabilities[1][:, 1])
    assert not opponents.adapt
    assert list_opponents(Opponent(), tree).adapt


def test_specs_are_made_for_the_tree() -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    opponents = list_opponents([Opponent(["uniform", "geometric:0.5"], 0.5), Opponent("uniform", 1)], tree)
    assert opponents.labels == ("uniform", "geometric:0.5", "uniform")
    expected = jg.Policy.stack([jg.Policy.uniform(tree), jg.Policy.geometric(tree, 0.5)])
    np.testing.assert_array_equal(opponents.policy.probabilities[1][:, :2], expected.probabilities[1])


def test_a_model_that_is_given_again_is_the_same() -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    models = jg.Policy.stack([jg.Policy.uniform(tree), jg.Policy.geometric(tree, 0.5)])
    other = jg.Policy.dirichlet(tree, 0)
    opponents = list_opponents([Opponent(models, 0.5), Opponent(other, 0.5), Opponent(models, (0, 1))], tree)
    assert opponents.models.labels == ("uniform", "geometric:0.5", "dirichlet:0")
    assert opponents.model.tolist() == [0, 1, 2, 0, 0, 1, 1]
    assert opponents.p.tolist() == [0.5, 0.5, 0.5, 0, 1, 0, 1]


def test_a_model_of_another_game_a_policy_alone_and_nothing_are_refused() -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    other = jg.enumerate_game(jg.load("matching_pennies_twist"))
    for given, told in (
        (Opponent(jg.Policy.uniform(other), 0.5), "not for 'kuhn_poker'"),
        (jg.Policy.uniform(tree), "expected Opponent"),
        ([], "expected Opponent"),
    ):
        with pytest.raises(ValueError, match=told):
            list_opponents(given, tree)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [(-0.3, 0.3), (-1 / 18, -1 / 18), (-1, 0)])
def test_the_bound_holds_wherever_in_its_bracket_the_value_is(value: tuple[float, float]) -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    against = Opponent(jg.Policy.uniform(tree), (0, 1e-6, 0.5, 0.99))
    whole = jg.respond(tree, against, algorithm="lp", value=value)
    assert (whole.exploitability <= whole.exploitability_bound + 1e-9).all()
    joint = nested_exactly(tree, opponent=against, depth=2, value=value)
    assert (joint.nested_exploitability <= joint.exploitability_bound + 1e-9).all()
    assert len(whole.gain) == len(joint.gain) == 4


def test_different_probabilities_have_different_labels() -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    uniform = jg.Policy.uniform(tree)
    near = (0.5, 0.5 + 1e-9, 1e-12, 1)
    told = list_opponents([Opponent(uniform, near), Opponent(uniform, 0.5, "model"), Opponent()], tree)
    assert [told.describe(number) for number in range(len(told))] == [
        "against uniform with p = 0.5",
        "against uniform with p = 0.500000001",
        "against uniform with p = 1e-12",
        "against uniform with p = 1",
        "against uniform with p = 0.5, followed beyond the limit, too",
        "",
    ]
