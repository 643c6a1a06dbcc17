"""Networks of ranges with any weights: zero-sum, homogeneous, masked, bound to a game and a cut."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import (
    Policy,
    RangeNetwork,
    build_forest,
    cut,
    draw_ranges,
    enumerate_game,
    solve_trunk,
)
from jaxgadget.learn.range_network import PublicStates, make_network
from jaxgadget.networks.perceptron import initial_weights
from jaxgadget.tree.cut import Cut
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.precision import precision
from jaxgadget.values.draws import RangePair
from jaxgadget.values.ranges import Limit
from tests.trees import tree_of

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
GAMES = [("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1"), ("leduc_poker(num_ranks=2)", "flop")]
NETWORKS = ["padded", "infostates"]
FLOAT32 = 1e-5
"""Tolerance of payoffs: the network computes in float32 for every dtype."""


def limit_of(where: Cut, dtype: str = "float64") -> Limit:
    return Limit.of(where, np.dtype(dtype))


def shaken(weights: Any, seed: int) -> Any:
    """Weights with added noise, since an untrained network returns 0."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: x + jnp.asarray(rng.normal(scale=0.3, size=x.shape), x.dtype), weights)


@functools.cache
def network(name: str, where: str, kind: str, seed: int = 0) -> RangeNetwork:
    tree = tree_of(name)
    with precision(np.float32):
        made = make_network(tree, limit_of(cut(tree, where), "float32"), kind, 8, 1)
        return dataclasses.replace(made, weights=shaken(initial_weights(made.shape, seed), seed))


def ask(values: RangeNetwork, limit: Limit, ranges: RangePair) -> tuple[FloatArray, FloatArray]:
    with precision(limit.dtype):
        given = tuple(jnp.asarray(rows, limit.dtype) for rows in ranges)
        first, second = values(limit)(given)
        assert first.dtype == second.dtype == limit.dtype
        return np.asarray(first, np.float64), np.asarray(second, np.float64)


def some_ranges(name: str, where: str, seed: int, lanes: int = 6) -> RangePair:
    """Lane 1 has unreachable infostates, and lane 2 an unreachable subgame if there are several."""
    below = build_forest(tree_of(name), where)
    first, second = (rows.copy() for rows in draw_ranges(below, lanes, seed=seed))
    first[0, 1] = second[-1, 1] = 0.0
    if below.num_subgames > 1:
        first[below.roots[0].subgame == 0, 2] = 0.0
        second[below.roots[1].subgame == 1, 2] = 0.0
    return first, second


# --- properties for any weights -----------------------------------------------------------


@pytest.mark.parametrize(("kind", "dtype"), [("padded", "float32"), ("infostates", "float64")])
@pytest.mark.parametrize(("name", "where"), GAMES)
@pytest.mark.slow
def test_it_is_zero_sum_in_every_public_state(name: str, where: str, kind: str, dtype: str) -> None:
    check_zero_sum(name, where, kind, dtype)  # other precisions: tests/slow


def check_zero_sum(name: str, where: str, kind: str, dtype: str) -> None:
    limit = limit_of(cut(tree_of(name), where), dtype)
    for seed in (0, 1):
        ranges = some_ranges(name, where, seed)
        values = ask(network(name, where, kind, seed), limit, ranges)
        chance = limit.matrix()
        deals = chance.value[:, None] * ranges[0][chance.row] * ranges[1][chance.column]
        total, stake = np.zeros((2, limit.cut.num_subgames, 6))
        np.add.at(stake, limit.roots[0].subgame[chance.row], deals * limit.tree.payoff_range)
        size = np.zeros_like(total)
        for player in (0, 1):
            assert np.isfinite(values[player]).all()
            state = limit.roots[player].subgame
            np.add.at(total, state, ranges[player] * values[player])
            np.add.at(size, state, np.abs(ranges[player] * values[player]))
        assert size.max() > 0.01, "something is at stake"
        assert (np.abs(total) <= 10 * np.finfo(np.float32).eps * np.maximum(stake, size)).all()


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("kind", NETWORKS)
def test_it_is_homogeneous_in_each_range(kind: str, player: int) -> None:
    """Scaling a player's range in a public state scales the other player's values there."""
    name, where = GAMES[1]
    limit, ranges = limit_of(cut(tree_of(name), where)), some_ranges(name, where, 3)
    factor = np.exp(np.random.default_rng(0).uniform(-8, 3, (limit.cut.num_subgames, 1)))
    first, second = (
        rows * factor[limit.roots[p].subgame] if p == player else rows for p, rows in enumerate(ranges)
    )
    values = network(name, where, kind)
    before, after = ask(values, limit, ranges), ask(values, limit, (first, second))
    other = 1 - player
    np.testing.assert_allclose(after[player], before[player], rtol=1e-4, atol=FLOAT32)
    scale = factor[limit.roots[other].subgame]
    np.testing.assert_allclose(after[other] / scale, before[other], rtol=1e-4, atol=FLOAT32)


