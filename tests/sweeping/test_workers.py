"""Sweeps by workers: their tasks, and the state of the sweep after failures.

Executors that start processes on cluster machines, and killed workers, are tested in `tests/slow`.
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import jax
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import Policy, enumerate_game, load, read_sweep, sweep
from jaxgadget.sweeping import workers as module
from jaxgadget.sweeping.sweep import Workshop, work_on
from jaxgadget.sweeping.workers import Processes, Workers
from jaxgadget.util.accelerators import VISIBLE
from tests.solving import sweeping
from tests.sweeping.crew import Pennies, assert_same_rows, several

FEW: dict[str, Any] = {"games": "kuhn_poker", "cuts": "depth:1", "players": 0, "gadgets": "resolving"}
FEW |= {"priors": "none", "blueprints": ["uniform", "cfr:3"], "blueprints_at_once": 1, "iterations": 3}


class Here:
    """Executor that calls a task when its result is requested, or fails instead on request."""

    def __init__(self, *failures: BaseException | None):
        self.failures = list(failures)
        self.submitted: list[tuple[Any, ...]] = []
        self.cancelled = 0

    def submit(self, task: Callable[..., str], *arguments: Any) -> "Here.Future":
        self.submitted.append((task, *arguments))
        failure = self.failures.pop(0) if self.failures else None
        return Here.Future(self, task, arguments, failure)

    class Future:
        def __init__(self, owner: "Here", task: Any, arguments: Any, failure: BaseException | None):
            self.owner, self.task, self.arguments, self.failure = owner, task, arguments, failure

        def result(self) -> str:
            if self.failure is not None:
                raise self.failure
            return self.task(*self.arguments)

        def cancel(self) -> None:
            self.owner.cancelled += 1


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The rows of a sweep by one process."""
    return sweep(tmp_path_factory.mktemp("alone"), **sweeping(**several()))


@pytest.mark.slow
def test_a_process_pool_brings_the_same_rows(expected: pd.DataFrame, tmp_path: pathlib.Path):
    """User-defined games and priors are sent through the folder."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        rows = sweep(tmp_path, executor=pool, workers=2, **sweeping(**several()))
    assert_same_rows(rows, expected)
    assert_frame_equal(read_sweep(tmp_path), rows, check_exact=True)
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.slow
def test_claims_in_the_place_of_locks_bring_the_same_rows(expected: pd.DataFrame, tmp_path: pathlib.Path):
    assert_same_rows(
        sweep(tmp_path, executor=Here(), workers=1, locks=False, **sweeping(**several())), expected
    )
    assert list((tmp_path / "claims").iterdir()) == [] and not (tmp_path / "locks").exists()


def test_only_a_path_travels(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    executor = Here()
    rows = sweep("sweep", executor=executor, workers=3, **sweeping(**FEW))
    folder = str(tmp_path / "sweep")
    assert executor.submitted == [(work_on, folder, 0), (work_on, folder, 1)], "no more than there are pieces"
    assert_same_rows(rows, sweep("alone", **sweeping(**FEW)))


def test_no_worker_is_called_if_no_piece_is_missing(tmp_path: pathlib.Path):
    executor = Here()
    rows = sweep(tmp_path, **sweeping(**FEW))
    assert_frame_equal(sweep(tmp_path, executor=executor, **sweeping(**FEW)), rows, check_exact=True)
    assert executor.submitted == []


def test_workers_solve_missing_pieces_only(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    rows, executor = sweep(tmp_path, **sweeping(**FEW)), Here()
    gone = rows["piece"].iloc[0]
    (tmp_path / "pieces" / f"{gone}.parquet").unlink()
    solved: list[str] = []
    solve = Workshop.solve
    monkeypatch.setattr(Workshop, "solve", lambda self, piece: solved.append(piece.key) or solve(self, piece))
    assert_same_rows(sweep(tmp_path, executor=executor, **sweeping(**FEW)), rows)
    assert solved == [gone] and len(executor.submitted) == 1


@pytest.mark.parametrize(
    "game",
    [
        "openspiel:kuhn_poker",
        "EFG",
    ],
)
def test_games_of_all_kinds_travel(game: str, tmp_path: pathlib.Path):
    if game == "EFG":
        path = tmp_path / "pennies.efg"
        path.write_text(
            'EFG 2 R "pennies" { "a" "b" }\np "" 1 1 "" { "h" "t" } 0\np "" 2 1 "" { "h" "t" } 0\n'
            't "" 1 "" { 2, -2 }\nt "" 2 "" { -1, 1 }\np "" 2 1 "" { "h" "t" } 0\n'
            't "" 3 "" { -1, 1 }\nt "" 4 "" { 1, -1 }\n'
        )
        game = str(path)
    asked = FEW | {"games": game, "blueprints": "uniform"}
    rows = sweep(tmp_path / "others", executor=Here(), **sweeping(**asked))
    assert_same_rows(rows, sweep(tmp_path / "alone", **sweeping(**asked)))


OWN = """
from tests.sweeping.crew import Pennies


