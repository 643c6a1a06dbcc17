"""Larger games: by hands everything is as with histories."""

import pytest

from tests.hands import alike
from tests.tree.test_hands import test_hands_in_histories_are_those_of_the_rules as check_hands


@pytest.mark.parametrize("spec", alike.LONG)
def test_hands(spec: str):
    check_hands(spec)


@pytest.mark.parametrize("spec", alike.LONG)
def test_values_and_best_responses(spec: str):
    alike.check_evaluation(spec)


@pytest.mark.parametrize("algorithm", ["cfr", "cfr+", "dcfr"])
@pytest.mark.parametrize("spec", alike.LONG)
def test_iterates(spec: str, algorithm: str):
    alike.check_iterations(spec, algorithm)


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize(
    ("spec", "cut", "where"),
    [
        ("leduc_poker", "flop", "chance"),
        ("leduc_poker(num_ranks=5)", "flop", "chance"),
        ("leduc_poker(num_ranks=13,num_suits=4,suit_isomorphism=True)", "flop", "chance"),
        ("liars_dice(dice_sides=4)", "depth:2", "depth:2"),
    ],
)
def test_gadget_games(spec: str, cut: str, where: str, player: int):
    alike.check_refinement(spec, cut, where, player, 1e-10)
