"""Spots solved: against definitions, linear programs and figures from elsewhere; units and independence."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.hands.evaluate import best_hands_response
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.hands.solve import solve_hands
from jaxgadget.poker.betting import ALL_IN, BetMenu
from jaxgadget.poker.solve import SpotSolution, build_batch, evaluate_spot, solve_spots
from jaxgadget.poker.spots import Spot
from jaxgadget.util.precision import precision
from tests.poker.enumerated import expected_chips

NEVER = BetMenu(bets=(), raises=())
ALL = BetMenu(bets=(ALL_IN,), raises=())
SMALL = BetMenu(bets=(0.5,), raises=(1.0,), cap=2)
BLUFFS = Spot(
    board="2s3h4d6c7c", oop="AsAh,QsQh", ip="KsKh", pot=20, stack=10, menus=(ALL, NEVER)
)  # value hands, bluffs, and hands that beat bluffs alone


def random_play(spot: Spot, seed: int) -> HandsPolicy:
    form = HandsForm(spot.by_hands())
    rng = np.random.default_rng(seed)
    bodies = [rng.random((len(rows) * len(spot.hands), 1)) for rows in form.rows]
    return HandsPolicy.of_bodies(form, (bodies[0], bodies[1]), ("random",))


def check_against_enumeration(spot: Spot, seed: int) -> SpotSolution:
    """A profile's EVs are those of the definitions."""
    solution = evaluate_spot(spot, random_play(spot, seed))
    rows: dict[str, Any] = {}

    def play(player: int, line: str, hand: int) -> dict[str, float]:
        if line not in rows:
            rows[line] = solution.strategy(line)
        return {action: float(row[hand]) for action, row in rows[line].items()}

    assert solution.ev == pytest.approx(expected_chips(spot, play), abs=1e-9)
    return solution


def test_evs_of_a_river_are_those_of_all_pairs_of_hands():
    spot = Spot(
        board="Td9d6hQc2s",
        oop="AsKd,QsQh:0.5,8c7c,Ts3s",
        ip="AcKh,8d7d,QdQh,6s5s:0.3",
        pot=60,
        stack=200,
        menus=SMALL,
    )
    solution = check_against_enumeration(spot, 1)
    assert sum(solution.ev) == pytest.approx(60)
    for player, ev in enumerate(solution.ev):
        held = solution.weights()[player]
        assert held @ np.nan_to_num(solution.hand_ev[player]) == pytest.approx(ev)


def test_evs_are_chips_whatever_the_pot():
    spots = [
        Spot(board="Td9d6hQc2s", oop="AK,77", ip="QJ,88", pot=p, stack=3 * p, menus=SMALL) for p in (1, 250)
    ]
    small, large = (evaluate_spot(spot, random_play(spot, 2)) for spot in spots)
    assert np.array(large.ev) == pytest.approx(250 * np.array(small.ev))
    assert large.gap == pytest.approx(250 * small.gap)
    assert large.exploitability == large.gap / 2


@pytest.mark.parametrize(
    ("folds", "evs"), [(0.25, {"AsAh": 27.5, "KsKh": 6.25}), (0.5, {"AsAh": 25, "QsQh": 5, "KsKh": 5})]
)
def test_a_best_response_to_a_hand_that_folds_so_often(folds: float, evs: dict[str, float]):
    policy = HandsPolicy.uniform(BLUFFS.by_hands())
    rows = policy.probabilities[1].copy()
    for row, node in enumerate(policy.form.children[1].tolist()):
        rows[row] = {"fold": folds, "call": 1 - folds, "check": 1.0}[BLUFFS.betting.action_name(node)]
    fixed = HandsPolicy(policy.form, (policy.probabilities[0], rows), ("folds",))
    solution = evaluate_spot(BLUFFS, best_hands_response(fixed, 0).policy)
    place = {name: hand for hand, name in enumerate(BLUFFS.hand_names)}
    for name, ev in evs.items():
        player = 1 if name == "KsKh" else 0
        assert solution.hand_ev[player][place[name]] == pytest.approx(ev, abs=1e-9)


@pytest.fixture(scope="module")
def bluffs() -> SpotSolution:
    (solution,) = solve_spots([BLUFFS], algorithm="cfr+", target_gap="0.1%", iterations=5000, dtype="float64")
    return solution


