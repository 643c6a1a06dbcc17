"""Nested search from own infostates, believed and assembled, compared with search from public states."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend, tree_of, value_of
from experiments.knowledge.common import (
    COLORS,
    EQUILIBRIUM,
    LEDUC,
    PAIR,
    WORSE,
    blueprints_of,
    goofspiel,
    in_words,
    ratio,
    share_worse,
    with_rise,
)
from experiments.study import Settings
from jaxgadget import (
    BlueprintPrior,
    ExactValues,
    Knowledge,
    Lookahead,
    MaxMargin,
    NoPrior,
    Resolving,
    Solver,
    Unsafe,
    make_portfolio,
    nested_search,
)
from jaxgadget.report.styles import at_edge_note

NAME = "nested"
GAMES, SMALL = (goofspiel(4), LEDUC), ("kuhn_poker",)
BLUEPRINTS, SMOKE_BLUEPRINTS = ("dirichlet:0", "cfr:3", "cfr:10", "cfr:100", EQUILIBRIUM), ("cfr:3",)
EPSILON = 2e-2
"""As in the experiments on nested search."""

GADGETS = (
    Unsafe(),
    Resolving(NoPrior()),
    Resolving(BlueprintPrior(), EPSILON),
    MaxMargin(NoPrior()),
    MaxMargin(BlueprintPrior(), EPSILON),
)
PUBLIC = "public"
KNOWN = {
    PUBLIC: Knowledge(order=math.inf),
    "order 1, believed": Knowledge(order=1, follow="believed"),
    "order 1, assembled": Knowledge(order=1, follow="assembled"),
    "order 1, unfrozen, believed": Knowledge(order=1, unfrozen=True, follow="believed"),
    "order 1, unfrozen, assembled": Knowledge(order=1, unfrozen=True, follow="assembled"),
}
SMOKE_WAYS = (PUBLIC, "order 1, believed", "order 1, assembled")

TO_THE_END, LOOKAHEAD = "to the end", "next decision"
ENTRIES, SMOKE_ENTRIES = 4, 2
"""Strategies at the limit of lookaheads."""

ITERATIONS, SMOKE_ITERATIONS = 500, 10


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, limit, way, blueprint and gadget with prior."""

    def search(key: dict[str, Any]) -> pd.DataFrame:
        return _search(settings, key)

    keys = [
        {"game": game, "player": player, "until": until, "way": name}
        for player in (0, 1)
        for game in settings.pick(GAMES, SMALL)
        for until in (TO_THE_END, LOOKAHEAD)
        for name in settings.pick(tuple(KNOWN), SMOKE_WAYS)
    ]
    return settings.gather(NAME, keys, search)


def _search(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    specs = tuple(settings.pick(BLUEPRINTS, SMOKE_BLUEPRINTS))
    blueprints, size = blueprints_of(key["game"], specs), settings.pick(ENTRIES, SMOKE_ENTRIES)
    values = None
    if key["until"] == LOOKAHEAD:
        lanes = [blueprints.lane(number) for number in range(blueprints.num_lanes)]
        values = [ExactValues(make_portfolio(lane, size=size, progress=False)) for lane in lanes]
    found = nested_search(
        tree_of(key["game"]),
        blueprints,
        GADGETS,
        Lookahead(values, knowledge=KNOWN[key["way"]]),
        player=key["player"],
        solver=Solver(iterations=settings.pick(ITERATIONS, SMOKE_ITERATIONS), progress=False),
        value=value_of(key["game"]),
    )
    columns = ["blueprint", "gadget", "prior", "epsilon", "blueprint_exploitability"]
    columns += ["nested_exploitability", "gap_max", "searches", "seconds", "failure"]
    renamed = {"nested_exploitability": "refined_exploitability"}
    return found.table[columns].rename(columns=renamed).assign(**key)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability of nested search over that of the blueprint, geometric means; share of worse results.

    Both players. Ratios exclude the equilibrium and replace numbers below a thousandth by it; a result is
    worse if it is more exploitable than its blueprint by more than that.
    """
    frame = with_rise(frame)
    tables: dict[str, pd.DataFrame] = {}
    for (game, until), rows in frame.groupby(["game", "until"], sort=False):
        table: list[dict[str, Any]] = []
        for name, part in rows.groupby("way", sort=False):
            cells = {
                str(solved): f"{ratio(lanes):.3g}; {100 * share_worse(lanes):.0f} %"
                for solved, lanes in part.groupby("solved", sort=False)
            }
            table.append({"way": name} | cells)
        tables[f"{in_words(str(game))}, {until}: ratio; share that got worse"] = pd.DataFrame(table)
    return tables


STYLE = {
    PUBLIC: ("x", COLORS["order ∞"]),
    "order 1, believed": ("o", COLORS["order 1, in-turn"]),
    "order 1, assembled": ("^", COLORS["order 1, damped"]),
    "order 1, unfrozen, believed": ("s", COLORS["order 1, together"]),
    "order 1, unfrozen, assembled": ("v", COLORS["order 3, together"]),
}
SHOWN = "resolving, blueprint"


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability of nested search against that of the blueprint; one panel per game and limit."""
    frame = with_rise(frame)
    groups = list(frame[frame["solved"] == SHOWN].groupby(["until", "game"], sort=False))
    figure, axes = make_axes(len(groups), frame["game"].nunique(), (3.8, 3.0))
    for ax, ((until, game), rows) in zip(axes, groups, strict=True):
        for name, part in rows.groupby("way", sort=False):
            marker, color = STYLE[str(name)]
            x, y = (part[column].clip(lower=WORSE) for column in PAIR)
            ax.scatter(x, y, marker=marker, color=color, s=18, linewidths=1, alpha=0.85, label=name)
        at_edge_note(ax, int((rows[PAIR] < WORSE).any(axis=1).sum()), WORSE)
        ends = [WORSE, float(rows[PAIR].to_numpy().max()) * 1.5]
        ax.plot(ends, ends, color="#000000", linewidth=0.8, linestyle="--", label="blueprint")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{in_words(str(game))}, {until}", fontsize=9)
        ax.set_xlabel("Blueprint exploitability [payoff]", fontsize=8)
        ax.set_ylabel("Exploitability of search [payoff]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 3)
    return figure
