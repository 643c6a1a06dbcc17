"""Locks between processes: the system's, or claim files where those are unreliable.

A lock works if every machine that uses the folder respects it, and if it is released with the process or
machine that held it. Local disks, NFS 4 and file systems that are mounted with `flock` for the whole cluster
have such locks. Others (Lustre with `localflock`, some FUSE mounts) have locks that are local to each
machine, or none.

There, a claim is a file that only one process can create. Its holder refreshes it, and a claim that is not
refreshed for `LEASE` seconds is free. A holder that was suspended for longer is not stopped when it
continues: the piece is then solved twice and one result is kept; both are bit-identical only on machines of
one kind. A claim with this host's name is free as soon as no process on this host has the holder's process
id, so machines or containers that share a host name would take claims from live processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import platform
import time
from collections.abc import Generator

import filelock

from jaxgadget.util.files import make_folder

LEASE = 300.0
"""Seconds after which an unrefreshed claim expires; network file systems may hide a change for a minute."""

LOCKS, CLAIMS = "locks", "claims"
"""Names of the folders of the system's locks and of claims."""

HOLDER_TRIES = 4
"""Number of attempts to read the holder of a lock, a twentieth of a second apart."""

NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""Errors of file systems without locks."""


@contextlib.contextmanager
def wait_for(path: str | os.PathLike[str]) -> Generator[None]:
    """Waits for the lock of a file or folder, and holds it for the block.

    On a file system without locks this has no effect.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(_NoLocks):
            stack.enter_context(_acquired(_lock_path(path), blocking=True))
        yield


@contextlib.contextmanager
def hold(path: str | os.PathLike[str], noun: str) -> Generator[None]:
    """Holds the lock of a file or folder for the block; has no effect on a file system without locks.

    Args:
      path: path of the file or folder.
      noun: name of the file or folder in the error.

    Raises:
      ValueError: if another process, or another thread of this one, holds the lock; the message has the
        process id.
    """
    lock = _lock_path(path)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_acquired(lock, blocking=False))
            with contextlib.suppress(OSError):  # some systems lock the content, too
                lock.write_text(f"process {os.getpid()} on {platform.node()}")
        except _NoLocks:
            pass
        except filelock.Timeout:
            raise ValueError(
                f"{noun} {os.fspath(path)!r} is in use by {_holder(lock)}; wait until it ends, or choose "
                "another one"
            ) from None
        yield


class _NoLocks(Exception):
    """The file system has no locks."""


@contextlib.contextmanager
def _acquired(path: pathlib.Path, *, blocking: bool) -> Generator[None]:
    """Holds a lock file; raises `filelock.Timeout` or `_NoLocks` if that is impossible."""
    lock = filelock.FileLock(path, fallback_to_soft=False)
    try:
        lock.acquire(blocking=blocking)
    except filelock.Timeout:
        raise
    except OSError as error:
        if error.errno in NO_LOCKS:
            raise _NoLocks from error
        raise
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # before the release: a process that has it open looks again
            path.unlink()
        lock.release()


def _lock_path(path: str | os.PathLike[str]) -> pathlib.Path:
    """The lock file in a folder, or beside a file; links to one file share it."""
    target = pathlib.Path(os.path.realpath(path))
    return target / ".lock" if target.is_dir() else target.with_name(f".{target.name}.lock")


def _holder(lock: pathlib.Path) -> str:
    """Description of the process that holds a lock, which writes its id into the file after locking it."""
    for _ in range(HOLDER_TRIES):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if holder := lock.read_text(encoding="utf-8").strip():
                return holder
        time.sleep(0.05)
    return "another process"


class Locks:
    """Named locks of a sweep's folder.

    Args:
      folder: folder of the sweep.
      by_system: use the system's locks; by default the setting of the folder, or True for a new folder.

    Raises:
      ValueError: if the folder has the other kind of locks, or both kinds.
    """

    def __init__(self, folder: pathlib.Path, by_system: bool | None = None):
        _check_one_way(folder)
        begun = next((name for name in (CLAIMS, LOCKS) if (folder / name).is_dir()), None)
        chosen = begun or LOCKS if by_system is None else LOCKS if by_system else CLAIMS
        if begun not in (None, chosen):
            raise ValueError(
                f"locks={by_system!r}: the sweep in {str(folder)!r} began with locks={not by_system!r}, and "
                f"all processes there must do the same; pass that, or delete its folder {begun!r} when "
                "none is running"
            )
        self.folder = folder / chosen
        self._leases: dict[str, filelock.SoftFileLease] = {}

    def make(self) -> None:
        """Creates the folder of the locks.

        Raises:
          ValueError: if another process has meanwhile created the folder of the other kind.
        """
        make_folder(self.folder)
        _check_one_way(self.folder.parent)

    @contextlib.contextmanager
    def hold(self, name: str, *, wait: bool) -> Generator[bool]:
        """Holds a lock for a block; yields True if it was acquired.

        Raises:
          ValueError: if the file system has no locks.
        """
        lock = self._find(name)
        try:
            lock.acquire(blocking=wait)
        except filelock.Timeout:
            yield False
            return
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise ValueError(
                f"the file system of {str(self.folder)!r} has no locks ({error.strerror}); delete that "
                "folder and sweep with locks=False (--no-locks on the command line)"
            ) from error
        self._leases.pop(name, None)
        try:
            yield True
        finally:
            lock.release()

    def _find(self, name: str) -> filelock.BaseFileLock:
        path = self.folder / f"{name}.lock"
        if self.folder.name == LOCKS:
            return filelock.FileLock(path, fallback_to_soft=False)
        if name not in self._leases:  # a lease stores the time of the claim's last refresh
            self._leases[name] = filelock.SoftFileLease(path, lease_duration=LEASE, poll_interval=1.0)
        return self._leases[name]


def _check_one_way(folder: pathlib.Path) -> None:
    """Raises ValueError if both kinds exist; checked after making a folder, so that one of two sees both."""
    if (folder / LOCKS).is_dir() and (folder / CLAIMS).is_dir():
        raise ValueError(
            f"{str(folder)!r} has both folders, {LOCKS!r} and {CLAIMS!r}: sweeps began at the same time with "
            "locks=True and locks=False, and all processes there must do the same; when none "
            f"is running, delete {CLAIMS!r} for the system's locks or {LOCKS!r} for claims"
        )
