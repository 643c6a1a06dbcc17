"""Kinds of folders that this package writes, for errors about a folder of the wrong kind.

Each folder has a record whose `format` names the kind.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxgadget.util.store import identify

NETWORK = "network.json"
MANIFEST = "manifest.json"
"""File names of the records: of a network, and of a folder of pieces."""

SOLVED_RANGES = "jaxgadget solved ranges"
SWEPT = "jaxgadget sweep"
MATCHES = "jaxgadget matches"


class FolderKind(NamedTuple):
    """A kind of folder.

    Attributes:
      content: description of the content.
      writer: the function that writes it.
      purpose: arguments that take such a folder, `DIR`.
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
    "jaxgadget policy network": FolderKind(
        "a policy network", "train_policy", "`--blueprint file:DIR` or load_policy"
    ),
    "jaxgadget critic": FolderKind("a critic", "train_critic", "`match --leaf DIR` or load_critic"),
    "jaxgadget exploiter": FolderKind(
        "a network that learned one seat", "exploit", "`exploit --method ppo` with the same arguments"
    ),
    "jaxgadget range network": FolderKind(
        "a network of ranges",
        "train_ranges",
        "`--alternative values:DIR`, `nested --leaf values:DIR`, FolderRanges or load_ranges",
    ),
    "jaxgadget deal network": FolderKind(
        "a network of ranges at the first deal of a hold'em spot",
        "train_deals",
        "`holdem --leaf DIR` or load_deals",
    ),
    SOLVED_RANGES: FolderKind("solved ranges", "solve_ranges", "solve_ranges, as checkpoint of its solver"),
    MATCHES: FolderKind("matches", "play_players", "`jaxgadget match --checkpoint DIR` or play_players"),
    SWEPT: FolderKind("a sweep", "sweep", "`jaxgadget sweep DIR` or sweep"),
}
"""Kinds of folders by the format of their records."""


def find_kind(folder: str | os.PathLike[str]) -> FolderKind | None:
    """The kind of a folder; None for other folders, and if the record cannot be read."""
    for name in (NETWORK, MANIFEST):
        try:
            record: Any = json.loads((pathlib.Path(folder) / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(record, dict) and (kind := kind_of(record)) is not None:
            return kind
    return None


def kind_of(record: Mapping[str, Any]) -> FolderKind | None:
    """The kind of folder that a record belongs to; None for other records."""
    name, _ = identify(record)
    if name is not None:
        return KINDS.get(name)
    return KINDS[SWEPT] if {"request", "pieces"} <= record.keys() else None  # releases up to 0.4


def wrong_folder(folder: str | os.PathLike[str], kind: FolderKind, expected: str) -> ValueError:
    """The error for a folder of another kind, with its content, the expected one, and its purpose."""
    name = os.fspath(folder)
    purpose = kind.purpose.replace("DIR", name)
    return ValueError(f"{name!r} holds {kind}; expected {expected}. It is for {purpose}")
