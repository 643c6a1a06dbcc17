"""The convergence study on Kuhn poker: rules, warm starts, annealing, columns, resuming."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from experiments.convergence import cases, methods
from experiments.convergence import lanes as study
from experiments.convergence.__main__ import STUDY
from experiments.study import Settings
from jaxgadget import BlueprintPrior, Resolving, Solver, UniformPrior, refine
from jaxgadget.core.regret import find_rule
from jaxgadget.util.precision import precision
from tests.slow.experiments.frame import every_experiment_is_whole

KUHN = cases.CASES["kuhn"]


test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


@pytest.fixture(scope="module")
def frame(settings: Settings) -> pd.DataFrame:
    """A data frame with one row per lane."""
    return settings.data_of(study.NAME, "this test")


@pytest.fixture(scope="module")
def resolving() -> cases.Games:
    """Resolving games of Kuhn poker."""
    return cases.build(KUHN, 0, "resolving", "priors")


def test_losses_lie_between_zero_and_the_gap(frame: pd.DataFrame):
    tolerance = 1e-7
    assert (frame["loss_end"] >= -tolerance).all()
    assert (frame["loss_end"] <= frame["gap_end"] + tolerance).all()
    reached = frame[frame["loss_iterations"].notna()]
    assert len(reached) and reached["loss_iterations"].le(KUHN.horizon).all()
    assert reached["loss_iterations"].isin(study.LOOKS).all()


def test_a_run_equals_refine(frame: pd.DataFrame):
    """The first method is `refine`'s: the same final gaps and values, summed."""
    tree, blueprint = cases.load_tree(KUHN), cases.load_blueprints(KUHN)
    gadgets = [Resolving(prior, e) for prior in (UniformPrior(), BlueprintPrior()) for e in cases.EPSILONS]
    refined, exact = (
        refine(
            tree,
            KUHN.cut,
            blueprint,
            gadgets,
            solver=Solver(algorithm=how, iterations=KUHN.horizon, dtype="float64"),
        )
        for how in ("cfr+", "lp")
    )
    rows = frame[(frame["method"] == "CFR+ linear") & (frame["strategy"] == "average")]
    rows = rows[rows["gadget"] == "resolving"]
    assert rows["blueprint"].tolist() == list(blueprint.labels) * len(gadgets)
    np.testing.assert_allclose(rows["gap_end"], refined.gap.sum(0) / tree.payoff_range, rtol=1e-4, atol=1e-9)
    loss = (exact.gadget_value - refined.gadget_value).sum(0) / tree.payoff_range
    np.testing.assert_allclose(rows["loss_end"], loss, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(rows["exploitability"], refined.refined_exploitability, rtol=1e-4, atol=1e-7)


def test_annealed_games_differ_in_the_floors_only(resolving: cases.Games):
    own = np.array([gadget.epsilon for gadget in resolving.gadgets])

    def raised(least: float, factor: float = 1.0) -> list[float]:
        return [gadget.epsilon for gadget in resolving.with_epsilon(least, factor).gadgets]

    np.testing.assert_allclose(raised(0.1), 0.1)
    np.testing.assert_allclose(raised(1e-2), np.maximum(own, 1e-2))
    np.testing.assert_allclose(raised(0.0, 100.0), np.minimum(100 * own, 0.5))
    before, same, other = (
        games.batch.problem().terms
        for games in (resolving.games, resolving.with_epsilon(0.0), resolving.with_epsilon(0.1))
    )
    assert jax.tree.all(jax.tree.map(np.array_equal, before, same))
    floors = [terms[1].entry.floor for terms in (before, other)]
    assert np.abs(floors[0] - floors[1]).max() > 0.01
    for ours, theirs in zip(before, other, strict=True):
        np.testing.assert_array_equal(ours.scale, theirs.scale)
        np.testing.assert_array_equal(ours.constant, theirs.constant)


def test_rules():
    with precision(np.float64):
        total, regret, t = jnp.array([1.0, 0.5]), jnp.array([0.5, -2.0]), jnp.array(3.0)
        plain, trusting = (
            find_rule("cfr+"),
            methods.Tried(name="x", plus=True, predictive=True, averaging=1.0),
        )
        for rule in (plain, trusting):
            np.testing.assert_array_equal(rule.accumulate(total, regret, rule.kept(t)), [1.5, 0.0])
        np.testing.assert_array_equal(trusting.basis(total, regret), find_rule("pcfr+").basis(total, regret))
        np.testing.assert_allclose(methods.CAUTIOUS.basis(total, regret), [1 + 0.5 / 3, 0.5 - 2 / 3])
        decayed = methods.Tried(name="x", plus=True, decay=2.0)
        np.testing.assert_allclose(decayed.accumulate(total, regret, decayed.kept(t)), [1.5 * 0.75**2, 0.0])


def test_warm_starts_play_the_blueprint(resolving: cases.Games):
    """The first average of a warm start is the blueprint of both players, except where it is pure."""
    for name in ("CFR+ linear, from blueprint", "CFR+ linear, strategy × 10"):
        method = methods.METHODS[name]
        with precision(np.float64):
            state = methods.begin(resolving, method)
            if method.warm == "strategy":
                state = methods.run(resolving.problem, state, jnp.int32(1), rule=method.rule)
        for player in (0, 1):
            played, expected = state.strategy[player].body, resolving.blueprint(player)
            if method.warm == "blueprint":
                np.testing.assert_allclose(played, expected, atol=1e-6)
            else:
                assert np.abs(played - expected).mean() < 0.2


@pytest.mark.parametrize("kind", ["resolving", "max-margin"])
def test_a_warm_entry_plays_the_blueprints_ranges(kind: str):
    """Their clipped shares in each subgame, mixed with the gadget's own prior; all else is a cold start."""
    games = cases.build(KUHN, 1, kind, "priors")
    method, ranges = methods.METHODS["CFR+ linear, entry from blueprint"], games.prepared.ranges
    with precision(np.float64):
        warm, cold = methods.begin(games, method), methods.start(games.problem, method.rule)
    share = BlueprintPrior().follow(ranges)
    if kind == "max-margin":
        share = share / ranges.per_subgame(share)[ranges.subgame]
    for number, (prior, epsilon) in enumerate(games.names):
        lanes = slice(number * ranges.num_lanes, (number + 1) * ranges.num_lanes)
        if prior == "blueprint":
            entered = np.asarray(warm.plan[0].entry)[np.asarray(games.problem.sides[0].link), lanes]
            np.testing.assert_allclose(entered[: len(share)], share, rtol=1e-12)
        first = np.asarray(warm.strategy[0].entry)[:, lanes]
        assert (np.abs(first - np.asarray(cold.strategy[0].entry)[:, lanes]) > epsilon).any()
    for ours, theirs in zip(jax.tree.leaves(warm.rule), jax.tree.leaves(cold.rule), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(warm.strategy[0].body, cold.strategy[0].body)


@pytest.mark.parametrize("scale", ["largest", "squared"])
def test_scaled_priors(scale: str):
    """From the definition, subgame by subgame."""
    ranges = cases.build(KUHN, 0, "resolving", "priors").prepared.ranges
    scaled = cases.ScaledPrior(1e-3, scale).follow(ranges)
    reach, subgame = ranges.opponent, ranges.subgame
    for s in range(ranges.num_subgames):
        reaches = reach[subgame == s]
        if not len(reaches) or not reaches.any():
            continue
        share = reaches / reaches.max(axis=0) if scale == "largest" else reaches**2 / (reaches**2).sum(axis=0)
        np.testing.assert_allclose(scaled[subgame == s], np.maximum(share, 1e-3), rtol=1e-12)
