"""Exact values of the optimal continuation in published and random games, by linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from tests.reference.random_games import SHAPES
from tests.solving import settings
from tests.subgames.test_continuation import SAFE, drawn

GAMES = [
    ("leduc_poker", "flop"),
    ("liars_dice(dice_sides=4)", "depth:1"),
    ("goofspiel(num_cards=4,imp_info=True,points_order=descending)", "depth:1"),
]


@pytest.mark.parametrize(("name", "cut", "player"), [(*GAMES[0], 0), (*GAMES[1], 1), (*GAMES[2], 0)])
def test_safe_gadgets_are_the_optimal_continuation(name: str, cut: str, player: int) -> None:
    tree = jg.enumerate_game(jg.load(name))
    blueprint = jg.cfr_checkpoints(tree, [10], progress=False)
    promised = jg.ContinuationValues()
    asked = [make(jg.NoPrior(), alternative=promised) for make in SAFE]
    asked += [make(jg.BlueprintPrior(), "auto", promised) for make in (jg.Resolving, jg.MaxMargin)]
    gadgets = [jg.OptimalContinuation(jg.NoPrior()), *asked]
    found = jg.refine(tree, cut, blueprint, gadgets, player=player, value=(0.0, 0.0), algorithm="lp")
    numbers = found.refined_exploitability
    np.testing.assert_allclose(numbers[1:], numbers[0], rtol=0, atol=1e-7)
    assert (numbers <= found.exploitability_bound + 1e-7).all()


@pytest.mark.parametrize(("shape", "player"), [(shape, k % 2) for k, shape in enumerate(SHAPES)])
def test_in_random_games_too_safe_gadgets_are_the_optimal_continuation(shape: str, player: int) -> None:
    tree, where, blueprint = drawn(shape, 7)
    priors: list[Any] = [
        (jg.NoPrior(), 0.0),
        (jg.UniformPrior(), "auto"),
        (jg.BlueprintPrior(), "auto"),
    ]
    asked = [make(*setting, alternative=jg.ContinuationValues()) for make in SAFE for setting in priors]
    gadgets = [jg.OptimalContinuation(jg.NoPrior()), *asked]
    how: dict[str, Any] = {"player": player, "algorithm": "lp", "progress": False}
    numbers = jg.refine(tree, where, blueprint.lane(0), gadgets, **settings(**how)).refined_exploitability
    np.testing.assert_allclose(numbers, numbers[0], rtol=0, atol=1e-7 * tree.payoff_range)
