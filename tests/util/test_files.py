"""Files are whole or not there."""

import os
import stat

import pytest

from jaxgadget.games.registry import load
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import enumerate_game
from jaxgadget.util.files import atomic_writer, check_writable


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out.bin"
    with atomic_writer(path) as file:
        file.write(b"one ")
        assert not path.exists()
        file.write(b"two")
    assert path.read_bytes() == b"one two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.bin"]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failing_write_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with pytest.raises(failure), atomic_writer(path) as file:
        file.write(b"new, but")
        raise failure
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.bin"]


def test_a_failing_first_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), atomic_writer(tmp_path / "out.bin") as file:
        file.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_policy_that_cannot_be_written_keeps_the_old_file(tmp_path, monkeypatch):
    tree = enumerate_game(load("kuhn_poker"))
    path = tmp_path / "policy.npz"
    Policy.uniform(tree).save(path)
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numpy.savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        Policy.dirichlet(tree, 0).save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy.npz"]


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_new_files_have_the_usual_permissions(tmp_path, monkeypatch, mask):
    """Not those of a temporary file, which only its owner may read; and the umask is never changed, as other
    threads' files would get the changed one."""
    before, set_umask = os.umask(mask), os.umask
    monkeypatch.setattr("os.umask", lambda mask: pytest.fail("changed for all threads"))
    try:
        with atomic_writer(tmp_path / "ours") as file:
            file.write(b"")
    finally:
        set_umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "ours").st_mode) == 0o666 & ~mask


def test_paths_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"")
    cases = [
        (tmp_path, r"it is a folder; expected the path of a file"),
        (tmp_path / "missing" / "out", r"folder '.*missing' does not exist; create it first"),
        (file / "out", r"folder '.*file' does not exist"),
    ]
    for path, message in cases:
        for attempt in (check_writable, lambda p: atomic_writer(p).__enter__()):
            with pytest.raises(ValueError, match=rf"cannot write .*: {message}"):
                attempt(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    """Root may write anywhere, so the refusal is the operating system's in disguise."""

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"cannot write '.*out': Permission denied; choose another folder"):
        check_writable(tmp_path / "out")


def test_checking_leaves_no_trace(tmp_path):
    check_writable(tmp_path / "out")
    check_writable(str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []
