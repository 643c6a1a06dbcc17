"""A progress bar for what takes longer than two seconds, on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

PATIENCE = 2.0
"""Seconds before a bar appears."""


@contextlib.contextmanager
def progress_bar(label: str, total: int, show: bool | None = None) -> Generator[Callable[[int], None]]:
    """Yields a function to call with the amount done.

    Args:
      label: what is being done.
      total: how much there is to do.
      show: whether to show a bar; by default if standard error is a terminal or a notebook.
    """
    console = Console(stderr=True, file=sys.stderr)
    if not (console.is_terminal or console.is_jupyter if show is None else show):
        yield lambda done: None
        return
    began = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with contextlib.ExitStack() as stack:
        shown: list[tuple[Progress, TaskID]] = []

        def report(done: int) -> None:
            if not shown and time.perf_counter() - began > PATIENCE and done < total:
                bar = stack.enter_context(Progress(*columns, console=console, transient=True))
                shown.append((bar, bar.add_task(label, total=total)))
            for bar, task in shown:
                bar.update(task, completed=done)

        yield report
