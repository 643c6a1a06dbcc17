"""The experiment of Figure 4: it runs, goes on where it stopped, and its data say what is recorded."""

from __future__ import annotations

import pathlib
from typing import Any

import pandas as pd
import pytest

from experiments.decomposition import figure4 as experiment
from experiments.decomposition.__main__ import STUDY


def lines(keys: list[dict[str, Any]]) -> list[experiment.Line]:
    """What was asked for, as the grid has it."""
    return [(key["algorithm"], key["trunk_iterations"], key["subgame_iterations"]) for key in keys]


def test_smoke_run_is_complete_and_resumable(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run computes nothing and draws the same picture; a lost line alone is computed again."""
    settings = STUDY.settings(smoke=True, folder=tmp_path)
    asked: list[dict[str, Any]] = []
    solve_line = experiment.solve_line

    def counted(settings: Any, key: dict[str, Any]) -> pd.DataFrame:
        asked.append(key)
        return solve_line(settings, key)

    monkeypatch.setattr(experiment, "solve_line", counted)
    grid = experiment.SMOKE
    STUDY.main(["figure4", "--smoke", "--folder", str(tmp_path)])
    assert lines(asked) == list(grid.lines)
    frame = settings.data_of(experiment.NAME, "this test")
    assert list(frame.columns) == list(experiment.COLUMNS)
    assert len(frame) == sum(len(counts) for _, _, counts in grid.lines)
    assert (frame["exploitability"] > 0).all()
    path = tmp_path / "pictures" / f"{experiment.NAME}.png"
    picture = path.read_bytes()
    assert picture.startswith(b"\x89PNG")
    STUDY.main(["figure4", "--smoke", "--folder", str(tmp_path)])
    assert lines(asked) == list(grid.lines)
    pd.testing.assert_frame_equal(settings.data_of(experiment.NAME, "this test"), frame)
    assert path.read_bytes() == picture
    last = grid.lines[-1]
    settings.keep(experiment.NAME, frame[frame["trunk_iterations"] != last[1]])
    for piece in settings.work.glob("*.parquet"):
        piece.unlink()
    third = experiment.compute(settings)
    assert lines(asked) == [*grid.lines, last]
    pd.testing.assert_frame_equal(third.drop(columns="seconds"), frame.drop(columns="seconds"))


def test_a_shorter_line_can_be_solved_after_a_longer_one(tmp_path: pathlib.Path) -> None:
    """Lines that only differ in length have checkpoints apart; a longer one goes on from a shorter."""
    key: dict[str, Any] = {"algorithm": "cfr", "subgame_iterations": (1, 2)}
    longest, shortest, middle = (key | {"trunk_iterations": trunk} for trunk in (8, 2, 4))
    experiment.find_checkpoint(tmp_path, longest).write_text("8", encoding="utf-8")
    assert not experiment.find_checkpoint(tmp_path, shortest).exists()
    experiment.find_checkpoint(tmp_path, shortest).write_text("2", encoding="utf-8")
    assert experiment.find_checkpoint(tmp_path, middle).read_text(encoding="utf-8") == "2"
    assert experiment.find_checkpoint(tmp_path, longest).read_text(encoding="utf-8") == "8"


def test_recorded_data_are_what_the_experiment_computes() -> None:
    """Every point of the grid is there; more trunk iterations make lower lines (the paper's Figure 4)."""
    frame = STUDY.settings().data_of(experiment.NAME, "this test")
    assert list(frame.columns) == list(experiment.COLUMNS)
    at = frame.set_index(list(experiment.KEY))["exploitability"]
    assert (at > 0).all()
    best: dict[str, list[float]] = {}
    for algorithm, trunk, counts in experiment.OURS.lines:
        line = [at[algorithm, trunk, count, experiment.OURS.resolve] for count in counts]
        best.setdefault(algorithm, []).append(min(line))
    for lowest in best.values():
        assert lowest == sorted(lowest, reverse=True)