class Own(Pennies):
    def __init__(self, prize: float = 3.0):
        super().__init__(prize)
"""


def own_game(folder: pathlib.Path) -> str:
    """A file with rules; its path and class."""
    (folder / "mygame.py").write_text(OWN)
    return f"{folder}/mygame.py:Own(prize=5)"


@pytest.mark.slow
def test_a_process_reads_the_file_of_a_game_by_path(tmp_path: pathlib.Path):
    """It has no module of that file before it loads the game."""
    game = own_game(tmp_path)
    asked = FEW | {"games": game}
    rows = sweep(tmp_path / "others", executor=Processes(), workers=1, **sweeping(**asked))
    assert_same_rows(rows, sweep(tmp_path / "alone", **sweeping(**asked)))
    assert set(rows["game"]) == {game.replace("=5", "=5.0")}


@pytest.mark.parametrize("own", [False, True])
def test_a_policy_travels_with_its_tree(own: bool, tmp_path: pathlib.Path):
    game = own_game(tmp_path) if own else "kuhn_poker"
    blueprint = Policy.uniform(enumerate_game(load(game)))
    asked = FEW | {"games": game, "blueprints": ["cfr:3", blueprint]}
    rows = sweep(tmp_path / "others", executor=Here(), workers=1, **sweeping(**asked))
    assert_same_rows(rows, sweep(tmp_path / "alone", **sweeping(**asked)))


def test_a_file_whose_rules_change_before_a_worker_reads_it_is_refused(tmp_path: pathlib.Path):
    game = own_game(tmp_path)

    class Changes(Here):
        def submit(self, task: Callable[..., str], *arguments: Any) -> "Here.Future":
            (tmp_path / "mygame.py").write_text(
                OWN.replace("super().__init__(prize)", "super().__init__(9.0)")
            )
            return super().submit(task, *arguments)

    with pytest.raises(ValueError, match="sweep"):
        sweep(tmp_path / "sweep", executor=Changes(), workers=1, **sweeping(**FEW | {"games": game}))


# --- failures -----------------------------------------------------------------------------


def test_other_workers_take_over_from_a_dead_one(tmp_path: pathlib.Path):
    executor = Here(BrokenProcessPool("A child was killed\nwithout mercy"))
    with pytest.warns(
        UserWarning, match=r"^1 of 2 workers ended early, with: BrokenProcessPool: A child was killed; "
    ):
        rows = sweep(tmp_path / "others", executor=executor, workers=2, **sweeping(**FEW))
    assert_same_rows(rows, sweep(tmp_path / "alone", **sweeping(**FEW)))


def test_if_all_workers_die_the_same_call_resumes(tmp_path: pathlib.Path):
    executor = Here(BrokenProcessPool("killed"), RuntimeError())
    with pytest.raises(
        ChildProcessError,
        match="workers",
    ) as caught:
        sweep(tmp_path, executor=executor, workers=2, **sweeping(**FEW))
    assert isinstance(caught.value.__cause__, BrokenProcessPool)
    assert len(sweep(tmp_path, executor=Here(), **sweeping(**FEW))) == 2


def test_a_workers_value_error_is_the_callers(tmp_path: pathlib.Path):
    with pytest.raises(ValueError, match="sweep"):
        sweep(tmp_path, executor=Here(), **sweeping(memory_limit=2000, **FEW))


def test_a_worker_of_other_versions_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Another device is accepted, since the submitting machine is usually not a worker."""

    class Elsewhere(Here):
        def submit(self, task: Callable[..., str], *arguments: Any) -> Here.Future:
            monkeypatch.setattr("jaxgadget.sweeping.sweep.describe_device", lambda: "abacus")
            return super().submit(task, *arguments)

    assert set(sweep(tmp_path / "device", executor=Elsewhere(), **sweeping(**FEW))["device"]) == {"abacus"}
    monkeypatch.undo()

    class Older(Here):
        def submit(self, task: Callable[..., str], *arguments: Any) -> Here.Future:
            monkeypatch.setattr("jaxgadget.sweeping.sweep.source_digest", lambda: "older")
            return super().submit(task, *arguments)

    with pytest.raises(ValueError, match="source"):
        sweep(tmp_path / "source", executor=Older(), **sweeping(**FEW))
    assert not list((tmp_path / "source" / "pieces").iterdir())


