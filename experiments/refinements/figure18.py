"""Figure 18: unsafe minus resolving with the blueprint prior, from the data of Figure 2."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, panels, titled
from experiments.study import Settings

NAME = "figure18"
KEYS = ["game", "cut", "player", "blueprint"]
COLORS = ("#0072B2", "#D55E00")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player and blueprint; `order` is its rank by exploitability, from 0."""
    frame = settings.data_of("figure2", NAME)
    unsafe = frame[frame["gadget"] == "unsafe"].set_index(KEYS)
    safe = frame[(frame["gadget"] == "resolving") & (frame["prior"] == "blueprint")].set_index(KEYS)
    pairs = unsafe[["seed", "blueprint_exploitability"]].copy()
    pairs["unsafe"] = unsafe["refined_exploitability"]
    pairs["resolving"] = safe["refined_exploitability"].reindex(pairs.index)
    pairs["difference"] = pairs["unsafe"] - pairs["resolving"]
    pairs["gap"] = np.maximum(unsafe["gap_sum"], safe["gap_sum"].reindex(pairs.index))
    pairs = pairs.reset_index()
    rank = pairs.groupby(["game", "cut", "player"])["blueprint_exploitability"].rank(method="first")
    return pairs.assign(order=rank.astype(int) - 1)


def draw(frame: pd.DataFrame) -> Figure:
    """A panel for every game and cut: blueprints from the least to the most exploitable."""
    groups = panels(frame, ("game", "cut"))
    figure, axes = make_axes(len(groups), 2, (4.6, 2.9))
    for ax, ((game, cut), cut_pairs) in zip(axes, groups, strict=True):
        for (player,), part in panels(cut_pairs, ("player",)):
            part = part.sort_values("order")
            for drawn, marker in ((False, "o"), (True, "^")):
                points = part[part["seed"].notna() == drawn]
                kind = "draws" if drawn else "checkpoints"
                ax.scatter(
                    points["order"],
                    points["difference"],
                    s=16,
                    marker=marker,
                    color=COLORS[player],
                    label=f"player {player}, {kind}",
                )
        largest = max(float(cut_pairs["difference"].abs().max()), 1e-9)
        ax.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(largest / 1000)))
        ax.axhline(0, color="#777777", lw=0.8)
        ax.set_title(titled(game, cut), fontsize=9)
        ax.set_xlabel("Blueprints, from least to most exploitable", fontsize=8)
        ax.set_ylabel("Unsafe − resolving,\nblueprint prior [payoff]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.spines[["top", "right"]].set_visible(False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Number of cases in which each is less exploitable by more than both gaps, and the extremes."""
    rows: list[dict[str, object]] = []
    for (game, cut, player), cut_pairs in panels(frame, ("game", "cut", "player")):
        difference = cut_pairs["difference"]
        rows.append(
            {
                "where": titled(game, cut),
                "player": player,
                "resolving better": int((difference > cut_pairs["gap"]).sum()),
                "within the gap": int((difference.abs() <= cut_pairs["gap"]).sum()),
                "unsafe better": int((difference < -cut_pairs["gap"]).sum()),
                "least": difference.min(),
                "median": difference.median(),
                "largest": difference.max(),
            }
        )
    return pd.DataFrame(rows)
