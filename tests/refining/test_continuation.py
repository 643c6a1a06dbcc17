"""Alternative values from the optimal continuation: every safe gadget reaches what that reaches."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import ContinuationValues

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
SAFE = (jg.Resolving, jg.MaxMargin, jg.ReachResolving, jg.ReachMaxMargin)


@functools.cache
def game(name: str) -> jg.HistoryTree:
    return jg.enumerate_game(jg.load(name))


def blueprints(tree: jg.HistoryTree) -> jg.Policy:
    return jg.Policy.stack([jg.Policy.dirichlet(tree, 0), jg.cfr_checkpoints(tree, [10], progress=False)])


def refined(name: str, cut: str, player: int, gadgets: list[Any], **options: Any) -> jg.Refinement:
    tree = game(name)
    return jg.refine(tree, cut, blueprints(tree), gadgets, player=player, value=(0.0, 0.0), **options)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(("name", "cut"), [("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1")])
def test_with_exact_values_safe_gadgets_are_the_optimal_continuation(
    name: str, cut: str, player: int
) -> None:
    settings: list[Any] = [(jg.NoPrior(), 0.0), (jg.UniformPrior(), "auto"), (jg.BlueprintPrior(), "auto")]
    asked = [make(*setting, alternative=ContinuationValues()) for make in SAFE for setting in settings]
    optimal, without = jg.OptimalContinuation(jg.NoPrior()), jg.Resolving(jg.NoPrior())
    found = refined(name, cut, player, [optimal, without, *asked], algorithm="lp")
    numbers = found.refined_exploitability.reshape(-1, 2)
    np.testing.assert_allclose(numbers[2:], np.broadcast_to(numbers[0], numbers[2:].shape), rtol=0, atol=1e-7)
    assert (found.refined_exploitability <= found.exploitability_bound + 1e-9).all()
    bounds = found.exploitability_bound.reshape(-1, 2)[2:]
    assert (bounds <= numbers[0] + 1e-6).all(), "the bound is that of the continuation, not of the blueprint"
    assert [g.name for g in found.gadgets] == ["optimal-continuation", "resolving", *(g.name for g in asked)]
    if (name, player) == ("kuhn_poker", 0):
        assert (numbers[1] > numbers[0] + 1e-3).any(), "best responses to the blueprint promise too much"


@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
def test_a_few_iterations_are_as_safe_as_the_continuation_that_they_make(algorithm: str) -> None:
    """The base of the bound is the exploitability of that strategy, which is solved for here by itself."""
    asked = [make(jg.NoPrior(), alternative=ContinuationValues(20)) for make in SAFE]
    how: dict[str, Any] = {"algorithm": algorithm} if algorithm == "lp" else {"iterations": 500}
    found = refined("kuhn_poker", "depth:2", 0, asked, **how)
    base = refined("kuhn_poker", "depth:2", 0, [jg.OptimalContinuation(jg.NoPrior())], iterations=20)
    continued = base.refined_exploitability
    excess = found.refined_exploitability.reshape(-1, 2) - continued
    assert (excess <= found.gap.sum(axis=0).reshape(-1, 2) + 1e-9).all()
    loss = found.exploitability_bound.reshape(-1, 2) - continued
    assert (loss <= found.gap.sum(axis=0).reshape(-1, 2) + 1e-9).all()
    assert (excess <= loss + 1e-9).all()
    assert set(found.table["alternative"]) == {"continuation:20"}


@pytest.mark.parametrize("source", [0, -3, 2.5, True, "network", None])
def test_a_source_is_exact_or_a_number_of_iterations(source: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"source={source!r}): expected 'exact' or a number of")):
        ContinuationValues(source)


def test_only_refine_solves_the_continuation() -> None:
    tree = game("kuhn_poker")
    values = jg.ExactValues(jg.Policy.stack([jg.Policy.uniform(tree), jg.Policy.dirichlet(tree, 0)]))
    with pytest.raises(ValueError, match="needs continuation: search knows only ranges"):
        jg.nested_search(
            tree, jg.Policy.uniform(tree), jg.Resolving(alternative=ContinuationValues()), values=values
        )
    with pytest.raises(ValueError, match="for the optimal continuation: play never leaves it"):
        jg.OptimalContinuation(alternative=ContinuationValues())
