"""Solved ranges in a folder: what lies there is not solved again, and is what was solved."""

from __future__ import annotations

import functools
import pathlib
import re
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from jaxgadget import Forest, build_forest, draw_ranges, enumerate_game, load, solve_ranges
from jaxgadget.values import solved as solving
from jaxgadget.values.draws import RangePair
from jaxgadget.values.shards import MANIFEST
from jaxgadget.values.solved import SolvedRanges

LANES, SHARD = 7, 3
OPTIONS: dict[str, Any] = {"iterations": 6, "shard": SHARD, "progress": False}


@functools.cache
def forest(where: str = "depth:2") -> Forest:
    return build_forest(enumerate_game(load("kuhn_poker")), where)


@functools.cache
def ranges() -> RangePair:
    return draw_ranges(forest(), LANES, seed=1)


@functools.cache
def undisturbed() -> SolvedRanges:
    return solve_ranges(forest(), ranges(), **OPTIONS)


def kept(folder: pathlib.Path, **changes: Any) -> SolvedRanges:
    return solve_ranges(forest(), ranges(), folder=folder, **(OPTIONS | changes))


def assert_same(found: SolvedRanges) -> None:
    for name, expected in undisturbed().arrays().items():
        arrays = getattr(found, name)
        pairs = zip(arrays, expected, strict=True) if isinstance(expected, tuple) else [(arrays, expected)]
        for array, other in pairs:
            assert array.dtype == other.dtype
            np.testing.assert_array_equal(array, other)


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many lanes each solve had, one after the other."""
    done: list[int] = []
    original = solving.RangeSolver.solve

    def told(self: Any, pair: Any, report: Any = None) -> SolvedRanges:
        done.append(pair[0].shape[1])
        return original(self, pair, report)

    monkeypatch.setattr(solving.RangeSolver, "solve", told)
    return done


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """With all shards."""
    assert_same(kept(tmp_path / "solved"))
    return tmp_path / "solved"


def test_what_lies_there_is_not_solved_again(folder: pathlib.Path, solves: list[int]) -> None:
    names = [f"shard-{number:05d}.parquet" for number in range(3)]
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, *names]
    again = kept(folder)
    assert_same(again)
    assert solves == [] and again.num_read == again.num_solved == LANES
    assert np.isnan(again.subgames_per_second)


def test_files_are_parquet_a_row_a_lane(folder: pathlib.Path) -> None:
    table = pq.read_table(folder / "shard-00001.parquet")
    assert table.num_rows == SHARD
    rows = np.array(table["values_1"].to_pylist())
    np.testing.assert_array_equal(rows, undisturbed().values[1][:, SHARD : 2 * SHARD].T)


def test_a_missing_shard_is_solved_again(folder: pathlib.Path, solves: list[int]) -> None:
    (folder / "shard-00002.parquet").unlink()
    again = kept(folder)
    assert_same(again)
    assert solves == [LANES - 2 * SHARD] and again.num_read == 2 * SHARD
    fresh = again.num_solved - again.num_read
    assert again.subgames_per_second == pytest.approx(fresh / again.seconds["run"]), "of what was solved"


class Killed(BaseException):
    """Like a signal: nothing of ours catches it."""


@pytest.mark.parametrize("is_written", [True, False], ids=["between shards", "inside a file"])
def test_a_kill_loses_no_finished_shard(
    tmp_path: pathlib.Path, solves: list[int], monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    original, calls = pq.write_table, list[None]()

    def kill(table: Any, file: Any, *more: Any, **options: Any) -> None:
        calls.append(None)
        if len(calls) == 2 and not is_written:
            file.write(b"PAR1 and half of a page")
            raise Killed
        if len(calls) == 3:
            raise Killed
        original(table, file, *more, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", kill)
        with pytest.raises(Killed):
            kept(tmp_path)
    finished = 2 if is_written else 1
    assert len(list(tmp_path.glob("shard-*.parquet"))) == finished
    solves.clear()
    assert_same(kept(tmp_path))
    assert solves == [SHARD, SHARD, 1][finished:]


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 7}, "iterations is 6, not 7"),
        ({"algorithm": "pcfr+"}, "algorithm is "),
        ({"dtype": "float64"}, "dtype is 'float32', not 'float64'"),
        ({"shard": 4}, "shard is 3, not 4"),
        ({"target_gap": 0.5}, "target_gap is None, not 0.5"),
        ({"check_every": 5}, "check_every is 25, not 5"),
    ],
    ids=str,
)
def test_a_folder_of_another_request_is_refused(
    folder: pathlib.Path, solves: list[int], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"holds shards of another request: {re.escape(message)}"):
        kept(folder, **changes)
    assert solves == []
    assert_same(kept(folder))


def test_a_folder_of_other_ranges_or_another_cut_is_refused(folder: pathlib.Path) -> None:
    first, second = ranges()
    changed = first.copy()
    changed[0, 0] = np.nextafter(changed[0, 0], 1)
    with pytest.raises(ValueError, match="holds shards of another request: ranges is "):
        solve_ranges(forest(), (changed, second), folder=folder, **OPTIONS)
    other = forest("depth:1")
    with pytest.raises(ValueError, match="holds shards of another request: cut is 'depth:2', not 'depth:1'"):
        solve_ranges(other, draw_ranges(other, LANES), folder=folder, **OPTIONS)


def test_a_changed_byte_is_noticed(folder: pathlib.Path) -> None:
    """Anywhere in the data; where it says nothing about the numbers, such as who wrote it, it may pass."""
    path = folder / "shard-00001.parquet"
    whole = path.read_bytes()
    refused = 0
    for position in range(4, len(whole), len(whole) // 40):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x11]) + whole[position + 1 :])
        try:
            found = kept(folder)
        except ValueError as error:
            assert str(path) in str(error) and "delete it and solve again" in str(error)
            refused += 1
        else:
            assert_same(found)
    assert refused > 10
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"delete it and solve again"):
        kept(folder)
    path.unlink()
    assert_same(kept(folder))


def test_a_shard_of_another_place_is_noticed(folder: pathlib.Path) -> None:
    """It is whole, but its lanes are not those that were asked for."""
    first, second = (folder / f"shard-0000{number}.parquet" for number in (0, 1))
    second.write_bytes(first.read_bytes())
    with pytest.raises(ValueError, match=r"its ranges are not those that were asked for.*delete it"):
        kept(folder)


@pytest.mark.parametrize("change", ["byte", "half", "list", "unsealed"])
def test_a_damaged_manifest_is_noticed(folder: pathlib.Path, change: str) -> None:
    path = folder / MANIFEST
    text = path.read_text()
    path.write_text(
        {
            "byte": text.replace('"iterations": 6', '"iterations": 7').replace(
                '"iterations":6', '"iterations":7'
            ),
            "half": text[: len(text) // 2],
            "list": "[]",
            "unsealed": "{}",
        }[change]
    )
    assert path.read_text() != text
    with pytest.raises(ValueError, match="delete it") as raised:
        kept(folder)
    assert str(folder) in str(raised.value)


def test_a_folder_that_is_a_file_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises((ValueError, OSError)) as raised:
        kept(tmp_path / "file")
    assert str(tmp_path / "file") in str(raised.value) and (tmp_path / "file").read_text() == "mine"
