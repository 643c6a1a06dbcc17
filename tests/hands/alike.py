"""Games in both forms, and policies in both."""

from __future__ import annotations

import functools

import numpy as np

from jaxgadget import HistoryTree, Policy, enumerate_game, load
from jaxgadget.hands.form import HandsForm, by_hands
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.tree.hands import FoundHands, find_hands
from tests.reference.random_games import SHAPES, RandomGame

QUICK = ("kuhn_poker", "leduc_poker", "liars_dice(dice_sides=4)", "random")
LONG = (
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
    from jaxgadget import best_response, evaluate_policy
    from jaxgadget.hands.evaluate import best_hands_response, evaluate_hands

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
    """The averages after each of the first five iterations, and what they are worth."""
    from jaxgadget import cfr_checkpoints, evaluate_policy
    from jaxgadget.hands.solve import solve_hands

    expected = cfr_checkpoints(histories(spec), range(1, 6), algorithm=algorithm)
    values = evaluate_policy(expected)
    for lane in range(5):
        solution = solve_hands(form(spec), algorithm=algorithm, iterations=lane + 1)
        assert_same_policies(solution.policy, expected.lane(lane), spec)
        assert abs(solution.value - values.value[lane]) < TOLERANCE
        assert abs(solution.nash_conv - values.nash_conv[lane]) < TOLERANCE
        np.testing.assert_allclose(
            solution.best_response_values, values.best_response_values[:, lane], rtol=0, atol=TOLERANCE
        )
