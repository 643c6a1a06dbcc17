"""A process that has imported the package but started no threads, and forks sweeps on request.

JAX starts threads with its first array, and a process with threads must not fork. This process therefore runs
no JAX and checks before every fork that it has a single thread; a fork is equivalent to a new process,
without the seconds for imports. It reads one request per line, in JSON, and answers each with a line.
"""

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jaxgadget
from jaxgadget.sweeping import sweep
from tests.solving import sweeping

ALONE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Environment in which no library starts a thread when it is imported."""


@contextlib.contextmanager
def start(cache: pathlib.Path) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Yields a function that orders sweeps: `order(folder, settings, copies=1, kill=None)`.

    Each answer tells for every copy how it ended (`killed`, `failed`) and its actions: `begun`, keys in
    order; `again`, those of them that existed already; `written`, keys. `kill` terminates the first copy with
    SIGKILL: `{"at": event, "count": k, "wait": seconds}` after that delay from its `start` or k-th `make` (of
    blueprints), `begin` (of a piece), `solved` or `written` (a piece); `{"before": pattern, "count": k}` by
    itself, between the k-th write of a file whose path matches and its rename.
    """
    environment = (
        os.environ
        | ALONE
        | {
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    )
    command = [sys.executable, "-m", "tests.slow.zygote"]
    process = subprocess.Popen(
        command,
        cwd=pathlib.Path(__file__).parents[2],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    told, answers = process.stdin, process.stdout

    def order(
        folder: pathlib.Path, settings: dict[str, Any], copies: int = 1, kill: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        asked = {"folder": str(folder), "settings": settings, "copies": copies, "kill": kill}
        print(json.dumps(asked), file=told, flush=True)
        answer = answers.readline()
        assert answer, f"the zygote died with status {process.wait()}"
        return json.loads(answer)

    try:
        yield order
    finally:
        told.close()
        process.wait()
        answers.close()


def serve() -> None:
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache", UserWarning)
    sys.unraisablehook = refuse
    for line in sys.stdin:
        order = json.loads(line)
        children = [fork(order, order["kill"] if not copy else None, copy) for copy in range(order["copies"])]
        kill = order["kill"]
        if kill is not None and "at" in kill:
            kill_at(children[0], kill)
        print(json.dumps([child.wait() for child in children]), flush=True)


def refuse(problem: Any) -> None:
    """Hook for exceptions that cannot be caught, such as warnings about forks: end the process."""
    print(f"not fit to fork: {problem.exc_value}", file=sys.stderr, flush=True)
    os._exit(3)


class Child:
    """A forked sweep, and its reported events."""

    def __init__(self, pid: int, pipe: int):
        self.pid, self.pipe = pid, pipe
        self.events: list[list[Any]] = []
        self._text = b""

    def listen(self) -> bool:
        """Wait for events; False after a long silence."""
        some = os.read(self.pipe, 1 << 16)
        *lines, self._text = (self._text + some).split(b"\n")
        self.events += [json.loads(line) for line in lines]
        return bool(some)

    def wait(self) -> dict[str, Any]:
        while self.listen():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        begun = [event for event in self.events if event[0] == "begin"]
        return {
            "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            "failed": os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0,
            "begun": [event[1] for event in begun],
            "again": [event[1] for event in begun if event[2]],
            "written": [event[1] for event in self.events if event[0] == "written"],
        }


def kill_at(child: Child, kill: dict[str, Any]) -> None:
    """Kill the child after a delay from an event; a child that ends before is left alone."""
    while kill["at"] != "start" and sum(event[0] == kill["at"] for event in child.events) < kill["count"]:
        if not child.listen():
            return
    select.select([], [], [], kill["wait"])
    os.kill(child.pid, signal.SIGKILL)


def fork(order: dict[str, Any], kill: dict[str, Any] | None, copy: int) -> Child:
    tasks = pathlib.Path("/proc/self/task")
    assert not tasks.exists() or len(list(tasks.iterdir())) == 1, "a library has started a thread"
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return Child(pid, ours)
    status = 1
    try:
        os.close(ours)
        instrument(theirs, kill or {})
        folder = pathlib.Path(order["folder"])
        frame = run(folder, order["settings"])
        frame.to_pickle(folder.with_name(f"{folder.name}-{copy}.pickle"))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
    raise AssertionError


def run(folder: pathlib.Path, settings: dict[str, Any]) -> Any:
    """The rows of the requested sweep."""
    return jaxgadget.sweep(folder, **sweeping(**settings))


def instrument(pipe: int, kill: dict[str, Any]) -> None:
    """Report events, in the child process only."""
    make, solve, replace = sweep.make_setup, sweep.Workshop.solve, os.replace
    left = [kill.get("count", 1)]

    def tell(*event: Any) -> None:
        os.write(pipe, json.dumps(event).encode() + b"\n")

    def told_make(*arguments: Any) -> Any:
        tell("make")
        return make(*arguments)

    def told_solve(self: sweep.Workshop, piece: Any) -> Any:
        tell("begin", piece.key, self.store.has(piece))
        found = solve(self, piece)
        tell("solved", piece.key)
        return found

    def told_replace(source: Any, target: Any) -> None:
        path = pathlib.Path(target)
        if "before" in kill and path.match(kill["before"]):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if path.match("pieces/*.parquet"):
            tell("written", path.stem)

    sweep.make_setup, sweep.Workshop.solve = told_make, told_solve
    os.replace = told_replace


if __name__ == "__main__":
    serve()
