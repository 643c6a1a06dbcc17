"""Ranges in standard notation: `66+,A8s+,A5s-A4s,AJo+,KQo`, `QQ+,A5s-A2s:0.5`, `AsKd`, `random`."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Iterator

import numpy as np

from jaxgadget.holdem.cards import HAND_OF_CARDS, HANDS, RANKS, SUITS, hand_name
from jaxgadget.util.arguments import read_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.files import check_regular

_EXPECTED = "expected items such as QQ+, A5s-A2s, KQo, AK, AsKd:0.5 or random"


def _classes() -> IntArray:
    """`[13, 13, 16]` hands by ranks, padded with the last hand.

    Suited hands are above the diagonal (the higher rank first), offsuit ones below.
    """
    hands = np.zeros((len(RANKS), len(RANKS), 16), np.int64)
    for high in range(len(RANKS)):
        for low in range(high + 1):
            pairs = [(4 * high + a, 4 * low + b) for a in range(4) for b in range(4)]
            suited = [HAND_OF_CARDS[a, b] for a, b in pairs if a % 4 == b % 4 and a != b]
            offsuit = [HAND_OF_CARDS[a, b] for a, b in pairs if a % 4 != b % 4]
            if high > low:
                hands[high, low] = suited + [suited[-1]] * 12
            hands[low, high] = offsuit + [offsuit[-1]] * (16 - len(offsuit))
    return hands


_CLASSES = _classes()


@dataclasses.dataclass(frozen=True, eq=False)
class HandRange:
    """Relative weights of a player's 1,326 hands.

    Attributes:
      weights: `[1326]` in the order of `jaxgadget.holdem.cards.HANDS`, from 0 to 1.
    """

    weights: FloatArray

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        weights.flags.writeable = False  # spots share ranges
        if weights.shape != (len(HANDS),):
            raise ValueError(f"weights have shape {weights.shape}: expected ({len(HANDS)},), one per hand")
        wrong = np.flatnonzero(~((weights >= 0) & (weights <= 1)))
        if len(wrong):
            raise ValueError(
                f"weights: {hand_name(int(wrong[0]))} has weight {weights[wrong[0]]}: "
                "expected a number from 0 to 1"
            )
        object.__setattr__(self, "weights", weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HandRange) and np.array_equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash(self.weights.tobytes())

    def __repr__(self) -> str:
        return f"HandRange.parse({str(self)!r})"

    def __str__(self) -> str:
        return ",".join(_write(self.weights))

    @staticmethod
    def parse(text: object, name: str = "range") -> HandRange:
        """Parses standard notation.

        Items are separated by commas: `QQ` (or `QQ+`, `QQ-88`), `A5s` (suited; `A5s+` up to the highest
        second card, `A5s-A2s`), `A5o` (offsuit), `A5` (both), single hands `AsKd`, and `random` for all
        hands. A suffix `:0.5` is the weight. If a hand is listed more than once, its last weight is used.

        Args:
          text: the range.
          name: name of the argument, for errors.

        Raises:
          ValueError: for an invalid character, or if no hand has a weight.
        """
        if not isinstance(text, str):
            raise ValueError(f"{name}={text!r}: {_EXPECTED}")
        return _parse(text, name)

    @staticmethod
    def load(path: str | os.PathLike[str], name: str = "range") -> HandRange:
        """Reads a range from a file.

        Args:
          path: a text file with the range in standard notation, which may have several lines, or with 1,326
            weights separated by spaces, commas or lines; or a NumPy array of them, `.npy`. Weights are in the
            order of `jaxgadget.holdem.cards.HANDS`: 2c2d, 2c2h, 2c2s, 2c3c, …, AhAs.
          name: name of the argument, for errors.

        Raises:
          ValueError: if the file cannot be read, or has no range; the message names it.
        """
        file = pathlib.Path(path)
        check_regular(file, name)
        try:
            if file.suffix == ".npy":
                return HandRange(np.load(file, allow_pickle=False))
            text = file.read_text(encoding="utf-8").strip()
            numbers = [read_number(part) for part in re.split(r"[\s,]+", text)]
            if None not in numbers:
                return HandRange(np.array(numbers, np.float64))
            return HandRange.parse(re.sub(r"[\s,]*\n[\s,]*", ",", text), name)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{name} in {str(file)!r}: {error}; expected a range, as text or as 1,326 weights"
            ) from error


@functools.lru_cache(maxsize=64)
def _parse(text: str, name: str) -> HandRange:
    """`HandRange.parse` of a string; spots often have the same ranges."""
    weights = np.zeros(len(HANDS))
    position = 0
    for item in text.split(","):
        reader = _Reader(text, position, position + len(item), name)
        hands = reader.hands()
        weights[hands] = reader.weight()
        position += len(item) + 1
    if not weights.any():
        raise ValueError(f"{name}={text!r}: no hand has a positive weight; {_EXPECTED}")
    return HandRange(weights)


def grid_cells(hands: IntArray) -> tuple[IntArray, IntArray]:
    """Cells of hands in the 13 × 13 grid: rows and columns from A to 2, suited hands above the diagonal.

    Args:
      hands: `[h]` numbers of hands.

    Returns:
      `[h]` rows and `[h]` columns.
    """
    low, high = np.sort(len(RANKS) - 1 - HANDS[hands] // 4, axis=1)[:, ::-1].T
    suited = HANDS[hands, 0] % 4 == HANDS[hands, 1] % 4
    return np.where(suited, high, low), np.where(suited, low, high)


def grid_means(hands: IntArray, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """`[13, 13]` weighted means of `values` `[h]` over the hands of every cell, NaN without weight.

    Args:
      hands: `[h]` numbers of hands.
      values: `[h]` values; NaN values are ignored.
      weights: `[h]` weights, by default equal.
    """
    cells = np.ravel_multi_index(grid_cells(hands), (len(RANKS), len(RANKS)))
    weights = np.where(np.isnan(values), 0, 1 if weights is None else weights)
    total, mass = (
        np.bincount(cells, x, minlength=len(RANKS) ** 2) for x in (weights * np.nan_to_num(values), weights)
    )
    return np.divide(total, mass, out=np.full(len(mass), np.nan), where=mass > 0).reshape(len(RANKS), -1)


class _Reader:
    """Parses one item of a range, character by character."""

    def __init__(self, text: str, position: int, end: int, name: str):
        self._text, self._position, self._end, self._name = text, position, end, name

    def _peek(self) -> str:
        """The next character that is not a space; empty at the end of the item."""
        while self._position < self._end and self._text[self._position].isspace():
            self._position += 1
        return self._text[self._position] if self._position < self._end else ""

    def _takes(self, characters: str) -> str:
        """Consumes and returns the next character if it is one of these, otherwise an empty string."""
        character = self._peek()
        if character and character in characters:
            self._position += 1
            return character
        return ""

    def _fail(self, expected: str) -> ValueError:
        character = self._peek()
        got = f"{character!r} at character {self._position + 1}" if character else "nothing more"
        if not character and self._end < len(self._text):
            got = f"',' at character {self._end + 1}"
        return ValueError(f"{self._name}={self._text!r}: {got}: expected {expected}; {_EXPECTED}")

    def _rank(self) -> int:
        character = self._takes(RANKS)
        if not character:
            raise self._fail(f"a rank, one of {RANKS}")
        return RANKS.index(character)

    def hands(self) -> IntArray:
        """Parses the hands of the item, up to its weight."""
        self._peek()
        if self._text[self._position : self._end].startswith("random"):
            self._position += len("random")
            return np.arange(len(HANDS))
        first = self._rank()
        suit = self._takes(SUITS)
        if suit and self._peek() in tuple(RANKS):
            return self._single(4 * first + SUITS.index(suit))
        if suit:
            raise self._fail(f"a second card after {RANKS[first]}{suit}")
        high, low, kind = self._class(first)
        fixed = None if high == low else high
        if self._takes("+"):
            return self._span(fixed, low, len(RANKS) - 1 if fixed is None else high - 1, kind)
        if self._takes("-"):
            start = self._position
            other_high, other_low, other_kind = self._class(self._rank())
            if fixed != (None if other_high == other_low else other_high):
                self._position = start
                raise self._fail("a span between pairs (QQ-88) or hands with the same first card (A5s-A2s)")
            if other_kind != kind:
                self._position -= bool(other_kind)
                raise self._fail(f"the same ending as before, {kind or 'none'}")
            return self._span(fixed, min(low, other_low), max(low, other_low), kind)
        return self._span(fixed, low, low, kind)

    def _single(self, first: int) -> IntArray:
        start = self._position
        rank, suit = self._rank(), self._takes(SUITS)
        if not suit:
            raise self._fail(f"a suit, one of {SUITS}")
        hand = HAND_OF_CARDS[first, 4 * rank + SUITS.index(suit)]
        if hand < 0:
            self._position = start
            raise self._fail("another card than the first")
        return np.array([hand])

    def _class(self, first: int) -> tuple[int, int, str]:
        """Both ranks, the higher one first, and `s`, `o` or an empty string."""
        second = self._rank()
        kind = self._takes("so")
        if kind and first == second:
            self._position -= 1
            raise self._fail("a pair without s or o")
        return max(first, second), min(first, second), kind

    def _span(self, high: int | None, low: int, last: int, kind: str) -> IntArray:
        """Hands with a high card and a range of second cards; a range of pairs if `high` is None."""
        hands: list[IntArray] = []
        for rank in range(low, last + 1):
            if high is None:
                hands.append(_CLASSES[rank, rank])
                continue
            if kind != "o":
                hands.append(_CLASSES[high, rank])
            if kind != "s":
                hands.append(_CLASSES[rank, high])
        return np.concatenate(hands)

    def weight(self) -> float:
        """Parses the weight after a colon; 1 without one."""
        weight = 1.0
        if self._takes(":"):
            self._peek()
            match = re.match(r"[0-9.eE+-]*", self._text[self._position : self._end])
            value = read_number(match.group()) if match else None
            if value is None or not 0 <= value <= 1:
                raise self._fail("a weight from 0 to 1")
            weight, self._position = value, self._position + len(match.group() if match else "")
        if self._peek():
            raise self._fail("a comma, or a colon and a weight")
        return weight


def _write(weights: FloatArray) -> Iterator[str]:
    """Items in standard notation with these weights."""
    if (weights == weights[0]).all() and weights[0] > 0:
        yield "random" + _suffix(float(weights[0]))
        return
    left = weights.copy()
    for high in reversed(range(len(RANKS))):
        if high == len(RANKS) - 1:
            yield from _write_spans(left, [(rank, rank) for rank in range(len(RANKS))], "")
        yield from _write_spans(left, [(high, low) for low in range(high)], "s")
        yield from _write_spans(left, [(high, low) for low in range(high)], "o")
    for hand in np.flatnonzero(left)[::-1].tolist():
        yield hand_name(hand) + _suffix(float(left[hand]))


def _write_spans(left: FloatArray, classes: list[tuple[int, int]], kind: str) -> Iterator[str]:
    """Spans of adjacent classes with equal weights; removes them from `left`."""
    members = [
        _CLASSES[low, high] if kind == "o" or high == low else _CLASSES[high, low] for high, low in classes
    ]
    common = [float(left[hands[0]]) if (left[hands] == left[hands[0]]).all() else 0.0 for hands in members]
    position = len(classes) - 1
    while position >= 0:
        weight, last = common[position], position
        while position > 0 and common[position - 1] == weight:
            position -= 1
        if weight > 0:
            top, bottom = (RANKS[classes[at][0]] + RANKS[classes[at][1]] + kind for at in (last, position))
            span = (
                top if last == position else f"{bottom}+" if last == len(classes) - 1 else f"{top}-{bottom}"
            )
            yield span + _suffix(weight)
            left[np.concatenate(members[position : last + 1])] = 0
        position -= 1


def _suffix(weight: float) -> str:
    return "" if weight == 1 else f":{float(weight)!r}"
