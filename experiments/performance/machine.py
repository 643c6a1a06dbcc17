"""The machine: its description, and its memory bandwidth inside and outside of the caches."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pandas as pd

from experiments.study import Settings
from jaxgadget.util.files import atomic_writer, make_folder
from jaxgadget.util.machine import describe_device, find_versions

NAME = "machine"

LARGE = 1 << 28
"""Bytes of a copy that exceeds all caches."""

SMALL = 1 << 18
"""Bytes of a copy that fits in a core's cache."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every size; also writes the machine's description and the versions of all packages."""
    record = {
        "date": f"{datetime.date.today():%Y-%m-%d}",
        "device": describe_device(),
        "versions": find_versions(),
    }
    make_folder(settings.folder / "data")
    with atomic_writer(settings.folder / "data" / f"{NAME}.json") as file:
        file.write((json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
    sizes = settings.pick((SMALL, LARGE), (SMALL,))
    rates = [copy_bandwidth(size, settings.pick(2.0, 0.05)) / 1e9 for size in sizes]
    return pd.DataFrame({"bytes": sizes, "gigabytes_per_second": rates})


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Bandwidth of copying memory, counting reads and writes."""
    return frame


def copy_bandwidth(size: int, seconds: float = 1.0) -> float:
    """Bytes per second, read and written, of a compiled loop that scales an array in place.

    Args:
      size: bytes of the array.
      seconds: duration of the measurement.
    """
    x = jnp.ones(size // 4, jnp.float32)

    @jax.jit
    def scale(x: jax.Array, times: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, times, lambda _, y: jax.lax.optimization_barrier(y * 1.0000001), x)

    spent, times = best_seconds(lambda n: scale(x, jnp.asarray(n)), seconds)
    return 2 * size * times / spent


def best_seconds(call: Callable[[int], object], seconds: float, turns: int = 5) -> tuple[float, int]:
    """Increases the number of repetitions until a turn is long enough; returns the fastest turn.

    Args:
      call: function that repeats an operation on the device.
      seconds: approximate total of all turns.
      turns: number of turns.

    Returns:
      Seconds of the fastest turn, and the repetitions in it.
    """
    times = 1
    _seconds(call, times)  # the first run compiles
    while (spent := _seconds(call, times)) < seconds / turns / 2:
        times *= 2
    times = max(1, round(times * seconds / turns / spent))
    return min(_seconds(call, times) for _ in range(turns)), times


def _seconds(call: Callable[[int], object], times: int) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call(times))
    return max(time.perf_counter() - began, 1e-9)
