"""The larger half of GS2's research games, whose histories fit in memory: takes an hour."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.knowledge import generation
from experiments.study import Settings

NAME = "larger_generation"


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, generation, blueprint and gadget with prior; all own infostates at once."""
    spots = settings.pick(generation.LARGER_SPOTS, generation.SMOKE_SPOTS)
    return generation.refine_spots(settings, NAME, spots)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """As in `generation`."""
    return generation.summarise(frame)


def draw(frame: pd.DataFrame) -> Figure:
    """As in `generation`."""
    return generation.draw(frame)
