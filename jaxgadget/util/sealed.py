"""Files that notice when they are damaged: JSON records and NumPy archives with a checksum inside.

Files of versions up to 0.2 have no checksum and are read without.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import zipfile
from collections.abc import Generator, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from jaxgadget.util.digest import digest
from jaxgadget.util.files import atomic_writer

CHECKSUM = "checksum"
"""Its name in a record."""

HEADER = "header"
"""The record's name in an archive."""

LARGE_BYTES = 256 << 20
"""Archives of more are refused if packed too well (`MOST_PACKED`); of half as much none are compressed."""

MOST_PACKED = 100
"""So many times as large may an archive unpack that is larger then than `LARGE_BYTES`."""

Arrays = Mapping[str, npt.NDArray[Any]]


class ForeignError(ValueError):
    """A file that none of our writers wrote."""


class DamagedError(ValueError):
    """A file that is not as it was written."""


def checksum(record: Mapping[str, Any], arrays: Arrays | None = None) -> str:
    """What stands for a record as JSON has it, and for arrays by name."""
    total = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name, array in sorted((arrays or {}).items()):
        total.update(f"{name} {digest(array)}".encode())
    return total.hexdigest()


def file_checksum(path: pathlib.Path) -> str:
    """What stands for a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(record: Mapping[str, Any], arrays: Arrays | None = None) -> dict[str, Any]:
    """The record with the checksum of itself and of arrays that belong to it."""
    return {**record, CHECKSUM: checksum(record, arrays)}


def unseal(record: Mapping[str, Any], arrays: Arrays | None = None) -> dict[str, Any]:
    """The record without its checksum, if it has one; `DamagedError` if it is of something else."""
    bare = {name: value for name, value in record.items() if name != CHECKSUM}
    if CHECKSUM in record and record[CHECKSUM] != checksum(bare, arrays):
        raise DamagedError("its checksum is not that of its content")
    return bare


def write_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Writes a JSON object with its checksum, atomically; `read_record` reads it."""
    with atomic_writer(path) as file:
        file.write((json.dumps(seal(record), indent=1, ensure_ascii=False) + "\n").encode())


def read_record(path: pathlib.Path, remedy: str) -> dict[str, Any] | None:
    """A JSON object without its checksum.

    Args:
      path: of the file.
      remedy: what to do about a damaged one, for the error: `delete it to start again`.

    Returns:
      The object; None if there is no file.

    Raises:
      ValueError: if the file cannot be read, holds something else or was changed; with the remedy.
    """
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}; {remedy}") from error
    try:
        record = _parse(text)
        if not isinstance(record, dict):
            raise DamagedError("it holds no JSON object")
        return unseal(record)
    except (ValueError, RecursionError) as error:
        raise damaged(path, error, remedy) from error


def _parse(text: bytes) -> Any:
    """What JSON says; `DamagedError` in words if it is none."""
    if not text.strip():
        raise DamagedError("it is empty")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedError(f"it is no JSON, or only a part of it ({error})") from error


def damaged(path: pathlib.Path, error: BaseException, remedy: str) -> DamagedError:
    """The error for a file that is not as it was written: what is wrong with it, and the remedy."""
    said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return DamagedError(f"{str(path)!r} is damaged: {said}; {remedy}")


def write_archive(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Arrays, *, compress: bool = False
) -> None:
    """Writes arrays and a JSON object about them as `.npz` with their checksum, atomically.

    Args:
      path: of the file.
      header: the object.
      arrays: by name.
      compress: unless they are large.
    """
    stored: dict[str, Any] = {HEADER: np.asarray(json.dumps(seal(header, arrays))), **arrays}
    # Half, as the reader counts what describes each array too.
    small = sum(array.nbytes for array in stored.values()) <= LARGE_BYTES // 2
    with atomic_writer(path) as file:
        (np.savez_compressed if compress and small else np.savez)(file, **stored)


def read_archive(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header, without its checksum, and arrays of what `write_archive` wrote.

    Raises:
      OSError: if the file cannot be read.
      ForeignError: if it is something else.
      DamagedError: if it was changed, or would unpack to far more than it should.
    """
    with _opened(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
        header = _parse_header(arrays)
        del arrays[HEADER]
        return unseal(header, arrays), arrays


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header alone, so that no checksum tells whether the arrays are as they were; see `read_archive`."""
    with _opened(path) as archive:
        header = _parse_header(archive)
        return {name: value for name, value in header.items() if name != CHECKSUM}


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Generator[Any]:
    """NumPy's archive, whose arrays are read when asked for; raises as `read_archive`, also for these."""
    with open(path, "rb") as file:
        if not _is_archive(file):
            raise ForeignError("it is no NumPy archive")
        try:
            _check_size(file)
            with np.load(file, allow_pickle=False) as archive:
                yield archive
        except (ForeignError, DamagedError, MemoryError):
            raise
        except Exception as error:  # zipfile, zlib, NumPy and JSON have one of their own for everything
            raise DamagedError(f"{type(error).__name__}: {error}") from error


def _parse_header(arrays: Arrays) -> dict[str, Any]:
    """The record that an archive has about its other arrays."""
    if HEADER not in arrays:
        raise ForeignError(f"it has no {HEADER!r}")
    header: Any = json.loads(str(arrays[HEADER]))
    if not isinstance(header, dict):
        raise ForeignError(f"its {HEADER!r} is no JSON object")
    return header  # pyright: ignore[reportUnknownVariableType]


def _is_archive(file: IO[bytes]) -> bool:
    """Whether it begins or ends as archives do: damage spares one or the other."""
    begin = file.read(2)
    file.seek(0)
    known = begin == b"PK" or zipfile.is_zipfile(file)
    file.seek(0)
    return known


def _check_size(file: IO[bytes]) -> None:
    """`DamagedError` if an archive says that it unpacks to far more than its size."""
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    packed = os.fstat(file.fileno()).st_size
    if unpacked > max(LARGE_BYTES, MOST_PACKED * packed):
        raise DamagedError(
            f"its {packed:,} bytes would unpack to {unpacked:,}, more than {MOST_PACKED} times as many"
        )
    file.seek(0)
