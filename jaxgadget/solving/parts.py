"""Parts of a forest: some of its subgames by themselves, where all of them do not fit."""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.prior import ArrayPrior
from jaxgadget.games.game import IntArray
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.util.files import atomic_writer

PARTS_FORMAT = "jaxgadget parts 1"
PARTS_FILE = "parts.json"
"""In a folder of checkpoints: where the parts of the forest begin, if there are several."""


def separable(gadgets: Sequence[Gadget]) -> bool:
    """Whether each subgame can be solved without the others: the trunk's gadgets look at them all."""
    return not any("trunk" in gadget.needs for gadget in gadgets)


def has_array(gadget: Gadget) -> bool:
    """Whether a gadget has a user's numbers for the roots of the whole forest."""
    return isinstance(gadget.prior, ArrayPrior) or isinstance(
        getattr(gadget, "alternative", None), ArrayValues
    )


def take_part(forest: Forest, subgames: IntArray) -> Forest:
    """The forest of some subgames alone, in the order given."""
    if len(subgames) == forest.num_subgames:
        return forest
    return build_forest(forest.tree, forest.cover.take(subgames), padded=forest.padded)


def restrict(gadget: Gadget, whole: Forest, part: Forest, player: int) -> Gadget:
    """The same gadget with only the rows of its arrays that belong to the part.

    Args:
      gadget: for the whole forest.
      whole: the forest.
      part: some of its subgames.
      player: who re-solves.
    """
    if part is whole:  # a trunk's gadget has numbers for other things than roots, and is never split
        return gadget
    row = {state: i for i, state in enumerate(whole.roots[1 - player].infostate.tolist())}
    rows = [row[state] for state in part.roots[1 - player].infostate.tolist()]
    changed: Any = gadget
    if isinstance(changed.prior, ArrayPrior):
        values = np.asarray(changed.prior.values)[rows]
        changed = dataclasses.replace(changed, prior=dataclasses.replace(changed.prior, values=values))
    alternative = getattr(changed, "alternative", None)
    if isinstance(alternative, ArrayValues):
        array = np.asarray(alternative.array)[rows]
        changed = dataclasses.replace(changed, alternative=dataclasses.replace(alternative, array=array))
    return changed


def save_parts(folder: pathlib.Path, parts: Sequence[IntArray]) -> None:
    """Writes down where the parts begin, unless there is only one."""
    if len(parts) > 1:
        begins = [int(part[0]) for part in parts]
        with atomic_writer(folder / PARTS_FILE) as file:
            file.write(json.dumps({"format": PARTS_FORMAT, "begins": begins}).encode())


def load_parts(folder: pathlib.Path, num_subgames: int) -> list[IntArray] | None:
    """The parts of a solve that began in this folder; None if there are none.

    Raises:
      ValueError: if the file cannot be read or fits no forest of so many subgames.
    """
    path = folder / PARTS_FILE
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_bytes())
        begins = [int(begin) for begin in found["begins"]]
        if found["format"] != PARTS_FORMAT or begins[0] != 0 or sorted(set(begins)) != begins:
            raise ValueError(found)
    except Exception as error:
        raise ValueError(
            f"checkpoint {str(path)!r} cannot be read: {type(error).__name__}; delete it to start again"
        ) from error
    if begins[-1] >= num_subgames:
        raise ValueError(
            f"checkpoint {str(path)!r} is of another solve, with more than {num_subgames} subgames; choose "
            "another folder or delete it"
        )
    return [np.arange(*ends) for ends in itertools.pairwise([*begins, num_subgames])]
