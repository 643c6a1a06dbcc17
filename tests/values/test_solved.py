"""Subgames solved for given ranges: explicit trees and linear programs; lanes and units."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

from jaxgadget import (
    Forest,
    HistoryTree,
    build_forest,
    cut,
    draw_ranges,
    enumerate_game,
    load,
    solve_ranges,
)
from jaxgadget.core.solution import solve_batch
from jaxgadget.tree.cover import build_cover
from jaxgadget.util.arrays import FloatArray
from jaxgadget.values import solved as solving
from jaxgadget.values.draws import RangePair
from jaxgadget.values.solved import MIN_MASS, SolvedRanges
from tests.reference import cfr, efg, lp
from tests.reference.random_games import random_tree
from tests.solving import settings

GOOFSPIEL = "goofspiel(num_cards=3,imp_info=True,points_order=descending)"
GAMES = [("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1"), ("random betting", "depth:2")]
ROUNDING = 1e-11


@functools.cache
def game(name: str) -> HistoryTree:
    if name.startswith("random "):
        return random_tree(name.removeprefix("random "), 5)[0]
    return enumerate_game(load(name))


@functools.cache
def forest(name: str, where: str) -> Forest:
    return build_forest(game(name), where)


@functools.cache
def explicit(name: str) -> efg.Game:
    return efg.from_tree(game(name))


def solved(below: Forest, ranges: RangePair, **options: Any) -> SolvedRanges:
    return solve_ranges(below, ranges, **settings(**({"dtype": "float64", "progress": False} | options)))


def drawn(below: Forest, seed: int) -> RangePair:
    """Three lanes: with full support, with unreachable roots, and with an unreachable subgame."""
    first, second = (rows.copy() for rows in draw_ranges(below, 3, seed=seed))
    if len(first) > 1:
        first[0, 1] = second[-1, 1] = 0.0
    if below.num_subgames > 1:
        first[below.roots[0].subgame == 0, 2] = 0.0
    return first, second


def rows_of(below: Forest) -> tuple[Any, Any]:
    """For both players `[H]` the row of each root history in `forest.roots`."""
    tree, roots = below.tree, below.cut.roots
    return tuple(
        np.array([below.roots[p].infostate.tolist().index(i) for i in tree.infostate[p, roots]])
        for p in (0, 1)
    )


def as_game(name: str, below: Forest, ranges: RangePair, subgame: int, lane: int) -> efg.Node:
    """A subgame as an explicit tree, in which chance draws the roots from both ranges."""
    rows, tree = rows_of(below), game(name)
    nodes, weights = list[efg.Node](), list[float]()
    for number, history in enumerate(below.cut.roots.tolist()):
        if below.cut.subgame[number] == subgame:
            first, second = (float(ranges[p][rows[p][number], lane]) for p in (0, 1))
            nodes.append(efg.Past(0, first, efg.Past(1, second, explicit(name).nodes[history])))
            weights.append(float(tree.chance[history]))
    return efg.Chance(tuple(weights), tuple(nodes))


def by_definition(
    name: str, below: Forest, ranges: RangePair, subgame: int, lane: int, average: dict[Any, Any]
) -> tuple[FloatArray, FloatArray]:
    """Best-response values against an average below every root of a subgame, by sums over histories."""
    root, rows, tree = as_game(name, below, ranges, subgame, lane), rows_of(below), game(name)
    values: list[FloatArray] = []
    for player in (0, 1):
        played = {**average, **efg.best_response(root, player, average)}
        earned = np.zeros(len(below.roots[player]))
        for number, history in enumerate(below.cut.roots.tolist()):
            if below.cut.subgame[number] == subgame:
                other = ranges[1 - player][rows[1 - player][number], lane]
                value = efg.sign(player) * efg.value(explicit(name).nodes[history], played)
                earned[rows[player][number]] += tree.chance[history] * other * value
        values.append(earned)
    return values[0], values[1]


# Oracles


@pytest.mark.parametrize(("name", "where"), GAMES)
def test_it_is_the_explicit_games_regret_matching(name: str, where: str) -> None:
    """Values, gaps and masses after each of the first iterations; best responses exist for ranges of 0."""
    below = forest(name, where)
    ranges = drawn(below, 3)
    for iterations in (1, 3):
        found = solved(below, ranges, iterations=iterations)
        np.testing.assert_array_equal(found.ranges[0], ranges[0])
        for lane in range(3):
            expected = [np.zeros(len(roots)) for roots in below.roots]
            for subgame in range(below.num_subgames):
                root = as_game(name, below, ranges, subgame, lane)
                average = cfr.final(root, "cfr+", iterations).average
                for total, part in zip(
                    expected, by_definition(name, below, ranges, subgame, lane, average), strict=True
                ):
                    total += part
                mass = efg_mass(root)
                np.testing.assert_allclose(found.mass[subgame, lane], mass, rtol=1e-12, atol=0)
                gap = efg.nash_conv(root, average) / mass if mass > 0 else 0.0
                np.testing.assert_allclose(found.gap[subgame, lane], gap, rtol=0, atol=ROUNDING)
            for player in (0, 1):
                np.testing.assert_allclose(
                    found.values[player][:, lane], expected[player], rtol=0, atol=ROUNDING
                )
    assert found.gap.max() > 1e-3, "nothing has converged yet"


def efg_mass(root: efg.Node) -> float:
    """Chance × both ranges, over the roots."""
    assert isinstance(root, efg.Chance)
    total = 0.0
    for weight, child in zip(root.weights, root.children, strict=True):
        assert isinstance(child, efg.Past) and isinstance(child.child, efg.Past)
        total += weight * child.reach * child.child.reach
    return total


@pytest.mark.parametrize(("name", "where"), GAMES)
def test_a_linear_programs_value_lies_within_the_gap(name: str, where: str) -> None:
    below = forest(name, where)
    ranges = drawn(below, 4)
    found = solved(below, ranges, iterations=400)
    assert found.gap.max() < 0.01 * game(name).payoff_range
    rows, worth = [roots.subgame for roots in below.roots], [np.zeros_like(found.gap) for _ in (0, 1)]
    for player in (0, 1):
        np.add.at(worth[player], rows[player], ranges[player] * found.values[player])
    np.testing.assert_allclose(worth[0] + worth[1], found.gap * found.mass, rtol=0, atol=ROUNDING)
    for lane in range(3):
        for subgame in range(below.num_subgames):
            value = lp.solve(as_game(name, below, ranges, subgame, lane), 0).value
            slack = found.gap[subgame, lane] * found.mass[subgame, lane] + 1e-9
            assert value - 1e-9 <= worth[0][subgame, lane] <= value + slack
            assert -value - 1e-9 <= worth[1][subgame, lane] <= -value + slack
    assert np.abs(worth[0]).max() > 1e-3, "some value is not 0"


@pytest.mark.parametrize(("name", "where"), GAMES)
def test_units_of_values(name: str, where: str) -> None:
    below = forest(name, where)
    ranges, rows = drawn(below, 0), rows_of(below)
    found = solved(below, ranges, iterations=1)
    for player in (0, 1):
        expected = np.zeros_like(ranges[player])
        chance = game(name).chance[below.cut.roots][:, None]
        np.add.at(expected, rows[player], chance * ranges[1 - player][rows[1 - player]])
        np.testing.assert_allclose(found.opposing[player], expected, rtol=1e-12, atol=0)
        payoffs = np.abs(found.values[player]) - game(name).payoff_range * expected
        assert payoffs.max() < ROUNDING


# Units


@pytest.mark.parametrize("player", [0, 1])
def test_a_range_scales_the_others_values_and_not_its_own(player: int) -> None:
    """By a factor per subgame: powers of 2, so that rounding breaks ties equally."""
    below = forest(GOOFSPIEL, "depth:1")
    ranges = draw_ranges(below, 3, seed=1)
    factor = 2.0 ** np.array([-7, 3, 8, 0, -1])[:, None]
    assert below.num_subgames == 5
    changed = tuple(
        rows * factor[roots.subgame] if p == player else rows
        for p, (rows, roots) in enumerate(zip(ranges, below.roots, strict=True))
    )
    before, after = (solved(below, pair, iterations=20) for pair in (ranges, changed))
    other = 1 - player
    np.testing.assert_allclose(after.values[player], before.values[player], rtol=1e-9, atol=ROUNDING)
    scaled = before.values[other] * factor[below.roots[other].subgame]
    np.testing.assert_allclose(after.values[other], scaled, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(after.gap, before.gap, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(after.mass, before.mass * factor, rtol=1e-12, atol=0)


def test_nearly_incompatible_ranges_stay_finite() -> None:
    """Both players have the same unique card: few deals remain, and the gap remains valid."""
    below = forest("kuhn_poker", "depth:2")
    rare = np.array([0.0, 1e-12, 1e-7, 1e-3])
    hand = np.stack([np.ones(4), rare, rare])
    found = solved(below, (hand, hand.copy()), iterations=5)
    for numbers in (*found.values, *found.opposing, found.gap, found.mass):
        assert np.isfinite(numbers).all()
    worth = sum((r * v).sum(axis=0) for r, v in zip(found.ranges, found.values, strict=True))
    least = MIN_MASS * found.ranges[0].sum(axis=0) * found.ranges[1].sum(axis=0)
    deals = np.maximum(found.mass[0], least)
    np.testing.assert_allclose(worth[1:], (found.gap[0] * deals)[1:], rtol=1e-6, atol=0)
    assert (found.mass[0] < least).tolist() == [True, True, True, False]
    assert found.mass[0, 0] == found.gap[0, 0] == worth[0] == 0


@pytest.mark.parametrize("tiny", [1e-310, 1e-320, 1e300])
@pytest.mark.parametrize(("name", "where"), [("kuhn_poker", "depth:2"), (GOOFSPIEL, "depth:1")])
def test_ranges_of_any_size_are_solved_alike(name: str, where: str, tiny: float) -> None:
    """Including a single subgame of a forest with a normal range elsewhere."""
    below = forest(name, where)
    first, second = draw_ranges(below, 4, seed=2)
    here = below.roots[0].subgame[:, None] == 0
    plain = solved(below, (first, second), iterations=20)
    # Products first: numbers this small have few digits.
    for factor in (tiny, np.where(here, tiny, 1.0)):
        ranges = first * factor
        found, kept = solved(below, (ranges, second), iterations=20), ranges / factor
        expected = solved(below, (kept, second), iterations=20)
        np.testing.assert_allclose(found.gap, expected.gap, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.payoffs[0], expected.payoffs[0], rtol=0, atol=1e-9)
        for numbers in (*found.values, *found.opposing, *found.payoffs, found.gap, found.mass):
            assert np.isfinite(numbers).all()
        if tiny > 1e-311:
            np.testing.assert_allclose(found.payoffs[1], plain.payoffs[1], rtol=1e-4, atol=1e-9)


# Lanes, chunks, iterations


def test_lanes_share_nothing(tmp_path: Any) -> None:
    """Results do not depend on which lanes are solved together, on the device or in shards."""
    below = forest(GOOFSPIEL, "depth:1")
    first, second = draw_ranges(below, 7, seed=2)
    whole = solved(below, (first, second), iterations=12)
    assert whole.num_solved == 7 * below.num_subgames and whole.iterations.tolist() == [12] * 7
    order = np.array([5, 0, 3, 6])
    some = solved(below, (first[:, order], second[:, order]), iterations=12)
    shards = solved(below, (first, second), iterations=12, shard=3)
    stored = solved(below, (first, second), iterations=12, shard=3, checkpoint=tmp_path)
    for name in ("gap", "mass"):
        expected = getattr(whole, name)
        np.testing.assert_allclose(getattr(some, name), expected[:, order], rtol=1e-12, atol=ROUNDING)
        for other in (shards, stored):
            np.testing.assert_allclose(getattr(other, name), expected, rtol=1e-12, atol=ROUNDING)
    for player in (0, 1):
        expected = whole.values[player]
        np.testing.assert_allclose(some.values[player], expected[:, order], rtol=0, atol=ROUNDING)
        for other in (shards, stored):
            np.testing.assert_allclose(other.values[player], expected, rtol=0, atol=ROUNDING)
            np.testing.assert_array_equal(other.ranges[player], whole.ranges[player])
    assert np.ptp(whole.gap, axis=1).max() > 0.01, "lanes differ"


def test_chunks_of_lanes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    below = forest(GOOFSPIEL, "depth:1")
    ranges = draw_ranges(below, 20, seed=6)
    chunks: list[int] = []

    def told(*arguments: Any, **options: Any) -> Any:
        finished = solve_batch(*arguments, **options)
        chunks.append(finished.plan.chunk)
        return finished

    monkeypatch.setattr(solving, "solve_batch", told)
    whole = solved(below, ranges, iterations=12)
    parts = solved(below, ranges, iterations=12, memory_limit=20_000)
    assert 0 < 2 * chunks[1] <= chunks[0]
    np.testing.assert_allclose(parts.gap, whole.gap, rtol=0, atol=ROUNDING)
    for player in (0, 1):
        np.testing.assert_allclose(parts.values[player], whole.values[player], rtol=0, atol=ROUNDING)
    with pytest.raises(ValueError, match="memory_limit"):
        solved(below, ranges, iterations=12, memory_limit=1000)


# Errors


def bad(rows: FloatArray, lane: int, value: float, row: int | slice = 0) -> FloatArray:
    rows = rows.copy()
    rows[row, lane] = value
    return rows


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: (bad(a, 1, -0.1), b), "finite"),
        (lambda a, b: (a, bad(b, 0, np.nan, 2)), "ranges[1] is nan at root '2p, then Bet', lane 0"),
        (lambda a, b: (a, bad(b, 1, 0.0, slice(None))), "ranges[1] is 0 everywhere in lane 1"),
        (lambda a, b: (a[:2], b), "shape"),
        (lambda a, b: (a[:, :0], b[:, :0]), "player 0"),
        (lambda a, b: (a[:, :1], b), "ranges have 1 and 2 lanes"),
    ],
)
def test_bad_ranges_are_refused(change: Any, message: str) -> None:
    below = forest("kuhn_poker", "depth:2")
    with pytest.raises(ValueError, match=re.escape(message)):
        solve_ranges(below, change(*draw_ranges(below, 2)), iterations=1)


def test_forests_without_whole_subgames_are_refused() -> None:
    """A lookahead's leaves would need values, and fixed decisions a policy."""
    tree = game("kuhn_poker")
    where = cut(tree, "depth:2")
    look = build_forest(tree, "depth:1", limit=where, num_choices=1)
    with pytest.raises(ValueError, match="forest"):
        solve_ranges(look, draw_ranges(look, 2), iterations=1)
    twice = build_cover(where, np.tile(where.roots, 2), np.repeat([0, 1], len(where.roots)))
    overlapping = build_forest(tree, twice)
    with pytest.raises(ValueError, match="overlap"):
        solve_ranges(overlapping, draw_ranges(overlapping, 2), iterations=1)
