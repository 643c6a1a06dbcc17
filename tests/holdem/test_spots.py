"""Spots: errors, and their form as games by hands."""

from typing import Any

import numpy as np
import pytest

from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.evaluate import best_response, evaluate_policy
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import public_tree

NEVER = BetMenu(bets=(), raises=())
HALF = BetMenu(bets=(0.5,), raises=())


def spot(**changes: Any) -> Spot:
    given: dict[str, Any] = {"board": "Td9d6hQc7s", "oop": "random", "ip": "random", "pot": 60, "stack": 100}
    return Spot(**(given | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"board": "Td9dTdQc7s"}, "board='Td9dTdQc7s': duplicate card Td; expected every card once"),
        ({"oop": "QQ,A?s"}, "oop='QQ,A?s': '?' at character 5: expected a rank"),
        ({"ip": 5}, "ip=5: expected items such as QQ+"),
        ({"oop": "TdTs,9d2c"}, "oop='TdTs,9d2c': no hand is left on 'Td9d6hQc7s'"),
        ({"oop": "AsKs:0.3", "ip": "AsQs:0.7,KsJs:0.1"}, "no pair of hands is compatible on 'Td9d6hQc7s'"),
        ({"pot": -60}, "pot=-60: expected a finite number of chips > 0"),
        ({"pot": 10**400}, f"pot={10**400}: expected a finite number of chips > 0, at most 1e+30"),
        ({"stack": 1e31}, "stack=1e+31: expected a finite number of chips > 0, at most 1e+30"),
        ({"stack": (90, 0)}, "stack=(90, 0): expected a finite number of chips > 0"),
        ({"stack": (90, 80, 70)}, "stack=(90, 80, 70): expected a finite number of chips > 0"),
        ({"rake": 5}, "rake=5: expected a share of the pot from 0 to 1, such as 0.05"),
        ({"rake": 0.05, "rake_cap": 0}, "rake_cap=0: expected a number of chips > 0"),
        ({"rake_cap": 3}, "rake_cap=3 has no effect without rake"),
        ({"dead": "AsTd"}, "dead='AsTd': Td is on the board 'Td9d6hQc7s'"),
        ({"dead": "As", "oop": "AsKs"}, "no hand is left on 'Td9d6hQc7s' with the dead cards 'As'"),
        ({"oop": np.ones(3)}, "oop: weights have shape (3,)"),
        ({"menus": NEVER}, "menus have no bet sizes"),
        ({"river_menus": HALF}, "river_menus on the river 'Td9d6hQc7s': expected None"),
    ],
)
def test_bad_spots_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=r".") as error:
        spot(**changes)
    assert message in str(error.value)


def test_pairs_of_hands_weigh_1_in_all():
    narrow = spot(oop="QQ+,AKs:0.5", ip="AA,KQs")
    hands = narrow.hands
    total = 0.0
    for a in np.flatnonzero(narrow.dealt[0]):
        for b in np.flatnonzero(narrow.dealt[1]):
            apart = narrow.compatible_with(np.eye(len(hands))[b])[a]
            total += narrow.dealt[0][a] * narrow.dealt[1][b] * apart
    assert total == pytest.approx(1)
    assert spot().weight_of_pairs == pytest.approx(1081 * 990)


def test_hands_without_a_compatible_hand_have_weight_0():
    """Otherwise a weight of 1 would be subtracted from sums of weights near 1e-6, in float32."""
    lonely = spot(oop="AsKd", ip="AsQs,QhQd:1e-6")
    names = lonely.hand_names
    assert lonely.dealt[1][names.index("AsQs")] == 0
    both = lonely.dealt[0][names.index("AsKd")] * lonely.dealt[1][names.index("QhQd")]
    assert both == pytest.approx(1)


def test_tiny_weights_are_distinguished_from_incompatible_hands():
    with pytest.raises(ValueError, match="have a weight of 0, which is too small"):
        spot(oop="AsKd:1e-300", ip="QhQs:1e-300")
    with pytest.raises(ValueError, match=r"no pair of hands is compatible .* as AsKd and AsQs"):
        spot(oop="AsKd", ip="AsQs")


@pytest.mark.parametrize(("menus", "ev"), [((HALF, NEVER), 37.5), (HALF, 33.75)])
def test_uniform_play_has_its_published_value(menus: Any, ev: float):
    """Menus are per player: if only the first may bet, it gets 37.5 of 60 chips."""
    values = evaluate_policy(Policy.uniform(public_tree(spot(menus=menus))))
    assert 30 + values.value[0] == pytest.approx(ev, abs=1e-9)


def test_all_hands_and_those_in_range_are_one_game():
    narrow = spot(oop="AA,QQ:0.5,KJs", ip="KK-JJ,T8s")
    every, few = narrow.by_hands(), narrow.by_hands(in_range=True)
    assert few.num_hands == (6 + 3 + 4, 6 + 3 + 6 + 3)
    values = [evaluate_policy(Policy.uniform(public_tree(game))) for game in (every, few)]
    assert values[0].value == pytest.approx(values[1].value, abs=1e-10)
    assert values[0].best_response_values == pytest.approx(values[1].best_response_values, abs=1e-10)
    response = best_response(Policy.uniform(public_tree(every)), 1)
    assert response.value == pytest.approx(values[1].best_response_values[0], abs=1e-10)


def test_ranges_may_be_arrays():
    weights = HandRange.parse("QQ+,AKs:0.5").weights
    assert spot(oop=weights, ip=HandRange(weights)).name == spot(oop="QQ+,AKs:0.5", ip="QQ+,AKs:0.5").name


def test_dead_cards_are_in_no_hand():
    whole, dead = spot(), spot(dead="AsKd")
    assert len(dead.hands) == 45 * 44 / 2 and dead.num_left == 45
    assert dead.weight_of_pairs == pytest.approx(990 * 43 * 42 / 2)
    assert dead.name == whole.name.removesuffix(")") + ",dead=AsKd)"
