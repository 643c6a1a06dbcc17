"""The oracles compared with published numbers, OpenSpiel, brute force and each other.

Golden numbers: OpenSpiel 2.0.2's rules and HiGHS, copied from the project's reference folder.
"""

from __future__ import annotations

import functools
import itertools
from typing import cast

import numpy as np
import pyspiel
import pytest
from open_spiel.python.algorithms import cfr as openspiel_cfr

from jaxgadget.games.game import CHANCE, PLAYER_0, PLAYER_1, SIMULTANEOUS
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.arrays import IntArray
from tests.reference import cfr, efg, lp
from tests.reference.openspiel import from_openspiel
from tests.reference.random_games import (
    LARGEST,
    SHAPES,
    SMALLEST,
    RandomGame,
    random_policy,
    random_shape,
    random_subgames,
    random_tree,
)

KUHN = "kuhn_poker"
GOOFSPIEL_3 = "goofspiel(imp_info=True,num_cards=3,points_order=descending)"
GOOFSPIEL_4 = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"

# histories, infosets of both, value to player 0, then per policy [player 1 against player 0's, and reverse]
GAMES = {
    KUHN: (58, 6, -0.05555555556, [0.4166666667, 0.5], [0.5555555556, 0.6666666667], [0.3333333333] * 2),
    GOOFSPIEL_3: (46, 8, 0.0, [0.6666666667] * 2, [0.7619047619] * 2, [0.5714285714] * 2),
    GOOFSPIEL_4: (737, 81, 0.0, [0.7083333333] * 2, [0.873015873] * 2, [0.6698412698] * 2),
}


@functools.cache
def openspiel_game(name: str) -> efg.Game:
    return from_openspiel(pyspiel.load_game(name))


# Whole games


@pytest.mark.parametrize("name", GAMES)
def test_whole_games_have_the_reference_numbers(name: str) -> None:
    histories, infosets, expected, *responses = GAMES[name]
    game = openspiel_game(name)
    assert len(game.nodes) == histories
    assert [len(efg.infosets_of(game.root, p)) for p in (0, 1)] == [infosets, infosets]
    for player in (0, 1):
        assert lp.solve(game.root, player).value == pytest.approx(efg.sign(player) * expected, abs=1e-9)
    for ratio, (against_0, against_1) in zip((1.0, 0.5, 2.0), responses, strict=True):
        policy = efg.geometric(game.root, ratio)
        assert efg.best_response_value(game.root, 1, policy) == pytest.approx(against_0, abs=1e-9)
        assert efg.best_response_value(game.root, 0, policy) == pytest.approx(against_1, abs=1e-9)


@pytest.mark.parametrize("player", [0, 1])
def test_best_response_is_the_best_pure_strategy(player: int) -> None:
    root = openspiel_game(KUHN).root
    rng = np.random.default_rng(player)
    policy = {k: rng.dirichlet(np.ones(len(n.actions))) for k, n in efg.infosets(root).items()}
    mine = efg.infosets_of(root, player)
    best = max(
        efg.sign(player) * efg.value(root, {**policy, **dict(zip(mine, rows, strict=True))})
        for rows in itertools.product(np.eye(2), repeat=len(mine))
    )
    assert efg.best_response_value(root, player, policy) == pytest.approx(best, abs=1e-12)


def test_counterfactual_values_add_up_to_the_value() -> None:
    _, game = random_tree("betting", 0)
    policy = efg.geometric(game.root, 0.7)
    q = efg.counterfactual_values(game.root, 0, policy)
    first = (0, 0), (0, 1)  # player 0's first infosets, one per card, without own actions before
    total = sum(policy[label] @ q[label] for label in first)
    assert efg.own_reaches(game.root, 0, policy)[first[0]] == 1.0
    assert total == pytest.approx(efg.value(game.root, policy), abs=1e-12)


# CFR


@pytest.mark.parametrize(
    ("rule", "solver"), [("cfr", openspiel_cfr.CFRSolver), ("cfr+", openspiel_cfr.CFRPlusSolver)]
)
def test_cfr_on_kuhn_equals_openspiel(rule: str, solver: type) -> None:
    theirs = solver(pyspiel.load_game(KUHN))
    for ours in cfr.run(openspiel_game(KUHN).root, rule, 10):
        theirs.evaluate_and_update_policy()
        if ours.iteration in (1, 2, 10):
            for policy, rows in (
                (theirs.average_policy(), ours.average),
                (theirs.current_policy(), ours.current),
            ):
                for label, row in rows.items():
                    _, name = cast(tuple[int, str], label)
                    np.testing.assert_allclose(policy.policy_for_key(name), row, rtol=0, atol=1e-12)


