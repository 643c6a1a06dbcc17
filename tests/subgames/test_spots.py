"""Spots re-solved: compared with enumerated games and their linear programs; safety."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.games import GadgetGames
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.solve import evaluate_spot
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import policy_to_rows
from jaxgadget.subgames.spots import SpotRefinement, refine_spots
from jaxgadget.util.locks import hold
from tests.holdem.enumerated import OnTheWay
from tests.holdem.test_solve import SMALL, random_play
from tests.solving import settings

SPOT = Spot(
    board="Td9d6hQc2s",
    oop="AsKd,QsQh:0.5,8c7c,Ts3s:0.2",
    ip="AcKh,8d7d,QdQh:0.3,6s5s",
    pot=60,
    stack=200,
    menus=SMALL,
)
QUICK = (jg.Resolving(epsilon=0.02),)
"""One gadget for all quick tests: each further entry is a program to compile."""

GADGETS = (
    jg.Unsafe(),
    jg.Resolving(epsilon=0.02),
    jg.Resolving(jg.UniformPrior(), 0.05),
    jg.Resolving(jg.NoPrior(), alternative=jg.BlueprintValues()),
    jg.MaxMargin(),
    jg.MaxMargin(jg.NoPrior()),
    jg.MaxMargin(jg.RangePrior(), 0.1),
)


@functools.cache
def blueprint(seed: int = 0) -> SpotSolution:
    return evaluate_spot(SPOT, random_play(SPOT, seed))


@functools.cache
def on_the_way() -> tuple[OnTheWay, jg.Policy]:
    rules = OnTheWay(SPOT)
    tree = jg.enumerate_game(jg.load(rules))
    return rules, jg.Policy.from_dict(tree, rules.blueprint(blueprint()))


def rows_of(refinement: SpotRefinement) -> dict[str, list[float]]:
    return OnTheWay(SPOT).blueprint(refinement.solution)


def check_refinement(gadgets: Sequence[jg.Gadget], player: int, iterations: int = 5) -> None:
    """After the given number of iterations: strategies, values, gaps and exploitabilities."""
    rules, policy = on_the_way()
    asked: dict[str, Any] = {"player": player, "iterations": iterations, "dtype": "float64"}
    expected = jg.refine(policy.tree, "depth:2", policy, gadgets, value=(0.0, 0.0), **settings(**asked))
    assert len(expected.gap) == 1
    (found,) = refine_spots(
        [SPOT], gadgets, blueprints=[blueprint()], hands_in_range=True, **settings(**asked)
    )
    chance = rules.chance_of_coming
    for lane, (gadget, refinement) in enumerate(zip(gadgets, found, strict=True)):
        ours = jg.Policy.from_dict(policy.tree, rows_of(refinement)).probabilities[player]
        theirs = expected.policy.probabilities[player][:, [lane]]
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
        entered, solved = (x[~np.isnan(x)] for x in (refinement.entered, expected.entered[:, lane]))
        np.testing.assert_allclose(np.sort(entered), np.sort(solved), rtol=0, atol=1e-10)
        # Margins are per hand, everything else is a share of all deals.
        share = 1.0 if isinstance(gadget, jg.MaxMargin) else chance
        assert share * refinement.gap == pytest.approx(float(expected.gap[0, lane]), rel=1e-9)
        value = float(expected.gadget_value[0, lane])
        assert share * refinement.gadget_value == pytest.approx(value, rel=1e-9)
        rise = float(expected.exploitability_bound[lane] - expected.blueprint_exploitability[lane])
        low, high = refinement.game_value
        own = refinement.exploitability_bound - refinement.blueprint_exploitability - (high - low) / 2
        assert share * own == pytest.approx(rise, rel=1e-9, nan_ok=True)
        risen = expected.refined_exploitability[lane] - expected.blueprint_exploitability[lane]
        assert risen <= chance * refinement.largest_rise + 1e-10


@pytest.mark.slow
def test_gadget_games_are_those_of_the_histories():
    check_refinement(QUICK, 1)


def test_given_values_are_taken_for_those_of_the_blueprint():
    """In chips, for all 1,326 hands or the remaining ones; hands without weight have no value."""
    asked: dict[str, Any] = {"gadgets": QUICK, "player": 1, "iterations": 5, "dtype": "float64"}
    ((one,),) = refine_spots([SPOT], blueprints=[blueprint()], **settings(**asked))
    every = np.full(1326, np.nan)
    every[SPOT.hands] = one.alternative
    for values in (every, one.alternative):
        ((other,),) = refine_spots([SPOT], alternatives=[values], **settings(**asked))
        assert other.gap == pytest.approx(one.gap, abs=1e-10)
        np.testing.assert_allclose(other.best_response, one.best_response, rtol=0, atol=1e-9)
    fewer = np.where(SPOT.range_weights[0] > 0, one.alternative, np.nan)
    ((limited,),) = refine_spots([SPOT], alternatives=[fewer], **settings(**asked))
    ((in_range,),) = refine_spots([SPOT], blueprints=[blueprint()], hands_in_range=True, **settings(**asked))
    assert limited.gap == pytest.approx(in_range.gap, abs=1e-10)
    assert np.isfinite(limited.best_response).sum() == 4


def test_alternative_values_may_be_below_best_responses():
    """Values under both blueprints: margins are relative to these, and bounds are unknown."""
    ((one,),) = refine_spots(
        [SPOT], [GADGETS[3]], blueprints=[blueprint()], solver=Solver(iterations=5, dtype="float64")
    )
    weights = one.solution.weights()[1]
    held = weights > 0
    assert weights[held] @ one.alternative[held] == pytest.approx(float(blueprint().ev[1]))
    assert one.margin == pytest.approx(np.nanmin(one.alternative - one.best_response))
    assert np.isnan(one.exploitability_bound)


def test_hands_that_need_not_be_carried_change_nothing(monkeypatch: pytest.MonkeyPatch):
    """Hands in range: a prior has a number for each hand, whether or not the solve carries it."""
    weights = np.random.default_rng(0).random(len(SPOT.hands))
    gadgets = (jg.MaxMargin(jg.ArrayPrior(weights), 0.1),)
    asked: dict[str, Any] = {"gadgets": gadgets, "player": 1, "iterations": 5, "dtype": "float64"}
    asked |= {"spots": [SPOT], "blueprints": [blueprint()], "hands_in_range": True}
    ((found,),) = refine_spots(**settings(**asked))
    module = importlib.import_module("jaxgadget.subgames.spots")
    monkeypatch.setattr(module, "limit_hands", lambda members, player: None)
    ((expected,),) = refine_spots(**settings(**asked))
    for name, value in expected.to_row().items():
        assert found.to_row()[name] == (pytest.approx(value, abs=1e-9) if isinstance(value, float) else value)
    for name in ("alternative", "best_response", "entered"):
        np.testing.assert_allclose(vars(found)[name], vars(expected)[name], rtol=0, atol=1e-9)
    held = SPOT.range_weights[1] > 0
    ours, theirs, kept = (
        policy_to_rows(policy)[1] for policy in (found.policy, expected.policy, blueprint().policy)
    )
    np.testing.assert_allclose(ours[:, held], theirs[:, held], rtol=0, atol=1e-9)
    others = ~held & (SPOT.range_weights[0] == 0)
    np.testing.assert_allclose(ours[:, others], kept[:, others], rtol=0, atol=1e-15)


def check_equal(found: SpotRefinement, expected: SpotRefinement) -> None:
    assert found.to_row() == expected.to_row()
    assert found.game_value == expected.game_value
    assert repr(found.policy) == repr(expected.policy)
    for name in ("alternative", "best_response", "entered"):
        np.testing.assert_array_equal(vars(found)[name], vars(expected)[name])
    for ours, theirs in zip(found.policy.probabilities, expected.policy.probabilities, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_s_spots_are_not_re_solved(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    """They are found among other spots; an interrupted batch resumes; one in use is refused."""
    spots = [SPOT, dataclasses.replace(SPOT, pot=61)]
    blueprints = [blueprint(), evaluate_spot(spots[1], random_play(spots[1], 1))]
    solving: dict[str, Any] = {"iterations": 12, "dtype": "float64"}
    undisturbed = [
        refine_spots([spot], QUICK, blueprints=[given], **settings(**solving))[0][0]
        for spot, given in zip(spots, blueprints, strict=True)
    ]
    solving["checkpoint"] = tmp_path
    ((first,),) = refine_spots([spots[0]], QUICK, blueprints=[blueprints[0]], **settings(**solving))
    check_equal(first, undisturbed[0])
    driver: Any = importlib.import_module("jaxgadget.core.driver")
    save, load, stopped, begun = driver.save_checkpoint, driver.load_checkpoint, list[int](), list[int]()

    def cut_off(path: pathlib.Path, key: str, state: Any, **more: Any) -> None:
        save(path, key, state, **more)
        if not stopped:
            stopped.append(int(state.iteration))
            raise KeyboardInterrupt

    def observe(*arguments: Any) -> Any:
        if (state := load(*arguments)) is not None:
            begun.append(int(state.iteration))
        return state

    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(driver, "save_checkpoint", cut_off)
    together: dict[str, Any] = {"gadgets": QUICK, "blueprints": blueprints[::-1], **settings(**solving)}
    with pytest.raises(KeyboardInterrupt):
        refine_spots(spots[::-1], **together)
    (states,) = tmp_path.glob("refined-*.states")
    monkeypatch.setattr(driver, "load_checkpoint", observe)
    with (
        hold(states.with_suffix(""), "checkpoint"),
        pytest.raises(ValueError, match=rf"in use by process {os.getpid()} on .*; wait until it ends"),
    ):
        refine_spots(spots[::-1], **together)
    told: list[int] = []
    found = refine_spots(spots[::-1], on_refined=told.extend, **together)
    assert begun == stopped and 0 < begun[0] < 12
    assert told == [1, 0]
    for (ours,), theirs in zip(found, undisturbed[::-1], strict=True):
        check_equal(ours, theirs)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".npz", ".npz"]
    refine_spots(spots[:1], QUICK, blueprints=[blueprint(1)], **settings(**solving))
    assert len(list(tmp_path.glob("refined-*.npz"))) == 3, "another blueprint has another result"


def test_a_failed_solve_keeps_the_blueprint(monkeypatch: pytest.MonkeyPatch):
    """Its numbers are NaN, with the reason; those of the blueprint are reported."""
    solver = Solver(iterations=5, dtype="float64")
    ((fine,),) = refine_spots([SPOT], QUICK, blueprints=[blueprint()], solver=solver)
    monkeypatch.setattr(
        GadgetGames, "underflows", lambda games, dtype: {0: 0} if games.gadgets == QUICK else {}
    )
    found = refine_spots([SPOT], QUICK, blueprints=[blueprint()], solver=solver)
    ((refinement,),) = found
    assert list(found.failures) == [0] and "underflowed in float64" in found.failures[0]
    assert found.failures[0] == refinement.failure and found.failures[0] in found.message
    assert np.isnan([refinement.gap, refinement.refined_exploitability, refinement.margin]).all()
    assert np.isnan(found.table["exploitability_bound"]).all()
    assert refinement.blueprint_exploitability == fine.blueprint_exploitability
    for ours, theirs in zip(refinement.policy.probabilities, blueprint().policy.probabilities, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gadgets": ()}, "gadgets="),
        ({"gadgets": jg.Full()}, "full requires a copy of the opponent's decisions"),
        ({"gadgets": jg.Resolving(epsilon="auto")}, "epsilon="),
        ({"blueprints": []}, "blueprints"),
        ({"blueprints": None}, "spots[0] has neither a blueprint nor alternative values"),
        ({"blueprints": ["cfr"]}, "blueprints"),
        (
            {"alternatives": [np.where(np.arange(1081) == SPOT.hand_names.index("8d7d"), np.nan, 0)]},
            "alternatives",
        ),
        ({"target_gap": "x"}, "target_gap="),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], message: str):
    asked = {"spots": [SPOT], "gadgets": jg.Resolving(), "blueprints": [blueprint()]} | changes
    with pytest.raises(ValueError, match=re.escape(message)):
        refine_spots(**settings(**asked))
