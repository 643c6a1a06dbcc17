"""Flops with rake, other menus, symmetries and wide ranges against the game of all turns and rivers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.isomorphism import find_exchanges
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes, policy_to_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.solve import solve as solve_game
from jaxgadget.tree.public import public_tree
from tests.holdem.test_flops import (
    BET,
    EXACT,
    MONOTONE,
    NO_BETS,
    TURN,
    check_by_streets,
    check_value,
    check_values,
    flop,
    solve_one,
)
from tests.reference.flops import ListedFlop, place_hands, street_of
from tests.solving import settings


def random_range(seed: int) -> HandRange:
    """Weights of all hands."""
    return HandRange(np.random.default_rng(seed).random(1326).round(3))


CASES: dict[str, dict[str, Any]] = {
    "donks and menus of streets": {
        "menus": BetMenu(bets="50%", raises="", cap=1, donks=()),
        "turn_menus": BetMenu(bets="100%", raises="50%", cap=2, donks="30%"),
        "river_menus": BetMenu(bets="a", raises="", donks=()),
    },
    "menus of players": {
        "menus": (BET, BetMenu(bets="100%,30%", raises="60%", cap=2)),
        "turn_menus": (NO_BETS, BET),
        "river_menus": (BetMenu(bets="25%", raises="", donks="75%"), NO_BETS),
        "min_bet": 4,
    },
    "all-in on the flop": {"menus": BetMenu(bets="50%,a", raises="a"), "stack": (12, 40)},
    "removed lines": {
        "turn_menus": BetMenu(bets="50%,150%", raises="", cap=1),
        "river_menus": BET,
        "remove": [
            "check, bet 10, fold",
            "check, check, check, bet 30",
            "bet 10, call, bet 20",
            "bet 10, call, check, check, bet 20",
            "check, bet 10, call, bet 60, call, check, check",
        ],
    },
}


@pytest.mark.parametrize("name", CASES)
def test_a_flop_has_the_values_of_the_listed_game(name: str):
    spot = flop(**CASES[name])
    listed, solution = ListedFlop(spot), solve_one(spot, 200)
    check_values(listed, solution)
    check_value(listed, solution)


@pytest.mark.parametrize("compressed", [False, True])
def test_wide_ranges_with_rake_have_the_values_of_the_listed_game(compressed: bool):
    spot = flop(oop=random_range(1), ip=random_range(2), rake=0.05, rake_cap=1.5)
    solution = solve_one(spot, 10, dtype="float32", compressed=compressed)
    check_values(ListedFlop(spot), solution)
    assert 0 < solution.expected_rake < 1.5


def test_a_flop_takes_the_iterations_of_the_listed_game():
    """The same averages after three iterations, on all streets."""
    spot = flop()
    listed, solution = ListedFlop(spot), solve_one(spot, 3)
    tree = public_tree(listed.by_hands())
    asked = settings(algorithm="dcfr", iterations=3, dtype="float64")
    policy = solve_game(tree, **asked).policy
    assert isinstance(policy, Policy)
    rows, different = policy_to_rows(policy), 0
    for player in (0, 1):
        for row, child in zip(rows[player], action_nodes(tree.nodes, player).tolist(), strict=True):
            node, above = listed.nodes[child], listed.nodes[listed.parent[child]]
            place, left = place_hands(street_of(solution, above.words), listed.hands[player])
            possible = left & (listed.possible(player, above.cards) > 0)
            found = solution.strategy(above.line)[node.words[-1]][place[possible]]
            np.testing.assert_allclose(found, row[possible], rtol=0, atol=1e-9, err_msg=node.line)
            different += np.ptp(found) > 0.01
    assert different > 100  # not all are uniform


SUITS = {
    "monotone": (MONOTONE, 6),
    "two-tone": (
        flop("Ts6s2d", "AhAcKhKc8h8c8sQd", oop="AA,K8,Q8s:0.3", ip="KK:0.6,A8,88:0.8"),
        2,
    ),
    "paired": (flop("TsTh6d", "AsAhKsKh8s8hQd5c", oop="AA,K8,Q8:0.3", ip="KK:0.6,A8,88:0.8"), 2),
    "three of a kind": (
        flop("TsThTd", "AsAhAdKsKhKd5c4c", oop="AA,K5,54s", ip="KK:0.6,A4,A5:0.3"),
        6,
    ),
}


@pytest.mark.parametrize("name", SUITS)
def test_merged_runouts_have_the_solution_of_all(name: str):
    """Also with rake on one flop."""
    spot, count = SUITS[name]
    spot = dataclasses.replace(
        spot, menus=BET, turn_menus=NO_BETS, river_menus=BET, rake=0.04 if name == "paired" else 0.0
    )
    assert len(find_exchanges(spot)[0]) == count
    merged, apart = (solve_one(spot, 15, merges=merges) for merges in (True, False))
    assert merged.streets is not None and apart.streets is not None
    for fewer, more in zip(merged.streets.runouts.lanes[1:], apart.streets.runouts.lanes[1:], strict=True):
        assert len(fewer) < len(more)
    assert merged.ev == pytest.approx(apart.ev, rel=EXACT)
    assert merged.gains == pytest.approx(apart.gains, rel=EXACT, abs=EXACT)
    card = spot.hand_names[0][:2]
    pairs = [(merged, apart)] + [
        (merged.after(f"{line}, {card}"), apart.after(f"{line}, {card}"))
        for line in ("check, check", "bet 10, call")
    ]
    for one, other in pairs:
        for player in (0, 1):
            rows = one.probabilities[player], other.probabilities[player]
            np.testing.assert_allclose(*rows, rtol=0, atol=1e-8)
            np.testing.assert_allclose(one.hand_ev[player], other.hand_ev[player], rtol=0, atol=1e-8)
    check_values(ListedFlop(spot), merged)


@pytest.fixture(scope="module")
def solved() -> SpotSolution:
    return solve_one(flop(), 150)


@pytest.mark.parametrize("line", ["check, check, Ah", "check, check, Qc", "check, bet 10, call, Qc"])
def test_a_turn_solved_again_keeps_its_value(solved: SpotSolution, line: str):
    """Both values are within the gains of both solutions."""
    turn = solved.after(line)
    again = solve_one(turn.spot, 150)
    assert turn.ev[0] - turn.gains[1] <= again.ev[0] + again.gains[0]
    assert again.ev[0] - again.gains[1] <= turn.ev[0] + turn.gains[0]
    assert max(turn.gap, again.gap) < 0.01 * turn.spot.pot


FULL_DECK = Spot(board="Ts6s2sKs", oop="AA,KQs:0.5,98s", ip="QQ,AKo:0.3,76s", pot=12, stack=30, menus=BET)
"""A turn on which the ranges are few of many hands."""

TURNS = {
    "rake and menus": dataclasses.replace(
        TURN,
        rake=0.05,
        rake_cap=2,
        menus=(BET, BetMenu(bets="30%,a", raises="")),
        river_menus=BetMenu(bets="a", raises="", donks=()),
    ),
    "some hands": dataclasses.replace(FULL_DECK, board="Ts6d2sKh"),
    "merged, with rake and dead cards": dataclasses.replace(FULL_DECK, dead="3c3d3h", rake=0.03),
}


@pytest.mark.parametrize("name", TURNS)
def test_a_turn_by_streets_is_solved_as_its_whole_tree(name: str):
    check_by_streets(TURNS[name], 3, merges="merged" in name)
