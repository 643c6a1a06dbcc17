"""`jaxgadget bench` with all engines that are installed."""

from __future__ import annotations

import pandas as pd

from experiments.study import Settings
from jaxgadget.bench.bench import DEFAULT_GAMES, bench

NAME = "peers"


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, engine and number of lanes."""
    if settings.smoke:
        benchmark = bench("kuhn_poker", lanes=(1, 16), iterations=2, repeats=1, progress=False)
    else:
        benchmark = bench(DEFAULT_GAMES, seconds=10.0)
    return pd.DataFrame(benchmark.rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Whole games in jaxgadget and in other solvers; the fastest of an engine's turns."""
    return frame
