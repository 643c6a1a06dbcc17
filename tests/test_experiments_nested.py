"""The experiments on nested search run, and what is kept of them is whole."""

from __future__ import annotations

import pathlib

import numpy as np
import pandas as pd
import pytest

from experiments.nested.__main__ import EXPERIMENTS, main
from experiments.nested.common import BLUEPRINTS

ROWS = {"theorem": 2 * 2, "exploitability": 2 * 2 * 7, "matches": 7 * 6, "network": 2 * 2 * 7}
ROWS |= {"noise": 2 * 2 * 7, "throughput": 2, "large": 42, "paper_sizes": 42}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    place = tmp_path_factory.mktemp("nested")
    main(["--smoke", "--folder", str(place)])
    return place


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_whole(folder: pathlib.Path, name: str) -> None:
    frame = pd.read_parquet(folder / "data" / f"{name}.parquet")
    assert len(frame) == ROWS[name] and set(frame["game"]) == {"kuhn_poker"}
    summary = EXPERIMENTS[name].summarise(frame)
    if name == "network":
        # Where none is held out, there is no error over such.
        assert (frame["heldout_rmse"].isna() == (frame["heldout"] == 0)).all()
        frame = frame.drop(columns="heldout_rmse")
    numbers = frame.select_dtypes("number")
    assert numbers.size and np.isfinite(numbers.to_numpy()).all()
    assert len(summary)
    if hasattr(EXPERIMENTS[name], "draw"):
        assert (folder / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / "pictures" / f"{name}.svg").read_bytes()[:500]
    assert f"## {name}" in (folder / "tables.md").read_text(encoding="utf-8")


def test_numbers_are_of_the_experiments(folder: pathlib.Path) -> None:
    table = pd.read_parquet(folder / "data" / "exploitability.parquet")
    assert table["blueprint"].unique().tolist() == list(BLUEPRINTS[:2])
    assert (table["nested_exploitability"] > -1e-5).all() and table["searches"].gt(0).all()
    found = pd.read_parquet(folder / "data" / "theorem.parquet").set_index(["depth", "equilibrium"])
    middle = found[["game_value_low", "game_value_high"]].mean(axis=1)
    off = (found["value"] - middle).abs()
    assert (off.xs("with", level=1) < off.xs("without", level=1)).all()


def test_unknown_names_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "unknown: speed; expected some of theorem" in capsys.readouterr().err
