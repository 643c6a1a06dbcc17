"""N-matching pennies: a chain of deals; every infostate knows two, and all form one subgame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.knowledge import common
from experiments.knowledge.common import COLORS, EQUILIBRIUM, WAYS, measure, with_way
from experiments.study import Settings

NAME = "pennies"
NUM_DEALS, SMOKE_NUM_DEALS = (4, 6, 10, 14, 20, 30, 40, 60, 80, 100), (4, 6)
BOTH_PLAYERS = frozenset({4, 20, 100})
"""Values of N for which player 1 re-solves, too."""

BLUEPRINTS = ("uniform", "cfr:10", "cfr:100", "dirichlet:0", "dirichlet:1", EQUILIBRIUM)
SMOKE_BLUEPRINTS = ("uniform", EQUILIBRIUM)

ITERATED = (20,)
"""Values of N that CFR+ solves, too, because linear programs have many optima."""

ITERATIONS = 2000

WORSE = 1e-6
"""Larger rises in exploitability, divided by N, count as rises."""

ROUNDING = 1e-12
"""Smaller numbers from linear programs count as 0."""

ONE_BY_ONE = ("order 1", "one-by-one")
"""In turn, with a class for each infostate."""

SHOWN = ("max-margin", "resolving, blueprint")
"""The gadgets in the picture."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every N, player, way, blueprint and gadget with prior."""
    specs = settings.pick(BLUEPRINTS, SMOKE_BLUEPRINTS)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        how = {name: key[name] for name in ("player", "known", "combine", "algorithm")}
        found = measure(common.pennies(key["num_deals"]), "subgame", specs, iterations=ITERATIONS, **how)
        return found.assign(**key)

    every_n = settings.pick(NUM_DEALS, SMOKE_NUM_DEALS)
    solves = [(n, player, "lp") for n in every_n for player in (0, 1) if not player or n in BOTH_PLAYERS]
    solves += [(n, 0, "cfr+") for n in settings.pick(ITERATED, ())]
    keys = [
        {"num_deals": n, "player": player, "algorithm": algorithm, "known": known, "combine": combine}
        for n, player, algorithm in solves
        for known, combine in (*WAYS, ONE_BY_ONE)
    ]
    return settings.gather(NAME, keys, solve)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability in payoffs, player 0, the uniform blueprint; by linear programs, and by CFR+.

    The first table has max-margin without a prior for several N. In the others `worse` counts results of safe
    gadgets that are more exploitable than their blueprint by more than a millionth of N, and their total
    number; `most` is the largest rise, over N.
    """
    frame = with_way(frame)
    refined = frame["refined_exploitability"]
    frame["refined_exploitability"] = refined.where(refined > ROUNDING, 0.0)
    exact = frame[frame["algorithm"] == "lp"]
    uniform = exact[(exact["blueprint"] == "uniform") & (exact["player"] == 0)]
    margin = uniform[uniform["solved"] == "max-margin"]
    by_n = margin.pivot(index="num_deals", columns="way", values="refined_exploitability")
    by_n = by_n[list(dict.fromkeys(margin["way"]))]
    blueprint = margin.groupby("num_deals")["blueprint_exploitability"].first()
    by_n.insert(0, "blueprint", blueprint)
    tables = {"Max-margin, by N": by_n.reset_index().rename(columns={"num_deals": "N"})}
    shown = max(n for n in frame["num_deals"] if n in (*ITERATED, *SMOKE_NUM_DEALS))
    for algorithm, part in frame[(frame["num_deals"] == shown) & (frame["player"] == 0)].groupby("algorithm"):
        part = part[part["blueprint"] == "uniform"]
        table = part.pivot(index="way", columns="solved", values="refined_exploitability")
        table = table.loc[list(dict.fromkeys(part["way"])), list(dict.fromkeys(part["solved"]))]
        title = (
            f"N = {shown}, all gadgets, {algorithm}; blueprint {part['blueprint_exploitability'].iloc[0]:.4g}"
        )
        tables[title] = table.reset_index()
    safe = exact[exact["gadget"] != "unsafe"]
    rows: list[dict[str, Any]] = []
    for name, part in safe.groupby("way", sort=False):
        rise = part["rise"] / part["num_deals"]
        worse, start = rise > WORSE, part["blueprint"] == EQUILIBRIUM
        most = float(rise.max())
        counted = {"worse": int(worse.sum()), "of": len(part), "most": most if most > ROUNDING else 0.0}
        from_zero = {"from an equilibrium": int((worse & start).sum()), "of ": int(start.sum())}
        rows.append({"way": name} | counted | from_zero)
    tables["Which results are worse than their blueprint, linear programs, all N and both players"] = (
        pd.DataFrame(rows)
    )
    return tables


LINES = {
    "order 1": (
        "order 1, together",
        "order 1, damped",
        "order 1, in-turn",
        "order 1, one-by-one",
        common.COMPONENTS,
    ),
    "beyond": (
        "order 3, together",
        "order 3, in-turn",
        "order 1, unfrozen, together",
        "order 1, unfrozen, in-turn",
        common.COMPONENTS,
    ),
}
"""Safe combinations and their comparisons; higher orders."""


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability over that of the uniform blueprint, by N; a panel for each gadget and group of ways."""
    frame = with_way(frame)
    frame = frame[(frame["algorithm"] == "lp") & (frame["player"] == 0) & (frame["blueprint"] == "uniform")]
    figure, axes = make_axes(len(SHOWN) * len(LINES), len(LINES), (4.4, 3.2))
    panels = [(solved, group) for solved in SHOWN for group in LINES]
    for ax, (solved, group) in zip(axes, panels, strict=True):
        part = frame[frame["solved"] == solved]
        for name in LINES[group]:
            line = part[part["way"] == name].sort_values("num_deals")
            share = line["refined_exploitability"].clip(lower=0) / line["blueprint_exploitability"]
            style: dict[str, Any] = {"color": COLORS[name], "markersize": 3, "linewidth": 1.2}
            ax.plot(line["num_deals"], share, "o-", label=name, **style)
        ax.axhline(1, color=COLORS["blueprint"], linewidth=1, linestyle="--", label="blueprint")
        ax.set_xscale("log")
        ticks = sorted(np.unique(part["num_deals"]))
        ax.set_xticks(ticks[::3] or ticks, [str(n) for n in ticks[::3] or ticks])
        ax.minorticks_off()
        ax.set_ylim(bottom=-0.08)
        ax.set_title(solved, fontsize=9)
        ax.set_xlabel("N", fontsize=8)
        ax.set_ylabel("Exploitability / blueprint's", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 4)
    return figure
