"""Values of ranges against opponents who follow models: the query is the joint range of both copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import (
    NoPrior,
    Opponent,
    OptimalContinuation,
    Policy,
    solve_trunk,
)
from jaxgadget.opponents.opponent import list_opponents
from tests.reference import continuations, depth_limited, efg, lp
from tests.solving import nested_exactly, nested_search, settings
from tests.trees import kuhn

PS = (0.0, 0.5, 1.0)
EVERYWHERE: set[int] = set()


def rows_of(policy: Policy, lane: int = 0) -> dict[Any, np.ndarray]:
    first, second = (np.append(1.0, rows[:, lane]) for rows in policy.probabilities)
    return efg.from_sequences(policy.tree, (first, second))


@pytest.mark.parametrize(("moves", "player"), [(1, 1), (2, 0)])
def test_a_trunk_with_fixed_values_is_the_explicit_game_with_two_copies(moves: int, player: int) -> None:
    check_fixed_values(moves, player)  # other players: tests/slow


def check_fixed_values(moves: int, player: int) -> None:
    """The average guarantees the game's value up to the error of the solve."""
    tree, uniform = kuhn(), Policy.uniform(kuhn())
    model = Policy.dirichlet(tree, 3)
    opponents = list_opponents(Opponent(model, PS), tree)
    trunk = solve_trunk(
        tree,
        f"depth:{moves}",
        jg.FixedValues([jg.ExactValues(uniform)] * len(PS)),
        blueprint=uniform,
        against=(player, opponents),
        iterations=3000,
    )
    assert np.isnan(trunk.gap).all() and np.isnan(trunk.best_response_values).all()
    game = efg.from_tree(tree)
    values = continuations.continuation_values(game, ([rows_of(uniform)], [rows_of(uniform)]))
    at_limit = depth_limited.choice_of_entries(tree, player, values)
    limit = depth_limited.limit_histories(tree, player, "moves", {0}, moves)
    for lane, p in enumerate(PS):
        arguments = (tree, player, rows_of(model), p, rows_of(trunk.policy, lane))
        best = lp.solve(depth_limited.step_game(*arguments, {0}, limit, at_limit), player).value
        kept = lp.solve(depth_limited.step_game(*arguments, EVERYWHERE, limit, at_limit), player).value
        assert best - 2e-3 < kept < best + 1e-9


@pytest.mark.slow
def test_a_trunk_with_an_equilibriums_values_is_the_first_step_of_optimal_search() -> None:
    check_first_step(0)  # player 1: tests/slow


def check_first_step(player: int) -> None:
    """CFR's values for the joint range; with the trunk fixed, an optimal continuation gains the same."""
    tree = kuhn()
    model = Policy.geometric(tree, 0.3)
    exact = nested_exactly(tree, opponent=Opponent(model, PS), depth=1, player=player)
    trunk = solve_trunk(
        tree,
        "depth:1",
        jg.ResolvedValues(150),
        against=(player, list_opponents(Opponent(model, PS), tree)),
        iterations=600,
    )
    roots = depth_limited.level_histories(tree, player, "moves", 1, 1)
    for lane, p in enumerate(PS):
        arguments = (tree, player, rows_of(model), p, rows_of(trunk.policy, lane))
        reached = lp.solve(depth_limited.step_game(*arguments, roots, roots), player).value
        assert exact.objectives[0, lane] - 0.01 < reached < exact.objectives[0, lane] + 1e-9


@pytest.mark.slow
def test_nested_search_continues_below_the_limit() -> None:
    tree = kuhn()
    model = Policy.geometric(tree, 0.3)
    how: dict[str, Any] = {"values": jg.ResolvedValues(100), "limit": "depth:1", "dtype": "float64"}
    gadgets = [OptimalContinuation(NoPrior()), jg.Full(NoPrior()), jg.Resolving(NoPrior())]
    found = nested_search(
        tree,
        Policy.uniform(tree),
        gadgets,
        opponent=Opponent(model, PS),
        player=0,
        **settings(iterations=500, **how),
    )
    exact = nested_exactly(tree, opponent=Opponent(model, PS), depth=1, player=0)
    joint = slice(0, len(PS))
    np.testing.assert_allclose(found.nested_exploitability[joint][0], 0, atol=0.02)
    mixed = np.array(PS) * found.gain[joint] - (1 - np.array(PS)) * found.nested_exploitability[joint]
    assert (mixed > -0.02).all() and (exact.gain > -1e-9).all()
    assert np.isnan(found.exploitability_bound).all() and found.table["depth"].isna().all()
    assert found.table["leaf"][0] == "ResolvedValues at depth:1"
    assert found.searches.min() > 1
