"""The same games and policies in both forms."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget import (
    BlueprintValues,
    ContinuationPrior,
    ContinuationValues,
    Full,
    HistoryTree,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    Policy,
    RangePrior,
    ReachMaxMargin,
    ReachResolving,
    Refinement,
    Resolving,
    UniformPrior,
    Unsafe,
    best_response,
    cfr_checkpoints,
    enumerate_game,
    evaluate_policy,
    load,
    refine,
    solve,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cut import cut as cut_of
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.hands import FoundHands, find_hands
from jaxgadget.tree.public import PublicTree, match_sequences, public_tree
from tests.reference.random_games import SHAPES, RandomGame
from tests.solving import nested_search, settings

QUICK = ("kuhn_poker", "leduc_poker", "liars_dice(dice_sides=4)", "random")
LONG = (
    "leduc_poker",
    "liars_dice(dice_sides=4)",
    "leduc_poker(num_ranks=5)",
    "leduc_poker(num_ranks=13,num_suits=4,suit_isomorphism=True)",
    "liars_dice",
    "liars_dice(numdice=2,dice_sides=3)",
)
TOLERANCE = 1e-12


@functools.cache
def found(spec: str) -> FoundHands:
    """The game of that name; `random` has random payoffs, so that every end has its own table."""
    game = RandomGame(SHAPES["betting"], 0) if spec == "random" else load(spec)
    return find_hands(enumerate_game(game))


def histories(spec: str) -> HistoryTree:
    return found(spec).tree


@functools.cache
def public(spec: str) -> PublicTree:
    """The public tree from the rules, if they define one."""
    return public_tree(histories(spec) if spec == "random" else load(spec))


@functools.cache
def random_policies(spec: str) -> tuple[Policy, Policy]:
    """Three policies of the histories and of the public tree, some rows pure."""
    tree = histories(spec)
    parts = [Policy.dirichlet(tree, seed, alpha) for seed, alpha in ((0, 1.0), (1, 0.1), (2, 0.02))]
    policy = Policy.stack(parts)
    return policy, policy.on(public(spec))


def check_evaluation(spec: str) -> None:
    """Values, best responses and action values equal those in the histories."""
    policy, by_hand = random_policies(spec)
    ours, theirs = evaluate_policy(by_hand), evaluate_policy(policy)
    np.testing.assert_allclose(ours.value, theirs.value, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(ours.best_response_values, theirs.best_response_values, rtol=0, atol=TOLERANCE)
    assert ours.nash_conv.min() > 0.01
    for player, sequence in enumerate(match_sequences(policy.tree, by_hand.tree, "tree")):
        answer, expected = best_response(by_hand, player), best_response(policy, player)
        np.testing.assert_allclose(answer.value, expected.value, rtol=0, atol=TOLERANCE)
        own = answer.action_values[sequence[1:] - 1]
        np.testing.assert_allclose(own, expected.action_values, rtol=0, atol=TOLERANCE)
        again = evaluate_policy(answer.policy).value * (1 if player == 0 else -1)
        np.testing.assert_allclose(again, answer.value, rtol=0, atol=TOLERANCE)


def check_iterations(spec: str, algorithm: str) -> None:
    """The averages after each of the first five iterations, and their values.

    Compared as realisation plans, in small games also row by row. If a player's reach is tiny, rows are
    quotients of small numbers and rounding is amplified: 2e-12 in a row of Liar's Dice 1×6 with reach 2e-4.
    """
    expected = cfr_checkpoints(histories(spec), range(1, 6), algorithm=algorithm)
    values = evaluate_policy(expected)
    for lane in range(5):
        solution = solve(public(spec), algorithm=algorithm, iterations=lane + 1)
        ours = solution.policy.on(histories(spec))
        for player in (0, 1):
            plans = ours.reach(player), expected.lane(lane).reach(player)
            np.testing.assert_allclose(*plans, rtol=0, atol=TOLERANCE)
        if spec in QUICK:
            for rows, other in zip(ours.probabilities, expected.lane(lane).probabilities, strict=True):
                np.testing.assert_allclose(rows, other, rtol=0, atol=TOLERANCE)
        assert abs(solution.value - values.value[lane]) < TOLERANCE
        assert abs(solution.nash_conv - values.nash_conv[lane]) < TOLERANCE
        np.testing.assert_allclose(
            solution.best_response_values, values.best_response_values[:, lane], rtol=0, atol=TOLERANCE
        )


def check_ranges(spec: str, cut: str, where: str, player: int) -> None:
    """Reaches, masses, V̄, V and the trunk at a cut equal those in the histories, also for pure rows."""
    policy, by_hand = random_policies(spec)
    gadgets, other = [Full(), Resolving(alternative=BlueprintValues())], 1 - player
    forest = build_forest(policy.tree, cut_of(policy.tree, cut), padded=False)
    theirs = prepare(forest, player, policy, gadgets).ranges
    by_hands = build_forest(by_hand.tree, where)
    ours = prepare(by_hands, player, by_hand, gadgets).ranges
    # The histories' roots by public node and hand.
    node, hand = found(spec).node, found(spec).hand
    number = np.full(len(by_hand.tree.parent), -1)
    number[by_hands.cut.roots] = np.arange(len(by_hands.cut.roots))
    row = [np.zeros(len(roots), np.int64) for roots in forest.roots]
    for p, roots in enumerate(forest.roots):
        for history in forest.cut.roots.tolist():
            k = np.flatnonzero(roots.infostate == policy.tree.infostate[p, history])
            row[p][k] = number[node[history]] * public(spec).num_hands[p] + hand[p, history]
    pairs = set(zip(ours.subgame[row[other]].tolist(), theirs.subgame.tolist(), strict=True))
    assert len(pairs) == ours.num_subgames == theirs.num_subgames  # they are numbered in another order
    for name in ("opponent", "mass", "cbv", "played"):
        expected = np.zeros_like(getattr(ours, name))
        expected[row[other]] = getattr(theirs, name)
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=0, atol=TOLERANCE, err_msg=name)
    np.testing.assert_allclose(ours.resolver[row[player]], theirs.resolver, rtol=0, atol=TOLERANCE)
    best = [np.asarray(ranges.above.best_values(ranges.cbv)[2]) for ranges in (ours, theirs)]
    np.testing.assert_allclose(best[0], best[1], rtol=0, atol=TOLERANCE)
    mass = [ranges.above.mass.sum(axis=0) for ranges in (ours, theirs)]
    np.testing.assert_allclose(mass[0], mass[1], rtol=0, atol=TOLERANCE)
    assert ours.above.terminates.any() == theirs.above.terminates.any()


def several_gadgets() -> list[Gadget]:
    """Every gadget, prior, alternative value and kind of gift."""
    return [
        Unsafe(),
        Resolving(epsilon=0.02),
        Resolving(UniformPrior(), 0.05),
        Resolving(alternative=BlueprintValues()),
        Resolving(ContinuationPrior(ContinuationValues(4)), 0.1, ContinuationValues(4)),
        MaxMargin(),
        MaxMargin(NoPrior()),
        MaxMargin(RangePrior(), 0.1),
        MaxMargin(alternative=ContinuationValues(4)),
        ReachResolving(epsilon=0.02),
        ReachResolving(UniformPrior(), 0.05, gifts="estimate"),
        ReachMaxMargin(epsilon=0.02),
        Full(NoPrior()),
        Full(epsilon=0.02),
        Full(RangePrior(), 0.1),
        OptimalContinuation(NoPrior()),
        OptimalContinuation(UniformPrior(), 0.05),
    ]


def assert_same_numbers(
    result: Refinement, expected: Refinement, names: Sequence[str], tolerance: float
) -> None:
    """Compare lane by lane; subgames may have another order."""
    for name in names:
        ours, theirs = (np.asarray(getattr(x, name), np.float64) for x in (result, expected))
        if ours.ndim == 2:
            ours, theirs = np.sort(ours, axis=0), np.sort(theirs, axis=0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance, err_msg=name)


def check_refinement(spec: str, cut: str, player: int, tolerance: float = TOLERANCE, **changed: Any) -> None:
    """Strategies, values, gaps and bounds of `refine` with priors, subgame by subgame.

    Five iterations by default; `changed` overrides settings. Blueprints have full support. If the largest
    root of a subgame has reach 1e-21 and the next one 1e-27, regrets of near ties are rounding errors
    (`tests/slow/test_hands.py` shows it in exact numbers), and iterates of the two forms differ arbitrarily.
    """
    tree = histories(spec)
    policy = Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1, 0.5)])
    asked = {"player": player, "iterations": 5, "dtype": "float64", "value": (-0.01, 0.01)}
    asked = {"gadgets": several_gadgets()} | asked | changed
    expected = refine(tree, cut, policy, **settings(**asked))
    tree = public(spec)
    result = refine(tree, cut, policy.on(tree), **settings(**asked))
    again = result.policy.on(policy.tree)
    if spec in QUICK:
        for rows, other in zip(again.probabilities, expected.policy.probabilities, strict=True):
            np.testing.assert_allclose(rows, other, rtol=0, atol=tolerance)
    np.testing.assert_allclose(again.reach(player), expected.policy.reach(player), rtol=0, atol=tolerance)
    assert result.policy.labels == expected.policy.labels
    assert_same_numbers(result, expected, ("gadget_value", "gap", "has_decision"), tolerance)
    pd.testing.assert_frame_equal(result.table, expected.table, rtol=0, atol=tolerance, check_dtype=False)


def check_programs(spec: str, cut: str, player: int, tolerance: float = 1e-9) -> None:
    """Linear programs: values, gaps and ε of `refine`, subgame by subgame.

    One blueprint is pure at many infosets, so that some subgames have roots of no mass and ties. If floors
    are too small for a program, both forms refuse the same lanes. Values of an optimal continuation are not
    unique and therefore not used as alternatives here.
    """
    tree = histories(spec)
    policy = Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 2, 0.02)])
    gadgets = [
        Unsafe(),
        Resolving(epsilon="auto"),
        MaxMargin(NoPrior()),
        MaxMargin(epsilon=0.02),
        ReachMaxMargin(NoPrior()),
        Full(NoPrior()),
        OptimalContinuation(NoPrior()),
    ]
    asked = {"player": player, "algorithm": "lp", "value": (-0.01, 0.01)}
    expected = refine(tree, cut, policy, gadgets, **settings(**asked))
    result = refine(public(spec), cut, policy.on(public(spec)), gadgets, **settings(**asked))
    assert result.failures == expected.failures and len(result.failures) < len(gadgets)
    names = ("gadget_value", "gap", "epsilon", "exploitability_bound", "blueprint_exploitability")
    assert_same_numbers(result, expected, names, tolerance)


def check_nested(
    spec: str, player: int, gadgets: Sequence[Gadget], tolerance: float = TOLERANCE, **changed: Any
) -> None:
    """Nested search to the end of the game: policies, gaps and exploitabilities equal the histories'."""
    policy = Policy.stack([Policy.dirichlet(histories(spec), 0), Policy.dirichlet(histories(spec), 1, 0.5)])
    asked = {"player": player, "iterations": 4, "dtype": "float64", "value": (-0.01, 0.01)} | changed
    expected, result = (nested_search(x.tree, x, gadgets, **asked) for x in (policy, policy.on(public(spec))))
    again = result.policy.on(policy.tree)
    for rows, other in zip(again.probabilities, expected.policy.probabilities, strict=True):
        np.testing.assert_allclose(rows, other, rtol=0, atol=tolerance)
    assert result.policy.labels == expected.policy.labels
    assert result.nested_exploitability.min() > 0.01
    ours, theirs = (x.table.drop(columns=["seconds", "objectives"]) for x in (result, expected))
    pd.testing.assert_frame_equal(ours, theirs, rtol=0, atol=tolerance, check_dtype=False)
    np.testing.assert_allclose(result.objectives, expected.objectives, rtol=0, atol=tolerance)
