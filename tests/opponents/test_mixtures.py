"""Mixtures of strategies: of whole plans, and per decision."""

from __future__ import annotations

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import Policy
from tests.policy.test_exact import kuhn, players, strategy
from tests.reference import efg
from tests.reference.random_games import SHAPES, random_tree

P = (0.0, 0.25, 0.6, 1.0)


@players
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_plans_are_linear_against_a_model_and_convex_against_any_opponent(shape: str, player: int) -> None:
    tree, game = random_tree(shape, 1)
    first, second, model = (Policy.dirichlet(tree, seed, 0.4) for seed in range(3))
    values: list[tuple[float, float]] = []
    for policy in (first, second, *(jg.mix(first, second, P).lane(k) for k in range(len(P)))):
        rows = {**strategy(model), **{k: v for k, v in strategy(policy).items() if k[0] == player}}
        against_model = efg.sign(player) * efg.value(game.root, rows)
        values.append((against_model, -efg.best_response_value(game.root, 1 - player, rows)))
    (one, one_least), (other, other_least), *mixed = values
    for p, (against_model, least) in zip(P, mixed, strict=True):
        assert against_model == pytest.approx(p * one + (1 - p) * other, abs=1e-12)
        assert least >= p * one_least + (1 - p) * other_least - 1e-12


def test_plans_are_realisation_plans_and_decisions_are_rows() -> None:
    tree, _ = kuhn()
    first, second = Policy.dirichlet(tree, 1), Policy.dirichlet(tree, 2)
    plans, decisions = jg.mix(first, second, 0.3), jg.mix(first, second, 0.3, how="decisions")
    for player in (0, 1):
        np.testing.assert_allclose(
            plans.reach(player), 0.3 * first.reach(player) + 0.7 * second.reach(player), atol=1e-15
        )
        np.testing.assert_allclose(
            decisions.probabilities[player],
            0.3 * first.probabilities[player] + 0.7 * second.probabilities[player],
            atol=1e-15,
        )
    assert not np.allclose(plans.probabilities[0], decisions.probabilities[0])


def test_decisions_are_not_linear() -> None:
    """Player 0 of Kuhn poker acts twice: mixing rows differs from mixing plans."""
    tree, root = kuhn()
    bets, passes = (
        Policy.from_function(tree, lambda p, i, k, row=row: row, "pure") for row in ([0.0, 1.0], [1.0, 0.0])
    )
    one, other, mixed = (
        efg.value(root, {**strategy(Policy.uniform(tree)), **{k: v for k, v in rows.items() if k[0] == 0}})
        for rows in map(strategy, (bets, passes, jg.mix(bets, passes, 0.5, how="decisions")))
    )
    assert abs(mixed - (one + other) / 2) > 1e-3


def test_where_no_plan_leads_both_do_the_same() -> None:
    tree, _ = kuhn()
    # Always betting makes player 0's second decisions unreachable.
    bets = Policy.from_function(tree, lambda p, i, k: [0.0, 1.0], "bets")
    mixed = jg.mix(bets, bets, 0.5)
    for player in (0, 1):
        np.testing.assert_array_equal(mixed.probabilities[player], bets.probabilities[player])


def test_lanes_are_crossed_with_p() -> None:
    tree, _ = kuhn()
    two, one = Policy.stack([Policy.dirichlet(tree, k) for k in (0, 1)]), Policy.uniform(tree)
    mixed = jg.mix(two, one, (1, 0, 0.5))
    assert mixed.labels[:4] == (
        "mix:1:dirichlet:0:uniform",
        "mix:0:dirichlet:0:uniform",
        "mix:0.5:dirichlet:0:uniform",
        "mix:1:dirichlet:1:uniform",
    )
    for lane, expected in ((0, two.lane(0)), (1, one), (3, two.lane(1)), (4, one)):
        np.testing.assert_allclose(
            mixed.probabilities[0][:, lane], expected.probabilities[0][:, 0], rtol=0, atol=1e-15
        )
    np.testing.assert_allclose(
        mixed.probabilities[1][:, 5], jg.mix(two.lane(1), one, 0.5).probabilities[1][:, 0], atol=1e-15
    )
