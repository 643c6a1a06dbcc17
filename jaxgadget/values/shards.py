"""Solved ranges in a folder: a manifest, and a Parquet file a shard, each whole or not there."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jaxgadget.tree.forest import Forest
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.digest import digest
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.folders import KINDS, MANIFEST, SOLVED_RANGES, find_kind, kind_of, wrong_folder
from jaxgadget.util.sealed import DamagedError, damaged, read_record, write_record

REMEDY = "delete it and solve again"
MANIFEST_REMEDY = "delete the folder and solve again, or choose another one"
"""Without a manifest nobody knows what shards are of."""

SHARD = 256
"""Lanes of a shard if nobody asks for a number: so many are lost at most in an interrupt."""

_CHECKSUM = b"checksum"
_PAIRS = ("ranges", "values", "opposing")


class Shards:
    """The files of a `solve_ranges`: a row a lane, a list column for every array.

    Args:
      folder: made if it is not there.
      forest: the subgames.
      request: all that the numbers depend on; `shard`, lanes, may be None.

    Attributes:
      shard: lanes of each but the last: as asked for, else as the folder has them, else `SHARD`.

    Raises:
      ValueError: if the folder cannot be used, holds something else, or shards of another request.
    """

    def __init__(self, folder: str | os.PathLike[str], forest: Forest, request: dict[str, Any]):
        make_folder(folder)
        self.folder = pathlib.Path(folder)
        sizes = {"gap": forest.num_subgames, "mass": forest.num_subgames, "iterations": 1}
        for name in _PAIRS:
            sizes |= {f"{name}_{player}": len(forest.roots[player]) for player in (0, 1)}
        self._sizes = sizes
        kept = self._manifest()
        self.shard = int(request["shard"] or (SHARD if kept is None else kept["shard"]))
        wanted = {"format": SOLVED_RANGES, **request, "shard": self.shard}
        if kept is None:
            write_record(self.folder / MANIFEST, wanted)
            return
        for name in wanted | kept:
            if kept.get(name) != wanted.get(name):
                raise ValueError(
                    f"folder={str(self.folder)!r} holds shards of another request: "
                    f"{_differs(name, kept.get(name), wanted.get(name))}; choose another folder or delete it"
                )

    def _manifest(self) -> dict[str, Any] | None:
        """What the shards there are of; None for a folder without any."""
        path = self.folder / MANIFEST
        kept = read_record(path, MANIFEST_REMEDY)
        if kept is not None and kept.get("format") == SOLVED_RANGES:
            try:
                check_whole_number("shard", kept.get("shard"), 1)
            except ValueError as error:
                raise damaged(path, error, MANIFEST_REMEDY) from error
            return kept
        kind = find_kind(self.folder) if kept is None else kind_of(kept)
        if kind is not None:
            raise wrong_folder(self.folder, kind, f"an empty folder, or one with {KINDS[SOLVED_RANGES]}")
        if kept is not None:
            raise damaged(path, DamagedError("it does not say what it is of"), MANIFEST_REMEDY)
        if (shard := next(self.folder.glob("shard-*.parquet"), None)) is not None:
            raise ValueError(
                f"folder={str(self.folder)!r} holds {shard.name!r} and no {MANIFEST} that says what it is "
                f"of; {MANIFEST_REMEDY}"
            )
        return None

    def path(self, number: int) -> pathlib.Path:
        """Of a shard."""
        return self.folder / f"shard-{number:05d}.parquet"

    def write(self, number: int, arrays: dict[str, Any]) -> None:
        """Keeps a shard: the arrays of `SolvedRanges` by name, lanes last."""
        columns: dict[str, FloatArray] = {}
        for name, array in arrays.items():
            if name in _PAIRS:
                columns |= {f"{name}_{player}": rows for player, rows in enumerate(array)}
            else:
                columns[name] = np.atleast_2d(array)
        table = pa.table(
            {
                name: pa.FixedSizeListArray.from_arrays(pa.array(rows.T.reshape(-1)), len(rows))
                for name, rows in columns.items()
            }
        )
        table = table.replace_schema_metadata({_CHECKSUM: _digest(columns)})
        with atomic_writer(self.path(number)) as file:
            pq.write_table(table, file)

    def read(self, number: int, ranges: tuple[FloatArray, FloatArray]) -> dict[str, Any] | None:
        """A shard as it was written; None if it is not there; ValueError if damaged or of other ranges."""
        path = self.path(number)
        if not path.exists():
            return None
        try:
            table = pq.read_table(path)
            columns = {
                name: table[name].combine_chunks().flatten().to_numpy().reshape(-1, size).T
                for name, size in self._sizes.items()
            }
            if (table.schema.metadata or {}).get(_CHECKSUM) != _digest(columns):
                raise DamagedError("its checksum is not that of its content")
            if not all(np.array_equal(columns[f"ranges_{p}"], rows) for p, rows in enumerate(ranges)):
                raise DamagedError("its ranges are not those that were asked for")
        except Exception as error:  # pyarrow has many of its own
            raise damaged(path, error, REMEDY) from error
        pairs = {name: (columns[f"{name}_0"], columns[f"{name}_1"]) for name in _PAIRS}
        return {
            **pairs,
            "gap": columns["gap"],
            "mass": columns["mass"],
            "iterations": columns["iterations"][0],
        }


def count_lanes(folder: str | os.PathLike[str]) -> int:
    """Pairs of ranges in the shards of a folder; 0 if there are none."""
    return sum(pq.read_metadata(path).num_rows for path in pathlib.Path(folder).glob("shard-*.parquet"))


def _differs(name: str, kept: object, wanted: object) -> str:
    """What the folder has and what was asked for; digests would tell nobody anything."""
    if name in ("ranges", "roots"):
        return f"it was solved for other {name}"
    return f"{name} is {kept!r}, not {wanted!r}"


def _digest(columns: dict[str, FloatArray]) -> bytes:
    return digest(*(columns[name] for name in sorted(columns))).encode()
