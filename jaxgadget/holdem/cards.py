"""Cards, boards, and the strength of seven cards. NumPy only.

A card is 4 × rank + suit: ranks 0 to 12 for 2 to A, suits 0 to 3 for c, d, h, s.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from jaxgadget.util.arrays import IntArray

RANKS = "23456789TJQKA"
SUITS = "cdhs"
NUM_CARDS = 52

HANDS: IntArray = np.stack(np.triu_indices(NUM_CARDS, 1), axis=1)
"""`[1326, 2]` all hands of two cards, the lower card first."""

HAND_OF_CARDS: IntArray = np.full((NUM_CARDS, NUM_CARDS), -1, np.int64)
"""`[52, 52]` index of the hand of two cards; -1 for equal cards."""
HAND_OF_CARDS[HANDS[:, 0], HANDS[:, 1]] = HAND_OF_CARDS[HANDS[:, 1], HANDS[:, 0]] = np.arange(len(HANDS))

_CATEGORY_BIT = 27
"""Bit position of the category: ranks within a category are below 2²⁶."""


def parse_cards(text: object, name: str = "cards") -> tuple[int, ...]:
    """Parses cards such as `Td9d6hQc2s`, optionally separated by spaces.

    Args:
      text: ranks and suits.
      name: name of the argument, for errors.

    Raises:
      ValueError: if a character is not a rank or suit, or a card is duplicate; the message names it.
    """
    if not isinstance(text, str):
        raise ValueError(f"{name}={text!r}: expected text such as 'Td9d6hQc2s'")
    cards: list[int] = []
    positions = [position for position, character in enumerate(text) if not character.isspace()]
    for first, second in itertools.zip_longest(positions[::2], positions[1::2]):
        rank = RANKS.find(text[first])
        if rank < 0:
            raise ValueError(
                f"{name}={text!r}: {text[first]!r} at character {first + 1} is not a rank: "
                f"expected one of {RANKS}"
            )
        suit = -1 if second is None else SUITS.find(text[second])
        if suit < 0:
            got = "nothing" if second is None else f"{text[second]!r} at character {second + 1}"
            raise ValueError(
                f"{name}={text!r}: {got} after {text[first]!r} is not a suit: expected one of {SUITS}"
            )
        card = 4 * rank + suit
        if card in cards:
            raise ValueError(f"{name}={text!r}: duplicate card {card_name(card)}; expected every card once")
        cards.append(card)
    return tuple(cards)


def parse_board(text: object, name: str = "board") -> tuple[int, ...]:
    """Parses the three to five cards of a flop, turn or river.

    Raises:
      ValueError: as `parse_cards`, or if the number of cards is not 3, 4 or 5.
    """
    cards = parse_cards(text, name)
    if len(cards) not in (3, 4, 5):
        raise ValueError(
            f"{name}={text!r} has {len(cards)} cards: expected 3 for a flop, 4 for a turn or 5 for a river"
        )
    return cards


def card_name(card: int) -> str:
    """Name of a card, such as `Td`."""
    return RANKS[card // 4] + SUITS[card % 4]


def hand_name(hand: int) -> str:
    """Name of a hand, the higher card first, such as `AsKd`."""
    low, high = HANDS[hand].tolist()
    return card_name(high) + card_name(low)


def cards_left(board: Sequence[int]) -> IntArray:
    """Cards that are not on a board, ascending."""
    return np.setdiff1d(np.arange(NUM_CARDS), np.asarray(board))


def hands_left(board: Sequence[int]) -> IntArray:
    """Hands without a card of a board, ascending: 1,081 on a river, 1,128 on a turn, 1,176 on a flop.

    If C cards are left, hands are in the order of `triu_indices(C, 1)` over these cards.
    """
    return np.flatnonzero(~np.isin(HANDS, np.asarray(board)).any(axis=1))


def strength(cards: IntArray) -> IntArray:
    """Strength of the best five of seven cards.

    Args:
      cards: `[n, 7]`, without duplicates in a row; not checked.

    Returns:
      `[n]` integers; the hand with the larger integer wins, and equal hands split the pot.
    """
    rank, suit = cards // 4, cards % 4
    count = _count(rank, len(RANKS))
    flush_suit = _count(suit, len(SUITS)) >= 5
    in_flush = np.take_along_axis(flush_suit, suit, axis=1)
    bits = 1 << rank
    flush = np.bitwise_or.reduce(np.where(in_flush, bits, 0), axis=1)
    every = np.bitwise_or.reduce(bits, axis=1)
    by_count = count[:, None, :] == np.arange(1, 5)[:, None]
    _, pairs, threes, fours = (by_count * (1 << np.arange(len(RANKS)))).sum(axis=2).T
    three = _highest(threes, 1)
    full_pair = _highest(pairs | (threes ^ three), 1)
    two_pair = _highest(pairs, 2)
    pair = _highest(pairs, 1)
    # Categories from best to worst: the mask of hands, and the tie-breaking ranks.
    categories = (
        (_STRAIGHT[flush] > 0, _STRAIGHT[flush]),
        (fours > 0, _ranked(fours, _highest(every ^ fours, 1))),
        ((three > 0) & (full_pair > 0), _ranked(three, full_pair)),
        (flush > 0, _highest(flush, 5)),
        (_STRAIGHT[every] > 0, _STRAIGHT[every]),
        (three > 0, _ranked(three, _highest(every ^ three, 2))),
        (_NUM_BITS[pairs] > 1, _ranked(two_pair, _highest(every ^ two_pair, 1))),
        (pair > 0, _ranked(pair, _highest(every ^ pair, 3))),
        (every > 0, _highest(every, 5)),
    )
    worth = [(len(categories) - position) << _CATEGORY_BIT for position in range(len(categories))]
    return np.select(
        [holds for holds, _ in categories],
        [base + decides for base, (_, decides) in zip(worth, categories, strict=True)],
    )


def board_strengths(board: Sequence[int], hands: IntArray) -> IntArray:
    """`[h]` strength of hands on a board of five cards.

    Args:
      board: five cards.
      hands: `[h, 2]` hands without cards of the board.
    """
    return strength(np.concatenate([hands, np.broadcast_to(board, (len(hands), 5))], axis=1))


def strength_groups(board: Sequence[int], hands: IntArray) -> IntArray:
    """`[h]` groups of equal strength, ascending from 0; arguments as in `board_strengths`."""
    return np.unique(board_strengths(board, hands), return_inverse=True)[1]


def _count(values: IntArray, size: int) -> IntArray:
    """`[n, size]` number of occurrences of each value in a row."""
    rows = np.arange(len(values))[:, None] * size
    return np.bincount((rows + values).ravel(), minlength=len(values) * size).reshape(-1, size)


def _ranked(first: IntArray, then: IntArray) -> IntArray:
    """Combines sets of deciding ranks with sets of tie-breaking ranks."""
    return (first << len(RANKS)) | then


_SETS = np.arange(1 << len(RANKS))
_NUM_BITS: IntArray = np.bitwise_count(_SETS).astype(np.int64)


def _keep_highest() -> IntArray:
    """`[6, sets]` the highest 0 to 5 ranks of every set of ranks, or all if there are fewer."""
    highest = np.tile(_SETS, (6, 1))
    for most, sets in enumerate(highest):
        for _ in RANKS:
            sets[:] = np.where(np.bitwise_count(sets) > most, sets & (sets - 1), sets)
    return highest


_HIGHEST = _keep_highest()


def _highest(sets: IntArray, count: int) -> IntArray:
    return _HIGHEST[count][sets]


def _straights() -> IntArray:
    """`[sets]` highest rank of the best straight of every set, counted from 1; 0 for none."""
    with_low_ace = (_SETS << 1) | (_SETS >> (len(RANKS) - 1))
    best = np.zeros_like(_SETS)
    for low in range(len(RANKS) - 3):
        best[(with_low_ace >> low) & 31 == 31] = low + 1
    return best


_STRAIGHT = _straights()
