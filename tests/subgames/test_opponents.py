"""Subgames against opponents who may follow a model: worked examples, explicit trees, certificates."""

from __future__ import annotations

import functools
import itertools
import pathlib
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.gadgets.gadget import Gadget, prior_name
from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.subgames.refine import Refinement
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.registry import find
from tests.core import grove
from tests.reference import efg, gadgets, lp, models
from tests.reference.random_games import random_policy
from tests.solving import settings
from tests.trees import tree_of

players = pytest.mark.parametrize("player", [0, 1])
TINY = 1e-9
PROGRAM = 1e-7
"""Tolerance of optima of linear programs in HiGHS."""


def always(tree: HistoryTree, player: int, action: str, label: str) -> jg.Policy:
    """Uniform, except that a player takes the given action wherever it is legal."""

    def row(who: int, infoset: int, count: int) -> list[float]:
        infosets = tree.infosets[who]
        first = int(infosets.first_sequence[infoset])
        names = [tree.game.action_string(who, int(infosets.action[first + k])) for k in range(count)]
        if who != player or action not in names:
            return [1 / count] * count
        return [float(name == action) for name in names]

    return jg.Policy.from_function(tree, row, label)


def every_gadget(prior: Any = None, epsilon: float = 0.0) -> list[Gadget]:
    prior = jg.NoPrior() if prior is None else prior
    return [
        find(GADGETS, name, "gadget")(*(() if name == "unsafe" else (prior, epsilon))) for name in GADGETS
    ]


# Worked examples


@functools.cache
def coin_game() -> tuple[HistoryTree, jg.Policy]:
    """Player 0's blueprint quits; the model places all coins tails up."""
    tree = tree_of("coin_game")
    tails, quits = always(tree, 1, "Tails", "tails"), always(tree, 0, "Q", "quits")
    return tree, jg.Policy(tree, (quits.probabilities[0], tails.probabilities[1]), ("tails",))


VALUE_OF_PLAYING = {"resolving": -3.5, "max-margin": -4.0, "full": -3.0, "optimal-continuation": -3.0}
"""The gadgets' value of playing against the free opponent; the true value is −3. Against the model it is 3/2,
so that player 0 plays if 3/2·p > −value·(1 − p)."""


def test_gadgets_overestimate_and_underestimate_the_cost_of_a_deviation() -> None:
    algorithm = "lp"
    tree, policy = coin_game()
    asked = [find(GADGETS, name, "gadget")(jg.NoPrior()) for name in VALUE_OF_PLAYING]
    thresholds = {name: -value / (1.5 - value) for name, value in VALUE_OF_PLAYING.items()}
    assert thresholds == pytest.approx(
        {"resolving": 7 / 10, "max-margin": 8 / 11, "full": 2 / 3, "optimal-continuation": 2 / 3}
    )
    ps = [t + d for t in (2 / 3, 7 / 10, 8 / 11) for d in (-0.01, 0.01)]
    against = jg.Opponent(policy, ps)
    result = jg.refine(
        tree,
        "subgame",
        policy,
        asked,
        opponent=against,
        solver=jg.Solver(algorithm=algorithm, dtype="float64"),
    )
    for row in result.table.to_dict("records"):
        value, p = VALUE_OF_PLAYING[row["gadget"]], row["p"]
        plays = p > thresholds[row["gadget"]]
        assert row["gain"] == pytest.approx(1.5 * plays, abs=1e-4), row
        assert row["refined_exploitability"] == pytest.approx(3.0 * plays, abs=1e-4), row
        optimum = max(0.0, 1.5 * p + (1 - p) * value)
        assert row["gadget_value_sum"] == pytest.approx(optimum, abs=1e-5), row
        assert row["gadget_value_sum"] <= optimum + TINY


def test_max_margin_ranks_actions_by_their_worst_root_only() -> None:
    """Each action costs 11, 13, 15 and 17 on average, but 15, 14, 14 and 13 at the worst root."""
    tree, costs = tree_of("gadget_breaker"), [0, 11, 24, 39, 56]
    keeps, model = always(tree, 0, "0", "keeps"), always(tree, 1, "M", "model")
    policy = jg.Policy(tree, (keeps.probabilities[0], model.probabilities[1]), ("model",))
    ps = (0.3, 0.63, 0.66, 0.68, 0.695, 0.8)
    asked = [kind(jg.NoPrior()) for kind in (jg.Full, jg.OptimalContinuation, jg.MaxMargin)]
    result = jg.refine(tree, "subgame", policy, asked, opponent=jg.Opponent(model, ps), algorithm="lp")
    used = result.gain.reshape(3, len(ps)) / 7
    np.testing.assert_allclose(used, [[0, 1, 2, 2, 3, 4], [0, 1, 2, 2, 3, 4], [0, 0, 0, 4, 4, 4]], atol=1e-9)
    lost = [costs[round(k)] for k in used.ravel()]
    np.testing.assert_allclose(result.refined_exploitability, lost, atol=1e-9)


