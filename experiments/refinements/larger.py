"""Beyond the paper: Figure 2 on larger Leducs and Liar's Dice 1×5."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.refinements import figure2
from experiments.refinements.common import sweep_grid
from experiments.study import Settings

NAME = "larger"
GAMES = {
    "leduc_poker(num_ranks=5)": ("flop",),
    "leduc_poker(num_ranks=8)": ("flop",),
    "liars_dice(dice_sides=5,numdice=1)": ("depth:1",),
}
BLUEPRINTS = ("cfr-spread:8:1000", "draws:4")


def compute(settings: Settings) -> pd.DataFrame:
    """Rows as in Figure 2, for player 0."""
    return sweep_grid(settings, NAME, GAMES, blueprints=BLUEPRINTS)


def draw(frame: pd.DataFrame) -> Figure:
    """As Figure 2."""
    return figure2.draw(frame)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over blueprints of refined over blueprint exploitability; signs as in `closing.ratios`.

    `*`: the minimum, and results not distinguishable from it; `<`: some are not distinguishable from 0.
    """
    from experiments.refinements.closing import ratios

    return ratios(frame)
