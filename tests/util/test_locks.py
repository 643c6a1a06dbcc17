"""Locks in a sweep's folder: the system's, or claim files where those are unreliable."""

import errno
import fcntl
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import pytest

from jaxgadget.sweeping.store import Store
from jaxgadget.util import locks
from jaxgadget.util.locks import Locks

ROOT = pathlib.Path(__file__).parents[2]
DIES = """
import os, pathlib, sys
from jaxgadget.util import locks
locks.LEASE = float(sys.argv[3])
with locks.Locks(pathlib.Path(sys.argv[1]), sys.argv[2] == "True").hold("piece", wait=False) as ours:
    assert ours
    os._exit(9)
"""


def die_holding(folder: pathlib.Path, by_system: bool, lease: float = locks.LEASE) -> None:
    """Another process holds `piece` and dies without releasing it."""
    command = [sys.executable, "-c", DIES, str(folder), str(by_system), str(lease)]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=ROOT, check=False)
    assert done.returncode == 9


@pytest.mark.parametrize("by_system", [True, False])
def test_one_holds_and_others_do_not(tmp_path: pathlib.Path, by_system: bool):
    stores = [Store(tmp_path, locks=by_system) for _ in range(2)]
    with stores[0].lock("piece", wait=False) as ours:
        assert ours
        with stores[1].lock("piece", wait=False) as theirs, stores[1].lock("other", wait=True) as other:
            assert not theirs and other
    with stores[1].lock("piece", wait=False) as theirs:
        assert theirs
    folders = {path.name for path in tmp_path.iterdir()}
    assert folders == {"locks" if by_system else "claims", "games", "pieces"}


@pytest.mark.parametrize("by_system", [True, False])
def test_locks_of_a_dead_process_are_released(tmp_path: pathlib.Path, by_system: bool):
    """At the first or second check, before its claim expires."""
    store = Store(tmp_path, locks=by_system)
    die_holding(tmp_path, by_system)
    held: list[bool] = []
    while len(held) < 3 and not any(held):
        with store.lock("piece", wait=False) as ours:
            held.append(ours)
    assert held[-1]


def test_a_claim_from_another_machine_grows_old(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """A process on another machine cannot be checked: its claim counts until it is no longer refreshed."""
    monkeypatch.setattr(locks, "LEASE", 0.5)
    store = Store(tmp_path, locks=False)
    die_holding(tmp_path, False, 0.5)
    (claim,) = (tmp_path / "claims").iterdir()
    host = os.uname().nodename
    text = claim.read_text()
    assert host in text
    claim.write_text(text.replace(host, "elsewhere"))
    with store.lock("piece", wait=False) as ours:
        assert not ours
    began = time.monotonic()
    while not ours and time.monotonic() < began + 60:
        with store.lock("piece", wait=False) as ours:
            pass
    assert ours and time.monotonic() > began + 0.4
    assert not list((tmp_path / "claims").iterdir())


def test_a_folder_keeps_to_one_way(tmp_path: pathlib.Path):
    Store(tmp_path / "a", locks=False)
    assert Store(tmp_path / "a").locks.folder == Locks(tmp_path / "a").folder == tmp_path / "a" / "claims"
    Store(tmp_path / "b")
    assert Store(tmp_path / "b", locks=True).locks.folder == tmp_path / "b" / "locks"
    for name, other in (("a", True), ("b", False)):
        with pytest.raises(ValueError, match="locks="):
            Store(tmp_path / name, locks=other)


def test_a_file_system_without_locks_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    def none(*arguments: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    store = Store(tmp_path)
    monkeypatch.setattr(fcntl, "flock", none)
    with (
        pytest.raises(ValueError, match="Function not implemented"),
        store.lock("piece", wait=False),
    ):
        pass


@pytest.mark.parametrize("first", [True, False])
def test_two_that_begin_at_once_do_not_go_both_ways(tmp_path: pathlib.Path, first: bool):
    """Both checked before either had created its folder."""
    one, other = Locks(tmp_path, first), Locks(tmp_path, not first)
    one.make()
    with (
        one.hold("piece", wait=False) as ours,
        pytest.raises(ValueError, match="has both folders, 'locks' and"),
    ):
        other.make()
    assert ours
    for by_system in (True, False, None):
        with pytest.raises(ValueError, match="locks"):
            Store(tmp_path, locks=by_system)
    other.folder.rmdir()
    assert Store(tmp_path, locks=first).locks.folder == one.folder
