"""Checkpoints of solves: what is damaged is named, what is of another solve refused, what is kept told."""

import json
import logging
import os
import pathlib
from typing import Any

import jax
import numpy as np
import pytest

from jaxgadget import HistoryTree, Policy, Solver, enumerate_game, load, refine, solve
from jaxgadget.core.checkpoint import (
    CHECKPOINT,
    OLDER_SPLITS,
    describe_kept,
    load_checkpoint,
    load_chunk,
    load_parts,
    save_checkpoint,
    save_chunk,
    save_parts,
)
from jaxgadget.util.locks import hold
from jaxgadget.util.store import read_archive, write_archive


@pytest.fixture(scope="module")
def kuhn() -> HistoryTree:
    return enumerate_game(load("kuhn_poker"))


@pytest.fixture
def file(kuhn: HistoryTree, tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "kuhn.npz"
    solve(kuhn, solver=Solver(iterations=5, checkpoint=path))
    return path


def rewrite(path: pathlib.Path, **changes: Any) -> None:
    """Replaces arrays and seals the file again."""
    archive = read_archive(path, CHECKPOINT)
    assert archive is not None
    write_archive(path, CHECKPOINT, archive.header, {**archive.arrays, **changes})


@pytest.mark.parametrize(("version", "release"), [(1, "jaxgadget 0.2, 0.3 or 0.4"), (3, "another release")])
def test_checkpoints_of_other_releases_are_refused(
    kuhn: HistoryTree, file: pathlib.Path, version: int, release: str
):
    """Releases up to 0.4 wrote name and version as one string."""
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.dumps({"format": f"jaxgadget checkpoint {version}", "key": "k"})
    np.savez(file, **{**arrays, "header": np.asarray(header)})
    with pytest.raises(ValueError, match=rf"kuhn\.npz' is .* version {version}, written by {release}; this"):
        solve(kuhn, solver=Solver(iterations=9, checkpoint=file))


@pytest.mark.parametrize("name", OLDER_SPLITS)
def test_folders_of_earlier_releases_are_refused(kuhn: HistoryTree, tmp_path: pathlib.Path, name: str):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=r"was written by jaxgadget 0\.4 or an earlier release"):
        refine(kuhn, "depth:1", Policy.uniform(kuhn), solver=Solver(iterations=2, checkpoint=tmp_path))


@pytest.mark.parametrize(
    "changes", [{"leaf_1": np.zeros(3)}, {"leaf_99": np.zeros(3)}, {"leaf_0": np.float64(5)}]
)
def test_other_shapes_are_refused(kuhn: HistoryTree, file: pathlib.Path, changes: dict[str, Any]):
    rewrite(file, **changes)
    with pytest.raises(ValueError, match=r"kuhn\.npz' is damaged: its arrays have other shapes; delete"):
        solve(kuhn, solver=Solver(iterations=9, checkpoint=file))


def test_a_changed_number_is_noticed(kuhn: HistoryTree, file: pathlib.Path):
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    numbers = next(name for name, array in arrays.items() if array.dtype.kind == "f" and array.size)
    np.savez(file, **{**arrays, numbers: arrays[numbers] * (1 + 1e-6)})
    with pytest.raises(
        ValueError, match=r"kuhn\.npz' is damaged: its checksum is not that of its content; delete this"
    ):
        solve(kuhn, solver=Solver(iterations=9, checkpoint=file))
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"kuhn\.npz' is damaged: .*; delete this file"):
        solve(kuhn, solver=Solver(iterations=9, checkpoint=file))


def test_a_checkpoint_without_its_checksum_is_damaged(kuhn: HistoryTree, file: pathlib.Path):
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(str(arrays["header"]))
    del header["checksum"]
    np.savez(file, **{**arrays, "header": np.asarray(json.dumps(header))})
    with pytest.raises(ValueError, match=r"kuhn\.npz' is damaged: it has no checksum"):
        solve(kuhn, solver=Solver(iterations=9, checkpoint=file))


def test_a_checkpoint_in_use_names_the_process(kuhn: HistoryTree, file: pathlib.Path):
    with (
        hold(file, "checkpoint"),
        pytest.raises(ValueError, match=rf"checkpoint '.*kuhn\.npz' is in use by process {os.getpid()} on"),
    ):
        solve(kuhn, solver=Solver(iterations=9, checkpoint=file))
    assert solve(kuhn, solver=Solver(iterations=9, checkpoint=file)).iterations == 9


def test_splits_of_two_solves_are_merged(tmp_path: pathlib.Path):
    save_chunk(tmp_path, "one", 7, 3)
    save_parts(tmp_path, [np.arange(3), np.arange(3, 9)])
    save_chunk(tmp_path, "other", 5, 2)
    assert load_chunk(tmp_path, "one", 7) == 3 and load_chunk(tmp_path, "other", 5) == 2
    parts = load_parts(tmp_path, 9)
    assert parts is not None and [part.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5, 6, 7, 8]]


def test_what_cannot_be_read_again_is_no_checkpoint(kuhn: HistoryTree, tmp_path: pathlib.Path):
    for special in ("/dev/full", "/dev/null"):
        with pytest.raises(
            ValueError, match=f"checkpoint '{special}' is a device or a pipe, and is to be read"
        ):
            solve(kuhn, solver=Solver(iterations=3, checkpoint=special))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe"):
        solve(kuhn, solver=Solver(iterations=3, checkpoint=tmp_path / "pipe"))


def test_a_link_to_a_checkpoint_stays_one(kuhn: HistoryTree, file: pathlib.Path, tmp_path: pathlib.Path):
    link = tmp_path / "link.npz"
    link.symlink_to(file)
    solve(kuhn, solver=Solver(iterations=9, checkpoint=link))
    assert link.is_symlink() and describe_kept(file) == f"{str(file)!r} keeps 1 checkpoint, of iteration 9"


def test_a_state_comes_back_with_its_types(tmp_path: pathlib.Path):
    state: Any = (jax.numpy.int32(3), np.arange(4, dtype=np.float32), (np.zeros((2, 0), np.float32),))
    save_checkpoint(tmp_path / "state.npz", "key", state)
    found: Any = load_checkpoint(tmp_path / "state.npz", "key", state)
    assert jax.tree.structure(found) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_what_is_kept_in_words(kuhn: HistoryTree, file: pathlib.Path, tmp_path: pathlib.Path):
    assert describe_kept(file) == f"{str(file)!r} keeps 1 checkpoint, of iteration 5"
    assert describe_kept(tmp_path / "nothing") == ""
    (tmp_path / "more").mkdir()
    solve(kuhn, solver=Solver(iterations=8, checkpoint=tmp_path / "more" / "other.npz"))
    Policy.uniform(kuhn).save(tmp_path / "policy.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK")
    assert describe_kept(tmp_path) == f"{str(tmp_path)!r} keeps 2 checkpoints, of iteration 5 to 8"


def test_going_on_is_logged_once(kuhn: HistoryTree, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture):
    """Where it is, if something is left to do; whoever uses the library hears nothing unless they ask."""
    assert logging.getLogger("jaxgadget").getEffectiveLevel() == logging.WARNING
    caplog.set_level("INFO", "jaxgadget")
    blueprint = Policy.uniform(kuhn)
    for iterations in (4, 4, 7):
        refine(kuhn, "depth:1", blueprint, solver=Solver(iterations=iterations, checkpoint=tmp_path))
    (place,) = tmp_path.glob("*.npz")
    assert caplog.messages == [f"Going on from {str(place)!r} at iteration 4 of 7."]
