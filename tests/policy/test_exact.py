"""Whole games by linear programs; strategies against a known opponent against a matrix of all plans."""

from __future__ import annotations

import functools
import itertools
import json
import pathlib

import numpy as np
import pytest
from scipy.optimize import linprog

from jaxgadget import Policy, best_response, enumerate_game, evaluate_policy, load
from jaxgadget.opponents.responses import best_equilibrium, restricted_nash_response
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.solving.lp import ProgramError
from tests.reference import efg, lp
from tests.reference.efg import Array, Label

GAMES = json.loads((pathlib.Path(__file__).parents[1] / "data" / "games.json").read_text())
QUICK = [game for game in GAMES if sum(game["infosets"]) < 4000]
KUHN_VALUE = -1 / 18
players = pytest.mark.parametrize("player", [0, 1])


@functools.cache
def kuhn():
    tree = enumerate_game(load("kuhn_poker"))
    return tree, efg.from_tree(tree).root


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case["game"])
def test_values_are_published_ones(case):
    tree = enumerate_game(load(case["game"]))
    found = solve_exactly(tree)
    assert found.value == pytest.approx(case["value_player0"], abs=1e-9)
    assert found.gap < 1e-9
    assert found.policy.labels == ("lp",)
    values = evaluate_policy(found.policy)
    assert values.nash_conv[0] == pytest.approx(0, abs=1e-9)
    assert values.value[0] == pytest.approx(case["value_player0"], abs=1e-9)


@players
def test_every_infoset_plays_a_counterfactual_best_response(player):
    """Also where only mistakes lead: in Leduc most infosets are not reached by both."""
    tree = enumerate_game(load("leduc_poker"))
    policy = solve_exactly(tree).policy
    best = best_response(policy, player)
    rows, infosets = policy.probabilities[player][:, 0], tree.infosets[player]
    earned = np.bincount(infosets.infoset[1:], rows * best.action_values[:, 0], len(infosets))
    np.testing.assert_allclose(earned, best.infoset_values[:, 0], rtol=0, atol=1e-9)
    assert (policy.reach(player) == 0).any()


def test_floors_are_kept():
    tree, root = kuhn()
    floors, labels = [], {}
    for p in (0, 1):
        count = tree.infosets[p].num_sequences - 1
        floors.append(np.where(np.arange(count) % 3 == 0, 0.2, 0.05))
        labels |= {(p, j): floors[p][2 * j : 2 * j + 2] for j in range(len(tree.infosets[p]))}
    found = solve_exactly(tree, floors=floors)
    assert found.value == pytest.approx(lp.solve(root, 0, labels).value, abs=1e-9)
    assert abs(found.value - KUHN_VALUE) > 1e-3
    for p in (0, 1):
        assert (found.policy.probabilities[p][:, 0] >= floors[p] - 1e-15).all()
    rows = strategy(found.policy)
    assert efg.nash_conv(root, rows, labels) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match=r"floors of player 1 have shape \(3,\).*\(12,\).*kuhn_poker"):
        solve_exactly(tree, floors=(floors[0], np.zeros(3)))
    with pytest.raises(ValueError, match=r"floors: 1 arrays; expected player 0's and"):
        solve_exactly(tree, floors=(floors[0],))
    with pytest.raises(ValueError, match=r"sum to at most 1\.4 in an infoset"):
        solve_exactly(tree, floors=(floors[0], np.full(12, 0.7)))
    with pytest.raises(
        ProgramError, match=r"'whole game kuhn_poker' has no solution: .*'Time limit reached'"
    ):
        solve_exactly(tree, time_limit=1e-9)


# Against a known opponent


def strategy(policy: Policy) -> dict[Label, Array]:
    one, two = (np.concatenate([[1.0], rows[:, 0]]) for rows in policy.probabilities)
    return efg.from_sequences(policy.tree, (one, two))


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
    """Max p × value against a mixture + (1-p) × v, v guaranteed, over mixtures of pure plans."""
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
    gained, kept = [], []
    for p in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0):
        found = restricted_nash_response(opponent, player, p)
        rows = strategy(found.policy)
        assert found.value_against_model == pytest.approx(sign * efg.value(root, rows), abs=1e-12)
        worst = -efg.best_response_value(root, 1 - player, rows)
        assert found.guaranteed_value == pytest.approx(worst, abs=1e-12)
        objective = p * found.value_against_model + (1 - p) * found.guaranteed_value
        assert objective == pytest.approx(oracle(player, against, p)[0], abs=1e-8)
        np.testing.assert_array_equal(
            found.policy.probabilities[1 - player], opponent.probabilities[1 - player]
        )
        gained.append(found.value_against_model)
        kept.append(found.guaranteed_value)
    assert (np.diff(gained) > -1e-9).all() and (np.diff(kept) < 1e-9).all()
    assert gained[0] < gained[-2] - 0.01 and kept[0] > kept[-2] + 0.01
    assert kept[0] == pytest.approx(sign * KUHN_VALUE, abs=1e-9)
    assert gained[-1] == pytest.approx(efg.best_response_value(root, player, strategy(opponent)), abs=1e-9)


@players
def test_best_equilibrium_is_the_best_of_all(player):
    tree, root = kuhn()
    opponent = Policy.dirichlet(tree, 3, 0.5)
    found = best_equilibrium(opponent, player)
    value = efg.sign(player) * KUHN_VALUE
    assert found.guaranteed_value == pytest.approx(value, abs=1e-8)
    worst = -efg.best_response_value(root, 1 - player, strategy(found.policy))
    assert worst == pytest.approx(value, abs=1e-8)
    best, _ = oracle(player, mixture(opponent, 1 - player), 1.0, at_least=value - 1e-12)
    assert found.value_against_model == pytest.approx(best, abs=1e-6)
    assert found.policy.labels == ("best-equilibrium:dirichlet:3:0.5",)
    # Player 0 has many equilibria in Kuhn poker, player 1 only one.
    other = restricted_nash_response(opponent, player, 0.0)
    assert found.value_against_model > other.value_against_model - 1e-7
    least, _ = oracle(player, -mixture(opponent, 1 - player), 1.0, at_least=value - 1e-12)
    assert (found.value_against_model > -least + 1e-3) == (player == 0)


def test_bad_input_is_named():
    tree, _ = kuhn()
    uniform = Policy.uniform(tree)
    two = Policy.stack([uniform, uniform])
    for respond in (best_equilibrium, lambda *given: restricted_nash_response(*given, 0.5)):
        with pytest.raises(ValueError, match=r"2 lanes: expected one; pick it by policy.lane\(k\)"):
            respond(two, 0)
        with pytest.raises(ValueError, match="player=2: expected 0 or 1"):
            respond(uniform, 2)
    for p in (-0.1, 1.1, float("nan"), True):
        with pytest.raises(ValueError, match=r"p=.*: expected a number in \[0, 1\]"):
            restricted_nash_response(uniform, 0, p)
    with pytest.raises(ProgramError, match=r"best equilibrium of player 1 in kuhn_poker.*Time limit"):
        best_equilibrium(uniform, 1, time_limit=1e-9)
