"""Menus that fit in memory, and the extrapolated end of a solve."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from jaxgadget.core.memory import plan_batch
from jaxgadget.core.regret import RegretMatching, find_rule
from jaxgadget.core.solver import Solver
from jaxgadget.games.sizes import format_sizes, parse_sizes
from jaxgadget.holdem.betting import BetMenu, count_nodes
from jaxgadget.holdem.checkpoint import BatchReport
from jaxgadget.holdem.fitting import find_fitting
from jaxgadget.holdem.runouts import find_merged, lay_out_streets
from jaxgadget.holdem.solve import needed_bytes, solve_spots
from jaxgadget.holdem.spots import Spot

FLOP = Spot(
    board="Td9d6h",
    oop="random",
    ip="random",
    pot=100,
    stack=600,
    menus=BetMenu(bets="33%,75%", raises="100%", cap=3),
)


def num_nodes(counts: Sequence[int]) -> int:
    return sum(counts)


def test_fitting_menus_fit_and_are_the_largest_step_away() -> None:
    whole = num_nodes(count_nodes(FLOP.rules))
    fitting = find_fitting(FLOP, num_nodes, whole - 1)
    assert fitting is not None
    smaller = [
        dataclasses.replace(
            FLOP, river_menus=dataclasses.replace(FLOP.menus, bets=bets, raises=raises, cap=cap)
        )
        for bets, raises, cap in (
            ("75%", "100%", 3),
            ("33%", "100%", 3),
            ("33%,75%", "", 3),
            ("33%,75%", "100%", 2),
        )
    ]
    sizes = [num_nodes(count_nodes(spot.rules)) for spot in smaller]
    assert max(sizes) <= fitting.num_bytes < whole
    tiny = find_fitting(FLOP, num_nodes, 200)
    assert tiny is not None and tiny.num_bytes <= 200
    assert find_fitting(FLOP, num_nodes, 1) is None


def test_a_flop_that_does_not_fit_names_a_menu_that_does() -> None:
    with pytest.raises(ValueError, match=r"takes about \S+ GB of memory, but 4 GB is available") as error:
        solve_spots([FLOP], solver=Solver(memory_limit=4 * 10**9))
    assert "; expected on the " in str(error.value) and "compressed=True" in str(error.value)


def test_a_proposed_menu_is_accepted_at_the_limit() -> None:
    """The plan of the solve, with temporary arrays and tables, is not much larger than what was estimated."""
    spot = dataclasses.replace(FLOP, oop="AA,KK,AKs", ip="QQ,JJ,AQs")
    num_bytes = needed_bytes(spot, 4, None)
    needed = num_bytes(count_nodes(spot.rules))
    rule, runouts = find_rule("dcfr"), lay_out_streets(spot, find_merged(spot, None))
    assert isinstance(rule, RegretMatching)
    batch = runouts.batch(rule)
    plan = plan_batch(batch, np.float32, rule=rule)
    assert 0.8 * needed <= plan.bytes <= 1.3 * needed
    assert plan.bytes < plan_batch(batch, np.float64, rule=rule).bytes


def test_a_cap_of_zero_is_not_raised() -> None:
    menus = (BetMenu(bets="50%", raises="100%"), BetMenu(bets="50%", raises="100%", cap=0))
    spot = dataclasses.replace(FLOP, menus=menus)
    sizes = num_nodes(count_nodes(spot.rules))
    fitting = find_fitting(spot, num_nodes, sizes)
    assert fitting is not None and fitting.num_bytes <= sizes
    assert "no bets and no raises" in fitting.text


@pytest.mark.parametrize("text", ["50%", "2.5x,a", "30c,e,2e,e200%,3e150%"])
def test_sizes_are_written_as_they_are_read(text: str) -> None:
    assert format_sizes(parse_sizes(text)) == text


def test_the_end_is_extrapolated_from_gaps() -> None:
    """Gaps of 8 / T, and a target of 0.04: 200 iterations; without a check, the largest number."""
    told: list[int] = []
    report = BatchReport(told.append, 1000, 0.04)
    report(5)
    assert (report.expected, report.note) == (1000, "")
    for now in (10, 20, 40):
        report.check(8 / now)
        report(now)
    assert (report.expected, report.note) == (200, "exploitability 10.00% of the pot")
    report.check(0.03)
    report(50)
    assert (report.expected, told) == (50, [5, 10, 20, 40, 50])


def test_without_a_target_or_with_0_the_end_is_the_largest_number() -> None:
    for target in (None, 0.0):
        report = BatchReport(lambda now: None, 1000, target)
        for now in (10, 30, 70):
            report.check(1 / now)
            report(now)
        assert report.expected == 1000


def test_the_end_is_extrapolated_while_parts_double() -> None:
    report = BatchReport(lambda now: None, 1000, 0.04)
    for now in (10, 30, 70):
        report.check(8 / now)
        report(now)
    assert report.expected == 200


def test_a_gap_that_does_not_fall_leaves_the_largest_number() -> None:
    report = BatchReport(lambda now: None, 1000, 0.04)
    for now in (10, 20):
        report.check(0.1)
        report(now)
    assert report.expected == 1000
