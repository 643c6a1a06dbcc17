"""EVs and equities after every line, compared with an enumeration of all pairs of hands and rivers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from jaxgadget.holdem import solution as solution_module
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import HeldRows
from tests.holdem.enumerated import HandValues, values_at
from tests.holdem.test_solve import random_play

RIVER = Spot(
    board="Td9d6hQc2s",
    oop="AsKd,QsQh:0.5,8c7c,Ts3s",
    ip="AcKh,8d7d,QdQh,6s5s:0.3",
    pot=60,
    stack=200,
    menus=BetMenu(bets=(0.5,), raises=(1.0,), cap=2),
)
TURN = Spot(
    board="Td9d6hQc",
    oop="AsKd,QsQh:0.5,8c7c",
    ip="AcKh,QdQh:0.7,5d4d",
    pot=60,
    stack=100,
    menus=BetMenu(bets=(0.5,), raises=(), cap=1),
)


def evaluate(spot: Spot) -> SpotSolution:
    """Random strategies; the second player never bets after a check."""
    solution = evaluate_spot(spot, random_play(spot, 5))
    rows = solution.probabilities[1].copy()
    nodes = solution._action_nodes[1].tolist()  # pyright: ignore[reportPrivateUsage]
    for row, node in enumerate(nodes):
        line = spot.betting.line(node)
        if line in ("check, check", "check, bet 30"):
            rows[row] = float(line == "check, check")
    return dataclasses.replace(solution, held=(solution.held[0], HeldRows.every(rows)))


@pytest.fixture(scope="module")
def river() -> SpotSolution:
    return evaluate(RIVER)


@pytest.fixture(scope="module")
def turn() -> SpotSolution:
    return evaluate(TURN)


def enumerated(solution: SpotSolution, line: str) -> tuple[dict[int, HandValues], dict[int, HandValues]]:
    def play(player: int, line: str, hand: int) -> dict[str, float]:
        return {action: float(row[hand]) for action, row in solution.strategy(line).items()}

    return values_at(solution.spot, play, line)


def check(solution: SpotSolution, line: str) -> None:
    spot, values = solution.spot, solution.values(line)
    node = solution.node(line)
    assert values.pot == spot.pot + spot.betting.put_in[node].sum()
    for player, expected in enumerate(enumerated(solution, line)):
        own = spot.range_weights[player] > 0
        defined = np.flatnonzero(~np.isnan(values.ev[player])).tolist()
        assert set(defined) == set(expected), f"{line}: hands of player {player}"
        np.testing.assert_array_equal(np.flatnonzero(~np.isnan(values.equity[player]) & own), defined)
        for hand, by_hand in expected.items():
            assert values.ev[player][hand] == pytest.approx(by_hand.ev, abs=1e-9), (line, player)
            assert values.equity[player][hand] == pytest.approx(by_hand.equity, abs=1e-12)
            if by_hand.action_ev:
                assert {name: evs[hand] for name, evs in values.action_ev.items()} == pytest.approx(
                    by_hand.action_ev, abs=1e-9
                )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "check",
        "bet 30",
        "bet 30, raise to 150",
        "bet 30, raise to 150, fold",
        "check, check",
        "check, bet 30",
        "check, bet 30, raise to 150",
    ],
)
def test_values_on_a_river_are_those_of_all_pairs_of_hands(river: SpotSolution, line: str):
    check(river, line)


@pytest.mark.parametrize(
    "line", ["", "bet 30, call", "check, check, 2s", "bet 30, call, Qd, check", "bet 30, fold"]
)
def test_values_on_a_turn_are_those_of_all_pairs_of_hands_and_rivers(turn: SpotSolution, line: str):
    check(turn, line)


@pytest.mark.parametrize("line", ["", "bet 30", "bet 30, raise to 150, fold", "check, check"])
def test_values_with_rake_are_those_of_all_pairs_of_hands(line: str):
    """The winner pays it, up to a cap, also of a pot that is not shown down."""
    raked = evaluate(dataclasses.replace(RIVER, rake=0.1, rake_cap=8))
    check(raked, line)
    assert sum(raked.values(line).mean_ev) < raked.values(line).pot - 1


def test_values_at_the_start_are_the_solutions(river: SpotSolution, turn: SpotSolution):
    for solution in (evaluate_spot(each.spot, each.policy) for each in (river, turn)):
        values = solution.values()
        assert values.mean_ev == pytest.approx(solution.ev, abs=1e-9)
        for player in (0, 1):
            own = solution.spot.range_weights[player] > 0
            expected = np.where(own, solution.hand_ev[player], np.nan)
            np.testing.assert_allclose(values.ev[player], expected, rtol=0, atol=1e-9)
            np.testing.assert_allclose(values.equity[player], solution.equity[player], rtol=0, atol=1e-12)


def test_means_sum_to_the_pot_and_actions_to_their_node(turn: SpotSolution):
    for line, values in turn.values_below("bet 30").items():
        assert sum(values.mean_ev) == pytest.approx(values.pot, abs=1e-9)
        assert sum(values.mean_equity) == pytest.approx(1, abs=1e-12)
        if values.action_ev:
            player, strategy = turn.actor(line), turn.strategy(line)
            mixed = sum(strategy[action] * evs for action, evs in values.action_ev.items())
            np.testing.assert_allclose(mixed, values.ev[player], rtol=0, atol=1e-9)
    folded = turn.values("bet 30, fold")
    assert folded.mean_ev == pytest.approx((90, 0), abs=1e-9)


def test_values_of_a_line_that_the_other_player_never_plays_are_not_defined(river: SpotSolution):
    values = river.values("check, bet 30")
    assert (
        np.isnan(values.ev[0]).all() and math.isnan(values.mean_ev[0]) and math.isnan(values.mean_equity[0])
    )
    assert np.isfinite(values.ev[1][RIVER.range_weights[1] > 0]).any() and math.isfinite(values.mean_ev[1])
    frame = river.to_frame("check, bet 30")
    assert len(frame) and frame["ev"].isna().all()


def test_trees_are_evaluated_part_by_part(turn: SpotSolution, monkeypatch: pytest.MonkeyPatch):
    whole = turn.values_below("check")
    monkeypatch.setattr(solution_module, "MAX_CELLS", 20 * len(TURN.hands))  # fewer than below a turn's line
    parts = dataclasses.replace(turn).values_below("check")
    assert whole.keys() == parts.keys() and "check, check" in whole
    for line, values in whole.items():
        for player in (0, 1):
            np.testing.assert_allclose(parts[line].ev[player], values.ev[player], rtol=0, atol=1e-9)


def test_a_frame_has_either_player_and_a_record_both(turn: SpotSolution):
    line = "bet 30"
    acting, other = turn.to_frame(line), turn.to_frame(line, player=0)
    actions = list(turn.strategy(line))
    assert list(acting) == ["hand", "weight", "ev", "equity", *actions, *(f"ev {name}" for name in actions)]
    assert list(other) == ["hand", "weight", "ev", "equity"]
    assert list(turn.to_frame("bet 30, call", player=1)) == list(other)
    with pytest.raises(ValueError, match="no player acts there"):
        turn.to_frame("bet 30, call")
    record = turn.to_record(line)
    assert (record["line"], record["actor"], record["pot"]) == (line, 1, 90)
    assert record["ev"] == list(turn.values(line).mean_ev)
    assert record["frequencies"] == turn.frequencies(line)
    assert record["reached"] == pytest.approx(turn.frequencies()[line])
    assert [row["hand"] for row in record["hands"][0]] == other["hand"].tolist()
    first = record["hands"][1][0]
    assert set(first) == {"hand", "weight", "ev", "equity", "strategy", "action_ev"}
    assert first["ev"] == pytest.approx(
        sum(first["strategy"][name] * first["action_ev"][name] for name in actions)
    )
    assert turn.to_record("bet 30, call")["actor"] is None
