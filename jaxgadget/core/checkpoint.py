"""Checkpoints of a solve: states of its loop, and its split into chunks and parts if it exceeds memory."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import os
import pathlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import jax
import numpy as np

from jaxgadget.core.cfr import State
from jaxgadget.core.problem import Problem
from jaxgadget.core.regret import Rule
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.files import check_writable
from jaxgadget.util.locks import hold, wait_for
from jaxgadget.util.store import Format, read_archive, read_header, read_record, write_archive, write_record

CHECKPOINT = Format(
    name="jaxgadget checkpoint",
    version=2,
    noun="checkpoint",
    remedy="delete this file to start its solve again",
    releases={1: "jaxgadget 0.2, 0.3 or 0.4"},
)
SPLITS = Format(
    name="jaxgadget splits",
    version=1,
    noun="checkpoint",
    remedy="delete this file; the solve is then split anew and resumes from the checkpoints that still fit",
)
SPLITS_FILE = "splits.json"
"""File in a folder of checkpoints: numbers of lanes and of lanes per chunk of each solve by name, and the
first subgame of each part of the forest."""

OLDER_SPLITS = ("chunks.json", "parts.json")
"""Files in which releases up to 0.4 recorded the splits."""


def fingerprint(problem: Problem, rule: Rule) -> str:
    """Digest of everything that a state depends on, except the tolerance, which follows from the rest."""
    leaves, structure = jax.tree.flatten((dataclasses.replace(problem, regret_tolerance=None), rule))
    digest = hashlib.sha256(f"{structure} {rule.name}".encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def hold_checkpoint(path: pathlib.Path | None) -> Generator[None]:
    """Context manager that holds the lock of a checkpoint file; no effect if `path` is None.

    Raises:
      ValueError: if the file cannot be written, or another process is using it.
    """
    if path is None:
        yield
        return
    check_writable(path)
    with hold(path, "checkpoint"):
        yield


def save_checkpoint(
    path: str | os.PathLike[str],
    key: str,
    state: State,
    *,
    stopped: IntArray | None = None,
    target_gap: float | None = None,
) -> None:
    """Writes a state atomically.

    Args:
      path: the file.
      key: digest of the solve, from `fingerprint`.
      state: the state.
      stopped: `[lanes]` iteration at which each lane has stopped, 0 for those that continue; by default none.
      target_gap: the gap at which these lanes stopped, in units of the payoff.
    """
    arrays: dict[str, Any] = {f"leaf_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    header: dict[str, Any] = {"key": key, "iteration": int(arrays["leaf_0"])}  # a state's first field
    if stopped is not None and stopped.any():
        header |= {"stopped": stopped.tolist(), "target_gap": target_gap}
    write_archive(path, CHECKPOINT, header, arrays)


def load_checkpoint(
    path: str | os.PathLike[str],
    key: str,
    begin: State,
    put: Callable[[Any], Any] = jax.device_put,
) -> State | None:
    """Reads a state with the structure and shapes of `begin`, a state or its shapes.

    `put` places each array on its devices.

    Returns:
      The state; None if there is no file.

    Raises:
      ValueError: if the file is not a checkpoint, is damaged, or belongs to another problem.
    """
    archive = read_archive(path, CHECKPOINT)
    if archive is None:
        return None
    if archive.header.get("key") != key:
        raise ValueError(
            f"{CHECKPOINT.label(path)} is of another solve (game, blueprint, gadget, opponent, algorithm, "
            "precision or, for flops on accelerators, memory_limit differ); choose another file or delete it"
        )
    first, structure = jax.tree.flatten(begin)
    expected = {f"leaf_{i}": (leaf.shape, leaf.dtype) for i, leaf in enumerate(first)}
    if {name: (array.shape, array.dtype) for name, array in archive.arrays.items()} != expected:
        raise CHECKPOINT.damaged(path, ValueError("its arrays have other shapes"))
    arrays = dict(archive.arrays)
    del archive  # so that no more than one array is in memory twice
    return jax.tree.unflatten(structure, [put(arrays.pop(name)) for name in expected])


def load_stopped(path: str | os.PathLike[str], num_lanes: int, target_gap: float | None) -> IntArray:
    """`[lanes]` iteration at which each lane of a checkpoint stopped, 0 for lanes that continue.

    Args:
      path: the file.
      num_lanes: number of lanes of the checkpoint.
      target_gap: the target gap of this solve. If the checkpoint has another one, all lanes continue.

    Raises:
      ValueError: if the file is damaged, or lanes stopped at another target gap before its last iteration, so
        that their averages lack the later iterations.
    """
    header = read_header(path, CHECKPOINT) or {}
    if "stopped" not in header:
        return np.zeros(num_lanes, np.int32)
    try:
        stopped = np.array([check_whole_number("stopped", each, 0) for each in header["stopped"]], np.int32)
        before, iteration = float(header["target_gap"]), int(header["iteration"])
        if len(stopped) != num_lanes or stopped.max() > iteration:
            raise ValueError(f"stopped={stopped} are not iterations of {num_lanes} lanes")
    except (KeyError, TypeError, ValueError) as error:
        raise CHECKPOINT.damaged(path, error) from error
    if before == target_gap:
        return stopped
    if ((stopped > 0) & (stopped < iteration)).any():
        raise ValueError(
            f"{CHECKPOINT.label(path)}: some lanes have stopped at the target gap {before:g}, now it is "
            f"{target_gap}; expected the same, in units of the payoff (of hold'em in pots), or another file"
        )
    return np.zeros(num_lanes, np.int32)


def describe_kept(checkpoint: pathlib.Path) -> str:
    """Summary of a file or folder of checkpoints, empty if it has none; unreadable files are skipped."""
    files = sorted(checkpoint.rglob("*.npz")) if checkpoint.is_dir() else [checkpoint]
    iterations: list[int] = []
    for file in files:
        with contextlib.suppress(ValueError, KeyError):
            if (header := read_header(file, CHECKPOINT)) is not None:
                iterations.append(header["iteration"])
    if not iterations:
        return ""
    many = f"{len(iterations)} checkpoint{'s' if len(iterations) > 1 else ''}"
    upto = f" to {max(iterations)}" if max(iterations) > min(iterations) else ""
    return f"{str(checkpoint)!r} keeps {many}, of iteration {min(iterations)}{upto}"


# --- splits -------------------------------------------------------------------------------


def save_chunk(folder: pathlib.Path, name: str, lanes: int, chunk: int) -> None:
    """Records the number of lanes per chunk, unless a single chunk has exactly the lanes of the solve.

    On several devices a single chunk may have copies besides.
    """
    if chunk != lanes:
        with wait_for(folder):
            splits = _read_splits(folder)
            splits["chunks"][name] = {"lanes": lanes, "chunk": chunk}
            write_record(folder / SPLITS_FILE, SPLITS, splits)


def load_chunk(folder: pathlib.Path, name: str, lanes: int) -> int | None:
    """Number of lanes per chunk of a solve, as recorded in the folder; None if it records no such solve.

    Raises:
      ValueError: if the file cannot be read, or records a solve with another number of lanes.
    """
    recorded = _read_splits(folder)["chunks"].get(name)
    if recorded is None:
        return lanes if (folder / f"{name}.npz").exists() else None
    if recorded["lanes"] != lanes:
        raise ValueError(
            f"{SPLITS.label(folder / SPLITS_FILE)} is of another solve, of {recorded['lanes']} lanes of "
            f"{name} instead of {lanes}; choose another folder"
        )
    return recorded["chunk"]


def save_parts(folder: pathlib.Path, parts: Sequence[IntArray]) -> None:
    """Records the first subgame of each part of a forest, unless there is only one part."""
    if len(parts) > 1:
        with wait_for(folder):
            splits = _read_splits(folder)
            splits["begins"] = [int(part[0]) for part in parts]
            write_record(folder / SPLITS_FILE, SPLITS, splits)


def load_parts(folder: pathlib.Path, num_subgames: int) -> list[IntArray] | None:
    """Indices of the subgames of each part of a forest, as recorded in the folder; None if it has no record.

    Raises:
      ValueError: if the file cannot be read, or describes a forest with more subgames.
    """
    begins = _read_splits(folder)["begins"]
    if not begins:
        return None
    if begins[-1] >= num_subgames:
        raise ValueError(
            f"{SPLITS.label(folder / SPLITS_FILE)} is of another solve, with more than {num_subgames} "
            "subgames; choose another folder"
        )
    return [np.arange(*ends) for ends in itertools.pairwise([*begins, num_subgames])]


def _read_splits(folder: pathlib.Path) -> dict[str, Any]:
    """`chunks`, with lanes and chunk by name, and `begins` of parts; both are empty if there is no file."""
    path = folder / SPLITS_FILE
    record = read_record(path, SPLITS)
    if record is None:
        if old := next((name for name in OLDER_SPLITS if (folder / name).exists()), None):
            raise ValueError(
                f"checkpoint {str(folder / old)!r} was written by jaxgadget 0.4 or an earlier release, whose "
                "checkpoints this release does not read; choose another folder"
            )
        return {"chunks": {}, "begins": []}
    try:
        begins = [check_whole_number("begins", begin, 0) for begin in record.get("begins", [])]
        if begins and (begins[0] != 0 or sorted(set(begins)) != begins):
            raise ValueError(f"begins={begins} are not those of parts")
        chunks = {
            name: {field: check_whole_number(field, chunk[field], 1) for field in ("lanes", "chunk")}
            for name, chunk in record.get("chunks", {}).items()
        }
        return {"chunks": chunks, "begins": begins}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SPLITS.damaged(path, error) from error
