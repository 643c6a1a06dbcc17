"""Ten thousand rivers, as in `rivers`, on a GPU if JAX has one."""

from __future__ import annotations

import pandas as pd

from experiments.holdem import rivers
from experiments.study import Settings

NAME = "many_rivers"
NUMBER, SMOKE_NUMBER = 10_000, 2

summarise, draw = rivers.summarise, rivers.draw


def compute(settings: Settings) -> pd.DataFrame:
    """A row per river."""
    return rivers.solve_rivers(NAME, settings.pick(NUMBER, SMOKE_NUMBER), settings)
