"""Folders with a value network: orbax checkpoints, what they are for, and the log of the training.

Orbax notices little of what happens to its files, so a file beside them has a checksum of each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import operator
import os
import pathlib
import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import chex
import jax

from jaxgadget.learn.encoding import Encoding, decision_histories
from jaxgadget.learn.learner import Progress
from jaxgadget.learn.network import Architecture, NetworkValues, abstract_weights
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.machine import describe_device, find_versions
from jaxgadget.util.sealed import checksum, damaged, file_checksum, read_record, write_record

if TYPE_CHECKING:
    import orbax.checkpoint as ocp

FORMAT = "jaxgadget value network"
FORMAT_VERSION = 1
DESCRIPTION = "network.json"
LOG = "log.json"
CHECKPOINTS = "checkpoints"
CHECKSUMS = "checksums.json"
"""Of every file of a checkpoint, and of the log up to its step; versions up to 0.2 have none."""

MACHINE = "machine"
"""What the weights' last bits depend on besides; another one is told, not refused."""

REMEDY = "delete the folder to start again"
EXPECTED = "expected what train_value wrote"

Row = dict[str, float]
"""A row of the log."""


def _orbax() -> Any:
    try:
        import orbax.checkpoint as ocp
    except ImportError as error:
        raise ImportError(
            "checkpoints of value networks need orbax, which is not installed: pip install 'jaxgadget[train]'"
        ) from error
    return ocp


@contextlib.contextmanager
def _open(folder: pathlib.Path, *, only_read: bool = False) -> Generator[ocp.CheckpointManager]:
    """Orbax's checkpoints in a folder, of which it keeps the newest two.

    What fails in a thread of its own orbax logs with a traceback, and raises it besides: it is told once.
    """
    ocp = _orbax()
    options = ocp.CheckpointManagerOptions(
        max_to_keep=None if only_read else 2,
        enable_async_checkpointing=False,
        cleanup_tmp_directories=not only_read,
        create=not only_read,
    )
    log = logging.getLogger("absl")

    def nothing(record: logging.LogRecord) -> bool:
        return False

    log.addFilter(nothing)  # one for each of us: of two threads neither ends the other's, nor leaves its own
    try:
        with ocp.CheckpointManager((folder / CHECKPOINTS).absolute(), options=options) as manager:
            yield manager
    finally:
        log.removeFilter(nothing)


