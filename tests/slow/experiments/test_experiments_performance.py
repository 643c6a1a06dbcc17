"""The measurements of speed run and report correct arithmetic; no test depends on the speed itself."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from experiments.performance.__main__ import STUDY
from experiments.performance.commits import compare, summarise
from experiments.performance.gadgets import FEW, time_iterations
from experiments.performance.grid import blueprints
from experiments.performance.profile import PARTS
from experiments.performance.searches import measure
from experiments.study import Settings
from jaxgadget import enumerate_game, evaluate_policy, load
from tests.slow.experiments.frame import every_experiment_is_whole

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_an_iteration_is_its_parts(settings: Settings) -> None:
    table = settings.data_of("profile", "this test").set_index("part")
    assert list(table.index) == [*PARTS, "iteration"]
    parts = table.loc[list(PARTS)].sum(numeric_only=True)
    assert 0.5 < parts["flops"] / table.loc["iteration", "flops"] < 2
    assert (table["bytes"] >= 0.5 * table["bytes_once"]).all()


def test_every_move_of_a_search_is_measured() -> None:
    table = measure("kuhn_poker", entries=2, gib=1e-6, iterations=2)  # too little memory for any search
    assert set(table["seat"]) == {0, 1} and (table["moves"] >= 2).all() and (table["peak_gib"] > 0).all()
    assert not table["searched"].any()
    table = measure("kuhn_poker", entries=2, gib=1.0, iterations=2)
    assert table["searched"].any() and (table["consistent"].dropna() == 6).all()


def test_the_grids_blueprints_are_many_and_different() -> None:
    tree = enumerate_game(load("kuhn_poker"))
    policy = blueprints(tree, 25, 20)
    assert policy.num_lanes == 45 == len(set(policy.labels))
    values = evaluate_policy(policy).nash_conv
    assert len(np.unique(values)) == 45 and values.min() < 0.1 < 1 < values.max()
    again = blueprints(tree, 25, 20)
    for first, second in zip(policy.probabilities, again.probabilities, strict=True):
        np.testing.assert_array_equal(first, second)


def test_the_overhead_of_a_solve_is_subtracted() -> None:
    """On a clock with 5 s per solve and 1 ms per iteration, the time per iteration excludes the 5 s."""
    asked: list[int] = []

    def solve(iterations: int) -> float:
        asked.append(iterations)
        return 5.0 + 1e-3 * iterations

    spent, iterations = time_iterations(solve, seconds=2.0, repeats=3)
    assert spent / iterations == pytest.approx(1e-3)
    assert 1.9 < spent < 2.1
    assert asked[-6:] == [FEW, FEW + iterations] * 3


def test_commits_take_turns(tmp_path: pathlib.Path) -> None:
    """Alternate turns are reversed; the table has medians and the ratio other ÷ this."""
    asked: list[str] = []
    seconds = {"old": iter((3.0, 9.0, 2.0)), "new": iter((1.5, 1.0, 2.0))}

    def measure(checkout: pathlib.Path) -> dict[str, float]:
        asked.append(checkout.name)
        return {"wall time [s]": next(seconds[checkout.name])}

    frame = compare(measure, {"other": tmp_path / "old", "this": tmp_path / "new"}, turns=3)
    assert asked == ["old", "new", "new", "old", "old", "new"]
    assert summarise(frame).to_dict("records") == [
        {
            "measured": "wall time [s]",
            "other": "3 [2, 9]",
            "this": "1.5 [1, 2]",
            "other ÷ this": 2.0,
            "ratios": "1 to 9",
        }
    ]
