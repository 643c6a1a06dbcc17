"""Kernels are chosen for the devices that solve, independently of JAX's default backend."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.core.batch import Batch
from jaxgadget.core.devices import Placement
from jaxgadget.core.rows import RowSums, ScatteredSums
from tests.solving import settings

pytestmark = pytest.mark.optimised

GADGETS = (jg.Resolving(), jg.MaxMargin())


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_the_platform_of_the_devices_picks_the_kernel(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kernels compute on any device, so that a simulated platform changes no result."""
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    options = {"iterations": 20, "value": (-1 / 18, -1 / 18), "dtype": "float64"}
    expected = jg.refine(tree, "depth:1", jg.Policy.uniform(tree), GADGETS, **settings(**options))
    solved: list[Batch] = []
    module = sys.modules["jaxgadget.subgames.engine"]
    solve = module.solve_batch

    def noted(batch: Batch, *arguments, **named):
        solved.append(batch)
        return solve(batch, *arguments, **named)

    monkeypatch.setattr(module, "solve_batch", noted)
    monkeypatch.setattr(Placement, "platform", platform)
    result = jg.refine(tree, "depth:1", jg.Policy.uniform(tree), GADGETS, **settings(**options))
    sums = [
        below
        for batch in solved
        for side in batch.sides
        for treeplex in (side.entry, side.body)
        for below in treeplex.below
    ]
    assert sums and {type(below) for below in sums} == {ScatteredSums if platform == "cpu" else RowSums}
    for ours, theirs in zip(result.policy.probabilities, expected.policy.probabilities, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
