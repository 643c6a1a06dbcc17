"""Checkpoints of solves: what is damaged is named, what is of another solve refused, what is kept told."""

import json
import logging
import os
import pathlib
from typing import Any

import jax
import numpy as np
import pytest

from jaxgadget import HistoryTree, Policy, enumerate_game, load, refine, solve
from jaxgadget.solving.checkpoint import describe_kept, load_checkpoint, save_checkpoint


@pytest.fixture(scope="module")
def kuhn() -> HistoryTree:
    return enumerate_game(load("kuhn_poker"))


@pytest.fixture
def file(kuhn: HistoryTree, tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "kuhn.npz"
    solve(kuhn, iterations=5, checkpoint=path)
    return path


def rewrite(path: pathlib.Path, **changes: Any) -> None:
    """With other arrays, and without a checksum, as version 0.2 wrote it."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(str(arrays["header"]))
    del header["checksum"]
    np.savez(path, **{**arrays, "header": np.asarray(json.dumps(header)), **changes})


def test_checkpoints_of_version_0_2_are_read(kuhn: HistoryTree, file: pathlib.Path):
    rewrite(file)
    resumed, straight = solve(kuhn, iterations=9, checkpoint=file), solve(kuhn, iterations=9)
    assert resumed.nash_conv == straight.nash_conv


@pytest.mark.parametrize(
    "changes", [{"leaf_1": np.zeros(3)}, {"leaf_99": np.zeros(3)}, {"leaf_0": np.float64(5)}]
)
def test_other_shapes_are_refused(kuhn: HistoryTree, file: pathlib.Path, changes: dict[str, Any]):
    rewrite(file, **changes)
    with pytest.raises(
        ValueError, match=r"kuhn\.npz' is damaged \(its arrays have other shapes\); delete it"
    ):
        solve(kuhn, iterations=9, checkpoint=file)


def test_a_changed_number_is_noticed(kuhn: HistoryTree, file: pathlib.Path):
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    numbers = next(name for name, array in arrays.items() if array.dtype.kind == "f" and array.size)
    np.savez(file, **{**arrays, numbers: arrays[numbers] * (1 + 1e-6)})
    with pytest.raises(
        ValueError, match=r"kuhn\.npz' is damaged \(its checksum is not that of its content\); del"
    ):
        solve(kuhn, iterations=9, checkpoint=file)
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"kuhn\.npz' is damaged \(.*\); delete it to start again"):
        solve(kuhn, iterations=9, checkpoint=file)


def test_what_cannot_be_read_again_is_no_checkpoint(kuhn: HistoryTree, tmp_path: pathlib.Path):
    for special in ("/dev/full", "/dev/null"):
        with pytest.raises(
            ValueError, match=f"checkpoint '{special}' is a device or a pipe, and is to be read"
        ):
            solve(kuhn, iterations=3, checkpoint=special)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        ValueError, match=r"pipe' is a device or a pipe, and is to be read again; expected a file"
    ):
        solve(kuhn, iterations=3, checkpoint=tmp_path / "pipe")


def test_a_link_to_a_checkpoint_stays_one(kuhn: HistoryTree, file: pathlib.Path, tmp_path: pathlib.Path):
    link = tmp_path / "link.npz"
    link.symlink_to(file)
    solve(kuhn, iterations=9, checkpoint=link)
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
    solve(kuhn, iterations=8, checkpoint=tmp_path / "more" / "other.npz")
    Policy.uniform(kuhn).save(tmp_path / "policy.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK")
    assert describe_kept(tmp_path) == f"{str(tmp_path)!r} keeps 2 checkpoints, of iteration 5 to 8"


def test_going_on_is_logged_once(kuhn: HistoryTree, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture):
    """Where it is, if something is left to do; whoever uses the library hears nothing unless they ask."""
    assert logging.getLogger("jaxgadget").getEffectiveLevel() == logging.WARNING
    caplog.set_level("INFO", "jaxgadget")
    blueprint = Policy.uniform(kuhn)
    for iterations in (4, 4, 7):
        refine(kuhn, "depth:1", blueprint, iterations=iterations, checkpoint=tmp_path)
    (place,) = tmp_path.glob("*.npz")
    assert caplog.messages == [f"Going on from {str(place)!r} at iteration 4 of 7."]
