"""Lifted policies of abstractions: equal values, larger best responses; checked on explicit trees."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Mapping

import numpy as np
import pytest

from jaxgadget import HistoryTree, Policy, Solver, enumerate_game, evaluate_policy, load, solve
from jaxgadget.games.abstraction import Abstraction
from jaxgadget.games.examples import Chance, Outcome, TreeRules, Turn
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.policy.lift import lift
from tests.reference import efg
from tests.reference.random_games import SHAPES, random_tree

shapes = pytest.mark.parametrize("shape", SHAPES)


def identity(player: int, infostate: str) -> str:
    return infostate


def ranks(player: int, infostate: str) -> str:
    return re.sub(r"\[(Private|Public): (\d)\]", lambda card: f"[{card[1]}: {int(card[2]) // 2}]", infostate)


@functools.cache
def leduc() -> HistoryTree:
    return enumerate_game(load("leduc_poker"))


@functools.cache
def without_suits() -> HistoryTree:
    return enumerate_game(Abstraction(leduc().game, ranks))


@functools.cache
def merged(shape: str, seed: int) -> HistoryTree:
    """A random game with random unions of infosets that have the same past and actions."""
    tree, rng = random_tree(shape, seed)[0], np.random.default_rng(seed)
    buckets: dict[tuple[int, str], Hashable] = {}
    for player, infosets in enumerate(tree.infosets):
        for j in range(len(infosets)):
            parent = int(infosets.parent[j])
            above = int(infosets.infoset[parent])
            past = above >= 0 and (
                buckets[player, tree.infoset_names[player][above]],
                int(infosets.action[parent]),
            )
            first = int(infosets.first_sequence[j])
            actions = tuple(infosets.action[first : first + int(infosets.num_actions[j])].tolist())
            buckets[player, tree.infoset_names[player][j]] = (past, actions, int(rng.integers(2)))
    return enumerate_game(Abstraction(tree.game, lambda player, infostate: buckets[player, infostate]))


def rows(policy: Policy, lane: int = 0) -> Mapping[Hashable, np.ndarray]:
    pair = [np.append(1.0, part[:, lane]) for part in policy.probabilities]
    return efg.from_sequences(policy.tree, (pair[0], pair[1]))


@shapes
def test_expected_values_are_preserved(shape: str):
    seed = 0
    tree, game = random_tree(shape, seed)
    coarse = merged(shape, seed)
    assert sum(map(len, coarse.infosets)) < sum(map(len, tree.infosets)), "nothing was merged"
    policy = Policy.stack([Policy.dirichlet(coarse, seed + k, 0.5) for k in range(3)])
    lifted = lift(policy, tree)
    assert lifted.tree is tree and lifted.labels == policy.labels
    abstract = efg.from_tree(coarse)
    for lane in range(policy.num_lanes):
        before = efg.value(abstract.root, rows(policy, lane))
        assert efg.value(game.root, rows(lifted, lane)) == pytest.approx(before, abs=1e-12)
        for player in (0, 1):  # more information cannot hurt
            coarse_best = efg.best_response_value(abstract.root, player, rows(policy, lane))
            best = efg.best_response_value(game.root, player, rows(lifted, lane))
            assert best >= coarse_best - 1e-12


@shapes
def test_every_history_keeps_its_probabilities(shape: str):
    """Move by move: after a history the lifted policy plays the abstract policy's row there."""
    tree, coarse = random_tree(shape, 1)[0], merged(shape, 1)
    policy = Policy.dirichlet(coarse, 3)
    lifted = lift(policy, tree)
    for h in range(1, tree.num_histories):
        for player in (0, 1):
            if tree.action[player, h] >= 0:
                played = [
                    p.probabilities[player][int(p.tree.sequence[player, h]) - 1, 0] for p in (policy, lifted)
                ]
                assert played[0] == played[1]


@shapes
def test_the_identity_lifts_a_policy_to_itself(shape: str):
    tree, game = random_tree(shape, 0)
    same = enumerate_game(Abstraction(tree.game, identity))
    policy = Policy.dirichlet(tree, 5)
    by_name = {
        (p, name): policy.probabilities[p][first - 1 : first - 1 + count]
        for p in (0, 1)
        for name, first, count in zip(
            tree.infoset_names[p], tree.infosets[p].first_sequence, tree.infosets[p].num_actions, strict=True
        )
    }
    copy = Policy.from_function(same, lambda p, i, k: by_name[p, same.infoset_names[p][i]][:, 0], "copy")
    for mine, its in zip(lift(copy, tree).probabilities, policy.probabilities, strict=True):
        np.testing.assert_array_equal(mine, its)
    gaps = [
        efg.nash_conv(game.root, rows(p)) for p in (lift(Policy.uniform(same), tree), Policy.uniform(tree))
    ]
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-12)


