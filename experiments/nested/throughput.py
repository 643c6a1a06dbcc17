"""Searches per second by batch size, and the network's share of the time.

A batch is a number of subgames times a number of lanes (gadgets with separate ε), all with one network.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import GOOFSPIEL, make_axes, titled
from experiments.nested.common import (
    DEPTH,
    ENTRIES,
    LIARS_DICE_5,
    SMALL,
    TRAINED,
    blueprint,
    enumerated,
    portfolio,
)
from experiments.study import Settings
from jaxgadget import BlueprintPrior, Resolving
from jaxgadget.core.solver import Solver
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.learn.training import train_value
from jaxgadget.subgames.leaves import HistoryLeaf
from jaxgadget.subgames.nested_run import NestedRun
from jaxgadget.subgames.schedule import make_schedule

NAME = "throughput"
LEVEL = {GOOFSPIEL: 2, LIARS_DICE_5: 1, "kuhn_poker": 0}
"""Index of the player's decision at which searches start."""

LANES = (1, 8, 64)
ITERATIONS = 300
"""A tenth of the other experiments', which overstates fixed costs such as the network's."""

COLORS = ("#0072B2", "#D55E00", "#009E73")
REPETITIONS = 3
"""The median counts. A search includes values, lookahead, ranges, solve and certificate."""

STEPS = 1
"""Training steps: the time does not depend on the weights."""

TRAINING = TrainingConfig(steps=STEPS, width=256, depth=2)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, number of subgames and number of lanes."""
    effort = settings.pick(
        {"entries": ENTRIES, "iterations": ITERATIONS, "lane_counts": LANES},
        {"entries": 3, "iterations": 10, "lane_counts": (1, 2)},
    )
    keys = [
        {"game": game, "blueprint": TRAINED, "depth": DEPTH, "level": LEVEL[game], **effort}
        for game in settings.pick((GOOFSPIEL, LIARS_DICE_5), SMALL)
    ]
    return settings.gather(NAME, keys, functools.partial(measure, settings))


def measure(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Times batches of growing size, each after one of the same shape has been compiled."""
    game, spec, level = key["game"], key["blueprint"], key["level"]
    tree = enumerated(game)
    folder = settings.work / f"untrained-{titled(game)}-{key['entries']}".replace(" ", "-")
    entries = portfolio(game, spec, key["entries"])
    training = train_value(tree, entries, config=TRAINING, folder=folder, progress=False)
    values = training.values
    levels, rows = make_schedule(tree, 0, key["depth"]).levels, list[dict[str, Any]]()
    for lanes in key["lane_counts"]:
        gadgets = [Resolving(BlueprintPrior(), epsilon) for epsilon in np.geomspace(1e-3, 1e-1, lanes)]
        options = Solver(algorithm="cfr+", iterations=key["iterations"])
        schedule = make_schedule(tree, 0, key["depth"])
        profile = blueprint(game, spec)
        run = NestedRun(schedule, HistoryLeaf(values), profile, gadgets, solver=options)
        above = None
        for number in range(level):
            above = run.search(number, levels[number].cut(tree), above, lambda done: None)
        count = levels[level].num_subgames
        for subgames in sorted({1, *(4**k for k in range(10) if 4**k < count), count}):
            where = levels[level].cut(tree, np.arange(subgames))
            run.search(level, where, above, lambda done: None)
            times: list[tuple[float, float]] = []
            for _ in range(REPETITIONS):
                before, begin = run.value_seconds, time.perf_counter()
                run.search(level, where, above, lambda done: None)
                times.append((time.perf_counter() - begin, run.value_seconds - before))
            seconds, network = sorted(times)[REPETITIONS // 2]
            rows.append(
                {
                    "game": game,
                    "subgames": subgames,
                    "lanes": lanes,
                    "searches": subgames * lanes,
                    "seconds": seconds,
                    "network_seconds": network,
                }
            )
    return pd.DataFrame(rows)


def draw(frame: pd.DataFrame) -> Figure:
    """Searches per second by batch size; one panel per game, one line per number of lanes."""
    groups = list(frame.groupby("game", sort=False))
    figure, axes = make_axes(len(groups), 2, (4.4, 3.4))
    for ax, (game, part) in zip(axes, groups, strict=True):
        for color, (lanes, line) in zip(COLORS, part.groupby("lanes"), strict=False):
            rate = line["searches"] / line["seconds"]
            ax.loglog(
                line["searches"], rate, marker="o", color=color, label=f"{lanes} lane{'s' * (lanes != 1)}"
            )
        ax.set(title=titled(str(game)), xlabel="searches at once", ylabel="searches a second")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Searches per second and the network's share, with the fewest and most subgames for every lane count."""
    rate = frame["searches"] / frame["seconds"]
    share = frame["network_seconds"] / frame["seconds"]
    frame = frame.assign(
        game=frame["game"].map(titled), **{"searches / s": rate, "in the network": share.map("{:.1%}".format)}
    )
    ends = frame.groupby(["game", "lanes"], sort=False)["subgames"].transform
    kept = frame[(frame["subgames"] == ends("min")) | (frame["subgames"] == ends("max"))]
    return kept[["game", "lanes", "subgames", "searches", "seconds", "searches / s", "in the network"]]
