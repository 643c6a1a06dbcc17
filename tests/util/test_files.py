"""Atomic writes of files."""

import errno
import os
import pathlib
import stat
import subprocess
import sys
import threading
import time

import pytest

from jaxgadget.util.files import LEFT_OVER_SECONDS, atomic_writer, check_regular, check_writable, make_folder


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


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_new_files_have_the_usual_permissions(tmp_path, monkeypatch, mask):
    """Not those of a temporary file, which only its owner may read. The umask is never changed, because that
    would affect files of other threads.
    """
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
    """Root may write anywhere, so the operating system's refusal is simulated."""

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"cannot write '.*out': Permission denied"):
        check_writable(tmp_path / "out")


# --- links, pipes, devices ------------------------------------------------------------------


def write(path: pathlib.Path, content: bytes = b"new"):
    with atomic_writer(path) as file:
        file.write(content)


def test_a_link_is_followed(tmp_path):
    """Also to another folder, and through another link; the target is replaced, not the link."""
    (tmp_path / "far").mkdir()
    target, link, first = tmp_path / "far" / "target", tmp_path / "link", tmp_path / "first"
    target.write_bytes(b"old")
    link.symlink_to("far/target")
    first.symlink_to(link)
    write(first)
    assert target.read_bytes() == b"new" and link.is_symlink() and first.is_symlink()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "first", "link", "target"]


def test_a_dangling_link_makes_its_target(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    write(link)
    assert link.is_symlink() and (tmp_path / "target").read_bytes() == b"new"
    folder = tmp_path / "folder"
    folder.symlink_to(tmp_path / "made")
    make_folder(folder)
    assert (tmp_path / "made").is_dir()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name on this system")
def test_a_pipe_stays_one_and_gets_everything(tmp_path):
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    content = bytes(range(256)) * 1000  # more than a pipe holds
    write(pipe, content)
    reader.join(10)
    assert read == [content] and pipe.is_fifo()
    with pytest.raises(ValueError, match="checkpoint"):
        check_regular(pipe, "checkpoint")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_device_is_named_and_stays_a_device(tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    for path in ("/dev/full", link):
        with pytest.raises(OSError, match="No space left") as caught:
            write(path)
        assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode) and link.is_symlink()
    write("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_the_file_that_standard_output_goes_to_is_not_replaced(tmp_path):
    """By any name: otherwise the output would be lost with the old file."""
    path = tmp_path / "out.txt"
    script = "import sys; from jaxgadget.util.files import check_writable; check_writable(sys.argv[1])"
    for name in ("out.txt", "/dev/stdout"):
        if os.path.exists(name) or name == "out.txt":
            with open(path, "wb") as out:
                command = [sys.executable, "-c", script, name]
                environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
                done = subprocess.run(
                    command, cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.PIPE, text=True
                )
            assert f"cannot write {name!r}: standard output or standard error goes there" in done.stderr


# --- full disks, and leftovers of killed processes -------------------------------------------


def test_a_full_disk_is_reported_with_the_file(tmp_path, monkeypatch):
    def full(number: int):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*out\.bin'"):
        write(tmp_path / "out.bin")
    assert list(tmp_path.iterdir()) == []


def left_over(path: pathlib.Path, age: float) -> pathlib.Path:
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_leftovers_of_a_killed_write_are_removed_by_the_next(tmp_path):
    old, young = 2 * LEFT_OVER_SECONDS, 0.5 * LEFT_OVER_SECONDS
    gone = [left_over(tmp_path / f".out.bin.{number:016x}", old) for number in range(2)]
    kept = [
        left_over(tmp_path / ".out.bin.00000000000000aa", young),
        left_over(tmp_path / ".other.bin.00000000000000aa", old),
        left_over(tmp_path / ".out.bin.notes", old),
        left_over(tmp_path / "out.bin.00000000000000aa", old),
        left_over(tmp_path / ".outxbin.00000000000000aa", old),
    ]
    write(tmp_path / "out.bin")
    assert not any(path.exists() for path in gone)
    assert all(path.read_bytes() == b"half" for path in kept)
    assert (tmp_path / "out.bin").read_bytes() == b"new"


HOLDER = """
import sys, time, pathlib
from jaxgadget.util.files import atomic_writer
with atomic_writer(sys.argv[1]) as file:
    file.write(b"first ")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
    file.write(b"last")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of this kind")
def test_a_process_that_is_still_writing_keeps_its_file_however_old(tmp_path):
    path = tmp_path / "out.bin"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        assert writer.stdout.readline() == "writing\n"
        (temporary,) = tmp_path.iterdir()
        os.utime(temporary, (time.time() - 2 * LEFT_OVER_SECONDS,) * 2)
        write(path)
        assert temporary.exists()
        writer.stdin.close()
        assert writer.wait(30) == 0
    assert path.read_bytes() == b"first last"
    assert list(tmp_path.iterdir()) == [path]


# --- long names, and the permissions of what is replaced --------------------------------------


def test_as_long_a_name_as_the_system_allows_can_be_written(tmp_path):
    """A temporary file's name is no longer than that; only leftovers of killed processes are removed."""
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    first, second = tmp_path / ("x" * longest), tmp_path / ("x" * (longest - 1) + "y")
    check_writable(first)
    with pytest.raises(KeyboardInterrupt), atomic_writer(first):
        (temporary,) = tmp_path.iterdir()
        raise KeyboardInterrupt
    left_over(temporary, 2 * LEFT_OVER_SECONDS)
    write(second)
    assert temporary.exists()
    write(first)
    assert sorted(tmp_path.iterdir()) == [first, second]
    letters = tmp_path / ("\N{GREEK SMALL LETTER KAPPA}" * (longest // 2))
    write(letters)
    assert letters.read_bytes() == b"new"


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    """From the start: a reader without permission cannot read the partial file either."""
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(mode)
    link.symlink_to(path)
    with atomic_writer(link) as file:
        file.write(b"new")
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == mode
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == mode


def test_a_file_that_must_not_be_changed_is_refused(tmp_path, monkeypatch):
    """Root may change any file, so the operating system's refusal is simulated."""
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o444)
    monkeypatch.setattr(
        "os.access", lambda asked, what: not (pathlib.Path(asked) == path and what == os.W_OK)
    )
    for attempt in (check_writable, write):
        with pytest.raises(ValueError, match=r"cannot write '.*out': Permission denied"):
            attempt(path)
    assert path.read_bytes() == b"old"
    path.chmod(0o666)
