"""The planner's bytes compared with XLA's memory analysis, in further games."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jaxgadget import BetMenu, MaxMargin, Resolving, Spot, Unsafe
from jaxgadget.core.certificate import certify_average
from jaxgadget.core.cfr import start
from jaxgadget.core.memory import plan_batch, problem_shape
from jaxgadget.core.regret import find_rule
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.holdem.solve import build_batch, carried_hands
from jaxgadget.tree.public import public_tree
from jaxgadget.tree.whole import sequence_form
from jaxgadget.util.precision import precision
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


def test_the_plan_of_a_turn_has_room_for_its_certificate() -> None:
    """And for the strategies that are copied to the host."""
    menu = BetMenu(bets=(0.5,), raises=())
    spot = Spot(board="Td9d6hQc", oop="random", ip="random", pot=200, stack=900, menus=menu)
    batch = build_batch([spot], sequence_form(public_tree(spot)), carried_hands([spot]), None)
    rule = find_rule("dcfr")
    planned = plan_batch(batch, np.float32, rule=rule).bytes
    with precision(np.float32):
        state = jax.eval_shape(start, problem_shape(batch, 1, np.float32), rule, None)
    with precision(np.float64):
        certified = jax.jit(certify_average, static_argnames=("players", "played")).lower(
            problem_shape(batch, 1, np.float64),
            state.strategy_sum,
            (None, None),
            players=(0, 1),
            played=True,
        )
        found = certified.compile().memory_analysis()
    assert found is not None
    copies = 2 * found.output_size_in_bytes
    needed = found.argument_size_in_bytes + copies + found.temp_size_in_bytes
    assert 0.6 * planned < needed <= planned
