"""Every own infostate below a cut re-solved once: safety and improvement of each method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.knowledge.common import (
    COLORS,
    COMPONENTS,
    EQUILIBRIUM,
    LEDUC,
    PAIR,
    SAFE,
    WAYS,
    WORSE,
    dark_hex,
    goofspiel,
    in_words,
    measure,
    ratio,
    share_worse,
    way,
    with_way,
)
from experiments.study import Settings
from jaxgadget.report.styles import at_edge_note

NAME = "cut"
SPOTS = (
    (goofspiel(4), "depth:2"),
    (LEDUC, "flop"),
    (dark_hex(2, 2, "classical"), "own:2"),
    (dark_hex(2, 2, "abrupt"), "own:2"),
)
SMOKE_SPOTS = ((goofspiel(3), "depth:1"),)

BLUEPRINTS = ("uniform", "dirichlet:0", "cfr:3", "cfr:10", "cfr:100", EQUILIBRIUM)
SMOKE_BLUEPRINTS = ("uniform", EQUILIBRIUM)

ITERATIONS, SMOKE_ITERATIONS = 1000, 20
"""Of CFR+."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player, way, blueprint and gadget with prior."""
    specs = settings.pick(BLUEPRINTS, SMOKE_BLUEPRINTS)
    spots = settings.pick(SPOTS, SMOKE_SPOTS)
    return refine_spots(settings, NAME, spots, lambda game: WAYS, lambda game: specs)


def refine_spots(
    settings: Settings,
    name: str,
    spots: Sequence[tuple[str, str]],
    ways_of: Callable[[str], Sequence[tuple[str, str]]],
    specs_of: Callable[[str], Sequence[str]],
) -> pd.DataFrame:
    """A row for every spot, player, way, blueprint and gadget with prior.

    Args:
      settings: of the study.
      name: the experiment's.
      spots: games and cuts.
      ways_of: orders of knowledge for a game, with the combinations of strategies.
      specs_of: blueprints for a game; without an equilibrium, its value is computed by CFR+.
    """
    iterations = settings.pick(ITERATIONS, SMOKE_ITERATIONS)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        game, specs = key["game"], specs_of(key["game"])
        how = {name: key[name] for name in ("player", "known", "combine")}
        how |= {"algorithm": "cfr+", "iterations": iterations, "exact": EQUILIBRIUM in specs}
        return measure(game, key["cut"], specs, **how).assign(**key)

    keys = [
        {"game": game, "cut": where, "player": player, "known": known, "combine": combine}
        for game, where in spots
        for player in (0, 1)
        for known, combine in ways_of(game)
    ]
    return settings.gather(name, keys, solve)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Exploitability after re-solving over that of the blueprint, geometric means; and how often it rose.

    Both players, all blueprints; by CFR+. `worse`: share of results that are more exploitable than their
    blueprint by more than a thousandth [payoff]; `most`: the largest rise [payoff]. Means exclude blueprints
    whose exploitability is at most a thousandth, and replace smaller numbers by that. `safe`: methods without
    a rise, except for CFR+'s gaps and priors' mistakes (ε = 1e-3).
    """
    frame = with_way(frame)
    safe = frame[frame["gadget"] != "unsafe"]
    tables = {"By way, gadgets that are safe, all games": _worth(safe, "way")}
    tables["By way and gadget, all games: ratio; share that got worse"] = _crossed(frame, "solved")
    safe = safe.assign(where=[in_words(*spot) for spot in zip(safe["game"], safe["cut"], strict=True)])
    tables["By way and game, gadgets that are safe: ratio; share that got worse"] = _crossed(safe, "where")
    start = frame[(frame["blueprint"] == EQUILIBRIUM) & (frame["gadget"] != "unsafe")]
    if len(start):
        tables["From an equilibrium, gadgets that are safe"] = _worth(start, "way").drop(columns="ratio")
    return tables


def _worth(frame: pd.DataFrame, key: str) -> pd.DataFrame:
    """A row for each value of a column: ratio, share of worse results, largest rise."""
    rows: list[dict[str, Any]] = []
    for name, part in frame.groupby(key, sort=False):
        is_safe = any(way(*how) == name for how in SAFE)
        rows.append(
            {
                key: name,
                "safe": "yes" if is_safe else "no",
                "ratio": ratio(part),
                "worse": share_worse(part),
                "most": max(float(part["rise"].max()), 0.0),
                "results": len(part),
            }
        )
    return pd.DataFrame(rows)


def _crossed(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row for each way, a column for each value of another column."""
    rows: list[dict[str, Any]] = []
    for name, part in frame.groupby("way", sort=False):
        cells = {
            value: f"{ratio(lanes):.3g}; {100 * share_worse(lanes):.0f} %"
            for value, lanes in part.groupby(column, sort=False)
        }
        rows.append({"way": name} | cells)
    return pd.DataFrame(rows).fillna("-")


