"""The common entry of all kinds of gadgets, whose speed is measured, holds the same games."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.performance.sharing import as_shared, solve
from jaxgadget import MaxMargin, NoPrior, Policy, Resolving, Unsafe, enumerate_game, load


@pytest.mark.parametrize("cut", ["depth:2"])
def test_lanes_of_a_common_entry_are_the_gadgets(cut: str) -> None:
    tree = enumerate_game(load("kuhn_poker"))
    policy = Policy.stack([Policy.dirichlet(tree, seed) for seed in (0, 1)])
    gadgets = [Unsafe(), Resolving(NoPrior()), Resolving(epsilon=0.05), MaxMargin(), MaxMargin(epsilon=0.05)]
    apart = solve(tree, cut, policy, gadgets, 500)
    shared = solve(tree, cut, policy, as_shared(gadgets), 500)
    np.testing.assert_array_equal(apart.live, shared.live)
    assert (apart.gap < 0.01).all() and (shared.gap < 0.01).all()
    off = np.abs(apart.gadget_value - shared.gadget_value)
    assert (off <= apart.gap + shared.gap + 1e-9).all()
    values = apart.gadget_value.reshape(len(apart.gadget_value), 5, 2)
    assert np.abs(values[:, 0] - values[:, 1]).max() > 0.05, "the kinds differ"
    assert np.abs(values[:, 1] - values[:, 3]).max() > 0.05
