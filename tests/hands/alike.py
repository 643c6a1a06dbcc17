"""Games in both forms, and policies in both."""

from __future__ import annotations

import functools

import numpy as np

from jaxgadget import (
    BlueprintValues,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Policy,
    RangePrior,
    Resolving,
    UniformPrior,
    Unsafe,
    best_response,
    cfr_checkpoints,
    enumerate_game,
    evaluate_policy,
    load,
    refine,
)
from jaxgadget.hands.evaluate import best_hands_response, evaluate_hands
from jaxgadget.hands.form import HandsForm, by_hands
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.hands.refine import refine_hands
from jaxgadget.hands.solve import solve_hands
from jaxgadget.tree.hands import FoundHands, find_hands
from tests.reference.random_games import SHAPES, RandomGame

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
    """Of a game of that name; `random`: with random payoffs, so that every end has a table of its own."""
    game = RandomGame(SHAPES["betting"], 0) if spec == "random" else load(spec)
    return find_hands(enumerate_game(game))


def histories(spec: str) -> HistoryTree:
    return found(spec).tree


@functools.cache
def form(spec: str) -> HandsForm:
    """As the rules say it, if they do."""
    return HandsForm(found(spec).game if spec == "random" else by_hands(load(spec)))


@functools.cache
def random_policies(spec: str) -> tuple[Policy, HandsPolicy]:
    """Three, with pure rows among them, in both forms."""
    tree = histories(spec)
    parts = [Policy.dirichlet(tree, seed, alpha) for seed, alpha in ((0, 1.0), (1, 0.1), (2, 0.02))]
    policy = Policy.stack(parts)
    return policy, HandsPolicy.from_policy(policy, found(spec), form(spec))


def assert_same_policies(
    by_hand: HandsPolicy, policy: Policy, spec: str, tolerance: float = TOLERANCE
) -> None:
    for one, other in zip(by_hand.to_policy(found(spec)).probabilities, policy.probabilities, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def check_evaluation(spec: str) -> None:
    """Values, best responses and gradients are those of the histories."""
    policy, by_hand = random_policies(spec)
    assert_same_policies(by_hand, policy, spec, 0.0)
    ours, theirs = evaluate_hands(by_hand), evaluate_policy(policy)
    np.testing.assert_allclose(ours.value, theirs.value, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(ours.best_response_values, theirs.best_response_values, rtol=0, atol=TOLERANCE)
    assert ours.nash_conv.min() > 0.01
    for player in (0, 1):
        answer, expected = best_hands_response(by_hand, player), best_response(policy, player)
        np.testing.assert_allclose(answer.value, expected.value, rtol=0, atol=TOLERANCE)
        place = found(spec).infosets(player)
        infosets = expected.policy.tree.infosets[player]
        owner = infosets.infoset[1:]
        child = form(spec).game.tree.first_child[place[0][owner]]
        child += np.arange(1, infosets.num_sequences) - infosets.first_sequence[owner]
        row = np.searchsorted(form(spec).children[player], child)
        own = answer.action_values[row, place[1][owner]]
        np.testing.assert_allclose(own, expected.action_values, rtol=0, atol=TOLERANCE)
        again = evaluate_hands(answer.policy).value * (1 if player == 0 else -1)
        np.testing.assert_allclose(again, answer.value, rtol=0, atol=TOLERANCE)


def check_iterations(spec: str, algorithm: str) -> None:
    """The averages after each of the first five iterations, and what they are worth.

    As realisation plans; in small games row by row too. Where a player hardly comes, a row is a quotient of
    small numbers, and rounding counts for more: 2e-12 in a row of Liar's Dice 1×6 with reach 2e-4.
    """
    expected = cfr_checkpoints(histories(spec), range(1, 6), algorithm=algorithm)
    values = evaluate_policy(expected)
    for lane in range(5):
        solution = solve_hands(form(spec), algorithm=algorithm, iterations=lane + 1)
        ours = solution.policy.to_policy(found(spec))
        for player in (0, 1):
            plans = ours.reach(player), expected.lane(lane).reach(player)
            np.testing.assert_allclose(*plans, rtol=0, atol=TOLERANCE)
        if spec in QUICK:
            assert_same_policies(solution.policy, expected.lane(lane), spec)
        assert abs(solution.value - values.value[lane]) < TOLERANCE
        assert abs(solution.nash_conv - values.nash_conv[lane]) < TOLERANCE
        np.testing.assert_allclose(
            solution.best_response_values, values.best_response_values[:, lane], rtol=0, atol=TOLERANCE
        )


def check_refinement(spec: str, cut: str, where: str, player: int, tolerance: float = TOLERANCE) -> None:
    """Five iterations of gadget games with priors: the strategies, values, gaps and bounds of `refine`.

    Blueprints come everywhere with some probability. Where a root has 1e-24, an exact tie of its actions is
    decided by rounding, in either form.
    """
    tree = histories(spec)
    policy = Policy.stack([Policy.dirichlet(tree, 0), Policy.dirichlet(tree, 1, 0.5)])
    gadgets = [
        Unsafe(),
        Resolving(epsilon=0.02),
        Resolving(UniformPrior(), 0.05),
        Resolving(alternative=BlueprintValues()),
        MaxMargin(),
        MaxMargin(NoPrior()),
        MaxMargin(RangePrior(), 0.1),
    ]
    bracket = -0.01, 0.01
    asked = {"player": player, "iterations": 5, "dtype": "float64"}
    expected = refine(tree, cut, policy, gadgets, value=bracket, **asked)
    by_hand = HandsPolicy.from_policy(policy, found(spec), form(spec))
    result = refine_hands(by_hand, where, gadgets, value=bracket, **asked)
    assert_same_policies(result.policy, expected.policy, spec, tolerance)
    assert result.gap.shape == expected.gap.shape
    ours, theirs = result.table, expected.table
    for column in ours.columns:
        if column in ("player", "blueprint", "gadget", "prior", "epsilon"):
            assert ours[column].tolist() == theirs[column].tolist()
        elif column != "failure":
            one, other = (np.asarray(table[column], np.float64) for table in (ours, theirs))
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
