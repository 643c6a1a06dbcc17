"""Trainings write lines where nobody watches a bar, and say what an interrupt leaves."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from jaxgadget.learn import checkpoints, range_training, trainer
from tests.cli.test_cli_progress import SEARCH, check_lines
from tests.cli.test_cli_ranges import (
    REFINE,
    TRAIN,
    few_searches,  # noqa: F401  # a fixture of this module, too
    record,
    run,
)

pytestmark = pytest.mark.optimised


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


def test_an_interrupt_says_what_is_kept(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = record(run(*TRAIN, "--out", tmp_path / "undisturbed", "--json", "-"))
    out, save = tmp_path / "ranges", checkpoints.TrainingFolder.save

    def interrupted(self: Any, progress: Any, log: Any) -> None:
        if int(progress.step) == 5:
            raise KeyboardInterrupt
        save(self, progress, log)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.TrainingFolder, "save", interrupted)
        cut_off = run(*TRAIN, "--out", out)
    assert (cut_off.exit_code, cut_off.stdout) == (130, "")
    kept = "24 solved pairs of ranges and the checkpoint of step 4 of 6; repeat the same command to resume.\n"
    assert cut_off.stderr == f"Interrupted. {str(out)!r} keeps {kept}"
    unfinished = run(*REFINE, "--alternative", f"values:{out}", "--gadget", "resolving")
    assert unfinished.exit_code == 2
    assert f"the training in {str(out)!r} is not finished" in unfinished.stderr
    assert "go on with it, with the same `jaxgadget train-ranges` command" in unfinished.stderr
    assert "FolderRanges" not in unfinished.stderr
    again = run(*TRAIN, "--out", out, "--json", "-")
    assert again.exit_code == 0 and "Going on in" in again.stderr
    assert json.loads(again.stdout)["train_rmse"] == undisturbed["train_rmse"]
