"""Killed sweeps, and several sweeps in one folder: separate processes, and `kill -9`."""

import os
import pathlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import read_sweep
from jaxgadget.sweeping.store import TIMES
from tests.slow import zygote

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

Order = Callable[..., list[dict[str, Any]]]

SETTINGS: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": ["cfr-spread:5:60", "draws:3"],
    "gadgets": ["unsafe", "resolving"],
    "priors": ["uniform"],
    "players": 0,
    "iterations": [5, 10, 15, 20, 25, 30, 35, 40],
    "blueprints_at_once": 1,
}
PIECES = 8 * 8  # both gadgets in each
SMALL = SETTINGS | {"iterations": [10, 20]}


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Order]:
    own = tmp_path_factory.mktemp("cache")
    with zygote.start(pathlib.Path(os.environ.get("JAX_COMPILATION_CACHE_DIR", own))) as order:
        yield order


@pytest.fixture(scope="module")
def undisturbed(order: Order, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A sweep's folder; afterwards the compilation cache is warm."""
    folder = tmp_path_factory.mktemp("undisturbed") / "sweep"
    (found,) = order(folder, SETTINGS)
    assert not found["failed"] and len(found["begun"]) == len(found["written"]) == PIECES
    return folder


def left_behind(folder: pathlib.Path) -> list[str]:
    """Temporary files that were not renamed."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob(".*"))


def returned(folder: pathlib.Path, copy: int) -> pd.DataFrame:
    return pd.read_pickle(folder.with_name(f"{folder.name}-{copy}.pickle"))


def moments() -> list[dict[str, Any]]:
    """Twenty moments: during setup, between a write and its rename, while solving, and while writing.

    A new process traces its programs before it has blueprints, and again for its first piece, which takes at
    least half a second; later pieces take hundredths.
    """
    draw = random.Random(5)

    def several(number: int, wait: float, **more: Any) -> list[dict[str, Any]]:
        return [more | {"wait": draw.uniform(0, wait)} for _ in range(number)]

    making = several(2, 0.2, at="make", count=1)
    renames = [{"before": name} for name in ("games/*.npz", "games/*.json", "manifest.json")]
    starting = several(2, 0.4, at="start") + several(2, 0.4, at="begin", count=1)
    solving = several(2, 0.06, at="begin", count=2) + several(2, 0.06, at="begin", count=3)
    writing = [several(1, 0.004, at="solved", count=count)[0] for count in (1, 2, 3)]
    pieces = [{"before": "pieces/*.parquet", "count": count} for count in (1, 2, 2, 3)]
    late = [*starting, *solving, *writing, *pieces]
    draw.shuffle(late)
    return [making[0], renames[0], making[1], *renames[1:], *late]


def test_killed_twenty_times_it_ends_with_the_rows_of_an_undisturbed_one(
    order: Order, undisturbed: pathlib.Path, tmp_path: pathlib.Path
):
    folder = tmp_path / "sweep"
    written, renames = Counter[str](), Counter[str]()
    plan = moments()
    assert len(plan) == 20
    for number, kill in enumerate(plan):
        before = set(left_behind(folder)) if folder.exists() else set[str]()
        (found,) = order(folder, SETTINGS, kill=kill)
        assert found["killed"], f"{number}: {kill} came too late"
        assert not found["again"], "what was finished was done again"
        written.update(found["written"])
        assert len(found["begun"]) - len(found["written"]) in (0, 1), "more was lost than the piece in flight"
        if "before" in kill:
            (left,) = set(left_behind(folder)) - before
            place, _, _ = left.rpartition("/")
            renames[place] += 1
    assert renames == {"games": 2, "": 1, "pieces": 4}
    assert 10 < len(written) < PIECES, "some progress, and something left"
    last = len(written)
    (found,) = order(folder, SETTINGS)
    assert not found["failed"] and not found["again"]
    assert len(found["begun"]) >= PIECES - last - 20 and len(found["begun"]) > 0
    written.update(found["written"])
    assert set(written.values()) == {1}
    assert left_behind(folder) == []
    expected, rows = read_sweep(undisturbed), read_sweep(folder)
    assert len(rows) == 2 * PIECES == 2 * rows["piece"].nunique() and set(rows["piece"]) >= set(written)
    assert_frame_equal(returned(folder, 0), rows, check_exact=True)
    columns = list(TIMES)
    assert_frame_equal(rows.drop(columns=columns), expected.drop(columns=columns), check_exact=True)


def test_two_processes_share_the_work(order: Order, tmp_path: pathlib.Path):
    folder = tmp_path / "sweep"
    found = order(folder, SMALL, copies=2)
    assert not any(one["failed"] for one in found)
    assert all(one["written"] for one in found), "both worked"
    first, second = returned(folder, 0), returned(folder, 1)
    assert Counter(key for one in found for key in one["begun"]) == Counter(first["piece"].unique())
    assert first["piece"].nunique() == 16 and len(first) == 2 * 16
    assert_frame_equal(read_sweep(folder), first, check_exact=True)
    assert_frame_equal(first, second, check_exact=True)


def test_a_process_takes_over_from_one_that_dies(order: Order, tmp_path: pathlib.Path):
    folder = tmp_path / "sweep"
    dead, alive = order(folder, SMALL, copies=2, kill={"before": "pieces/*.parquet"})
    assert dead["killed"] and not dead["written"] and not alive["failed"]
    assert set(dead["begun"]) <= set(alive["begun"])
    assert len(set(alive["written"])) == len(alive["written"]) == 16
    assert set(alive["written"]) == set(returned(folder, 1)["piece"])
    assert left_behind(folder) == []
