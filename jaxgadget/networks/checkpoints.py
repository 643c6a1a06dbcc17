"""Folders of trainings: a description of the network, the log, and checkpoints of the weights by orbax.

A checkpoint is a folder named by its step, with a checksum of each of its files. It is written under another
name and renamed when it is complete, and an old one is renamed before it is deleted, so that a killed process
leaves no partial checkpoint under the name of a step.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import math
import os
import pathlib
import shutil
import warnings
from collections.abc import Generator
from typing import Any, Protocol, Self, TypeVar

import chex
import jax

from jaxgadget.networks.perceptron import Weights
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.files import atomic_writer, check_folder_name, make_folder
from jaxgadget.util.folders import KINDS, find_kind, wrong_folder
from jaxgadget.util.folders import NETWORK as DESCRIPTION
from jaxgadget.util.locks import hold
from jaxgadget.util.machine import describe_device, find_versions
from jaxgadget.util.store import (
    DamagedError,
    Format,
    checksum,
    file_checksum,
    jsonable,
    read_record,
    write_record,
)

LOG = "log.json"
CHECKPOINTS = "checkpoints"
CHECKSUMS = "checksums.json"
"""File of a checkpoint with the checksums of its files, of the log up to its step, and of the description.
Releases 0.3 and 0.4 wrote the checksums of all checkpoints to one file of this name beside them.
"""

UNFINISHED, RETIRED = ".unfinished", ".retired"
"""Names of a checkpoint that is being written, and of one that is being deleted."""

MAX_CHECKPOINTS = 2
"""Number of newest checkpoints that a folder keeps."""

MACHINE = "machine"
"""Device and versions, on which the last bits of the weights depend; differences cause a warning."""

SUMS = Format(
    name="jaxgadget training checkpoint",
    version=1,
    noun="checksums",
    remedy="restore the checkpoint, or train in another folder",
)
CONTENT = dataclasses.replace(SUMS, noun="checkpoint")
"""Errors for the files of a checkpoint other than its checksums."""

OLDER_SUMS = Format(
    name="jaxgadget checksums",
    version=1,
    noun="checksums",
    remedy=SUMS.remedy,
    anonymous=True,
)
"""Checksums of all checkpoints in one file, as releases 0.3 and 0.4 wrote them."""

LOG_FILE = Format(
    name="",
    version=0,
    noun="log",
    remedy="delete it to continue without the rows so far",
)
"""A JSON array of rows, whose checksum is in the checkpoint's record."""

Row = dict[str, float]
"""A row of the log."""


class Snapshot(Protocol):
    """State of a training, as checkpoints store it."""

    @property
    def step(self) -> jax.Array:
        """Number of completed steps."""
        ...

    @property
    def parts(self) -> dict[str, Any]:
        """Nonempty pytrees of arrays by name, with `weights` among them."""
        ...

    def at(self, step: int, parts: dict[str, Any]) -> Self:
        """The state after other steps, with other parts."""
        ...


_Snapshot = TypeVar("_Snapshot", bound=Snapshot)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """A kind of network, with its own format of folders.

    Attributes:
      name: name for errors, such as `value network`.
      version: version of the description of a network of this kind.
      writer: name of the training function, such as `train_value`, which is also that of the command.
    """

    name: str
    version: int
    writer: str

    @property
    def format(self) -> str:
        """Name of the description's format."""
        return f"jaxgadget {self.name}"

    @property
    def file(self) -> Format:
        """Format of the description, with version and remedy."""
        return Format(
            name=self.format,
            version=self.version,
            noun="description",
            remedy=f"expected what {self.writer} wrote: delete it and train again with the same arguments, "
            "which writes it again and continues from the newest checkpoint",
        )

    @property
    def content(self) -> str:
        """Expected content of a folder, for errors."""
        return str(KINDS.get(self.format, f"a {self.name}, from {self.writer}"))

    def label(self, folder: str | os.PathLike[str]) -> str:
        """Name of the network in a folder, for errors."""
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
def _checkpointer() -> Generator[Any]:
    """Orbax's checkpointer; its log, which repeats errors with a traceback, is silent for the block."""
    ocp = _orbax()
    log = logging.getLogger("absl")

    def suppress(record: logging.LogRecord) -> bool:
        return False

    log.addFilter(suppress)  # one filter per block, so that no thread removes the filter of another one
    try:
        with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
            yield checkpointer
    finally:
        log.removeFilter(suppress)


