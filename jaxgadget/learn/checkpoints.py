"""Folders with a network: orbax checkpoints, what they are for, and the log of the training.

Orbax notices little of what happens to its files, so a file beside them has a checksum of each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import os
import pathlib
import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import chex
import jax

from jaxgadget.learn.perceptron import Weights
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.files import atomic_writer, check_folder_name, make_folder
from jaxgadget.util.folders import KINDS, find_kind, kind_of, wrong_folder
from jaxgadget.util.folders import NETWORK as DESCRIPTION
from jaxgadget.util.machine import describe_device, find_versions
from jaxgadget.util.sealed import checksum, damaged, file_checksum, read_record, write_record

if TYPE_CHECKING:
    import orbax.checkpoint as ocp

    from jaxgadget.learn.trainer import Progress

LOG = "log.json"
CHECKPOINTS = "checkpoints"
CHECKSUMS = "checksums.json"
"""Of every file of a checkpoint, and of the log up to its step; versions up to 0.2 have none."""

MACHINE = "machine"
"""What the weights' last bits depend on besides; another one is told, not refused."""

REMEDY = "delete the folder to start again"

Row = dict[str, float]
"""A row of the log."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """A kind of network, with folders of its own.

    Attributes:
      name: what errors call it, `value network`.
      version: of its description.
      writer: the function that trains it, `train_value`; its command is called alike.
    """

    name: str
    version: int
    writer: str

    @property
    def format(self) -> str:
        """What its description says it is."""
        return f"jaxgadget {self.name}"

    @property
    def expected(self) -> str:
        """For the error about another file."""
        return f"expected what {self.writer} wrote; {REMEDY}"

    @property
    def content(self) -> str:
        """What errors say that a folder should hold."""
        return str(KINDS.get(self.format, f"a {self.name}, from {self.writer}"))

    def label(self, folder: str | os.PathLike[str]) -> str:
        """What errors call the network in a folder."""
        return f"{self.name} {os.fspath(folder)!r}"


def _orbax() -> Any:
    try:
        import orbax.checkpoint as ocp
    except ImportError as error:
        raise ImportError(
            "checkpoints of networks need orbax, which is not installed: pip install 'jaxgadget[train]'"
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
      described: a JSON object: the network, and under `training` everything else that its weights depend on.
      kind: of the network.

    Raises:
      ValueError: if the folder cannot be used, or holds another training.
      ImportError: if orbax is not installed.

    Warns:
      UserWarning: if the training there was begun with other versions of JAX or on another device or number
        of cores.
    """

    def __init__(self, folder: str | os.PathLike[str], described: dict[str, Any], kind: NetworkKind):
        _orbax()
        make_folder(folder)
        self.path = pathlib.Path(folder)
        asked = {"format": kind.format, "version": kind.version, **described}
        machine = {"device": describe_device(), **find_versions(("jax", "jaxlib"))}
        description = _find_description(self.path, kind)
        if description is None:
            if (other := find_kind(self.path)) is not None:
                raise wrong_folder(self.path, other, f"an empty folder, or one with {kind.content}")
            if (step := self.last_step()) is not None:
                raise ValueError(
                    f"folder={str(self.path)!r} holds the checkpoint of step {step} and no {DESCRIPTION} "
                    f"that says what it is of; {REMEDY}, or choose another one"
                )
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
                stacklevel=3,
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


def read_description(folder: str | os.PathLike[str], kind: NetworkKind) -> dict[str, Any]:
    """What a `TrainingFolder` was given about its network, with `format`, `version` and the machine.

    Raises:
      ValueError: if the folder has none, it cannot be read, or it is of another kind or version.
    """
    check_folder_name(folder)
    path = pathlib.Path(folder)
    description = _find_description(path, kind)
    if description is None:
        if (other := find_kind(path)) is not None:
            raise wrong_folder(folder, other, kind.content)
        wrong = f"has no {DESCRIPTION}" if path.exists() else "does not exist"
        raise ValueError(
            f"{kind.label(folder)} {wrong}; expected a folder that {kind.writer} "
            f"(`jaxgadget {kind.writer.replace('_', '-')}`) wrote"
        )
    return description


@contextlib.contextmanager
def parsing(folder: str | os.PathLike[str], kind: NetworkKind) -> Generator[None]:
    """Whatever is raised inside is a ValueError that calls the folder's description damaged."""
    try:
        yield
    except Exception as error:
        raise damaged(pathlib.Path(folder) / DESCRIPTION, error, kind.expected) from error


def restore_weights(folder: str | os.PathLike[str], like: Weights, kind: NetworkKind) -> Weights:
    """The newest checkpoint's weights.

    Args:
      folder: of a training.
      like: weights of the same structure, shapes and dtypes; `abstract_weights` will do.
      kind: of the network.

    Raises:
      ValueError: if there is no checkpoint, it is damaged, or of other weights.
      ImportError: if orbax is not installed.
    """
    path, where = pathlib.Path(folder), kind.label(folder)
    step = last_step(path)
    if step is None:
        raise ValueError(f"{where} has no checkpoint yet; train it longer")
    _check_files(path)
    with _open(path, only_read=True) as manager:
        return _restore(manager, step, {"weights": like}, where)["weights"]


def _find_description(folder: pathlib.Path, kind: NetworkKind) -> dict[str, Any] | None:
    """As `read_description`; None if there is none."""
    path = folder / DESCRIPTION
    description = read_record(path, kind.expected)
    if description is None:
        return None
    with parsing(folder, kind):
        version = (description["format"], description["version"])
    other = kind_of(description)
    if version[0] != kind.format and other is not None:
        raise wrong_folder(folder, other, kind.content)
    if version != (kind.format, kind.version):
        raise ValueError(
            f"{str(path)!r} is {version[0]!r} version {version[1]!r}; expected {kind.format!r} "
            f"version {kind.version}"
        )
    return description


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
