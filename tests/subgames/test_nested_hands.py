"""Nested search in a `PublicTree` gives the results of that in the histories."""

import functools

import numpy as np
import numpy.typing as npt
import pytest

from jaxgadget import (
    ExactValues,
    Full,
    Knowledge,
    Lookahead,
    MaxMargin,
    NoPrior,
    Opponent,
    OptimalContinuation,
    OptimalValues,
    Policy,
    Resolving,
    make_portfolio,
)
from jaxgadget.subgames.leaves import HistoryLeaf
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.public import Tree
from jaxgadget.util.arrays import FloatArray, IntArray
from tests.hands import alike
from tests.solving import nested_search

VALUE = (-1 / 18, -1 / 18)


def test_searches_are_those_of_the_histories():
    alike.check_nested("kuhn_poker", 1, [MaxMargin(), Resolving(epsilon=0.02)])


def test_gadgets_with_a_trunk_search_a_level_jointly():
    alike.check_nested("kuhn_poker", 1, [Full(NoPrior()), OptimalContinuation(NoPrior())])


@pytest.mark.slow
def test_responses_to_models():
    opponents = [Opponent(Policy.dirichlet(alike.histories("kuhn_poker"), 5), [0.3, 1.0])]
    by_hands = [Opponent(opponents[0].model.on(alike.public("kuhn_poker")), [0.3, 1.0])]  # pyright: ignore
    uniform = Policy.uniform(alike.histories("kuhn_poker"))
    search = functools.partial(nested_search, iterations=50, dtype="float64", value=VALUE)
    expected = search(uniform.tree, uniform, opponent=opponents)
    result = search(alike.public("kuhn_poker"), uniform.on(alike.public("kuhn_poker")), opponent=by_hands)
    for name in ("gain", "best_response_gain", "objectives", "nested_exploitability", "exploitability_bound"):
        np.testing.assert_allclose(getattr(result, name), getattr(expected, name), rtol=0, atol=1e-9)
    assert np.isfinite(result.gain).all() and result.gain.max() > 0.1


@pytest.mark.slow
def test_optimal_values_at_a_limit():
    alike.check_nested(
        "kuhn_poker",
        0,
        [OptimalContinuation(NoPrior())],
        1e-9,
        values=OptimalValues(),
        limit="moves",
        depth=1,
    )


@pytest.mark.parametrize("tree", [alike.histories("kuhn_poker"), alike.public("kuhn_poker")], ids=str)
def test_search_from_a_later_decision_leaves_the_first_one(tree: Tree):
    uniform = Policy.uniform(tree)
    result = nested_search(tree, uniform, Resolving(), first=1, iterations=20, dtype="float64", value=VALUE)
    infosets = tree.infosets[0]
    is_first = (infosets.depth == 0)[infosets.infoset[1:]]
    before, after = uniform.probabilities[0], result.policy.probabilities[0]
    np.testing.assert_array_equal(after[is_first], before[is_first])
    assert np.abs(after - before)[~is_first].max() > 0.1
    assert result.searches.tolist() == [1]
    assert result.nested_exploitability[0] < result.blueprint_exploitability[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"first": 2}, "first=2"),
        ({"knowledge": Knowledge()}, "HistoryTree"),
        ({"values": OptimalValues(), "opponent": Opponent("uniform", 0.5)}, "HistoryTree"),
    ],
)
def test_bad_input(change: dict[str, object], expected: str):
    if "opponent" in change:
        change["opponent"] = Opponent(Policy.uniform(alike.public("kuhn_poker")), 0.5)
    uniform = Policy.uniform(alike.public("kuhn_poker"))
    with pytest.raises(ValueError, match=expected):
        nested_search(
            uniform.tree, uniform, **({"gadgets": Resolving(), "iterations": 1, "value": VALUE} | change)
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": -1},
        {"depth": 0, "values": OptimalValues()},
        {"step": 0},
        {"first": 1, "limit": "moves", "values": OptimalValues()},
    ],
    ids=str,
)
def test_wrong_lookaheads(wrong: dict[str, object]):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Lookahead(**wrong)  # pyright: ignore[reportArgumentType]


class Doubled(HistoryLeaf):
    """A user-defined leaf of lookaheads."""

    def payoffs(self, tree: HistoryTree, histories: IntArray, dtype: npt.DTypeLike) -> FloatArray:
        return 2 * super().payoffs(tree, histories, dtype)


def test_a_user_defined_leaf():
    uniform = Policy.uniform(alike.histories("kuhn_poker"))
    search = functools.partial(nested_search, uniform.tree, uniform, Resolving(), iterations=20, value=VALUE)
    values = ExactValues(make_portfolio(uniform, size=2))
    expected, same, doubled = (search(values=v) for v in (values, HistoryLeaf(values), Doubled(values)))
    np.testing.assert_array_equal(same.policy.probabilities[0], expected.policy.probabilities[0])
    assert np.abs(doubled.policy.probabilities[0] - expected.policy.probabilities[0]).max() > 1e-3