@pytest.mark.parametrize("kind", NETWORKS)
def test_values_are_payoffs_times_the_opposing_reach(kind: str) -> None:
    """Values are 0 where the other player has no reach; lanes are independent."""
    limit, ranges = limit_of(cut(tree_of(GOOFSPIEL), "depth:1")), some_ranges(GOOFSPIEL, "depth:1", 5)
    values = network(GOOFSPIEL, "depth:1", kind)
    whole = ask(values, limit, ranges)
    absent = limit.roots[1].subgame == 0
    assert (whole[1][absent, 2] == 0).all() and np.abs(whole[1][absent, 3]).max() > 0
    order = np.array([4, 2, 0])
    part = ask(values, limit, (ranges[0][:, order], ranges[1][:, order]))
    for player in (0, 1):
        np.testing.assert_allclose(part[player], whole[player][:, order], rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("kind", NETWORKS)
def test_values_of_a_public_state_depend_on_its_ranges_only(kind: str) -> None:
    """Ranges in other public states, of the same size or another, have no effect."""
    limit, ranges = limit_of(cut(tree_of(GOOFSPIEL), "depth:1")), some_ranges(GOOFSPIEL, "depth:1", 6)
    values = network(GOOFSPIEL, "depth:1", kind)
    before = ask(values, limit, ranges)
    for state in range(limit.cut.num_subgames):
        inside = [limit.roots[p].subgame == state for p in (0, 1)]
        first, second = (np.where(inside[p][:, None], rows[:, ::-1], rows) for p, rows in enumerate(ranges))
        after = ask(values, limit, (first, second))
        for player in (0, 1):
            changed = np.abs(after[player] - before[player]).max(axis=1) > 1e-3
            assert not changed[~inside[player]].any()
            assert changed[inside[player]].any()


def test_lanes_precision_is_that_of_the_limit() -> None:
    """The same numbers up to float32's rounding; ranges below float32's minimum remain ranges."""
    where = cut(tree_of("kuhn_poker"), "depth:2")
    ranges = some_ranges("kuhn_poker", "depth:2", 0)
    for kind in NETWORKS:
        values = network("kuhn_poker", "depth:2", kind)
        rough, exact = (ask(values, limit_of(where, dtype), ranges) for dtype in ("float32", "float64"))
        tiny = ask(values, limit_of(where), (ranges[0] * 1e-60, ranges[1]))
        for player in (0, 1):
            np.testing.assert_allclose(rough[player], exact[player], rtol=1e-4, atol=FLOAT32)
        np.testing.assert_allclose(tiny[0], exact[0], rtol=1e-4, atol=FLOAT32)
        np.testing.assert_allclose(tiny[1] * 1e60, exact[1], rtol=1e-4, atol=FLOAT32)


# --- public states of several sizes -------------------------------------------------------


def test_a_network_of_infostates_sees_one_public_state_alone() -> None:
    """Neither other public states nor the size of the largest one change a state's values."""
    tree = tree_of(GOOFSPIEL)
    where, ranges = cut(tree, "depth:1"), some_ranges(GOOFSPIEL, "depth:1", 2)
    values = network(GOOFSPIEL, "depth:1", "infostates")
    limit = limit_of(where)
    whole = ask(values, limit, ranges)
    sizes = [np.bincount(limit.roots[p].subgame) for p in (0, 1)]
    smaller = 0
    for state in range(where.num_subgames):
        histories = where.roots[where.subgame == state]
        alone = limit_of(cut(tree, lambda _, h=histories: h))
        inside = [np.isin(limit.roots[p].infostate, alone.roots[p].infostate) for p in (0, 1)]
        part = ask(values, alone, (ranges[0][inside[0]], ranges[1][inside[1]]))
        for player in (0, 1):
            expected = whole[player][inside[player]]
            np.testing.assert_allclose(part[player], expected, rtol=1e-4, atol=FLOAT32)
        smaller += any(sizes[p][state] < sizes[p].max() for p in (0, 1))
    assert smaller > 0, "padding differs"


def permuted(states: PublicStates, orders: tuple[Any, Any]) -> PublicStates:
    """The infostates of every public state in other slots."""
    places = tuple(np.argsort(order) for order in orders)
    slots = tuple(
        jnp.asarray(slot // size * size + places[p][np.asarray(slot) % size], jnp.int32)
        for p, (slot, size) in enumerate(zip(states.slot, states.sizes, strict=True))
    )
    fields = {
        name: tuple(part[:, order] for part, order in zip(getattr(states, name), orders, strict=True))
        for name in ("row", "mask", "features")
    }
    chance = states.chance[:, orders[0]][:, :, orders[1]]
    return dataclasses.replace(states, slot=slots, chance=chance, **fields)


# --- in a trunk, and errors ---------------------------------------------------------------


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.slow
def test_a_trunk_is_solved_with_it(kind: str) -> None:
    """Values of the first iteration are those of uniform play, for any number of lanes."""
    tree = tree_of("kuhn_poker")
    values = network("kuhn_poker", "depth:2", kind)
    found = solve_trunk(tree, "depth:2", values, iterations=1)
    assert found.values[0].shape[1] == 1
    reach = Policy.uniform(tree).reach(0)[found.limit.roots[0].sequence]
    other = Policy.uniform(tree).reach(1)[found.limit.roots[1].sequence]
    expected = ask(values, found.limit, (reach, other))
    np.testing.assert_allclose(found.values[0], expected[0], rtol=0, atol=FLOAT32)
    lanes = Policy.stack([Policy.dirichlet(tree, seed) for seed in range(3)])
    assert solve_trunk(tree, "depth:2", values, blueprint=lanes, iterations=3).values[1].shape[1] == 3


def test_a_padded_network_is_for_its_cut() -> None:
    tree = tree_of("kuhn_poker")
    other = limit_of(cut(tree, "depth:1"))
    with pytest.raises(ValueError, match="padded"):
        network("kuhn_poker", "depth:2", "padded")(other)
    same = limit_of(cut(tree, lambda t: cut(t, "depth:2").roots))
    assert callable(network("kuhn_poker", "depth:2", "padded")(same)), "whatever the cut is called"
    below = build_forest(tree, "depth:1")
    for values in ask(network("kuhn_poker", "depth:2", "infostates"), other, draw_ranges(below, 2)):
        assert np.isfinite(values).all() and np.abs(values).max() > 1e-3


@pytest.mark.parametrize(
    ("kind", "name", "where"),
    [("padded", *GAMES[0])] + [pytest.param(kind, *GAMES[2], marks=pytest.mark.slow) for kind in NETWORKS],
)
def test_it_needs_no_histories_below_its_cut(kind: str, name: str, where: str) -> None:
    tree, values = tree_of(name), network(name, where, kind)
    whole = limit_of(cut(tree, where))
    short = limit_of(cut(enumerate_game(tree.game, limit=where), where))
    assert short.tree.num_histories < tree.num_histories
    ranges = some_ranges(name, where, 0)
    found, expected = ask(values, short, ranges), ask(values, whole, ranges)
    for player in (0, 1):
        names, others = (
            [limit.infostate(player, row) for row in range(len(limit.roots[player]))]
            for limit in (short, whole)
        )
        assert names == others
        np.testing.assert_allclose(found[player], expected[player], rtol=0, atol=FLOAT32)
        assert np.abs(found[player]).max() > 1e-3


def test_an_encoding_of_moves_needs_the_whole_tree() -> None:
    short = enumerate_game(tree_of("kuhn_poker").game, limit="depth:2")
    with pytest.raises(ValueError, match="as deep as in training"):
        network("kuhn_poker", "depth:2", "infostates")(limit_of(cut(short, "depth:2")))


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_is_for_its_game(kind: str) -> None:
    values = network("kuhn_poker", "depth:2", kind)
    other = limit_of(cut(tree_of(GOOFSPIEL), "depth:1"))
    with pytest.raises(ValueError, match="for 'kuhn_poker', not for 'goofspiel"):
        values(other)
    assert "kuhn_poker below depth:2" in repr(values) and kind in repr(values)
