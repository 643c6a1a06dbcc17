"""Suit isomorphism: the same solutions with fewer hands, and the reasons for refusal."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from jaxgadget.holdem.isomorphism import find_exchanges
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.solve import build_batch, merge_hands, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.whole import sequence_form
from tests.holdem.test_solve import SMALL
from tests.solving import settings

MONOTONE = Spot(board="TsJs6sQs2s", oop="AA,T9s:0.5,54", ip="QQ,87s:0.7", pot=60, stack=200, menus=SMALL)


def check_merged(*spots: Spot) -> None:
    """Evaluated on single hands, both solutions are equal."""
    asked: dict[str, Any] = {"iterations": 10, "dtype": "float64"}
    plain, merged = (
        solve_spots(spots, suit_isomorphism=which, **settings(**asked)) for which in (False, True)
    )
    for one, other in zip(plain, merged, strict=True):
        assert other.ev == pytest.approx(one.ev, abs=1e-9)
        assert other.gap == pytest.approx(one.gap, abs=1e-9)
        for player in (0, 1):
            np.testing.assert_allclose(other.hand_ev[player], one.hand_ev[player], rtol=0, atol=1e-9)
            rows = other.probabilities[player], one.probabilities[player]
            np.testing.assert_allclose(*rows, rtol=0, atol=1e-9)


def test_a_river_is_solved_as_without():
    exchanges, reason = find_exchanges(MONOTONE)
    assert (len(exchanges), reason) == (6, "")
    check_merged(MONOTONE)


def test_fewer_hands_are_carried():
    spot = dataclasses.replace(MONOTONE, oop="random", ip="random")
    merging = merge_hands([spot], None)
    assert merging.count.sum() == 1081
    by_spades = (78 + 91, 8 * 13, 28)  # suited or of two other suits; with a spade; of two suits
    assert len(merging.hands) == sum(by_spades)
    assert build_batch([spot], sequence_form(public_tree(spot)), None, merging).sides[0].body.num_roots == 301


def weights_with(hand: str, weight: float) -> HandRange:
    weights = HandRange.parse("AA,KK").weights.copy()
    weights[np.flatnonzero(HandRange.parse(hand).weights)] = weight
    return HandRange(weights)


@pytest.mark.parametrize(
    ("changes", "count", "reason"),
    [
        ({"board": "TsJs6sQd2s"}, 2, ""),
        ({"board": "TsTh6s6h2d"}, 2, ""),
        ({"board": "Td9d6hQc2s"}, 1, "every exchange of suits changes the board Td9d6hQc2s"),
        ({"oop": weights_with("AcAd", 0.5)}, 2, ""),
        ({"ip": weights_with("AcKh", 0.25)}, 1, "ip is not symmetric: AhKc weighs 0 and AcKh 0.25"),
        ({"oop": "AcAs"}, 2, ""),
        ({"dead": "3c4c"}, 2, ""),
        ({"dead": "3c4d5h"}, 1, "changes the board TsJs6sQs2s or the dead cards 3c4d5h"),
        ({"oop": "AcAs,AdAs"}, 2, ""),
        ({"oop": "AcAs,AdAs:0.5", "ip": "AhKc"}, 1, "is not symmetric"),
        # Hands that contain board cards are ignored.
        ({"oop": weights_with("TsTc", 0.5)}, 6, ""),
    ],
)
def test_exchanges_are_found_or_refused_with_a_reason(changes: dict[str, Any], count: int, reason: str):
    exchanges, why = find_exchanges(dataclasses.replace(MONOTONE, **changes))
    assert exchanges[0] == (0, 1, 2, 3)
    assert len(exchanges) == count
    assert reason in why
    assert bool(why) == (count == 1)
