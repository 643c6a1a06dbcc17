"""Files of solved spots, and solves that continue from them."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.explorer.files import read_strategies
from jaxgadget.explorer.sources import find_sources
from jaxgadget.games.sizes import Chips, Geometric, Multiple
from jaxgadget.holdem import saved
from jaxgadget.holdem.solution import SpotSolution, SpotSolutions
from jaxgadget.holdem.solve import evaluate_spot, resume_spots, solve_spots
from jaxgadget.holdem.spots import Spot
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.public import public_tree
from tests.holdem.test_solve import BLUFFS

ODD = Spot(
    board="2s3h4d6c7c",
    oop="AsAh,QsQh:0.1234567890123",
    ip=jg.HandRange.parse("KsKh,JsJh:0.3,random:1e-3"),
    pot=20.1,
    stack=100 / 3,
    menus=(
        jg.BetMenu(bets=(1 / 3, math.inf), raises=(Multiple(2.5), Chips(12.0))),
        jg.BetMenu(bets=(Geometric(),), cap=2, add_all_in=1.5),
    ),
    min_bet=2,
    remove=("check, check",),
    label="odd",
)


@pytest.fixture(scope="module")
def solved() -> SpotSolution:
    (solution,) = solve_spots([BLUFFS], iterations=30, keep_state=True)
    return solution


def same_numbers(first: SpotSolution, second: SpotSolution) -> None:
    for field in ("ev", "gap", "algorithm", "iterations"):
        assert getattr(first, field) == getattr(second, field), field
    for player in (0, 1):
        np.testing.assert_array_equal(first.probabilities[player], second.probabilities[player])
        np.testing.assert_array_equal(first.hand_ev[player], second.hand_ev[player])


def test_a_spot_with_every_kind_of_field_returns_from_its_file(tmp_path: pathlib.Path):
    solution = evaluate_spot(ODD, Policy.uniform(public_tree(ODD)))
    solution.save(tmp_path / "odd.npz")
    loaded = SpotSolution.load(tmp_path / "odd.npz")
    assert loaded.spot == ODD and loaded.spot.label == "odd" and loaded.state is None
    for weights, expected in zip(loaded.spot.range_weights, ODD.range_weights, strict=True):
        np.testing.assert_array_equal(weights, expected)
    same_numbers(loaded, solution)
    with pytest.raises(ValueError, match="has no state to continue from"):
        resume_spots(loaded)


def test_several_solutions_are_one_file(tmp_path: pathlib.Path):
    spots = [BLUFFS, dataclasses.replace(BLUFFS, pot=40, label="twice the pot")]
    solutions = solve_spots(spots, iterations=3)
    solutions.save(tmp_path / "both.npz")
    loaded = SpotSolutions.load(tmp_path / "both.npz")
    assert [solution.spot for solution in loaded] == spots
    for one, other in zip(loaded, solutions, strict=True):
        same_numbers(one, other)
    assert loaded.table["label"].tolist() == ["", "twice the pot"]
    with pytest.raises(ValueError, match="has 2 solutions; expected one"):
        SpotSolution.load(tmp_path / "both.npz")
    with pytest.raises(ValueError, match=r"ends in \.npz, \.csv or \.parquet"):
        solutions.save(tmp_path / "both.txt")
    sources = find_sources(read_strategies([tmp_path / "both.npz"]))
    assert [source.spot for source in sources] == spots


def test_a_resumed_solve_equals_a_single_one(solved: SpotSolution, tmp_path: pathlib.Path):
    solved.save(tmp_path / "begun.npz")
    begun = SpotSolution.load(tmp_path / "begun.npz")
    (straight,) = solve_spots([BLUFFS], iterations=70)
    (resumed,) = resume_spots(begun, iterations=70)
    same_numbers(resumed, straight)
    (again,) = resume_spots(resumed, iterations=70)  # nothing is left to do
    same_numbers(again, straight)
    target = jg.Solver(target_gap="0.2%", iterations=5000)
    (closer,), (alone,) = resume_spots(begun, solver=target), solve_spots([BLUFFS], solver=target)
    same_numbers(closer, alone)
    assert begun.gap > 0.002 * BLUFFS.pot >= closer.gap


def test_states_of_merged_hands_continue_too():
    spot = dataclasses.replace(
        BLUFFS, board="2s3s4s6s7s", oop="AhAd,AhAc,AdAc,QhQd,QhQc,QdQc", ip="KhKd,KhKc,KdKc"
    )
    (begun,) = solve_spots([spot], iterations=10, keep_state=True, suit_isomorphism=True)
    assert begun.state is not None and begun.state.suit_isomorphism
    (straight,) = solve_spots([spot], iterations=25, suit_isomorphism=True)
    (resumed,) = resume_spots(begun, iterations=25)
    same_numbers(resumed, straight)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"iterations": 10}, "iterations=10: the solution has 30 already"),
        ({"solver": jg.Solver(algorithm="cfr")}, "algorithm='cfr': the solution was solved with 'dcfr'"),
        ({"solver": jg.Solver(dtype="float64")}, "dtype='float64': the solution was solved with 'float32'"),
    ],
)
def test_other_settings_are_refused(solved: SpotSolution, settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        resume_spots(solved, **settings)


def test_a_state_of_another_layout_is_refused(solved: SpotSolution):
    assert solved.state is not None
    other = dataclasses.replace(solved, state=dataclasses.replace(solved.state, key="another"))
    with pytest.raises(ValueError, match="lays spots out in another way"):
        resume_spots(other, iterations=40)


def test_a_checkpoint_stores_states(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    solver = jg.Solver(iterations=10, checkpoint=tmp_path)
    (without,) = solve_spots([BLUFFS], solver=solver)
    (first,) = solve_spots([BLUFFS], solver=solver, keep_state=True)
    monkeypatch.delattr("jaxgadget.core.driver.run")
    (second,) = solve_spots([BLUFFS], solver=solver, keep_state=True)
    same_numbers(first, second)
    same_numbers(first, without)
    assert first.state is not None and second.state is not None and first.state.key == second.state.key
    for one, other in zip(first.state.arrays, second.state.arrays, strict=True):
        np.testing.assert_array_equal(one, other)


def test_resumed_solves_are_found_in_a_checkpoint(
    solved: SpotSolution, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    solver = jg.Solver(iterations=45, checkpoint=tmp_path)
    (resumed,) = resume_spots(solved, solver=solver)
    (straight,) = solve_spots([BLUFFS], iterations=45)
    same_numbers(resumed, straight)
    monkeypatch.delattr("jaxgadget.core.driver.run")
    (again,) = resume_spots(solved, solver=solver)
    same_numbers(again, straight)


def test_a_betting_tree_that_differs_is_refused(solved: SpotSolution, tmp_path: pathlib.Path):
    """As after a release that builds trees in another way."""
    record, arrays = solved._pack()  # pyright: ignore[reportPrivateUsage]
    record["spot"]["fields"]["stack"] = 11
    saved.write_solutions(tmp_path / "changed.npz", [(record, arrays)])
    with pytest.raises(
        ValueError, match=r"changed\.npz' is damaged: this release builds another betting tree"
    ):
        SpotSolution.load(tmp_path / "changed.npz")


def test_other_files_are_refused(tmp_path: pathlib.Path):
    with pytest.raises(ValueError, match="does not exist; expected a file written by --save"):
        SpotSolution.load(tmp_path / "nothing.npz")
    Policy.uniform(public_tree(BLUFFS)).save(tmp_path / "policy.npz")
    with pytest.raises(ValueError, match='expected "jaxgadget hold\'em solutions" version 1'):
        SpotSolution.load(tmp_path / "policy.npz")


def test_solutions_of_one_spot_are_compared(solved: SpotSolution, tmp_path: pathlib.Path):
    evaluated = evaluate_spot(BLUFFS, Policy.uniform(public_tree(BLUFFS)))
    solved.save(tmp_path / "solved.npz")
    evaluated.save(tmp_path / "uniform.npz")
    strategies = read_strategies([tmp_path / "solved.npz", tmp_path / "uniform.npz"])
    (source,) = find_sources(strategies)
    assert source.policy.labels == ("dcfr:30", "uniform:0") and source.base == (-1, 0)
    with pytest.raises(ValueError, match=r"compare='cfr:10': .*solved\.npz' has spots of hold'em"):
        read_strategies([tmp_path / "solved.npz"], ["cfr:10"])
