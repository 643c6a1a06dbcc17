"""Figures 5 and 13: gain and exploitability of all methods in Leduc poker, searched round by round."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend, tree_of, value_of
from experiments.opponents.common import COLORS, GADGETS, LEDUC, models_of, name_axes
from experiments.study import Settings
from jaxgadget import (
    HistoryTree,
    MaxMargin,
    Opponent,
    Policy,
    RangePrior,
    best_nash,
    cut,
    evaluate_policy,
    exploitability,
    mix,
    refine,
    respond,
    solve,
)
from jaxgadget.core.solver import Solver
from jaxgadget.opponents.opponent import list_opponents
from jaxgadget.subgames.leaves import OptimalValues
from jaxgadget.subgames.nested_run import NestedRun
from jaxgadget.subgames.schedule import Schedule, SearchLevel
from jaxgadget.tree.cut import Cut
from jaxgadget.util.arrays import FloatArray, IntArray

NAME = "tradeoff"
MODELS = tuple(f"cfr:{count}" for count in (1, 2, 3, 5, 8, 13, 21, 34))
SMOKE_MODELS = ("cfr:2",)
EVERY_P = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SMOKE_EVERY_P = (0.1, 0.5, 1.0)
PLAYER = 0
ITERATIONS, SMOKE_ITERATIONS = 500, 20
"""Iterations of CFR+, in place of linear programs, in searches with approximate values."""

ITERATED = "joint, 500 iterations"
"""The searches with these."""


@dataclasses.dataclass(frozen=True, eq=False)
class RoundSchedule(Schedule):
    """Searches at the game's root, down to the second round, and then in every subgame of that round."""

    def leaves(self, where: Cut) -> IntArray:
        """The second round's roots below the game's root; none below these."""
        return self.levels[1].roots if where.root[0] >= 0 else np.zeros(0, np.int64)


def round_schedule(tree: HistoryTree, player: int) -> RoundSchedule:
    """The schedule of a game with a cut `flop`."""
    second = cut(tree, "flop")
    first = SearchLevel(np.zeros(1, np.int64), np.zeros(1, np.int64), "root")
    levels = (first, SearchLevel(second.roots, second.subgame, "flop"))
    return RoundSchedule(tree, player, "moves", 1, 1, levels)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every model, method and p."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, key["model"]).assign(**key)

    models = settings.pick(MODELS, SMOKE_MODELS)
    return settings.gather(NAME, [{"model": model} for model in models], measure)


def _measure(settings: Settings, name: str) -> pd.DataFrame:
    tree, value, every_p = tree_of(LEDUC), value_of(LEDUC), settings.pick(EVERY_P, SMOKE_EVERY_P)
    model, equilibrium = models_of(LEDUC, [name]), solve(tree, algorithm="lp").policy
    found: dict[str, tuple[Policy, FloatArray]] = {}
    numbers, opponent = np.array(every_p), Opponent(model, every_p)
    whole = respond(tree, opponent, player=PLAYER, solver=Solver(algorithm="lp", progress=False), value=value)
    found["RNR"] = whole.policy, numbers
    best = best_nash(tree, model, player=PLAYER, value=value, solver=Solver(progress=False))
    found["best Nash"] = best.policy, np.zeros(1)
    exact = Solver(algorithm="lp", progress=False)
    for method, gadget in GADGETS.items():
        found[method] = _search(tree, [gadget], opponent, exact), numbers
    count = settings.pick(ITERATIONS, SMOKE_ITERATIONS)
    iterated = Solver(algorithm="cfr+", iterations=count, dtype="float64")
    found[ITERATED] = _search(tree, [GADGETS["joint"]], opponent, iterated), numbers
    locked = found["joint"][0].lane(len(every_p) - 1)  # p = 1, a best response
    found["CDBR-NE"] = mix(equilibrium, locked, [1 - p for p in every_p], how="plans"), numbers
    alphas = [p for p in every_p if 0 < p < 1]
    gadgets = [MaxMargin(RangePrior(model), alpha) for alpha in alphas]
    how: dict[str, Any] = {"player": PLAYER, "value": value}
    found["SES"] = refine(tree, "flop", equilibrium, gadgets, solver=exact, **how).policy, np.array(alphas)
    most = float(whole.best_response_gain[0])
    tables = [
        _worth(policy, model, value).assign(method=method, p=p) for method, (policy, p) in found.items()
    ]
    return pd.concat(tables, ignore_index=True).assign(best_response_gain=most)


