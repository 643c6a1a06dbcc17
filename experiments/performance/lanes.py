"""Time of an iteration against the number of lanes."""

from __future__ import annotations

import jax
import pandas as pd

from experiments.study import Settings
from jaxgadget.bench.bench import DEFAULT_GAMES, bench

NAME = "lanes"


ENGINES = ("jaxgadget",)


def compute(settings: Settings) -> pd.DataFrame:
    """Leduc on 1 to 65,536 lanes of an accelerator, to 4,096 of a CPU; the others on 64 and more."""
    if settings.smoke:
        benchmark = bench(
            "kuhn_poker", engines=ENGINES, lanes=(1, 64), iterations=2, repeats=1, progress=False
        )
        return pd.DataFrame(benchmark.rows)
    most = 12 if jax.default_backend() == "cpu" else 16
    tables: list[pd.DataFrame] = []
    for game in DEFAULT_GAMES:
        steps = range(0 if game == DEFAULT_GAMES[0] else 6, most + 1, 1 if most == 16 else 2)
        few, many = [1 << k for k in steps if k < 6], [1 << k for k in steps if k >= 6]
        if few:
            tables.append(pd.DataFrame(bench(game, engines=ENGINES, lanes=few, seconds=4.0).rows))
        # Equal numbers of iterations, so that a chunk's first ones, from memory, have the same weight.
        rows = bench(game, engines=ENGINES, lanes=many, iterations=100, repeats=5).rows
        tables.append(pd.DataFrame(rows))
    return pd.concat(tables, ignore_index=True)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Microseconds per iteration divided by the lanes, and the other columns of `jaxgadget bench`."""
    return frame
