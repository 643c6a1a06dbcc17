"""The pictures of the convergence study."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jaxgadget.report.styles import at_edge_note

COLORS = {
    "CFR+ linear": "#000000",
    "CFR+ quadratic": "#E69F00",
    "DCFR": "#CC79A7",
    "PCFR+ quadratic": "#009E73",
    "SAPCFR+ quadratic": "#0072B2",
    "SAPCFR+ quadratic, annealed": "#D55E00",
}
"""The methods drawn, in the colours of Okabe and Ito (2008)."""

LABELS = {
    "CFR+ linear": "CFR+",
    "PCFR+ quadratic": "PCFR+",
    "SAPCFR+ quadratic": "SAPCFR+",
    "SAPCFR+ quadratic, annealed": "SAPCFR+, annealed ε",
    "SAPCFR+ quadratic, annealed till 2,500": "SAPCFR+, till 2,500",
    "SAPCFR+ quadratic, annealed slowly": "SAPCFR+, annealed slowly",
}
GOALS = {
    "gap_iterations": "gap ≤ 1e-3 of the payoff range",
    "loss_iterations": "value within 1e-5 of the optimum",
}
KINDS = ("resolving", "max-margin")
LANE = ["case", "gadget", "prior", "epsilon", "blueprint"]
TOP = 1.02
"""End of the axis of shares."""

APART = 0.062
"""Least distance between labels, in shares."""


def draw(frame: pd.DataFrame) -> dict[str, Figure]:
    """All pictures, for player 0."""
    plain = (frame["player"] == 0) & (frame["family"] == "priors") & (frame["strategy"] == "average")
    shown = frame[plain & frame["method"].isin(list(COLORS))]
    hard = frame[plain & (frame["epsilon"] == 1e-3) & frame["case"].isin(["leduc", "kuhn"])]
    return {"profiles": profiles(shown), "against": against(shown), "exploitability": excess(hard)}


def profiles(frame: pd.DataFrame) -> Figure:
    """Share of lanes that have reached a goal, against iterations."""
    figure = Figure(figsize=(9.4, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    end = int(frame["horizon"].min())
    for row, goal in zip(axes, GOALS, strict=True):
        for ax, kind in zip(row, KINDS, strict=True):
            ends: list[tuple[str, float, float]] = []
            for method, color in COLORS.items():
                lanes = frame[(frame["gadget"] == kind) & (frame["method"] == method)]
                if lanes.empty:
                    continue
                x, y = _profile(lanes[goal].to_numpy(), end)
                ax.step(x, y, where="post", color=color, lw=1.5)
                ends.append((method, float(y[-1]), _area(x, y)))
            _direct_labels(ax, ends)
            ax.set_title(f"{kind}: {GOALS[goal]}", fontsize=10, loc="left")
            _style(ax)
            ax.set_xscale("log")
            ax.set_xlim(10, end)
            ax.set_ylim(0, TOP)
            ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    for ax in axes[1]:
        ax.set_xlabel("Iterations", fontsize=9)
    for ax in axes[:, 0]:
        ax.set_ylabel("Share of lanes", fontsize=9)
    return figure


def _profile(reached: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Step function of the share of lanes that have reached a goal, from 10 iterations to the end."""
    x = np.unique(np.append(reached[reached <= end], [10, end]))
    return x, np.array([(reached <= t).mean() for t in x])


def _area(x: np.ndarray, y: np.ndarray) -> float:
    """Mean height of the steps over the logarithm of iterations, a measure of how early goals are reached."""
    return float(np.sum(np.diff(np.log(x)) * y[:-1]) / np.log(x[-1] / x[0]))


