"""Beyond the paper: sensitivity to ε, the prior's clipping and its scale."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator

from experiments.common import GOOFSPIEL, make_axes, panels, titled
from experiments.refinements.common import FEW_BLUEPRINTS, floor_of, sweep_grid
from experiments.study import Settings
from jaxgadget import BlueprintPrior, MaxMargin, Resolving
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.prior import PRIOR_CLIP
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.util.arrays import FloatArray

NAME = "sensitivity"
GAMES = {"leduc_poker": ("flop",), GOOFSPIEL: ("depth:1",)}
EPSILONS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
CLIPS = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
USUAL = 1e-3
COLORS = {"resolving": "#009E73", "max-margin": "#CC79A7"}


@dataclasses.dataclass(frozen=True)
class LargestPrior(BlueprintPrior):
    """The blueprint prior with another scale: a root's reach over the subgame's largest, not the sum.

    Max-margin normalises weights, so only clipping changes there.
    """

    name: ClassVar[str] = "blueprint ÷ largest"

    def follow(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return _over_largest(ranges, self.clip, 0.5)

    def weight(self, ranges: Ranges) -> FloatArray:
        """See `Prior`."""
        return _over_largest(ranges, self.clip, 1.0)


def _over_largest(ranges: Ranges, clip: float, otherwise: float) -> FloatArray:
    largest = np.zeros((ranges.num_subgames, ranges.num_lanes))
    np.maximum.at(largest, ranges.subgame, ranges.opponent)
    largest = largest[ranges.subgame]
    share = ranges.opponent / np.where(largest > 0, largest, 1)
    return np.where(largest > 0, np.maximum(share, clip), otherwise)


def varied_gadgets(kind: type[Resolving] | type[MaxMargin]) -> list[Gadget]:
    """Every ε with the default clip, every clip and both scales with the default ε."""
    gadgets: list[Gadget] = [kind(BlueprintPrior(), epsilon) for epsilon in EPSILONS]
    gadgets += [kind(BlueprintPrior(clip), USUAL) for clip in CLIPS if clip != PRIOR_CLIP]
    return [*gadgets, kind(LargestPrior(), USUAL)]


def compute(settings: Settings) -> pd.DataFrame:
    """Rows as in Figure 2, for player 0, with `varied` (the changed setting) and its value."""
    gadgets = [gadget for kind in (Resolving, MaxMargin) for gadget in varied_gadgets(kind)]
    frame = sweep_grid(settings, NAME, GAMES, blueprints=FEW_BLUEPRINTS, gadgets=gadgets)
    clip = frame["prior"].str.extract(r"clip (\S+)")[0].astype(float)
    scale = frame["prior"] == LargestPrior.name
    varied = np.where(scale, "scale", np.where(clip.notna(), "clip", "epsilon"))
    value = np.where(scale, 1.0, clip.where(clip.notna(), frame["epsilon"]))
    return frame.assign(varied=varied, value=value)


def relative(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean over blueprints of exploitability over that with the default ε, clip and scale."""
    keys = ["game", "cut", "player", "blueprint", "gadget"]
    usual = frame[(frame["varied"] == "epsilon") & (frame["value"] == USUAL)].set_index(keys)
    base = usual["refined_exploitability"].reindex(pd.MultiIndex.from_frame(frame[keys])).to_numpy()
    least = floor_of(frame)
    log = np.log(frame["refined_exploitability"].clip(lower=least) / np.maximum(base, least))
    grouped = frame.assign(log=log).groupby(["game", "cut", "gadget", "varied", "value"], sort=False)["log"]
    return np.exp(grouped.agg(["mean", "min", "max"])).reset_index()


def draw(frame: pd.DataFrame) -> Figure:
    """One panel per game over ε and one over the clip: the mean over blueprints, and the range."""
    table = relative(frame)
    groups = panels(table, ("game", "cut"))
    figure, axes = make_axes(2 * len(groups), 2, (4.4, 3.0))
    for row, ((game, cut), cut_rows) in enumerate(groups):
        for column, varied in enumerate(("epsilon", "clip")):
            ax = axes[2 * row + column]
            ends: list[tuple[float, float, str]] = []
            for gadget, color in COLORS.items():
                part = cut_rows[cut_rows["gadget"] == gadget]
                usual = (part["varied"] == "epsilon") & (part["value"] == USUAL)
                part = part[(part["varied"] == varied) | usual].sort_values("value")
                ax.fill_between(part["value"], part["min"], part["max"], color=color, alpha=0.15, lw=0)
                ax.plot(part["value"], part["mean"], color=color, marker="o", ms=4, lw=1.4)
                ends.append((float(part["mean"].iloc[-1]), float(part["value"].iloc[-1]), gadget))
            for above, (height, end, gadget) in zip((-5, 5), sorted(ends), strict=True):
                look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8}
                ax.annotate(gadget, (end, height), (6, above), color=COLORS[gadget], **look)
            ax.axhline(1, color="#777777", lw=0.8)
            ax.set_xscale("log")
            ax.margins(x=0.2)
            ax.set_yscale("log")
            ax.set_title(titled(game, cut), fontsize=9)
            what = "ε" if varied == "epsilon" else "least reach in the blueprint prior (clip)"
            ax.set_xlabel(what, fontsize=8)
            ax.set_ylabel("Refined exploitability ÷\nthat at ε = clip = 1e-3", fontsize=8)
            ax.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
            ax.yaxis.set_minor_locator(NullLocator())
            ax.yaxis.set_major_formatter(lambda y, _: f"{y:.3g}")
            ax.tick_params(which="both", labelsize=8)
            ax.spines[["top", "right"]].set_visible(False)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over blueprints of exploitability over that with ε = clip = 1e-3, default scale."""
    table = relative(frame)
    where = [titled(game, cut) for game, cut in zip(table["game"], table["cut"], strict=True)]
    table = table.assign(where=where).set_index(["varied", "value", "gadget", "where"])["mean"]
    return table.unstack(["where", "gadget"], sort=False).pipe(_flat)


def _flat(table: pd.DataFrame) -> pd.DataFrame:
    table.columns = [", ".join(map(str, column)) for column in table.columns]
    return table.reset_index()
