"""Numbers that a caller gives."""

import numpy as np
import pytest

from jaxgadget.util.arguments import check_whole_number, is_finite_number


@pytest.mark.parametrize("value", [2, 5, np.int8(3), np.uint64(4)])
def test_whole_numbers(value: object):
    checked = check_whole_number("count", value, 2, 5)
    assert type(checked) is int and checked == value


@pytest.mark.parametrize("value", [1, 6, 3.0, np.float32(3), True, np.True_, "3", None, [3]])
def test_what_is_no_whole_number_in_range(value: object):
    with pytest.raises(ValueError, match=r"count=.*: expected a whole number >= 2 and <= 5$"):
        check_whole_number("count", value, 2, 5)


def test_a_whole_number_without_an_upper_bound():
    assert check_whole_number("count", 10**30, 0) == 10**30
    with pytest.raises(ValueError, match=r"count=-1: expected a whole number >= 0$"):
        check_whole_number("count", -1, 0)


def test_finite_numbers():
    assert all(map(is_finite_number, (0, -1.5, np.float32(2), np.int64(3))))
    assert not any(map(is_finite_number, (np.inf, np.nan, True, np.True_, "1", None, 1j, [1.0])))
