"""The size of the opponent's mistakes at the gadget: ε by prior, gadget and method."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.off_tree import common
from experiments.off_tree.common import CHANGED, EIGHT_BETS, EQUILIBRIUM, answer, leduc, mean, with_words
from experiments.study import Settings
from jaxgadget import BlueprintPrior, MaxMargin, NoPrior, Resolving, UniformPrior
from jaxgadget.gadgets.gadget import Gadget

NAME = "epsilons"
SPOTS = ((leduc(), "1-a"), (leduc(stack=20, bets=EIGHT_BETS), "1-a"))
SMOKE_SPOTS = ((leduc(stack=7, raises=1), "1-a"),)
METHODS = ("inexpensive", "safe")
EPSILONS, SMOKE_EPSILONS = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3), (1e-3, 0.1)
SPECS = ("cfr:100", "cfr+:1000", EQUILIBRIUM)


def gadgets(epsilons: tuple[float, ...]) -> list[Gadget]:
    """Resolving and max-margin without a prior, then with both priors at every ε."""
    kinds, priors = (Resolving, MaxMargin), (UniformPrior(), BlueprintPrior())
    plain: list[Gadget] = [kind(NoPrior()) for kind in kinds]
    return plain + [kind(prior, epsilon) for kind in kinds for prior in priors for epsilon in epsilons]


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, menu, seat, method, blueprint, gadget, prior and ε."""
    asked = gadgets(settings.pick(EPSILONS, SMOKE_EPSILONS))
    specs = settings.pick(SPECS, common.SMOKE_BLUEPRINTS)
    iterations = settings.pick(common.ITERATIONS, common.SMOKE_ITERATIONS)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        return answer(specs=specs, gadgets=asked, iterations=iterations, **key).assign(**key)

    keys = [
        {"game": game, "menu": menu, "player": player, "method": method}
        for game, menu in settings.pick(SPOTS, SMOKE_SPOTS)
        for player in (1, 0)
        for method in METHODS
    ]
    return settings.gather(NAME, keys, solve)


def by_epsilon(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over games, seats and blueprints of exploitability over that without a prior."""
    keys = ["game", "menu", "player", "method", "blueprint", "gadget"]
    without = frame[frame["prior"] == "none"].set_index(keys)["exploitability"]
    with_prior = with_words(frame[frame["prior"] != "none"])
    index = pd.MultiIndex.from_frame(with_prior[keys])
    rows: list[dict[str, Any]] = []
    with_prior = with_prior.assign(without=without.reindex(index).to_numpy())
    for (method, solved, epsilon), part in with_prior.groupby(["method", "solved", "epsilon"], sort=False):
        times = part["exploitability"].clip(lower=common.LEAST) / part["without"].clip(lower=common.LEAST)
        rows.append(
            {
                "method": method,
                "solved": solved,
                "epsilon": epsilon,
                "times": mean(times),
                "least": times.min(),
                "most": times.max(),
                "better": float((times < 1 - CHANGED).mean()),
                "worse": float((times > 1 + CHANGED).mean()),
                "gap": part["gap_max"].max(),
            }
        )
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability over that of the same gadget without a prior: geometric mean, least, most.

    `better` and `worse`: the share of results that differ by more than a twentieth; `gap`: the largest gap.
    """
    table = by_epsilon(frame)
    return {method: rows.drop(columns="method") for method, rows in table.groupby("method", sort=False)}


LINES = {
    "resolving, uniform": ("#0072B2", "o-"),
    "resolving, blueprint": ("#56B4E9", "s-"),
    "max-margin, uniform": ("#D55E00", "^--"),
    "max-margin, blueprint": ("#E69F00", "v--"),
}


def draw(frame: pd.DataFrame) -> Figure:
    """The table's means by ε; one panel per method."""
    table = by_epsilon(frame)
    figure, axes = make_axes(table["method"].nunique(), 2, (4.4, 3.4))
    for ax, (method, rows) in zip(axes, table.groupby("method", sort=False), strict=True):
        for solved, line in rows.groupby("solved", sort=False):
            color, style = LINES[solved]
            ax.plot(line["epsilon"], line["times"], style, color=color, markersize=4, lw=1.2, label=solved)
        ax.axhline(1, color="black", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_title(method, fontsize=9)
        ax.set_xlabel("ε", fontsize=8)
        ax.set_ylabel("Exploitability / without a prior", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 4)
    return figure
