"""States of a solve on disk, tied to the problem that they belong to."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
from typing import Any

import jax
import numpy as np

from jaxgadget.kernels.cfr import State
from jaxgadget.kernels.problem import Problem
from jaxgadget.kernels.regret import Rule
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.files import check_regular
from jaxgadget.util.sealed import (
    HEADER,
    ForeignError,
    damaged,
    read_archive,
    read_record,
    write_archive,
    write_record,
)

CHECKPOINT_FORMAT = "jaxgadget checkpoint 1"
CHUNKS_FORMAT = "jaxgadget chunks 2"
CHUNKS_FILE = "chunks.json"
"""In a folder of checkpoints: how lanes were split, where they were, by the name of the solve."""

REMEDY = "delete it to start again"


def fingerprint(problem: Problem, rule: Rule) -> str:
    """A digest of everything that a state depends on; what counts as no regret follows from the rest."""
    leaves, structure = jax.tree.flatten((dataclasses.replace(problem, regret_tolerance=None), rule))
    digest = hashlib.sha256(f"{structure} {rule.name}".encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def save_checkpoint(path: str | os.PathLike[str], key: str, state: State) -> None:
    """Writes a state, atomically."""
    arrays: dict[str, Any] = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    write_archive(path, {"format": CHECKPOINT_FORMAT, "key": key}, arrays)


def load_checkpoint(path: str | os.PathLike[str], key: str, begin: State) -> State | None:
    """Reads a state of the structure of `begin`.

    Returns:
      The state; None if there is no file yet.

    Raises:
      ValueError: if the file is no checkpoint, damaged, or one of another problem.
    """
    check_regular(path, "checkpoint")
    try:
        header, arrays = read_archive(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"checkpoint {os.fspath(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        what = "cannot be read" if isinstance(error, ForeignError) else "is damaged"
        raise ValueError(f"checkpoint {os.fspath(path)!r} {what} ({error}); {REMEDY}") from error
    if header.get("format") != CHECKPOINT_FORMAT or header.get("key") != key:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} is of another solve (game, blueprint, gadget, opponent, "
            "algorithm or precision differ); choose another file or delete it"
        )
    first, structure = jax.tree.flatten(begin)
    expected = {f"leaf_{i}": (leaf.shape, leaf.dtype) for i, leaf in enumerate(first)}
    if {name: (array.shape, array.dtype) for name, array in arrays.items()} != expected:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} is damaged (its arrays have other shapes); {REMEDY}"
        )
    return jax.tree.unflatten(structure, [jax.device_put(arrays[name]) for name in expected])


def describe_kept(checkpoint: pathlib.Path) -> str:
    """What a file or folder of checkpoints holds, in words; nothing if it holds none.

    What cannot be read is left out: whoever goes on from it is told what is wrong.
    """
    files = sorted(checkpoint.rglob("*.npz")) if checkpoint.is_dir() else [checkpoint]
    kept: list[int] = []
    for file in filter(pathlib.Path.is_file, files):
        with contextlib.suppress(Exception), np.load(file, allow_pickle=False) as archive:
            if json.loads(str(archive[HEADER]))["format"] == CHECKPOINT_FORMAT:
                kept.append(int(archive["leaf_0"]))  # a state's first field
    if not kept:
        return ""
    many = f"{len(kept)} checkpoint{'s' if len(kept) > 1 else ''}"
    upto = f" to {max(kept)}" if max(kept) > min(kept) else ""
    return f"{str(checkpoint)!r} keeps {many}, of iteration {min(kept)}{upto}"


def save_chunk(folder: pathlib.Path, name: str, lanes: int, chunk: int) -> None:
    """Writes down how many lanes of a solve are taken at once, unless that is all of them."""
    if chunk == lanes:
        return
    kept = _read_chunks(folder) | {name: {"lanes": lanes, "chunk": chunk}}
    write_record(folder / CHUNKS_FILE, {"format": CHUNKS_FORMAT, "solves": kept})


def load_chunk(folder: pathlib.Path, name: str, lanes: int) -> int | None:
    """How many lanes a solve of this name in this folder takes at once; None if there is none yet.

    Raises:
      ValueError: if the file cannot be read, or is of another number of lanes.
    """
    kept = _read_chunks(folder).get(name)
    if kept is None:
        return lanes if (folder / f"{name}.npz").exists() else None
    if kept["lanes"] != lanes:
        raise ValueError(
            f"checkpoint {str(folder / CHUNKS_FILE)!r} is of another solve, of {kept['lanes']} lanes of "
            f"{name} instead of {lanes}; choose another folder or delete it"
        )
    return kept["chunk"]


def _read_chunks(folder: pathlib.Path) -> dict[str, dict[str, int]]:
    path = folder / CHUNKS_FILE
    saved = read_record(path, REMEDY)
    if saved is None:
        return {}
    try:
        if saved["format"] != CHUNKS_FORMAT:
            raise ValueError(f"its format is {saved['format']!r}, not {CHUNKS_FORMAT!r}")
        return {
            name: {what: check_whole_number(what, kept[what], 1) for what in ("lanes", "chunk")}
            for name, kept in saved["solves"].items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, error, REMEDY) from error
