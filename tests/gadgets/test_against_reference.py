"""CFR on the forest compared with the same algorithm on gadget games built as explicit trees.

The trees of `tests/reference/gadgets.py` compute their own V̄, N, gifts and priors. Rules, priors and
blueprints are lanes of one problem, so a gadget and a player compile one program.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.core import cfr, registry
from jaxgadget.core.problem import Problem
from jaxgadget.core.regret import RegretMatching, find_rule
from jaxgadget.gadgets.registry import GADGETS
from jaxgadget.util.precision import precision
from tests.core import grove, twins
from tests.reference import cfr as reference
from tests.reference import gadgets
from tests.reference.efg import Strategy

RULES = {name: find_rule(name) for name in registry.RULES}

SEED = 20
NUM_BLUEPRINTS = grove.NUM_BLUEPRINTS
ITERATIONS = 5
EPSILON = twins.EPSILON
TOLERANCE = 1e-12
WORST = 1e-9
"""Tolerance; strategies are regrets divided by their sum, so that a small sum amplifies errors of 1e-15."""
ROUNDING = 1e-14  # positive regrets with a sum up to this are rounding errors
REFERENCE_RULES = dict(zip(RULES, reference.RULES, strict=True))
ALL_RULES = {("resolving", 0), ("max-margin", 1)}
"""Gadgets and players for which all rules are tested, each in a separate program; the others use CFR+.

Every rule is thus combined with every prior, and both with every blueprint.
"""


def rule_by_lane(lanes: int) -> RegretMatching:
    """All rules, each for the given number of lanes; non-predictive rules ignore the last regrets."""
    rules = [
        dataclasses.replace(rule, predictive=True, trust=rule.trust if rule.predictive else 0.0)
        for rule in RULES.values()
    ]
    return jax.tree.map(lambda *numbers: jnp.repeat(jnp.asarray(numbers), lanes)[None], *rules)


@pytest.mark.parametrize("player", [0, 1])
def test_blueprints_have_unequal_clipped_and_zero_reaches(player: int) -> None:
    """The tests of this folder therefore cover every corner case of design §3."""
    shares, opponent, resolver = [], [], []
    for number in range(NUM_BLUEPRINTS):
        for subgame in grove.explicit(SEED, player, number):
            reach = np.array([subgame.opponent_reach(s) for s in subgame.states])
            shares.extend(reach / reach.sum() if reach.any() else [])
            opponent.append(reach.any())
            resolver.append(np.mean([subgame.normalizer(s) > 0 for s in subgame.states]))
    found, mass = np.array(shares), np.array(resolver)
    assert (found == 0).any() and not all(opponent)
    assert ((found > 0) & (found < gadgets.CLIP)).any()
    assert ((found > 0.1) & (found < 0.9)).any()
    assert (mass == 0).any() and ((mass > 0) & (mass < 1)).any()


def player_of(kind: str) -> int:
    """Every gadget with one player; the other player is in tests/slow."""
    return dict(ALL_RULES).get(kind, list(GADGETS).index(kind) % 2)


@pytest.mark.parametrize("kind", list(GADGETS))
def test_five_iterations_equal_those_on_the_explicit_tree(kind: str) -> None:
    check_five_iterations(kind, player_of(kind))


def check_five_iterations(kind: str, player: int) -> None:
    """All priors and blueprints; every subgame of every shape, entry and body, both players' strategies."""
    rules = RULES if (kind, player) in ALL_RULES else ("cfr+",)
    lanes, built = twins.lanes(SEED, kind, player, EPSILON), twins.built(SEED, kind, player, EPSILON)
    problem = built.problem
    with precision(np.float64):
        if len(rules) > 1:
            problem = repeated(problem, len(rules))
        rule = rule_by_lane(len(lanes)) if len(rules) > 1 else find_rule("cfr+")
        state = cfr.start(problem, rule)
        found: list[tuple[Any, Any]] = []
        for t in range(ITERATIONS):
            state = cfr.run(problem, state, jax.device_put(np.int32(t + 1)), rule=rule)
            found.append(jax.tree.map(np.asarray, (state.strategy, cfr.average(problem, state))))
    compared = solved = 0
    for (place, name), one in itertools.product(enumerate(rules), lanes):
        if len(rules) > 1 and (place + one.lane // NUM_BLUEPRINTS + one.blueprint) % NUM_BLUEPRINTS:
            continue
        lane = place * len(lanes) + one.lane
        body = [[body_of(parts, lane) for parts in both] for both in found]
        for number, gadget in enumerate(twins.explicit(SEED, kind, player, EPSILON, one.lane)):
            iterates = reference.run(
                gadget.root,
                REFERENCE_RULES[name],
                ITERATIONS,
                order=gadget.order,
                floors=gadget.floors,
                threshold=ROUNDING,
            )
            entry, least = built.rows(number, one.above), 1.0
            for theirs, both, rows in zip(iterates, found, body, strict=True):
                where = f"{name}, {one.name}, blueprint {one.blueprint}, game {number}, {theirs.iteration}"
                least = min(least, smallest_regrets(theirs))
                allowed = min(max(TOLERANCE, 1e-15 / least), WORST)
                for parts, below, expected in zip(both, rows, (theirs.current, theirs.average), strict=True):
                    above = parts[1 - player].entry[:, lane]
                    ours = [above[entry[key]] if key in entry else below[key] for key in expected]
                    if ours:
                        actual, wanted = np.concatenate(ours), np.concatenate(list(expected.values()))
                        np.testing.assert_allclose(actual, wanted, rtol=0, atol=allowed, err_msg=where)
                        compared += len(wanted)
        solved += 1
    assert solved == (len(lanes) if len(rules) == 1 else len(lanes) * len(rules) // NUM_BLUEPRINTS)
    assert compared > 1500 * solved


def repeated(problem: Problem, times: int) -> Problem:
    """Every lane repeated."""
    terms, tolerance = jax.tree.map(
        lambda values: jax.device_put(np.tile(values, (1, times))), (problem.terms, problem.regret_tolerance)
    )
    return dataclasses.replace(problem, terms=terms, regret_tolerance=tolerance)


def smallest_regrets(iterate: reference.Iterate) -> float:
    """The smallest sum of positive regrets that a strategy is proportional to."""
    sums = (float(np.maximum(row, 0).sum()) for row in iterate.basis.values())
    return min((total for total in sums if total > ROUNDING), default=1.0)


def body_of(parts: Any, lane: int) -> Strategy:
    """One lane of the production strategies below the cut, by the explicit trees' labels."""
    where = grove.forest(SEED)
    rows = [grove.body_rows(where, player, parts[player].body, lane) for player in (0, 1)]
    return {**rows[0], **rows[1]}
