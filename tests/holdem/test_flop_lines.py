"""Lines with cards on flops, trees with a single card for each deal, and functions that refuse flops."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.games.sizes import ALL_IN
from jaxgadget.holdem.betting import PLAYERS, BetMenu
from jaxgadget.holdem.cards import card_name, hand_name
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import HeldRows, action_nodes
from jaxgadget.holdem.translate import translate_solution
from jaxgadget.report.holdem import frequencies_table, grid_title
from jaxgadget.subgames.spots import refine_spots

HALF, NEVER = BetMenu(bets=(0.5,), raises=()), BetMenu(bets=(), raises=())
LEFT = {"6d", "7c", "8s", "9h", "Qh", "Qs", "Kh", "Ks", "Ah", "As"}
BOARD = ("2s", "3h", "4d")
DEAD = "".join({card_name(card) for card in range(52)} - LEFT - {*BOARD})
FLOP: dict[str, Any] = {"board": "".join(BOARD), "oop": "AsAh,QsQh:0.5", "ip": "KsKh,9h8s", "pot": 20}


@functools.cache
def flop() -> Spot:
    return Spot(**FLOP, stack=40, menus=HALF, turn_menus=BetMenu(bets=(ALL_IN,), raises=()), dead=DEAD)


@functools.cache
def solved() -> SpotSolution:
    (solution,) = solve_spots([flop()], iterations=10)
    return solution


@pytest.mark.parametrize("dead", ["", "5c7d"])
def test_a_single_card_stands_for_all(dead: str):
    """49 turns and 48 rivers, fewer with dead cards; the tree of the turn lists its rivers."""
    spot = Spot(**FLOP, stack=40, menus=(HALF, NEVER), dead=dead)
    betting, gone = spot.betting, 2 if dead else 0
    first = betting.find("check, check")
    second = betting.find("check, check, 2c, check, check")
    assert [betting.count_cards(node) for node in (first, second)] == [49 - gone, 48 - gone]
    assert f"any of {49 - gone} cards" in str(betting) and f"any of {48 - gone} cards" in str(betting)
    turn, rest = spot.find_street("check, check, Kd")
    assert (turn.board, rest) == ("2s3h4dKd", "")
    deal = turn.betting.find("check, check")
    assert len(turn.betting.children(deal)) == turn.betting.count_cards(deal) == 48 - gone
    assert f"2c, or another of {48 - gone} cards" in str(turn.betting)


def test_the_tree_of_a_flop_is_one_object():
    """Strategies are rows of both `betting` and `street_betting`, also after the cache dropped the tree."""
    spot = Spot(**FLOP, stack=40, menus=HALF)
    for chips in range(50, 60):
        _ = Spot(**FLOP, stack=chips, menus=HALF).betting
    assert spot.street_betting is spot.betting


def test_a_line_is_split_at_its_first_card():
    spot = Spot(
        **FLOP, stack=100, menus=HALF, river_menus=(NEVER, HALF), remove=["bet 10, call, check, bet 20"]
    )
    turn, rest = spot.find_street(" bet 10,call , 6d,check,  check, 7c, check")
    assert rest == "check, check, 7c, check"
    assert (turn.board, turn.pot, turn.stack) == ("2s3h4d6d", 40, 90)
    names = [turn.betting.names[action] for action in range(len(turn.betting.names))]
    assert "bet 20" in names and "bet 10" not in names
    assert turn.betting.actor(rest) == 1
    with pytest.raises(ValueError, match="'bet 20' is not legal"):
        turn.betting.find("check, bet 20")  # removed
    held = {hand_name(hand) for hand in turn.hands[turn.range_weights[0] > 0].tolist()}
    assert held == {"AsAh", "QsQh"}
    assert spot.find_street("bet 10") == (spot, "bet 10")
    river = Spot(**FLOP | {"board": "2s3h4d6d7c"}, stack=10, menus=HALF)
    assert river.find_deal("check, check, 9c") is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check, bet", "'bet' is not legal after 'check'"),
        ("bet 3, 6d", "'bet 3' is not legal at the start"),
        ("check, check, 3h, check", "3h is on the board"),
        ("check, check, 2c", "2c is dead"),
        ("check, check, check", "'check' is not one; expected a card, such as 6d"),
        ("check, check, ", "'' is not one; expected a card"),
        ("bet 10, call, 6d, all-in 30, call, 7c, check", "'check' is not legal after .* the hand is over"),
    ],
)
def test_bad_lines_name_the_problem(line: str, message: str):
    with pytest.raises(ValueError, match=message):
        solved().values(line)


def test_no_turn_follows_an_all_in():
    spot = Spot(**FLOP, stack=40, menus=BetMenu(bets=(ALL_IN,), raises=()))
    with pytest.raises(ValueError, match="both players are all-in"):
        spot.find_street("all-in 40, call, 6d")


@pytest.mark.parametrize("line", ["check, check, 6d", "bet 10,call, 7c,check"])
def test_tables_show_the_street_of_the_line(line: str):
    """Values below a card are the turn's, by the whole line; the title names the flop."""
    begin = ", ".join(word.strip() for word in line.split(","))
    deal = flop().find_deal(line)
    assert deal is not None
    turn = solved().after(deal.line)
    found, expected = solved().values_below(line), turn.values_below(deal.rest)
    assert list(found) == [f"{deal.line}, {below}" if below else deal.line for below in expected]
    for values, wanted in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(values.ev[0], wanted.ev[0])
    actions = solved().frequencies(line)
    assert actions == turn.frequencies(deal.rest)
    shown = [str(cell).strip() for cell in frequencies_table(solved(), line).columns[0].cells]
    name = PLAYERS[turn.actor(deal.rest)]
    assert next(each for each in shown if each.startswith(name)) == f"{name} {next(iter(actions))}"
    assert grid_title(solved(), line, player=0) == f"2s3h4d, oop after {line}: strategy"
    assert solved().to_record(line)["line"] == begin


def test_a_line_that_is_never_played_is_not_reached():
    """The turn after it has whole ranges, but the share of the flop's pairs that reach it is 0."""
    solution = solved()
    first = solution.probabilities[0].copy()
    betting = flop().betting
    nodes = action_nodes(betting.tree, 0).tolist()
    first[nodes.index(betting.find("check"))] = 1.0
    first[nodes.index(betting.find("bet 10"))] = 0.0
    never = dataclasses.replace(solution, held=(HeldRows.every(first), solution.held[1]))
    record = never.to_record("bet 10, call, 6d")
    assert record["reached"] == 0 and len(record["hands"][0]) == 2


def test_functions_of_listed_trees_refuse_flops():
    message = "flop"
    with pytest.raises(ValueError, match=message):
        _ = solved().policy
    with pytest.raises(ValueError, match=message):
        jg.public_tree(flop())
    with pytest.raises(ValueError, match=message):
        translate_solution(solved(), flop())
    with pytest.raises(ValueError, match="a flop, which gadgets cannot re-solve"):
        refine_spots([flop()], blueprints=[solved()])
