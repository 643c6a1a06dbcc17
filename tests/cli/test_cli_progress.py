"""Where nobody watches a bar, every command that takes time writes lines to standard error."""

import json
import pathlib
import re

import pytest
from typer.testing import CliRunner

from jaxgadget.cli import app
from jaxgadget.util import progress
from tests.cases import slow_after

SEARCH = ("--blueprint", "cfr:3", "--k", 2, "--iterations", 20)


@pytest.mark.parametrize(
    ("arguments", "labels"),
    slow_after(
        3,
        [
            (("solve", "kuhn_poker", "--iterations", 1000), ["solving"]),
            (
                ("refine", "kuhn_poker", "--blueprint", "cfr:200", "--blueprint", "cfr:400"),
                ["blueprints", "refining"],
            ),
            (
                ("sweep", "FOLDER", "--game", "kuhn_poker", "--blueprint", "uniform", "--iterations", 3),
                ["sweep"],
            ),
            (
                (
                    "bench",
                    "kuhn_poker",
                    "--lanes",
                    1,
                    "--engine",
                    "jaxgadget",
                    "--iterations",
                    2,
                    "--repeats",
                    1,
                ),
                ["timing kuhn_poker"],
            ),
            (("nested", "kuhn_poker", *SEARCH), ["nested search"]),
            (("match", "kuhn_poker", *SEARCH, "--matches", 10), ["nested search"]),
        ],
    ),
    ids=[
        "solve",
        "refine",
        "sweep",
        "bench",
        "nested",
        "match",
    ],
)
def test_a_log_gets_lines(
    arguments: tuple[object, ...], labels: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    check_lines(arguments, labels, tmp_path, monkeypatch)  # trainings: tests/slow


def check_lines(
    arguments: tuple[object, ...], labels: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    named = [tmp_path / "folder" if argument == "FOLDER" else argument for argument in arguments]
    result = CliRunner().invoke(app, [*map(str, named), "--json", "-"], prog_name="jaxgadget")
    assert result.exit_code == 0, result.stderr
    json.loads(result.stdout)
    lines = result.stderr.splitlines()
    for label in labels:
        pattern = rf"{label}: (\d+/\d+ \(\d+%\)|\d+%), \d:\d\d:\d\d so far(, \d:\d\d:\d\d left)?"
        assert any(re.fullmatch(pattern, line) for line in lines), f"{label}: {lines}"
