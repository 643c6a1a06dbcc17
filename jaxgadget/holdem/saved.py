"""Files of solutions: spots as JSON records, beside the arrays of their solutions."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxgadget.games.sizes import Chips, Geometric, Multiple
from jaxgadget.holdem.betting import BetMenu
from jaxgadget.holdem.ranges import HandRange
from jaxgadget.holdem.spots import Spot
from jaxgadget.util.digest import digest
from jaxgadget.util.store import Format, read_archive, write_archive

SOLUTIONS = Format(
    name="jaxgadget hold'em solutions",
    version=1,
    noun="file of solutions",
    remedy="solve its spots again",
)

KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind for kind in (BetMenu, Chips, Geometric, HandRange, Multiple)
}
"""Classes of values in the fields of a spot, by the name under which they are stored."""

_KIND, _TEXT = "kind", "text"

Parts = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]
"""The JSON record and the arrays of a solution."""


def spot_record(spot: Spot) -> dict[str, Any]:
    """A spot as a JSON object, with a digest of its betting tree."""
    fields = {field.name: encode(getattr(spot, field.name)) for field in dataclasses.fields(spot)}
    return {"fields": fields, "tree": _tree_digest(spot)}


def read_spot(record: Mapping[str, Any]) -> Spot:
    """The spot of a record.

    Raises:
      ValueError: if its fields are not those of a spot, or its betting tree differs from the stored one.
    """
    spot = Spot(**{name: decode(value) for name, value in record["fields"].items()})
    if _tree_digest(spot) != record["tree"]:
        raise ValueError(f"this release builds another betting tree for {spot.name}")
    return spot


def write_solutions(path: str | os.PathLike[str], solutions: Sequence[Parts]) -> None:
    """Writes the records and arrays of solutions atomically."""
    arrays = {
        f"{name}_of_{number}": array
        for number, (_, by_name) in enumerate(solutions)
        for name, array in by_name.items()
    }
    write_archive(path, SOLUTIONS, {"solutions": [record for record, _ in solutions]}, arrays, compress=True)


def read_solutions(path: str | os.PathLike[str]) -> list[Parts]:
    """The records and arrays of the solutions in a file.

    Raises:
      ValueError: if there is no such file, or it is damaged, of another format or of another version.
    """
    archive = read_archive(path, SOLUTIONS)
    if archive is None:
        raise ValueError(
            f"{SOLUTIONS.label(path)} does not exist; expected a file written by --save or SpotSolution.save"
        )
    records: Any = archive.header.get("solutions")
    if not isinstance(records, list) or not records:
        raise SOLUTIONS.damaged(path, ValueError("it has no solutions"))
    solutions: list[Parts] = []
    for number, record in enumerate(records):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        suffix = f"_of_{number}"
        arrays = {
            name.removesuffix(suffix): array
            for name, array in archive.arrays.items()
            if name.endswith(suffix)
        }
        solutions.append((record, arrays))
    return solutions


def _tree_digest(spot: Spot) -> str:
    betting = spot.betting
    names = np.array([*betting.names, ""])
    return digest(betting.tree.parent, betting.tree.actor, betting.tree.action, betting.put_in, names)


def encode(value: Any) -> Any:
    """A field's value as JSON; classes of `KINDS` are objects with their name."""
    if isinstance(value, HandRange):
        return {_KIND: HandRange.__name__, _TEXT: str(value)}
    if type(value).__name__ in KINDS:
        fields = {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {_KIND: type(value).__name__, **fields}
    if isinstance(value, list | tuple):
        return [encode(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, float | np.floating) and math.isinf(value):
        return {_KIND: "inf"}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a spot has a {type(value).__name__}, which {__name__}.KINDS lacks")


def decode(value: Any) -> Any:
    """The value that `encode` wrote."""
    if isinstance(value, list):
        return tuple(decode(each) for each in value)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(value, dict):
        return value
    fields: dict[str, Any] = dict(value)  # pyright: ignore[reportUnknownArgumentType]
    name = fields.pop(_KIND)
    if name == "inf":
        return math.inf
    if name == HandRange.__name__:
        return HandRange.parse(fields[_TEXT])
    return KINDS[name](**{field: decode(each) for field, each in fields.items()})
