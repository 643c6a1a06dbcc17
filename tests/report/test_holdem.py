"""Grids of hands."""

from __future__ import annotations

import dataclasses

import pytest
from matplotlib.figure import Figure
from rich.table import Table

from jaxgadget.holdem.betting import ALL_IN, BetMenu
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.policy import Policy
from jaxgadget.report.holdem import (
    action_colors,
    frequencies_table,
    grid_picture,
    hands_table,
)
from jaxgadget.tree.public import public_tree


@pytest.fixture(scope="module")
def solution() -> SpotSolution:
    menus = (BetMenu(bets=(0.5, ALL_IN), raises=()), BetMenu(bets=(), raises=()))
    spot = Spot(board="2s3h4d6c7c", oop="AA,QJs:0.5", ip="KK", pot=20, stack=50, menus=menus)
    return evaluate_spot(spot, Policy.uniform(public_tree(spot)))


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


def test_the_tree_shows_frequencies(solution: SpotSolution):
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
    with pytest.raises(ValueError, match="no player acts there"):
        frequencies_table(solution, "check, check")


def test_an_action_has_one_colour_wherever_it_is_taken():
    menus = (BetMenu(bets=(0.5, 1.0, ALL_IN), raises=()), BetMenu(bets=(0.5, ALL_IN), raises=(1.0, ALL_IN)))
    betting = Spot(board="2s3h4d6c7c", oop="AA", ip="KK", pot=20, stack=200, menus=menus).betting
    start, checked, bet = (action_colors(betting, betting.find(line)) for line in ("", "check", "bet 10"))
    assert len(set(start.values())) == 4
    assert checked == {name: start[name] for name in ("check", "bet 10", "all-in 200")}
    assert bet["all-in 200"] == start["all-in 200"] and bet["call"] == start["check"] != bet["fold"]
    assert bet["raise to 50"] == start["bet 20"], "a pot, as the bet of a pot"


def test_cells_of_values_name_their_hands(solution: SpotSolution):
    ax = grid_picture(solution, ax=Figure().add_subplot(), show="ev")
    names = [text.get_text().partition("\n")[0] for text in ax.texts]
    assert sorted(names) == ["AA", "QJs"]
    offsuit = dataclasses.replace(solution.spot, oop="QJo")
    other = evaluate_spot(offsuit, Policy.uniform(public_tree(offsuit)))
    ax = grid_picture(other, ax=Figure().add_subplot(), show="equity")
    assert [text.get_text().partition("\n")[0] for text in ax.texts] == ["QJo"]
