"""A progress bar for what takes longer than two seconds: on standard error, or in a notebook."""

from __future__ import annotations

import contextlib
import datetime
import html
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TaskProgressColumn, TextColumn

PATIENCE = 2.0
"""Seconds before a bar appears."""

STEP = 0.2
"""Seconds between two changes of a notebook's bar, at least."""


@contextlib.contextmanager
def progress_bar(
    label: str, total: int, show: bool | None = None, *, coarse: bool = False
) -> Generator[Callable[[int], None]]:
    """Yields a function to call with the amount done.

    The time left goes by what was done since the first call, so what an earlier run did does not count.

    Args:
      label: what is being done.
      total: how much there is to do.
      show: whether to show a bar; by default if standard error is a terminal or a notebook.
      coarse: for long steps of unequal size: show the bar with the first call, and per cent, not numbers.
    """
    console = Console(stderr=True, file=sys.stderr)
    if not (console.is_terminal or console.is_jupyter if show is None else show):
        yield lambda done: None
        return
    patience = -1.0 if coarse else PATIENCE
    if console.is_jupyter:
        with _in_notebook(label, total, patience) as draw:
            yield draw
        return
    number = TaskProgressColumn() if coarse else MofNCompleteColumn()
    left = TextColumn("[progress.remaining]{task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), number, left)
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        shown: list[tuple[Progress, TaskID]] = []
        calls: list[tuple[float, int]] = []

        def report(done: int) -> None:
            now = time.perf_counter()
            calls[1:] = [(now, done)]
            (first, before), (last, _) = calls[0], calls[-1]
            if not shown and now - began > patience and done < total:
                bar = stack.enter_context(Progress(*columns, console=console, transient=True))
                shown.append((bar, bar.add_task(label, total=total, completed=done, left="")))
            for bar, task in shown:
                bar.update(task, completed=done, left=time_left(last - first, done - before, total - done))

        yield report


@contextlib.contextmanager
def _in_notebook(label: str, total: int, patience: float) -> Generator[Callable[[int], None]]:
    """The browser's own bar, which goes at the end; rich's would need ipywidgets."""
    from IPython.display import HTML, DisplayHandle

    handle: Any = DisplayHandle()
    began = time.perf_counter()
    calls: list[tuple[float, int]] = []
    shown: list[float] = []

    def report(done: int) -> None:
        now = time.perf_counter()
        calls[1:] = [(now, done)]
        if now - (shown[-1] if shown else began + patience - STEP) <= STEP or (not shown and done >= total):
            return
        left = time_left(now - calls[0][0], done - calls[0][1], total - done)
        bar = f'<progress value="{done}" max="{total}"></progress> {done / max(total, 1):.0%} {left}'
        (handle.update if shown else handle.display)(HTML(f"{html.escape(label)} {bar}"))
        shown.append(now)

    try:
        yield report
    finally:
        if shown:
            handle.update(HTML(""))


def time_left(seconds: float, done: int, remaining: int) -> str:
    """`1:23:45`, or dashes if nobody knows yet.

    Args:
      seconds: that it took.
      done: what was done in them.
      remaining: what is left to do.
    """
    if done <= 0 or seconds <= 0:
        return "-:--:--"
    return str(datetime.timedelta(seconds=round(seconds * remaining / done)))
