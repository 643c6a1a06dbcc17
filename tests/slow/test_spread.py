"""Distributions of values, against opponents who follow a model."""

from __future__ import annotations

import numpy as np
import pytest

import jaxgadget as jg
from tests.gadgets.test_spread import drawn_signals, promised, solve, worth

pytestmark = pytest.mark.optimised


def test_a_model_s_share_leaves_the_rest_of_the_spread() -> None:
    """An opponent who follows a model with probability p draws with probability 1 − p only."""
    game = drawn_signals(2)
    tree, p = game.tree(), 0.25
    gadget = jg.Resolving(jg.NoPrior(), alternative=promised(np.zeros(3)), spread=0.4)
    model = jg.Policy.dirichlet(tree, 5)
    mixed = solve(game, gadget, opponent=jg.Opponent(model, p))
    assert mixed.gap[0, 0] < 2e-3
    rows, mass = mixed.policy.probabilities[1].reshape(2, 3), game.probability.sum(axis=1)
    lost = worth(game.values(rows), np.zeros(3), 0.4 * mass).sum()
    both = jg.Policy(tree, (model.probabilities[0], rows.reshape(-1, 1)), ("both",))
    against = -jg.evaluate_policy(both).value[0]
    assert mixed.gadget_value[0, 0] == pytest.approx(p * against - (1 - p) * lost, abs=1e-9)
