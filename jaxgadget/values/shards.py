"""Solved ranges in a folder: a manifest, and an archive for each shard, written atomically."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np

from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.files import make_folder
from jaxgadget.util.folders import KINDS, MANIFEST, SOLVED_RANGES, find_kind, wrong_folder
from jaxgadget.util.store import (
    Format,
    checksum,
    read_archive,
    read_header,
    read_record,
    write_archive,
    write_record,
)

REQUEST = Format(
    name=SOLVED_RANGES,
    version=2,
    noun="manifest",
    remedy="delete it and solve again, which keeps the folder's shards",
    releases={1: "jaxgadget 0.3 or 0.4"},
)
SHARDS = Format(
    name="jaxgadget shard of solved ranges", version=1, noun="shard", remedy="delete it and solve again"
)

SHARD = 256
"""Default lanes of a shard, the most that an interrupt loses."""

_PAIRS = ("ranges", "values", "opposing")


class Shards:
    """The files of a `solve_ranges`: one archive per group of lanes, with arrays `[rows, lanes]`.

    Args:
      folder: made if it is not there.
      request: everything that the results depend on; `shard`, in lanes, may be None.

    Attributes:
      shard: lanes of each but the last: as in the request, else as the folder has them, else `SHARD`.

    Raises:
      ValueError: if the folder cannot be used, or holds other files or shards of another request.
    """

    def __init__(self, folder: str | os.PathLike[str], request: dict[str, Any]):
        make_folder(folder)
        self.folder = pathlib.Path(folder)
        path = self.folder / MANIFEST
        recorded = self._manifest()
        self.shard = int(request["shard"] or (SHARD if recorded is None else recorded["shard"]))
        wanted = {**request, "shard": self.shard}
        self._request = checksum(wanted)
        if recorded is None:
            for shard in sorted(self.folder.glob("shard-*")):
                self._check_request(shard)
            write_record(path, REQUEST, wanted)
            return
        for name in wanted | recorded:
            if recorded.get(name) != wanted.get(name):
                raise ValueError(
                    f"folder={str(self.folder)!r} holds shards of another request: "
                    f"{_differs(name, recorded.get(name), wanted.get(name))}; choose another folder"
                )

    def _manifest(self) -> dict[str, Any] | None:
        """The request that the folder's shards belong to; None for a folder without a manifest."""
        path, kind = self.folder / MANIFEST, find_kind(self.folder)
        if kind is not None and kind is not KINDS[SOLVED_RANGES]:
            raise wrong_folder(self.folder, kind, f"an empty folder, or one with {KINDS[SOLVED_RANGES]}")
        recorded = read_record(path, REQUEST)
        if recorded is not None:
            try:
                check_whole_number("shard", recorded.get("shard"), 1)
            except ValueError as error:
                raise REQUEST.damaged(path, error) from error
        return recorded

    def _check_request(self, shard: pathlib.Path) -> None:
        """Raises ValueError unless a shard without a manifest belongs to this request."""
        header = read_header(shard, SHARDS) or {}
        if header.get("request") != self._request:
            raise ValueError(
                f"folder={str(self.folder)!r} holds {shard.name!r} of another request, and no {MANIFEST} "
                "that says of which; choose another folder"
            )

    def path(self, shard_idx: int) -> pathlib.Path:
        """Path of a shard."""
        return self.folder / f"shard-{shard_idx:05d}.npz"

    def write(self, shard_idx: int, arrays: dict[str, Any]) -> None:
        """Writes a shard: the arrays of `SolvedRanges` by name, lanes last."""
        stored: dict[str, FloatArray] = {}
        for name, array in arrays.items():
            if name in _PAIRS:
                stored |= {f"{name}_{player}": rows for player, rows in enumerate(array)}
            else:
                stored[name] = array
        header = {"request": self._request, "lanes": stored["gap"].shape[1]}
        write_archive(self.path(shard_idx), SHARDS, header, stored)

    def read(self, shard_idx: int, ranges: tuple[FloatArray, FloatArray]) -> dict[str, Any] | None:
        """A shard; None if it is missing; raises ValueError if it is damaged or of other ranges."""
        path = self.path(shard_idx)
        archive = read_archive(path, SHARDS)
        if archive is None:
            return None
        arrays = archive.arrays
        try:
            if archive.header["request"] != self._request:
                raise ValueError("it is of another request")
            if not all(np.array_equal(arrays[f"ranges_{p}"], rows) for p, rows in enumerate(ranges)):
                raise ValueError("its ranges are not those of the request")
            pairs = {name: (arrays[f"{name}_0"], arrays[f"{name}_1"]) for name in _PAIRS}
            return {**pairs, **{name: arrays[name] for name in ("gap", "mass", "iterations")}}
        except (KeyError, ValueError) as error:
            raise SHARDS.damaged(path, error) from error


def count_lanes(folder: str | os.PathLike[str]) -> int:
    """Pairs of ranges in the shards of a folder; 0 if there are none."""
    headers = [read_header(path, SHARDS) for path in pathlib.Path(folder).glob("shard-*.npz")]
    return sum(header["lanes"] for header in headers if header is not None)


def _differs(name: str, recorded: object, wanted: object) -> str:
    """Difference between the folder and the request; digests are omitted."""
    if name in ("ranges", "roots"):
        return f"it was solved for other {name}"
    return f"{name} is {recorded!r}, not {wanted!r}"
