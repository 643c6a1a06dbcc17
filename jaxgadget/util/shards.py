"""Results in a folder: a manifest of the request, and an archive for each part, written atomically."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from jaxgadget.util.files import make_folder
from jaxgadget.util.folders import KINDS, MANIFEST, find_kind, wrong_folder
from jaxgadget.util.store import (
    Archive,
    Arrays,
    Format,
    checksum,
    read_archive,
    read_header,
    read_record,
    write_archive,
    write_record,
)

REQUEST = "request"
"""Field of an archive's header: checksum of the request that its results are for."""


class ShardFolder:
    """Results of one request, in archives numbered from 0.

    Args:
      folder: path of the folder, created if it does not exist.
      request: all inputs that determine the results.
      manifest: format of the manifest.
      shards: format of the archives; their names begin with its noun.

    Attributes:
      folder: the folder.

    Raises:
      ValueError: if the folder cannot be used, or holds other files or results of another request.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        request: Mapping[str, Any],
        *,
        manifest: Format,
        shards: Format,
    ):
        make_folder(folder)
        self.folder, self._shards = pathlib.Path(folder), shards
        request = json.loads(json.dumps(request))
        self._request = checksum(request)
        recorded = read_manifest(folder, manifest)
        if recorded is None:
            for path in sorted(self.folder.glob(f"{shards.noun}-*")):
                if (read_header(path, shards) or {}).get(REQUEST) != self._request:
                    raise ValueError(
                        f"folder={str(self.folder)!r} holds {path.name!r} of another request, and no "
                        f"{MANIFEST} that identifies it; choose another folder"
                    )
            write_record(self.folder / MANIFEST, manifest, request)
        elif difference := self.difference(recorded, request):
            raise ValueError(
                f"folder={str(self.folder)!r} holds {shards.noun}s of another request: "
                f"{difference}; choose another folder"
            )

    def difference(self, recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
        """Describes a difference between the recorded request and the current one; empty if there is none."""
        for name in {**wanted, **recorded}:
            if recorded.get(name) != wanted.get(name):
                return f"{name} is {recorded.get(name)!r}, not {wanted.get(name)!r}"
        return ""

    def path(self, number: int) -> pathlib.Path:
        """Path of an archive."""
        return self.folder / f"{self._shards.noun}-{number:05d}.npz"

    def write_shard(self, number: int, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Writes an archive."""
        write_archive(self.path(number), self._shards, {REQUEST: self._request, **header}, arrays)

    def read_shard(self, number: int) -> Archive | None:
        """An archive, None if it is missing; raises ValueError if it is damaged or of another request."""
        archive = read_archive(self.path(number), self._shards)
        if archive is not None and archive.header.get(REQUEST) != self._request:
            raise self.damaged(number, ValueError("it is of another request"))
        return archive

    def damaged(self, number: int, error: BaseException) -> ValueError:
        """The error for an archive whose content differs from what was written."""
        return self._shards.damaged(self.path(number), error)


def read_manifest(folder: str | os.PathLike[str], manifest: Format) -> dict[str, Any] | None:
    """The request of the results in a folder; None without a manifest.

    Raises:
      ValueError: if the manifest cannot be read, or the folder is of another kind.
    """
    kind, expected = find_kind(folder), KINDS[manifest.name]
    if kind is not None and kind is not expected:
        raise wrong_folder(folder, kind, f"an empty folder, or one with {expected}")
    return read_record(pathlib.Path(folder) / MANIFEST, manifest)
