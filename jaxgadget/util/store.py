"""Files of results: JSON records, NumPy archives and rows of JSON lines.

Every file, and every row, names its format, the format's version and the release that wrote it, and carries a
SHA-256 checksum of its content. Records and archives are replaced atomically. Rows are read again and merged
under a lock before they are written, so that several processes can add to one file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import logging
import math
import os
import pathlib
import zipfile
from collections.abc import Generator, Iterable, Mapping
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jaxgadget.util.digest import digest
from jaxgadget.util.files import atomic_writer, check_regular, check_writable
from jaxgadget.util.locks import wait_for
from jaxgadget.util.records import jsonable, null_to_nan

FORMAT, VERSION, RELEASE, CHECKSUM = "format", "version", "written_by", "checksum"
"""Fields of a record that describe the file; functions that read records omit them."""

HEADER = "header"
"""Name of the JSON record in an archive."""

KEY = "key"
"""Field of a row."""

LARGE_BYTES = 256 << 20
"""Archives that unpack to more bytes than this are rejected if their ratio exceeds `MAX_PACKING`; those of
more than half of it are stored without compression."""

MAX_PACKING = 100
"""Largest ratio of unpacked to packed bytes of an archive that unpacks to more than `LARGE_BYTES`."""

Arrays = Mapping[str, npt.NDArray[Any]]

log = logging.getLogger(__name__)


class ForeignError(ValueError):
    """A file that this package did not write, or a file of another format or version."""


class DamagedError(ValueError):
    """A file whose content differs from what was written."""


class Archive(NamedTuple):
    """A header and arrays by name."""

    header: dict[str, Any]
    arrays: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Format:
    """A kind of file.

    Attributes:
      name: name in the file, such as `jaxgadget checkpoint`.
      version: version in the file.
      noun: name of this kind of file in errors, followed by the path.
      remedy: advice for a damaged file.
      older: earlier versions that are still read.
      unsealed: versions that release 0.2 wrote without a checksum, which are still read; None for records
        without a version.
      anonymous: True to read records without a name, as releases up to 0.4 wrote them.
      releases: for each version that is no longer read, the releases that wrote it; version 0 stands for
        files that name no format.
    """

    name: str
    version: int
    noun: str
    remedy: str
    older: tuple[int, ...] = ()
    unsealed: tuple[int | None, ...] = ()
    anonymous: bool = False
    releases: Mapping[int, str] = dataclasses.field(default_factory=dict[int, str])

    def label(self, path: str | os.PathLike[str]) -> str:
        """The file's name in errors."""
        return f"{self.noun} {os.fspath(path)!r}"

    def damaged(self, path: str | os.PathLike[str], error: BaseException) -> DamagedError:
        """The error for a file whose content differs from what was written."""
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return DamagedError(f"{self.label(path)} is damaged: {reason}; {self.remedy}")

    def seal(self, record: Mapping[str, Any], arrays: Arrays | None = None) -> dict[str, Any]:
        """The record with format, version, release and a checksum of these, the content and the arrays."""
        described = {FORMAT: self.name, VERSION: self.version, **record, RELEASE: _release()}
        return {**described, CHECKSUM: checksum(described, arrays)}

    def unseal(
        self, path: str | os.PathLike[str], record: Mapping[str, Any], arrays: Arrays | None = None
    ) -> dict[str, Any]:
        """The content of a record that `seal` made.

        Args:
          path: path of the file, for errors.
          record: a record with format, version, release and checksum.
          arrays: arrays that were sealed with the record.

        Raises:
          ForeignError: for another format or a version that is not read.
          DamagedError: if the checksum is missing or wrong.
        """
        self.check(path, record)
        content = {name: value for name, value in record.items() if name != CHECKSUM}
        if CHECKSUM in record:
            if record[CHECKSUM] != checksum(content, arrays):
                raise self.damaged(path, ValueError("its checksum does not match its content"))
        elif RELEASE in record or identify(record)[1] not in self.unsealed:
            raise self.damaged(path, ValueError("it has no checksum, and only release 0.2 wrote none"))
        return {name: value for name, value in content.items() if name not in (FORMAT, VERSION, RELEASE)}

    def check(self, path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
        """Raises ForeignError unless the record names this format and a version that is read."""
        name, version = identify(record)
        if name is None and self.anonymous and version in (None, *self.older):
            return
        if name != self.name:
            identity = f"is {name!r} version {version}"
            if name is None:
                identity = f"was written by {self.releases[0]}" if 0 in self.releases else "names no format"
            raise ForeignError(
                f"{self.label(path)} {identity}; expected {self.name!r} version {self.version}: "
                "choose another file"
            )
        if version not in (self.version, *self.older):
            release = record.get(RELEASE) or self.releases.get(version or 0, "another release")
            raise ForeignError(
                f"{self.label(path)} is {name!r} version {version}, written by {release}; this release reads "
                f"version {self.version}: choose another file"
            )


def identify(record: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Format and version of a record; None for missing ones.

    Releases up to 0.4 wrote some versions at the end of the name, and some without a name.
    """
    name, version = record.get(FORMAT), record.get(VERSION)
    if not isinstance(name, str):
        return None, name if type(name) is int else None
    if version is None:
        begin, _, end = name.rpartition(" ")
        return (begin, int(end)) if end.isdecimal() else (name, None)
    return name, version if isinstance(version, int) else None


@functools.cache
def _release() -> str:
    return f"jaxgadget {importlib.metadata.version('jaxgadget')}"


def checksum(record: Mapping[str, Any], arrays: Arrays | None = None) -> str:
    """SHA-256 of a JSON record and of arrays by name."""
    total = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name, array in sorted((arrays or {}).items()):
        total.update(f"{name} {digest(array)}".encode())
    return total.hexdigest()


def file_checksum(path: pathlib.Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- records ------------------------------------------------------------------------------


def write_record(path: str | os.PathLike[str], format: Format, record: Mapping[str, Any]) -> None:
    """Writes a JSON object atomically."""
    with atomic_writer(path) as file:
        file.write((json.dumps(format.seal(record), indent=1, ensure_ascii=False) + "\n").encode())


def read_record(path: str | os.PathLike[str], format: Format) -> dict[str, Any] | None:
    """The JSON object that `write_record` wrote; None if there is no file.

    Raises:
      ValueError: if the file cannot be read, is damaged, or has another format or version; the message states
        the remedy.
    """
    text = _read_bytes(path, format)
    if text is None:
        return None
    try:
        record = _parse(text)
    except (ValueError, RecursionError) as error:
        raise format.damaged(path, error) from error
    return format.unseal(path, record)


def _read_bytes(path: str | os.PathLike[str], format: Format) -> bytes | None:
    """Content of a file; None if it does not exist."""
    check_regular(path, format.noun)
    try:
        return pathlib.Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"{format.label(path)} cannot be read: {error.strerror}; {format.remedy}") from error


def _parse(text: bytes) -> dict[str, Any]:
    """Parses a JSON object; raises ValueError for an empty or invalid text and for other values."""
    if not text.strip():
        raise ValueError("it is empty")
    try:
        record: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is invalid or truncated JSON ({error})") from error
    if not isinstance(record, dict):
        raise ValueError("it holds no JSON object")
    return record  # pyright: ignore[reportUnknownVariableType]


# --- archives -----------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str],
    format: Format,
    header: Mapping[str, Any],
    arrays: Arrays,
    *,
    compress: bool = False,
) -> None:
    """Writes a JSON object and arrays by name as `.npz`, atomically; large archives are not compressed."""
    stored: dict[str, Any] = {HEADER: np.asarray(json.dumps(format.seal(header, arrays))), **arrays}
    # Half, because the reader also counts the header of each array.
    is_small = sum(array.nbytes for array in stored.values()) <= LARGE_BYTES // 2
    with atomic_writer(path) as file:
        (np.savez_compressed if compress and is_small else np.savez)(file, **stored)


def read_archive(path: str | os.PathLike[str], format: Format) -> Archive | None:
    """Header and arrays that `write_archive` wrote; None if there is no file.

    Raises:
      ForeignError: for a file that is not an archive of this format and of a version that is read.
      DamagedError: if the content changed, or would unpack to far more than the file's size.
      ValueError: if the file cannot be read.
    """
    with _open(path, format) as archive:
        if archive is None:
            return None
        header = _parse_header(path, format, archive)
        arrays = {name: archive[name] for name in archive.files if name != HEADER}
        return Archive(format.unseal(path, header, arrays), arrays)


def read_header(path: str | os.PathLike[str], format: Format) -> dict[str, Any] | None:
    """Reads only the header, without verifying its checksum; otherwise as `read_archive`."""
    with _open(path, format) as archive:
        if archive is None:
            return None
        header = _parse_header(path, format, archive)
        return {k: v for k, v in header.items() if k not in (FORMAT, VERSION, RELEASE, CHECKSUM)}


_UNKNOWN = Format(name="", version=0, noun="file", remedy="write it again")


def find_format(path: str | os.PathLike[str]) -> str | None:
    """Name of the format of an archive; None if there is none or it cannot be read."""
    with contextlib.suppress(ValueError), _open(path, _UNKNOWN) as archive:
        return None if archive is None else identify(json.loads(str(archive[HEADER])))[0]
    return None


@contextlib.contextmanager
def _open(path: str | os.PathLike[str], format: Format) -> Generator[Any]:
    """Yields NumPy's lazy archive; None if there is no file. Raises as `read_archive`."""
    check_regular(path, format.noun)
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise ValueError(f"{format.label(path)} cannot be read: {error.strerror}") from error
    with file:
        if not _is_archive(file):
            raise ForeignError(
                f"{format.label(path)} is not a NumPy archive of jaxgadget; choose another file"
            )
        try:
            _check_sizes(file)
            with np.load(file, allow_pickle=False) as archive:
                yield archive
        except (DamagedError, ForeignError):
            raise
        except MemoryError as error:
            raise MemoryError(
                f"{format.label(path)} cannot be read: {str(error) or 'no memory is left'}"
            ) from error
        except Exception as error:  # zipfile, zlib, NumPy and JSON raise various errors
            raise format.damaged(path, error) from error


def _parse_header(path: str | os.PathLike[str], format: Format, arrays: Any) -> dict[str, Any]:
    """The record of an archive, of this format; its checksum is not verified."""
    header: Any = json.loads(str(arrays[HEADER])) if HEADER in arrays else None
    if not isinstance(header, dict):
        raise ForeignError(
            f"{format.label(path)} is not an archive of jaxgadget: it has no JSON object {HEADER!r}; choose "
            "another file"
        )
    format.check(path, header)  # pyright: ignore[reportUnknownArgumentType]
    return header  # pyright: ignore[reportUnknownVariableType]


def _is_archive(file: IO[bytes]) -> bool:
    """True if the file begins or ends like a zip archive, as damage mostly leaves one of both intact."""
    begin = file.read(2)
    file.seek(0)
    is_archive = begin == b"PK" or zipfile.is_zipfile(file)
    file.seek(0)
    return is_archive


def _check_sizes(file: IO[bytes]) -> None:
    """Raises ValueError if an archive claims more bytes than its size allows, in total or in one array."""
    packed = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > max(LARGE_BYTES, MAX_PACKING * packed):
            raise ValueError(
                f"its {packed:,} bytes would unpack to {unpacked:,}, more than {MAX_PACKING} times as many"
            )
        for member in members:
            with archive.open(member) as array:
                claimed = _claimed_bytes(array)
            if claimed > member.file_size:
                raise ValueError(
                    f"its array {member.filename!r} claims {claimed:,} bytes and has {member.file_size:,}"
                )
    file.seek(0)


def _claimed_bytes(array: IO[bytes]) -> int:
    """Bytes of an array according to its `.npy` header."""
    version = np.lib.format.read_magic(array)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(array)
    return math.prod(shape) * dtype.itemsize


# --- rows ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Rows:
    """A file of JSON lines, with one row per line, each with a key and a checksum.

    NaN is written as null and read back as NaN.

    Attributes:
      path: path of the file.
      format: format of each row.
    """

    path: pathlib.Path
    format: Format

    def read(self) -> dict[str, dict[str, Any]]:
        """The rows by key; empty if there is no file.

        An incomplete last line is omitted, with a warning in the log.

        Raises:
          ValueError: if the file cannot be read or a line is not a row of this format; the message names the
            line.
        """
        text = _read_bytes(self.path, self.format)
        lines = [] if text is None else text.split(b"\n")
        rows: dict[str, dict[str, Any]] = {}
        for line_number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record: Any = json.loads(line)
                if not isinstance(record, dict) or not isinstance(record.get(KEY), str):
                    raise ForeignError("it is not a row of this command")
            except (ValueError, RecursionError) as error:
                if line_number == len(lines) and self._is_cut(line) and not isinstance(error, ForeignError):
                    log.warning(
                        "%s: line %d is truncated and was skipped.",
                        self.format.label(self.path),
                        line_number,
                    )
                    continue
                raise ForeignError(
                    f"{self.format.label(self.path)}, line {line_number}, is not a result of this command "
                    f"({error}); choose another file, or remove that line"
                ) from error
            row: dict[str, Any] = record
            rows[row[KEY]] = self._unseal(row, line_number)
        return rows

    def _is_cut(self, line: bytes) -> bool:
        """True if a text is, or could be, the beginning of a row of this format."""
        begin = json.dumps({FORMAT: self.format.name}, ensure_ascii=False).encode()[:-1]
        return line.startswith(begin) or begin.startswith(line)

    def _unseal(self, row: dict[str, Any], line_number: int) -> dict[str, Any]:
        line = dataclasses.replace(self.format, noun=f"line {line_number} of {self.format.noun}")
        content = line.unseal(self.path, row)
        return {name: null_to_nan(value) for name, value in content.items() if name != KEY}

    def add(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Adds rows by key to the current content of the file, and returns all rows.

        A row replaces an earlier row with the same key. Processes that add rows at the same time wait for
        each other.

        Raises:
          ValueError: as `read`.
        """
        check_writable(self.path)
        with wait_for(self.path):
            merged = self.read() | {key: dict(row) for key, row in rows.items()}
            with atomic_writer(self.path) as file:
                file.writelines(self._lines(merged))
        return merged

    def _lines(self, rows: Mapping[str, Mapping[str, Any]]) -> Iterable[bytes]:
        for key, row in rows.items():
            sealed = self.format.seal({KEY: key, **jsonable(row)})
            yield (json.dumps(sealed, ensure_ascii=False, allow_nan=False) + "\n").encode()
