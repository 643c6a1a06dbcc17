"""Sweeps by many processes: pools, submitit, Dask and the command line, and killed workers.

Slurm is replaced by small scripts: the tests check its input, and that jobs do the work.
"""

import concurrent.futures
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import distributed
import pandas as pd
import pytest
import submitit
from pandas.testing import assert_frame_equal

from jaxgadget import read_sweep, sweep
from jaxgadget.sweeping.store import TIMES
from jaxgadget.sweeping.workers import Processes
from tests.solving import sweeping
from tests.sweeping.crew import Deadly, assert_same_rows, several

ROOT = pathlib.Path(__file__).parents[2]
BOTH_PLAYERS = several(players=(0, 1))
NUM_PIECES = 16


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this package and the tests' classes importable in workers, which are new interpreters."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The rows of a sweep by one process."""
    return sweep(tmp_path_factory.mktemp("alone"), **sweeping(**BOTH_PLAYERS))


@pytest.fixture
def jobs(tmp_path: pathlib.Path) -> submitit.AutoExecutor:
    executor = submitit.AutoExecutor(tmp_path / "jobs", cluster="local")
    executor.update_parameters(timeout_min=10)
    return executor


@pytest.fixture
def dask(tmp_path: pathlib.Path) -> Iterator[distributed.Client]:
    """Two processes, each with one thread."""
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # any free port; the default port may be taken
            local_directory=str(tmp_path / "dask"),
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def deadly(folder: pathlib.Path) -> tuple[pathlib.Path, dict[str, Any], pd.DataFrame]:
    """The file that disables a prior's kill, a sweep with that prior, and its rows without a kill."""
    path = folder / "killed"
    asked = several(priors=[Deadly(path=str(path), others_wait=str(folder / "wait"))])
    path.touch()
    rows = sweep(folder / "undisturbed", **sweeping(**asked))
    path.unlink()
    return path, asked, rows


def written(folder: pathlib.Path) -> dict[str, int]:
    """Modification times of the pieces of a sweep."""
    return {path.stem: path.stat().st_mtime_ns for path in (folder / "pieces").glob("*.parquet")}


@pytest.mark.parametrize("locks", [True, False])
def test_a_process_pool(expected: pd.DataFrame, tmp_path: pathlib.Path, locks: bool):
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        rows = sweep(tmp_path, executor=pool, workers=2, locks=locks, **sweeping(**BOTH_PLAYERS))
    assert len(written(tmp_path)) == NUM_PIECES
    assert_same_rows(rows, expected)


def test_submitit(expected: pd.DataFrame, jobs: submitit.AutoExecutor, tmp_path: pathlib.Path):
    rows = sweep(tmp_path / "sweep", executor=jobs, workers=2, **sweeping(**BOTH_PLAYERS))
    assert_same_rows(rows, expected)
    assert len(list((tmp_path / "jobs").glob("*_submitted.pkl"))) == 2


def test_dask(expected: pd.DataFrame, dask: distributed.Client, tmp_path: pathlib.Path):
    rows = sweep(tmp_path / "sweep", executor=dask, workers=2, **sweeping(**BOTH_PLAYERS))
    assert_same_rows(rows, expected)


# --- kill -9 ------------------------------------------------------------------------------


def test_a_killed_worker_breaks_a_pool_and_its_finished_pieces_remain(tmp_path: pathlib.Path):
    """A pool terminates all its processes if one dies; repeating the call resumes."""
    path, asked, expected = deadly(tmp_path)
    spawn, folder = multiprocessing.get_context("spawn"), tmp_path / "sweep"
    shutil.copytree(tmp_path / "undisturbed", folder)
    for key in sorted(expected["piece"].unique())[:3]:
        (folder / "pieces" / f"{key}.parquet").unlink()
    before = written(folder)
    (tmp_path / "wait").touch()  # the other process is computing a piece when the pool terminates it
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        for future in [pool.submit(os.getpid) for _ in range(2)]:  # from then on it monitors both processes
            future.result()
        with pytest.raises(ChildProcessError, match="workers"):
            sweep(folder, executor=pool, workers=2, **sweeping(**asked))
    assert path.exists(), "a worker was killed"
    assert written(folder) == before, "and what was finished stays"
    (tmp_path / "wait").unlink()
    with concurrent.futures.ProcessPoolExecutor(2, spawn) as pool:
        rows = sweep(folder, executor=pool, workers=2, **sweeping(**asked))
    assert_same_rows(rows, expected)
    after = written(folder)
    assert before == {key: after[key] for key in before}, "nothing was done twice"
    assert not list(folder.rglob(".*"))


