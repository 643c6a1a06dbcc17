"""`jaxgadget nested`, `match` and `train-value`."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from jaxgadget.cli import app

NESTED = ["game", "iterations", "game_value", "rows"]
NESTED_ROW = [
    "player",
    "blueprint",
    "gadget",
    "prior",
    "epsilon",
    "depth",
    "k",
    "leaf",
    "blueprint_exploitability",
    "nested_exploitability",
    "gap_max",
    "searches",
    "seconds",
]
FAST = ("kuhn_poker", "--blueprint", "cfr:3", "--k", 3, "--iterations", 20)


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "140"}).invoke(app, [*map(str, arguments)], prog_name="jaxgadget")


def record(result: Result) -> dict[str, Any]:
    """What was written, nothing else, as strict JSON."""
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_nested() -> None:
    more = ("--player", "both", "--gadget", "resolving", "--prior", "none", "--prior", "blueprint")
    found = record(run("nested", *FAST, *more, "--epsilon", 0.1, "--depth", 2, "--json", "-"))
    assert list(found) == NESTED and found["iterations"] == 20
    low, high = found["game_value"]
    assert low <= -1 / 18 <= high and high - low < 1e-3
    assert [list(row) for row in found["rows"]] == [NESTED_ROW] * 4
    assert [(row["player"], row["prior"], row["epsilon"]) for row in found["rows"]] == [
        (0, "none", 0.0),
        (0, "blueprint", 0.1),
        (1, "none", 0.0),
        (1, "blueprint", 0.1),
    ]
    for row in found["rows"]:
        assert (row["blueprint"], row["depth"], row["k"], row["leaf"]) == ("cfr:3", 2, 3, "exact")
        assert 0 <= row["nested_exploitability"] < 1 and row["searches"] > 0 and row["gap_max"] > 0


def test_nested_shows_a_table() -> None:
    result = run("nested", *FAST, "--gadget", "unsafe")
    assert result.exit_code == 0
    for words in ("Exploitability of player 0", "unsafe", "searches a second", "half of NashConv"):
        assert words in re.sub(r"\s+", " ", result.stdout).replace(" searches, ", " searches a second "), (
            words
        )


def test_match() -> None:
    arguments = ("--gadget", "resolving", "--prior", "blueprint", "--matches", 40, "--seed", 3)
    found = record(run("match", *FAST, *arguments, "--json", "-"))
    assert list(found) == ["game", "rows"] and found["game"] == "kuhn_poker"
    assert [list(row) for row in found["rows"]] == [
        ["row", "column", "matches", "win_rate", "mean_return", "ci95"]
    ] * 2
    first, second = found["rows"]
    assert {first["row"], first["column"]} == {"resolving, blueprint prior, epsilon 0.02", "blueprint"}
    assert first["win_rate"] + second["win_rate"] == pytest.approx(1) and first["matches"] == 40
    assert first["mean_return"] == pytest.approx(-second["mean_return"])
    again = record(run("match", *FAST, *arguments, "--json", "-"))
    assert again == found


def test_train_value_then_search_with_it(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "values"
    train = ("train-value", "kuhn_poker", "--blueprint", "cfr:3", "--k", 3, "--steps", 40, "--iterations", 5)
    found = record(run(*train, "--out", out, "--json", "-"))
    assert list(found) == [
        "game",
        "k",
        "steps",
        "seconds",
        "examples_per_second",
        "train_rmse",
        "heldout_rmse",
        "visited_rmse",
        "payoff_range",
    ]
    assert (found["game"], found["k"], found["steps"], found["payoff_range"]) == ("kuhn_poker", 3, 40, 4.0)
    assert 0 < found["visited_rmse"] < 4 and found["examples_per_second"] > 0
    more = ("--gadget", "unsafe", "--leaf", out)
    (row,) = record(run("nested", *FAST, *more, "--json", "-"))["rows"]
    assert row["leaf"] == "network" and row["nested_exploitability"] >= 0
    result = run("nested", *FAST[:-4], "--k", 4, *more)
    assert result.exit_code == 2 and "has K = 3, and --k is 4" in result.stderr
    result = run("nested", "leduc_poker", "--blueprint", "uniform", "--k", 3, *more)
    assert result.exit_code == 2 and "is for 'kuhn_poker', not for 'leduc_poker'" in result.stderr


def test_bad_input(tmp_path: pathlib.Path) -> None:
    for arguments, message in (
        (("nested", *FAST, "--leaf", tmp_path / "nothing"), "does not exist"),
        (("nested", *FAST, "--gadget", "full"), "needs trunk"),
        (("match", *FAST[:1], "--blueprint", "draws:2"), "makes 2 blueprints"),
        (("nested", *FAST, "--epsilon", 1.5), "epsilon"),
        (("nested", "kuhn_poker", "--k", 0), "--k"),
        (("nested", "kuhn_poker", "--depth", 0), "--depth"),
        (("match", "kuhn_poker", "--matches", 0), "--matches"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and message in result.stderr, arguments
        assert "Traceback" not in result.stderr
