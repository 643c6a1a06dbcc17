"""The experiments on responses to opponents, on Kuhn poker."""

from __future__ import annotations

import pathlib

from experiments.opponents import speed
from experiments.opponents.__main__ import STUDY


def test_speed_compares_the_same_lanes(tmp_path: pathlib.Path) -> None:
    STUDY.main(["--smoke", "--folder", str(tmp_path)])
    frame = STUDY.settings(smoke=True, folder=tmp_path).data_of("speed", "this test").set_index("way")
    assert frame.loc["one batch", "lanes"] == 12
    assert frame.loc["one by one", "lanes"] == frame.loc["linear programs", "lanes"] == 2
    assert (frame["largest_gap"] <= speed.GAP).all() and (frame["seconds"] > 0).all()
    assert "## speed\n" in (tmp_path / "tables.md").read_text()
