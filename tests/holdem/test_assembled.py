"""Flops with other strategies on their turns, compared with the game of all turns and rivers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jaxgadget.holdem.assembled import replace_turns
from jaxgadget.holdem.cards import card_name, parse_cards
from jaxgadget.holdem.isomorphism import exchanged_hands
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.streets import exchange_card
from jaxgadget.util.arrays import FloatArray
from tests.holdem.test_flops import MONOTONE, flop, solve_one
from tests.holdem.test_solve import random_play
from tests.reference.flops import ListedFlop, Node, Values, is_card

SPOTS = [
    pytest.param(flop(), id="apart"),
    pytest.param(MONOTONE, id="merged", marks=pytest.mark.slow),
]


def first_cards(solution: SpotSolution) -> list[str]:
    """The turn's card of each class that an exchange of suits merges."""
    assert solution.streets is not None
    return [card_name(lane.cards[0]) for lane in solution.streets.runouts.lanes[1]]


def deals(spot: Spot) -> list[str]:
    """Lines to the turn after which players can still bet."""
    return ["check, check"] if spot is MONOTONE else ["check, check", "bet 10, call"]


@pytest.mark.parametrize("spot", SPOTS)
def test_a_solution_s_own_turns_change_nothing(spot: Spot):
    solution = solve_one(spot, 7)
    lines = [f"{line}, {card}" for line in deals(spot) for card in first_cards(solution)]
    for player in (0, 1):
        same = replace_turns(
            solution, {line: solution.after(line).held[player] for line in lines}, player, label="same"
        )
        assert same.ev == pytest.approx(solution.ev, rel=1e-9)
        assert same.gains == pytest.approx(solution.gains, rel=1e-9)
        assert (same.algorithm, same.iterations) == ("same", 0)


@pytest.mark.parametrize("player", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("spot", SPOTS)
def test_replaced_turns_have_the_values_of_the_listed_game(spot: Spot, player: int):
    """Random strategies on some turns; after cards of the same class hands and rivers are exchanged."""
    solution = solve_one(spot, 7)
    line, cards = deals(spot)[-1], first_cards(solution)[:2]
    turns = {card: evaluate_at(solution, f"{line}, {card}", seed) for seed, card in enumerate(cards)}
    replaced = replace_turns(
        solution, {f"{line}, {card}": turn.held[player] for card, turn in turns.items()}, player
    )
    listed = ListedFlop(spot)
    expected = values_with(listed, solution, turns, line, player)
    assert replaced.ev == pytest.approx(expected.ev, rel=1e-9)
    assert replaced.gains == pytest.approx(expected.gains, rel=1e-9, abs=1e-9)
    assert replaced.ev != pytest.approx(solution.ev, rel=1e-3)


def evaluate_at(solution: SpotSolution, line: str, seed: int) -> SpotSolution:
    """Random strategies of both players on the turn after a line."""
    turn, _ = solution.spot.find_street(line)
    return evaluate_spot(turn, random_play(turn, seed))


def values_with(
    listed: ListedFlop, solution: SpotSolution, turns: dict[str, SpotSolution], line: str, player: int
) -> Values:
    """Values in the listed game if a player follows the given solutions, by their card, after a line."""
    assert solution.streets is not None
    runouts = solution.streets.runouts

    def play(node: Node) -> dict[str, FloatArray]:
        source, rest, hands = solution, node.line, listed.hands[node.actor]
        begin = next((number for number, word in enumerate(node.words) if is_card(word)), None)
        if begin is not None:
            before, (dealt,) = ", ".join(node.words[:begin]), parse_cards(node.words[begin])
            lane_idx, suits = runouts.find_lane((dealt,))
            card = card_name(runouts.lanes[1][lane_idx].cards[0])
            source = solution.after(f"{before}, {node.words[begin]}")
            words = [*node.words[begin + 1 :]]
            if before == line and node.actor == player and card in turns:
                source, hands = turns[card], exchanged_hands(suits)[hands]
                words = [exchanged(word, suits) if is_card(word) else word for word in words]
            rest = ", ".join(words)
        place = {hand: row for row, hand in enumerate(source.spot.hands.tolist())}
        strategy = source.strategy(rest)
        return {
            action: np.array([row[place[h]] if h in place else 1 / len(strategy) for h in hands.tolist()])
            for action, row in strategy.items()
        }

    return listed.evaluate(play)


def exchanged(card: str, suits: tuple[int, ...]) -> str:
    """A card's image under an exchange of suits."""
    (number,) = parse_cards(card)
    return card_name(exchange_card(number, suits))


def test_what_is_no_turn_s_strategy_is_refused():
    solution = solve_one(flop(), 2)
    turn = solution.after("check, check, Ah")
    calls: list[tuple[dict[str, Any], str]] = [
        ({"check, check": turn.held[0]}, "expected a line that ends with the turn's card"),
        ({"check, check, Ah, check": turn.held[0]}, "expected a line that ends with the turn's card"),
        ({"check, check, Ah": solution.held[0]}, "expected .* rows"),
    ]
    for turns, message in calls:
        with pytest.raises(ValueError, match=message):
            replace_turns(solution, turns, 0)
    with pytest.raises(ValueError, match="expected the solution of a flop"):
        replace_turns(turn, {}, 0)


@pytest.mark.slow
def test_two_turns_of_one_class_are_refused():
    solution = solve_one(MONOTONE, 2)
    turns = {
        f"check, check, {card}": solution.after(f"check, check, {card}").held[0] for card in ("Ac", "Ad")
    }
    with pytest.raises(ValueError, match="is of the class of 'check, check, Ac', too"):
        replace_turns(solution, turns, 0)
