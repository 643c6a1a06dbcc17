"""Solved spots on disk, an archive a batch, found again spot by spot whatever batches they are put into."""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxgadget.solving.checkpoint import REMEDY
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.sealed import ForeignError, read_archive, write_archive

FORMAT = "jaxgadget spots 1"


class KeptSpot(NamedTuple):
    """What is kept of a `SpotSolution`; see there."""

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
    path = folder / f"{batch_name(solutions)}.npz"
    write_archive(path, {"format": FORMAT, "keys": list(solutions)}, arrays)


def count_spots(folder: pathlib.Path) -> int:
    """How many solved spots a folder has; ValueError as `load_spots`."""
    return len({key for header, _ in _read_batches(folder) for key in header["keys"]})


def load_spots(folder: pathlib.Path, wanted: Container[str]) -> dict[str, KeptSpot]:
    """The solutions that a folder has of the spots with such keys.

    Raises:
      ValueError: if an archive is damaged or something else.
    """
    kept: dict[str, KeptSpot] = {}
    for header, arrays in _read_batches(folder):
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


def _read_batches(folder: pathlib.Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Header and arrays of all archives of a folder."""
    for path in sorted(folder.glob("spots-*.npz")):
        try:
            header, arrays = read_archive(path)
            if header.get("format") != FORMAT:
                raise ForeignError("it holds no solved spots")
        except (OSError, ValueError) as error:
            raise ValueError(f"checkpoint {os.fspath(path)!r} cannot be read ({error}); {REMEDY}") from error
        yield header, arrays
