"""Subgames against opponents who may follow a model: worked cases, explicit trees, certificates, bad input."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.gadgets.gadget import Gadget, prior_name
from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.refining.refine import Refinement
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.registry import find
from tests.kernels import grove
from tests.reference import efg, gadgets, lp, models
from tests.reference.random_games import random_policy

players = pytest.mark.parametrize("player", [0, 1])
TINY = 1e-9
PROGRAM = 1e-7
"""Of optima of linear programs in HiGHS."""


@functools.cache
def loaded(name: str) -> HistoryTree:
    return jg.enumerate_game(jg.load(name))


def always(tree: HistoryTree, player: int, action: str, label: str) -> jg.Policy:
    """Uniform, but for a player who takes an action wherever it can."""

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


# Worked cases


@functools.cache
def coin_game() -> tuple[HistoryTree, jg.Policy]:
    """Player 0's blueprint quits; the model places all coins tails up."""
    tree = loaded("coin_game")
    tails, quits = always(tree, 1, "Tails", "tails"), always(tree, 0, "Q", "quits")
    return tree, jg.Policy(tree, (quits.probabilities[0], tails.probabilities[1]), ("tails",))


VALUE_OF_PLAYING = {"resolving": -3.5, "max-margin": -4.0, "full": -3.0, "optimal-continuation": -3.0}
"""What the gadgets take playing for against the free opponent; the true value is −3. Against the model it is 3/2,
so that player 0 plays if 3/2·p > −value·(1 − p)."""


@pytest.mark.parametrize("algorithm", ["lp", "cfr+"])
def test_gadgets_overestimate_and_underestimate_what_a_deviation_costs(algorithm: str) -> None:
    tree, policy = coin_game()
    asked = [find(GADGETS, name, "gadget")(jg.NoPrior()) for name in VALUE_OF_PLAYING]
    thresholds = {name: -value / (1.5 - value) for name, value in VALUE_OF_PLAYING.items()}
    assert thresholds == pytest.approx(
        {"resolving": 7 / 10, "max-margin": 8 / 11, "full": 2 / 3, "optimal-continuation": 2 / 3}
    )
    ps = [t + d for t in (2 / 3, 7 / 10, 8 / 11) for d in (-0.01, 0.01)]
    against = jg.Opponent(policy, ps)
    result = jg.refine(tree, "subgame", policy, asked, opponent=against, algorithm=algorithm, dtype="float64")
    for row in result.table.to_dict("records"):
        value, p = VALUE_OF_PLAYING[row["gadget"]], row["p"]
        plays = p > thresholds[row["gadget"]]
        assert row["gain"] == pytest.approx(1.5 * plays, abs=1e-4), row
        assert row["refined_exploitability"] == pytest.approx(3.0 * plays, abs=1e-4), row
        optimum = max(0.0, 1.5 * p + (1 - p) * value)
        assert row["gadget_value_sum"] == pytest.approx(optimum, abs=1e-5), row
        assert row["gadget_value_sum"] <= optimum + TINY


def test_restricted_nash_responses_of_kuhn_poker() -> None:
    """With the cut at the root the optimal continuation is the whole game: gain and exploitability are known."""
    tree = loaded("kuhn_poker")
    uniform = jg.Policy.uniform(tree)
    asked, against = jg.OptimalContinuation(jg.NoPrior()), jg.Opponent(uniform, (0.25, 0.75, 1))
    result = jg.refine(tree, "depth:0", uniform, asked, opponent=against, algorithm="lp")
    assert result.gain == pytest.approx([4 / 9, 5 / 9, 1 / 2 + 1 / 18], abs=1e-9)
    assert result.refined_exploitability[:2] == pytest.approx([1 / 18, 5 / 18], abs=1e-9)
    assert result.p.tolist() == [0.25, 0.75, 1]
    assert result.model == ("uniform",) * 3


@players
@pytest.mark.parametrize("name", ["kuhn_poker", "matching_pennies_twist", "leduc_poker"])
def test_the_optimal_continuation_at_the_root_is_the_restricted_nash_response(name: str, player: int) -> None:
    tree = loaded(name)
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
    for lane, p in enumerate(ps):
        response = jg.restricted_nash_response(model, player, p)
        expected = p * response.value_against_model + (1 - p) * response.guaranteed_value
        value = sign * sum(result.game_value) / 2
        found = p * (result.gain[lane] + value) + (1 - p) * (value - result.refined_exploitability[lane])
        assert found == pytest.approx(expected, abs=1e-7)


def test_a_model_that_counts_for_its_range_alone_gains_nothing_where_nothing_is_hidden() -> None:
    """Two-round rock-paper-scissors, hands revealed between: SES keeps to the equilibrium whatever α is."""
    tree = loaded("repeated_rps")
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
        iterations=300,
        dtype="float64",
        algorithm=algorithm,
        value=(0.0, 0.0),
    )


def place(result: Refinement, lane: int) -> tuple[Gadget, int, float, int]:
    """Gadget, model, p and blueprint of a lane."""
    count, opponents = result.blueprint.num_lanes, len(result.opponents)
    opponent = lane // count % opponents
    return (
        result.gadgets[lane // (count * opponents)],
        int(result.opponents.model[opponent]),
        float(result.opponents.p[opponent]),
        lane % count,
    )


@players
def test_games_are_those_of_explicit_trees_with_a_fixed_branch(player: int) -> None:
    """Values are the objective at the strategy found, and bracket the optimum; bounds are those defined.

    Every gadget and prior, model, p and blueprint takes a share of the subgames.
    """
    result = solved(player, "cfr+")
    assert not result.failures
    compared = bounded = 0
    for lane in range(result.policy.num_lanes):
        gadget, number, p, blueprint = place(result, lane)
        model, above = drawn_models(SEED)[number], grove.above(SEED, player, blueprint)
        refined = grove.from_policy(result.policy, lane)
        asked = (prior_name(gadget), float(gadget.epsilon))
        parts = above.subgames[:1] if gadget.name == "optimal-continuation" else above.subgames
        rises: list[float] = []
        for game, subgame in enumerate(parts):
            value, gap = result.gadget_value[game, lane], result.gap[game, lane]
            if gadget.name in gadgets.BOUNDED and not gadget.name.startswith("reach") and p < 1:
                rises.append(models.rise_bound(gadget.name, subgame, refined, model, p, gap, *asked))
            if len(parts) > 1 and (lane * 7 + game) % 97 or len(parts) == 1 and lane % 3:
                continue
            expected = models.objective(gadget.name, subgame, refined, model, p, *asked)
            assert value == pytest.approx(expected, abs=TINY), (lane, game)
            tree = models.build(gadget.name, subgame, model, p, *asked)
            optimum = lp.solve(tree.root, player, tree.floors).value
            assert value - PROGRAM <= optimum <= value + gap + PROGRAM, (lane, game)
            compared += 1
        if not rises:
            unbounded = p == 1 or gadget.name in ("unsafe", "full") or p > 0
            assert unbounded and np.isnan(result.exploitability_bound[lane]) or p == 0
            continue
        total = sum(rises) if gadget.name == "resolving" else max(rises)
        bound = result.exploitability_bound[lane] - result.blueprint_exploitability[lane]
        assert bound == pytest.approx(total, abs=1e-7)
        bounded += 1
    assert compared > 60
    assert bounded > 100
    assert result.gap.max(initial=0, where=~np.isnan(result.gap)) < 0.1
