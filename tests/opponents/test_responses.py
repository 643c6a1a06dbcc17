"""Strategies against a known opponent, compared with the matrix of all plans."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from jaxgadget import Opponent, Policy
from jaxgadget.opponents.respond import best_nash, respond
from tests.policy.test_exact import KUHN_VALUE, kuhn, players, strategy
from tests.reference import efg
from tests.reference.efg import Array


@functools.cache
def matrix() -> Array:
    """Player 0's payoff in Kuhn poker for all 64 × 64 pure plans, from the explicit tree."""
    tree, root = kuhn()
    pure = [
        [{(p, j): np.eye(2)[a] for j, a in enumerate(plan)} for plan in itertools.product((0, 1), repeat=6)]
        for p in (0, 1)
    ]
    assert [len(tree.infosets[p]) for p in (0, 1)] == [6, 6]
    return np.array([[efg.value(root, {**one, **two}) for two in pure[1]] for one in pure[0]])


def mixture(policy: Policy, player: int) -> Array:
    """A policy's weight on each pure plan."""
    rows = policy.probabilities[player][:, 0].reshape(-1, 2)
    return np.array(
        [np.prod([rows[j, a] for j, a in enumerate(plan)]) for plan in itertools.product((0, 1), repeat=6)]
    )


def oracle(player: int, against: Array, p: float, at_least: float | None = None) -> tuple[float, Array]:
    """Max p × value against a mixture + (1-p) × guaranteed value, over mixtures of pure plans."""
    payoff = matrix() if player == 0 else -matrix().T
    cost = -np.append(p * payoff @ against, 1 - p)
    found = linprog(
        cost,
        A_ub=np.column_stack([-payoff.T, np.ones(64)]),
        b_ub=np.zeros(64),
        A_eq=np.append(np.ones(64), 0)[None],
        b_eq=[1],
        bounds=[(0, None)] * 64 + [(at_least, None)],
        method="highs",
    )
    assert found.status == 0
    return -float(found.fun), found.x[:64]


@players
@pytest.mark.parametrize("model", ["uniform", "dirichlet"])
def test_responses_are_those_of_all_plans(player, model):
    tree, root = kuhn()
    opponent = Policy.uniform(tree) if model == "uniform" else Policy.dirichlet(tree, 3, 0.5)
    against = mixture(opponent, 1 - player)
    sign = efg.sign(player)
    ps = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)
    responses = respond(tree, Opponent(opponent, ps), player=player, algorithm="lp")
    gained, kept = responses.value_against_model, responses.guaranteed_value
    for lane, p in enumerate(ps):
        response = responses.policy.lane(lane)
        rows = strategy(response)
        assert gained[lane] == pytest.approx(sign * efg.value(root, rows), abs=1e-12)
        worst = -efg.best_response_value(root, 1 - player, rows)
        assert kept[lane] == pytest.approx(worst, abs=1e-12)
        objective = p * gained[lane] + (1 - p) * kept[lane]
        assert objective == pytest.approx(oracle(player, against, p)[0], abs=1e-8)
        np.testing.assert_array_equal(response.probabilities[1 - player], opponent.probabilities[1 - player])
    assert (np.diff(gained) > -1e-9).all() and (np.diff(kept) < 1e-9).all()
    assert gained[0] < gained[-2] - 0.01 and kept[0] > kept[-2] + 0.01
    assert kept[0] == pytest.approx(sign * KUHN_VALUE, abs=1e-9)
    assert gained[-1] == pytest.approx(efg.best_response_value(root, player, strategy(opponent)), abs=1e-9)


@players
def test_the_best_nash_strategy_is_the_best_of_all(player):
    tree, root = kuhn()
    opponent = Policy.dirichlet(tree, 3, 0.5)
    best = best_nash(tree, opponent, player=player)
    value = efg.sign(player) * KUHN_VALUE
    assert best.guaranteed_value == pytest.approx(value, abs=1e-8)
    worst = -efg.best_response_value(root, 1 - player, strategy(best.policy))
    assert worst == pytest.approx(value, abs=1e-8)
    largest, _ = oracle(player, mixture(opponent, 1 - player), 1.0, at_least=value - 1e-12)
    assert best.value_against_model == pytest.approx(largest, abs=1e-6)
    assert best.policy.labels == ("best-equilibrium:dirichlet:3:0.5",)
    # Player 0 has many equilibria in Kuhn poker, player 1 only one.
    other = respond(tree, Opponent(opponent, 0.0), player=player, algorithm="lp")
    assert best.value_against_model > other.value_against_model - 1e-7
    least, _ = oracle(player, -mixture(opponent, 1 - player), 1.0, at_least=value - 1e-12)
    assert (best.value_against_model > -least + 1e-3) == (player == 0)
