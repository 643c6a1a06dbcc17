"""Timing of building, compilation and running."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator

import jax

_COMPILATION = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class _Compiled:
    """Total compilation time of JAX in this process, in seconds."""

    seconds = 0.0


def _listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
    if event in _COMPILATION:
        _Compiled.seconds += duration_secs


jax.monitoring.register_event_duration_secs_listener(_listen)


class Stopwatch:
    """Accumulates seconds by phase; within nested phases, time counts for the innermost phase.

    Attributes:
      seconds: seconds of `build`, `compile` and `run`; JAX's compilation in any phase counts as `compile`.
    """

    def __init__(self) -> None:
        self.seconds = {"build": 0.0, "compile": 0.0, "run": 0.0}
        self._open: list[str] = []
        self._now, self._compiled = 0.0, 0.0

    @contextlib.contextmanager
    def phase(self, name: str) -> Generator[None, None, None]:
        """Times a block."""
        self._count()
        self._open.append(name)
        try:
            yield
        finally:
            self._count()
            self._open.pop()

    def _count(self) -> None:
        """Adds the seconds since the last call to the open phase."""
        before, compiled_before = self._now, self._compiled
        self._now, self._compiled = time.perf_counter(), _Compiled.seconds
        if self._open:
            compiling = self._compiled - compiled_before
            self.seconds["compile"] += compiling
            self.seconds[self._open[-1]] += max(self._now - before - compiling, 0.0)
