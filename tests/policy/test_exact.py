"""Whole games by linear programs."""

from __future__ import annotations

import functools
import json
import pathlib

import numpy as np
import pytest

from jaxgadget import Policy, best_response, enumerate_game, evaluate_policy, load
from jaxgadget.core.lp.solve import ProgramError
from jaxgadget.policy.exact import solve_exactly
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


def strategy(policy: Policy) -> dict[Label, Array]:
    one, two = (np.concatenate([[1.0], rows[:, 0]]) for rows in policy.probabilities)
    return efg.from_sequences(policy.tree, (one, two))


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
    """This includes infosets off the equilibrium path, which are most infosets in Leduc poker."""
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
    with pytest.raises(ValueError, match="floors"):
        solve_exactly(tree, floors=(floors[0], np.zeros(3)))
    with pytest.raises(ValueError, match="floors"):
        solve_exactly(tree, floors=(floors[0],))
    with pytest.raises(ValueError, match=r"sum to at most 1\.4 in an infoset"):
        solve_exactly(tree, floors=(floors[0], np.full(12, 0.7)))
    with pytest.raises(ProgramError, match="Time limit"):
        solve_exactly(tree, time_limit=1e-9)
