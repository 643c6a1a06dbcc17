"""Grids of hands."""

from __future__ import annotations

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from rich.table import Table

from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.poker.betting import ALL_IN, BetMenu
from jaxgadget.poker.solve import SpotSolution, evaluate_spot
from jaxgadget.poker.spots import Spot
from jaxgadget.report.holdem import (
    BETS,
    FOLD,
    NOBODY,
    PASSIVE,
    action_colors,
    frequencies_table,
    grid_picture,
    hands_table,
    refinements_table,
)


@pytest.fixture(scope="module")
def solution() -> SpotSolution:
    menus = (BetMenu(bets=(0.5, ALL_IN), raises=()), BetMenu(bets=(), raises=()))
    spot = Spot(board="2s3h4d6c7c", oop="AA,QJs:0.5", ip="KK", pot=20, stack=50, menus=menus)
    return evaluate_spot(spot, HandsPolicy.uniform(spot.by_hands()))


def stripes(ax: plt.Axes, row: int, column: int) -> list[tuple[str, float, float]]:
    found: list[tuple[str, float, float]] = []
    for patch in ax.patches:
        assert isinstance(patch, Rectangle)
        left, top = patch.get_xy()
        color = to_hex(patch.get_facecolor()).upper()
        if column <= left < column + 1 and row <= top < row + 1 and color != NOBODY:
            found.append((color, round(patch.get_width(), 6), round(patch.get_height(), 6)))
    return found


def test_a_cell_is_as_high_as_its_hands_are_likely_and_has_a_stripe_an_action(solution: SpotSolution):
    ax = grid_picture(solution)
    third = round(1 / 3, 6)
    colors = (PASSIVE, BETS[0], BETS[1])
    assert stripes(ax, 0, 0) == [(color, third, 1.0) for color in colors]
    assert stripes(ax, 2, 3) == [(color, third, 0.5) for color in colors]
    assert stripes(ax, 1, 1) == []
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["check", "bet 10", "all-in 50"]
    plt.close(ax.figure)
    second = grid_picture(solution, "bet 10")
    assert stripes(second, 1, 1) == [(FOLD, 0.5, 1.0), (PASSIVE, 0.5, 1.0)]
    plt.close(second.figure)


def test_evs_and_equities_are_written_in_the_cells(solution: SpotSolution):
    ax = grid_picture(solution, show="equity", title="Equities")
    assert sorted(text.get_text() for text in ax.texts) == ["0", "1"]
    assert ax.get_title() == "Equities"
    plt.close(ax.figure)
    ax = grid_picture(solution, "bet 10", show="ev")
    assert ax.get_title() == "2s3h4d6c7c, ip after bet 10: EVs at the start, chips"
    plt.close(ax.figure)
    ax = grid_picture(solution, show="ev")
    aces = solution.spot.hand_names.index("AsAh")
    assert f"{solution.hand_ev[0][aces]:.3g}" in [text.get_text() for text in ax.texts]
    plt.close(ax.figure)


def test_what_cannot_be_drawn_is_refused(solution: SpotSolution):
    with pytest.raises(ValueError, match="show='chips': expected 'strategy', 'ev' or 'equity'"):
        grid_picture(solution, show="chips")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="nobody acts there"):
        grid_picture(solution, "check, check")


def test_more_bets_than_colours_share_the_last():
    actions = ["fold", "call", *(f"raise to {size}" for size in range(7))]
    colors = action_colors(actions)
    assert colors[:2] == [FOLD, PASSIVE]
    assert colors[2:7] == list(BETS)
    assert set(colors[7:]) == {BETS[-1]}
    assert FOLD not in BETS


def cells(table: Table) -> list[list[str]]:
    return [list(row) for row in zip(*(column.cells for column in table.columns), strict=True)]


