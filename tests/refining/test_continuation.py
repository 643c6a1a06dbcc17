"""Alternative values from the optimal continuation: every safe gadget reaches what that reaches."""

from __future__ import annotations

import functools
import pathlib
import re
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import ContinuationValues
from jaxgadget.gadgets.alternative import WithGifts

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
def test_a_source_is_exact_a_number_of_iterations_or_range_values(source: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"source={source!r}): expected 'exact', a number of")):
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


@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
@pytest.mark.parametrize("player", [0, 1])
def test_the_bound_holds_with_mistakes(algorithm: str, player: int) -> None:
    settings: list[Any] = [(jg.NoPrior(), 0.0), (jg.UniformPrior(), 0.05), (jg.BlueprintPrior(), 0.3)]
    sources = [ContinuationValues(), ContinuationValues(3)]
    asked = [make(*setting, alternative=v) for v in sources for make in SAFE for setting in settings]
    found = refined("kuhn_poker", "depth:1", player, asked, algorithm=algorithm)
    assert (found.refined_exploitability <= found.exploitability_bound + 1e-9).all()


def test_checkpoints_are_of_one_continuation_and_sweeps_say_the_same(tmp_path: pathlib.Path) -> None:
    values, how = [ContinuationValues(5), ContinuationValues(6)], {"iterations": 40}
    asked = [jg.Resolving(jg.NoPrior(), alternative=value) for value in values]
    plain = refined("kuhn_poker", "depth:1", 0, asked, **how)
    for _ in range(2):
        kept = refined("kuhn_poker", "depth:1", 0, asked, checkpoint=tmp_path / "kept", **how)
        np.testing.assert_array_equal(kept.refined_exploitability, plain.refined_exploitability)
    names = ["continuation:5", "continuation:6"]
    one: dict[str, Any] = {"gadgets": "resolving", "priors": "none", "players": 0, **how}
    rows = jg.sweep(
        tmp_path / "rows", "kuhn_poker", "depth:1", blueprints="dirichlet:0", alternatives=names, **one
    )
    assert rows["alternative"].tolist() == names
    np.testing.assert_allclose(
        rows["refined_exploitability"] - rows["blueprint_exploitability"],
        (plain.refined_exploitability - plain.blueprint_exploitability).reshape(2, 2)[:, 0],
        rtol=0,
        atol=1e-9,
    )


def test_a_continuation_that_fails_leaves_the_other_lanes_alone() -> None:
    """Reaches of 1e-40 have no inverse in float32, but the continuation needs none: only max-margin fails."""
    tree = game(GOOFSPIEL)
    first, second = (rows.copy() for rows in jg.Policy.uniform(tree).probabilities)
    infosets = tree.infosets[0]
    first[:] = 1e-40
    first[infosets.first_sequence - 1, 0] = 1 - 1e-40 * (infosets.num_actions - 1)
    policies = [jg.Policy(tree, (first, second), ("rare",)), jg.Policy.uniform(tree)]
    asked = [make(jg.NoPrior(), alternative=ContinuationValues(5)) for make in (jg.Resolving, jg.MaxMargin)]
    found = jg.refine(tree, "depth:1", policies, asked, iterations=10, value=(0.0, 0.0))
    assert list(found.failures) == [2]
    assert np.isnan(found.exploitability_bound).tolist() == [False, False, True, False]
    alone = jg.refine(tree, "depth:1", policies[:1], asked[1], iterations=10, value=(0.0, 0.0))
    assert alone.message.startswith("no result is defined: max-margin, alternative continuation:5 after")


def test_nothing_else_may_claim_to_be_a_continuation() -> None:
    with pytest.raises(ValueError, match="for gadgets whose alternative is this and nothing around it"):
        wrapped = WithGifts(ContinuationValues())
        refined("kuhn_poker", "depth:2", 0, [jg.Resolving(jg.NoPrior(), alternative=wrapped)], iterations=2)
    array = jg.ArrayValues(np.full(3, -2.0))
    found = refined("kuhn_poker", "depth:2", 0, [jg.Resolving(jg.NoPrior(), alternative=array)], iterations=2)
    assert np.isnan(found.exploitability_bound).all()
