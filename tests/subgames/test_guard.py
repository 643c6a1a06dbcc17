"""A guard selects the better of two results, with estimates and with V̄: estimates never do harm."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import jaxgadget as jg
from jaxgadget import ContinuationPrior, ContinuationValues, ResolvedValues
from jaxgadget.subgames import refine
from jaxgadget.subgames.guard import keep_better, without_estimates
from tests.solving import settings
from tests.subgames.test_continuation import DRAWN, drawn

GAME, CUT = "kuhn_poker", "depth:1"
TREE = jg.enumerate_game(jg.load(GAME))
BLUEPRINTS = jg.Policy.stack([jg.Policy.dirichlet(TREE, seed) for seed in range(3)])
VALUE = (-1 / 18, -1 / 18)
GADGETS = (jg.Resolving, jg.MaxMargin)
VALUES = ContinuationValues(ResolvedValues(2), iterations=20)
BARE = dataclasses.replace(VALUES, guard=False)
LANES = (
    *("refined_exploitability", "blueprint_exploitability", "exploitability_bound", "gain", "epsilon"),
    *("gadget_value", "gap", "has_decision", "iterations", "entered", "alternative"),
)


def _matrix_values(matrix: jax.Array, ranges: jg.Pair) -> tuple[jax.Array, jax.Array]:
    return matrix @ ranges[1], -matrix.T @ ranges[0]


def per_history(worth: float, seed: int | None = None) -> Any:
    """Range values: player 0's value of every history, constant or random within ± that."""

    def values(limit: jg.Limit) -> Any:
        cells = limit.matrix()
        factor = np.full(len(cells.value), worth)
        if seed is not None:
            factor = np.random.default_rng(seed).uniform(-worth, worth, len(factor))
        payoff = np.zeros(cells.shape)
        np.add.at(payoff, (cells.row, cells.column), cells.value * factor)
        return Partial(_matrix_values, jnp.asarray(payoff, limit.dtype))

    return values


def estimates(tree: jg.HistoryTree, seed: int) -> list[Any]:
    """Estimates that are too good for either player, random, and nearly exact."""
    unit = tree.payoff_range
    return [per_history(3 * unit), per_history(-3 * unit), per_history(unit, seed), ResolvedValues(50)]


def refined(gadgets: list[Any], **options: Any) -> jg.Refinement:
    how: dict[str, Any] = {"value": VALUE, "iterations": 60, "dtype": "float64", "progress": False}
    return jg.refine(TREE, options.pop("where", CUT), BLUEPRINTS, gadgets, **settings(**how | options))


@pytest.mark.slow
def test_a_guard_is_never_worse_than_best_responses() -> None:
    check_guarded(*DRAWN[3], 1)  # further estimates: tests/slow


def check_guarded(shape: str, seed: int, player: int) -> None:
    """Nor worse than with estimates: number for number it is the minimum of both unguarded runs."""
    tree, where, blueprint = drawn(shape, seed)
    guarded, bare = (
        [
            make(jg.NoPrior(), alternative=ContinuationValues(source, guard=guard, iterations=30))
            for source in estimates(tree, seed)
            for make in GADGETS
        ]
        for guard in (True, False)
    )
    safe = [dataclasses.replace(gadget, alternative=jg.BestResponseValues()) for gadget in guarded]
    taken: set[float] = set()
    for algorithm in ("cfr+", "lp"):
        how: dict[str, Any] = {"player": player, "value": (-1.0, 1.0), "algorithm": algorithm}
        how |= {} if algorithm == "lp" else {"iterations": 100, "dtype": "float64"}
        found, both = (
            jg.refine(tree, where, blueprint, gadgets, **settings(progress=False, **how))
            for gadgets in (guarded, [*bare, *safe])
        )
        estimated, best_responses = both.refined_exploitability.reshape(2, -1)
        np.testing.assert_array_equal(found.refined_exploitability, np.minimum(estimated, best_responses))
        np.testing.assert_array_equal(found.guard_share, estimated < best_responses)
        bounds = both.exploitability_bound.reshape(2, -1)
        assert np.isnan(bounds[0]).all() and (best_responses <= bounds[1] + 1e-9).all()
        kept = np.where(found.guard_share == 1, np.nan, bounds[1])
        np.testing.assert_array_equal(found.exploitability_bound, kept)
        taken |= set(found.guard_share.tolist())
    assert taken == {0.0, 1.0}, "both kinds are compared"


