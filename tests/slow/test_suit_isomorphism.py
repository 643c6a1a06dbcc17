"""Merged hands of turns and of many spots give the results of unmerged ones."""

import dataclasses

import pytest

from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.isomorphism import find_exchanges
from jaxgadget.holdem.solve import solve_spots
from jaxgadget.holdem.spots import Spot
from tests.holdem.test_isomorphism import MONOTONE, check_merged
from tests.holdem.test_solve import BLUFFS

pytestmark = pytest.mark.optimised

TURN = Spot(
    board="TsTh6s6h",
    oop="AA,54",
    ip="QQ,87s:0.7",
    pot=60,
    stack=60,
    menus=BetMenu(bets=(0.5,), raises=(), cap=1),
)


@pytest.mark.parametrize(
    ("board", "count"),
    [
        ("TsJs6s2d", 2),
    ],
)
def test_turns_are_solved_as_without(board: str, count: int):
    """Rivers that a suit permutation maps to each other share a table."""
    spot = dataclasses.replace(TURN, board=board)
    assert len(find_exchanges(spot)[0]) == count
    check_merged(spot)


def test_all_hands_of_several_spots_are_solved_as_without():
    every = dataclasses.replace(MONOTONE, oop="random", ip="22+,A2s+:0.5")
    other_pot = dataclasses.replace(every, pot=70, ip="random")
    elsewhere = dataclasses.replace(every, board="2c2d7h7sKs", ip="AA,KK")
    check_merged(every, BLUFFS, other_pot, elsewhere)


def test_spots_without_exchanges_are_solved_all_the_same():
    (merged,), (plain,) = (
        solve_spots([BLUFFS], iterations=10, suit_isomorphism=which) for which in (True, False)
    )
    assert merged.gap == plain.gap
