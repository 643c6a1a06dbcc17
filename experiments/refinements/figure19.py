"""Figure 19: Figure 2 with every gadget game solved exactly, by linear programs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.refinements import figure2
from experiments.refinements.common import GRID, sweep_grid
from experiments.study import Settings

NAME = "figure19"


def compute(settings: Settings) -> pd.DataFrame:
    """The same rows as Figure 2's, with the same ε."""
    return sweep_grid(settings, NAME, GRID, players=(0, 1), algorithm="lp", blueprints_at_once=5)


def draw(frame: pd.DataFrame) -> Figure:
    """As Figure 2."""
    return figure2.draw(frame)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over blueprints of refined over blueprint exploitability; signs as in `closing.ratios`.

    `*`: the minimum, and results not distinguishable from it; `<`: some are not distinguishable from 0.
    """
    from experiments.refinements.closing import ratios

    return ratios(frame)
