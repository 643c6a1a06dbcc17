"""Fraction of the distance from blueprint to optimal continuation closed by kinds of alternative values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, titled, tree_of
from experiments.continuation.common import LARGER, blueprints, cases, larger_cases, network
from experiments.study import Settings
from jaxgadget import (
    BlueprintPrior,
    ContinuationPrior,
    ContinuationValues,
    MaxMargin,
    NoPrior,
    OptimalContinuation,
    Policy,
    Resolving,
    Solver,
    UniformPrior,
    refine,
)
from jaxgadget.gadgets.alternative import ArrayValues
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.policy.evaluate import game_value
from jaxgadget.report.styles import at_edge_note
from jaxgadget.subgames.prepare import prepare
from jaxgadget.subgames.promises import find_promises
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.arrays import FloatArray

NAME = "closing"
ITERATIONS, SMOKE_ITERATIONS = 2000, 20
LARGER_ITERATIONS, OPTIMAL_ITERATIONS = 1000, 5000
"""Iterations in larger games: of refinements, and of optimal continuations in place of linear programs."""

COUNTS, SMOKE_COUNTS = (10, 30, 100, 300, 1000), (2, 4)
NOISE = (0.001, 0.01, 0.05)
"""Noise of exact values, in payoff ranges × N(s)."""

NEAR = 0.01
"""Blueprints whose distance is below this share of the largest have no share."""

BEHIND = 0.05
"""Tolerated loss relative to best responses, as a share of the distance."""

SOLVED = 1e-5
"""Smaller differences count as equal, given the accuracy of solves; as a share of the payoff range."""

LEAST_DRAWN = 1e-5
"""Smaller exploitabilities are drawn there."""

SOURCES = ("best response", "exact", "noise", "iterations", "network", "network, no guard")
COLORS = dict(zip(SOURCES, ("#999999", "#000000", "#CC79A7", "#0072B2", "#D55E00", "#E69F00"), strict=True))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player, blueprint and method."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    keys = [
        {"game": game, "cut": cut, "player": player}
        for (game, cut), player in itertools.product(cases(settings) + larger_cases(settings), (0, 1))
    ]
    return settings.gather(NAME, keys, measure)


def _measure(settings: Settings, game: str, cut: str, player: int) -> pd.DataFrame:
    tree, profiles = tree_of(game), blueprints(settings, game)
    value = game_value(tree, progress=False)
    how: dict[str, Any] = {"player": player, "value": value}
    larger = game in LARGER
    exactly = {"iterations": OPTIMAL_ITERATIONS} if larger else {"algorithm": "lp"}
    solver = Solver(**exactly, progress=settings.progress)
    exact = refine(tree, cut, profiles, OptimalContinuation(NoPrior()), solver=solver, **how)
    ranges = prepare(build_forest(tree, cut), player, exact.policy).ranges
    values = network(settings, game, cut)
    asked = _methods(settings, values, ranges.cbv, ranges.mass * tree.payoff_range)
    gadgets = [gadget for _, _, gadget in asked]
    count = LARGER_ITERATIONS if larger else settings.pick(ITERATIONS, SMOKE_ITERATIONS)
    solver = Solver(iterations=count, progress=settings.progress)
    refined = refine(tree, cut, profiles, gadgets, solver=solver, **how)
    promised = _promised(values, profiles, cut, player, ranges.cbv, exact.refined_exploitability, settings)
    unknown = {"delta": np.nan, "theorem2_bound": np.nan}
    lanes, unguarded = profiles.num_lanes, np.full(profiles.num_lanes, np.nan)
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
                "payoff_range": tree.payoff_range,
                **(promised if "network" in source else unknown),
                "guard_share": share,
            }
        )
        for (source, method, _), numbers, share in zip(
            [*asked, ("exact", "optimal continuation", None)],
            [*np.split(refined.refined_exploitability, len(asked)), exact.refined_exploitability],
            [*np.split(refined.guard_share, len(asked)), unguarded],
            strict=True,
        )
    ]
    assert all(len(part) == lanes for part in rows)
    return pd.concat(rows, ignore_index=True)


def _promised(
    values: Any,
    profiles: Policy,
    cut: str,
    player: int,
    exact: FloatArray,
    optimal: FloatArray,
    settings: Settings,
) -> dict[str, FloatArray]:
    """Theorem 2's Δ and bound for a network's values: `measure_promise` where V* is known."""
    asked = (ContinuationValues(values),)
    promises = find_promises(profiles.tree, cut, profiles, asked, player, "float32", settings.progress)
    difference, mass = np.abs(promises.continuations[0].values - exact), promises.ranges.mass
    relative = np.divide(difference, mass, out=np.zeros_like(difference), where=mass > 0)
    delta = relative.max(axis=0, initial=0.0)
    return {"delta": delta, "theorem2_bound": optimal + 2 * delta}


def _methods(
    settings: Settings, values: Any, exact: np.ndarray[Any, Any], unit: np.ndarray[Any, Any]
) -> list[tuple[str, str, Gadget]]:
    """The source of alternative values, its name in the table, and the gadget."""
    asked: list[tuple[str, str, Gadget]] = []
    learned = ContinuationValues(values)
    for make in (Resolving, MaxMargin):
        priors: tuple[Any, ...] = NoPrior(), UniformPrior(), BlueprintPrior(), ContinuationPrior(learned)
        for prior in priors:
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


def behind(frame: pd.DataFrame) -> pd.Series:
    """Share of the distance by which a method is worse than best responses with the same gadget and prior.

    0 where both are equal up to `SOLVED`.
    """
    keys = ["game", "cut", "player", "blueprint", "method"]
    base = frame[frame["source"] == "best response"].set_index(keys)["refined"]
    gadget = frame["method"].map(lambda method: "max-margin" if "max-margin" in method else "resolving")
    priors = ("none", "uniform", "continuation")
    prior = frame["method"].map(
        lambda method: next((name for name in priors if f"{name} prior" in method), "blueprint")
    )
    asked = frame[keys].assign(method=gadget + ", " + prior + " prior")
    before = base.reindex(pd.MultiIndex.from_frame(asked)).to_numpy()
    loss = frame["refined"] - before
    return (loss / frame["distance"]).where(loss > SOLVED * frame["payoff_range"], 0.0)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The share of the distance from blueprint to optimal continuation that is closed, by setting.

    `mean` and `least` are over blueprints and players, without those whose distance is below a hundredth of
    the largest; `all` is the mean over all of them; `whole` is the sum of improvements over the sum of
    distances. Also over all blueprints, `worse` counts those that a method makes worse by more than a
    thousandth, and `behind` those that it leaves worse than best responses with the same gadget and prior by
    more than 5 % of the distance and 1e-5 of the payoff range. The continuation's prior is the opponent's
    reach according to the network. Optimal continuations are from linear programs, in larger games from 5,000
    iterations of CFR+.

    Promises: Δ is the largest difference between a network's values and V*, divided by N(s), in per cent of
    the payoff range: its mean and maximum over blueprints. Bound: the mean of Theorem 2's bound, the optimal
    continuation's exploitability plus 2Δ, beside the mean exploitability of refined strategies. Above:
    refined strategies above that bound; beyond: those that are worse than the blueprint by more than 2Δ.
    Share: share of the blueprints for which a guard selected the estimates. Gain: its addition to the mean
    share of the distance, which is never negative.
    """
    measured = shares(frame)
    measured = measured.assign(behind=behind(measured) > BEHIND)
    tables: dict[str, pd.DataFrame] = {}
    promises: list[dict[str, Any]] = []
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
            if part["delta"].notna().all():
                promises.append({"game": titled(str(game), str(cut)), **table[-1], **_promise(part, rows)})
        tables[titled(str(game), str(cut))] = pd.DataFrame(table)
    shown = ["game", "alternative values", "method", "mean Δ [%]", "largest Δ [%]", "bound", "refined"]
    shown += ["above", "worse", "beyond", "behind", "share", "gain"]
    tables["Promises"] = pd.DataFrame(promises, columns=shown)
    return tables