class TrainingFolder:
    """Where a training keeps its checkpoints and its log.

    Args:
      folder: made if it is not there.
      values: the network.
      training: everything else that the weights depend on.

    Raises:
      ValueError: if the folder cannot be used, or holds another training.
      ImportError: if orbax is not installed.

    Warns:
      UserWarning: if the training there was begun with other versions of JAX or on another device or number
        of cores.
    """

    def __init__(self, folder: str | os.PathLike[str], values: NetworkValues, training: dict[str, Any]):
        _orbax()
        self.path = pathlib.Path(folder)
        make_folder(self.path)
        asked: dict[str, Any] = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "game": values.game,
            "architecture": dataclasses.asdict(values.shape),
            "encoding": dataclasses.asdict(values.encoding),
            "scale": values.scale,
            "blueprint": values.blueprint,
            "training": training,
        }
        machine = {"device": describe_device(), **find_versions(("jax", "jaxlib"))}
        description = _read_description(self.path)
        if description is None:
            write_record(self.path / DESCRIPTION, asked | {MACHINE: machine})
            return
        begun = description.pop(MACHINE, machine)
        wanted, kept = _flat(json.loads(json.dumps(asked))), _flat(description)
        for name in wanted | kept:
            if wanted.get(name) != kept.get(name):
                raise ValueError(
                    f"folder={str(self.path)!r} holds another training: "
                    f"{_differs(name, kept.get(name), wanted.get(name))}; choose another folder or delete it"
                )
        if begun != machine:
            warnings.warn(
                f"the training in folder={str(self.path)!r} was begun with {begun} and goes on with "
                f"{machine}: its weights will not be bit for bit those of one that was not cut off",
                stacklevel=4,
            )

    def load(self, begin: Progress) -> tuple[Progress, list[Row]]:
        """The newest checkpoint and the log so far; `begin` and no log if there is none.

        Raises:
          ValueError: if one of them cannot be read.
        """
        step = self.last_step()
        if step is None:
            return begin, []
        log_checksum = _check_files(self.path)
        with _open(self.path) as manager:
            parts = {"weights": begin.weights, "optimiser": begin.optimiser}
            restored = _restore(manager, step, parts, f"folder={str(self.path)!r}")
        try:
            kept: list[dict[str, float | None]] = json.loads((self.path / LOG).read_bytes())
            kept = [row for row in kept if _number(row["step"]) <= step]
            if log_checksum not in (None, checksum({LOG: kept})):
                raise ValueError("its checksum is not that of its content")
            rows = [{name: _number(value) for name, value in row.items()} for row in kept]
        except Exception as error:
            raise damaged(self.path / LOG, error, REMEDY) from error
        return dataclasses.replace(begin, **restored, step=jax.numpy.int32(step)), rows

    def save(self, progress: Progress, log: list[Row]) -> None:
        """Writes the log, then a checkpoint, then checksums; each is whole or not there."""
        rows = [{k: x if math.isfinite(x) else None for k, x in row.items()} for row in log]
        with atomic_writer(self.path / LOG) as file:
            file.write(json.dumps(rows, allow_nan=False).encode())
        args, step = _orbax().args, int(progress.step)
        parts = {name: args.StandardSave(getattr(progress, name)) for name in ("weights", "optimiser")}
        try:
            with _open(self.path) as manager:
                manager.save(step, args=args.Composite(**parts))
        except Exception as error:
            what = " ".join(str(error).split())
            raise ValueError(
                f"folder={str(self.path)!r}: the checkpoint of step {step} cannot be written ({what}); make "
                "room there, then go on, or choose another folder"
            ) from error
        checksums = read_record(self.path / CHECKSUMS, REMEDY) or {}
        kept = {name: files for name, files in checksums.items() if (self.path / CHECKPOINTS / name).is_dir()}
        written = {"files": _checksums(self.path / CHECKPOINTS / str(step)), "log": checksum({LOG: rows})}
        write_record(self.path / CHECKSUMS, kept | {str(step): written})

    def last_step(self) -> int | None:
        """The newest checkpoint's step."""
        return last_step(self.path)


def last_step(folder: pathlib.Path) -> int | None:
    """The step of the newest checkpoint in a folder, None if there is none."""
    return max(_steps(folder), default=None)


def _steps(folder: pathlib.Path) -> list[int]:
    """Of all checkpoints: what orbax has not finished has another name."""
    place = folder / CHECKPOINTS
    return (
        sorted(int(path.name) for path in place.iterdir() if path.name.isdecimal()) if place.is_dir() else []
    )


def load_values(folder: str | os.PathLike[str], tree: HistoryTree) -> NetworkValues:
    """The network that `train_value` left in a folder, with the newest checkpoint's weights.

    Args:
      folder: where it is.
      tree: the game's histories, possibly to a depth limit.

    Returns:
      The network. It is for the one blueprint that is entry 0 of its portfolio; `blueprint` stands for that.

    Raises:
      ValueError: if there is none, it cannot be read, or it is for another game.
      ImportError: if orbax is not installed.
    """
    check_tree(tree)
    path, where = pathlib.Path(folder), f"value network {os.fspath(folder)!r}"
    description = _read_description(path)
    if description is None:
        wrong = f"has no {DESCRIPTION}" if path.exists() else "does not exist"
        raise ValueError(
            f"{where} {wrong}; expected a folder that train_value (`jaxgadget train-value`) wrote"
        )
    try:
        values = _parse(description, os.fspath(folder))
    except Exception as error:
        raise _unreadable(path / DESCRIPTION, error) from error
    if values.game != tree.game.name:
        raise ValueError(
            f"{where} is for {values.game!r}, not for {tree.game.name!r}; train one for this game"
        )
    try:
        values.encoding(tree, decision_histories(tree)[:1])
    except Exception as error:
        raise _unreadable(path / DESCRIPTION, error) from error
    step = last_step(path)
    if step is None:
        raise ValueError(f"{where} has no checkpoint yet; train it longer")
    _check_files(path)
    with _open(path, only_read=True) as manager:
        values.weights = _restore(manager, step, {"weights": values.weights}, where)["weights"]
    return values


