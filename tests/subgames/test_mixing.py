"""Nested search with K × K values against opponents who follow models, by explicit programs of every step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import NoPrior, Opponent, OptimalContinuation, Policy, Solver
from tests.reference import continuations, depth_limited, efg, lp
from tests.reference.depth_limited import Kind
from tests.reference.random_games import random_tree
from tests.solving import nested_search, settings

PS = (0.0, 0.4, 1.0)


def rows_of(policy: Policy, lane: int = 0) -> dict[Any, np.ndarray]:
    first, second = (np.append(1.0, rows[:, lane]) for rows in policy.probabilities)
    return efg.from_sequences(policy.tree, (first, second))


@pytest.mark.parametrize(
    ("shape", "kind", "depth", "player", "beyond"),
    [("betting", "moves", 2, 0, "rational"), ("weather", "own", 1, 1, "model")],
)
@pytest.mark.slow
def test_step_objectives_are_those_of_explicit_games_within_gaps(
    shape: str, kind: Kind, depth: int, player: int, beyond: Any
) -> None:
    check_step_objectives(shape, kind, depth, player, beyond)  # other cases: tests/slow


def check_step_objectives(shape: str, kind: Kind, depth: int, player: int, beyond: Any) -> None:
    tree, game = random_tree(shape, 2)
    model, portfolio = Policy.dirichlet(tree, 5), Policy.stack([Policy.dirichlet(tree, k) for k in (0, 1, 2)])
    found = nested_search(
        tree,
        portfolio.lane(0),
        values=jg.ExactValues(portfolio),
        opponent=Opponent(model, PS, beyond),
        player=player,
        depth=depth,
        step=1,
        limit=kind,
        solver=Solver(iterations=3000, dtype="float64"),
    )
    assert found.gap_max.max() < 1e-3 and len(found.objectives) > 1
    entries = [rows_of(portfolio, lane) for lane in range(3)]
    values = continuations.continuation_values(game, (entries, entries))
    models = [rows_of(model)]
    pair = (entries, models) if player == 0 else (models, entries)
    locked = continuations.continuation_values(game, pair).reshape(len(values), 3)
    at_limit = depth_limited.choice_of_entries(tree, player, values, locked if beyond == "model" else None)
    for lane, p in enumerate(PS):
        settled = rows_of(found.policy, lane)
        for number in range(len(found.objectives)):
            roots = depth_limited.level_histories(tree, player, kind, number, 1)
            limit = depth_limited.limit_histories(tree, player, kind, roots, depth)
            step_game = depth_limited.step_game(tree, player, models[0], p, settled, roots, limit, at_limit)
            best = lp.solve(step_game, player).value
            reached = found.objectives[number, lane]
            assert reached <= best + 1e-9 and best - reached <= found.gap_max[lane] + 1e-9


@pytest.mark.slow
def test_against_a_locked_opponent_subgames_add_up_under_any_gadget() -> None:
    """For an opponent who only adapts, the result is that of a search without a model."""
    tree, _ = random_tree("weather", 2)
    portfolio = Policy.stack([Policy.dirichlet(tree, k) for k in (0, 1)])
    how: dict[str, Any] = {
        "values": jg.ExactValues(portfolio),
        "iterations": 1500,
        "dtype": "float64",
        "depth": 2,
        "limit": "moves",
        "step": 1,
    }
    gadgets = [OptimalContinuation(NoPrior()), jg.Unsafe(), jg.Resolving(NoPrior())]
    opponent = Opponent(Policy.dirichlet(tree, 3), [0.0, 1.0])
    found = nested_search(tree, portfolio.lane(0), gadgets, opponent=opponent, **settings(**how))
    locked = found.objectives[0, 1::2]
    np.testing.assert_allclose(locked, locked[0], atol=2e-3)
    assert np.isnan(found.objectives[:, [2, 4]]).all(), "subgames by themselves say nothing of the whole"
    assert np.isnan(found.exploitability_bound).all(), "K strategies restrict both players"
    alone = nested_search(tree, portfolio.lane(0), gadgets[1:], **settings(**how))
    adapting = found.policy.probabilities[0][:, [2, 4]]
    np.testing.assert_allclose(adapting, alone.policy.probabilities[0], atol=1e-6)
    assert alone.table["model"].isna().all() and alone.gain.shape == (2,)
    assert np.isnan(alone.gain).all() and (alone.table["p"] == 0).all()


@pytest.mark.parametrize("p", [1.0, 0.5])
@pytest.mark.slow
def test_objectives_of_searches_part_by_part_are_those_of_all_at_once(
    p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a level counts once, as it is played after all searches of the parts above."""
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    uniform = Policy.uniform(tree)
    gadgets = [jg.Unsafe(), jg.Resolving(NoPrior()), jg.MaxMargin(NoPrior())]
    how: dict[str, Any] = {
        "values": jg.ExactValues(uniform),
        "opponent": Opponent(uniform, p),
        "player": 1,
        "limit": "moves",
        "iterations": 300,
        "dtype": "float64",
        "value": (-1 / 18, -1 / 18),
    }
    whole = nested_search(tree, uniform, gadgets, **settings(**how))
    monkeypatch.setattr("jaxgadget.subgames.nested_run.PART_CELLS", 1)
    parts = nested_search(tree, uniform, gadgets, **settings(**how))
    assert len(parts.objectives) > 1
    np.testing.assert_allclose(parts.objectives, whole.objectives, atol=1e-6)
    if p == 1:
        np.testing.assert_allclose(parts.objectives[-1], 5 / 12, atol=5e-3)
    else:
        assert np.isnan(parts.objectives).all()
