"""Checkpoints of matches: finished games in a folder, one archive per part."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from jaxgadget.games.game import TERMINAL
from jaxgadget.policy.identity import differences
from jaxgadget.policy.positions import Positions
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.files import make_folder
from jaxgadget.util.folders import MATCHES
from jaxgadget.util.interrupts import telling_what_is_kept
from jaxgadget.util.locks import hold
from jaxgadget.util.shards import ShardFolder
from jaxgadget.util.store import Format

MANIFEST = Format(
    name=MATCHES,
    version=1,
    noun="manifest",
    remedy="delete it and play again, which keeps the folder's games",
)
PARTS = Format(name="jaxgadget part of matches", version=1, noun="part", remedy="delete it and play again")


class MatchFolder(ShardFolder):
    """The files of a `play_players` run: one archive per part, with its games and their luck.

    Attributes:
      num_matches: number of matches read or written.
    """

    def __init__(self, folder: str | os.PathLike[str], request: Mapping[str, Any]):
        super().__init__(folder, request, manifest=MANIFEST, shards=PARTS)
        self.num_matches = 0

    def difference(self, recorded: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
        """Describes all differences from the recorded request."""
        return ", ".join(differences(recorded, wanted))

    def write(self, number: int, matches: range, games: Positions, luck: FloatArray) -> None:
        """Writes the games of a part."""
        arrays = {f"games_{name}": array for name, array in games.pack().items()}
        self.write_shard(number, _header(matches), {**arrays, "luck": luck})
        self.num_matches += len(matches)

    def read(self, number: int, matches: range, start: Positions) -> tuple[Positions, FloatArray] | None:
        """The games of a part, and their luck; None if it is missing, or a shorter last one.

        Raises:
          ValueError: if the part is damaged, of another request, or does not follow the rules.
        """
        archive = self.read_shard(number)
        if archive is None or not archive.header.items() >= _header(matches).items():
            return None
        try:
            arrays = {
                name.removeprefix("games_"): array for name, array in archive.arrays.items() if name != "luck"
            }
            games, luck = start.unpack(arrays), np.asarray(archive.arrays["luck"])
            if (games.actor != TERMINAL).any() or len(luck) != len(games.actor):
                raise ValueError("its games do not end by the rules")
        except (IndexError, KeyError, ValueError) as error:
            raise self.damaged(number, error) from error
        self.num_matches += len(matches)
        return games, luck


def _header(matches: range) -> dict[str, int]:
    return {"begin": matches.start, "end": matches.stop}


@contextlib.contextmanager
def open_matches(
    folder: str | os.PathLike[str] | None, request: Mapping[str, Any], matches: int
) -> Generator[MatchFolder | None]:
    """Context manager of a folder of matches, locked for the block; yields None without a folder.

    Args:
      folder: path of the folder, created if it does not exist.
      request: all inputs that determine the games.
      matches: number of matches, for the message after an interruption.

    Raises:
      ValueError: as `ShardFolder`, or if another process uses the folder.
    """
    if folder is None:
        yield None
        return
    make_folder(folder)
    with hold(folder, "folder"):
        store = MatchFolder(folder, request)

        def describe() -> str:
            return f"{os.fspath(folder)!r} keeps {store.num_matches} of {matches} matches of each pair"

        with telling_what_is_kept(describe):
            yield store
