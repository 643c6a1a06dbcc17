"""Atomic file writes: to a temporary file in the same folder, which is then moved.

A symbolic link is followed: its target is replaced, or created if missing. A device or a pipe cannot be
replaced; it receives the whole content at the end.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import pathlib
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Generator
from typing import IO

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

LEFT_OVER_SECONDS = 3600.0
"""Age in seconds from which an unlocked temporary file is regarded as left by a dead process."""

LONGEST_STEM = 100
"""Maximum bytes of a file name that is part of its temporary name; some systems allow names of 143 bytes."""


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """Yields a temporary file that replaces `path` when the block ends without an error.

    The new file has the permissions of the replaced one. Partial files of killed processes are removed after
    `LEFT_OVER_SECONDS`.

    Raises:
      ValueError: if the folder does not exist or cannot be written, or the existing file must not be changed.
      OSError: if writing fails, for example on a full disk; the error names the file.
    """
    check_writable(path)
    target = _destination(path)
    with _named(path):
        if _is_special(target):
            buffer = io.BytesIO()
            yield buffer
            with open(target, "wb", buffering=0) as special:
                # Not `getbuffer()`: an error's traceback may hold that view in a cycle, and buffers that are
                # collected with a view of them complain since Python 3.12 (python/cpython#111331); 3.12.0 and
                # 3.12.1 crash (python/cpython#111049).
                _write_all(special, memoryview(buffer.getvalue()))
            return
        _remove_left_over(target)
        # Not `tempfile`: its files are private to the user, and the umask cannot be read without changing it
        # for all threads. The system applies the umask to a file that is opened in the usual way.
        temporary = target.with_name(f".{_stem(target.name)}.{secrets.token_hex(8)}")
        mode = _mode(target)
        file = open(
            temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o666 if mode is None else mode)
        )
        try:
            with file:
                if mode is not None and _mode(temporary) != mode:  # the umask removed permissions
                    os.chmod(temporary, mode)
                _hold(file)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raises ValueError unless a file can be written at `path`; call it before long work."""
    shown = os.fspath(path)
    try:
        os.stat(path)
    except OSError as error:  # other errors are explained below
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError(f"cannot write {shown!r}: {error.strerror}; choose a shorter name") from error
    target = _destination(path)
    folder = target.parent
    if target.is_dir():
        raise ValueError(f"cannot write {shown!r}: it is a folder; expected the path of a file")
    if target.exists() and not os.access(target, os.W_OK):
        raise ValueError(f"cannot write {shown!r}: Permission denied; choose another file")
    if _is_special(target):
        return
    if any(_is_stream(target, descriptor) for descriptor in (1, 2)):
        raise ValueError(
            f"cannot write {shown!r}: standard output or standard error goes there and would be lost; choose "
            "another file"
        )
    if target.is_symlink():
        raise ValueError(f"cannot write {shown!r}: its symbolic links form a cycle; choose another file")
    if not folder.is_dir():
        raise ValueError(f"cannot write {shown!r}: folder {str(folder)!r} does not exist; create it first")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"cannot write {shown!r}: {error.strerror}; choose another folder") from error


def check_regular(path: str | os.PathLike[str], noun: str) -> None:
    """Raises ValueError if the path is a device or a pipe, which could not be read again."""
    if _is_special(pathlib.Path(path)):
        raise ValueError(
            f"{noun} {os.fspath(path)!r} is a device or a pipe, which cannot be read again; expected a file"
        )


def check_folder_name(path: object) -> None:
    """Raises ValueError unless `path` is a path; an empty one would mean the working folder."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"folder={path!r}: expected the path of a folder, such as 'results'")


def make_folder(path: str | os.PathLike[str]) -> None:
    """Creates a folder, or a link's target, if it does not exist; raises ValueError if it cannot."""
    check_folder_name(path)
    try:
        pathlib.Path(os.path.realpath(path)).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cannot use {os.fspath(path)!r} as a folder: {error.strerror}; choose another one"
        ) from error


def _destination(path: str | os.PathLike[str]) -> pathlib.Path:
    """The path to write: the target of a link, unless that is a device or a pipe."""
    target = pathlib.Path(path)
    return (
        pathlib.Path(os.path.realpath(target)) if target.is_symlink() and not _is_special(target) else target
    )


def _stem(name: str) -> str:
    """Stem of a temporary file's name: the file's name, or the beginning and a digest of a long one."""
    encoded = os.fsencode(name)
    if len(encoded) <= LONGEST_STEM:
        return name
    return f"{name[:20]}-{hashlib.sha256(encoded).hexdigest()[:16]}"


def _mode(path: pathlib.Path) -> int | None:
    """Permissions of a file; None if it does not exist."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _is_special(path: pathlib.Path) -> bool:
    """True for a device, a pipe or a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_stream(path: pathlib.Path, descriptor: int) -> bool:
    """True if a file descriptor of this process is open on the file."""
    with contextlib.suppress(OSError):
        return path.is_file() and os.path.samestat(os.stat(path), os.fstat(descriptor))
    return False


def _write_all(file: io.RawIOBase | io.FileIO, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


@contextlib.contextmanager
def _named(path: str | os.PathLike[str]) -> Generator[None]:
    """Adds the path to system errors without a file name."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _hold(file: IO[bytes]) -> None:
    """Locks a file that is being written; the lock is released if the process dies."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # file systems without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _remove_left_over(target: pathlib.Path) -> None:
    """Removes temporary files of the target that are old and unlocked."""
    pattern = re.compile(rf"\.{re.escape(_stem(target.name))}\.[0-9a-f]{{16}}")
    oldest = time.time() - LEFT_OVER_SECONDS
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                if entry.stat(follow_symlinks=False).st_mtime < oldest and not _is_held(entry.path):
                    os.unlink(entry.path)


def _is_held(path: str) -> bool:
    """True if a process is still writing the file; always False without file locks."""
    if fcntl is None:
        return False
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