def _direct_labels(ax: Axes, ends: Sequence[tuple[str, float, float]]) -> None:
    """Names beside the ends of the lines, moved apart; where ends coincide, the earlier line comes first."""
    ends = sorted(ends, key=lambda end: end[1:])
    heights = np.array([end for _, end, _ in ends])
    for k in range(1, len(heights)):
        heights[k] = max(heights[k], heights[k - 1] + APART)
    ceiling = 1.0
    for k in reversed(range(len(heights))):
        heights[k] = min(heights[k], ceiling)
        ceiling = heights[k] - APART
    for (method, _, _), height in zip(ends, heights, strict=True):
        ax.annotate(
            LABELS.get(method, method),
            xy=(1.02, height / TOP),
            xycoords="axes fraction",
            fontsize=8.5,
            color=COLORS[method],
            va="center",
            annotation_clip=False,
        )


def against(frame: pd.DataFrame) -> Figure:
    """Loss of every lane after 5,000 iterations, against that of CFR+."""
    figure = Figure(figsize=(9.4, 4.6), layout="constrained")
    methods = ("PCFR+ quadratic", "SAPCFR+ quadratic", "DCFR")
    low, high = 1e-10, 1e-3
    wide = frame.pivot_table(index=LANE, columns="method", values="loss_5000")
    for ax, kind in zip(figure.subplots(1, 2, sharex=True, sharey=True), KINDS, strict=True):
        lanes = wide[wide.index.get_level_values("gadget") == kind]
        below = lanes < low
        count = sum(int((below["CFR+ linear"] | below[name]).sum()) for name in methods if name in lanes)
        at_edge_note(ax, count, low)
        lanes = lanes.clip(lower=low)
        for method, marker in zip(methods, "sod", strict=True):
            if method in lanes:
                ax.scatter(
                    lanes["CFR+ linear"],
                    lanes[method],
                    s=11,
                    marker=marker,
                    color=COLORS[method],
                    alpha=0.75,
                    linewidths=0,
                    clip_on=False,
                    label=LABELS.get(method, method),
                )
        ax.plot([low, high], [low, high], color="#555555", lw=0.8)
        ax.axhline(1e-5, color="#999999", lw=0.8, ls=":")
        ax.axvline(1e-5, color="#999999", lw=0.8, ls=":")
        ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        ax.set_title(kind, fontsize=10, loc="left")
        ax.set_xlabel("Loss of CFR+ after 5,000 iterations [share of the payoff range]", fontsize=9)
        ax.annotate("worse than CFR+", (4e-5, 3e-4), fontsize=8, color="#555555", ha="center")
        ax.annotate("goal (b)", (1.2e-10, 1.3e-5), fontsize=8, color="#777777")
        _style(ax)
    figure.axes[0].set_ylabel("Loss of the other method", fontsize=9)
    if figure.axes[0].collections:
        figure.axes[0].legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def excess(frame: pd.DataFrame) -> Figure:
    """Each lane's additional exploitability relative to the exact refinement, by method."""
    figure = Figure(figsize=(9.4, 3.9), layout="constrained")
    names = [m for m in (*COLORS, *LABELS) if m in set(frame["method"])]
    names = list(dict.fromkeys(names))[::-1]
    for ax, kind in zip(figure.subplots(1, 2, sharex=True, sharey=True), KINDS, strict=True):
        for row, method in enumerate(names):
            lanes = frame[(frame["gadget"] == kind) & (frame["method"] == method)]
            if lanes.empty:
                continue
            x = np.sort((lanes["exploitability"] - lanes["exact_exploitability"]).to_numpy(float))
            color = COLORS.get(method, "#56B4E9")
            ax.plot(x, row + np.linspace(-0.25, 0.25, len(x)), ".", color=color, markersize=5)
            ax.plot([x.mean()] * 2, [row - 0.4, row + 0.4], color=color)
        ax.axvline(0, color="#555555", lw=0.8)
        ax.set_yticks(range(len(names)), [LABELS.get(name, name) for name in names])
        ax.set_title(f"Leduc, {kind}, ε = 1e-3", fontsize=10, loc="left")
        ax.set_xlabel("Exploitability less that of the exact solution [chips]", fontsize=9)
        _style(ax)
    return figure


def _style(ax: Axes) -> None:
    ax.grid(True, color="#DDDDDD", linewidth=0.5)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
