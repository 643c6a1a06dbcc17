"""NashConv against processor seconds: networks by three methods, beside tables by mirror descent and CFR+."""

from __future__ import annotations

import functools
import shutil
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import LIARS_DICE, make_axes, one_legend, titled, tree_of
from experiments.policy_networks.common import (
    GOOFSPIEL_4,
    KUHN,
    LEDUC,
    PACE,
    SMALL,
    SMALL_STEPS,
    folder_of,
    train,
)
from experiments.study import Settings
from jaxgadget import Policy, nash_conv, solve
from jaxgadget.learn.decisions import Decisions
from jaxgadget.learn.mirror_descent import ActionValues, next_policy
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision

NAME = "training"

GAMES = KUHN, LEDUC, LIARS_DICE, GOOFSPIEL_4

NETWORKS = {
    "MMD": {KUHN: 6_000_000, LEDUC: 900_000, LIARS_DICE: 850_000, GOOFSPIEL_4: 2_700_000},
    "PPO": {KUHN: 1_000_000, LEDUC: 800_000, LIARS_DICE: 650_000, GOOFSPIEL_4: 1_000_000},
    "R-NaD": {KUHN: 240_000, LEDUC: 130_000, LIARS_DICE: 150_000, GOOFSPIEL_4: 200_000},
}
"""Training steps: at most ten minutes of one core, for R-NaD about three."""

TABLES = {"table, MMD": 10_000, "table, CFR+": 10_000}
"""Largest numbers of iterations; smaller ones are its tenth, hundredth and so on."""

COLORS = {
    "MMD": "#0072B2",
    "PPO": "#D55E00",
    "R-NaD": "#CC79A7",
    "table, MMD": "#56B4E9",
    "table, CFR+": "#009E73",
}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every point of every curve."""
    totals = {name: dict.fromkeys(GAMES, iterations) for name, iterations in TABLES.items()} | NETWORKS
    keys = [
        {"game": game, "method": method, "total": steps}
        for method, by_game in totals.items()
        for game, steps in settings.pick(by_game, {SMALL: SMALL_STEPS}).items()
    ]
    return settings.gather(NAME, keys, functools.partial(measure, settings))


def measure(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """One curve."""
    if key["method"] in TABLES:
        return measure_table(key)
    folder = folder_of(settings, key["method"], key["game"], key["total"])
    shutil.rmtree(folder, ignore_errors=True)  # of an interrupted training, whose time is not known
    began = time.process_time()
    log = train(settings, key["game"], key["method"], key["total"]).log
    share = log["step"] / key["total"]
    columns = {"step": log["step"], "processor_seconds": share * (time.process_time() - began)}
    return pd.DataFrame(key | columns | {"nash_conv": log["nash_conv"]})


def measure_table(key: dict[str, Any]) -> pd.DataFrame:
    """The curve of an iteration over a table; programs are compiled beforehand."""
    iterate = mirror_descent if key["method"] == "table, MMD" else cfr_plus
    run = functools.partial(iterate, key["game"])
    run(1)
    rows: list[dict[str, Any]] = []
    steps = [key["total"] // 10**power for power in range(5) if key["total"] // 10**power]
    for step in reversed(steps):
        began = time.process_time()
        policy = run(step)
        seconds = time.process_time() - began
        rows.append(key | {"step": step, "processor_seconds": seconds, "nash_conv": nash_conv(policy)[0]})
    return pd.DataFrame(rows)


def cfr_plus(game: str, iterations: int) -> Policy:
    """The average policy of CFR+."""
    return solve(tree_of(game), iterations=iterations).policy


def mirror_descent(game: str, iterations: int) -> Policy:
    """The last policy of magnetic mirror descent over a table, from the uniform policy on, in float32."""
    decisions = decisions_of(game)
    legal, (eta, alpha) = jnp.asarray(decisions.legal), PACE[game]
    with precision(np.float32):
        logarithms = descend(
            values_of(game), legal, jnp.float32(eta), jnp.float32(alpha), jnp.int32(iterations)
        )
    return decisions.policy(np.exp(np.asarray(logarithms, np.float64)), "mmd")


@functools.cache
def decisions_of(game: str) -> Decisions:
    """All decisions of a game."""
    return Decisions.of(tree_of(game))


@functools.cache
def values_of(game: str) -> ActionValues:
    """The values of actions of a game."""
    with precision(np.float32):
        return ActionValues.of(decisions_of(game))


@compiled()
def descend(
    values: ActionValues, legal: jax.Array, eta: jax.Array, alpha: jax.Array, iterations: jax.Array
) -> jax.Array:
    """`[I, A]` logarithms of the policy after some iterations."""

    def improve(t: jax.Array, log_policy: jax.Array) -> jax.Array:
        root = jnp.sqrt((t + 1).astype(jnp.float32))
        return next_policy(log_policy, values(jnp.exp(log_policy)), legal, eta / root, alpha / root)

    zeros = jnp.zeros(legal.shape, jnp.float32)
    uniform = next_policy(zeros, zeros, legal, eta, alpha)
    return jax.lax.fori_loop(0, iterations, improve, uniform)


def draw(frame: pd.DataFrame) -> Figure:
    """NashConv against processor seconds; one panel per game."""
    groups = list(frame.groupby("game", sort=False))
    figure, axes = make_axes(len(groups), 2, (4.6, 3.4))
    for ax, (game, rows) in zip(axes, groups, strict=True):
        for method, curve in rows.groupby("method", sort=False):
            dashed, name = "--" if method in TABLES else "-", named(str(method))
            seconds = curve["processor_seconds"]
            ax.plot(seconds, curve["nash_conv"], dashed, color=COLORS[str(method)], label=name)
        ax.set(xscale="log", yscale="log", title=titled(str(game)))
        ax.set(xlabel="processor seconds", ylabel="NashConv")
        ax.legend()
    one_legend(figure, axes, 3)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """The lowest NashConv of each method's curve with the processor seconds until then; then the last one.

    Seconds of networks include compilation and checkpoints; tables' programs were compiled beforehand. The
    last column has the seconds of the first number of iterations of CFR+ (powers of ten) whose NashConv is
    below the lowest of all networks.
    """
    rows: list[dict[str, Any]] = []
    for game, part in frame.groupby("game", sort=False):
        lowest = part.loc[part.groupby("method", sort=False)["nash_conv"].idxmin()].set_index("method")
        last = part.groupby("method", sort=False).last()
        table = part[part["method"] == "table, CFR+"]
        best = lowest.loc[[method for method in last.index if method not in TABLES], "nash_conv"].min()
        overtaken = table.loc[table["nash_conv"] <= best, "processor_seconds"]
        results = {
            named(str(method)): "; ".join(
                dict.fromkeys(
                    f"{row['nash_conv']:.2g} ({row['processor_seconds']:.3g} s)"
                    for row in (lowest.loc[method], last.loc[method])
                )
            )
            for method in last.index
        }
        seconds = overtaken.iloc[0] if len(overtaken) else np.nan
        rows.append({"game": titled(str(game)), **results, "CFR+ as good as networks after s": seconds})
    return pd.DataFrame(rows)


def named(method: str) -> str:
    """A method's name in pictures and tables."""
    return method if method in TABLES else f"network, {method}"
