"""Commands that accept a public tree: the results equal those in histories."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxgadget.cli import app

KUHN = ("kuhn_poker", "--blueprint", "cfr:3", "--gadget", "resolving")
COMMANDS = {
    "refine": (*KUHN, "--iterations", 20, "--dtype", "float64", "--model", "uniform", "--p", 0.5),
    "respond": ("kuhn_poker", "--model", "uniform", "--model", "cfr:3", "--p", 0.3, "--algorithm", "lp"),
    "nested": (*KUHN, "--leaf", "end", "--iterations", 20, "--dtype", "float64"),
}
UNIQUE = ("gadget_value_sum", "objective", "best_response_gain")
"""Columns that are equal for all optima of linear programs."""


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)), prog_name="jaxgadget")


@pytest.mark.parametrize("name", COMMANDS)
def test_numbers_by_hands_are_those_by_histories(name: str) -> None:
    records: list[dict[str, Any]] = []
    for form in ((), ("--form", "hands")):
        result = run(name.split()[0], *COMMANDS[name], *form, "--json", "-")
        assert result.exit_code == 0, result.stderr
        records.append(json.loads(result.stdout))
    expected, record = records
    assert record.pop("form") == "hands" and "form" not in expected
    np.testing.assert_allclose(record["game_value"], expected["game_value"], rtol=0, atol=1e-9)
    by_lp = "lp" in COMMANDS[name]
    assert len(record["rows"]) == len(expected["rows"]) > 0
    for row, other in zip(record["rows"], expected["rows"], strict=True):
        assert list(row) == list(other)
        for column, value in row.items():
            if column == "seconds":
                continue
            if not isinstance(value, float):
                assert by_lp or value == other[column], column
            elif not by_lp or column in UNIQUE:
                assert value == pytest.approx(other[column], abs=1e-9), column


def test_a_sweep_by_hands(tmp_path: pathlib.Path) -> None:
    asked = ("--game", "kuhn_poker", "--blueprint", "uniform", "--gadget", "unsafe", "--iterations", 3)
    result = run("sweep", tmp_path / "s", *asked, "--form", "hands", "--json", "-")
    assert result.exit_code == 0, result.stderr
    assert {row["form"] for row in json.loads(result.stdout)["rows"]} == {"hands"}
    refused = run("sweep", tmp_path / "s", *asked, "--form", "hands", "--max-histories", 9)
    assert refused.exit_code == 2
    assert "--max-histories has no effect with --form hands for kuhn_poker" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [("refine", "goofspiel(num_cards=3)"), ("refine", "kuhn_poker", "--order", 1)],
)
def test_options_without_a_form_by_hands_are_refused(arguments: tuple[object, ...]) -> None:
    result = run(*arguments, "--form", "hands", "--blueprint", "uniform", "--gadget", "resolving")
    assert result.exit_code == 2 and result.stderr.startswith("Error: ") and not result.stdout
