"""Solved ranges in a folder: a manifest, and a Parquet file a shard, each whole or not there."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jaxgadget.tree.forest import Forest
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.digest import digest
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.sealed import DamagedError, damaged, read_record, write_record

FORMAT = "jaxgadget solved ranges 1"
MANIFEST = "manifest.json"
REMEDY = "delete it and solve again"

_CHECKSUM = b"checksum"
_PAIRS = ("ranges", "values", "opposing")


class Shards:
    """The files of a `solve_ranges`: a row a lane, a list column for every array.

    Args:
      folder: made if it is not there.
      forest: the subgames.
      request: all that the numbers depend on.

    Raises:
      ValueError: if the folder cannot be used, or holds shards of another request.
    """

    def __init__(self, folder: str | os.PathLike[str], forest: Forest, request: dict[str, Any]):
        self.folder = pathlib.Path(folder)
        sizes = {"gap": forest.num_subgames, "mass": forest.num_subgames, "iterations": 1}
        for name in _PAIRS:
            sizes |= {f"{name}_{player}": len(forest.roots[player]) for player in (0, 1)}
        self._sizes = sizes
        make_folder(self.folder)
        kept = read_record(self.folder / MANIFEST, REMEDY)
        wanted = {"format": FORMAT, **request}
        if kept is None:
            write_record(self.folder / MANIFEST, wanted)
            return
        for name in wanted | kept:
            if kept.get(name) != wanted.get(name):
                raise ValueError(
                    f"folder={str(self.folder)!r} holds shards of another request: {name} is "
                    f"{kept.get(name)!r}, not {wanted.get(name)!r}; choose another folder or delete it"
                )

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


def _digest(columns: dict[str, FloatArray]) -> bytes:
    return digest(*(columns[name] for name in sorted(columns))).encode()
