import dataclasses
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jaxgadget.core.results import LaneResult


@dataclasses.dataclass(frozen=True)
class Halves(LaneResult):
    """Two lanes, the second of which failed."""

    failures: dict[int, str] = dataclasses.field(default_factory=lambda: {1: "overflow"})

    @property
    def lane_columns(self) -> dict[str, Any]:
        return {"game": "coin", "model": ("uniform", None)}

    @property
    def number_columns(self) -> dict[str, Any]:
        return {"gap": np.array([0.5, np.nan]), "iterations": np.array([3, 4])}

    @property
    def message(self) -> str:
        return "done"


def test_a_row_a_lane_and_failures_beside_their_numbers():
    table = Halves().table
    assert list(table.columns) == ["game", "model", "gap", "iterations", "failure"]
    assert table["game"].tolist() == ["coin", "coin"] and table["model"].tolist() == ["uniform", None]
    assert table["failure"].tolist() == [None, "overflow"] and np.isnan(table["gap"][1])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_saved_tables_are_read_back(tmp_path: pathlib.Path, suffix: str):
    path = tmp_path / f"rows{suffix}"
    Halves().save(path)
    read = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert read["gap"][0] == 0.5 and read["iterations"].tolist() == [3, 4]
