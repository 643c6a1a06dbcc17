"""Large no-limit Leduc poker: OpenSpiel's game of 13 chips, and 13 ranks of four suits."""

import pytest

from jaxgadget.games.registry import load
from jaxgadget.tree.history import enumerate_game
from tests.games.test_no_limit import assert_equal_to_openspiels

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize("stack", [9, 13])
def test_pot_and_all_in_is_openspiels_game(stack: int):
    pytest.importorskip("pyspiel")
    assert_equal_to_openspiels(stack, 0, 3)


def test_the_largest_published_size():
    spec = "no_limit_leduc(stack=13,bets=1/2-1-a,max_raises=2,num_ranks=13,num_suits=4,suit_isomorphism=True)"
    tree = enumerate_game(load(spec))
    assert tree.num_histories == 912_614
    assert [len(rows) for rows in tree.infosets] == [12_636, 12_636]
