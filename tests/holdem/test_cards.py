"""Cards, boards, and hand strengths compared with another evaluator."""

import numpy as np
import pytest
from phevaluator import evaluate_cards

from jaxgadget.holdem.cards import (
    HANDS,
    board_strengths,
    card_name,
    hand_name,
    hands_left,
    parse_board,
    parse_cards,
    strength,
)


def draw_cards(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.permuted(np.tile(np.arange(52), (count, 1)), axis=1)[:, :7]


def order_of(scores: np.ndarray) -> np.ndarray:
    return np.unique(scores, return_inverse=True)[1]


def test_strengths_order_hands_as_another_evaluator_does():
    cards = draw_cards(4000, 1)
    theirs = -np.array([evaluate_cards(*row) for row in cards.tolist()])  # its lower values are better
    assert np.array_equal(order_of(strength(cards)), order_of(theirs))


@pytest.mark.parametrize(
    "hands",
    [
        # Each hand of seven cards beats the next.
        ["AsKsQsJsTs2c2d", "KsQsJsTs9s2c2d", "5s4s3s2sAsKdKc", "7c7d7h7sAcKdQh", "7c7d7h7sKcKdKh"],
        ["AcAdAhKcKd2s3s", "KcKdKhAcAd2s3s", "2c2d2h3c3d3h7s", "AsQs9s7s2sKdKc", "AsQs9s6s3sKdKc"],
        ["AcKdQhJsTc2c2d", "5c4d3h2sAcKdKh", "AcAdAhKsQc3d2h", "AcAdKhKs2c3d2h", "AcAdQhQsKc3d2h"],
        ["AcAdKhQs9c3d2h", "KcKdAhQs9c3d2h", "AcKdQhJs9c3d2h", "AcKdQhTs9c3d2h", "7c5d4h3s2c8d9h"],
    ],
)
def test_better_hands_are_stronger(hands: list[str]):
    scores = strength(np.array([parse_cards(hand) for hand in hands]))
    assert (np.diff(scores) < 0).all()


def test_a_third_pair_and_a_second_triple_count_as_they_should():
    split = strength(np.array([parse_cards("AcAdKhKsQcQd2h"), parse_cards("AcAdKhKsQc3d2h")]))
    assert split[0] == split[1]
    better = strength(np.array([parse_cards("3c3d3h2c2d2hAs"), parse_cards("3c3d3h2c2dKsAs")]))
    assert better[0] == better[1]


def test_all_hands_split_a_board_that_plays():
    board = parse_board("AsKsQsJsTs")
    assert len(np.unique(board_strengths(board, HANDS[hands_left(board)]))) == 1


@pytest.mark.parametrize(("board", "count"), [("Td9d6hQc2s", 1081), ("Td9d6hQc", 1128)])
def test_hands_left_are_in_the_order_of_the_cards_left(board: str, count: int):
    cards = parse_board(board)
    hands = HANDS[hands_left(cards)]
    assert len(hands) == count
    left = [card for card in range(52) if card not in cards]
    first, second = np.triu_indices(len(left), 1)
    assert np.array_equal(hands, np.stack([np.array(left)[first], np.array(left)[second]], axis=1))


def test_cards_are_read_as_they_are_written():
    assert "".join(map(card_name, parse_cards(" Td9d 6h"))) == "Td9d6h"
    assert hand_name(int(np.flatnonzero((HANDS == (0, 51)).all(axis=1))[0])) == "As2c"


@pytest.mark.parametrize(
    ("board", "message"),
    [
        ("Td9d6hQc2x", "'x' at character 10 after '2' is not a suit"),
        ("Td9d6hTd2s", "duplicate card Td"),
        ("Td9d", "has 2 cards: expected 3 for a flop, 4 for a turn or 5 for a river"),
    ],
)
def test_bad_boards_are_refused(board: str, message: str):
    with pytest.raises(ValueError, match="board=") as error:
        parse_board(board)
    assert message in str(error.value)
