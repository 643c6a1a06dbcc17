"""Workers of a sweep on this and other machines: submits their tasks and waits for completion.

Workers receive only the path of the folder. The request is pickled into the folder, under the digest of the
manifest's request. It may contain user-defined games, gadgets and priors. Anyone with write access to the
folder can therefore make its workers run arbitrary programs. A game given as `path.py:Class` or
`module:Class` is loaded by its name.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pathlib
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import cloudpickle
import jax

from jaxgadget.policy.identity import record_digest
from jaxgadget.sweeping.request import Request
from jaxgadget.sweeping.store import Store
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.compilation import enable_compilation_cache
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.machine import num_cores
from jaxgadget.util.members import run_files

if TYPE_CHECKING:
    import submitit

Task = Callable[[str, int], str]
"""Function of a folder and a worker's index that computes pieces; returns an error message, or ""."""

GRACE = 10.0
"""Seconds to wait for workers to end after the last piece is finished."""


class Executor(Protocol):
    """Starts workers, such as a `concurrent.futures.ProcessPoolExecutor`."""

    def submit(self, task: Any, /, *arguments: Any) -> Any:
        """Schedules the task; returns an object with a `result()` that waits for its end."""
        ...


def check_executor(executor: object, workers: int | None) -> int:
    """Maximum number of workers; 0 without an executor.

    Raises:
      ValueError: if the executor has no `submit`, or `workers` is invalid or given without an executor.
    """
    if executor is None:
        if workers is not None:
            raise ValueError(
                f"workers={workers!r}: expected an executor with it, to which they are submitted"
            )
        return 0
    if not callable(getattr(executor, "submit", None)):
        raise ValueError(
            f"executor={executor!r} has no submit(function, *arguments); expected one such as "
            "concurrent.futures.ProcessPoolExecutor, submitit.AutoExecutor or dask.distributed.Client"
        )
    return num_cores() if workers is None else check_whole_number("workers", workers, 1)


class _Message(NamedTuple):
    """Content of the folder's file for workers."""

    request: Request
    compilation_cache: str | None


def leave_request(store: Store, request: Request) -> None:
    """Writes the request for workers into the folder.

    Raises:
      ValueError: if an object of the request cannot be pickled.
    """
    enabled: bool = jax.config.values["jax_enable_compilation_cache"]
    cache: str | None = jax.config.values["jax_compilation_cache_dir"] if enabled else None
    for module in run_files.values():  # modules of gadgets and priors, which workers cannot import
        cloudpickle.register_pickle_by_value(module)
    try:
        message = cloudpickle.dumps(_Message(request, cache))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ValueError(
            "executor: games, gadgets and priors are pickled for workers, and one of these cannot be "
            f"({error}); leave that object out, or sweep without an executor"
        ) from error
    path = _request_path(store, request.record)
    make_folder(path.parent)
    with atomic_writer(path) as file:
        file.write(message)


def find_request(store: Store, record: dict[str, Any]) -> Request:
    """Reads the request of a manifest from the folder; also enables the caller's compilation cache.

    Raises:
      ValueError: if the file is missing or cannot be read.
    """
    path = _request_path(store, record)
    try:
        message: _Message = pickle.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(
            f"{str(path)!r} does not exist: another sweep began in the folder; submit workers again"
        ) from None
    except Exception as error:  # a user's class may be missing or changed
        raise ValueError(f"{str(path)!r} cannot be read by this worker: {error}") from error
    if message.compilation_cache is not None:
        with contextlib.suppress(ValueError):  # optional; other machines may not have that folder
            enable_compilation_cache(message.compilation_cache)
    return message.request


def _request_path(store: Store, record: dict[str, Any]) -> pathlib.Path:
    return store.folder / "requests" / f"{record_digest(record)}.pickle"


