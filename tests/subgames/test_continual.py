"""Nested search with values of ranges: a trunk, then the subgames below it; two oracles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import ExactValues, FixedValues, NoPrior, Policy, ResolvedValues, Solver
from tests.solving import nested_search, settings
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
KUHN_VALUE = (-1 / 18, -1 / 18)


def nested(name: str, blueprint: Policy, gadgets: Any, **options: Any) -> jg.Nested:
    how: dict[str, Any] = {"iterations": 30, "dtype": "float64", "value": KUHN_VALUE, "progress": False}
    return nested_search(tree_of(name), blueprint, gadgets, **settings(**(how | options)))


@pytest.mark.slow
def test_with_resolved_values_it_is_cfr_d() -> None:
    check_cfr_d(0)  # player 1: tests/slow


def check_cfr_d(player: int) -> None:
    """Trunk and re-solved subgames, number by number, compared with the program of Burch et al. 2014."""
    tree = tree_of("kuhn_poker")
    found = nested(
        "kuhn_poker",
        Policy.uniform(tree),
        jg.Resolving(NoPrior()),
        values=ResolvedValues(7),
        limit="depth:1",
        player=player,
        iterations=12,
    )
    kept = jg.cfr_d(tree, "depth:1", solver=jg.Solver(iterations=12, progress=False), subgame_iterations=7)
    expected = kept.resolve(player, solver=Solver(iterations=12, progress=False))
    rows = found.policy.probabilities[player]
    np.testing.assert_allclose(rows, expected.probabilities[player], rtol=0, atol=1e-9)
    other = Policy.uniform(tree).probabilities[1 - player]
    np.testing.assert_array_equal(found.policy.probabilities[1 - player], other)
    after = jg.exploitability(found.policy, player, value=KUHN_VALUE)
    np.testing.assert_allclose(found.nested_exploitability, after, rtol=0, atol=1e-12)
    assert np.abs(rows - Policy.uniform(tree).probabilities[player]).max() > 0.1


@pytest.mark.parametrize("player", [0, 1])
def test_with_fixed_values_it_is_a_trunk_and_a_refinement(player: int) -> None:
    """Gadgets use the values of the search above, unless their alternative is set or unused."""
    tree, blueprint = tree_of("kuhn_poker"), Policy.dirichlet(tree_of("kuhn_poker"), 3)
    values = FixedValues(ExactValues(blueprint))
    trunk = jg.solve_trunk(
        tree,
        "depth:2",
        values,
        blueprint=blueprint,
        solver=jg.Solver(iterations=30, dtype="float64", progress=False),
    )
    above: Any = jg.ArrayValues(-trunk.values[1 - player])
    told: Any = jg.BlueprintValues()
    asked = [jg.Unsafe(), jg.Resolving(NoPrior()), jg.MaxMargin(jg.BlueprintPrior(), 0.1)]
    asked += [jg.Resolving(NoPrior(), alternative=told)]
    by_hand = [asked[0], jg.Resolving(NoPrior(), alternative=above)]
    by_hand += [jg.MaxMargin(jg.BlueprintPrior(), 0.1, above), asked[3]]
    found = nested("kuhn_poker", blueprint, asked, values=values, limit="depth:2", player=player)
    expected = jg.refine(
        tree,
        "depth:2",
        trunk.policy,
        by_hand,
        player=player,
        solver=jg.Solver(iterations=30, dtype="float64", progress=False),
        value=KUHN_VALUE,
    )
    np.testing.assert_allclose(
        found.policy.probabilities[player], expected.policy.probabilities[player], rtol=0, atol=1e-9
    )
    np.testing.assert_allclose(found.nested_exploitability, expected.refined_exploitability, atol=1e-9)
    np.testing.assert_allclose(found.gap_max, expected.gap.max(axis=0), rtol=0, atol=1e-9)
    own = jg.exploitability(blueprint, player, value=KUHN_VALUE)
    np.testing.assert_allclose(found.blueprint_exploitability, np.repeat(own, 4), rtol=0, atol=1e-12)
    assert [gadget.name for gadget in found.gadgets] == ["unsafe", "resolving", "max-margin", "resolving"]


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.slow
def test_with_equilibria_below_it_is_nearly_one(player: int) -> None:
    check_equilibria_below("kuhn_poker", 0.005, player)  # a larger game: tests/slow


def check_equilibria_below(name: str, most: float, player: int) -> None:
    """For any blueprint: the game is searched from its root. `most` is a share of the payoff range."""
    tree = tree_of(name)
    blueprints = Policy.stack([Policy.dirichlet(tree, seed) for seed in (0, 1)])
    value = KUHN_VALUE if name == "kuhn_poker" else (0.0, 0.0)
    how: dict[str, Any] = {
        "values": ResolvedValues(100),
        "limit": "depth:1",
        "iterations": 200,
        "value": value,
    }
    found = nested(name, blueprints, jg.Resolving(NoPrior()), player=player, **how)
    assert (found.nested_exploitability < most * tree.payoff_range).all()
    assert found.blueprint_exploitability.min() > 5 * found.nested_exploitability.max()
    np.testing.assert_allclose(*found.nested_exploitability, rtol=0, atol=1e-6)


class OfItsCut(ResolvedValues):
    """Range values bound to a cut, like those of networks."""

    cut = "depth:1"


@pytest.mark.slow
def test_the_limit_is_the_values_cut() -> None:
    blueprint = Policy.uniform(tree_of("kuhn_poker"))
    how: dict[str, Any] = {"iterations": 2}
    known = nested("kuhn_poker", blueprint, jg.Unsafe(), values=OfItsCut(2), **how)
    assert known.leaf == "OfItsCut at depth:1"
    other = nested("kuhn_poker", blueprint, jg.Unsafe(), values=OfItsCut(2), limit="depth:2", **how)
    assert other.leaf == "OfItsCut at depth:2"


@pytest.mark.slow
def test_subgames_may_be_searched_jointly() -> None:
    """The optimal continuation uses no alternative values, and is at least as good as the gadgets."""
    tree = tree_of("kuhn_poker")
    gadgets = [jg.OptimalContinuation(jg.NoPrior()), jg.Resolving(jg.NoPrior())]
    how: dict[str, Any] = {"values": ResolvedValues(20), "limit": "depth:1", "iterations": 500}
    joint, resolved = nested("kuhn_poker", Policy.uniform(tree), gadgets, **how).nested_exploitability
    assert joint <= resolved + 0.01


def test_values_of_histories_have_no_limit() -> None:
    tree = tree_of("kuhn_poker")
    values = ExactValues(Policy.uniform(tree))
    with pytest.raises(ValueError, match="limit="):
        nested("kuhn_poker", Policy.uniform(tree), jg.Unsafe(), values=values, limit="depth:1")