@pytest.mark.slow
def test_all_of_the_kept_lane_is_kept() -> None:
    """Every number and the strategy equal those of the run without a guard; labels name the request."""
    prior, taken = ContinuationPrior(BARE), set[float]()
    guarded, estimated, safe = (
        [make(prior, 0.1, alternative) for make in GADGETS]
        for alternative in (VALUES, BARE, jg.BestResponseValues())
    )
    for player in (0, 1):
        found, both = (refined(gadgets, player=player) for gadgets in (guarded, [*estimated, *safe]))
        lanes = np.arange(6) + np.where(found.guard_share == 1, 0, 6)
        for name in LANES:
            np.testing.assert_array_equal(getattr(found, name), getattr(both, name)[..., lanes])
        for ours, theirs in zip(found.policy.probabilities, both.policy.probabilities, strict=True):
            np.testing.assert_array_equal(ours, theirs[:, lanes])
        assert found.gadgets == tuple(guarded) and len(found.table) == 6
        assert all("alternative values:ResolvedValues" in label for label in found.policy.labels)
        np.testing.assert_array_equal(found.table["guard_share"], found.guard_share)
        assert set(found.table["alternative"]) == {VALUES.name}
        taken |= set(found.guard_share.tolist())
    assert taken == {0.0, 1.0}, "both kinds are compared"


@pytest.mark.slow
def test_against_models_the_larger_objective_is_kept() -> None:
    """The objective is p × gain against the model + (1 − p) × guaranteed value, per opponent."""
    model = jg.Policy.dirichlet(TREE, 9)
    opponents = [jg.Opponent(), *(jg.Opponent(model, p) for p in (0.2, 0.8, 1.0))]
    gadgets = [jg.Resolving(jg.NoPrior(), alternative=v) for v in (VALUES, BARE)] + [
        jg.Resolving(jg.NoPrior())
    ]
    found = refined(gadgets, opponent=opponents, algorithm="lp")
    objective = np.where(found.p > 0, found.p * found.gain, 0) - (1 - found.p) * found.refined_exploitability
    guarded, estimated, safe = objective.reshape(3, len(opponents), -1)
    np.testing.assert_allclose(guarded, np.maximum(estimated, safe), rtol=0, atol=1e-12)
    shares = found.guard_share.reshape(3, len(opponents), -1)[0]
    np.testing.assert_array_equal(shares, estimated > safe)
    assert set(shares[:3].ravel()) == {0.0, 1.0}


