"""Solved ranges in a folder: existing shards are reused and equal a new solve."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
from typing import Any

import numpy as np
import pytest

from jaxgadget import Forest, Solver, build_forest, draw_ranges, enumerate_game, load, solve_ranges
from jaxgadget.util.folders import MANIFEST
from jaxgadget.util.locks import hold
from jaxgadget.values import solved as solving
from jaxgadget.values.draws import RangePair
from jaxgadget.values.shards import SHARD as SHARD_SIZE
from jaxgadget.values.shards import count_lanes
from jaxgadget.values.solved import SolvedRanges
from tests.solving import settings

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
    return solve_ranges(forest(), ranges(), **settings(**OPTIONS))


def kept(folder: pathlib.Path, **changes: Any) -> SolvedRanges:
    return solve_ranges(forest(), ranges(), **settings(checkpoint=folder, **(OPTIONS | changes)))


def assert_same(found: SolvedRanges) -> None:
    for name, expected in undisturbed().arrays().items():
        arrays = getattr(found, name)
        pairs = zip(arrays, expected, strict=True) if isinstance(expected, tuple) else [(arrays, expected)]
        for array, other in pairs:
            assert array.dtype == other.dtype
            np.testing.assert_array_equal(array, other)


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of lanes of each solve, in order."""
    done: list[int] = []
    original = solving.RangeSolver.solve

    def told(self: Any, pair: Any, report: Any = None) -> SolvedRanges:
        done.append(pair[0].shape[1])
        return original(self, pair, report)

    monkeypatch.setattr(solving.RangeSolver, "solve", told)
    return done


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with all shards."""
    assert_same(kept(tmp_path / "solved"))
    return tmp_path / "solved"


def test_existing_shards_are_not_solved_again(folder: pathlib.Path, solves: list[int]) -> None:
    names = [f"shard-{number:05d}.npz" for number in range(3)]
    assert sorted(path.name for path in folder.iterdir()) == [MANIFEST, *names]
    again = kept(folder)
    assert_same(again)
    assert solves == [] and again.num_read == again.num_solved == LANES
    assert np.isnan(again.subgames_per_second)


def test_folders_of_releases_0_3_and_0_4_are_refused(folder: pathlib.Path) -> None:
    """Their shards are Parquet."""
    (folder / MANIFEST).write_text(json.dumps({"format": "jaxgadget solved ranges 1", "shard": 3}))
    with pytest.raises(ValueError, match=r"version 1, written by jaxgadget 0\.3 or 0\.4"):
        kept(folder)


def test_a_missing_shard_is_solved_again(folder: pathlib.Path, solves: list[int]) -> None:
    (folder / "shard-00002.npz").unlink()
    again = kept(folder)
    assert_same(again)
    assert solves == [LANES - 2 * SHARD] and again.num_read == 2 * SHARD
    fresh = again.num_solved - again.num_read
    assert again.subgames_per_second == pytest.approx(fresh / again.seconds["run"]), "of what was solved"


class Killed(BaseException):
    """Raised like a signal: the package does not catch it."""


@pytest.mark.parametrize("is_written", [True, False], ids=["between shards", "inside a file"])
def test_a_kill_loses_no_finished_shard(
    tmp_path: pathlib.Path, solves: list[int], monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    original, calls = np.savez, list[None]()

    def kill(file: Any, **arrays: Any) -> None:
        calls.append(None)
        if len(calls) == 2 and not is_written:
            file.write(b"PK and half of an array")
            raise Killed
        if len(calls) == 3:
            raise Killed
        original(file, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", kill)
        with pytest.raises(Killed):
            kept(tmp_path)
    finished = 2 if is_written else 1
    assert len(list(tmp_path.glob("shard-*.npz"))) == finished
    solves.clear()
    assert_same(kept(tmp_path))
    assert solves == [SHARD, SHARD, 1][finished:]


# Interrupts and progress reports


def test_an_interrupt_inside_a_shard_reports_stored_lanes_and_changes_no_number(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = solving.solve_batch, list[None]()

    def interrupted(*arguments: Any, report: Any, **options: Any) -> Any:
        def told(done: int) -> None:
            report(done)
            if done and len(calls) == 3:
                raise KeyboardInterrupt

        calls.append(None)
        return original(*arguments, report=told, **options)

    with monkeypatch.context() as patch:
        patch.setattr(solving, "solve_batch", interrupted)
        with pytest.raises(KeyboardInterrupt) as raised:
            kept(tmp_path)
        calls.clear()
        with pytest.raises(KeyboardInterrupt) as without:
            solve_ranges(forest(), ranges(), **settings(**OPTIONS))
    assert len(calls) == 3, "two shards were finished"
    told = f"{str(tmp_path)!r} keeps {2 * SHARD} of {LANES} pairs of ranges; repeat the same call to resume."
    assert raised.value.__notes__ == [told]
    assert not hasattr(without.value, "__notes__"), "without a folder nothing is kept"
    assert count_lanes(tmp_path) == 2 * SHARD
    again = kept(tmp_path)
    assert_same(again)
    assert again.num_read == 2 * SHARD


def test_a_folder_in_use_names_the_process(tmp_path: pathlib.Path) -> None:
    with hold(tmp_path, "folder"), pytest.raises(ValueError, match=f"in use by process {os.getpid()} on"):
        kept(tmp_path)
    assert not list(tmp_path.iterdir()), "a process that is refused writes nothing"
    assert_same(kept(tmp_path))


def test_the_default_is_the_size_that_the_folder_has(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    again = kept(folder, shard=None)
    assert_same(again)
    assert again.num_read == LANES
    first, second = draw_ranges(forest(), SHARD_SIZE + 1, seed=1)
    new = tmp_path / "new"
    solve_ranges(forest(), (first, second), solver=Solver(iterations=1, checkpoint=new, progress=False))
    assert count_lanes(new) == SHARD_SIZE + 1 and len(list(new.glob("*.npz"))) == 2


# Errors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": 7}, "iterations is 6, not 7"),
        ({"shard": 4}, "shard is 3, not 4"),
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
    with pytest.raises(ValueError, match="other ranges"):
        solve_ranges(forest(), (changed, second), **settings(checkpoint=folder, **OPTIONS))
    other = forest("depth:1")
    with pytest.raises(ValueError, match="of another"):
        solve_ranges(other, draw_ranges(other, LANES), **settings(checkpoint=folder, **OPTIONS))


def test_a_changed_byte_is_noticed(folder: pathlib.Path) -> None:
    """At any position in the data; changes of metadata without effect on the numbers may pass."""
    path = folder / "shard-00001.npz"
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
    """It is intact, but its lanes are not the requested ones."""
    first, second = (folder / f"shard-0000{number}.npz" for number in (0, 1))
    second.write_bytes(first.read_bytes())
    with pytest.raises(ValueError, match=r"its ranges are not those of the request.*delete it"):
        kept(folder)