def test_bluffs_and_calls_of_a_river_are_those_of_theory(bluffs: SpotSolution):
    place = {name: hand for hand, name in enumerate(BLUFFS.hand_names)}
    bets = bluffs.strategy()["all-in 10"]
    assert bets[place["AsAh"]] == pytest.approx(1, abs=0.01)
    assert bets[place["QsQh"]] == pytest.approx(1 / 3, abs=0.01)
    assert bluffs.strategy("all-in 10")["call"][place["KsKh"]] == pytest.approx(2 / 3, abs=0.01)
    assert bluffs.frequencies()["all-in 10"] == pytest.approx(2 / 3, abs=0.01)
    assert bluffs.equity[1][place["KsKh"]] == 0.5


def test_values_are_those_of_linear_programs():
    ranges = {"oop": "AA,T9s,54s:0.4", "ip": "KK,QJs,87s:0.7"}
    spot = Spot(board="Td9d6hQc2s", pot=100, stack=150, menus=SMALL, **ranges)
    exact = solve_hands(spot.by_hands(in_range=True), algorithm="lp")
    (solution,) = solve_spots([spot], iterations=300)
    assert abs(solution.ev[0] - 50 - exact.value) <= solution.gap + 1e-6
    assert solution.gap < 0.5


def test_it_stops_at_a_share_of_the_pot(bluffs: SpotSolution):
    assert bluffs.iterations < 5000
    assert 0 <= bluffs.gap <= 0.02


def test_lanes_taken_from_a_batch_are_those_lanes():
    given: dict[str, Any] = {"oop": "QQ+,AK", "ip": "random", "stack": 100, "menus": SMALL}
    spots = [Spot(board=board, pot=pot, **given) for board, pot in (("Td9d6hQc2s", 100), ("2c2d7h7sKs", 101))]
    batch = build_batch(spots, HandsForm(spots[0].by_hands()))
    shared, by_lane = batch.payoff.num_bytes()
    assert batch.payoff.take_lanes(np.array([1])).num_bytes()[1] >= by_lane * 0.5
    assert by_lane > 8 * 47 * 46 * 46 > 0 < shared
    rng = np.random.default_rng(0)
    with precision(np.float64):
        reach = [
            jnp.asarray(rng.random((treeplex.num_sequences, 2))) for treeplex in (s.body for s in batch.sides)
        ]
        few = batch.problem(np.array([1])).payoff
        gradient = jax.jit(lambda payoff, *reach: payoff.gradient(1, reach, None)[0])
        together, alone = gradient(batch.payoff, *reach), gradient(few, *(own[:, 1:] for own in reach))
    np.testing.assert_allclose(alone[:, 0], together[:, 1], rtol=0, atol=1e-9)


def test_what_is_said_of_a_spot(bluffs: SpotSolution):
    row = bluffs.to_row()
    assert row["board"] == "2s3h4d6c7c"
    assert row["hands"] == [2, 1]
    assert row["exploitability"] == row["gap"] / 2
    assert sum(row["root"].values()) == pytest.approx(1)
    frame = bluffs.to_frame("all-in 10")
    assert frame.columns.tolist() == ["hand", "weight", "ev", "equity", "fold", "call"]
    assert frame["hand"].tolist() == ["KsKh"]
    assert "exploitability" in repr(bluffs)
    with pytest.raises(ValueError, match="nobody acts there"):
        bluffs.strategy("check, check")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_gap": -1}, "target_gap=-1: expected chips >= 0, or a share of the pot such as '1%'"),
        ({"target_gap": "x%"}, "target_gap='x%'"),
        ({"iterations": 0}, "iterations=0: expected a whole number >= 1"),
        ({"algorithm": "lp"}, "algorithm='lp'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=r".") as error:
        solve_spots([BLUFFS], **arguments)
    assert message in str(error.value)


def test_a_policy_of_another_tree_is_refused():
    other = Spot(board="2s3h4d6c7c", oop="AA", ip="KK", pot=20, stack=10, menus=ALL)
    with pytest.raises(ValueError, match=r"expected a single policy of spot\.by_hands\(\)"):
        evaluate_spot(BLUFFS, HandsPolicy.uniform(other.by_hands()))
