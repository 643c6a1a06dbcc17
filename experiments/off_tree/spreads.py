"""Alternative values as distributions (§6): the spread of estimates, in the games of `estimates`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.off_tree import common
from experiments.off_tree.common import CHANGED, EQUILIBRIUM, LEAST, mean
from experiments.off_tree.estimates import GAMES, SMOKE_GAMES, coarse_blueprints, finer
from experiments.study import Settings
from jaxgadget import AbstractValues, NoPrior, Resolving, Solver, UniformPrior, refine, translate
from jaxgadget.gadgets.alternative import TO_BEST_RESPONSE
from jaxgadget.policy.exact import find_value

NAME = "spreads"
SPREADS, SMOKE_SPREADS = (0.01, 0.03, 0.1, 0.3, 1.0, TO_BEST_RESPONSE), (0.1, TO_BEST_RESPONSE)
SPECS = ("cfr:10", "cfr:100", "cfr+:1000", EQUILIBRIUM)
NO_SPREAD = "none"


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, seat, blueprint, prior and spread of resolving with estimates."""
    specs = settings.pick(SPECS, common.SMOKE_BLUEPRINTS)
    spreads = (None, *settings.pick(SPREADS, SMOKE_SPREADS))
    iterations = settings.pick(common.ITERATIONS, common.SMOKE_ITERATIONS)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        tree, coarse = finer(key["game"]), coarse_blueprints(key["game"], specs)
        given = [(prior, spread) for prior in (NoPrior(), UniformPrior()) for spread in spreads]
        values = AbstractValues(coarse)
        gadgets = [Resolving(prior, alternative=values, spread=spread) for prior, spread in given]
        found = refine(
            tree,
            "flop",
            translate(coarse, tree),
            gadgets,
            player=key["player"],
            value=find_value(tree, True, False),
            solver=Solver(iterations=iterations, progress=False),
        ).table
        names = [NO_SPREAD if spread is None else str(spread) for _, spread in given]
        columns = ["blueprint", "gadget", "prior", "blueprint_exploitability", "refined_exploitability"]
        frame = found[[*columns, "gap_max", "failure"]]
        return frame.assign(spread=np.repeat(names, len(specs)), **key)

    games = settings.pick(GAMES, SMOKE_GAMES)
    keys = [{"game": game, "player": player} for game in games for player in (1, 0)]
    return settings.gather(NAME, keys, solve)


def by_spread(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability over that without a spread: means over games and seats, by blueprint and prior."""
    keys = ["game", "player", "blueprint", "prior"]
    without = frame[frame["spread"] == NO_SPREAD].set_index(keys)["refined_exploitability"]
    rest = frame[frame["spread"] != NO_SPREAD]
    base = without.reindex(pd.MultiIndex.from_frame(rest[keys])).clip(lower=LEAST).to_numpy()
    rest = rest.assign(times=rest["refined_exploitability"].clip(lower=LEAST) / base)
    rows = [
        {
            "blueprint": blueprint,
            "prior": prior,
            "spread": spread,
            "times": mean(part["times"]),
            "least": part["times"].min(),
            "most": part["times"].max(),
            "better": int((part["times"] < 1 - CHANGED).sum()),
            "worse": int((part["times"] > 1 + CHANGED).sum()),
            "of": len(part),
            "gap": part["gap_max"].max(),
        }
        for (blueprint, prior, spread), part in rest.groupby(["blueprint", "prior", "spread"], sort=False)
    ]
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability of resolving with estimates over that without a spread: geometric mean, least, most.

    `spread` is in antes; `best-response` is the distance of the estimate from the best response to the
    blueprint. `better` and `worse` differ by more than a twentieth.
    """
    return by_spread(frame)


def draw(frame: pd.DataFrame) -> Figure:
    """The table's means, by spread; one panel per prior."""
    table = by_spread(frame)
    spreads = list(dict.fromkeys(table["spread"]))
    styles = zip(
        dict.fromkeys(table["blueprint"]), ("#E69F00", "#56B4E9", "#009E73", "#0072B2"), "^soD", strict=False
    )
    lines = {name: {"color": color, "marker": marker} for name, color, marker in styles}
    figure, axes = make_axes(2, 2, (4.4, 3.2))
    for ax, (prior, part) in zip(axes, table.groupby("prior", sort=False), strict=True):
        for blueprint, line in part.groupby("blueprint", sort=False):
            times = line.set_index("spread")["times"].reindex(spreads)
            at = range(len(spreads))
            numbers = slice(0, len(spreads) - 1)  # the last label is not a number
            style = {**lines[blueprint], "markersize": 5}
            ax.plot(at[numbers], times.iloc[numbers], linewidth=1.2, label=blueprint, **style)
            ax.plot(at[-1:], times.iloc[-1:], linestyle="none", **style)
        ax.axhline(1, color="black", linewidth=0.8, linestyle=":")
        ax.set_xticks(range(len(spreads)), [name.replace("-", "\n") for name in spreads])
        ax.set_title(f"prior: {prior}", fontsize=9)
        ax.set_xlabel("Spread [antes]", fontsize=8)
        ax.set_ylabel("Exploitability / without a spread", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 4)
    return figure
