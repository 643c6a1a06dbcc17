"""Gadgets that are lanes of one entry give the same games as each kind alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    ArrayValues,
    BlueprintPrior,
    MaxMargin,
    NoPrior,
    Policy,
    Refinement,
    Resolving,
    UniformPrior,
    Unsafe,
    enumerate_game,
    load,
    refine,
)
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.games import build_games
from jaxgadget.gadgets.root_gadgets import ReachMaxMargin
from jaxgadget.subgames.engine import solve_games
from jaxgadget.subgames.prepare import prepare
from tests.solving import settings

ROUNDING = 1e-12
EPSILON = 0.05

GADGETS = (
    Unsafe(),
    Resolving(NoPrior()),
    Resolving(BlueprintPrior(), EPSILON),
    MaxMargin(NoPrior()),
    MaxMargin(UniformPrior(), EPSILON),
    ReachMaxMargin(BlueprintPrior(), EPSILON),
)


@pytest.fixture(scope="module")
def profiles() -> Policy:
    return kuhn_profiles()


def kuhn_profiles() -> Policy:
    """Blueprints of Kuhn poker; subgames are unreachable if the opponent always passes or bets."""
    tree = enumerate_game(load("kuhn_poker"))
    first = Policy.from_function(tree, lambda p, i, k: np.eye(k)[0] if p else np.full(k, 1 / k), "never bets")
    return Policy.stack([Policy.dirichlet(tree, 0), first])


def solve(profiles: Policy, gadgets: Any, player: int, **options: Any) -> Refinement:
    how: dict[str, Any] = {"dtype": "float64", "value": (-1 / 18, -1 / 18)} | options
    return refine(
        profiles.tree, how.pop("cut", "depth:1"), profiles, gadgets, player=player, **settings(**how)
    )


@pytest.mark.slow
def test_first_iterations_are_those_of_each_kind_alone(profiles: Policy) -> None:
    check_first_iterations(profiles, 1)  # player 0: tests/slow


def check_first_iterations(profiles: Policy, player: int) -> None:
    together = solve(profiles, GADGETS, player, iterations=5)
    assert len(together.plans) == 1, "one solve for all of them"
    for number, gadget in enumerate(GADGETS):
        lanes = slice(2 * number, 2 * number + 2)
        alone = solve(profiles, gadget, player, iterations=5)
        rows = together.policy.probabilities[player][:, lanes]
        np.testing.assert_allclose(rows, alone.policy.probabilities[player], atol=ROUNDING)
        np.testing.assert_array_equal(together.has_decision[:, lanes], alone.has_decision)
        for what in ("gadget_value", "gap", "entered", "alternative"):
            np.testing.assert_allclose(getattr(together, what)[:, lanes], getattr(alone, what), atol=ROUNDING)
        for what in ("exploitability_bound", "refined_exploitability", "epsilon"):
            np.testing.assert_allclose(getattr(together, what)[lanes], getattr(alone, what), atol=ROUNDING)


def test_the_comparison_meets_differences(profiles: Policy) -> None:
    found = solve(profiles, GADGETS, 0, iterations=5, cut="depth:2")
    values = found.gadget_value.reshape(found.num_subgames, len(GADGETS), 2)
    assert np.abs(values[:, 0] - values[:, 1]).max() > 0.01, "the kinds differ"
    assert np.abs(values[:, 1] - values[:, 3]).max() > 0.01
    live = found.has_decision.reshape(found.num_subgames, len(GADGETS), 2)
    assert not live[:, 0, 1].all() and live[:, 1, 1].all(), (
        "unsafe keeps the blueprint in unreachable subgames"
    )


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.slow
def test_converged_values_agree_within_certificates(profiles: Policy, dtype: str) -> None:
    together = solve(profiles, GADGETS, 0, iterations=1000, dtype=dtype)
    for number, gadget in enumerate(GADGETS):
        lanes = slice(2 * number, 2 * number + 2)
        alone = solve(profiles, gadget, 0, iterations=1000, dtype=dtype)
        gaps = together.gap[:, lanes] + alone.gap
        assert gaps.max() < 0.02
        off = np.abs(together.gadget_value[:, lanes] - alone.gadget_value)
        assert (off <= gaps + 1e-9).all()


def test_gadgets_that_do_not_pick_meet_those_that_do_without_terminating(profiles: Policy) -> None:
    """Unsafe beside max-margin: a forced pick and no second level."""
    together = solve(profiles, (Unsafe(), MaxMargin(UniformPrior(), EPSILON)), 1, iterations=5)
    for number, gadget in enumerate((Unsafe(), MaxMargin(UniformPrior(), EPSILON))):
        lanes = slice(2 * number, 2 * number + 2)
        alone = solve(profiles, gadget, 1, iterations=5)
        rows = together.policy.probabilities[1][:, lanes]
        np.testing.assert_allclose(rows, alone.policy.probabilities[1], atol=ROUNDING)
        np.testing.assert_allclose(together.gadget_value[:, lanes], alone.gadget_value, atol=ROUNDING)


def test_the_solved_entry_and_the_values_offered(profiles: Policy) -> None:
    """The opponent enters where terminating would cost it 10; its entry is that of the core's solution."""
    offered = 10.0 * np.array([1, 1, -1, -1, 1, -1])  # in the resolving player's utility
    none, values = NoPrior(), ArrayValues(offered)
    gadgets = (Unsafe(), Resolving(none, alternative=values), MaxMargin(none, alternative=values))
    found = solve(profiles, gadgets, 0, iterations=5)
    entered, alternative = (x.reshape(6, 3, 2) for x in (found.entered, found.alternative))
    games = build_games(prepare(found.forest, 0, profiles, gadgets), gadgets)
    solver = Solver(iterations=5, dtype="float64", progress=False)
    core = solve_games(games, solver, report=lambda done: None).entered[1][:6].reshape(6, 3, 2)
    np.testing.assert_allclose(entered[:, 1], 3 * core[:, 1], atol=ROUNDING)
    np.testing.assert_allclose(entered[:, 2], core[:, 2], atol=ROUNDING)
    assert np.isnan(entered[:, 0]).all() and np.isnan(alternative[:, 0]).all(), "unsafe leaves no choice"
    np.testing.assert_array_equal(alternative[:, 1:], np.broadcast_to(offered[:, None, None], (6, 2, 2)))
    np.testing.assert_allclose(entered[:, 1], np.broadcast_to((offered > 0)[:, None], (6, 2)), atol=0.1)
    picked = np.zeros((2, 2))
    np.add.at(picked, found.forest.roots[1].subgame[offered > 0], entered[offered > 0, 2])
    np.testing.assert_allclose(picked, 1, atol=0.1)
