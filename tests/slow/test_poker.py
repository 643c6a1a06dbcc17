"""Hold'em, long comparisons: published figures, many spots, turns."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from phevaluator import evaluate_cards

import jaxgadget as jg
from jaxgadget.core.solver import Solver
from jaxgadget.holdem.cards import card_name, strength
from jaxgadget.holdem.operators import build_showdowns
from jaxgadget.holdem.solve import evaluate_spot, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import public_tree
from tests.holdem.enumerated import Streets
from tests.holdem.test_cards import draw_cards, order_of
from tests.holdem.test_operators import brute_force, check_some_hands
from tests.holdem.test_ranges import FIRST, SECOND
from tests.holdem.test_solve import (
    BLUFFS,
    NARROW,
    SMALL,
    check_against_enumeration,
    hands_of_batches,
)
from tests.solving import settings

pytestmark = pytest.mark.optimised

RIVER: dict[str, Any] = {"board": "Td9d6hQc2s", "pot": 200, "stack": 900}


def random_board(seed: int, cards: int = 5) -> str:
    return "".join(map(card_name, np.random.default_rng(seed).permutation(52)[:cards].tolist()))


def test_strengths_of_100_000_hands_are_those_of_another_evaluator():
    cards = draw_cards(100_000, 2)
    theirs = -np.array([evaluate_cards(*row) for row in cards.tolist()])
    assert np.array_equal(order_of(strength(cards)), order_of(theirs))


def test_tables_of_random_boards_are_those_of_all_pairs():
    for seed in range(20):
        board = random_board(seed)
        apart, wins = brute_force(board)
        showdowns = build_showdowns([Spot(board=board, oop="random", ip="random", pot=1, stack=1).cards])
        assert np.array_equal(showdowns.dense()[0], wins)
        assert np.array_equal(showdowns.absolute().dense()[0], apart)


@pytest.mark.parametrize(
    ("ranges", "ev", "exploitability"),
    [((FIRST, SECOND), 91.10738, 0.0149), (("random", "random"), 93.8103, 0.0278)],
)
def test_a_river_has_the_value_of_another_solver(ranges: tuple[str, str], ev: float, exploitability: float):
    """An established solver, 1,000 iterations of DCFR; the values agree within both exploitabilities."""
    (solution,) = solve_spots([Spot(oop=ranges[0], ip=ranges[1], **RIVER)], iterations=1000)
    assert solution.exploitability < 0.05
    assert abs(solution.ev[0] - ev) <= 2 * (solution.exploitability + exploitability)


def test_the_root_of_a_river_is_played_as_another_solver_plays_it():
    (solution,) = solve_spots([Spot(oop="random", ip="random", **RIVER)], iterations=1000)
    frequencies = solution.frequencies()
    assert frequencies["check"] == pytest.approx(0.736, abs=0.01)
    assert frequencies["bet 100"] == pytest.approx(0.260, abs=0.01)
    assert frequencies["bet 200"] == pytest.approx(0.0043, abs=0.003)


def test_evs_of_a_turn_are_those_of_all_pairs_and_rivers():
    spot = Spot(
        board="Td9d6hQc", oop="AsKd,QsQh:0.5,8c7c", ip="AcKh,8d7d,QdQh", pot=60, stack=200, menus=SMALL
    )
    solution = check_against_enumeration(spot, 1)
    assert sum(solution.ev) == pytest.approx(60)
    reached = solution.weights("check, check, 2c")
    assert reached[0].sum() == pytest.approx(1)
    assert solution.equity[0] @ solution.weights()[0] + solution.equity[1] @ solution.weights()[
        1
    ] == pytest.approx(1)


def test_a_river_is_the_enumerated_game():
    """Values, best responses and the equilibrium of 14 × 14 hands, with independent rules and betting."""
    spot = Spot(
        board="Td9d6hQc2s",
        oop="QQ,AKs,T9s,54s:0.4",
        ip="KK,QJs,87s:0.7,Ad3d",
        pot=100,
        stack=180,
        menus=SMALL,
    )
    assert [int((weights > 0).sum()) for weights in spot.range_weights] == [14, 14]
    tree = jg.enumerate_game(jg.load(Streets(spot)))
    listed = jg.evaluate_policy(jg.Policy.uniform(tree))
    uniform = evaluate_spot(spot, Policy.uniform(public_tree(spot)))
    assert uniform.ev[0] - 50 == pytest.approx(float(listed.value[0]), abs=1e-9)
    assert uniform.gap == pytest.approx(float(listed.nash_conv[0]), abs=1e-9)
    exact = jg.solve(tree, algorithm="lp")
    (solution,) = solve_spots([spot], solver=Solver(iterations=5000, target_gap="0.2%"))
    assert abs(solution.ev[0] - 50 - exact.value) <= solution.gap + 1e-6


def test_suits_may_be_renamed():
    given: dict[str, Any] = {"oop": "QQ+,AK,T9s", "ip": "88-55,AQ", "pot": 60, "stack": 100, "menus": SMALL}
    board = "Td9d6hQc2s"
    first, second = solve_spots(
        [Spot(board=text, **given) for text in (board, board.translate(str.maketrans("cdhs", "dhsc")))],
        solver=Solver(iterations=20, dtype="float64"),
    )
    assert first.ev == pytest.approx(second.ev, abs=1e-9)
    assert first.gap == pytest.approx(second.gap, abs=1e-9)
    renamed = dict(zip(second.spot.hand_names, second.strategy()["check"], strict=True))
    checks = dict(zip(first.spot.hand_names, first.strategy()["check"], strict=True))
    assert checks["AsKd"] == pytest.approx(renamed["AcKh"], abs=1e-9)


def test_a_board_that_plays_is_split():
    spot = Spot(board="AsKsQsJsTs", oop="random", ip="22+", pot=80, stack=40, menus=SMALL)
    (solution,) = solve_spots([spot], iterations=100)
    assert solution.ev == pytest.approx((40, 40), abs=solution.gap + 1e-4)
    assert np.nanmin(solution.equity[1]) == np.nanmax(solution.equity[1]) == 0.5


def test_spots_of_other_shapes_keep_their_places():
    spots = [
        Spot(board="Td9d6hQc2s", oop="QQ+,AK,T9s", ip="88-55,AQ", pot=100, stack=100, menus=SMALL),
        Spot(board="Td9d6hQc2s", oop="AsKd", ip="QQ", pot=10, stack=100, menus=SMALL),
        BLUFFS,
        Spot(board="2c2d7h7sKs", oop="A2s+", ip="random", pot=100, stack=100, menus=SMALL),
    ]
    together = solve_spots(spots, solver=Solver(iterations=20, dtype="float64"))
    for spot, solution in zip(spots, together, strict=True):
        (alone,) = solve_spots([spot], solver=Solver(iterations=20, dtype="float64"))
        assert solution.spot is spot
        assert solution.ev == pytest.approx(alone.ev, abs=1e-9)
        assert solution.gap == pytest.approx(alone.gap, abs=1e-9)


def test_30_random_rivers_are_solved_to_a_third_of_a_percent_of_the_pot():
    spots = [Spot(oop="random", ip="random", **RIVER | {"board": random_board(seed)}) for seed in range(30)]
    for solution in solve_spots(spots, solver=Solver(iterations=2000, target_gap="0.6%")):
        assert 0 <= solution.exploitability <= 0.003 * solution.spot.pot
        assert sum(solution.ev) == pytest.approx(solution.spot.pot)


def test_spots_of_one_board_carry_the_hands_of_all(monkeypatch: pytest.MonkeyPatch):
    """They share the board's tables; values of spots do not change."""
    numbers = hands_of_batches(monkeypatch)
    other = dataclasses.replace(NARROW[0], oop="AA,T9s", ip="AK")
    solving: dict[str, Any] = {"iterations": 5, "dtype": "float64"}
    together = solve_spots([NARROW[0], other], **settings(**solving))
    alone = [solve_spots([spot], **settings(**solving))[0] for spot in (NARROW[0], other)]
    both, first, second = numbers
    assert second < first <= both < 600
    for one, single in zip(together, alone, strict=True):
        assert one.ev == pytest.approx(single.ev, rel=0, abs=1e-10)
        assert np.array_equal(np.isnan(one.hand_ev[0]), np.isnan(single.hand_ev[0]))


def test_turns_carry_the_hands_of_ranges_alone():
    check_some_hands(("Td9d6hQc", "2c2d7h7s"))


def test_a_file_of_spots_resumes_after_a_kill(tmp_path: pathlib.Path):
    """A process ended by `kill -9` after its first batch; then all rows exist, the first ones unchanged."""
    spots, results = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl"
    rows = [{"board": random_board(seed), "pot": 20, "stack": 10 + seed % 2} for seed in range(70)]
    spots.write_text("".join(json.dumps(row | {"oop": "TT+,AK", "ip": "QQ,JJ"}) + "\n" for row in rows))
    command = [sys.executable, "-m", "jaxgadget", "holdem", "--spots", spots, "--iterations", "3000"]
    command += ["--bets", "a", "--raises", "", "--results", results, "--checkpoint", tmp_path / "kept"]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL)
    while not results.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = results.read_text().splitlines()
    assert 0 < len(before) < 70
    again = subprocess.run(list(map(str, [*command, "--json", "-"])), capture_output=True, check=True)
    after = results.read_text().splitlines()
    assert after[: len(before)] == before and len(after) == 70
    boards = [row["board"] for row in json.loads(again.stdout)["rows"]]
    assert boards == [row["board"] for row in rows]
