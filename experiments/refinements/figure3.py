"""Figure 3: exploitability of the refined strategy against iterations, after one blueprint."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, panels, titled
from experiments.refinements.common import GRID, sweep_grid
from experiments.study import Settings
from jaxgadget.report import convergence_curves

NAME = "figure3"
BLUEPRINT = "cfr:50"
COUNTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, gadget with prior, and number of iterations; player 0."""
    return sweep_grid(settings, NAME, GRID, blueprints=BLUEPRINT, iterations=COUNTS)


def draw(frame: pd.DataFrame) -> Figure:
    """A panel for every game and cut."""
    groups = panels(frame, ("game", "cut"))
    figure, axes = make_axes(len(groups), 2, (6.2, 3.8))
    for ax, ((game, cut), part) in zip(axes, groups, strict=True):
        convergence_curves(part, ax, title=f"{titled(game, cut)}, player 0, blueprint {BLUEPRINT}")
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability after some numbers of iterations."""
    from experiments.refinements.closing import method_names

    where = [titled(game, cut) for game, cut in zip(frame["game"], frame["cut"], strict=True)]
    table = frame.assign(method=method_names(frame), where=where)
    counts = sorted(table["iterations"].unique())
    shown = [count for count in counts if count in (100, 1000, 5000, 20_000)] or counts
    table = table[table["iterations"].isin(shown)].set_index(["where", "method", "iterations"])
    return table["refined_exploitability"].unstack().reset_index()
