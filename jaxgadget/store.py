"""The files of a sweep: a manifest, what games bring, and a file of rows for every finished piece."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import filelock
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from jaxgadget.files import atomic_writer, make_folder
from jaxgadget.manifest import FORMAT, Piece

TIMES = ("build_seconds", "compile_seconds", "run_seconds")
"""Columns that differ from run to run."""

_TEXT, _FLOAT, _WHOLE = pa.string(), pa.float64(), pa.int64()
SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in ("game", "cut")),
        ("player", _WHOLE),
        ("blueprint", _TEXT),
        ("seed", _WHOLE),
        *((name, _TEXT) for name in ("gadget", "prior")),
        ("epsilon", _FLOAT),
        *((name, _TEXT) for name in ("alternative", "gifts")),
        ("auto", pa.bool_()),
        ("algorithm", _TEXT),
        ("iterations", _WHOLE),
        ("dtype", _TEXT),
        *((name, _WHOLE) for name in ("subgames", "subgames_kept")),
        *((f"{which}_exploitability", _FLOAT) for which in ("blueprint", "refined")),
        ("exploitability_bound", _FLOAT),
        *((f"game_value_{which}", _FLOAT) for which in ("low", "high")),
        *((f"gadget_value_{which}", _FLOAT) for which in ("sum", "min", "max")),
        *((f"gap_{which}", _FLOAT) for which in ("sum", "max")),
        ("piece", _TEXT),
        ("piece_rows", _WHOLE),
        *((name, _FLOAT) for name in TIMES),
        *((name, _TEXT) for name in ("jaxgadget", "jax", "python", "device")),
    ]
)
"""Columns of a sweep's rows."""


class Store:
    """The files of a sweep."""

    def __init__(self, folder: pathlib.Path, *, create: bool = True):
        self.folder = folder
        self.path = folder / "manifest.json"
        if create:
            for name in ("pieces", "games", "locks"):
                make_folder(folder / name)

    def manifest(self) -> dict[str, Any] | None:
        """What was settled, if anything; ValueError if a person or another program wrote it."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ValueError(f"{str(self.path)!r} cannot be read: {error}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"{str(self.path)!r} is no manifest of this version; choose another folder")
        return found

    def settle(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest; one that was there is kept beside it."""
        if self.path.exists():
            number = sum(1 for _ in self.folder.glob("manifest-*.json")) + 1
            with atomic_writer(self.folder / f"manifest-{number}.json") as file:
                file.write(self.path.read_bytes())
        with atomic_writer(self.path) as file:
            file.write((json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())

    def lock(self, name: str, *, wait: bool) -> contextlib.AbstractContextManager[bool]:
        """Holds a lock for a block, which the system takes back if the process dies: whether we have it."""
        return _locked(self.folder / "locks" / f"{name}.lock", wait)

    def file(self, piece: Piece) -> pathlib.Path:
        """Where a piece's rows are."""
        return self.folder / "pieces" / f"{piece.key}.parquet"

    def has(self, piece: Piece) -> bool:
        """Whether it is finished."""
        return self.file(piece).exists()

    def write(self, piece: Piece, rows: pd.DataFrame) -> None:
        """Keeps a finished piece; half-written files of whoever died at it go. Its lock must be held."""
        for left in (self.folder / "pieces").glob(f".{piece.key}.parquet.*"):
            left.unlink(missing_ok=True)
        table = pa.Table.from_pandas(rows, schema=SCHEMA, preserve_index=False)
        with atomic_writer(self.file(piece)) as file:
            pq.write_table(table, file)

    def collect(self, pieces: Sequence[Piece]) -> pd.DataFrame:
        """All rows of some pieces, in their order."""
        tables = [self._read(piece) for piece in pieces]
        frame = pa.concat_tables([SCHEMA.empty_table(), *tables]).to_pandas()
        frame["seed"] = frame["seed"].astype("Int64")
        return frame

    def _read(self, piece: Piece) -> Any:
        path = self.file(piece)
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"{str(path)!r} cannot be read; delete it and sweep again") from error
        if table.schema.remove_metadata() != SCHEMA or set(table["piece"].to_pylist()) != {piece.key}:
            raise ValueError(f"{str(path)!r} holds other rows than it should; delete it and sweep again")
        return table.replace_schema_metadata()


@contextlib.contextmanager
def _locked(path: pathlib.Path, wait: bool) -> Generator[bool]:
    lock = filelock.FileLock(path)
    try:
        lock.acquire(blocking=wait)
    except filelock.Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()
