"""Validation of numeric arguments."""

import numpy as np
import pytest

from jaxgadget.util.arguments import (
    check_player,
    check_whole_number,
    is_finite_number,
    read_number,
    read_whole_number,
)


@pytest.mark.parametrize("value", [2, 5, np.int8(3), np.uint64(4)])
def test_whole_numbers(value: object):
    checked = check_whole_number("count", value, 2, 5)
    assert type(checked) is int and checked == value


@pytest.mark.parametrize("value", [1, 6, np.float32(3), True, "3", None])
def test_invalid_whole_numbers(value: object):
    with pytest.raises(ValueError, match="count="):
        check_whole_number("count", value, 2, 5)


def test_a_whole_number_without_an_upper_bound():
    assert check_whole_number("count", 10**30, 0) == 10**30
    with pytest.raises(ValueError, match="count="):
        check_whole_number("count", -1, 0)


def test_finite_numbers():
    assert all(map(is_finite_number, (0, -1.5, np.float32(2), np.int64(3))))
    assert not any(map(is_finite_number, (np.inf, np.nan, True, np.True_, "1", None, 1j, [1.0], 10**400)))


@pytest.mark.parametrize("value", [0, 1, np.int8(1)])
def test_players(value: object):
    assert type(check_player(value)) is int and check_player(value) == value


@pytest.mark.parametrize("value", [2, 1.0, np.False_, "0", None])
def test_invalid_players(value: object):
    with pytest.raises(ValueError, match="player="):
        check_player(value)


def test_whole_numbers_that_come_as_text():
    assert [read_whole_number(text) for text in ("0", "-17", "9" * 30)] == [0, -17, 10**30 - 1]
    refused = (
        "",
        "1.0",
        "1e3",
        "1_0",
        " 1",
        "1\n",
        "\u0661",
        "\u00b2",
        "+1",
        "--1",
        "0x1",
        "9" * 31,
        "9" * 5000,
    )
    assert [text for text in refused if read_whole_number(text) is not None] == []


def test_numbers_that_come_as_text():
    assert [read_number(text) for text in ("0", "-1.5", "+.5", "2.", "1e-3", "1E+2")] == [
        0,
        -1.5,
        0.5,
        2,
        1e-3,
        100,
    ]
    refused = (
        "",
        ".",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "1_0",
        " 1",
        "1\n",
        "\u0661",
        "1e\u0661",
        "0x1",
        "1,5",
        "1/3",
    )
    assert [text for text in refused if read_number(text) is not None] == []
