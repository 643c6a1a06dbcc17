"""Runs a command of jaxgadget and prints its compilation as JSON: `compiling.py COMMAND …`.

Nothing else of this project is imported, so that `commits` can run it with other commits.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any

PHASES = {
    "/jax/core/compile/jaxpr_trace_duration": "trace_seconds",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower_seconds",
    "/jax/core/compile/backend_compile_duration": "compile_seconds",
}
"""JAX's names of timed events. Reading a program from the cache counts as compiling it."""


def main() -> None:
    """Runs the command and discards its output."""
    began = time.perf_counter()
    import jax.monitoring

    sums = dict.fromkeys(PHASES.values(), 0.0) | {"programs": 0.0}

    def add(event: str, duration: float, **_: Any) -> None:
        if event in PHASES:
            sums[PHASES[event]] += duration
            sums["programs"] += PHASES[event] == "compile_seconds"

    jax.monitoring.register_event_duration_secs_listener(add)
    from jaxgadget.cli import main as jaxgadget

    sys.argv = ["jaxgadget", *sys.argv[1:]]
    with open(os.devnull, "w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
        try:
            jaxgadget()
        except SystemExit as end:
            if end.code:
                raise
    json.dump(sums | {"seconds": time.perf_counter() - began}, sys.stdout)


if __name__ == "__main__":
    main()
