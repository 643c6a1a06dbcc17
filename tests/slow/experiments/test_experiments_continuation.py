"""The experiments on values of ranges, with tiny networks: tables, pictures, shares of the way."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from experiments.continuation import closing
from experiments.continuation.__main__ import STUDY
from experiments.study import Settings


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Where a smoke test of everything has written."""
    folder = tmp_path_factory.mktemp("continuation")
    STUDY.main(["--smoke", "--folder", str(folder)])
    return STUDY.settings(smoke=True, folder=folder)


def test_every_experiment_leaves_data_and_a_table(settings: Settings):
    text = (settings.folder / "tables.md").read_text()
    for name in STUDY.names:
        assert len(settings.data_of(name, "this test")), name
        assert f"## {name}\n" in text
    assert (settings.folder / "pictures" / "closing.png").read_bytes().startswith(b"\x89PNG")


def test_all_is_measured_from_the_same_blueprints_and_the_optimum_is_the_least(settings: Settings):
    frame = settings.data_of("closing", "this test")
    keys = ["game", "cut", "player"]
    assert set(frame["source"]) == set(closing.SOURCES)
    assert (frame.groupby([*keys, "blueprint"])["method"].size().nunique()) == 1
    best = frame[frame["method"] == "optimal continuation"].set_index([*keys, "blueprint"])["refined"]
    floor = best.reindex(pd.MultiIndex.from_frame(frame[[*keys, "blueprint"]])).to_numpy()
    assert (frame["refined"] >= floor - 1e-5).all()


def test_networks_tell_their_errors(settings: Settings):
    (row,) = settings.data_of("networks", "this test").to_dict("records")
    assert all(0 < row[name] < math.inf for name in ("train_rmse", "visited_rmse", "value_rmse", "gap_max"))
    assert row["samples"] == 16 + 2 * 4 * 4, "drawn, and after 4 blueprints 4 searches of either player"


def test_shares_are_of_the_way_and_near_blueprints_have_none():
    rows = [("a", "optimal continuation", 1.0, 0.2), ("a", "other", 1.0, 0.4)]
    rows += [("b", "optimal continuation", 0.205, 0.2), ("b", "other", 0.205, 0.1)]
    columns = ["blueprint", "method", "blueprint_exploitability", "refined"]
    frame = pd.DataFrame(rows, columns=columns).assign(game="g", cut="c", player=0, source="exact")
    shares = closing.shares(frame).set_index(["blueprint", "method"])["share"]
    assert shares["a", "other"] == pytest.approx(0.75)
    assert math.isnan(shares["b", "other"])
