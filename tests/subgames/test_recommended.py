"""The recommended gadget: selected by memory, and accepted by `refine`."""

import numpy as np
import pytest

import jaxgadget as jg


@pytest.mark.parametrize("form", ["histories", "hands"])
def test_recommended_gadget_by_size(form: str) -> None:
    game = jg.load("kuhn_poker")
    tree = jg.enumerate_game(game) if form == "histories" else jg.public_tree(game)
    small, reason = jg.recommended(tree, "depth:1")
    assert small == jg.Resolving(jg.BlueprintPrior(), alternative=jg.ContinuationValues(300))
    large, refusal = jg.recommended(tree, "depth:1", memory_limit=1000)
    assert large == jg.MaxMargin(jg.BlueprintPrior())
    assert "300 iterations" in reason and "1 kB is available" in refusal
    result = jg.refine(tree, "depth:1", jg.Policy.uniform(tree), [small, large], player=1, iterations=200)
    assert (result.refined_exploitability <= result.exploitability_bound + 1e-9).all()
    assert np.isfinite(result.exploitability_bound).all()
    continued, plain = result.refined_exploitability
    assert continued < 0.5 * result.blueprint_exploitability[0] and continued <= plain + 1e-3