class Workers:
    """Tasks submitted to an executor.

    Args:
      executor: the executor.
      task: function that is called with the folder and the index of the worker.
      folder: folder of the sweep.
      num_workers: number of workers.
    """

    def __init__(self, executor: Executor, task: Task, folder: pathlib.Path, num_workers: int):
        self.folder = os.path.abspath(folder)
        self._futures: list[Any] = []
        self._ends: dict[int, str | BaseException] = {}
        try:
            for worker in range(num_workers):
                self._futures.append(executor.submit(task, self.folder, worker))
        except BaseException as error:
            self.cancel()
            if not isinstance(error, Exception):
                raise
            raise ChildProcessError(
                f"worker {len(self._futures)} cannot be submitted: {_in_a_line(error)}"
            ) from error
        # All workers are awaited concurrently, as a dead worker keeps its claims until its end is detected.
        self._threads = [
            threading.Thread(target=self._wait_for, args=(worker,), name=f"worker {worker}", daemon=True)
            for worker in range(num_workers)
        ]
        for thread in self._threads:
            thread.start()

    def _wait_for(self, worker: int) -> None:
        try:
            self._ends[worker] = self._futures[worker].result()
        except BaseException as error:  # includes Dask's cancellation
            self._ends[worker] = error

    def have_ended(self, seconds: float) -> bool:
        """Waits up to a number of seconds; True if all workers have ended."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def cancel(self) -> None:
        """Cancels tasks that have not started, and stops others where possible."""
        for future in self._futures:
            cancel = getattr(future, "cancel", None)
            if cancel is not None:
                with contextlib.suppress(Exception):  # it may have ended, or its machine may be unavailable
                    cancel()

    def explain(self) -> str:
        """The reasons why workers ended early; empty if none did."""
        reasons = [_in_a_line(end) if isinstance(end, BaseException) else end for end in self._early()]
        if not reasons:
            return ""
        many = f"{len(reasons)} of {len(self._futures)} workers"
        return f"{many} ended early, {'the first ' if len(reasons) > 1 else ''}with: {reasons[0]}"

    def complain(self, missing: int) -> None:
        """Raises an error that explains why pieces are missing after all workers have ended.

        Raises:
          ValueError: if a worker rejected the request.
          ChildProcessError: if workers died.
        """
        early = self._early()
        for end in early:
            if isinstance(end, str):
                raise ValueError(end)
        raise ChildProcessError(
            f"the sweep in {self.folder!r} lacks {missing} of its pieces: "
            f"{self.explain() or 'its workers received another sweep'}; finished pieces are kept, and "
            "the same call resumes"
        ) from next((end for end in early if isinstance(end, BaseException)), None)

    def _early(self) -> list[str | BaseException]:
        """Errors of the workers that ended early, in order."""
        return [self._ends[worker] for worker in sorted(self._ends) if self._ends[worker]]


def _in_a_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}{': ' if lines else ''}{lines[0] if lines else ''}"


class Processes:
    """Starts a process on this machine for every task, so killing one does not affect the others.

    A `ProcessPoolExecutor` ends all its processes if one dies.

    Args:
      variables: environment variables of the processes, in turn.
    """

    def __init__(self, variables: Sequence[dict[str, str]] = ({},)):
        self._variables = itertools.cycle(variables)

    def submit(self, task: Callable[..., Any], /, *arguments: Any) -> _Process:
        """Calls the task in a new process."""
        variables = next(self._variables)
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)  # JAX reads some when it is imported, before the task
        try:
            return _Process(task, arguments)
        finally:
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value


class _Process:
    """A call in a separate process, which ends with the current one, even if that is killed."""

    def __init__(self, task: Callable[..., Any], arguments: tuple[Any, ...]):
        spawn = multiprocessing.get_context("spawn")  # JAX has threads, so no fork
        self._answer, theirs = spawn.Pipe(duplex=False)
        self._process = spawn.Process(target=_answer, args=(theirs, task, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def result(self) -> Any:
        """Result of the call; raises ChildProcessError if the process ended without one."""
        try:
            return self._answer.recv()
        except EOFError:
            self._process.join()
            status = self._process.exitcode
            raise ChildProcessError(f"process {self._process.pid} ended with status {status}") from None

    def cancel(self) -> None:
        """Ends the process."""
        self._process.terminate()


def _answer(answer: Connection, task: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    answer.send(task(*arguments))


def _end_with_parent() -> None:
    """Ends this process when its parent ends, which terminates its children only if it is not killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def slurm_executor(folder: pathlib.Path, parameters: dict[str, str]) -> submitit.SlurmExecutor:
    """Executor that submits jobs to Slurm, with the cluster's defaults for omitted options such as time.

    Args:
      folder: folder of the jobs' scripts and logs, visible to all machines.
      parameters: options of sbatch by name, such as `partition`, `time`, `gpus-per-node`.

    Raises:
      ImportError: if submitit is not installed.
      ValueError: if there is no Slurm on this machine.
    """
    try:
        import submitit
    except ImportError as error:
        raise ImportError("Slurm needs submitit: install the extra `cluster`, jaxgadget[cluster]") from error
    options = {name.replace("-", "_"): value for name, value in parameters.items()}

    class Jobs(submitit.SlurmExecutor):
        """SlurmExecutor without submitit's defaults, which a cluster may refuse."""

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            unasked = tuple(
                f"#SBATCH --{name}=" for name in ("time", "nodes", "wckey") if name not in options
            )
            lines = super()._make_submission_file_text(command, uid).splitlines(keepends=True)
            return "".join(line for line in lines if not line.startswith(unasked))

    try:
        executor = Jobs(folder)
    except RuntimeError as error:
        raise ValueError(f"no Slurm here: {error}; run this on a machine that can submit jobs") from error
    executor.update_parameters(job_name="jaxgadget", additional_parameters=options)
    return executor
