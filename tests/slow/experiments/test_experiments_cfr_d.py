"""The experiment of Figure 4: it runs, goes on where it stopped, and its data say what is recorded."""

from __future__ import annotations

import pathlib
from typing import Any

import pandas as pd
import pytest

from experiments import decomposition_figure4 as experiment
from experiments.common import HERE, Settings


def test_quick_run_is_complete_and_resumable(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run computes nothing and draws the same picture; a lost line alone is computed again."""
    settings = Settings(quick=True, folder=tmp_path)
    asked: list[experiment.Line] = []
    computed = experiment.compute

    def counted(tree: Any, line: experiment.Line, *others: Any) -> Any:
        asked.append(line)
        return computed(tree, line, *others)

    monkeypatch.setattr(experiment, "compute", counted)
    grid = experiment.QUICK
    frame = experiment.run(settings, grid)
    assert asked == list(grid.lines)
    assert list(frame.columns) == list(experiment.COLUMNS)
    assert len(frame) == sum(len(counts) for _, _, counts in grid.lines)
    assert (frame["exploitability"] > 0).all()
    picture = settings.picture(experiment.NAME).read_bytes()
    assert picture.startswith(b"\x89PNG")
    again = experiment.run(settings, grid)
    assert asked == list(grid.lines)
    pd.testing.assert_frame_equal(again, frame)
    assert settings.picture(experiment.NAME).read_bytes() == picture
    last = grid.lines[-1]
    frame[frame["trunk_iterations"] != last[1]].to_csv(settings.data(experiment.NAME), index=False)
    third = experiment.run(settings, grid)
    assert asked == [*grid.lines, last]
    pd.testing.assert_frame_equal(third.drop(columns="seconds"), frame.drop(columns="seconds"))


def test_recorded_data_are_what_the_experiment_computes() -> None:
    """Every point of the grid is there; more trunk iterations make lower lines (the paper's Figure 4)."""
    path = HERE / "data" / f"{experiment.NAME}.csv"
    frame = pd.read_csv(path)
    assert list(frame.columns) == list(experiment.COLUMNS)
    at = frame.set_index(list(experiment.KEY))["exploitability"]
    assert (at > 0).all()
    best: dict[str, list[float]] = {}
    for algorithm, trunk, counts in experiment.OURS.lines:
        line = [at[algorithm, trunk, count, experiment.OURS.resolve] for count in counts]
        best.setdefault(algorithm, []).append(min(line))
    for lowest in best.values():
        assert lowest == sorted(lowest, reverse=True)
