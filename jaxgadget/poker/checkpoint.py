"""Solved spots on disk, an archive a batch, found again spot by spot whatever batches they are put into."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
from collections.abc import Container, Generator, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from jaxgadget.solving.checkpoint import REMEDY
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.sealed import ForeignError, read_archive, read_header, write_archive

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


def find_spots(folder: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """The archives of a folder, and the keys of the spots in each; their solutions are not read.

    Raises:
      ValueError: if an archive is damaged or something else.
    """
    found: dict[pathlib.Path, list[str]] = {}
    for path in sorted(folder.glob("spots-*.npz")):
        with _clear_errors(path):
            header = read_header(path)
            if header.get("format") != FORMAT:
                raise ForeignError("it holds no solved spots")
            found[path] = header["keys"]
    return found


def load_spots(path: pathlib.Path, wanted: Container[str]) -> dict[str, KeptSpot]:
    """The solutions that an archive has of the spots with such keys; ValueError as `find_spots`."""
    with _clear_errors(path):
        header, arrays = read_archive(path)
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


@contextlib.contextmanager
def _clear_errors(path: pathlib.Path) -> Generator[None]:
    """What is wrong with an archive becomes a ValueError with the remedy."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ValueError(f"checkpoint {os.fspath(path)!r} cannot be read ({error}); {REMEDY}") from error