def test_rules_by_hand() -> None:
    before, regret = np.array([1.0, -2.0, 0.0]), np.array([-3.0, 1.0, 4.0])  # sums to [-2, -1, 4]
    np.testing.assert_allclose(cfr.updated("cfr", before, regret, 4), [-2, -1, 4])
    np.testing.assert_allclose(cfr.updated("cfr+", before, regret, 4), [0, 0, 4])
    np.testing.assert_allclose(cfr.updated("pcfr+", before, regret, 4), [0, 0, 4])
    np.testing.assert_allclose(cfr.updated("linear", before, regret, 4), [-1.6, -0.8, 3.2])  # 4/5
    np.testing.assert_allclose(cfr.updated("dcfr", before, regret, 4), [-1, -0.5, 32 / 9])  # 1/2; 8/9
    assert [cfr.average_weight(rule, 3) for rule in cfr.RULES] == [1, 3, 3, 9, 9, 9]
    np.testing.assert_allclose(cfr.matched(np.array([-1.0, 1e-9]), 1e-8), [0.5, 0.5])
    np.testing.assert_allclose(cfr.matched(np.array([-1.0, 1e-9]), 0.0), [0, 1])


def test_linear_cfr_weights_iteration_t_by_t() -> None:
    """Over T iterations, discounting by t/(t+1) leaves Σ t·r_t / (T+1)."""
    root = openspiel_game(KUHN).root
    weighted: dict[efg.Label, efg.Array] = {}
    before = {label: np.full(2, 0.5) for label in efg.infosets(root)}
    for it in cfr.run(root, "linear", 5):
        for player in (0, 1):
            newest = efg.infosets_of(root, 0) if player == 1 else []  # player 0 is updated first
            mixed = {**before, **{label: it.current[label] for label in newest}}
            for label, q in efg.counterfactual_values(root, player, mixed).items():
                regret = it.iteration * (q - mixed[label] @ q)
                weighted[label] = weighted.get(label, np.zeros(2)) + regret
        before = it.current
        for label, row in weighted.items():
            np.testing.assert_allclose(it.regret_sum[label], row / (it.iteration + 1), atol=1e-14)


def test_predictive_cfr_counts_the_last_regret_twice() -> None:
    root = openspiel_game(KUHN).root
    first = next(cfr.run(root, "pcfr+", 1))
    q = efg.counterfactual_values(root, 0, efg.uniform(root))
    for label, row in q.items():
        regret = row - row.mean()
        np.testing.assert_allclose(
            first.current[label], cfr.matched(np.maximum(regret, 0) + regret, 0.0), atol=1e-14
        )


# Floors


def test_perturbed_regret_is_the_transpose_of_the_shrunken_simplex() -> None:
    prior, eps = np.array([0.2, 0.5, 0.3]), 0.1
    basis = (1 - eps) * np.eye(3) + eps * np.outer(prior, np.ones(3))
    regret, row = np.array([1.0, -2.0, 0.5]), np.array([0.6, 0.0, 0.4])
    np.testing.assert_allclose(cfr.perturbed(regret, eps * prior), basis.T @ regret)
    np.testing.assert_allclose(efg.with_floor(row, eps * prior), basis @ row)


def test_floors_hold_in_cfr_responses_and_programs() -> None:
    root = openspiel_game(KUHN).root
    rng = np.random.default_rng(0)
    floors = {k: 0.1 * rng.dirichlet(np.ones(2)) for k in efg.infosets(root)}
    start = next(cfr.run(root, "cfr+", 1, floors=floors))
    for label, row in start.average.items():
        np.testing.assert_allclose(row, 0.45 + floors[label])  # (1-ε)·uniform + ε·prior
    last = cfr.final(root, "cfr+", 200, floors=floors)
    assert all((last.average[k] >= floors[k] - 1e-12).all() for k in floors)
    gap = efg.nash_conv(root, last.average, floors)
    solutions = [lp.solve(root, player, floors) for player in (0, 1)]
    assert solutions[0].value == pytest.approx(-solutions[1].value, abs=1e-9)
    for player in (0, 1):
        guaranteed = -efg.best_response_value(root, 1 - player, last.average, floors)
        assert guaranteed - 1e-9 <= solutions[player].value <= guaranteed + gap + 1e-9
        assert all(
            (solutions[player].strategy[k] >= floors[k] - 1e-7).all() for k in solutions[player].strategy
        )
    assert 0 < gap < 0.01
    assert abs(solutions[0].value - lp.solve(root, 0).value) > 1e-3


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_many_strategies_are_answered_as_each_by_itself(shape: str, player: int) -> None:
    tree, game = random_tree(shape, 0)
    rng = np.random.default_rng(player)
    lanes = [random_policy(tree, rng, zeros) for zeros in (0.0, 0.4, 0.4)]
    together = {label: np.stack([rows[label] for rows in lanes], axis=1) for label in lanes[0]}
    past = efg.Chance((0.7, 0.6), (efg.Past(player, 0.5, game.root), efg.Past(1 - player, 0.2, game.root)))
    for root in (game.root, past):
        expected = [-efg.best_response_value(root, 1 - player, rows) for rows in lanes]
        np.testing.assert_allclose(efg.guaranteed(root, player, together), expected, atol=1e-12)