def _promise(part: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Any]:
    """Numbers of a method with a network, over all blueprints and both players."""
    delta, unit = part["delta"], part["payoff_range"]
    keys = ["player", "blueprint"]
    method = part["method"].iloc[0]
    alone = rows[(rows["source"] == "network, no guard") & (rows["method"] == method)]
    alone = alone.set_index(keys)["share"].reindex(pd.MultiIndex.from_frame(part[keys])).to_numpy()
    near = SOLVED * unit
    return {
        "mean Δ [%]": 100 * (delta / unit).mean(),
        "largest Δ [%]": 100 * (delta / unit).max(),
        "bound": part["theorem2_bound"].mean(),
        "refined": part["refined"].mean(),
        "above": int((part["refined"] > part["theorem2_bound"] + near).sum()),
        "beyond": int((part["refined"] > part["blueprint_exploitability"] + 2 * delta + near).sum()),
        "share": part["guard_share"].mean(),
        "gain": (part["share"] - alone).mean(),
    }


def draw(frame: pd.DataFrame) -> Figure:
    """Refined over blueprint exploitability, resolving with the blueprint's prior, by alternative values."""
    shown = {
        "best response": "resolving, blueprint prior",
        "network, no guard": "resolving, blueprint prior",
        "network": "resolving, blueprint prior",
        "exact": "optimal continuation",
    }
    groups = list(frame.groupby(["game", "cut", "player"], sort=False))
    figure, axes = make_axes(len(groups), 2, (4.4, 3.0))
    for ax, ((game, cut, player), rows) in zip(axes, groups, strict=True):
        for source, method in shown.items():
            part = rows[(rows["source"] == source) & (rows["method"] == method)]
            label = method if source == "exact" else source
            x, y = part["blueprint_exploitability"], part["refined"].clip(lower=LEAST_DRAWN)
            size, face = (6.0, "none") if source == "network, no guard" else (3.5, COLORS[source])
            ax.plot(x, y, "o", color=COLORS[source], markersize=size, markerfacecolor=face, label=label)
        drawn = [rows[(rows["source"] == source) & (rows["method"] == how)] for source, how in shown.items()]
        at_edge_note(ax, sum(int((part["refined"] < LEAST_DRAWN).sum()) for part in drawn), LEAST_DRAWN)
        ax.plot(x, x, color="#BBBBBB", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{titled(str(game), str(cut))}, player {player}", fontsize=9)
        ax.set_xlabel("Blueprint exploitability [payoff]", fontsize=8)
        ax.set_ylabel("Refined exploitability [payoff]", fontsize=8)
        ax.tick_params(labelsize=7)
    axes[0].legend(fontsize=7, frameon=False)
    return figure
