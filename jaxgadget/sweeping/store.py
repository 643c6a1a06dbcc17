"""The files of a sweep: a manifest, records of games, and a file of rows for every finished piece."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from jaxgadget.sweeping.pieces import Piece
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.folders import KINDS, MANIFEST, SWEPT, find_kind, wrong_folder
from jaxgadget.util.locks import Locks
from jaxgadget.util.store import Format, checksum, read_record, write_record

TIMES = ("build_seconds", "compile_seconds", "run_seconds")
"""Columns that differ between runs."""

_FORM, _FAILURE, _MODEL, _P, _GAIN, _GUARD_SHARE = "form", "failure", "model", "p", "gain", "guard_share"
_ORDER, _UNFROZEN, _GENERATION, _COMBINE = "order", "unfrozen", "generation", "combine"
_MEAN = "mean_exploitability"
LATER = (_FORM, _MODEL, _P, _GUARD_SHARE, _ORDER, _UNFROZEN, _GENERATION, _COMBINE, _MEAN, _GAIN, _FAILURE)
"""Columns that pieces of earlier releases lack, in order; release 0.2 wrote none of them, and no checksums.
"""
_TEXT, _FLOAT, _WHOLE = pa.string(), pa.float64(), pa.int64()
SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in ("game", _FORM, "cut")),
        ("player", _WHOLE),
        ("blueprint", _TEXT),
        ("seed", _WHOLE),
        *((name, _TEXT) for name in ("gadget", "prior")),
        ("epsilon", _FLOAT),
        (_MODEL, _TEXT),
        (_P, _FLOAT),
        *((name, _TEXT) for name in ("alternative", "gifts")),
        ("auto", pa.bool_()),
        (_GUARD_SHARE, _FLOAT),
        (_ORDER, _FLOAT),
        (_UNFROZEN, pa.bool_()),
        *((name, _TEXT) for name in (_GENERATION, _COMBINE)),
        ("algorithm", _TEXT),
        ("iterations", _WHOLE),
        ("dtype", _TEXT),
        *((name, _WHOLE) for name in ("subgames", "subgames_kept")),
        *((f"{which}_exploitability", _FLOAT) for which in ("blueprint", "refined")),
        (_MEAN, _FLOAT),
        ("exploitability_bound", _FLOAT),
        (_GAIN, _FLOAT),
        *((f"game_value_{which}", _FLOAT) for which in ("low", "high")),
        *((f"gadget_value_{which}", _FLOAT) for which in ("sum", "min", "max")),
        *((f"gap_{which}", _FLOAT) for which in ("sum", "max")),
        (_FAILURE, _TEXT),
        ("piece", _TEXT),
        ("piece_rows", _WHOLE),
        *((name, _FLOAT) for name in TIMES),
        *((name, _TEXT) for name in ("jaxgadget", "jax", "python", "device")),
    ]
)
"""Columns of a sweep's rows."""

_CHECKSUM = b"checksum"
"""Key of the checksum of all rows in a piece's metadata."""

REMEDY = "delete it and sweep again"
MANIFEST_FORMAT = Format(
    name=SWEPT,
    version=3,
    older=(2,),
    unsealed=(2,),
    noun="manifest",
    remedy=f"{REMEDY}, which keeps finished pieces, or choose another folder",
    anonymous=True,
)
PIECE_FORMAT = Format(name="jaxgadget piece of a sweep", version=1, noun="piece", remedy=REMEDY)
"""Format of pieces, which are Parquet files; used only for errors."""


class Manifest(NamedTuple):
    """Record at the start of a sweep: the request, versions and device, and the pieces."""

    request: dict[str, Any]
    versions: dict[str, Any]
    pieces: list[Piece]


