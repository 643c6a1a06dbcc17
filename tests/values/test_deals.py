"""Streets above a deal with values of ranges: compared with whole solves, whose later streets are known."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from jaxgadget.core.solver import Solver
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.cards import HANDS
from jaxgadget.holdem.locks import find_locked
from jaxgadget.holdem.runouts import find_merged
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.util.precision import precision
from jaxgadget.values.deals import CheckedDown, DealLimit, ResolvedDeals, solve_to_deal

NEVER = BetMenu(bets=(), raises=())
HALF = BetMenu(bets=(0.5,), raises=())
DEAD = "".join(rank + suit for rank in "23456" for suit in "cdhs") + "7c7d7h8c8d8h9c9s"
TURN = Spot(
    board="Td9d8sQc",
    oop="AA,JTs,A7s",
    ip="KK,QJs,J9s:0.5",
    pot=10,
    stack=20,
    menus=HALF,
    river_menus=NEVER,
    dead=DEAD,
)
FLOP = dataclasses.replace(TURN, board="Td9d8s", river_menus=None, turn_menus=NEVER, stack=15)


def solved(spot: Spot, iterations: int = 600, **settings: Any) -> SpotSolution:
    solver = Solver(algorithm="dcfr", iterations=iterations, dtype="float64", progress=False)
    return solve_spots([spot], solver=solver, **settings)[0]


@pytest.mark.slow
@pytest.mark.parametrize("spot", [TURN, FLOP], ids=["turn", "flop"])
def test_equities_are_the_values_without_later_bets(spot: Spot) -> None:
    limited = solve_to_deal(spot, CheckedDown(), iterations=800)
    whole, gap = solved(spot), float(limited.game_values.sum()) * spot.pot
    assert -1e-9 < gap < 0.01
    found = spot.pot * (0.5 + limited.game_values[:, 0])
    assert found == pytest.approx(whole.ev, rel=0, abs=gap + whole.gap + 1e-9)
    assembled = solved(spot, locks=limited.locks())
    assert assembled.exploitability < 1e-6  # there are no decisions after the deal
    assert assembled.unlocked_exploitability < 1e-3


@pytest.mark.slow
def test_resolved_values_lead_to_an_equilibrium() -> None:
    spot = dataclasses.replace(TURN, river_menus=HALF)
    resolved = solve_to_deal(spot, ResolvedDeals(40), iterations=150)
    whole, assembled = solved(spot), solved(spot, locks=resolved.locks())
    assert assembled.unlocked_exploitability < 0.01 * spot.pot
    error = assembled.unlocked_gap + whole.gap
    assert assembled.ev == pytest.approx(whole.ev, rel=0, abs=error)


def test_values_of_fixed_ranges_are_those_of_a_solved_spot() -> None:
    """Without bets before the card, the ranges at the only deal are those of the spot."""
    spot = dataclasses.replace(TURN, menus=NEVER, river_menus=HALF)
    limit = DealLimit.of(spot)
    assert len(limit.nodes) == 1 and limit.pots.tolist() == [1] and limit.stacks.tolist() == [2]
    hands = limit.runouts.hands
    with precision(np.float64):
        ranges = [jnp.asarray(np.where(hands >= 0, own[hands], 0)[:, None]) for own in spot.dealt]
        values = ResolvedDeals(600)(limit)((ranges[0], ranges[1]))
    whole = solved(spot, 1200)
    for player in (0, 1):
        own = (hands >= 0) & (spot.dealt[player][hands] > 0)
        met = (limit.compatible @ np.asarray(ranges[1 - player]))[own, 0]
        ev = spot.pot * (0.5 + np.asarray(values[player])[own, 0] / met)
        np.testing.assert_allclose(ev, whole.hand_ev[player][hands[own]], rtol=0, atol=0.05)
        mean = spot.pot * (0.5 + float(np.asarray(ranges[player])[:, 0] @ np.asarray(values[player])[:, 0]))
        assert mean == pytest.approx(whole.ev[player], rel=0, abs=0.01)


def test_showdowns_are_antisymmetric_and_exclude_common_cards() -> None:
    limit = DealLimit.of(TURN)
    np.testing.assert_array_equal(limit.showdowns, -limit.showdowns.T)
    shared = np.array(
        [[bool({*HANDS[i]} & {*HANDS[j]}) or min(i, j) < 0 for j in limit.hands] for i in limit.hands]
    )
    np.testing.assert_array_equal(limit.compatible == 0, shared)
    assert not limit.showdowns[shared].any() and np.abs(limit.showdowns).max() <= 1


def test_the_next_street_has_the_ranges_that_reach_it() -> None:
    spot = dataclasses.replace(TURN, river_menus=HALF)
    limited = solve_to_deal(spot, CheckedDown(), iterations=50)
    whole = solved(spot, 20, locks=limited.locks())
    for line in ("check, check, Ah", "check, bet 5, call, Qs"):
        ours, theirs = limited.after(line), whole.after(line).spot
        for one, other in zip(ours.range_weights, theirs.range_weights, strict=True):
            np.testing.assert_allclose(one / one.sum(), other / other.sum(), rtol=0, atol=1e-9)
        assert ours.rules == theirs.rules and ours.cards == theirs.cards and ours.dead == theirs.dead
    for line, message in (
        ("check, check", "expected a line that ends with the card"),
        ("check, bet 5, Ah", "expected a line that ends with the card"),
        ("check, check, Td", "'Td' cannot be dealt; expected one of"),
        ("check, check, bet", "'bet' cannot be dealt"),
    ):
        with pytest.raises(ValueError, match=message):
            limited.after(line)


def test_locks_of_a_flop_keep_its_symmetry() -> None:
    limited = solve_to_deal(dataclasses.replace(FLOP, dead=""), CheckedDown(), iterations=30)
    spot = limited.limit.spot
    locked = find_locked(spot, limited.locks())
    assert locked is not None and len(find_merged(spot, None)) == 2
    assert find_merged(spot, None, locked) == find_merged(spot, None)


def wrong(limit: DealLimit) -> Any:
    return Partial(lambda ranges: (ranges[0][:-1], ranges[1]))


def undefined(limit: DealLimit) -> Any:
    return Partial(lambda ranges: (ranges[0] * jnp.nan, ranges[1]))


@pytest.mark.parametrize(
    ("spot", "values", "message"),
    [
        (dataclasses.replace(TURN, board="Td9d8sQcTh", river_menus=None), CheckedDown(), "no card is dealt"),
        ("TURN", CheckedDown(), "expected a Spot"),
        (
            dataclasses.replace(TURN, remove=("check, check", "bet 5, call", "check, bet 5, call")),
            CheckedDown(),
            "no line leads to a card",
        ),
        (TURN, CheckedDown, "a network from load_deals"),
        (TURN, lambda limit: lambda ranges: abs, "returns a function of both ranges"),
        (TURN, wrong, "for each player"),
        (TURN, undefined, "not finite"),
        (dataclasses.replace(TURN, rake=0.05), CheckedDown(), "rake=0.05"),
        (TURN, ResolvedDeals(0), "expected"),
        (TURN, ResolvedDeals(3, "pcfr+"), "without predictions"),
    ],
)
def test_bad_arguments(spot: Any, values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve_to_deal(spot, values, iterations=2)
