"""What a folder of ours holds, in words: for errors about one that was given in place of another.

Every kind has a record in its folder, whose `format` says what it is.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

NETWORK = "network.json"
MANIFEST = "manifest.json"
"""The records: of a network, and of all that comes in pieces."""

SOLVED_RANGES = "jaxgadget solved ranges 1"


class FolderKind(NamedTuple):
    """A kind of folder.

    Attributes:
      content: what lies there.
      writer: the function that writes it.
      purpose: where such a folder, `DIR`, may be given.
    """

    content: str
    writer: str
    purpose: str

    def __str__(self) -> str:
        return f"{self.content}, from {self.writer}"


KINDS = {
    "jaxgadget value network": FolderKind(
        "a network of histories", "train_value", "`--leaf DIR` or load_values"
    ),
    "jaxgadget range network": FolderKind(
        "a network of ranges",
        "train_ranges",
        "`--alternative values:DIR`, `nested --leaf ranges:DIR`, FolderRanges or load_ranges",
    ),
    SOLVED_RANGES: FolderKind("solved ranges", "solve_ranges", "solve_ranges(folder=…)"),
}
"""By the format that their records have."""

SWEEP = FolderKind("a sweep", "sweep", "`jaxgadget sweep DIR` or sweep")


def find_kind(folder: str | os.PathLike[str]) -> FolderKind | None:
    """What lies in a folder; None if nothing of ours does, or its record cannot be read."""
    for name in (NETWORK, MANIFEST):
        try:
            record: Any = json.loads((pathlib.Path(folder) / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(record, dict) and (kind := kind_of(record)) is not None:
            return kind
    return None


def kind_of(record: Mapping[str, Any]) -> FolderKind | None:
    """Of what the record is; None if it is none of ours."""
    name = record.get("format")
    if isinstance(name, str):
        return KINDS.get(name)
    return SWEEP if {"request", "pieces"} <= record.keys() else None


def wrong_folder(folder: str | os.PathLike[str], found: FolderKind, expected: str) -> ValueError:
    """The error for a folder of another kind: what it holds, what was expected, and what it is for."""
    name = os.fspath(folder)
    purpose = found.purpose.replace("DIR", name)
    return ValueError(f"{name!r} holds {found}; expected {expected}. It is for {purpose}")