def test_hands_are_listed_the_likeliest_first(solution: SpotSolution):
    table = hands_table(solution)
    assert [str(column.header) for column in table.columns] == [
        *("hand", "weight", "check", "bet 10", "all-in 50", "EV at start", "equity at start")
    ]
    rows = cells(table)
    assert len(rows) == 6 + 4
    assert {row[0][0] for row in rows[:6]} == {"A"}
    weights = solution.weights()[0]
    aces = solution.spot.hand_names.index("AsAh")
    row = next(row for row in rows if row[0] == "AsAh")
    expected = [
        f"{weights[aces]:.2%}",
        "0.333",
        "0.333",
        "0.333",
        f"{solution.hand_ev[0][aces]:.5g}",
        "1.000",
    ]
    assert row[1:] == expected
    assert [row[0] for row in cells(hands_table(solution, "bet 10", 2))] == ["KdKc", "KhKc"]


def test_the_tree_says_how_often_it_is_played(solution: SpotSolution):
    table = frequencies_table(solution)
    assert [str(column.header) for column in table.columns] == ["action", "taken", "reached", "then"]
    assert cells(table)[:5] == [
        ["oop check", "0.333", "0.333", ""],
        ["  ip check", "1.000", "0.333", "showdown, 0 more each"],
        ["oop bet 10", "0.333", "0.333", ""],
        ["  ip fold", "0.500", "0.167", "oop wins, 0 more each"],
        ["  ip call", "0.500", "0.167", "showdown, 10 more each"],
    ]
    rows = cells(frequencies_table(solution, "all-in 50"))
    assert rows[1] == ["ip call", "0.500", "0.500", "showdown, 50 more each"]
    with pytest.raises(ValueError, match="nobody acts there"):
        frequencies_table(solution, "check, check")


def test_what_is_never_asked_has_a_frequency(solution: SpotSolution):
    """As if the other had come with its whole range; that it never comes is said beside it."""
    rows = solution.probabilities[0].copy()
    rows[:] = np.array([1.0, 0.0, 0.0])[:, None]
    always = dataclasses.replace(solution, probabilities=(rows, solution.probabilities[1]))
    found = cells(frequencies_table(always))
    assert found[0] == ["oop check", "1.000", "1.000", ""]
    assert ["  ip fold", "0.500", "0.000", "oop wins, 0 more each"] in found
    after = cells(frequencies_table(always, "bet 10"))
    assert [row[:3] for row in after] == [["ip fold", "0.500", "0.000"], ["ip call", "0.500", "0.000"]]
    hands = cells(hands_table(always, "bet 10"))
    assert sorted(row[0] for row in hands) == ["KdKc", "KhKc", "KhKd", "KsKc", "KsKd", "KsKh"]


def test_hands_of_a_player_that_never_comes_are_drawn(solution: SpotSolution):
    menus = (BetMenu(bets=(0.5,), raises=()), BetMenu(bets=(), raises=(1.0,)))
    spot = dataclasses.replace(solution.spot, menus=menus)
    uniform = evaluate_spot(spot, HandsPolicy.uniform(spot.by_hands()))
    rows = uniform.probabilities[0].copy()
    for row, node in enumerate(uniform.form.children[0].tolist()):
        if spot.betting.line(node) in ("check", "bet 10"):
            rows[row] = float(spot.betting.line(node) == "check")
    never = dataclasses.replace(uniform, probabilities=(rows, uniform.probabilities[1]))
    ax = grid_picture(never, "bet 10, all-in 50")
    assert stripes(ax, 0, 0) == [(FOLD, 0.5, 1.0), (PASSIVE, 0.5, 1.0)]
    assert stripes(ax, 1, 1) == []
    plt.close(ax.figure)


def test_refinements_are_a_row_each():
    row = {"board": "2s3h4d6c7c", "player": 1, "gadget": "resolving", "prior": "none", "epsilon": 0.001}
    numbers = {
        "blueprint_exploitability": 2.0,
        "refined_exploitability": 1.25,
        "exploitability_bound": float("nan"),
        "margin": -0.5,
        "gap": 0.1,
        "iterations": 1000,
    }
    (found,) = cells(refinements_table([row | numbers]))
    assert found == [
        "2s3h4d6c7c",
        "ip",
        "resolving",
        "none",
        "0.001",
        "2",
        "1.25",
        "nan",
        "-0.5",
        "0.1",
        "1,000",
    ]
