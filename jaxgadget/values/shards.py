"""Solved ranges in a folder: a manifest, and an archive for each shard, written atomically."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.files import make_folder
from jaxgadget.util.folders import MANIFEST, SOLVED_RANGES
from jaxgadget.util.shards import ShardFolder, read_manifest
from jaxgadget.util.store import Format, read_header

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
"""Default number of lanes of a shard, the largest number that an interrupt loses."""

_PAIRS = ("ranges", "values", "opposing")


class Shards(ShardFolder):
    """The files of a `solve_ranges` run: one archive per group of lanes, with arrays `[rows, lanes]`.

    Args:
      folder: path of the folder, created if it does not exist.
      request: all inputs that determine the results; `shard`, in lanes, may be None.

    Attributes:
      shard: number of lanes of each shard but the last: from the request, otherwise from the folder,
        otherwise `SHARD`.

    Raises:
      ValueError: if the folder cannot be used, or contains other files or shards of another request.
    """

    def __init__(self, folder: str | os.PathLike[str], request: dict[str, Any]):
        make_folder(folder)
        recorded = read_manifest(folder, REQUEST)
        if recorded is not None:
            try:
                check_whole_number("shard", recorded.get("shard"), 1)
            except ValueError as error:
                raise REQUEST.damaged(pathlib.Path(folder) / MANIFEST, error) from error
        self.shard = int(request["shard"] or (SHARD if recorded is None else recorded["shard"]))
        super().__init__(folder, {**request, "shard": self.shard}, manifest=REQUEST, shards=SHARDS)

    def difference(self, recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
        """Describes a difference from the recorded request, without digests."""
        for name in ("ranges", "roots"):
            if recorded.get(name) != wanted.get(name):
                return f"it was solved for other {name}"
        return super().difference(recorded, wanted)

    def write(self, shard_idx: int, arrays: dict[str, Any]) -> None:
        """Writes a shard: the arrays of `SolvedRanges` by name, lanes last."""
        stored: dict[str, FloatArray] = {}
        for name, array in arrays.items():
            if name in _PAIRS:
                stored |= {f"{name}_{player}": rows for player, rows in enumerate(array)}
            else:
                stored[name] = array
        self.write_shard(shard_idx, {"lanes": stored["gap"].shape[1]}, stored)

    def read(self, shard_idx: int, ranges: tuple[FloatArray, FloatArray]) -> dict[str, Any] | None:
        """Reads a shard; None if it is missing; raises ValueError if it is damaged or of other ranges."""
        archive = self.read_shard(shard_idx)
        if archive is None:
            return None
        arrays = archive.arrays
        try:
            if not all(np.array_equal(arrays[f"ranges_{p}"], rows) for p, rows in enumerate(ranges)):
                raise ValueError("its ranges are not those of the request")
            pairs = {name: (arrays[f"{name}_0"], arrays[f"{name}_1"]) for name in _PAIRS}
            return {**pairs, **{name: arrays[name] for name in ("gap", "mass", "iterations")}}
        except (KeyError, ValueError) as error:
            raise self.damaged(shard_idx, error) from error


def count_lanes(folder: str | os.PathLike[str]) -> int:
    """Number of pairs of ranges in the shards of a folder."""
    headers = [read_header(path, SHARDS) for path in pathlib.Path(folder).glob("shard-*.npz")]
    return sum(header["lanes"] for header in headers if header is not None)