class Store:
    """The files of a sweep."""

    def __init__(self, folder: pathlib.Path, *, create: bool = True, locks: bool | None = None):
        self.folder = folder
        self.path = folder / MANIFEST
        self.games, self.pieces = folder / "games", folder / "pieces"
        self.locks = Locks(folder, locks)
        if create:
            kind = find_kind(folder)
            if kind is not None and kind is not KINDS[SWEPT] and not self.path.exists():
                raise wrong_folder(folder, kind, "an empty folder, or one with a sweep")
            self.locks.make()
            for subfolder in (self.games, self.pieces):
                make_folder(subfolder)

    def manifest(self) -> Manifest | None:
        """The manifest, or None; raises ValueError if it is damaged or of another version."""
        record = read_record(self.path, MANIFEST_FORMAT)
        if record is None:
            return None
        try:
            pieces = [Piece.read(piece) for piece in record["pieces"]]
            return Manifest(dict(record["request"]), dict(record["versions"]), pieces)
        except (KeyError, TypeError, ValueError) as error:
            raise MANIFEST_FORMAT.damaged(self.path, error) from error

    def settle(self, manifest: Manifest) -> None:
        """Writes the manifest and keeps a copy of the previous one; the caller holds the manifest's lock."""
        if self.path.exists():
            count = sum(1 for _ in self.folder.glob("manifest-*.json")) + 1
            with atomic_writer(self.folder / f"manifest-{count}.json") as file:
                file.write(self.path.read_bytes())
        pieces = [dataclasses.asdict(piece) for piece in manifest.pieces]
        write_record(self.path, MANIFEST_FORMAT, manifest._asdict() | {"pieces": pieces})

    def lock(self, name: str, *, wait: bool) -> contextlib.AbstractContextManager[bool]:
        """Holds a lock for a block, released if the process dies; yields True if it was acquired."""
        return self.locks.hold(name, wait=wait)

    def clean(self, folder: pathlib.Path, name: str) -> None:
        """Removes partial files of dead processes with the prefix `name`; the caller holds their lock."""
        for entry in os.scandir(folder):
            if entry.name.startswith(f".{name}"):
                pathlib.Path(entry.path).unlink(missing_ok=True)

    def file(self, piece: Piece) -> pathlib.Path:
        """Path of a piece's rows."""
        return self.pieces / f"{piece.key}.parquet"

    def has(self, piece: Piece) -> bool:
        """True if a piece is finished."""
        return self.file(piece).exists()

    def finished(self) -> set[str]:
        """Keys of all finished pieces, including those of other requests."""
        try:
            names = os.listdir(self.pieces)
        except FileNotFoundError:
            return set()
        return {name.removesuffix(".parquet") for name in names if not name.startswith(".")}

    def write(self, piece: Piece, rows: pd.DataFrame) -> bool:
        """Writes a finished piece, whose lock the caller holds; False if another process took over the claim.

        The latter happens only if this process was suspended for a long time. The piece is then already
        written, or the new holder has removed the partial file.
        """
        if self.has(piece):
            return False
        self.clean(self.pieces, piece.key)
        table = pa.Table.from_pandas(rows, schema=SCHEMA, preserve_index=False)
        table = table.replace_schema_metadata({_CHECKSUM: checksum(table.to_pydict())})
        try:
            with atomic_writer(self.file(piece)) as file:
                pq.write_table(table, file)
        except FileNotFoundError:
            return False
        return True

    def collect(self, pieces: Sequence[Piece]) -> pd.DataFrame:
        """All rows of the given pieces, in order."""
        tables = [self._read(piece) for piece in pieces]
        frame = pa.concat_tables([SCHEMA.empty_table(), *tables]).to_pandas()
        frame["seed"] = frame["seed"].astype("Int64")
        return frame

    def _read(self, piece: Piece) -> Any:
        path = self.file(piece)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ValueError(f"{str(path)!r} cannot be read: {error.strerror}; {REMEDY}") from error
        try:
            table = pq.ParquetFile(pa.BufferReader(content)).read()
            metadata = table.schema.metadata or {}
            if _CHECKSUM in metadata:
                if metadata[_CHECKSUM].decode() != checksum(table.to_pydict()):
                    raise ValueError("its checksum does not match its rows")
            elif b"pandas" not in metadata or not set(LATER).isdisjoint(table.column_names):
                raise ValueError("its checksum is missing, and only release 0.2 wrote none")
        except Exception as error:  # pyarrow raises many kinds of errors
            raise PIECE_FORMAT.damaged(path, error) from error
        for name in LATER:
            if name not in table.column_names:
                table = table.add_column(SCHEMA.get_field_index(name), name, _unknown(name, table.num_rows))
        is_consistent = (
            table.schema.remove_metadata() == SCHEMA
            and table.num_rows == piece.num_rows
            and set(table["piece"].to_pylist()) == {piece.key}
        )
        if not is_consistent:
            raise ValueError(f"{str(path)!r} holds other rows than it should; {REMEDY}")
        return table.replace_schema_metadata()


def _unknown(name: str, count: int) -> Any:
    """Placeholder values for a column that a piece lacks."""
    value = {_FORM: "histories", _P: 0.0}.get(name)
    return pa.array([value] * count, SCHEMA.field(name).type)
