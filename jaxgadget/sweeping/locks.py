"""Who is at a piece of a sweep: the system's locks, or files that claim it where locks are not to be trusted.

A lock does its duty if every machine at work in the folder respects it, and if it goes with the process or
machine that held it. Local disks, NFS 4 and file systems that are mounted with `flock` for the whole cluster
have such locks. Others (Lustre with `localflock`, some FUSE mounts) keep them on each machine alone, or have
none.

There a claim is a file that only one can create. Its holder refreshes it, and a claim that nobody refreshes
for `LEASE` seconds is anybody's. Nothing stops a holder that slept that long: then a piece is solved twice,
and one's rows are kept; to the last bit both have the same only on machines of one kind. A claim whose host
name is ours is anybody's as soon as no process here has its number, so machines or containers that share a
host name would take claims from the living.
"""

from __future__ import annotations

import contextlib
import errno
import pathlib
from collections.abc import Generator

import filelock

from jaxgadget.util.files import make_folder

LEASE = 300.0
"""Seconds for which a claim holds unrefreshed: file systems of a network may hide a change for a minute."""

LOCKS, CLAIMS = "locks", "claims"
"""Names of the folder that tell one way from the other."""

NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
"""What file systems without locks answer."""


class Locks:
    """Locks of one folder, by name.

    Args:
      folder: of the sweep.
      by_system: whether the system keeps the locks; by default as the folder has it, else yes.

    Raises:
      ValueError: if the folder has it otherwise, or both ways.
    """

    def __init__(self, folder: pathlib.Path, by_system: bool | None = None):
        _check_one_way(folder)
        begun = next((name for name in (CLAIMS, LOCKS) if (folder / name).is_dir()), None)
        asked = begun or LOCKS if by_system is None else LOCKS if by_system else CLAIMS
        if begun not in (None, asked):
            raise ValueError(
                f"locks={by_system!r}: the sweep in {str(folder)!r} began with locks={not by_system!r}, and "
                f"all who work there must do alike; say that, or delete its folder {begun!r} when nobody does"
            )
        self.folder = folder / asked
        self._leases: dict[str, filelock.SoftFileLease] = {}

    def make(self) -> None:
        """Makes their folder.

        Raises:
          ValueError: if another process has begun the other way since we looked.
        """
        make_folder(self.folder)
        _check_one_way(self.folder.parent)

    @contextlib.contextmanager
    def hold(self, name: str, *, wait: bool) -> Generator[bool]:
        """Holds a lock for a block: whether we have it.

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
        if name not in self._leases:  # kept: it knows since when nobody has refreshed the claim
            self._leases[name] = filelock.SoftFileLease(path, lease_duration=LEASE, poll_interval=1.0)
        return self._leases[name]


def _check_one_way(folder: pathlib.Path) -> None:
    """ValueError if both ways have begun; of two that look after making a folder, the later sees both."""
    if (folder / LOCKS).is_dir() and (folder / CLAIMS).is_dir():
        raise ValueError(
            f"{str(folder)!r} has both folders, {LOCKS!r} and {CLAIMS!r}: sweeps began there at once with "
            "locks=True and locks=False, and all who work there must do alike; when nobody does, delete "
            f"{CLAIMS!r} for the system's locks or {LOCKS!r} for claims"
        )
