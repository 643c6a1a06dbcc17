"""Ranges of policies by hands in public subgames equal those in the subgames of histories."""

import pytest

from tests.hands import alike


@pytest.mark.parametrize("player", [0, 1])
def test_ranges_are_those_of_the_histories(player: int):
    alike.check_ranges("kuhn_poker", "depth:1", "depth:1", player)


def test_ranges_below_a_public_card():
    """Some hands are impossible there: roots of no mass."""
    alike.check_ranges("leduc_poker", "flop", "chance", 0)