def _search(tree: HistoryTree, gadgets: list[Any], opponent: Opponent, options: Solver) -> Policy:
    """Results of searches by rounds, one lane per opponent."""
    opponents, schedule = list_opponents(opponent, tree), round_schedule(tree, PLAYER)
    profiles = Policy.uniform(tree)
    run = NestedRun(schedule, OptimalValues(), profiles, gadgets, opponents, solver=options)
    run.run(lambda done: None)
    if run.failures:
        raise RuntimeError(f"searches of {tree.game.name} failed: {run.failures}")
    return run.assembled


def _worth(policy: Policy, model: Policy, value: tuple[float, float]) -> pd.DataFrame:
    """Gain against a model, and exploitability, one row per lane."""
    theirs = np.repeat(model.probabilities[1], policy.num_lanes, axis=1)
    earned = evaluate_policy(Policy(policy.tree, (policy.probabilities[0], theirs), policy.labels)).value
    lost = exploitability(policy, PLAYER, value=value)
    return pd.DataFrame({"gain": earned - sum(value) / 2, "exploitability": lost})


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain in per cent of the best response's, and exploitability in payoffs, the mean over models, by p.

    p is the probability that the model is followed; for `SES` it is α, and for `CDBR-NE` the weight of the
    response. Searches proceed round by round, by linear programs; `joint, 500 iterations` by that number of
    iterations of CFR+. The second table has exploitability over gain for p = 1/2, by model, and the gain of
    best Nash.
    """
    frame = frame.assign(share=100 * frame["gain"] / frame["best_response_gain"])
    means = frame.groupby(["method", "p"], sort=False)[["share", "exploitability"]].mean().reset_index()
    rows: list[dict[str, Any]] = []
    for method, part in means.groupby("method", sort=False):
        cells = {
            f"p = {row['p']:g}": f"{row['share']:.1f} / {max(row['exploitability'], 0):.4f}"
            for _, row in part.iterrows()
        }
        rows.append({"method": method} | cells)
    tables = {"Gain [%] / exploitability": pd.DataFrame(rows).fillna("-")}
    half = frame[(frame["p"] == 0.5)].assign(ratio=lambda rows: rows["exploitability"] / rows["gain"])
    ratios = half.pivot(index="model", columns="method", values="ratio")
    best = frame[frame["method"] == "best Nash"].set_index("model")
    models = list(dict.fromkeys(frame["model"]))
    ratios = ratios.loc[models, [name for name in dict.fromkeys(frame["method"]) if name in ratios]]
    ratios.insert(0, "best response", best["best_response_gain"])
    ratios.insert(1, "best Nash", best["gain"])
    tables["Exploitability / gain at p = 1/2; gains of best responses and best Nash"] = ratios.reset_index()
    return tables


def draw(frame: pd.DataFrame) -> Figure:
    """Gain over exploitability, one panel per model and one curve over p per method."""
    models = list(dict.fromkeys(frame["model"]))
    figure, axes = make_axes(len(models), 4, (3.4, 2.8))
    for ax, model in zip(axes, models, strict=True):
        for method, part in frame[(frame["model"] == model) & (frame["p"] < 1)].groupby("method", sort=False):
            lost, marker = part["exploitability"].clip(lower=0), "s" if method == "best Nash" else "o"
            style: dict[str, Any] = {"color": COLORS[str(method)], "marker": marker, "markersize": 3}
            if method == ITERATED:  # nearly equal to the curve without iterations: a halo around it
                style |= {"markersize": 6, "zorder": 1}
            ax.plot(lost, part["gain"], linewidth=1, label=method, **style)
        most = frame.loc[frame["model"] == model, "best_response_gain"].iloc[0]
        ax.axhline(most, color="#BBBBBB", linewidth=0.8, linestyle="--")
        name_axes(ax, f"Leduc against {model}", linear_to=1e-2)
    one_legend(figure, axes, 4)
    return figure
