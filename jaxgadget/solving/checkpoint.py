"""States of a solve on disk, tied to the problem that they belong to."""

from __future__ import annotations

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
from jaxgadget.util.files import atomic_writer

CHECKPOINT_FORMAT = "jaxgadget checkpoint 1"
CHUNKS_FORMAT = "jaxgadget chunks 2"
CHUNKS_FILE = "chunks.json"
"""In a folder of checkpoints: how lanes were split, where they were, by the name of the solve."""


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
    arrays["header"] = np.asarray(json.dumps({"format": CHECKPOINT_FORMAT, "key": key}))
    with atomic_writer(path) as file:
        np.savez(file, **arrays)


def load_checkpoint(path: str | os.PathLike[str], key: str, begin: State) -> State | None:
    """Reads a state of the structure of `begin`.

    Returns:
      The state; None if there is no file yet.

    Raises:
      ValueError: if the file is no checkpoint, or one of another problem.
    """
    if not pathlib.Path(path).exists():
        return None
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            leaves = [archive[f"leaf_{i}"] for i in range(len(archive.files) - 1)]
    except Exception as error:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} cannot be read ({type(error).__name__}); delete it to start "
            "again"
        ) from error
    if header.get("format") != CHECKPOINT_FORMAT or header.get("key") != key:
        raise ValueError(
            f"checkpoint {os.fspath(path)!r} is of another solve (game, blueprint, gadget, algorithm or "
            "precision differ); choose another file or delete it"
        )
    return jax.tree.unflatten(jax.tree.structure(begin), [jax.device_put(leaf) for leaf in leaves])


def save_chunk(folder: pathlib.Path, name: str, lanes: int, chunk: int) -> None:
    """Writes down how many lanes of a solve are taken at once, unless that is all of them."""
    if chunk == lanes:
        return
    kept = _read_chunks(folder) | {name: {"lanes": lanes, "chunk": chunk}}
    with atomic_writer(folder / CHUNKS_FILE) as file:
        file.write(json.dumps({"format": CHUNKS_FORMAT, "solves": kept}, indent=1).encode())


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
    if not path.exists():
        return {}
    try:
        saved = json.loads(path.read_bytes())
        if saved["format"] != CHUNKS_FORMAT:
            raise ValueError(saved["format"])
        return {
            str(name): {"lanes": int(kept["lanes"]), "chunk": int(kept["chunk"])}
            for name, kept in saved["solves"].items()
        }
    except Exception as error:
        raise ValueError(
            f"checkpoint {str(path)!r} cannot be read: {type(error).__name__}; delete it to start again"
        ) from error
