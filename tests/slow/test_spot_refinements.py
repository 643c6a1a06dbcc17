"""Spots re-solved, long comparisons: linear programs, other players, many spots."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.solve import evaluate_spot, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import policy_to_rows
from jaxgadget.holdem.translate import translate_solution
from jaxgadget.subgames.spots import refine_spots
from tests.holdem.test_solve import BLUFFS, random_play
from tests.solving import settings
from tests.subgames.test_spots import GADGETS, SPOT, blueprint, check_refinement, on_the_way

pytestmark = pytest.mark.optimised


def test_gadget_games_are_those_of_the_histories():
    player = 1
    for iterations in range(1, 6):
        check_refinement(GADGETS, player, iterations)


def test_values_are_those_of_linear_programs():
    player = 0
    rules, policy = on_the_way()
    gadgets = (jg.Unsafe(), jg.Resolving(), jg.MaxMargin(jg.NoPrior()))
    exact = jg.refine(
        policy.tree, "depth:2", policy, gadgets, player=player, algorithm="lp", value=(0.0, 0.0)
    )
    (found,) = refine_spots(
        [SPOT], gadgets, blueprints=[blueprint()], hands_in_range=True, player=player, iterations=400
    )
    for lane, refinement in enumerate(found):
        share = 1.0 if lane == 2 else rules.chance_of_coming
        below = share * refinement.gadget_value
        assert below - 1e-9 <= exact.gadget_value[0, lane] <= below + share * refinement.gap + 1e-9
        assert share * refinement.gap < 0.5


def test_spots_side_by_side_are_those_alone():
    spots = [
        SPOT,
        dataclasses.replace(SPOT, board="2c3d7h7sKs", oop="AA,T9s:0.5", pot=61, ip="QQ,JTs"),
        BLUFFS,
    ]
    blueprints = [evaluate_spot(spot, random_play(spot, 3)) for spot in spots]
    asked: dict[str, Any] = {"gadgets": (jg.Resolving(), jg.MaxMargin()), "iterations": 5, "dtype": "float64"}
    seen: list[int] = []
    together = refine_spots(spots, blueprints=blueprints, on_refined=seen.extend, **settings(**asked))
    assert sorted(seen) == [0, 1, 2]
    for spot, given, several in zip(spots, blueprints, together, strict=True):
        (alone,) = refine_spots([spot], blueprints=[given], **settings(**asked))
        for one, other in zip(several, alone, strict=True):
            assert one.spot is spot
            assert one.gap == pytest.approx(other.gap, abs=1e-9)
            assert one.game_value == pytest.approx(other.game_value, abs=1e-9)
            np.testing.assert_allclose(one.best_response, other.best_response, rtol=0, atol=1e-9)


def test_a_turn_s_hands_that_need_not_be_carried_change_nothing(monkeypatch: pytest.MonkeyPatch):
    """Two pairs of ranges on one board, whose batch carries the hands of both."""
    menus = BetMenu(bets=(1.0,), raises=(), cap=1)
    turn = Spot(board="Td9d6hQc", oop="AsKd,QsQh:0.5,8c7c", ip="AcKh,8d7d", pot=60, stack=200, menus=menus)
    spots = [turn, dataclasses.replace(turn, oop="JsJd,KsQs", ip="AhAd:0.3,JcTc")]
    blueprints = [evaluate_spot(spot, random_play(spot, 3)) for spot in spots]
    asked: dict[str, Any] = {"gadgets": (jg.Resolving(), jg.MaxMargin()), "iterations": 5, "dtype": "float64"}
    asked |= {"spots": spots, "blueprints": blueprints, "hands_in_range": True, "player": 1}
    found = refine_spots(**settings(**asked))
    monkeypatch.setattr("jaxgadget.subgames.spots.limit_hands", lambda members, player: None)
    expected = refine_spots(**settings(**asked))
    for one, other in zip(found.refinements, expected.refinements, strict=True):
        assert one.gap == pytest.approx(other.gap, abs=1e-9)
        assert one.refined_exploitability == pytest.approx(other.refined_exploitability, abs=1e-9)
        np.testing.assert_allclose(one.best_response, other.best_response, rtol=0, atol=1e-9)
        held = one.spot.range_weights[1] > 0
        rows = (policy_to_rows(each.policy)[1][:, held] for each in (one, other))
        np.testing.assert_allclose(*rows, rtol=0, atol=1e-9)


def test_a_blueprint_of_another_menu_is_improved_safely():
    """V̄ is that of the blueprint, over all hands: exploitability rises by at most the gap."""
    coarse = dataclasses.replace(SPOT, menus=BetMenu(bets=(1.0,), raises=()))
    (solution,) = solve_spots([coarse], iterations=50)
    gadgets = (jg.Resolving(), jg.MaxMargin(), jg.Unsafe())
    for player in (1,):
        (found,) = refine_spots([SPOT], gadgets, blueprints=[solution], player=player, iterations=200)
        for refinement in found[:2]:
            assert refinement.largest_rise <= refinement.gap + 1e-9
            assert refinement.refined_exploitability <= refinement.exploitability_bound + 1e-9
            assert refinement.refined_exploitability < refinement.blueprint_exploitability
            assert np.isfinite(refinement.best_response).sum() > 1000
        assert found[1].margin >= -found[1].gap - 1e-9
        assert np.isnan(found[2].exploitability_bound)
        assert found[2].refined_exploitability <= found[2].gap + 1e-9
        low, high = found[0].game_value
        exact = jg.solve(jg.public_tree(SPOT.by_hands(in_range=True)), algorithm="lp").value
        assert low - 1e-9 <= exact <= high + 1e-9
        # Best-response values agree with an independent evaluation of the assembled policy.
        own = jg.best_response(found[0].policy, 1 - player)
        weights = found[0].solution.weights()[1 - player]
        held = weights > 0
        assert weights[held] @ found[0].best_response[held] == pytest.approx(float(own.value[0]) + 30)


def test_turns_are_re_solved():
    """Including all following rivers, and with another menu than the blueprint's."""
    half, pot = (BetMenu(bets=(size,), raises=(), cap=1) for size in (0.5, 1.0))
    spot = Spot(
        board="Td9d6hQc",
        oop="AsKd,QsQh:0.5,8c7c",
        ip="AcKh,8d7d,QdQh:0.4",
        pot=60,
        stack=200,
        menus=half,
        river_menus=pot,
    )
    (blueprint,) = solve_spots([dataclasses.replace(spot, river_menus=None)], iterations=20)
    same = translate_solution(blueprint, blueprint.spot)
    for one, other in zip(same.probabilities, blueprint.policy.probabilities, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    gadgets = (jg.Unsafe(), jg.Resolving(), jg.MaxMargin())
    ((unsafe, *safe),) = refine_spots([spot], gadgets, blueprints=[blueprint], iterations=100)
    for refinement in safe:
        assert refinement.largest_rise <= refinement.gap + 1e-9
        assert refinement.refined_exploitability <= refinement.exploitability_bound + 1e-9
    for refinement in (unsafe, *safe):
        response = jg.best_response(refinement.policy, 1)
        weights = refinement.solution.weights()[1]
        held = weights > 0
        got = weights[held] @ refinement.best_response[held]
        assert got == pytest.approx(30 + float(response.value[0]))
    (solved,) = solve_spots([spot], iterations=100)
    low, high = (30 + value for value in unsafe.game_value)
    assert solved.ev[0] - solved.gap <= high + 1e-6 and low - 1e-6 <= solved.ev[0] + solved.gap