SHOWN = "resolving, blueprint"
"""The gadget of the scatter plots."""

MARKERS = {"together": "^", "damped": "s", "in-turn": "o"}
DRAWN = (
    "order 1, together",
    "order 1, damped",
    "order 1, in-turn",
    "order 1, unfrozen, together",
    COMPONENTS,
)


def draw(frame: pd.DataFrame) -> dict[str, Figure]:
    """Refined over blueprint exploitability, one panel per game; frequency and size of rises, by method."""
    frame = with_way(frame)
    groups = list(frame.groupby(["game", "cut"], sort=False))
    figure, axes = make_axes(len(groups), 2, (4.2, 3.0))
    for ax, ((game, where), rows) in zip(axes, groups, strict=True):
        rows = rows[rows["solved"] == SHOWN]
        for name in DRAWN:
            part = rows[rows["way"] == name]
            how = name.rpartition(", ")[2]
            style: dict[str, Any] = {"color": COLORS[name], "marker": MARKERS.get(how, "x"), "s": 14}
            x, y = (part[column].clip(lower=WORSE) for column in PAIR)
            ax.scatter(x, y, label=name, linewidths=1, alpha=0.85, **style)
        at_edge_note(ax, int((rows[rows["way"].isin(DRAWN)][PAIR] < WORSE).any(axis=1).sum()), WORSE)
        ends = [WORSE, float(rows[PAIR].to_numpy().max()) * 1.5]
        ax.plot(ends, ends, color=COLORS["blueprint"], linewidth=0.8, linestyle="--", label="blueprint")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(in_words(str(game), str(where)), fontsize=9)
        ax.set_xlabel("Blueprint exploitability [payoff]", fontsize=8)
        ax.set_ylabel("Refined exploitability [payoff]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(figure, axes, 3)
    return {NAME: figure, f"{NAME}_worse": _draw_worse(frame[frame["gadget"] != "unsafe"])}


def _draw_worse(frame: pd.DataFrame) -> Figure:
    """Every rise, sorted by game and way; above the line a result is worse than its blueprint."""
    names = list(dict.fromkeys(frame["way"]))
    figure, (left, right) = make_axes(2, 2, (5.2, 3.4))
    for number, name in enumerate(names):
        part = frame[frame["way"] == name]
        shares = [share_worse(lanes) for _, lanes in part.groupby(["game", "cut"], sort=False)]
        color = COLORS.get(name, "#BBBBBB")
        left.scatter(100 * np.array(shares), np.full(len(shares), number), color=color, s=16, alpha=0.7)
        left.scatter(100 * share_worse(part), number, color=color, marker="|", s=220)
        counted = part[part["blueprint_exploitability"] > WORSE]
        means = [ratio(lanes) for _, lanes in counted.groupby(["game", "cut"], sort=False)]
        right.scatter(means, np.full(len(means), number), color=color, s=16, alpha=0.7)
        right.scatter(ratio(part), number, color=color, marker="|", s=220)
    left.set_xlabel("Results worse than their blueprint [%]", fontsize=8)
    right.set_xlabel("Exploitability / blueprint's, geometric mean", fontsize=8)
    right.set_xlim(left=0)
    right.axvline(1, color=COLORS["blueprint"], linewidth=0.8, linestyle="--")
    for ax in (left, right):
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.tick_params(labelsize=7)
    return figure
