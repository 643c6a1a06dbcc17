"""Checkpoints of solves: damaged files and those of other solves are refused by name."""

import json
import os
import pathlib
from typing import Any

import jax
import numpy as np
import pytest

from jaxgadget import HistoryTree, Policy, Solver, refine, solve
from jaxgadget.core.checkpoint import (
    OLDER_SPLITS,
    load_checkpoint,
    load_chunk,
    load_parts,
    save_checkpoint,
    save_chunk,
    save_parts,
)
from jaxgadget.util.locks import hold


@pytest.fixture
def file(kuhn: HistoryTree, tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "kuhn.npz"
    solve(kuhn, solver=Solver(iterations=5, checkpoint=path))
    return path


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
    with pytest.raises(ValueError, match=r"0\.4 or an earlier release"):
        refine(kuhn, "depth:1", Policy.uniform(kuhn), solver=Solver(iterations=2, checkpoint=tmp_path))


def test_a_checkpoint_in_use_names_the_process(kuhn: HistoryTree, file: pathlib.Path):
    with (
        hold(file, "checkpoint"),
        pytest.raises(ValueError, match=rf"kuhn\.npz' is in use by process {os.getpid()}"),
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


def test_devices_and_pipes_are_not_checkpoints(kuhn: HistoryTree, tmp_path: pathlib.Path):
    for special in ("/dev/full", "/dev/null"):
        with pytest.raises(ValueError, match=f"{special}' is a device"):
            solve(kuhn, solver=Solver(iterations=3, checkpoint=special))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe"):
        solve(kuhn, solver=Solver(iterations=3, checkpoint=tmp_path / "pipe"))


def test_a_state_is_read_back_with_its_types(tmp_path: pathlib.Path):
    state: Any = (jax.numpy.int32(3), np.arange(4, dtype=np.float32), (np.zeros((2, 0), np.float32),))
    save_checkpoint(tmp_path / "state.npz", "key", state)
    found: Any = load_checkpoint(tmp_path / "state.npz", "key", state)
    assert jax.tree.structure(found) == jax.tree.structure(state)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(state), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