@players
@pytest.mark.parametrize("name", ["kuhn_poker", "matching_pennies_twist"])
def test_the_optimal_continuation_at_the_root_is_the_restricted_nash_response(name: str, player: int) -> None:
    tree = tree_of(name)
    model, ps = jg.Policy.dirichlet(tree, 5), [0.1, 0.5, 0.9]
    asked = jg.OptimalContinuation(jg.NoPrior())
    result = jg.refine(
        tree,
        "depth:0",
        jg.Policy.geometric(tree, 0.3),
        asked,
        opponent=jg.Opponent(model, ps),
        player=player,
        algorithm="lp",
    )
    sign = 1 if player == 0 else -1
    responses = jg.respond(tree, jg.Opponent(model, ps), player=player, algorithm="lp")
    for lane, p in enumerate(ps):
        expected = p * responses.value_against_model[lane] + (1 - p) * responses.guaranteed_value[lane]
        value = sign * sum(result.game_value) / 2
        found = p * (result.gain[lane] + value) + (1 - p) * (value - result.refined_exploitability[lane])
        assert found == pytest.approx(expected, abs=1e-7)


@pytest.mark.slow
def test_a_model_that_counts_for_its_range_alone_gains_nothing_where_nothing_is_hidden() -> None:
    """Two-round rock-paper-scissors, hands revealed in between: SES plays the equilibrium for every α."""
    tree = tree_of("repeated_rps")
    uniform, rocks = jg.Policy.uniform(tree), jg.Policy.geometric(tree, 0.3)
    asked = [jg.MaxMargin(jg.RangePrior(rocks), alpha) for alpha in (0.01, 0.3, 0.6, 0.99)]
    for player in (0, 1):
        result = jg.refine(
            tree, "subgame", uniform, asked, opponent=jg.Opponent(rocks, 0), player=player, algorithm="lp"
        )
        assert result.gain == pytest.approx(0.0, abs=1e-9)
        assert result.refined_exploitability == pytest.approx(0.0, abs=1e-9)
        locked, whole = jg.Opponent(rocks, 0.9), jg.OptimalContinuation(jg.NoPrior())
        followed = jg.refine(tree, "subgame", uniform, whole, opponent=locked, player=player, algorithm="lp")
        assert followed.gain[0] > 0.2


# Explicit trees


SEED = 20
PS = (0.0, 0.3, 0.9, 1.0)
PRIORS = (jg.NoPrior(), jg.UniformPrior(), jg.BlueprintPrior(), jg.RangePrior())
EPSILON = 0.15


def asked_gadgets() -> list[Gadget]:
    made = [
        find(GADGETS, name, "gadget")(prior, EPSILON)
        for name in GADGETS
        if name != "unsafe"
        for prior in PRIORS
    ]
    return [jg.Unsafe(), *made]


@functools.cache
def drawn_models(seed: int) -> tuple[dict[efg.Label, Any], ...]:
    tree, _ = grove.grove(seed)
    rng = np.random.default_rng(seed)
    return random_policy(tree, rng, 0.0), random_policy(tree, rng, 0.4)


@functools.cache
def solved(player: int, algorithm: str) -> Refinement:
    """The grove: its three blueprints, both models, all p, gadgets and priors, in one batch."""
    tree, _ = grove.grove(SEED)
    return jg.refine(
        tree,
        grove.grove_cut(SEED),
        grove.to_policy(tree, grove.blueprints(SEED)),
        asked_gadgets(),
        opponent=jg.Opponent(grove.to_policy(tree, drawn_models(SEED)), PS),
        player=player,
        solver=jg.Solver(algorithm=algorithm, iterations=300, dtype="float64"),
        value=(0.0, 0.0),
    )


