"""Figure 2: refined against blueprint exploitability, by CFR+; Kubíček, Lisý and Sandholm (2026), §8."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend, panels, titled
from experiments.refinements.common import GRID, sweep_grid
from experiments.study import Settings
from jaxgadget.report.plots import exploitability_scatter

NAME = "figure2"
KEYS = ("game", "cut", "player")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, blueprint, gadget with prior, and player."""
    return sweep_grid(settings, NAME, GRID, players=(0, 1))


def draw(frame: pd.DataFrame) -> Figure:
    """A panel for every game, cut and player."""
    groups = panels(frame, KEYS)
    players = frame["player"].nunique()
    figure, axes = make_axes(len(groups), players if players > 1 else 3, (4.4, 3.3))
    for ax, ((game, cut, player), part) in zip(axes, groups, strict=True):
        exploitability_scatter(part, ax, title=f"{titled(game, cut)}, player {player}", log=True)
        ax.set_xlabel("Blueprint exploitability [payoff]", fontsize=8)
        ax.set_ylabel("Refined exploitability [payoff]", fontsize=8)
    one_legend(figure, axes, 3)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over blueprints of refined over blueprint exploitability; signs as in `closing.ratios`.

    `*`: the minimum, and results not distinguishable from it; `<`: some are not distinguishable from 0.
    """
    from experiments.refinements.closing import ratios

    return ratios(frame)
