"""Hold'em, long comparisons."""

import numpy as np
from phevaluator import evaluate_cards

from jaxgadget.poker.cards import strength
from tests.poker.test_cards import draw_cards, order_of


def test_strengths_of_100_000_hands_are_those_of_another_evaluator():
    cards = draw_cards(100_000, 2)
    theirs = -np.array([evaluate_cards(*row) for row in cards.tolist()])
    assert np.array_equal(order_of(strength(cards)), order_of(theirs))
