"""A trunk solved against a player who follows a blueprint: its values are the optimal continuation's."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget import ExactValues, FixedValues, Policy, ResolvedValues, Solver, solve_trunk
from tests.solving import settings
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
GAMES = [("kuhn_poker", "depth:1"), ("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1")]
ITERATIONS = 200


@functools.cache
def blueprints(name: str) -> Policy:
    tree = tree_of(name)
    draws = [Policy.dirichlet(tree, seed) for seed in (0, 1)]
    return Policy.stack([*draws, jg.cfr_checkpoints(tree, [10], progress=False)])


@pytest.mark.parametrize(
    ("name", "where", "player"), [(*game, player) for game, player in zip(GAMES, (1, 0, 1), strict=True)]
)
@pytest.mark.slow
def test_the_opponents_value_is_that_of_the_optimal_continuation(name: str, where: str, player: int) -> None:
    check_what_the_opponent_gets(name, where, player)  # other player: tests/slow


def check_what_the_opponent_gets(name: str, where: str, player: int) -> None:
    """Linear programs give the optimum. CFR+ converges like 1/T here, in the trunk and below it."""
    tree, blueprint = tree_of(name), blueprints(name)
    found = solve_trunk(
        tree,
        where,
        ResolvedValues(ITERATIONS),
        blueprint=blueprint,
        fixed=player,
        solver=Solver(iterations=ITERATIONS, progress=False),
    )
    promised: Any = jg.ArrayValues(-found.values[1 - player])
    plain = [make(jg.NoPrior()) for make in (jg.Resolving, jg.MaxMargin)]
    asked = [make(jg.NoPrior(), alternative=promised) for make in (jg.Resolving, jg.MaxMargin)]
    how: dict[str, Any] = {"player": player, "algorithm": "lp", "value": (0.0, 0.0), "progress": False}
    optimal = jg.OptimalContinuation(jg.NoPrior())
    refined = jg.refine(tree, where, blueprint, [optimal, *asked, *plain], **settings(**how))
    best, *others = refined.refined_exploitability.reshape(5, 3)
    tolerance = tree.payoff_range / (5 * ITERATIONS)
    for excess in (others[0] - best, others[1] - best):
        assert (excess >= -1e-9).all() and (excess <= tolerance).all()
    if (name, where) != ("kuhn_poker", "depth:2") or player == 0:
        assert (others[2] - best).max() > 5 * tolerance, "best responses to the blueprint promise too much"
    # The opponent's value above the cut is what the whole continuation gives away.
    np.testing.assert_allclose(found.best_response_values[player], best, rtol=0, atol=tolerance)


def test_the_fixed_player_follows_the_blueprint() -> None:
    player = 1
    tree, blueprint = tree_of("kuhn_poker"), blueprints("kuhn_poker")
    found = solve_trunk(
        tree,
        "depth:2",
        ResolvedValues(3),
        blueprint=blueprint,
        fixed=player,
        solver=Solver(iterations=5, progress=False),
    )
    np.testing.assert_array_equal(found.policy.probabilities[player], blueprint.probabilities[player])
    other = 1 - player
    moved = np.abs(found.policy.probabilities[other] - blueprint.probabilities[other]).max(axis=1)
    above = tree.infosets[other].infoset[1:]
    where = jg.cut(tree, "depth:2")
    is_above = (where.root[tree.infosets[other].history] < 0)[above]
    assert moved[is_above].max() > 0.01 and (moved[~is_above] == 0).all()
    assert (found.values[player] == 0).all() and found.policy.num_lanes == 3
    assert np.isnan(found.best_response_values[other]).all(), "the value of the fixed player is unknown"
    assert np.isfinite(found.best_response_values[player]).all()
    assert np.isnan(found.trunk_gap).all() and np.isnan(found.gap).all()
    assert found.message == "5 iterations of cfr+ against a fixed strategy"
    assert found.message in repr(found)


def test_against_values_that_do_not_depend_on_ranges_it_is_a_best_response() -> None:
    """The other player follows the blueprint below: the best response above the cut, in every lane."""
    player = 1
    tree, blueprint = tree_of(GOOFSPIEL), blueprints(GOOFSPIEL)
    values = FixedValues([ExactValues(blueprint.lane(lane)) for lane in range(3)])
    found = solve_trunk(
        tree,
        "depth:1",
        values,
        blueprint=blueprint,
        fixed=player,
        solver=Solver(iterations=300, progress=False),
    )
    other, where = 1 - player, jg.cut(tree, "depth:1")
    infosets = tree.infosets[other]
    (first,) = np.flatnonzero(where.root[infosets.history] < 0)
    rows = infosets.first_sequence[first] - 1 + np.arange(infosets.num_actions[first])
    for lane in range(3):
        replies: list[float] = []
        for row in rows.tolist():
            changed = [part[:, lane : lane + 1].copy() for part in blueprint.probabilities]
            changed[other][rows] = 0.0
            changed[other][row] = 1.0
            reply = Policy(tree, (changed[0], changed[1]), ("reply",))
            replies.append(float(jg.evaluate_policy(reply).value[0]) * (1 if other == 0 else -1))
        assert found.best_response_values[player, lane] == pytest.approx(max(replies), abs=1e-9)
        best = rows[int(np.argmax(replies))]
        assert found.policy.probabilities[other][best, lane] > 0.9


@pytest.mark.slow
def test_lanes_of_a_fixed_trunk_share_nothing() -> None:
    tree, blueprint = tree_of("kuhn_poker"), blueprints("kuhn_poker")
    how: dict[str, Any] = {"fixed": 0, "iterations": 20, "progress": False}
    whole = solve_trunk(tree, "depth:1", ResolvedValues(10), blueprint=blueprint, **settings(**how))
    for lane in range(3):
        alone = solve_trunk(
            tree, "depth:1", ResolvedValues(10), blueprint=blueprint.lane(lane), **settings(**how)
        )
        np.testing.assert_allclose(alone.values[1][:, 0], whole.values[1][:, lane], rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            alone.policy.probabilities[1][:, 0], whole.policy.probabilities[1][:, lane], rtol=0, atol=1e-12
        )
    assert np.ptp(whole.values[1], axis=1).max() > 0.01, "lanes differ"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fixed": 0}, "fixed="),
        ({"fixed": 2, "blueprint": 0}, "fixed="),
        ({"fixed": True, "blueprint": 0}, "fixed="),
    ],
    ids=str,
)
def test_a_fixed_player_needs_a_blueprint(options: dict[str, Any], message: str) -> None:
    tree = tree_of("kuhn_poker")
    given = {"blueprint": Policy.uniform(tree)} if "blueprint" in options else {}
    with pytest.raises(ValueError, match=message):
        solve_trunk(tree, "depth:1", ResolvedValues(1), **settings(iterations=1, **(options | given)))
