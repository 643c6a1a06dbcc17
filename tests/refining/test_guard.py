"""A guard keeps the better of two results, with estimates and with V̄: after any estimates nobody is worse."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import ContinuationPrior, ContinuationValues, ResolvedValues
from jaxgadget.refining.guard import keep_better, without_estimates
from tests.refining.test_continuation import DRAWN, drawn

GAME, CUT = "kuhn_poker", "depth:2"
TREE = jg.enumerate_game(jg.load(GAME))
BLUEPRINTS = jg.Policy.stack([jg.Policy.dirichlet(TREE, seed) for seed in range(3)])
VALUE = (-1 / 18, -1 / 18)
GADGETS = (jg.Resolving, jg.MaxMargin)
VALUES = ContinuationValues(ResolvedValues(20), iterations=20)
BARE = dataclasses.replace(VALUES, guard=False)
LANES = (
    *("refined_exploitability", "blueprint_exploitability", "exploitability_bound", "gain", "epsilon"),
    *("gadget_value", "gap", "has_decision", "iterations"),
)


def per_history(size: float, seed: int | None = None) -> Any:
    """Range values: what every history is worth to player 0, `size` or drawn from ± `size`."""

    def values(limit: jg.Limit) -> Any:
        cells = limit.matrix()
        worth = np.full(len(cells.value), size)
        if seed is not None:
            worth = np.random.default_rng(seed).uniform(-size, size, len(worth))
        payoff = np.zeros(cells.shape)
        np.add.at(payoff, (cells.row, cells.column), cells.value * worth)
        matrix = jnp.asarray(payoff, limit.dtype)
        return lambda ranges: (matrix @ ranges[1], -matrix.T @ ranges[0])

    return values


def estimates(kind: str, tree: jg.HistoryTree, seed: int) -> Any:
    """Promises that nobody can keep, numbers without any sense, and nearly what all subgames say."""
    many = {
        "bad for one": per_history(3 * tree.payoff_range),
        "bad for the other": per_history(-3 * tree.payoff_range),
        "random": per_history(tree.payoff_range, seed),
        "good": ResolvedValues(50),
    }
    return many[kind]


def refined(gadgets: list[Any], **options: Any) -> jg.Refinement:
    how: dict[str, Any] = {"value": VALUE, "iterations": 60, "dtype": "float64", "progress": False}
    return jg.refine(TREE, CUT, BLUEPRINTS, gadgets, **how | options)


@pytest.mark.parametrize("kind", ["bad for one", "bad for the other", "random", "good"])
@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
@pytest.mark.parametrize(("shape", "seed"), DRAWN[::3])
def test_nobody_is_worse_than_with_best_responses(shape: str, seed: int, algorithm: str, kind: str) -> None:
    """Nor than with estimates alone, whatever these are: it is the less of both, as solved by themselves."""
    tree, where, blueprint = drawn(shape, seed)
    source = estimates(kind, tree, seed)
    promised = [ContinuationValues(source, guard=guard, iterations=30) for guard in (True, False)]
    gadgets: list[Any] = [make(jg.NoPrior(), alternative=v) for v in promised for make in GADGETS]
    gadgets += [make(jg.NoPrior()) for make in GADGETS]
    exact = {"value": (-1.0, 1.0), "algorithm": algorithm, "progress": False}
    how: dict[str, Any] = exact if algorithm == "lp" else exact | {"iterations": 100, "dtype": "float64"}
    for player in (0, 1):
        found = jg.refine(tree, where, blueprint, gadgets, player=player, **how)
        guarded, estimated, safe = found.refined_exploitability.reshape(3, 2, -1)
        np.testing.assert_allclose(guarded, np.minimum(estimated, safe), rtol=0, atol=1e-12)
        assert (guarded <= safe).all()
        shares, bounds = found.guard_share.reshape(3, 2, -1), found.exploitability_bound.reshape(3, 2, -1)
        np.testing.assert_array_equal(shares[0], estimated < safe)
        np.testing.assert_array_equal(bounds[0], np.where(shares[0] == 1, np.nan, bounds[2]))
        assert np.isnan(shares[1:]).all() and np.isfinite(bounds[2]).all()


def test_drawn_games_have_both_kinds_of_lanes() -> None:
    """So that the test above compares something: bad estimates are left out, good ones kept."""
    shares: dict[str, set[float]] = {}
    for kind in ("bad for one", "good"):
        for shape, seed in DRAWN[::3]:
            tree, where, blueprint = drawn(shape, seed)
            values = ContinuationValues(estimates(kind, tree, seed), iterations=30)
            gadget, how = jg.Resolving(jg.NoPrior(), alternative=values), {"iterations": 100, "player": 1}
            found = jg.refine(tree, where, blueprint, gadget, value=(-1.0, 1.0), progress=False, **how)
            shares.setdefault(kind, set()).update(found.guard_share.tolist())
    assert 0 in shares["bad for one"] and 1 in shares["good"]


@pytest.mark.parametrize("player", [0, 1])
def test_all_of_the_kept_lane_is_kept(player: int) -> None:
    """Every number and the strategy are those of the run without a guard; labels say what was asked for."""
    guarded = [make(ContinuationPrior(BARE), 0.1, VALUES) for make in GADGETS]
    estimated = [make(ContinuationPrior(BARE), 0.1, BARE) for make in GADGETS]
    safe = [make(ContinuationPrior(BARE), 0.1) for make in GADGETS]
    found, *both = (refined(part, player=player) for part in (guarded, estimated, safe))
    assert set(found.guard_share) == {0.0, 1.0}, "both kinds are compared"
    assert found.gadgets == tuple(guarded) and len(found.table) == len(found.policy.labels) == 6
    for lane, share in enumerate(found.guard_share.tolist()):
        kept = both[0] if share else both[1]
        for name in LANES:
            expected = getattr(kept, name)[..., lane]
            np.testing.assert_allclose(getattr(found, name)[..., lane], expected, rtol=0, atol=1e-12)
        for ours, theirs in zip(found.policy.probabilities, kept.policy.probabilities, strict=True):
            np.testing.assert_allclose(ours[:, lane], theirs[:, lane], rtol=0, atol=1e-12)
    assert all("alternative values:ResolvedValues" in label for label in found.policy.labels)
    np.testing.assert_array_equal(found.table["guard_share"], found.guard_share)
    assert set(found.table["alternative"]) == {VALUES.name}


@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
def test_against_models_the_larger_objective_is_kept(algorithm: str) -> None:
    """p × what the model leaves + (1 − p) × what is guaranteed, for every opponent by itself."""
    model = jg.Policy.dirichlet(TREE, 9)
    opponents = [jg.Opponent(), *(jg.Opponent(model, p) for p in (0.2, 0.8, 1.0))]
    gadgets = [jg.Resolving(jg.NoPrior(), alternative=v) for v in (VALUES, BARE)] + [
        jg.Resolving(jg.NoPrior())
    ]
    found = refined(gadgets, opponent=opponents, algorithm=algorithm)
    objective = np.where(found.p > 0, found.p * found.gain, 0) - (1 - found.p) * found.refined_exploitability
    guarded, estimated, safe = objective.reshape(3, len(opponents), -1)
    np.testing.assert_allclose(guarded, np.maximum(estimated, safe), rtol=0, atol=1e-12)
    shares = found.guard_share.reshape(3, len(opponents), -1)[0]
    np.testing.assert_array_equal(shares, estimated > safe)
    assert set(shares[:3].ravel()) == {0.0, 1.0}


def test_only_one_subgame_is_guarded_too() -> None:
    infostate = TREE.infoset_names[0][-1]
    gadgets = [jg.MaxMargin(jg.NoPrior(), alternative=v) for v in (VALUES, BARE)]
    found = refined([*gadgets, jg.MaxMargin(jg.NoPrior())], infostate=infostate)
    guarded, estimated, safe = found.refined_exploitability.reshape(3, -1)
    np.testing.assert_allclose(guarded, np.minimum(estimated, safe), rtol=0, atol=1e-12)


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


def test_checkpoints_both_players_and_sweeps_say_the_same(tmp_path: pathlib.Path) -> None:
    gadgets = [jg.Resolving(alternative=VALUES), jg.MaxMargin(alternative=VALUES)]
    plain = [refined(gadgets, player=player) for player in (0, 1)]
    how: dict[str, Any] = {"iterations": 60, "dtype": "float64", "progress": False}
    for _ in range(2):
        both = jg.refine_both(
            TREE, CUT, BLUEPRINTS, gadgets, value=VALUE, checkpoint=tmp_path / "kept", **how
        )
        for part, alone in zip(both.players, plain, strict=True):
            np.testing.assert_array_equal(part.refined_exploitability, alone.refined_exploitability)
            np.testing.assert_array_equal(part.guard_share, alone.guard_share)
    sums = plain[0].refined_exploitability + plain[1].refined_exploitability
    np.testing.assert_allclose(both.nash_conv, sums, rtol=0, atol=1e-9)
    rows = jg.sweep(
        tmp_path / "rows",
        GAME,
        CUT,
        blueprints=BLUEPRINTS,
        gadgets=["resolving", "max-margin"],
        priors="blueprint",
        alternatives=VALUES,
        players=0,
        iterations=60,
        dtype="float64",
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
    """Gadget 1 has a guard; of its lanes the estimates fail, V̄ fails, both do, and neither does."""
    nan = np.nan
    objective = np.array([[1.0, 2.0, 3.0, nan], [nan, -5.0, nan, 0.0], [0.5, nan, nan, 0.0]])
    failures = {3: "other", 4: "estimates", 9: "best responses", 6: "first", 10: "second"}
    kept = keep_better(objective, [1], failures)
    assert kept.lanes.tolist() == [0, 1, 2, 3, 8, 5, 6, 11], "equal ones are of V̄, which has a certificate"
    np.testing.assert_array_equal(kept.share, [nan, nan, nan, nan, 0, 1, nan, 0])
    assert kept.failures == {3: "other", 6: "first"}
    assert kept.left_out == {4: "estimates", 5: "best responses"}


def test_a_failure_of_one_is_said_and_of_both_is_one() -> None:
    """Reaches of 1e-40 have no inverse in float32, which max-margin needs; a huge promise has no float32."""
    huge = ContinuationValues(per_history(1e30), iterations=2)
    rows = [x.copy() for x in jg.Policy.uniform(TREE).probabilities]
    infosets = TREE.infosets[0]
    rows[0][:] = 1e-40
    rows[0][infosets.first_sequence - 1, 0] = 1 - 1e-40 * (infosets.num_actions - 1)
    policies = [jg.Policy.uniform(TREE), jg.Policy(TREE, (rows[0], rows[1]), ("rare",))]
    gadget = jg.MaxMargin(jg.NoPrior(), alternative=huge)
    found = jg.refine(TREE, CUT, policies, gadget, iterations=5, value=VALUE, progress=False)
    print(found.failures, found.guard_failures, found.message, found.guard_share)
