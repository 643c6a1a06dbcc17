"""Every writer of files under faults: crashes and kills at renames and deletions, changes, two processes."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Iterator

import pytest

from tests import faults

MUTATED_ELSEWHERE = ("policy", "sweep", "solve", "network of histories")
"""Kinds whose files `tests/slow/test_mutations.py` changes two thousand times each."""

TRAINED_ALIKE = ("network of histories", "policy network")
"""Kinds whose checkpoints are written by the trainer of `network of ranges`."""

kinds = pytest.mark.parametrize("kind", faults.WRITERS)
pytestmark = pytest.mark.filterwarnings("ignore:the training in folder")
ignore_the_dead = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Threads of orbax outlive the death of their training, and complain about it."""


@ignore_the_dead
@pytest.mark.parametrize("kind", [kind for kind in faults.WRITERS if kind not in TRAINED_ALIKE])
def test_a_writer_that_crashed_resumes_to_the_same_result(kind: str, tmp_path: pathlib.Path) -> None:
    faults.check_deaths(kind, tmp_path)


@kinds
def test_a_writer_resumes_where_a_process_was_killed(kind: str, tmp_path: pathlib.Path) -> None:
    faults.check_kill(kind, tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in faults.WRITERS if kind not in MUTATED_ELSEWHERE])
def test_no_changed_file_changes_a_result_silently(kind: str, tmp_path: pathlib.Path) -> None:
    ends = faults.check_changes(kind, tmp_path)
    print(f"{kind}: {dict(ends)}")
    assert ends["refused"] > faults.MUTATIONS / 4


@pytest.fixture(scope="module")
def neighbours() -> Iterator[tuple[faults.Neighbour, faults.Neighbour]]:
    pair = faults.Neighbour(), faults.Neighbour()
    yield pair
    for neighbour in pair:
        neighbour.end()


@kinds
def test_two_processes_find_the_same_or_one_is_refused(
    kind: str, tmp_path: pathlib.Path, neighbours: tuple[faults.Neighbour, faults.Neighbour]
) -> None:
    faults.check_two(kind, tmp_path, neighbours)


def test_locks_that_do_not_hold_are_found(tmp_path: pathlib.Path) -> None:
    """A planted bug from `tests/fuzz_planted.py`: with it, two trainings overwrite each other's files."""
    pair = faults.Neighbour(unlocked=True), faults.Neighbour(unlocked=True)
    try:
        with pytest.raises(AssertionError):
            for attempt in range(3):
                folder = tmp_path / f"attempt-{attempt}"
                folder.mkdir()
                faults.check_two("network of histories", folder, pair)
    finally:
        for neighbour in pair:
            neighbour.end()


def test_nothing_is_renamed_or_deleted_after_the_death(tmp_path: pathlib.Path) -> None:
    """Only calls in the folder count."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        for name in "abc":
            (folder / name).write_text(name)
    with faults.dying_at(("unlink b", 1), inside) as calls:
        for folder in (outside, inside):
            os.unlink(folder / "a")
        try:
            shutil.rmtree(inside)
        finally:
            (outside / "b").unlink()
            with pytest.raises(faults.Died):
                os.replace(inside / "b", inside / "d")
    assert calls.died and calls.made == ["unlink a"]
    assert sorted(path.name for path in inside.iterdir()) == ["b", "c"]
    assert sorted(path.name for path in outside.iterdir()) == ["c"]
