"""Errors of alternative values, compared with explicit trees and linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import ContinuationValues, ResolvedValues
from jaxgadget.subgames.promises import find_promises
from tests.solving import settings
from tests.subgames.test_continuation import DRAWN, bound, drawn, explicit, masses
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
CUTS = [("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1")]
VALUE = (0.0, 0.0)
ROUGH = ResolvedValues(2)


def blueprints(tree: jg.HistoryTree) -> jg.Policy:
    return jg.Policy.stack([jg.Policy.dirichlet(tree, seed) for seed in (0, 1)])


@pytest.mark.parametrize(("name", "cut", "player"), [(*CUTS[0], 0), (*CUTS[1], 1)])
@pytest.mark.slow
def test_the_error_is_that_of_an_explicit_continuation(name: str, cut: str, player: int) -> None:
    check_error(name, cut, player)  # other players: tests/slow


def check_error(name: str, cut: str, player: int) -> None:
    """Roots have the value of best responses to the continuation; max-margin keeps both bounds."""
    tree, where, how = tree_of(name), jg.cut(tree_of(name), cut), {"player": player, "value": VALUE}
    blueprint = blueprints(tree)
    values = ContinuationValues(ROUGH, guard=False, iterations=20)
    found = jg.measure_promise(tree, cut, blueprint, values, progress=False, **how)
    promises = find_promises(tree, where, blueprint, (values,), player, "float64", False)
    promised = np.asarray(promises.continuations[0].values)
    gadgets: list[Any] = [
        jg.OptimalContinuation(jg.NoPrior()),
        jg.MaxMargin(jg.NoPrior(), alternative=jg.ArrayValues(promised)),
    ]
    refined = jg.refine(tree, cut, blueprint, gadgets, **settings(algorithm="lp", progress=False, **how))
    optimal, exploitability = refined.refined_exploitability.reshape(2, -1)
    np.testing.assert_allclose(found.optimal_exploitability, optimal, rtol=0, atol=1e-7)
    for lane in range(2):
        above, states = explicit(tree, where, refined.policy, player, lane)
        by_state = {s: part.worst_value(s, above.blueprint) for part in above.subgames for s in part.states}
        exact = np.array([by_state[state] for state in states])
        error = np.abs(promised[:, lane] - exact) / masses(above, states)
        assert found.delta[lane] == pytest.approx(error.max(), abs=1e-6)
    assert (found.delta > 1e-3).all()
    assert (exploitability <= found.bound + 1e-7).all()
    assert (found.bound <= found.theorem2_bound + 1e-7).all()
    np.testing.assert_allclose(
        found.theorem2_bound, found.optimal_exploitability + 2 * found.delta, rtol=0, atol=1e-12
    )


def test_exact_values_have_no_error() -> None:
    tree = tree_of("kuhn_poker")
    found = jg.measure_promise(tree, "depth:2", blueprints(tree), ContinuationValues(), progress=False)
    assert (found.delta < 1e-9).all()
    np.testing.assert_allclose(found.bound, found.optimal_exploitability, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "seed", "player"), [(*drawn, number % 2) for number, drawn in enumerate(DRAWN[::2])]
)
@pytest.mark.slow
def test_max_margin_keeps_the_bound_of_the_error(shape: str, seed: int, player: int) -> None:
    """Values of the optimal continuation with a given error: the error counts once."""
    tree, where, blueprint = drawn(shape, seed)
    promises = find_promises(tree, where, blueprint, (ContinuationValues(),), player, "float64", False)
    exact, mass = np.asarray(promises.continuations[0].values), promises.ranges.mass
    rng, size = np.random.default_rng(seed), 0.1 * tree.payoff_range
    estimated = exact + size * rng.choice([-1.0, 1.0, 0.5, 1.0], size=exact.shape) * mass
    gadget = jg.MaxMargin(jg.NoPrior(), alternative=jg.ArrayValues(estimated))
    how: dict[str, Any] = {"player": player, "algorithm": "lp", "progress": False}
    found = jg.refine(
        tree, where, blueprint, [jg.OptimalContinuation(jg.NoPrior()), gadget], **settings(**how)
    )
    value = (1 - 2 * player) * sum(found.game_value) / 2
    optimal, refined = found.refined_exploitability.reshape(2, -1)
    tolerance = 1e-6 * tree.payoff_range
    for lane in range(2):
        above, states = explicit(tree, where, blueprint, player, lane)
        most = value + bound(above, states, estimated[:, lane] - size * masses(above, states))
        assert refined[lane] <= most + tolerance
        assert most <= value + bound(above, states, estimated[:, lane]) + size + tolerance, "at most once"
        assert most <= optimal[lane] + 2 * size + tolerance, "Theorem 2"


def test_without_the_error_there_is_no_bound() -> None:
    """In some of these games max-margin gives the opponent more than a best response to the values."""
    more = 0.0
    for shape, seed in DRAWN[:4]:
        tree, where, blueprint = drawn(shape, seed)
        promises = find_promises(tree, where, blueprint, (ContinuationValues(),), 0, "float64", False)
        size = 0.1 * tree.payoff_range
        values = np.asarray(promises.continuations[0].values) + size * promises.ranges.mass
        gadget = jg.MaxMargin(jg.NoPrior(), alternative=jg.ArrayValues(values))
        found = jg.refine(tree, where, blueprint, gadget, solver=jg.Solver(algorithm="lp", progress=False))
        gets = found.refined_exploitability - sum(found.game_value) / 2
        more = max(more, float(((gets - promises.ranges.above.best_values(values)[2][0]) / size).max()))
    assert 0.5 < more <= 1 + 1e-6


def test_a_guard_changes_no_promise() -> None:
    tree = tree_of("kuhn_poker")
    how: dict[str, Any] = {"player": 1, "value": VALUE, "progress": False}
    guarded, bare = (
        jg.measure_promise(
            tree, "depth:2", blueprints(tree), ContinuationValues(ROUGH, guard=guard, iterations=20), **how
        )
        for guard in (True, False)
    )
    np.testing.assert_array_equal(guarded.delta, bare.delta)
    np.testing.assert_array_equal(guarded.bound, bare.bound)
