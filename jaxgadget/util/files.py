"""Files that are whole or not there: written beside their place, then moved."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import tempfile
from collections.abc import Generator
from typing import IO


@contextlib.contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """Opens a temporary file that replaces `path` when the block ends without an error.

    Raises:
      ValueError: if the folder does not exist or cannot be written.
    """
    target = pathlib.Path(path)
    check_writable(target)
    # Not `tempfile`: its files are closed to others, and the umask cannot be read without changing it for all
    # threads. The system itself applies it to a file that is opened like any other.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    file = open(temporary, "xb")
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """ValueError unless a file can be written at `path`: before the work, not after it."""
    target = pathlib.Path(path)
    folder = target.parent
    if target.is_dir():
        raise ValueError(f"cannot write {str(target)!r}: it is a folder; expected the path of a file")
    if not folder.is_dir():
        raise ValueError(
            f"cannot write {str(target)!r}: folder {str(folder)!r} does not exist; create it first"
        )
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"cannot write {str(target)!r}: {error.strerror}; choose another folder") from error


def make_folder(path: str | os.PathLike[str]) -> None:
    """Makes a folder if it is not there; ValueError if that is impossible."""
    try:
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"cannot use {os.fspath(path)!r} as a folder: {error.strerror}; choose another one"
        ) from error
