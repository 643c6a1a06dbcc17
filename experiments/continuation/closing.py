"""How much of the way from blueprint to optimal continuation each kind of alternative values closes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, titled
from experiments.continuation.common import blueprints, cases, network, tree_of
from experiments.study import Settings
from jaxgadget import (
    BlueprintPrior,
    ContinuationPrior,
    ContinuationValues,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    Resolving,
    UniformPrior,
    refine,
)
from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.policy.evaluate import game_value
from jaxgadget.refining.prepare import prepare
from jaxgadget.tree.forest import build_forest

NAME = "closing"
ITERATIONS, SMOKE_ITERATIONS = 5000, 20
COUNTS, SMOKE_COUNTS = (10, 30, 100, 300, 1000), (2, 4)
NOISE = (0.001, 0.01, 0.05)
"""Of exact values, in payoff ranges × N(s)."""

NEAR = 0.01
"""Blueprints that are nearer to their continuation than this share of the farthest have no share."""

COLUMNS = ("game", "cut", "player", "blueprint", "source", "method", "blueprint_exploitability", "refined")
SOURCES = ("best response", "exact", "noise", "iterations", "network", "network, no guard")
COLORS = dict(zip(SOURCES, ("#999999", "#000000", "#CC79A7", "#0072B2", "#D55E00", "#E69F00"), strict=True))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player, blueprint and method."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    keys = [
        {"game": game, "cut": cut, "player": player}
        for (game, cut), player in itertools.product(cases(settings), (0, 1))
    ]
    return settings.gather(NAME, keys, measure)


def _measure(settings: Settings, game: str, cut: str, player: int) -> pd.DataFrame:
    tree, profiles = tree_of(game), blueprints(settings, game)
    value = game_value(tree, progress=False)
    how: dict[str, Any] = {"player": player, "value": value, "progress": settings.progress}
    exact = refine(tree, cut, profiles, OptimalContinuation(NoPrior()), algorithm="lp", **how)
    ranges = prepare(build_forest(tree, cut), player, exact.policy).ranges
    asked = _methods(settings, network(settings, game, cut), ranges.cbv, ranges.mass * tree.payoff_range)
    gadgets = [gadget for _, _, gadget in asked]
    count = settings.pick(ITERATIONS, SMOKE_ITERATIONS)
    refined = refine(tree, cut, profiles, gadgets, iterations=count, **how)
    lanes = profiles.num_lanes
    rows = [
        pd.DataFrame(
            {
                "game": game,
                "cut": cut,
                "player": player,
                "blueprint": profiles.labels,
                "source": source,
                "method": method,
                "blueprint_exploitability": exact.blueprint_exploitability,
                "refined": numbers,
            }
        )
        for (source, method, _), numbers in zip(
            [*asked, ("exact", "optimal continuation", None)],
            np.split(np.append(refined.refined_exploitability, exact.refined_exploitability), len(asked) + 1),
            strict=True,
        )
    ]
    assert all(len(part) == lanes for part in rows)
    return pd.concat(rows, ignore_index=True)


def _methods(
    settings: Settings, values: Any, exact: np.ndarray[Any, Any], unit: np.ndarray[Any, Any]
) -> list[tuple[str, str, Gadget]]:
    """Where alternative values come from, what stands in the table, and the gadget."""
    asked: list[tuple[str, str, Gadget]] = []
    for make in (Resolving, MaxMargin):
        for prior in (NoPrior(), UniformPrior(), BlueprintPrior()):
            asked.append(("best response", f"{make.name}, {prior.name} prior", make(prior)))
    for make, prior in itertools.product((Resolving, MaxMargin), (NoPrior(), BlueprintPrior())):
        promise = ArrayValues(exact, "exact")
        asked.append(("exact", f"{make.name}, {prior.name} prior", make(prior, alternative=promise)))
    generator = np.random.default_rng(0)
    for noise, prior in itertools.product(NOISE, (NoPrior(), BlueprintPrior())):
        noisy = ArrayValues(exact + noise * unit * generator.normal(size=exact.shape), f"noise {noise:.1%}")
        asked.append(
            ("noise", f"{noise:.1%}, resolving, {prior.name} prior", Resolving(prior, alternative=noisy))
        )
    for steps in settings.pick(COUNTS, SMOKE_COUNTS):
        promise = ContinuationValues(steps)
        asked.append(("iterations", f"{steps}, resolving, blueprint prior", Resolving(alternative=promise)))
    for guard, source in ((True, "network"), (False, "network, no guard")):
        promise = ContinuationValues(values, guard=guard)
        several: list[Any] = [NoPrior(), BlueprintPrior(), ContinuationPrior(promise)]
        for prior in several:
            asked.append((source, f"resolving, {prior.name} prior", Resolving(prior, alternative=promise)))
        asked.append((source, "max-margin, blueprint prior", MaxMargin(alternative=promise)))
    return asked


def shares(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with `distance` from the optimal continuation, and the `share` of it that a method closes.

    NaN where a blueprint is nearer than `NEAR` of the farthest of its game, cut and player.
    """
    keys = ["game", "cut", "player", "blueprint"]
    best = frame[frame["method"] == "optimal continuation"].set_index(keys)["refined"]
    floor = best.reindex(pd.MultiIndex.from_frame(frame[keys])).to_numpy()
    frame = frame.assign(distance=frame["blueprint_exploitability"] - floor)
    farthest = frame.groupby(keys[:3])["distance"].transform("max")
    share = (frame["blueprint_exploitability"] - frame["refined"]) / frame["distance"]
    return frame.assign(share=share.where(frame["distance"] >= NEAR * farthest))


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The share of the way from blueprint to optimal continuation that is closed, by setting.

    `mean` and `least` are over blueprints and players, without those that are nearer than a hundredth of
    the farthest; `all` is the mean with these; `whole` is the sum of what was gained over the sum of
    distances, of all; `worse`: blueprints that a method makes worse by more than a thousandth; `behind`: that
    it leaves more than 5 % of the way behind resolving with best responses and the blueprint's prior.
    """
    measured = shares(frame)
    base = measured[
        (measured["source"] == "best response") & (measured["method"] == "resolving, blueprint prior")
    ]
    keys = ["game", "cut", "player", "blueprint"]
    before = base.set_index(keys)["share"].reindex(pd.MultiIndex.from_frame(measured[keys])).to_numpy()
    measured = measured.assign(behind=before - measured["share"] > 0.05)
    tables: dict[str, pd.DataFrame] = {}
    for (game, cut), rows in measured.groupby(["game", "cut"], sort=False):
        table: list[dict[str, Any]] = []
        for (source, method), part in rows.groupby(["source", "method"], sort=False):
            gained = part["blueprint_exploitability"] - part["refined"]
            worse = part["refined"] > 1.001 * part["blueprint_exploitability"]
            table.append(
                {
                    "alternative values": source,
                    "method": method,
                    "mean": part["share"].mean(),
                    "least": part["share"].min(),
                    "all": (gained / part["distance"]).mean(),
                    "whole": gained.sum() / part["distance"].sum(),
                    "worse": int(worse.sum()),
                    "behind": int(part["behind"].sum()),
                    "blueprints": int(part["share"].notna().sum()),
                }
            )
        tables[titled(str(game), str(cut))] = pd.DataFrame(table)
    return tables


def draw(frame: pd.DataFrame) -> Figure:
    """Refined over blueprint exploitability, resolving with the blueprint's prior, by alternative values."""
    shown = {
        "best response": "resolving, blueprint prior",
        "network": "resolving, blueprint prior",
        "network, no guard": "resolving, blueprint prior",
        "exact": "optimal continuation",
    }
    groups = list(frame.groupby(["game", "cut", "player"], sort=False))
    figure, axes = make_axes(len(groups), 2, (4.4, 3.0))
    for ax, ((game, cut, player), rows) in zip(axes, groups, strict=True):
        for source, method in shown.items():
            part = rows[(rows["source"] == source) & (rows["method"] == method)]
            label = method if source == "exact" else source
            x, y = part["blueprint_exploitability"], part["refined"].clip(lower=1e-5)
            ax.plot(x, y, "o", color=COLORS[source], markersize=3.5, label=label)
        ax.plot(x, x, color="#BBBBBB", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{titled(str(game), str(cut))}, player {player}", fontsize=9)
        ax.set_xlabel("Blueprint exploitability [payoff]", fontsize=8)
        ax.set_ylabel("Refined exploitability [payoff]", fontsize=8)
        ax.tick_params(labelsize=7)
    axes[0].legend(fontsize=7, frameon=False)
    return figure
