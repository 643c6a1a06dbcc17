"""Own infostates re-solved in many random games: optima of explicit trees, and safety of the safe methods."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jaxgadget.subgames.knowledge import COMBINE, Knowledge, make_task
from jaxgadget.tree.cut import cut
from tests.core import grove
from tests.subgames import deals
from tests.subgames.test_knowledge import (
    GADGETS,
    check_generated,
    check_optima,
    check_safe,
    drawn_blueprints,
    options,
    rise,
    solve_as,
)


@pytest.mark.parametrize(
    ("seed", "order", "unfrozen", "player"),
    [
        (-1, 1, False, 0),
        (2, 1, False, 0),
        (5, 1, False, 1),
        (0, 3, True, 0),
        (3, 1, True, 1),
        (0, 3, False, 1),
    ],
)
def test_optima_equal_those_of_explicit_trees(seed: int, order: int, unfrozen: bool, player: int) -> None:
    check_optima(seed, order, unfrozen, player)


@pytest.mark.parametrize(("seed", "player"), [(seed, seed % 2) for seed in range(24)])
def test_damped_and_in_turn_never_raise_exploitability(seed: int, player: int) -> None:
    """24 games, each from random blueprints and from an equilibrium."""
    check_safe(seed, player)


@pytest.mark.parametrize(
    ("seed", "order", "unfrozen", "player"),
    [
        (-1, 1, True, 0),
        (-1, 3, False, 1),
        (0, 3, True, 0),
        (1, 1, False, 0),
        (5, 1, True, 1),
        (5, 3, False, 0),
        (5, math.inf, False, 1),
    ],
)
def test_generated_optima_equal_those_of_explicit_trees(
    seed: int, order: float, unfrozen: bool, player: int
) -> None:
    check_generated(seed, order, unfrozen, player)


def test_bounds_hold_and_together_has_none() -> None:
    """With few iterations and ε > 0, some solutions are worse than the blueprint."""
    worse = 0
    for seed in (0, 3):
        tree = deals.drawn(seed)
        blueprint = grove.to_policy(tree, drawn_blueprints(tree, seed))
        for player in (0, 1):
            where = cut(tree, "depth:0")
            task = make_task(where, player, blueprint, GADGETS, options(iterations=3), Knowledge())
            for how in COMBINE:
                result = solve_as(task, how)
                found = rise(tree, result.policy, blueprint, player)
                unsafe = slice(0, blueprint.num_lanes)
                assert np.isnan(result.rise_bound[unsafe]).all()
                known = result.rise_bound[blueprint.num_lanes :]
                if how == "together":
                    assert np.isnan(known).all()
                else:
                    assert (found[blueprint.num_lanes :] <= known + 1e-9).all()
                    worse += int((found[blueprint.num_lanes :] > 1e-6).sum())
    assert worse > 0
