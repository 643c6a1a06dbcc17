import io
import json
import math
import types

import numpy as np
import pandas as pd
import pytest
from rich.console import Console, RenderableType

from jaxgadget import enumerate_game, load, solve
from jaxgadget.report.tables import (
    by_blueprint,
    constant_note,
    refinement_table,
    solution_record,
    solution_table,
    summary,
    summary_table,
    to_json,
)
from tests.report.test_plots import ALL, results


def printed(table: RenderableType, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def full(before: list[float]) -> pd.DataFrame:
    table = results(before)
    return table.assign(
        exploitability_bound=table["blueprint_exploitability"].where(table["gadget"] != "unsafe"),
        gadget_value_sum=-1.0,
        gap_max=[1.23e-5 * (i + 1) for i in range(len(table))],
    )


class Refined(types.SimpleNamespace):
    """As much of a Refinement as a table looks at: lanes go by setting, then blueprint."""

    def __init__(self, before: list[float]):
        tree = types.SimpleNamespace(
            game=types.SimpleNamespace(name="leduc"), payoff_range=26.0, constant=1.0
        )
        super().__init__(
            table=full(before),
            knowledge=None,
            blueprint=types.SimpleNamespace(num_lanes=len(before)),
            forest=types.SimpleNamespace(tree=tree, cut=types.SimpleNamespace(name="flop")),
            num_subgames=30,
            player=1,
            algorithm="cfr+",
            iterations=np.full(7 * len(before), 100),
            game_value=(-0.5, -0.25),
            seconds={"build": 1.0, "compile": 2.0, "run": 3.0},
            message="largest gap 0.1",
        )


def test_json_is_strict():
    record = {"a": math.nan, "b": [np.float64(-math.inf), -0.0], "c": np.int64(3), "d": {"e": (True, "é")}}
    text = to_json(record)
    assert json.loads(text) == {"a": None, "b": [None, 0.0], "c": 3, "d": {"e": [True, "é"]}}
    assert "-0.0" not in text
    assert text.isascii(), "it can be written to any terminal"
    assert text.endswith("}\n")


def test_rows_go_by_blueprint():
    table = by_blueprint(Refined([0.3, 0.2]))
    assert list(table["blueprint"]) == ["cfr:0"] * 7 + ["cfr:1"] * 7
    assert list(zip(table["gadget"], table["prior"], strict=True)) == ALL * 2


def test_summary_adds_up():
    table = full([0.1, 0.2, 0.9])
    worse = (table["gadget"] == "unsafe") & (table["blueprint"] == "cfr:0")
    table.loc[worse, "refined_exploitability"] = 0.5
    summarised = summary(table).set_index(["gadget", "prior"])
    assert list(summarised.index) == ALL
    unsafe, uniform = summarised.loc["unsafe", "none"], summarised.loc["resolving", "uniform"]
    assert (unsafe["blueprints"], unsafe["improved"], unsafe["worse"]) == (3, 0, 1)
    assert math.isnan(unsafe["bound_mean"]), "unsafe has no bound"
    assert (uniform["improved"], uniform["worse"]) == (3, 0)
    assert uniform["blueprint_mean"] == pytest.approx(0.4)
    assert uniform["blueprint_median"] == pytest.approx(0.2)
    assert uniform["refined_mean"] == pytest.approx(0.4 / 3)
    assert uniform["refined_median"] == pytest.approx(0.2 / 3)
    assert uniform["bound_mean"] == pytest.approx(0.4)
    assert uniform["gap_max"] == pytest.approx(9 * 1.23e-5)


@pytest.mark.parametrize(("count", "every_row", "expected"), [(4, False, 28), (5, False, 0), (5, True, 35)])
def test_many_rows_are_summed_up(count: int, every_row: bool, expected: int):
    refinement = Refined([0.1] * count)
    table = refinement_table(refinement, every_row=every_row)
    assert table.row_count == (expected or 1 + len(ALL))


def test_solution():
    tree = enumerate_game(load("kuhn_poker"))
    solution = solve(tree, iterations=10)
    record = solution_record(solution)
    assert (record["num_histories"], record["num_terminals"], record["num_infosets"]) == (58, 30, [6, 6])
    assert record["seconds"] == solution.seconds
    shown = printed(solution_table(solution))
    assert "NashConv" in shown
    assert f"{solution.nash_conv:.6g}" in shown
    assert "OpenSpiel's exploitability" in shown
    assert f"{solution.nash_conv / 2:.6g}" in shown
    assert constant_note(tree) == ""


def test_mixtures_and_single_draws_are_both_summarised() -> None:
    """In columns of their own; without several draws nothing is said of them."""
    table = results([1.0, 0.5, 0.25]).assign(exploitability_bound=math.nan, gap_max=0.0)
    table = table.assign(order=1.0, unfrozen=False, generation="random:1:3", combine="in-turn")
    refined = table["refined_exploitability"]
    drawn = table.assign(mean_exploitability=refined + 0.125)
    found = summary(drawn)
    np.testing.assert_allclose(found["drawn_mean"], found["refined_mean"] + 0.125, rtol=0, atol=1e-12)
    shown = printed(summary_table(drawn))
    assert "mean of" in shown and f"{found['drawn_mean'].iloc[0]:.5f}" in shown
    for other in (table, table.assign(mean_exploitability=refined)):
        assert "drawn_mean" not in summary(other) and "mean of" not in printed(summary_table(other))
