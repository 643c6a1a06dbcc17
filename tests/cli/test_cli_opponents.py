"""`--model` and `--p` of `refine` and `sweep`, and `--prior range`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import jaxgadget as jg
from jaxgadget.cli import app

REFINE = (
    *("refine", "kuhn_poker", "--blueprint", "uniform", "--blueprint", "cfr:5", "--gadget", "resolving"),
    *("--prior", "none", "--iterations", 20),
)
AGAINST = ("--model", "uniform", "--model", "dirichlet:3", "--p", 0.2, "--p", 1)


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "140"}).invoke(app, [*map(str, arguments)], prog_name="jaxgadget")


def rows(result: Result) -> list[dict[str, Any]]:
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)["rows"]


def test_rows_say_what_is_gained_from_which_model() -> None:
    found = rows(run(*REFINE, *AGAINST, "--json", "-"))
    assert [(row["blueprint"], row["model"], row["p"]) for row in found] == [
        (blueprint, model, p)
        for blueprint in ("uniform", "cfr:5")
        for model in ("uniform", "dirichlet:3")
        for p in (0.2, 1)
    ]
    for row in found:
        assert row["gain"] is not None and row["exploitability"] == row["refined_exploitability"]
        assert (row["exploitability_bound"] is None) == (row["p"] == 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "uniform"), "--model uniform: expected --p with it"),
        (("--p", 0.5), "--p 0.5: expected --model with it"),
        (("--model", "uniform", "--p", 1.5), "--p 1.5: expected a number from 0 to 1"),
        (("--model", "nobody", "--p", 0.5), "--model 'nobody' is unknown"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    arguments: tuple[object, ...], told: str, tmp_path: pathlib.Path
) -> None:
    sweep = ("sweep", tmp_path / "sweep", "--game", "kuhn_poker", "--blueprint", "uniform", "--iterations", 1)
    for command in (REFINE, sweep):
        result = run(*command, *arguments)
        assert result.exit_code == 2
        assert told in result.stderr
        assert "Traceback" not in result.stderr


def test_the_range_is_a_prior_that_has_to_be_asked_for() -> None:
    """Safe exploitation search is max-margin with it; who names no prior gets what there was before."""
    command = ("refine", "kuhn_poker", "--blueprint", "cfr:5", "--gadget", "max-margin", "--iterations", 20)
    assert [row["prior"] for row in rows(run(*command, "--json", "-"))] == ["none", "uniform", "blueprint"]
    (row,) = rows(run(*command, "--prior", "range", "--epsilon", 0.3, "--json", "-"))
    assert (row["prior"], row["epsilon"]) == ("range", 0.3)


def test_a_model_of_another_game_is_called_a_model(tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "leduc.npz"
    jg.Policy.uniform(jg.enumerate_game(jg.load("leduc_poker"))).save(saved)
    model = ("--model", f"file:{saved}", "--p", 0.5)
    for command in (REFINE, ("respond", "kuhn_poker")):
        result = run(*command, *model)
        assert result.exit_code == 2 and result.stderr.startswith(f"Error: --model 'file:{saved}': ")
    result = run("sweep", tmp_path / "sweep", "--game", "kuhn_poker", "--blueprint", "uniform", *model)
    assert result.exit_code == 2 and f"model 'file:{saved}': " in result.stderr
    assert "blueprint 'file" not in result.stderr


def test_sweep(tmp_path: pathlib.Path) -> None:
    command = ("sweep", tmp_path / "sweep", "--game", "kuhn_poker", "--blueprint", "uniform", "--player", 0)
    command += ("--gadget", "resolving", "--prior", "none", "--iterations", 20)
    found = rows(run(*command, *AGAINST, "--json", "-"))
    assert [(row["model"], row["p"]) for row in found] == [
        ("uniform", 0.2),
        ("uniform", 1),
        ("dirichlet:3", 0.2),
        ("dirichlet:3", 1),
    ]
    assert all(row["gain"] is not None for row in found)
    other = run(*command, "--model", "uniform", "--p", 0.3)
    assert other.exit_code == 2
    assert "has other settings" in other.stderr and "p 0.2, 1 only then" in other.stderr