# Random games


def test_random_shapes_differ_in_all_that_a_structure_can() -> None:
    """Every seed draws a valid game: `enumerate_game` checks perfect recall and the other conditions."""
    trees = [enumerate_game(RandomGame(random_shape(seed), seed)) for seed in range(40)]
    again = enumerate_game(RandomGame(random_shape(7), 7))
    np.testing.assert_array_equal(again.payoff, trees[7].payoff)
    sizes = {tree.num_histories for tree in trees}
    assert SMALLEST <= min(sizes) < 40 and 200 < max(sizes) <= LARGEST and len(sizes) > 25
    assert all(len(tree.infosets[player]) > 0 for tree in trees for player in (0, 1))
    for actor in (CHANCE, PLAYER_0, PLAYER_1, SIMULTANEOUS):
        count = sum(bool((tree.actor == actor).any()) for tree in trees)
        assert 10 < count, "every kind of turn is there often"
    late = [_moves_before(tree) for tree in trees]
    assert any((first != last).any() for first, last in late), "some infosets span different lengths"
    rows = [np.bincount(tree.infoset[0][tree.infoset[0] >= 0]) for tree in trees]
    assert {1, 2, 3, 4} <= set(np.concatenate(rows).tolist()), "infosets have different sizes"
    scales = [float(np.abs(tree.payoff).max()) for tree in trees]
    assert min(scales) < 0.1 and max(scales) > 100
    assert any(tree.public is None for tree in trees) and any(tree.public is not None for tree in trees)


def _moves_before(tree: HistoryTree) -> tuple[IntArray, IntArray]:
    """The fewest and the most moves before each infoset of player 0."""
    acts = np.nonzero(tree.infoset[0] >= 0)[0]
    level = np.searchsorted(tree.level_offset, acts, side="right")
    fewest = np.full(len(tree.infosets[0]), tree.num_histories)
    most = np.zeros(len(tree.infosets[0]), np.int64)
    np.minimum.at(fewest, tree.infoset[0, acts], level)
    np.maximum.at(most, tree.infoset[0, acts], level)
    return fewest, most


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_fixed_and_varied(shape: str) -> None:
    (tree, game), (other, _) = random_tree(shape, 0), random_tree(shape, 1)
    for name in ("parent", "actor", "action", "infostate", "infoset", "sequence"):
        np.testing.assert_array_equal(getattr(tree, name), getattr(other, name))
    assert (tree.payoff != other.payoff).any() and (tree.chance != other.chance).any()
    assert len(np.unique(tree.payoff[tree.terminals])) == tree.num_terminals  # there are no ties
    assert tree.num_histories <= (230 if shape == "uneven" else 100)
    cut = random_subgames(shape, 0, 0)
    assert len(cut) == SHAPES[shape].subgames
    below = [set(infoset_labels(game, subgame.roots)) for subgame in cut]
    above = cast(set[tuple[int, int]], set(efg.infosets(game.root)) - set().union(*below))
    assert all(not a & b for a, b in itertools.combinations(below, 2))
    assert {p for p, _ in above} == {0, 1} and {p for p, _ in set().union(*below)} == {0, 1}
    assert len({len(labels) for labels in below}) > 1
    assert len({len(node.actions) for node in efg.infosets(game.root).values()}) > 1


def infoset_labels(game: efg.Game, roots: tuple[int, ...]) -> list[tuple[int, int]]:
    top = efg.Chance((1.0,) * len(roots), tuple(game.nodes[h] for h in roots))
    return cast(list[tuple[int, int]], list(efg.infosets(top)))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_and_sequences_are_the_same_policy(shape: str) -> None:
    tree, game = random_tree(shape, 0)
    policy = random_policy(tree, np.random.default_rng(0), 0.3)
    assert set(policy) == set(efg.infosets(game.root))
    assert all(len(policy[k]) == len(node.actions) for k, node in efg.infosets(game.root).items())
    assert any((row == 0).any() for row in policy.values())
    back = efg.from_sequences(tree, (efg.to_sequences(tree, policy, 0), efg.to_sequences(tree, policy, 1)))
    assert all(np.array_equal(back[label], row) for label, row in policy.items())
