"""Trainings write lines to standard error where nobody watches a bar."""

import pathlib

import pytest

from jaxgadget.learn import range_training, trainer
from tests.cli.test_cli_progress import SEARCH, check_lines


@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        (("train-value", "kuhn_poker", *SEARCH, "--steps", 100, "--out", "FOLDER"), ["training"]),
        (
            (
                *("train-ranges", "kuhn_poker", "--cut", "depth:2", "--out", "FOLDER", "--samples", 16),
                *("--rounds", 1, "--steps", 100, "--iterations", 20, "--width", 4),
            ),
            ["solving ranges", "training", "searching", "trunk", "refining"],
        ),
    ],
    ids=["train-value", "train-ranges"],
)
def test_a_log_gets_lines(
    arguments: tuple[object, ...], labels: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("LOG_DRAWS", "FINAL_DRAWS"):
        monkeypatch.setattr(trainer, name, 2**10)
    monkeypatch.setattr(range_training, "SEARCHES", ((6, 15.0),))
    monkeypatch.setattr(range_training, "VISITED_BLUEPRINTS", 4)
    check_lines(arguments, labels, tmp_path, monkeypatch)
