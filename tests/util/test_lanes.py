import itertools

import numpy as np

from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import Bracket, pair_for, replaced, sign_of


def test_product_has_every_combination_once_with_gadgets_slowest_and_blueprints_fastest():
    lanes = Lanes.product(gadgets=2, opponents=3, draws=2, blueprints=4)
    listed = zip(lanes.gadget, lanes.opponent, lanes.draw, lanes.blueprint, strict=True)
    assert list(listed) == list(itertools.product(range(2), range(3), range(2), range(4)))
    assert len(lanes) == 48


def test_where_and_take_agree():
    lanes = Lanes.product(gadgets=3, opponents=2, blueprints=5)
    taken = lanes.take(lanes.where(gadget=2, blueprint=1))
    np.testing.assert_array_equal(taken.gadget, [2, 2])
    np.testing.assert_array_equal(taken.opponent, [0, 1])
    np.testing.assert_array_equal(taken.blueprint, [1, 1])
    np.testing.assert_array_equal(lanes.of_gadgets([2, 0]), np.r_[20:30, 0:10])
    only = lanes.only_gadgets([2, 0])
    np.testing.assert_array_equal(only.gadget, np.repeat([0, 1], 10))
    np.testing.assert_array_equal(only.opponent, lanes.opponent[np.r_[20:30, 0:10]])


def test_labels_leave_out_an_opponent_without_a_model():
    lanes = Lanes.product(gadgets=2, opponents=2)
    assert lanes.labels(["b"], ["g", "h"], ["", "m"]) == ("b | g", "b | g | m", "b | h", "b | h | m")
    assert Lanes.product(blueprints=2).labels(["a", "b"], ["g"]) == ("a | g", "b | g")


def test_pairs_and_brackets_are_ordered_by_player():
    assert pair_for(0, "own", "other") == ("own", "other")
    assert pair_for(1, "own", "other") == ("other", "own")
    assert replaced((1, 2), 1, 5) == (1, 5)
    assert [sign_of(player) for player in (0, 1)] == [1, -1]
    bracket = Bracket(-3.0, 1.0)
    assert bracket.for_player(1) == (-1.0, 3.0)
    assert bracket.for_player(0).middle == -bracket.for_player(1).middle == -1.0