def place(result: Refinement, lane: int) -> tuple[Gadget, int, float, int]:
    """The gadget, model, p and blueprint of a lane."""
    count, opponents = result.blueprint.num_lanes, len(result.opponents)
    opponent = lane // count % opponents
    return (
        result.gadgets[lane // (count * opponents)],
        int(result.opponents.model[opponent]),
        float(result.opponents.p[opponent]),
        lane % count,
    )


@pytest.mark.slow
def test_games_are_those_of_explicit_trees_with_a_fixed_branch() -> None:
    check_games(1)  # player 0: tests/slow


def check_games(player: int) -> None:
    """Values equal the objective of the strategy and bracket the optimum; bounds equal their definition.

    A fifth of all gadgets, priors, models, p and blueprints, and a share of their subgames.
    """
    result = solved(player, "cfr+")
    assert not result.failures
    compared = bounded = 0
    for lane in range(result.policy.num_lanes):
        gadget, number, p, blueprint = place(result, lane)
        if lane % 5 and gadget.name != "unsafe":
            continue
        model, above = drawn_models(SEED)[number], grove.above(SEED, player, blueprint)
        refined = grove.from_policy(result.policy, lane)
        asked = (prior_name(gadget), float(gadget.epsilon))
        kind = gadgets.KINDS[gadget.name]
        parts = above.subgames[:1] if kind.is_joint else above.subgames
        rises: list[float] = []
        for game, subgame in enumerate(parts):
            value, gap = result.gadget_value[game, lane], result.gap[game, lane]
            if kind.bound is not None and not kind.has_gifts and p < 1:
                rises.append(models.rise_bound(gadget.name, subgame, refined, model, p, gap, *asked))
            if (lane * 7 + game) % 23 if len(parts) > 1 else lane % 3:
                continue
            expected = models.objective(gadget.name, subgame, refined, model, p, *asked)
            assert value == pytest.approx(expected, abs=TINY), (lane, game)
            tree = models.build(gadget.name, subgame, model, p, *asked)
            optimum = lp.solve(tree.root, player, tree.floors).value
            assert value - PROGRAM <= optimum <= value + gap + PROGRAM, (lane, game)
            compared += 1
        if not rises:
            is_known = p == 0 and kind.has_gifts
            assert np.isnan(result.exploitability_bound[lane]) != is_known
            continue
        total = sum(rises) if kind.bound == "sum" else max(rises)
        bound = result.exploitability_bound[lane] - result.blueprint_exploitability[lane]
        assert bound == pytest.approx(total, abs=1e-7)
        bounded += 1
    assert compared > 100
    assert bounded > 40
    assert result.gap.max(initial=0, where=~np.isnan(result.gap)) < 0.1


@pytest.mark.slow
def test_regret_matching_is_within_its_gap_of_linear_programs() -> None:
    check_optima(1)  # player 0: tests/slow


def check_optima(player: int) -> None:
    """Every program's optimum lies within the gap of the batch of all p, models, gadgets and blueprints."""
    by_cfr, tree = solved(player, "cfr+"), grove.grove(SEED)[0]
    numbers = [n for n, g in enumerate(by_cfr.gadgets) if isinstance(g.prior, jg.NoPrior | jg.UniformPrior)]
    model, ps, count = 1, (0.3, 1.0), by_cfr.blueprint.num_lanes
    exact = jg.refine(
        tree,
        grove.grove_cut(SEED),
        by_cfr.blueprint.lane(0),
        [by_cfr.gadgets[n] for n in numbers],
        opponent=jg.Opponent(by_cfr.opponents.models.lane(model), ps),
        player=player,
        algorithm="lp",
        value=(0.0, 0.0),
    )
    assert not exact.failures
    lanes = [((n * 2 + model) * len(PS) + PS.index(p)) * count for n in numbers for p in ps]
    assert by_cfr.p[lanes].tolist() == exact.p.tolist()
    value, gap, known = by_cfr.gadget_value[:, lanes], by_cfr.gap[:, lanes], ~np.isnan(exact.gadget_value)
    assert (known == ~np.isnan(value)).all()
    within = (value - PROGRAM <= exact.gadget_value) & (exact.gadget_value <= value + gap + PROGRAM)
    assert within[known].all()
    assert exact.gap[known].max() < 1e-6


# Certificates


def drawn_refinement(seed: int, player: int, **how: Any) -> Refinement:
    """The grove with random blueprints, models, p, priors and ε; the game's value counts as 0."""
    rng = np.random.default_rng(seed)
    tree, _ = grove.grove(seed)
    drawn = grove.to_policy(tree, [random_policy(tree, rng, 0.2)])
    against = [
        jg.Opponent(grove.to_policy(tree, [random_policy(tree, rng, zeros)]), rng.uniform(0.02, 0.98))
        for zeros in (0.0, 0.4)
    ]
    kinds = (jg.Resolving, jg.MaxMargin, jg.OptimalContinuation)
    return jg.refine(
        tree,
        grove.grove_cut(seed),
        [drawn, jg.make_blueprints(tree, ["cfr:50"], progress=False)],
        [kind(prior, rng.choice([0.01, 0.2, 0.6])) for kind, prior in itertools.product(kinds, PRIORS)],
        opponent=against,
        player=player,
        value=(0.0, 0.0),
        **settings(dtype="float64", **how),
    )


@pytest.mark.slow
def test_bounds_hold_at_optima() -> None:
    rose = 0
    for seed in (0, 1):
        result = drawn_refinement(seed, seed, algorithm="lp")
        assert not result.failures
        assert (result.refined_exploitability <= result.exploitability_bound + 1e-6).all()
        rose += int((result.refined_exploitability > result.blueprint_exploitability + 1e-3).sum())
    assert rose > 10


@pytest.mark.parametrize(
    ("kind", "p", "expected"),
    [
        # [3/2·p + (1 − p)·ε·Q] / ((1 − p)(1 − ε)), Q = 2 (not divided by the reach) and 4; ε = ½
        (jg.Resolving, 0.5, (0.75 + 0.5 * 0.5 * 2) / (0.5 * 0.5)),
        (jg.MaxMargin, 0.1, (0.15 + 0.9 * 0.5 * 4) / (0.9 * 0.5)),
    ],
)
def test_bounds_without_the_cost_of_mistakes_would_be_false(kind: Any, p: float, expected: float) -> None:
    """Coin game with a response to green coins placed tails up only, whose state is worth ½·4."""
    tree, policy = coin_game()
    forest = jg.build_forest(tree, "subgame")
    model = policy
    weights = [
        float(worth == 4)
        for worth in (
            tree.payoff[
                [
                    h
                    for h in tree.terminals
                    if tree.infostate[1, tree.parent[h]] == state and tree.action[0, h] == 2
                ]
            ][0]
            for state in forest.roots[1].infostate
        )
    ]
    assert sorted(weights) == [0, 0, 0, 1]
    asked = kind(jg.ArrayPrior(np.array(weights)), 0.5)
    result = jg.refine(tree, "subgame", policy, asked, opponent=jg.Opponent(model, p), algorithm="lp")
    assert result.gain[0] == pytest.approx(1.5)
    assert result.refined_exploitability[0] == pytest.approx(3.0)
    assert result.exploitability_bound[0] == pytest.approx(expected)
    without = 1.5 * p / (1 - p)
    assert without < 3.0 < expected


@pytest.mark.slow
def test_continuation_values_are_those_of_an_adapting_opponent() -> None:
    """The bound is relative to the continuation: its exploitability, and the gain over its strategy."""
    player = 1
    tree, _ = grove.grove(SEED)
    blueprint = grove.to_policy(tree, [random_policy(tree, np.random.default_rng(3), 0.2)])
    against = jg.Opponent(grove.to_policy(tree, drawn_models(SEED)), (0.0, 0.2, 0.7))
    where, how = grove.grove_cut(SEED), {"player": player, "algorithm": "lp", "value": (0.0, 0.0)}
    values = jg.ContinuationValues()
    asked = [kind(jg.NoPrior(), alternative=values) for kind in (jg.Resolving, jg.MaxMargin)]
    result = jg.refine(tree, where, blueprint, asked, opponent=against, **settings(**how))
    floor = jg.refine(tree, where, blueprint, jg.OptimalContinuation(jg.NoPrior()), **settings(**how))
    assert (result.refined_exploitability <= result.exploitability_bound + 1e-6).all()
    assert (result.refined_exploitability >= floor.refined_exploitability - 1e-6).all()
    adapts = result.p == 0
    assert result.refined_exploitability[adapts] == pytest.approx(floor.refined_exploitability[0], abs=1e-6)
    estimates = jg.Resolving(jg.NoPrior(), alternative=jg.ContinuationValues(3))
    rough = jg.refine(tree, where, blueprint, estimates, opponent=against, **settings(**how))
    assert (rough.refined_exploitability <= rough.exploitability_bound + 1e-6).all()


def test_gains_are_relative_to_the_continuation() -> None:
    """A blueprint that plays gains nothing more, but the continuation quits: 4/5·3/2 are gained over it."""
    tree, policy = coin_game()
    plays = jg.Policy(tree, (always(tree, 0, "P", "P").probabilities[0], policy.probabilities[1]), ("plays",))
    asked = jg.Resolving(jg.NoPrior(), alternative=jg.ContinuationValues())
    result = jg.refine(tree, "subgame", plays, asked, opponent=jg.Opponent(policy, 0.8), algorithm="lp")
    assert result.gain[0] == pytest.approx(1.5)
    assert result.refined_exploitability[0] == pytest.approx(3.0)
    assert result.exploitability_bound[0] == pytest.approx(0.8 * 1.5 / 0.2)


# Extreme p, and limits of precision


NUMBERS = ("gadget_value", "gap", "refined_exploitability", "exploitability_bound")


@players
@pytest.mark.slow
def test_an_opponent_who_only_adapts_changes_nothing(player: int) -> None:
    """Number for number: no opponent, one without a model, and one with p = 0."""
    tree = tree_of("kuhn_poker")
    blueprints = jg.Policy.stack([jg.Policy.uniform(tree), jg.Policy.dirichlet(tree, 0)])
    how: dict[str, Any] = {"player": player, "iterations": 20, "value": (-0.06, -0.05)}
    asked = [jg.Unsafe(), jg.Resolving(), jg.MaxMargin(), jg.ReachResolving()]
    expected = jg.refine(tree, "depth:1", blueprints, asked, **settings(**how))
    assert expected.model == (None,) * 8 and not expected.p.any() and np.isnan(expected.gain).all()
    model = jg.Policy.geometric(tree, 0.5)
    for opponent in (jg.Opponent(), jg.Opponent(model, 0), jg.Opponent(model, 0, beyond="model")):
        result = jg.refine(tree, "depth:1", blueprints, asked, opponent=opponent, **settings(**how))
        for name in NUMBERS:
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), name)
        for ours, theirs in zip(result.policy.probabilities, expected.policy.probabilities, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert np.isfinite(result.gain).all() == (opponent.model is not None)
        assert result.policy.labels[0].startswith(expected.policy.labels[0])
    several = jg.refine(
        tree, "depth:1", blueprints, asked, opponent=jg.Opponent(model, (0, 0, 0.5)), **settings(**how)
    )
    for copy in range(2):
        lanes = [(gadget * 3 + copy) * 2 + blueprint for gadget in range(4) for blueprint in range(2)]
        for name in NUMBERS:
            ours, theirs = getattr(several, name)[..., lanes], getattr(expected, name)
            np.testing.assert_allclose(ours, theirs, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("name", "where", "player"), [("kuhn_poker", "depth:1", 0), ("coin_toss_two_subgames", "play", 1)]
)
@pytest.mark.slow
def test_the_limits_of_p_are_no_model_and_a_locked_opponent(name: str, where: str, player: int) -> None:
    tree = tree_of(name)
    blueprint, model = jg.Policy.dirichlet(tree, 0), jg.Policy.dirichlet(tree, 1)
    asked = every_gadget()
    how: dict[str, Any] = {"player": player, "algorithm": "lp"}
    result = jg.refine(
        tree, where, blueprint, asked, opponent=jg.Opponent(model, (0, 1e-9, 1)), **settings(**how)
    )
    none = jg.refine(tree, where, blueprint, asked, **settings(**how))
    value = result.table["gadget_value_sum"].to_numpy().reshape(len(asked), 3)
    expected = none.table["gadget_value_sum"].to_numpy()
    np.testing.assert_allclose(value[:, 0], expected, atol=1e-7)
    np.testing.assert_allclose(value[:, 1], expected, atol=1e-6)
    np.testing.assert_allclose(value[:, 2], value[0, 2], atol=1e-7)
    gain = result.gain.reshape(len(asked), 3)[:, 2]
    np.testing.assert_allclose(gain, gain[0], atol=1e-7)


def test_a_model_without_reach_keeps_the_blueprint_and_is_reported() -> None:
    """Player 0 never bets in the model, so that only the free opponent reaches subgames after its bets."""
    tree = tree_of("kuhn_poker")
    blueprint, model = jg.Policy.dirichlet(tree, 0), always(tree, 0, "Pass", "passes")
    asked = [jg.Unsafe(), jg.Resolving(jg.BlueprintPrior(), 0.1), jg.MaxMargin(jg.BlueprintPrior(), 0.1)]
    result = jg.refine(
        tree, "depth:1", blueprint, asked, opponent=jg.Opponent(model, (0.5, 1)), player=1, iterations=50
    )
    assert not result.failures
    assert np.isfinite(result.gadget_value).all()
    assert np.isfinite(result.refined_exploitability).all() and np.isfinite(result.gain).all()
    decides = result.has_decision.reshape(2, len(asked), 2)
    assert decides[:, :, 0].all()
    assert (decides[:, :, 1] == np.array([[True], [False]])).all()
    assert f"{len(asked)} subgame solves had nothing to solve and kept the blueprint" in result.message
    subgame = result.forest.infoset_subgame(1)[tree.infosets[1].infoset[1:]]
    for lane in range(1, result.policy.num_lanes, 2):
        rows = result.policy.probabilities[1][subgame == 1, lane]
        np.testing.assert_allclose(rows, blueprint.probabilities[1][subgame == 1, 0], rtol=0, atol=1e-15)


@pytest.mark.slow
def test_single_precision_near_one_is_finite_and_its_certificate_holds() -> None:
    check_near_one(0)  # player 1: tests/slow


def check_near_one(player: int) -> None:
    tree = tree_of("leduc_poker")
    blueprint, model = jg.Policy.dirichlet(tree, 0), jg.Policy.dirichlet(tree, 1)
    ps = (1 - 1e-3, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12, 1.0)
    asked = [kind(jg.BlueprintPrior(), 0.05) for kind in (jg.Resolving, jg.MaxMargin)]
    result = jg.refine(
        tree, "flop", blueprint, asked, opponent=jg.Opponent(model, ps), player=player, iterations=500
    )
    assert not result.failures
    assert result.gap.max() < 1e-2
    unlocked = result.p < 1
    bound, refined = result.exploitability_bound, result.refined_exploitability
    assert np.isfinite(bound[unlocked]).all() and np.isnan(bound[~unlocked]).all()
    assert (refined[unlocked] <= bound[unlocked] + 1e-6).all()
    gain = result.gain.reshape(len(asked), len(ps))
    np.testing.assert_allclose(gain[:, 2:], np.full((2, 3), gain[0, -1]), atol=1e-3)


def test_vanishing_shares_are_reported() -> None:
    """Numbers below the precision: a tiny reach of the model counts if no other opponent has reach."""
    tree = tree_of("kuhn_poker")
    rare = jg.Policy.from_function(tree, lambda player, infoset, count: [1 - 1e-36, 1e-36], "rare")
    never = jg.Policy.from_function(tree, lambda player, infoset, count: [1.0, 0.0], "never")

    def failures(model: jg.Policy, gadget: Gadget) -> dict[int, str]:
        against = jg.Opponent(model, 0.5)
        return dict(
            jg.refine(tree, "depth:1", never, gadget, opponent=against, player=1, iterations=5).failures
        )

    told = failures(rare, jg.Unsafe())[0]
    assert "against rare with p = 0.5: the solve of subgame 1 underflowed in float32" in told
    assert not failures(jg.Policy.uniform(tree), jg.Unsafe())
    assert not failures(rare, jg.Resolving())  # the free opponent has reach


# Both players, files, bad input


def test_checkpoints_know_the_opponent(tmp_path: pathlib.Path) -> None:
    tree = tree_of("kuhn_poker")
    uniform = jg.Policy.uniform(tree)

    def run(model: jg.Policy, p: float, iterations: int, folder: str = "here") -> Refinement:
        return jg.refine(
            tree,
            "depth:1",
            uniform,
            jg.Resolving(),
            opponent=None if p < 0 else jg.Opponent(model, p),
            solver=jg.Solver(iterations=iterations, checkpoint=tmp_path / folder),
            value=(-0.06, -0.05),
        )

    model, other = jg.Policy.dirichlet(tree, 1), jg.Policy.dirichlet(tree, 2)
    run(model, 0.5, 10)
    for wrong, p in ((other, 0.5), (model, 0.25), (model, 0.0), (model, -1.0)):
        with pytest.raises(ValueError, match="of another"):
            run(wrong, p, 20)
    resumed, straight = run(model, 0.5, 20), run(model, 0.5, 20, "there")
    np.testing.assert_array_equal(resumed.policy.probabilities[0], straight.policy.probabilities[0])


# Subgames that only the model reaches, or only its range


def test_subgames_that_only_the_model_reaches_have_a_decision() -> None:
    """The blueprint's opponent never bets, so that unsafe solving has a decision for the model alone."""
    tree = tree_of("kuhn_poker")
    never, model = always(tree, 0, "Pass", "passes"), jg.Policy.uniform(tree)
    result = jg.refine(
        tree, "depth:1", never, jg.Unsafe(), opponent=jg.Opponent(model, (0, 0.5)), player=1, algorithm="lp"
    )
    assert result.has_decision.tolist() == [[True, True], [False, True]]
    assert result.gain[1] > result.gain[0] + 0.1


@pytest.mark.parametrize("kind", [jg.Resolving, jg.MaxMargin, jg.Full])
def test_the_range_of_a_model_is_that_of_an_equal_blueprint(kind: Any) -> None:
    tree = tree_of("kuhn_poker")
    ours, theirs = jg.Policy.dirichlet(tree, 1), jg.Policy.dirichlet(tree, 2)
    joined = jg.Policy(tree, (ours.probabilities[0], theirs.probabilities[1]), ("joined",))

    def refined(blueprint: jg.Policy, prior: jg.RangePrior) -> Refinement:
        return jg.refine(tree, "depth:2", blueprint, kind(prior, 0.3), algorithm="lp")

    given, own = refined(ours, jg.RangePrior(theirs)), refined(joined, jg.RangePrior())
    np.testing.assert_allclose(given.gadget_value, own.gadget_value, atol=1e-9)
    np.testing.assert_allclose(given.policy.probabilities[0], own.policy.probabilities[0], atol=1e-9)
    assert np.abs(given.gadget_value - refined(ours, jg.RangePrior()).gadget_value).max() > 1e-4
    assert given.table["prior"].tolist() == ["range of dirichlet:2"]
    assert own.table["prior"].tolist() == ["range"]


def test_a_models_range_has_to_be_looked_up_first() -> None:
    prior, ranges = jg.RangePrior(jg.Policy.uniform(tree_of("kuhn_poker"))), grove.prepared(SEED, 0).ranges
    for make in (jg.Resolving, jg.MaxMargin, jg.Full):
        with pytest.raises(ValueError, match=r"expected a gadget from gadget\.resolve"):
            make(prior, 0.1).tables(ranges)


@players
def test_safe_exploitation_search_is_max_margin_towards_unclipped_shares(player: int) -> None:
    """Weights are the reach times N, in every subgame separately; 0 without reach."""
    ranges = grove.prepared(SEED, player).ranges
    weight = jg.RangePrior().weight(ranges)
    share = ranges.share(weight)
    for blueprint in range(grove.NUM_BLUEPRINTS):
        for number, subgame in enumerate(grove.explicit(SEED, player, blueprint)):
            expected = gadgets.range_shares(subgame)
            rows = ranges.subgame == number
            np.testing.assert_allclose(share[rows, blueprint], list(expected.values()), atol=1e-12)
    assert ((share > 0) & (share < 1e-3)).any() and (ranges.per_subgame(share) == 0).any()


@pytest.mark.slow
def test_a_forest_in_parts_meets_the_same_opponents() -> None:
    """If the subgames do not fit in memory together, every part uses its own share of the model."""
    tree, _ = grove.grove(SEED)
    how: dict[str, Any] = {
        "opponent": jg.Opponent(grove.to_policy(tree, drawn_models(SEED)[:1]), (0.4, 1.0)),
        "iterations": 3,
        "dtype": "float64",
        "value": (0.0, 0.0),
    }
    blueprint = grove.to_policy(tree, grove.blueprints(SEED)[:1])
    where, asked = grove.grove_cut(SEED), jg.Resolving(jg.NoPrior())
    whole = jg.refine(tree, where, blueprint, asked, **settings(**how))
    (plan,) = whole.plans
    limit = int(0.8 * (plan.shared + plan.size.total(1)))
    parts = jg.refine(tree, where, blueprint, asked, **settings(memory_limit=limit, **how))
    assert len(parts.plans) > 1
    for name in ("gadget_value", "gap", "gain", "refined_exploitability", "exploitability_bound"):
        np.testing.assert_allclose(
            getattr(parts, name), getattr(whole, name), rtol=0, atol=1e-9, err_msg=name
        )