@contextlib.contextmanager
def open_training(
    folder: str | os.PathLike[str] | None, described: dict[str, Any], kind: NetworkKind
) -> Generator[TrainingFolder | None]:
    """Yields the folder of a training and holds its lock for the block; yields None without a folder.

    Raises:
      ValueError: as `TrainingFolder`, or if another process trains there.
    """
    if folder is None:
        yield None
        return
    make_folder(folder)
    with hold(folder, "folder"):
        yield TrainingFolder(folder, described, kind)


class TrainingFolder:
    """Checkpoints and log of a training.

    Args:
      folder: the folder, created if missing.
      described: a JSON object that describes the network and, under `training`, everything else that
        determines its weights.
      kind: kind of the network.

    Raises:
      ValueError: if the folder cannot be used or contains another training.
      ImportError: if orbax is not installed.

    Warns:
      UserWarning: if the training was started with other versions of JAX or on another device or number of
        cores.
    """

    def __init__(self, folder: str | os.PathLike[str], described: dict[str, Any], kind: NetworkKind):
        _orbax()
        make_folder(folder)
        self.path = pathlib.Path(folder)
        requested: dict[str, Any] = json.loads(json.dumps(described))
        self._described = checksum(requested)
        machine = {"device": describe_device(), **find_versions(("jax", "jaxlib"))}
        description = _find_description(self.path, kind)
        if description is None:
            if (other := find_kind(self.path)) is not None:
                raise wrong_folder(self.path, other, f"an empty folder, or one with {kind.content}")
            if (step := self.last_step()) is not None:
                record = read_record(self.path / CHECKPOINTS / str(step) / CHECKSUMS, SUMS) or {}
                if record.get("description") != self._described:
                    raise ValueError(
                        f"folder={str(self.path)!r} holds the checkpoint of step {step} of another training, "
                        f"and no {DESCRIPTION} that identifies it; choose another folder"
                    )
            write_record(self.path / DESCRIPTION, kind.file, requested | {MACHINE: machine})
            return
        begun = description.pop(MACHINE, machine)
        new, old = _flat(requested), _flat(description)
        for name in new | old:
            if new.get(name) != old.get(name):
                raise ValueError(
                    f"folder={str(self.path)!r} holds another training: "
                    f"{_differs(name, old.get(name), new.get(name))}; choose another folder or delete it"
                )
        if begun != machine:
            warnings.warn(
                f"the training in folder={str(self.path)!r} was started with {begun} and continues with "
                f"{machine}: its weights will differ in the last bits from those of an uninterrupted "
                "training",
                stacklevel=5,  # above `open_training`, its `with` and the training function
            )

    def load(self, begin: _Snapshot) -> tuple[_Snapshot, list[Row]]:
        """The newest checkpoint and the log so far; `begin` and an empty log without a checkpoint.

        Raises:
          ValueError: if either cannot be read.
        """
        step = self.last_step()
        if step is None:
            return begin, []
        log_checksum = _check_files(self.path, step)["log"]
        restored = _restore(self.path, step, begin.parts, f"folder={str(self.path)!r}")
        rows = self._read_log(step, log_checksum)
        return begin.at(step, restored), rows

    def _read_log(self, step: int, expected: str) -> list[Row]:
        """The log up to a step; empty if there is no file."""
        path = self.path / LOG
        try:
            read: list[dict[str, float | None]] = json.loads(path.read_bytes())
            rows = [row for row in read if number_of(row["step"]) <= step]
            if expected != checksum({LOG: rows}):
                raise DamagedError("its checksum does not match its content")
            return [{name: number_of(value) for name, value in row.items()} for row in rows]
        except FileNotFoundError:
            return []
        except Exception as error:
            raise LOG_FILE.damaged(path, error) from error

    def save(self, progress: Snapshot, log: list[Row]) -> None:
        """Writes the log, then a checkpoint, then deletes old ones; each write is atomic."""
        rows = jsonable(log)
        with atomic_writer(self.path / LOG) as file:
            file.write(json.dumps(rows, allow_nan=False).encode())
        args, step, unfinished = _orbax().args, int(progress.step), self.path / UNFINISHED
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            with _checkpointer() as checkpointer:
                for name, part in progress.parts.items():
                    checkpointer.save((unfinished / name).absolute(), args=args.StandardSave(part))
            sums = {
                "step": step,
                "files": _checksums(unfinished),
                "log": checksum({LOG: rows}),
                "description": self._described,
            }
            write_record(unfinished / CHECKSUMS, SUMS, sums)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ValueError(
                f"folder={str(self.path)!r}: the checkpoint of step {step} cannot be written ({reason}); "
                "free space there and resume, or choose another folder"
            ) from error
        (self.path / CHECKPOINTS).mkdir(exist_ok=True)
        self._retire(step)
        os.replace(unfinished, self.path / CHECKPOINTS / str(step))
        for old in _steps(self.path)[:-MAX_CHECKPOINTS]:
            self._retire(old)

    def _retire(self, step: int) -> None:
        """Deletes a checkpoint if it exists, and checkpoints that killed processes deleted only partially."""
        retired = self.path / RETIRED
        shutil.rmtree(retired, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.replace(self.path / CHECKPOINTS / str(step), retired)
        shutil.rmtree(retired, ignore_errors=True)

    def last_step(self) -> int | None:
        """Step of the newest checkpoint."""
        return last_step(self.path)


def last_step(folder: str | os.PathLike[str]) -> int | None:
    """Step of the newest checkpoint in a folder, None for none."""
    return max(_steps(pathlib.Path(folder)), default=None)


def _steps(folder: pathlib.Path) -> list[int]:
    """Steps of all checkpoints, ascending."""
    checkpoints = folder / CHECKPOINTS
    return (
        sorted(int(path.name) for path in checkpoints.iterdir() if path.name.isdecimal())
        if checkpoints.is_dir()
        else []
    )


def content_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Two files whose content changes with the network: its description and checksums of its weights."""
    newest = folder / CHECKPOINTS / str(last_step(folder)) / CHECKSUMS
    return [folder / DESCRIPTION, newest if newest.exists() else folder / CHECKSUMS]


def read_description(folder: str | os.PathLike[str], kind: NetworkKind) -> dict[str, Any]:
    """The description of a training, as passed to `TrainingFolder`, with an entry for the machine.

    Raises:
      ValueError: if the description is missing, cannot be read, or has another kind or version.
    """
    check_folder_name(folder)
    path = pathlib.Path(folder)
    description = _find_description(path, kind)
    if description is None:
        if (other := find_kind(path)) is not None:
            raise wrong_folder(folder, other, kind.content)
        wrong = f"has no {DESCRIPTION}" if path.exists() else "does not exist"
        raise ValueError(
            f"{kind.label(folder)} {wrong}; expected a folder written by {kind.writer} "
            f"(`jaxgadget {kind.writer.replace('_', '-')}`)"
        )
    return description


@contextlib.contextmanager
def parsing(folder: str | os.PathLike[str], kind: NetworkKind) -> Generator[None]:
    """Converts any error inside the block to a ValueError: the folder's description is damaged."""
    try:
        yield
    except Exception as error:
        raise kind.file.damaged(pathlib.Path(folder) / DESCRIPTION, error) from error


def restore_weights(
    folder: str | os.PathLike[str], like: Weights, kind: NetworkKind, item: str = "weights"
) -> Weights:
    """Loads the newest checkpoint's weights.

    Args:
      folder: folder of a training.
      like: weights with the same structure, shapes and dtypes, for example `abstract_weights`.
      kind: kind of the network.
      item: `weights`, or `average` if the training averages weights.

    Raises:
      ValueError: if there is no checkpoint, or it is damaged or has weights of another structure.
      ImportError: if orbax is not installed.
    """
    path, label = pathlib.Path(folder), kind.label(folder)
    while True:
        step = last_step(path)
        if step is None:
            raise ValueError(f"{label} has no checkpoint yet; train it longer")
        try:
            _check_files(path, step)
            return _restore(path, step, {item: like}, label)[item]
        except (OSError, ValueError):
            if last_step(path) == step:  # otherwise another process is training and has deleted it
                raise


def _find_description(folder: pathlib.Path, kind: NetworkKind) -> dict[str, Any] | None:
    """Reads a description as `read_description`; None if it is missing."""
    other = find_kind(folder)
    if other is not None and other != KINDS.get(kind.format):
        raise wrong_folder(folder, other, kind.content)
    return read_record(folder / DESCRIPTION, kind.file)


def number_of(value: float | None) -> float:
    """A number from a record, NaN for null; raises ValueError for other values."""
    if value is None:
        return math.nan
    if not is_finite_number(value):
        raise ValueError(f"{value!r} is not a number")
    return value


def _checksums(folder: pathlib.Path) -> dict[str, str]:
    """Checksums of all files of a checkpoint except this record, by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    return {path.relative_to(folder).as_posix(): file_checksum(path) for path in files}


def _check_files(folder: pathlib.Path, step: int) -> dict[str, Any]:
    """Returns the record of a checkpoint's checksums if its files agree with them.

    Raises:
      ValueError: if the checkpoint was changed; the message names another checkpoint that is intact, if any.
    """
    try:
        return _check_step(folder, step)
    except ValueError as error:
        for before in reversed([other for other in _steps(folder) if other < step]):
            with contextlib.suppress(ValueError):
                _check_step(folder, before)
                error.add_note(
                    f"The checkpoint of step {before} is intact: to use it, move "
                    f"{str(folder / CHECKPOINTS / str(step))!r} away."
                )
                break
        raise


def _check_step(folder: pathlib.Path, step: int) -> dict[str, Any]:
    checkpoint = folder / CHECKPOINTS / str(step)
    path = checkpoint / CHECKSUMS
    record: dict[str, Any] | None = read_record(path, SUMS)
    if record is None:
        path = folder / CHECKSUMS
        record = (read_record(path, OLDER_SUMS) or {}).get(str(step))
    if record is None:
        raise CONTENT.damaged(checkpoint, ValueError("its checksums are missing"))
    try:
        files, _ = dict[str, str](record["files"]), record["log"]
    except (KeyError, TypeError, ValueError) as error:
        raise SUMS.damaged(path, error) from error
    checksums = _checksums(checkpoint)
    for name in files:
        if checksums.get(name) != files[name]:
            reason = "its checksum does not match its content" if name in checksums else "it is missing"
            raise CONTENT.damaged(checkpoint / name, ValueError(reason))
    return record


def _restore(folder: pathlib.Path, step: int, items: dict[str, Any], label: str) -> dict[str, Any]:
    """Parts of a checkpoint, with the structure, shapes and dtypes of `items`."""
    args, checkpoint = _orbax().args, (folder / CHECKPOINTS / str(step)).absolute()
    try:
        with _checkpointer() as checkpointer:
            restored = {
                name: checkpointer.restore(
                    checkpoint / name, args=args.StandardRestore(jax.eval_shape(lambda item=item: item))
                )
                for name, item in items.items()
            }
        chex.assert_trees_all_equal_shapes_and_dtypes(restored, items)  # orbax also restores other shapes
        return restored
    except Exception as error:
        raise ValueError(
            f"{label}: the checkpoint of step {step} has another architecture or is damaged "
            f"({type(error).__name__}); choose another folder"
        ) from error


def _differs(name: str, stored: object, requested: object) -> str:
    """Describes a difference between the folder and the arguments; digests are omitted."""
    if name == "blueprint":
        return "it was trained for another blueprint"
    if name == "training steps":
        return f"of {stored} steps, not {requested}, and a training's steps cannot be changed"
    return f"{name} is {stored!r}, not {requested!r}"


def _flat(nested: dict[str, Any], name: str = "") -> dict[str, Any]:
    """Flattens nested dictionaries; keys are joined by spaces."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        path = f"{name} {key}".strip()
        flat |= _flat(value, path) if isinstance(value, dict) else {path: value}
    return flat