def _number(value: float | None) -> float:
    """What the log has: a number, or None for NaN."""
    if value is None:
        return math.nan
    if not is_finite_number(value):
        raise ValueError(f"{value!r} is no number")
    return value


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """Of every file of a checkpoint, by its path in there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_checksum(path) for path in files}


def _check_files(folder: pathlib.Path) -> str | None:
    """ValueError if a checkpoint is not as it was written; orbax looks into all of them, not only the newest.

    Returns:
      The checksum of the log up to the newest one; None if nobody knows it.
    """
    record = folder / CHECKSUMS
    sums, log_checksum = read_record(record, REMEDY) or {}, None
    for step in _steps(folder):
        try:
            kept = sums.get(str(step), {"files": {}, "log": None})  # version 0.2, or killed in between
            files, log_checksum = dict(kept["files"]), kept["log"]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(record, error, REMEDY) from error
        checkpoint = folder / CHECKPOINTS / str(step)
        found = _checksums(checkpoint) if files else {}
        for name in files:
            if found.get(name) != files[name]:
                said = ValueError(
                    "its checksum is not that of its content" if name in found else "it is gone"
                )
                raise damaged(checkpoint / name, said, REMEDY)
    return log_checksum


def _parse(description: dict[str, Any], name: str) -> NetworkValues:
    """The network that is described, with no weights yet but their shapes; any error if it is not."""
    told: Any = description["encoding"]
    sizes = tuple((int(first), int(second), int(chance)) for first, second, chance in told["sizes"])
    encoding = Encoding(**(told | {"sizes": sizes}))
    counts: Any = description["architecture"]
    shape = Architecture(**{name: operator.index(count) for name, count in counts.items()})
    if min(shape.num_entries, shape.width, shape.depth + 1) < 1 or shape.inputs != encoding.width:
        raise ValueError(f"architecture {counts}")
    scale = float(description["scale"])
    if not 0 < scale < math.inf:
        raise ValueError(f"scale {scale}")
    if not isinstance(description["blueprint"], str | None):
        raise ValueError(f"blueprint {description['blueprint']}")
    return NetworkValues(
        game=str(description["game"]),
        shape=shape,
        encoding=encoding,
        scale=scale,
        weights=abstract_weights(shape),
        blueprint=description["blueprint"],
        name=name,
    )


def _unreadable(path: pathlib.Path, error: Exception) -> ValueError:
    return damaged(path, error, EXPECTED)


def _read_description(folder: pathlib.Path) -> dict[str, Any] | None:
    """What a folder's network is for; None if it holds none; ValueError if the file is not ours."""
    path = folder / DESCRIPTION
    description = read_record(path, EXPECTED)
    if description is None:
        return None
    try:
        kind = (description["format"], description["version"])
    except KeyError as error:
        raise _unreadable(path, error) from error
    if kind != (FORMAT, FORMAT_VERSION):
        raise ValueError(
            f"{str(path)!r} is {kind[0]!r} version {kind[1]!r}; expected {FORMAT!r} version {FORMAT_VERSION}"
        )
    return description


def _restore(manager: ocp.CheckpointManager, step: int, parts: dict[str, Any], where: str) -> dict[str, Any]:
    """Parts of a checkpoint, of the structure, shapes and dtypes given."""
    args = _orbax().args
    try:
        wanted = {
            name: args.StandardRestore(jax.eval_shape(lambda part=part: part)) for name, part in parts.items()
        }
        read: Any = manager.restore(step, args=args.Composite(**wanted))
        restored = {name: read[name] for name in parts}
        chex.assert_trees_all_equal_shapes_and_dtypes(restored, parts)  # orbax restores other shapes too
        return restored
    except Exception as error:
        raise ValueError(
            f"{where}: the checkpoint of step {step} is of another architecture or damaged "
            f"({type(error).__name__}); choose another folder or delete it"
        ) from error


def _differs(name: str, kept: object, wanted: object) -> str:
    """What a folder has and what was asked for; digests would tell nobody anything."""
    if name == "blueprint":
        return "it was trained for another blueprint"
    if name == "training steps":
        return f"of {kept} steps, not {wanted}, and a training's steps cannot be changed"
    return f"{name} is {kept!r}, not {wanted!r}"


def _flat(nested: dict[str, Any], name: str = "") -> dict[str, Any]:
    """One level: names joined by blanks."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        path = f"{name} {key}".strip()
        flat |= _flat(value, path) if isinstance(value, dict) else {path: value}
    return flat