def test_workers_that_never_begin_are_not_waited_for(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Queued jobs may start only after others have finished all pieces."""
    monkeypatch.setattr("jaxgadget.sweeping.sweep.GRACE", 0.0)
    called_off = threading.Event()

    class Queued:
        def result(self) -> str:
            called_off.wait()
            return ""

        def cancel(self) -> None:
            called_off.set()

    class Queue(Here):
        def submit(self, task: Callable[..., str], *arguments: Any) -> Any:
            future = super().submit(task, *arguments)
            return Queued() if len(self.submitted) == 2 else future

    rows = sweep(tmp_path / "others", executor=Queue(), workers=2, **sweeping(**FEW))
    assert called_off.is_set()
    assert_same_rows(rows, sweep(tmp_path / "alone", **sweeping(**FEW)))


def test_an_interrupt_calls_workers_off(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(self: Workers, seconds: float) -> bool:
        raise KeyboardInterrupt

    executor = Here(RuntimeError(), RuntimeError())
    monkeypatch.setattr(Workers, "have_ended", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, executor=executor, workers=2, **sweeping(**FEW))
    assert executor.cancelled == 2


def test_objects_that_cannot_be_pickled_are_named(tmp_path: pathlib.Path):
    asked = FEW | {"games": Pennies(baggage=threading.Lock())}
    with pytest.raises(ValueError, match=r"one of these cannot be \(.*lock.*\)"):
        sweep(tmp_path, executor=Here(), **sweeping(**asked))


# --- local processes ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_process_for_each_task():
    first, second = (Processes().submit(divmod, 17, number) for number in (5, 3))
    assert (first.result(), second.result()) == ((3, 2), (5, 2))


def test_the_exit_of_a_dead_process_is_reported(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(ChildProcessError, match=r"^process \d+ ended with status 1$"):
        Processes().submit(divmod, 1, 0).result()
    assert "ZeroDivisionError" in capfd.readouterr().err
    waits = Processes().submit(input)
    waits.cancel()
    with pytest.raises(ChildProcessError, match=r"ended with status (-15|1)$"):
        waits.result()


@pytest.mark.slow
def test_a_process_ends_with_its_parent_that_is_killed():
    script = (
        "import time\n"
        "from jaxgadget.sweeping.workers import Processes\n"
        "task = Processes().submit(time.sleep, 90)\n"
        "print('started', flush=True)\n"
        "task.result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == b"started\n"
        parent.kill()
        parent.communicate(timeout=60)  # until every process that has the pipe has ended


def variables_of_worker() -> tuple[str, str, str | None]:
    """A setting that JAX reads on import, which precedes the task, and two variables."""
    return jax.config.jax_default_matmul_precision, os.environ[VISIBLE], os.environ.get("MINE")


def test_processes_start_with_variables_of_their_own(monkeypatch: pytest.MonkeyPatch):
    """One after the other; this process keeps its own variables."""
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parents[2]))
    monkeypatch.setenv("MINE", "mine")
    before = dict(os.environ)
    read = "JAX_DEFAULT_MATMUL_PRECISION"
    processes = Processes([{VISIBLE: "0", read: "high"}, {VISIBLE: "1", read: "highest", "MINE": "its"}])
    started = [processes.submit(variables_of_worker) for _ in range(3)]
    first, second = ("high", "0", "mine"), ("highest", "1", "its")
    assert [each.result() for each in started] == [first, second, first]
    assert dict(os.environ) == before


def test_a_missing_slurm_is_reported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match='no Slurm here: Could not detect "srun"'):
        module.slurm_executor(tmp_path, {})
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ImportError, match="install the extra `cluster`"):
        module.slurm_executor(tmp_path, {})
