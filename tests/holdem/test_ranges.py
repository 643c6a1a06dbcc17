"""Range notation: meaning and errors."""

import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxgadget.holdem.cards import HANDS, hand_name, hands_left, parse_board
from jaxgadget.holdem.ranges import HandRange, grid_means

FIRST = "66+,A8s+,A5s-A4s,AJo+,K9s+,KQo,QTs+,JTs,96s+,85s+,75s+,65s,54s"
SECOND = "QQ-22,AQs-A2s,ATo+,K5s+,KJo+,Q8s+,J8s+,T7s+,96s+,86s+,75s+,64s+,53s+"


def names(text: str) -> set[str]:
    return {hand_name(hand) for hand in np.flatnonzero(HandRange.parse(text).weights).tolist()}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("random", 1326),
        ("AA", 6),
        ("QQ+", 18),
        ("QQ-TT", 18),
        ("TT-QQ", 18),
        ("AKs", 4),
        ("AKo", 12),
        ("AK", 16),
        ("KA", 16),
        ("A8s+", 24),
        ("A5s-A4s", 8),
        ("A4s-A5s", 8),
        ("KQo+", 12),
        ("AT+", 64),
        ("AsKd", 1),
        ("22+,A2+", 6 * 13 + 16 * 12),
    ],
)
def test_notation_names_so_many_hands(text: str, count: int):
    assert (HandRange.parse(text).weights > 0).sum() == count


def test_notation_names_these_hands():
    assert names("AKs") == {"AcKc", "AdKd", "AhKh", "AsKs"}
    assert names("KdAs") == {"AsKd"}
    assert names("54o") == {f"5{a}4{b}" for a in "cdhs" for b in "cdhs" if a != b}
    assert names("KK+,QTs+") >= {"AsAc", "KsKc", "QsTs", "QsJs"}
    assert names("A5s-A2s") == {f"A{s}{r}{s}" for s in "cdhs" for r in "2345"}


def test_ranges_of_a_river_have_so_many_hands_there():
    live = hands_left(parse_board("Td9d6hQc2s"))
    first, second = ((HandRange.parse(text).weights[live] > 0).sum() for text in (FIRST, SECOND))
    assert (first, second) == (167, 246)


def test_weights_stand_after_a_colon_and_the_last_one_counts():
    weights = HandRange.parse("QQ+, A5s-A2s:0.5, QQ:.25").weights
    by_name = {hand_name(hand): weights[hand] for hand in range(len(HANDS))}
    assert (by_name["KsKc"], by_name["AsAh"], by_name["QsQc"], by_name["As3s"]) == (1, 1, 0.25, 0.5)
    assert by_name["As6s"] == 0


@pytest.mark.parametrize(
    "text", ["random", "random:0.5", "QQ+", "TT-77", "A5s-A2s:0.5", "AKo,AsKs", FIRST, SECOND]
)
def test_a_formatted_range_parses_to_the_same(text: str):
    parsed = HandRange.parse(text)
    assert HandRange.parse(str(parsed)) == parsed
    assert len(str(parsed)) <= len(text) + 2


def test_it_is_written_as_people_do():
    assert str(HandRange.parse("AA,KK,QQ,A2s:0.5,A3s:0.5,AsKd,JTo")) == "QQ+,A3s-A2s:0.5,JTo,AsKd"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1325), st.sampled_from([0.1, 0.5, 1 / 3, 1.0])), min_size=1, max_size=40
    )
)
def test_any_weights_are_written_and_read(hands: list[tuple[int, float]]):
    weights = np.zeros(len(HANDS))
    for hand, weight in hands:
        weights[hand] = weight
    assert np.array_equal(HandRange.parse(str(HandRange(weights))).weights, weights)


def test_the_grid_has_aces_first_and_suited_hands_above_the_diagonal():
    weights = HandRange.parse("AA,AKs:0.5,72o,KdQs").weights
    grid = grid_means(np.arange(len(HANDS)), weights)
    assert (grid[0, 0], grid[0, 1], grid[1, 0], grid[12, 7], grid[7, 12]) == (1, 0.5, 0, 1, 0)
    assert grid[2, 1] == pytest.approx(1 / 12)
    few = np.flatnonzero(weights == 1)
    assert np.isnan(grid_means(few, weights[few])[5, 5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing more: expected a rank"),
        ("QQ,,AA", "',' at character 4: expected a rank"),
        ("AKx", "'x' at character 3: expected a comma, or a colon and a weight"),
        ("AA,A5s-K2s", "'K' at character 8: expected a span between pairs"),
        ("A5s-A2o", "'o' at character 7: expected the same ending as before, s"),
        ("AsAs", "'A' at character 3: expected another card than the first"),
        ("QQ:2", "'2' at character 4: expected a weight from 0 to 1"),
        ("QQ:0", "no hand has a positive weight"),
    ],
)
def test_unknown_notation_is_refused_with_the_character(text: str, message: str):
    with pytest.raises(ValueError, match="range=") as error:
        HandRange.parse(text)
    assert message in str(error.value)


def test_files_of_ranges(tmp_path: pathlib.Path):
    parsed = HandRange.parse("QQ+,A5s-A2s:0.5,AsKd")
    numbers = [f"{weight:g}" for weight in parsed.weights]
    np.save(tmp_path / "range.npy", parsed.weights)
    (tmp_path / "lines.txt").write_text("QQ+, A5s-A2s:0.5\nAsKd\n")
    (tmp_path / "spaces.txt").write_text(" ".join(numbers))
    (tmp_path / "commas.csv").write_text(",\n".join(numbers) + "\n")
    for name in ("range.npy", "lines.txt", "spaces.txt", "commas.csv"):
        assert HandRange.load(tmp_path / name) == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [("1 0 0.5", "weights have shape (3,)"), ("AK x", "'x' at character"), ("", "nothing")],
)
def test_files_without_a_range_are_refused(tmp_path: pathlib.Path, text: str, message: str):
    file = tmp_path / "range.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match="oop in ") as error:
        HandRange.load(file, "oop")
    assert message in str(error.value) and "range.txt" in str(error.value)
    with pytest.raises(ValueError, match="missing"):
        HandRange.load(tmp_path / "missing.txt")


def test_weights_are_checked():
    with pytest.raises(ValueError, match="shape"):
        HandRange(np.ones(3))
    with pytest.raises(ValueError, match="weight -1"):
        HandRange(-np.eye(1, 1326, HANDS.tolist().index([0, 4]))[0])
