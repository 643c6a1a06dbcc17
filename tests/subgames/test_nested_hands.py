"""Nested search by hands is that of the histories, or refused."""

import re

import numpy as np
import pytest

from jaxgadget import (
    ArrayPrior,
    Full,
    HandsPolicy,
    MaxMargin,
    Resolving,
    hands_exploitability,
    nested_hands,
)
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.subgames.nested_hands import decisions
from tests.hands import alike
from tests.solving import settings

VALUE = (-1 / 18, -1 / 18)


def test_searches_are_those_of_the_histories():
    alike.check_nested("kuhn_poker", 1, [MaxMargin()])


def test_every_level_lies_below_the_one_before():
    game = alike.form("leduc_poker").game
    levels = decisions(game, 0)
    assert sum(map(len, levels)) == len(game.nodes.decisions(0))
    for number, nodes in enumerate(levels):
        for node in nodes.tolist():
            above = node
            count = 0
            while above:
                above = int(game.nodes.parent[above])
                count += game.nodes.actor[above] == ACTOR_BIT[0]
            assert count == number


def test_search_from_a_later_decision_on_leaves_the_first_alone():
    policy = HandsPolicy.uniform(alike.form("kuhn_poker"))
    asked = {"iterations": 20, "dtype": "float64", "value": VALUE}
    result = nested_hands(policy, Resolving(), first=1, **settings(**asked))
    tree = policy.game.nodes
    first = tree.parent[policy.form.children[0]] == 0
    before, after = policy.probabilities[0], result.policy.probabilities[0]
    np.testing.assert_array_equal(after[first], before[first])
    assert np.abs(after - before)[~first].max() > 0.1
    assert result.searches.tolist() == [1]
    assert repr(result) == "<NestedHands of kuhn_poker: 1 lane(s)>"
    again = hands_exploitability(result.policy, 0, value=VALUE)
    np.testing.assert_array_equal(result.nested_exploitability, again)
    assert result.nested_exploitability[0] < result.blueprint_exploitability[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"player": 2}, "player=2"),
        ({"first": -1}, "first=-1"),
        ({"first": 2}, "first=2: player 0 of kuhn_poker decides less often; expected at most 1"),
        ({"gadgets": Full()}, "gadgets: full requires"),
        ({"gadgets": Resolving(epsilon="auto")}, "epsilon='auto'"),
        ({"gadgets": MaxMargin(ArrayPrior(np.ones(4)))}, "ArrayPrior values of shape (4,): expected [3]"),
        ({"algorithm": "lp"}, "algorithm='lp' is unknown"),
        ({"value": (1.0, 0.0)}, "value=(1.0, 0.0)"),
        ({"memory_limit": 1000}, "1 lane(s) take 5.61 kB of memory, 1 kB may be taken"),
    ],
)
def test_bad_input(change: dict[str, object], expected: str):
    asked = {"gadgets": Resolving(), "iterations": 1, "value": VALUE} | change
    with pytest.raises(ValueError, match=re.escape(expected)):
        nested_hands(HandsPolicy.uniform(alike.form("kuhn_poker")), **settings(**asked))


def test_only_policies_by_hands():
    with pytest.raises(ValueError, match="expected a HandsPolicy"):
        nested_hands("uniform")
