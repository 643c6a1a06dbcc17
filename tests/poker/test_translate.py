"""Blueprints of other menus: as `translate` of histories has them, or refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.poker.betting import ALL_IN, BetMenu
from jaxgadget.poker.solve import evaluate_spot
from jaxgadget.poker.spots import Spot
from jaxgadget.poker.translate import translate_solution
from tests.poker.enumerated import SpotRules
from tests.poker.test_solve import random_play

COARSE = Spot(
    board="Td9d6hQc2s",
    oop="AsKd,QsQh",
    ip="AcKh,8d7d",
    pot=60,
    stack=400,
    menus=BetMenu(bets=(0.5, 1.5), raises=(1.0,), cap=2),
)


@pytest.mark.parametrize("rule", ["pseudo-harmonic", "nearest"])
@pytest.mark.parametrize(
    "menus",
    [
        BetMenu(bets=(0.25, 0.5, 1.0, ALL_IN), raises=(0.75, ALL_IN), cap=3),
        (BetMenu(bets=(1.0,), raises=()), BetMenu(bets=(0.7, 2.0), raises=(1.0,), cap=2)),
    ],
)
def test_another_menu_is_met_as_histories_meet_it(menus: Any, rule: str):
    """Weighted shadows, own bets that are not there, raises where the blueprint has none: all as listed."""
    fine = dataclasses.replace(COARSE, menus=menus)
    solution = evaluate_spot(COARSE, random_play(COARSE, 1))
    listed: dict[str, list[float]] = {}
    small, large = (jg.enumerate_game(jg.load(SpotRules(spot))) for spot in (COARSE, fine))
    for line in lines(COARSE):
        player = solution.actor(line)
        for hand in np.flatnonzero(COARSE.range_weights[player]).tolist():
            row = solution.strategy(line).items()
            ordered = sorted((COARSE.betting.names.index(action), float(p[hand])) for action, p in row)
            listed[f"{player} {hand} {line}"] = [p for _, p in ordered]
    expected = jg.translate(jg.Policy.from_dict(small, listed), large, rule).to_frame()
    found = evaluate_spot(fine, translate_solution(solution, fine, rule))
    rows = {line: found.strategy(line) for line in lines(fine)}
    assert len(expected) > 20
    for row in expected.itertuples(index=False):
        _, hand, line = (*str(row.infostate).split(" ", 2), "")[:3]
        assert rows[line][fine.betting.names[row.action]][int(hand)] == pytest.approx(
            row.probability, abs=1e-12
        )


def lines(spot: Spot) -> list[str]:
    """Of all nodes where a player acts."""
    tree = spot.betting
    return [tree.line(node) for node in range(len(tree.tree)) if len(tree.children(node))]


def test_the_same_menu_stays_as_it_is():
    solution = evaluate_spot(COARSE, random_play(COARSE, 2))
    policy = translate_solution(solution, dataclasses.replace(COARSE, ip="random"))
    for one, other in zip(policy.probabilities, solution.policy.probabilities, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"board": "Td9d6hQc3s"},
            "solution of a spot with board='Td9d6hQc2s': the spot has board='Td9d6hQc3s'",
        ),
        ({"pot": 61}, "solution of a spot with pot=60: the spot has pot=61"),
        ({"stack": 401}, "solution of a spot with stack=400"),
    ],
)
def test_other_spots_are_refused(changes: dict[str, Any], message: str):
    solution = evaluate_spot(COARSE, random_play(COARSE, 2))
    with pytest.raises(ValueError, match=message):
        translate_solution(solution, dataclasses.replace(COARSE, **changes))


def test_unknown_rules_are_refused():
    solution = evaluate_spot(COARSE, random_play(COARSE, 2))
    with pytest.raises(ValueError, match="rule='never'"):
        translate_solution(solution, COARSE, "never")
