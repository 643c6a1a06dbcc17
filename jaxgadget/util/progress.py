"""Progress display: a bar on a terminal or in a notebook, lines in a log."""

from __future__ import annotations

import contextlib
import datetime
import html
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TaskProgressColumn, TextColumn

PATIENCE = 2.0
"""Seconds before a bar appears."""

STEP = 0.2
"""Minimum number of seconds between updates of a notebook's bar."""

MINUTE = 60.0
"""Maximum number of seconds between lines of a log."""

PAUSE = 10.0
"""Minimum number of seconds between lines of a log."""


class Progressed(Protocol):
    """Progress callback; takes the completed amount, the total if that has changed, and a note to show."""

    def __call__(self, done: int, total: int | None = None, note: str = "", /) -> None:
        """Reports progress."""
        ...


@contextlib.contextmanager
def progress_bar(
    label: str, total: int | None, show: bool | None = None, *, coarse: bool = False
) -> Generator[Progressed]:
    """Yields a progress callback, to be called with the completed amount, and the total if that changes.

    Several threads may call it. The remaining time is extrapolated from the progress since the first call,
    which excludes work done before a resumption.

    Args:
      label: name of the task.
      total: total amount; None if unknown.
      show: True for a bar, or lines (`LogLines`) if standard error is neither a terminal nor a notebook;
        False for neither; by default a bar, but no lines.
      coarse: for long steps of unequal size; shows the bar at the first call, and only a percentage.
    """
    console = Console(stderr=True, file=sys.stderr)
    is_watched = console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)
    if not (is_watched if show is None else show):
        yield lambda done, total=None, note="": None
        return
    if not is_watched:
        with _in_log(LogLines(label, total, coarse=coarse)) as write:
            yield write
        return
    patience = -1.0 if coarse else PATIENCE
    if console.is_jupyter:
        with _in_notebook(label, total, patience) as report:
            yield report
        return
    done_column = TaskProgressColumn() if coarse else MofNCompleteColumn()
    left = TextColumn("[progress.remaining]{task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), done_column, left)
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        shown: list[tuple[Progress, TaskID]] = []
        calls: list[tuple[float, int]] = []

        def draw(done: int, new_total: int | None, note: str) -> None:
            nonlocal total
            total, now = total if new_total is None else new_total, time.perf_counter()
            calls[1:] = [(now, done)]
            (first, before), (last, _) = calls[0], calls[-1]
            if not shown and now - began > patience and (total is None or done < total):
                bar = stack.enter_context(Progress(*columns, console=console, transient=True))
                shown.append((bar, bar.add_task(label, total=total, completed=done, left="")))
            for bar, task in shown:
                left = "" if total is None else time_left(last - first, done - before, total - done)
                bar.update(task, completed=done, total=total, left=", ".join(filter(None, (note, left))))

        yield _one_at_a_time(draw)


def _one_at_a_time(draw: Callable[[int, int | None, str], None]) -> Progressed:
    """Wraps a callback so that several threads can call it; without a lock rich would open a second bar."""
    lock = threading.Lock()

    def report(done: int, total: int | None = None, note: str = "") -> None:
        with lock:
            draw(done, total, note)

    return report


class LogLines:
    """Progress lines on standard error: one per minute, or per tenth of the work if that is shorter.

    There are at least `PAUSE` seconds between lines, so that shorter tasks write none.

    Args:
      label: name of the task.
      total: total amount; None if unknown.
      coarse: write only a percentage.
    """

    def __init__(self, label: str, total: int | None, *, coarse: bool = False):
        self.label, self.total, self.coarse = label, total, coarse
        self.began = self.last_line = time.perf_counter()
        self.before: tuple[float, int] | None = None  # time and progress of the first call
        self.done = self.written = self.tenths = 0
        self.note = ""
        self._lock = threading.Lock()

    def report(self, done: int, total: int | None = None, note: str = "") -> None:
        """Progress callback; writes a line if one is due."""
        with self._lock:
            now, self.note = time.perf_counter(), note
            self.done, self.total = done, self.total if total is None else total
            if self.before is None:
                self.before, self.written, self.tenths = (now, done), done, self._num_tenths()
            self._write_if_due(now)

    def look(self) -> float:
        """Writes a line if one is due; returns the seconds until the next one."""
        with self._lock:
            now = time.perf_counter()
            self._write_if_due(now)
            return max(self.last_line + MINUTE - now, 0.0)

    def end(self) -> None:
        """Writes a final line, unless it is already written or no line was written before."""
        with self._lock:
            if self.last_line > self.began and self.done != self.written:
                self._write(time.perf_counter())

    def _num_tenths(self) -> int:
        return 0 if self.total is None else 10 * self.done // max(self.total, 1)

    def _write_if_due(self, now: float) -> None:
        waited = now - self.last_line
        if waited >= MINUTE or (waited >= PAUSE and self._num_tenths() > self.tenths):
            self._write(now)

    def _write(self, now: float) -> None:
        if self.total is None:
            texts = [f"{self.done}"]
        else:
            percent = f"{self.done / max(self.total, 1):.0%}"
            texts = [percent if self.coarse else f"{self.done}/{self.total} ({percent})"]
        if self.note:
            texts.append(self.note)
        texts.append(f"{datetime.timedelta(seconds=round(now - self.began))} so far")
        first, before = self.before or (now, 0)
        if self.total is not None and first < now and before < self.done < self.total:
            texts.append(f"{time_left(now - first, self.done - before, self.total - self.done)} left")
        with contextlib.suppress(OSError, ValueError):  # a full or closed log must not stop the work
            print(f"{self.label}: {', '.join(texts)}", file=sys.stderr, flush=True)
        self.last_line, self.written, self.tenths = now, self.done, self._num_tenths()


@contextlib.contextmanager
def _in_log(lines: LogLines) -> Generator[Progressed]:
    """Writes lines from a separate thread, also between reports, as a step may take an hour."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(lines.look()):
            pass

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield lines.report
    finally:
        ended.set()
        watcher.join()
        lines.end()


@contextlib.contextmanager
def _in_notebook(label: str, total: int | None, patience: float) -> Generator[Progressed]:
    """An HTML progress bar, removed at the end; rich's bar would require ipywidgets."""
    from IPython.display import HTML, DisplayHandle

    handle: Any = DisplayHandle()
    began = time.perf_counter()
    calls: list[tuple[float, int]] = []
    shown: list[float] = []

    def draw(done: int, new_total: int | None, note: str) -> None:
        nonlocal total
        total, now = total if new_total is None else new_total, time.perf_counter()
        calls[1:] = [(now, done)]
        is_over = total is not None and done >= total
        if now - (shown[-1] if shown else began + patience - STEP) <= STEP or (not shown and is_over):
            return
        if total is None:
            bar = f"{done}"
        else:
            left = time_left(now - calls[0][0], done - calls[0][1], total - done)
            bar = f'<progress value="{done}" max="{total}"></progress> {done / max(total, 1):.0%} {left}'
        (handle.update if shown else handle.display)(HTML(f"{html.escape(f'{label} {note}'.strip())} {bar}"))
        shown.append(now)

    try:
        yield _one_at_a_time(draw)
    finally:
        if shown:
            handle.update(HTML(""))


def time_left(seconds: float, done: int, remaining: int) -> str:
    """Estimated remaining time, such as `1:23:45`, or dashes if unknown.

    Args:
      seconds: elapsed time.
      done: completed amount in this time.
      remaining: remaining amount.
    """
    if done <= 0 or seconds <= 0:
        return "-:--:--"
    return str(datetime.timedelta(seconds=round(seconds * remaining / done)))
