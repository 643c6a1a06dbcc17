"""Where nobody watches a bar, every command that takes time writes lines to standard error."""

import json
import pathlib
import re

import pytest
from typer.testing import CliRunner

from jaxgadget.cli import app
from jaxgadget.learn import range_training, trainer
from jaxgadget.util import progress

SEARCH = ("--blueprint", "cfr:3", "--k", 2, "--iterations", 20)


@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        (("solve", "kuhn_poker", "--iterations", 1000), ["solving"]),
        (
            ("refine", "kuhn_poker", "--blueprint", "cfr:200", "--blueprint", "cfr:400"),
            ["blueprints", "refining"],
        ),
        (("refine", "kuhn_poker", "--blueprint", "uniform", "--player", "both"), ["refining"]),
        (
            ("sweep", "FOLDER", "--game", "kuhn_poker", "--blueprint", "uniform", "--iterations", 3),
            ["sweep"],
        ),
        (
            ("bench", "kuhn_poker", "--lanes", 1, "--engine", "jaxgadget", "--iterations", 2, "--repeats", 1),
            ["timing kuhn_poker"],
        ),
        (("nested", "kuhn_poker", *SEARCH), ["nested search"]),
        (("match", "kuhn_poker", *SEARCH, "--matches", 10), ["nested search"]),
        (("train-value", "kuhn_poker", *SEARCH, "--steps", 100, "--out", "FOLDER"), ["training"]),
        (
            (
                *("train-ranges", "kuhn_poker", "--cut", "depth:2", "--out", "FOLDER", "--samples", 16),
                *("--rounds", 1, "--steps", 100, "--iterations", 20, "--width", 4),
            ),
            ["solving ranges", "training", "searching", "trunk", "refining"],
        ),
    ],
    ids=[
        "solve",
        "refine",
        "refine-both",
        "sweep",
        "bench",
        "nested",
        "match",
        "train-value",
        "train-ranges",
    ],
)
def test_a_log_gets_lines(
    arguments: tuple[object, ...], labels: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    for name in ("LOG_DRAWS", "FINAL_DRAWS"):
        monkeypatch.setattr(trainer, name, 2**10)
    monkeypatch.setattr(range_training, "SEARCHES", ((6, 15.0),))
    monkeypatch.setattr(range_training, "VISITED_BLUEPRINTS", 4)
    named = [tmp_path / "folder" if argument == "FOLDER" else argument for argument in arguments]
    result = CliRunner().invoke(app, [*map(str, named), "--json", "-"], prog_name="jaxgadget")
    assert result.exit_code == 0, result.stderr
    json.loads(result.stdout)
    lines = result.stderr.splitlines()
    for label in labels:
        pattern = rf"{label}: (\d+/\d+ \(\d+%\)|\d+%), \d:\d\d:\d\d so far(, \d:\d\d:\d\d left)?"
        assert any(re.fullmatch(pattern, line) for line in lines), f"{label}: {lines}"
