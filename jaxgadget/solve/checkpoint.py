"""States of a solve on disk, tied to the problem that they belong to."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from typing import Any

import jax
import numpy as np

from jaxgadget.files import atomic_writer
from jaxgadget.solve.cfr import State
from jaxgadget.solve.problem import Problem
from jaxgadget.solve.regret import Rule

CHECKPOINT_FORMAT = "jaxgadget checkpoint 1"


def fingerprint(problem: Problem, rule: Rule) -> str:
    """A digest of everything that a state depends on."""
    leaves, structure = jax.tree.flatten(problem)
    digest = hashlib.sha256(f"{structure} {rule}".encode())
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
