"""Solved spots on disk, an archive a batch, found again spot by spot whatever batches they are put into."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.store import Format, read_archive, read_header, write_archive

SPOTS = Format(
    name="jaxgadget spots",
    version=1,
    noun="checkpoint",
    remedy="delete this file to solve its spots again",
)

RESULTS = Format(
    name="jaxgadget hold'em result",
    version=1,
    noun="file of results",
    remedy="remove that line to solve its spot again",
    releases={0: "jaxgadget 0.4 or an earlier release, whose rows have no checksum"},
)
"""Of each row of `jaxgadget holdem --results`."""


class KeptSpot(NamedTuple):
    """The stored fields of a `SpotSolution`."""

    probabilities: tuple[FloatArray, FloatArray]
    ev: tuple[float, float]
    hand_ev: tuple[FloatArray, FloatArray]
    gap: float
    iterations: int


def batch_name(keys: Iterable[str]) -> str:
    """A name for the files of a batch of spots, by their keys."""
    return "spots-" + hashlib.sha256(" ".join(keys).encode()).hexdigest()[:16]


def save_spots(folder: pathlib.Path, solutions: Mapping[str, KeptSpot]) -> None:
    """Writes the solutions of a batch, whose trees have one shape, by the keys of their spots, atomically."""
    several = list(solutions.values())
    arrays = {name: np.array([getattr(s, name) for s in several]) for name in ("ev", "gap", "iterations")}
    for player in (0, 1):
        arrays[f"probabilities_{player}"] = np.stack([s.probabilities[player] for s in several])
        arrays[f"hand_ev_{player}"] = np.stack([s.hand_ev[player] for s in several])
    write_archive(folder / f"{batch_name(solutions)}.npz", SPOTS, {"keys": list(solutions)}, arrays)


def find_spots(folder: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """The archives of a folder, and the keys of the spots in each; their solutions are not read.

    Raises:
      ValueError: if an archive is damaged or something else.
    """
    found: dict[pathlib.Path, list[str]] = {}
    for path in sorted(folder.glob("spots-*.npz")):
        keys: Any = (read_header(path, SPOTS) or {}).get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise SPOTS.damaged(path, ValueError(f"keys={keys!r}: expected a list of strings"))
        found[path] = keys
    return found


def load_spots(path: pathlib.Path, wanted: Container[str]) -> dict[str, KeptSpot]:
    """The solutions that an archive has of the spots with such keys; ValueError as `find_spots`."""
    archive = read_archive(path, SPOTS)
    if archive is None:
        return {}
    header, arrays = archive
    kept: dict[str, KeptSpot] = {}
    for lane, key in enumerate(header["keys"]):
        if key in wanted:
            probabilities = [arrays[f"probabilities_{player}"][lane] for player in (0, 1)]
            hand_evs = [arrays[f"hand_ev_{player}"][lane] for player in (0, 1)]
            first, second = arrays["ev"][lane].tolist()
            kept[key] = KeptSpot(
                probabilities=(probabilities[0], probabilities[1]),
                ev=(first, second),
                hand_ev=(hand_evs[0], hand_evs[1]),
                gap=float(arrays["gap"][lane]),
                iterations=int(arrays["iterations"][lane]),
            )
    return kept
