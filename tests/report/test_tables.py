import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from rich.console import Console, RenderableType

from jaxgadget import enumerate_game, load, solve
from jaxgadget.report.tables import (
    constant_note,
    solution_record,
    solution_table,
    summary,
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


def test_json_is_strict():
    record = {"a": math.nan, "b": [np.float64(-math.inf), -0.0], "c": np.int64(3), "d": {"e": (True, "é")}}
    text = to_json(record)
    assert json.loads(text) == {"a": None, "b": [None, 0.0], "c": 3, "d": {"e": [True, "é"]}}
    assert "-0.0" not in text
    assert text.isascii(), "it can be written to any terminal"
    assert text.endswith("}\n")


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
