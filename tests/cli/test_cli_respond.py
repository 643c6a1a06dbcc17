"""`jaxgadget respond`."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import jaxgadget as jg
from tests.cli.commands import run, run_to_json

KEYS = {
    *("player", "model", "method", "p", "algorithm", "gain", "exploitability", "exploitability_bound"),
    *("objective", "best_response_gain", "gap", "iterations"),
}


def test_rows_are_the_library_s(tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "responses.npz"
    asked = ("--model", "uniform", "--model", "dirichlet:3", "--p", 0.25, "--p", 1, "--best-nash")
    found = run_to_json("respond", "kuhn_poker", *asked, "--algorithm", "lp", "--save", saved)
    assert found["game"] == "kuhn_poker" and found["game_value"] == pytest.approx([-1 / 18] * 2)
    rows = found["rows"]
    assert all(set(row) == KEYS for row in rows) and len(rows) == 6
    assert [row["p"] for row in rows] == [0.25, 1, 0.25, 1, 0, 0]
    assert [row["method"] for row in rows] == ["restricted-nash"] * 4 + ["best-nash"] * 2
    assert rows[0]["gain"] == pytest.approx(4 / 9) and rows[0]["exploitability"] == pytest.approx(1 / 18)
    assert rows[0]["exploitability_bound"] == pytest.approx(4 / 27)
    assert [row["exploitability_bound"] is None for row in rows] == [False, True, False, True, False, False]
    assert rows[4]["gain"] == pytest.approx(1 / 6 + 1 / 18, abs=1e-6)
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    again = jg.Policy.load(saved, tree)
    assert again.labels[0] == "rnr:0.25:uniform" and again.labels[4] == "best-equilibrium:uniform"
    exploitability = jg.exploitability(again, 0, value=(-1 / 18, -1 / 18))
    np.testing.assert_allclose(exploitability, [row["exploitability"] for row in rows], atol=1e-9)


def test_standard_output_is_json_alone() -> None:
    """In a separate process, since C libraries write to the file descriptor directly."""
    command = (
        *("respond", "kuhn_poker", "--model", "uniform", "--p", "1", "--player", "1"),
        *("--data-biased", "--algorithm", "lp", "--json", "-"),
    )
    done = subprocess.run([sys.executable, "-m", "jaxgadget", *command], capture_output=True, check=True)
    assert len(json.loads(done.stdout)["rows"]) == 2


def test_undefined_results_have_a_status_of_their_own() -> None:
    command = ("respond", "kuhn_poker", "--model", "uniform", "--p", 0.5, "--algorithm", "lp")
    result = run(*command, "--time-limit", 1e-9)
    assert result.exit_code == 3 and "was not solved in time" in result.stderr


def test_bad_input_is_one_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--model", "uniform")
    for arguments, told in (
        ((), "--model is missing: expected a strategy"),
        ((*given, "--p", 2), "--p 2: expected a number from 0 to 1"),
        ((*given, "--tolerance", 1), "--tolerance has no effect without --best-nash"),
        ((*given, "--time-limit", 1), "--time-limit has no effect with --algorithm cfr+"),
        ((*given, "--save", "x.npz", "--player", "both"), "strategies of one player; choose 0 or 1"),
    ):
        result = run("respond", "kuhn_poker", *arguments)
        assert result.exit_code == 2 and told in result.stderr, (arguments, result.stderr)
        assert result.stderr.count("\n") == 1 and not list(tmp_path.iterdir())
