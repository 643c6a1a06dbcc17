"""Beyond the paper: the share of the distance from blueprint to optimal continuation that each method closes.

One table over all games: Figure 2's, the larger ones, and reach gadgets where they were solved. The optimal
continuation has the least exploitability of all strategies that equal the blueprint above the cut.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import ttest_1samp

from experiments.common import make_axes, titled
from experiments.refinements.claims import SAME
from experiments.refinements.common import floor_of
from experiments.study import Settings
from jaxgadget.report.tables import named

NAME = "closing"
BEST = "optimal-continuation"
KEYS = ["game", "cut", "player", "blueprint"]
SOURCES = ("figure2", "larger", "reach")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, kind of blueprint and method, from the data of other experiments.

    `closed` is Σ (blueprint − refined) ÷ Σ (blueprint − optimal continuation) over blueprints and players;
    `least` and `median` are over the same ratio of each blueprint whose distance is at least a
    hundredth of the largest; `worse` counts blueprints that a method makes worse.
    """
    rows: list[pd.DataFrame] = []
    for source in SOURCES:
        rows.append(closed(settings.data_of(source, NAME)).assign(source=source))
    shares = pd.concat(rows, ignore_index=True)
    reach = shares["source"] == "reach"
    shares["method"] = shares["method"].where(~reach, shares["method"] + " †")
    return shares.drop_duplicates(["game", "cut", "blueprints", "method"], ignore_index=True)


def method_names(frame: pd.DataFrame) -> pd.Series:
    """Gadget and prior as a short name."""
    table = named(frame)
    plain = table["gadget"].isin(["unsafe", BEST])
    prior = table["prior"].replace("none", "no")
    return table["gadget"].where(plain, table["gadget"] + ", " + prior + " prior")


def closed(frame: pd.DataFrame) -> pd.DataFrame:
    """See `compute`."""
    frame = frame.assign(method=method_names(frame), drawn=frame["seed"].notna())
    best = frame[frame["gadget"] == BEST].set_index(KEYS)["refined_exploitability"]
    others = frame[frame["gadget"] != BEST].copy()
    floor = best.reindex(pd.MultiIndex.from_frame(others[KEYS])).to_numpy()
    others["gain"] = others["blueprint_exploitability"] - others["refined_exploitability"]
    others["distance"] = others["blueprint_exploitability"] - floor
    rows: list[dict[str, object]] = []
    for (game, cut, drawn, method), cases in others.groupby(["game", "cut", "drawn", "method"], sort=False):
        far = cases[cases["distance"] >= 0.01 * cases["distance"].max()]
        share = far["gain"] / far["distance"]
        rows.append(
            {
                "game": game,
                "cut": cut,
                "blueprints": "draws" if drawn else "checkpoints",
                "method": method,
                "closed": cases["gain"].sum() / cases["distance"].sum(),
                "median": share.median(),
                "least": share.min(),
                "worse": int((cases["gain"] < -SAME * cases["blueprint_exploitability"]).sum()),
                "cases": len(cases),
            }
        )
    return pd.DataFrame(rows)


def ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over blueprints of refined over blueprint exploitability, for checkpoints and draws.

    One column per game, cut and player. `*`: the minimum, and results that a paired t-test on logarithms does
    not distinguish from it (two-sided p ≥ 0.05), without the optimal continuation. `<`: some exploitabilities
    are not distinguishable from 0 and count as `floor_of`.
    """
    where = zip(frame["game"], frame["cut"], frame["player"], strict=True)
    least = floor_of(frame)
    before, after = (frame[f"{which}_exploitability"].clip(lower=least) for which in ("blueprint", "refined"))
    table = pd.DataFrame(
        {
            "blueprints": np.where(frame["seed"].notna(), "draws", "checkpoints"),
            "method": method_names(frame),
            "where": [f"{titled(game, cut)}, player {player}" for game, cut, player in where],
            "blueprint": frame["blueprint"],
            "log": np.log(after / before),
            "clipped": frame["refined_exploitability"] < least,
        }
    )
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (kind, where), part in table.groupby(["blueprints", "where"], sort=False):
        logs = part.set_index(["blueprint", "method"])["log"].unstack(sort=False)
        clipped = part.groupby("method")["clipped"].any()
        best = logs.drop(columns=BEST).mean().idxmin()
        for method in logs:
            same = method == best or (method != BEST and _alike(logs[method], logs[best]))
            text = f"{'<' if clipped[method] else ''}{np.exp(logs[method].mean()):.3g}{' *' if same else ''}"
            rows.setdefault((kind, method), {})[where] = text
    means = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["blueprints", "method"])
    return means.reset_index()


def _alike(first: pd.Series, second: pd.Series) -> bool:
    """True if a paired t-test does not distinguish them."""
    difference = first - second
    if np.ptp(difference) < 1e-12 * (1 + difference.abs().max()):
        return bool(abs(difference.mean()) < 1e-12)
    return bool(ttest_1samp(difference, 0.0).pvalue >= 0.05)


def draw(frame: pd.DataFrame) -> Figure:
    """One panel for checkpoints and one for draws: one row per method, one mark per game and cut.

    Those of the experiment on reach gadgets, which has fewer blueprints, are left out.
    """
    frame = frame[frame["source"] != "reach"]
    colors = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
    methods = list(dict.fromkeys(frame["method"]))
    cuts = list(dict.fromkeys(zip(frame["game"], frame["cut"], strict=True)))
    figure, axes = make_axes(2, 2, (5.2, 0.32 * len(methods) + 1.6))
    for ax, which in zip(axes, ("checkpoints", "draws"), strict=True):
        for number, (game, cut) in enumerate(cuts):
            points = frame[(frame["game"] == game) & (frame["cut"] == cut) & (frame["blueprints"] == which)]
            y = [methods.index(method) for method in points["method"]]
            look = {"color": colors[number % len(colors)], "marker": "osD^vP*"[number % 7]}
            ax.scatter(100 * points["closed"], y, s=26, label=titled(game, cut), alpha=0.85, **look)
        ax.axvline(0, color="#777777", lw=0.8)
        ax.axvline(100, color="#777777", lw=0.8, ls=":")
        ax.set_yticks(range(len(methods)), methods if which == "checkpoints" else [""] * len(methods))
        ax.set_ylim(len(methods) - 0.5, -0.5)
        if frame["closed"].min() < -1:
            ax.set_xscale("symlog", linthresh=100)
        ax.xaxis.set_major_formatter(lambda share, _: f"{share:,.0f} %")
        ax.tick_params(labelsize=8)
        ax.grid(axis="y", color="#EEEEEE")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(f"after {which} of CFR" if which == "checkpoints" else "after draws", fontsize=9)
        ax.set_xlabel("Distance to the optimal continuation closed", fontsize=8)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """`closed` in per cent, after checkpoints (c) and draws (d); †: of the experiment on reach gadgets.

    Those have 10 checkpoints and 5 draws, so their rows are only comparable with each other.
    """
    short = {"checkpoints": "c", "draws": "d"}
    names = zip(frame["game"], frame["cut"], frame["blueprints"], strict=True)
    where = [f"{titled(game, cut)} ({short[which]})" for game, cut, which in names]
    table = frame.assign(where=where, closed=(100 * frame["closed"]).round(1))
    wide = table.set_index(["method", "where"])["closed"].unstack(sort=False)
    return wide.astype(object).where(wide.notna(), "–").reset_index()