def test_the_identity_solves_to_the_same_policy():
    tree = enumerate_game(load("kuhn_poker"))
    same = enumerate_game(Abstraction(tree.game, identity))
    solutions = [
        solve(t, solver=Solver(algorithm="cfr", iterations=25, progress=False)) for t in (tree, same)
    ]
    lifted = lift(solutions[1].policy, tree)
    for mine, its in zip(lifted.probabilities, solutions[0].policy.probabilities, strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-9)
    assert evaluate_policy(lifted).nash_conv[0] == pytest.approx(solutions[0].nash_conv, abs=1e-12)


@pytest.mark.slow
def test_a_lossless_abstraction_solves_the_game():
    tree = leduc()
    solution = solve(without_suits(), solver=Solver(algorithm="pcfr+", iterations=2000, progress=False))
    lifted = evaluate_policy(lift(solution.policy, tree))
    assert lifted.nash_conv[0] == pytest.approx(solution.nash_conv, abs=1e-12), "suits never matter"
    assert lifted.nash_conv[0] < 1e-3
    assert lifted.value[0] == pytest.approx(-0.0856064, abs=1e-3)  # Leduc's value


def test_a_lossy_abstraction_is_exploitable_in_the_game():
    def king_or_not(player: int, infostate: str) -> str:
        return infostate.replace("0", "1")

    tree = enumerate_game(load("kuhn_poker"))
    coarse = enumerate_game(Abstraction(tree.game, king_or_not))
    solution = solve(coarse, solver=Solver(algorithm="pcfr+", iterations=1000, progress=False))
    lifted = lift(solution.policy, tree)
    walked = efg.from_tree(tree).root
    assert efg.value(walked, rows(lifted)) == pytest.approx(solution.value, abs=1e-12)
    assert solution.nash_conv < 1e-3
    assert efg.nash_conv(walked, rows(lifted)) > 0.1


def test_abstractions_are_undone_one_by_one_or_at_once():
    once = without_suits()

    def kings(player: int, infostate: str) -> str:
        return re.sub("Private: [01]", "Private: low", infostate)

    twice = enumerate_game(Abstraction(once.game, kings))
    policy = Policy.dirichlet(twice, 2)
    direct = enumerate_game(Abstraction(leduc().game, lambda p, s: kings(p, ranks(p, s)), name="both"))
    by_both = Policy(direct, policy.probabilities, policy.labels)
    lifted = lift(lift(policy, once), leduc())
    for mine, its in zip(lifted.probabilities, lift(by_both, leduc()).probabilities, strict=True):
        np.testing.assert_array_equal(mine, its)
    for mine, its in zip(lifted.probabilities, lift(policy, leduc()).probabilities, strict=True):
        np.testing.assert_array_equal(mine, its)


def test_wrong_trees_are_refused():
    kuhn = enumerate_game(load("kuhn_poker"))
    policy = Policy.uniform(without_suits())
    expected = "'kuhn_poker' and 'abstraction(leduc_poker,ranks)' are not one game .*: chance outcomes differ"
    with pytest.raises(ValueError, match=expected.replace("(", r"\(").replace(")", r"\)")):
        lift(policy, kuhn)
    with pytest.raises(ValueError, match="payoffs"):
        lift(Policy.uniform(leduc()), enumerate_game(load("leduc_poker(raise_sizes=2-5)")))
    with pytest.raises(ValueError, match="history"):
        lift(Policy.uniform(enumerate_game(lopsided(0.5))), enumerate_game(lopsided(0.25)))
    with pytest.raises(ValueError, match="depths"):
        lift(Policy.uniform(enumerate_game(load("kuhn_poker"), depth=0)), kuhn)
    with pytest.raises(ValueError, match="lies in several of 'leduc_poker'"):
        lift(Policy.uniform(leduc()), without_suits())


def lopsided(probability: float) -> StepwiseGame:
    turn = Turn(0, {"a": 1.0, "b": 0.0})
    outcomes = [Outcome(probability, turn), Outcome(1 - probability, turn)]
    return StepwiseGame(TreeRules("lopsided", ("a", "b"), Chance(outcomes)))
