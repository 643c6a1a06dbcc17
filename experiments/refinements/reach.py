"""Beyond the paper: reach gadgets with priors, compared with gadgets without gifts."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, panels, titled
from experiments.refinements.common import FEW_BLUEPRINTS, GRID, sweep_grid
from experiments.study import Settings
from jaxgadget import MaxMargin, NoPrior, OptimalContinuation, ReachMaxMargin, ReachResolving, Resolving
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.registry import DEFAULT_PRIORS, PRIORS
from jaxgadget.report.styles import STYLES
from jaxgadget.util.registry import find

NAME = "reach"
PAIR = ["player", "blueprint"]


def compute(settings: Settings) -> pd.DataFrame:
    """Rows as in Figure 2, for four gadgets with three priors each, and the optimal continuation."""
    kinds = (Resolving, ReachResolving, MaxMargin, ReachMaxMargin)
    gadgets: list[Gadget] = [kind(find(PRIORS, name, "prior")()) for kind in kinds for name in DEFAULT_PRIORS]
    gadgets.append(OptimalContinuation(NoPrior()))
    return sweep_grid(settings, NAME, GRID, blueprints=FEW_BLUEPRINTS, gadgets=gadgets, players=(0, 1))


def draw(frame: pd.DataFrame) -> Figure:
    """One panel per game and cut: exploitability with gifts over that without, one mark per blueprint."""
    groups = panels(frame, ("game", "cut"))
    figure, axes = make_axes(len(groups), 2, (4.6, 2.9))
    for ax, ((game, cut), rows) in zip(axes, groups, strict=True):
        for (gadget, prior), part in panels(rows, ("gadget", "prior")):
            if not gadget.startswith("reach-"):
                continue
            plain = rows[(rows["gadget"] == gadget.removeprefix("reach-")) & (rows["prior"] == prior)]
            without = plain.set_index(PAIR)["refined_exploitability"]
            ratio = part["refined_exploitability"].to_numpy() / without.reindex(index_of(part)).to_numpy()
            style = STYLES[gadget, prior]
            look = {"color": style.color, "marker": style.marker, "s": 18, "alpha": 0.8}
            name = f"{gadget}, {'no' if prior == 'none' else prior} prior"
            ax.scatter(part["blueprint_exploitability"], ratio, label=name, **look)
        ax.axhline(1, color="#777777", lw=0.8)
        ax.set_xscale("log")
        low, high = ax.get_ylim()
        ax.set_ylim(min(low, 0.95), max(high, 1.05))
        ax.set_title(titled(game, cut), fontsize=9)
        ax.set_xlabel("Blueprint exploitability [payoff]", fontsize=8)
        ax.set_ylabel("Refined exploitability with\ngifts ÷ without", fontsize=8)
        ax.tick_params(which="both", labelsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def index_of(rows: pd.DataFrame) -> pd.MultiIndex:
    """Columns that identify a pair."""
    return pd.MultiIndex.from_frame(rows[PAIR])


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over blueprints of refined over blueprint exploitability; signs as in `closing.ratios`.

    `*`: the minimum, and results not distinguishable from it; `<`: some are not distinguishable from 0.
    """
    from experiments.refinements.closing import ratios

    return ratios(frame)