@pytest.mark.slow
def test_only_one_subgame_is_guarded_too() -> None:
    infostate = TREE.infoset_names[0][-1]
    gadgets = [jg.MaxMargin(jg.NoPrior(), alternative=v) for v in (VALUES, BARE)]
    found = refined([*gadgets, jg.MaxMargin(jg.NoPrior())], where=jg.cut(TREE, CUT).only(infostate))
    guarded, estimated, safe = found.refined_exploitability.reshape(3, -1)
    np.testing.assert_allclose(guarded, np.minimum(estimated, safe), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_other_gadgets_stay_in_their_places() -> None:
    none = jg.NoPrior()
    other: list[Any] = [jg.Unsafe(), jg.OptimalContinuation(none), jg.Resolving(none, alternative=BARE)]
    other += [jg.MaxMargin(none, alternative=ContinuationValues(3)), jg.Resolving(ContinuationPrior(VALUES))]
    guarded = [jg.ReachMaxMargin(none, alternative=VALUES), jg.Resolving(none, alternative=VALUES)]
    mixed = [other[0], guarded[0], *other[1:4], guarded[1], other[4]]
    assert list(without_estimates(mixed)) == [1, 5]
    found, alone = refined(mixed), refined(other)
    places = [0, 2, 3, 4, 6]
    for name in LANES:
        numbers = getattr(found, name)
        numbers = numbers.reshape(*numbers.shape[:-1], len(mixed), -1)[..., places, :]
        np.testing.assert_allclose(
            numbers.reshape(getattr(alone, name).shape), getattr(alone, name), rtol=0, atol=1e-12
        )
    assert np.isnan(found.guard_share.reshape(len(mixed), -1)[places]).all()
    assert np.isfinite(found.guard_share.reshape(len(mixed), -1)[[1, 5]]).all()


@pytest.mark.slow
def test_checkpoints_both_players_and_sweeps_agree(tmp_path: pathlib.Path) -> None:
    gadgets = [jg.Resolving(alternative=VALUES), jg.MaxMargin(alternative=VALUES)]
    plain = [refined(gadgets, player=player) for player in (0, 1)]
    how: dict[str, Any] = {"iterations": 60, "dtype": "float64", "progress": False}
    for _ in range(2):
        both = jg.refine_both(
            TREE, CUT, BLUEPRINTS, gadgets, value=VALUE, **settings(checkpoint=tmp_path / "kept", **how)
        )
        for part, alone in zip(both.players, plain, strict=True):
            np.testing.assert_array_equal(part.refined_exploitability, alone.refined_exploitability)
            np.testing.assert_array_equal(part.guard_share, alone.guard_share)
    sums = plain[0].refined_exploitability + plain[1].refined_exploitability
    np.testing.assert_allclose(both.nash_conv, sums, rtol=0, atol=1e-9)
    rows = jg.sweep(
        tmp_path / "rows",
        jg.SweepGrid(
            games=GAME,
            cuts=CUT,
            blueprints=BLUEPRINTS,
            gadgets=["resolving", "max-margin"],
            priors="blueprint",
            alternatives=VALUES,
            players=0,
            iterations=60,
        ),
        solver=jg.Solver(dtype="float64"),
    )
    np.testing.assert_array_equal(rows["guard_share"], plain[0].guard_share)
    np.testing.assert_allclose(
        rows["refined_exploitability"] - rows["blueprint_exploitability"],
        plain[0].refined_exploitability - plain[0].blueprint_exploitability,
        rtol=0,
        atol=1e-9,
    )


# --- failures -----------------------------------------------------------------------------


def test_of_two_results_the_one_that_did_not_fail_is_kept() -> None:
    """Gadget 1 has a guard; of its lanes the estimates fail, V̄ fails, both fail, and neither fails."""
    nan = np.nan
    objective = np.array([[1.0, 2.0, 3.0, nan], [nan, -5.0, nan, 0.0], [0.5, nan, nan, 0.0]])
    failures = {3: "other", 4: "estimates", 9: "best responses", 6: "first", 10: "second"}
    kept = keep_better(objective, [1], failures)
    assert kept.lanes.tolist() == [0, 1, 2, 3, 8, 5, 6, 11], "equal ones are of V̄, which has a certificate"
    np.testing.assert_array_equal(kept.share, [nan, nan, nan, nan, 0, 1, nan, 0])
    assert kept.failures == {3: "other", 6: "first"}
    assert kept.left_out == {4: "estimates", 5: "best responses"}


@pytest.mark.parametrize(("lane", "share"), [(1, 0.0), (7, 1.0)])
@pytest.mark.slow
def test_if_one_result_fails_the_other_is_kept_and_reported(
    lane: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lane 1 is that of estimates, lane 7 that of V̄ for the same blueprint, after both requested gadgets."""
    gadgets = [jg.Resolving(jg.NoPrior(), alternative=VALUES), jg.Unsafe()]
    unguarded = [jg.Resolving(jg.NoPrior(), alternative=BARE), jg.Unsafe(), jg.Resolving(jg.NoPrior())]
    both, solve = refined(unguarded), refine.solve_subgames

    def failing(*arguments: Any) -> Any:
        solutions = solve(*arguments)
        solutions.failures[lane] = "the solve of subgame 0 came to nothing"
        return solutions

    monkeypatch.setattr(refine, "solve_subgames", failing)
    found = refined(gadgets)
    assert not found.failures and found.guard_failures == {1: "the solve of subgame 0 came to nothing"}
    kept = 1 if share else 7
    assert found.guard_share[1] == share
    assert found.refined_exploitability[1] == both.refined_exploitability[kept]
    assert np.isfinite(found.exploitability_bound[1]) == (kept == 7)
    assert found.table["failure"].isna().all()
    said = "for 1 of 6 results only one of a guard's two solves was left: the solve of subgame 0"
    assert said in found.message
