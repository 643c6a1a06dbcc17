"""`figure4` on the paper's own grid, with its 200,000 iterations of re-solving.

Takes days on two cores, so it runs only if it is named.
"""

from __future__ import annotations

import pandas as pd

from experiments.decomposition.figure4 import SMOKE, Grid, compute_grid, draw, summarise
from experiments.study import Settings

__all__ = ["NAME", "compute", "draw", "summarise"]

NAME = "figure4_paper"
GRID = Grid(
    tuple(("cfr", 500 * 4**k, tuple(100 * 2**j for j in range(8))) for k in range(4)),
    200_000,
)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every point."""
    return compute_grid(settings, NAME, settings.pick(GRID, SMOKE))
