"""What the planner says against what XLA says, in further games."""

from __future__ import annotations

import pytest

from jaxgadget import MaxMargin, Resolving, Unsafe
from jaxgadget.gadgets.gadget import Gadget
from tests.core.test_memory import DICE, GOOFSPIEL, LEDUC, check_planned_bytes

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize(
    ("where", "gadgets", "player", "lanes", "dtype"),
    [
        (LEDUC, [Unsafe()], 1, 16, "float64"),
        (LEDUC, [Resolving(), MaxMargin()], 0, 64, "float32"),
        (DICE, [MaxMargin()], 0, 16, "float32"),
        (GOOFSPIEL, [Unsafe()], 1, 64, "float32"),
        (DICE, [MaxMargin(), Resolving()], 1, 64, "float32"),
    ],
)
def test_the_planned_bytes_are_those_of_the_compiled_loop(
    where: tuple[str, str], gadgets: list[Gadget], player: int, lanes: int, dtype: str
) -> None:
    check_planned_bytes(where, gadgets, player, lanes, dtype)
