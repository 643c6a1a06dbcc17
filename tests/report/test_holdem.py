"""Grids of hands."""

from __future__ import annotations

import dataclasses

import pytest
from matplotlib.figure import Figure
from rich.table import Table

from jaxgadget.games.sizes import ALL_IN
from jaxgadget.holdem.betting import BetMenu
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
        *("hand", "weight", "EV", "equity", "check", "EV check", "bet 10", "EV bet 10", "all-in 50"),
        "EV all-in 50",
    ]
    rows = cells(table)
    assert len(rows) == 6 + 4
    assert {row[0][0] for row in rows[:6]} == {"A"}
    weights = solution.weights()[0]
    aces = solution.spot.hand_names.index("AsAh")
    row = next(row for row in rows if row[0] == "AsAh")
    evs = {name: f"{values[aces]:.5g}" for name, values in solution.action_evs().items()}
    # Aces win, so a bet that half of all hands call earns half of it.
    assert evs == {"check": "20", "bet 10": "25", "all-in 50": "45"}
    expected = [f"{weights[aces]:.2%}", f"{solution.hand_ev[0][aces]:.5g}", "1.000"]
    assert row[1:] == [*expected, *(text for ev in evs.values() for text in ("0.333", ev))]
    assert [row[0] for row in cells(hands_table(solution, "bet 10", 2))] == ["KdKc", "KhKc"]


def test_the_tree_shows_frequencies(solution: SpotSolution):
    table = frequencies_table(solution)
    assert [str(column.header) for column in table.columns] == [
        *("action", "taken", "reached", "EV oop", "EV ip", "equity oop", "then")
    ]
    equity = solution.values().mean_equity[0]  # with uniform strategies ranges do not change
    shown = f"{equity:.3f}"

    def evs(pot: float) -> list[str]:
        return [f"{pot * equity:.5g}", f"{pot * (1 - equity):.5g}", shown]

    assert cells(table)[1:5:3] == [
        ["  ip check", "1.000", "0.333", *evs(20), "showdown, 0 more each"],
        ["  ip call", "0.500", "0.167", *evs(40), "showdown, 10 more each"],
    ]
    assert cells(table)[3] == ["  ip fold", "0.500", "0.167", "30", "0", shown, "oop wins, 0 more each"]
    assert [row[:3] for row in cells(table)[0:3:2]] == [
        ["oop check", "0.333", "0.333"],
        ["oop bet 10", "0.333", "0.333"],
    ]
    rows = cells(frequencies_table(solution, "all-in 50"))
    assert rows[1] == ["ip call", "0.500", "0.500", *evs(120), "showdown, 50 more each"]
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
    ax = grid_picture(solution, "bet 10", ax=Figure().add_subplot(), show="ev", player=0)
    aces = solution.spot.hand_names.index("AsAh")
    assert f"AA\n{solution.evs('bet 10')[0][aces]:.3g}" in [text.get_text() for text in ax.texts]
    assert ax.get_title() == "2s3h4d6c7c, oop after bet 10: EVs in chips"
    with pytest.raises(ValueError, match="player=0 does not act"):
        grid_picture(solution, "bet 10", ax=Figure().add_subplot(), player=0)
    names = [text.get_text().partition("\n")[0] for text in ax.texts]
    assert sorted(names) == ["AA", "QJs"]
    offsuit = dataclasses.replace(solution.spot, oop="QJo")
    other = evaluate_spot(offsuit, Policy.uniform(public_tree(offsuit)))
    ax = grid_picture(other, ax=Figure().add_subplot(), show="equity")
    assert [text.get_text().partition("\n")[0] for text in ax.texts] == ["QJo"]