def test_others_take_over_from_a_killed_process(tmp_path: pathlib.Path):
    path, asked, expected = deadly(tmp_path)
    with pytest.warns(UserWarning, match=r"^1 of 2 workers ended early, with: .* ended with status -9; oth"):
        rows = sweep(tmp_path / "sweep", executor=Processes(), workers=2, **sweeping(**asked))
    assert path.exists()
    assert_same_rows(rows, expected)


def test_others_take_over_from_a_killed_job(jobs: submitit.AutoExecutor, tmp_path: pathlib.Path):
    """Submitit may notice the kill only after all pieces are done."""
    path, asked, expected = deadly(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 of 2 workers ended early, with: UncompletedJobError")
        rows = sweep(tmp_path / "sweep", executor=jobs, workers=2, **sweeping(**asked))
    assert path.exists()
    assert_same_rows(rows, expected)


def test_dask_calls_a_killed_worker_again(dask: distributed.Client, tmp_path: pathlib.Path):
    path, asked, expected = deadly(tmp_path)
    rows = sweep(tmp_path / "sweep", executor=dask, workers=2, **sweeping(**asked))
    assert path.exists()
    assert_same_rows(rows, expected)


# --- the command line ---------------------------------------------------------------------

COMMAND = ("--game", "kuhn_poker", "--cut", "depth:1", "--gadget", "resolving", "--iterations", "5")
COMMAND += ("--blueprint", "uniform", "--blueprint", "cfr:3", "--blueprints-at-once", "1")

SCRIPTS = {
    "sbatch": """number=$(($(ls "$SLURM_PLAYED" | wc -l) + 1))
cp "$1" "$SLURM_PLAYED/$number"
SLURM_JOB_ID=$number sh "$SLURM_PLAYED/$number" > /dev/null 2>&1 < /dev/null &
echo "Submitted batch job $number"
""",
    "srun": """while :; do case "$1" in --output | --error) shift 2 ;; --*) shift ;; *) break ;; esac; done
export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1
exec "$@"
""",
    "sacct": """echo "JobID|State|NodeList"
for job in "$SLURM_PLAYED"/*; do echo "${job##*/}|RUNNING|here"; done
""",
    "scancel": "exit 0\n",
}


def run(folder: pathlib.Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jaxgadget", "sweep", str(folder), *COMMAND, *options]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )


def test_workers_of_the_command_line(tmp_path: pathlib.Path):
    alone, many = run(tmp_path / "alone"), run(tmp_path / "many", "--workers", "2")
    assert (alone.returncode, many.returncode) == (0, 0), many.stderr
    assert (tmp_path / "many" / "requests").exists()
    times = list(TIMES)
    assert_frame_equal(
        read_sweep(tmp_path / "many").drop(columns=times),
        read_sweep(tmp_path / "alone").drop(columns=times),
        check_exact=True,
    )


def test_jobs_of_slurm(tmp_path: pathlib.Path):
    """With the requested options; their logs are in the folder."""
    scripts, played = tmp_path / "bin", tmp_path / "jobs"
    scripts.mkdir()
    played.mkdir()
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(f"#!/bin/sh\n{text}")
        (scripts / name).chmod(0o755)
    slurm = ("--slurm", "partition=cpu,time=2:00:00", "--slurm", "nodelist=a,b", "--slurm", "cpus-per-task=4")
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    done = run(tmp_path / "sweep", "--workers", "2", *slurm, PATH=path, SLURM_PLAYED=str(played))
    assert done.returncode == 0, done.stderr
    texts = [path.read_text() for path in played.iterdir()]
    assert len(texts) == 2
    for text in texts:
        for option in (
            "partition=cpu",
            "time=2:00:00",
            "nodelist=a,b",
            "cpus-per-task=4",
            "job-name=jaxgadget",
        ):
            assert f"\n#SBATCH --{option}\n" in text
    assert len(list((tmp_path / "sweep" / "slurm").glob("*_submitted.pkl"))) == 2
    assert len(read_sweep(tmp_path / "sweep")) == 2 * 2 * 3
