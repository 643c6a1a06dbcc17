"""Parts of a forest: some of its subgames by themselves, where all of them do not fit."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence

import numpy as np

from jaxgadget.solving.checkpoint import REMEDY
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.sealed import damaged, read_record, write_record

PARTS_FORMAT = "jaxgadget parts 1"
PARTS_FILE = "parts.json"
"""In a folder of checkpoints: where the parts of the forest begin, if there are several."""


def take_part(forest: Forest, subgames: IntArray) -> Forest:
    """The forest of some subgames alone; they are numbered in ascending order."""
    if len(subgames) == forest.num_subgames:
        return forest
    return build_forest(forest.tree, forest.cover.take(subgames), padded=forest.padded)


def root_numbers(part: Forest, whole: Forest, subgames: IntArray, player: int) -> IntArray:
    """`[R]` which root infostates of the whole forest are those of a part.

    Args:
      part: some of the subgames.
      whole: all of them.
      subgames: numbers of the part's in the whole forest, ascending.
      player: whose roots.
    """
    ours, theirs = part.roots[player], whole.roots[player]
    number = {
        pair: row
        for row, pair in enumerate(zip(theirs.subgame.tolist(), theirs.infostate.tolist(), strict=True))
    }
    pairs = zip(subgames[ours.subgame].tolist(), ours.infostate.tolist(), strict=True)
    return np.array([number[pair] for pair in pairs], np.int64)


def save_parts(folder: pathlib.Path, parts: Sequence[IntArray]) -> None:
    """Writes down where the parts begin, unless there is only one."""
    if len(parts) > 1:
        begins = [int(part[0]) for part in parts]
        write_record(folder / PARTS_FILE, {"format": PARTS_FORMAT, "begins": begins})


def load_parts(folder: pathlib.Path, num_subgames: int) -> list[IntArray] | None:
    """The parts of a solve that began in this folder; None if there are none.

    Raises:
      ValueError: if the file cannot be read or fits no forest of so many subgames.
    """
    path = folder / PARTS_FILE
    record = read_record(path, REMEDY)
    if record is None:
        return None
    try:
        begins = [check_whole_number("begins", begin, 0) for begin in record["begins"]]
        if record["format"] != PARTS_FORMAT or begins[:1] != [0] or sorted(set(begins)) != begins:
            raise ValueError(f"{record} lists no parts")
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, error, REMEDY) from error
    if begins[-1] >= num_subgames:
        raise ValueError(
            f"checkpoint {str(path)!r} is of another solve, with more than {num_subgames} subgames; choose "
            "another folder or delete it"
        )
    return [np.arange(*ends) for ends in itertools.pairwise([*begins, num_subgames])]
