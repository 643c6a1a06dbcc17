"""A trained value network at the limit in place of exact values: its errors and their effect.

Errors are over the training histories, over held-out ones if any, and over the leaves and pairs of entries
that search visits. Search also queries held-out histories, so networks are trained on all of them; some are
trained again without a few, to measure the difference.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import GOOFSPIEL, make_axes, one_legend, titled
from experiments.nested.common import (
    DEPTH,
    ENTRIES,
    EPSILON,
    GAMES,
    ITERATIONS,
    LIARS_DICE_5,
    SMALL,
    TRAINED,
    blueprint,
    enumerated,
    gadgets,
    portfolio,
    value,
)
from experiments.study import Settings
from jaxgadget.core.solver import Solver
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.learn.training import Training, train_value, visited_rmse
from jaxgadget.report import exploitability_scatter
from jaxgadget.subgames.nested import Nested, nested_search
from jaxgadget.subgames.schedule import Lookahead
from jaxgadget.values.histories import ExactValues, ValueFunction

NAME = "network"
STEPS, MORE_STEPS = 10_000, {GOOFSPIEL: 20_000, LIARS_DICE_5: 20_000}
"""Training steps; as many as fit in ten minutes for games with visible errors after 10,000."""

BLUEPRINTS = (TRAINED, "dirichlet:0", "cfr:100")
"""A network is specific to one blueprint's portfolio."""

HELD_OUT = 0.02
"""Share of histories that are held out from a second network for `TRAINED`."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, gadget and prior, with the errors of the network."""
    pairs = [(game, spec) for spec in BLUEPRINTS for game in GAMES]
    keys = [
        {"game": game, "blueprint": spec, "depth": DEPTH}
        | {"shares": [0.0, HELD_OUT] if spec == TRAINED else [0.0]}
        | settings.pick(
            {"entries": ENTRIES, "iterations": ITERATIONS, "steps": MORE_STEPS.get(game, STEPS)},
            {"entries": 3, "iterations": 10, "steps": 20},
        )
        for game, spec in settings.pick(pairs, [(SMALL[0], TRAINED)])
    ]
    return settings.gather(NAME, keys, functools.partial(measure, settings))


def measure(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Trains networks for one game's portfolio, and searches with them and with exact values."""
    game, spec = key["game"], key["blueprint"]
    tree, entries = enumerated(game), portfolio(game, spec, key["entries"])
    exact = ExactValues(entries)
    plain = search(key, exact)
    tables: list[pd.DataFrame] = []
    for share in key["shares"]:
        name = f"values-{titled(game)}-{spec}-{key['entries']}-{key['steps']}-{share}".replace(" ", "-")
        training = train_value(
            tree,
            entries,
            config=TrainingConfig(steps=key["steps"], heldout=share),
            folder=settings.work / name,
            progress=False,
        )
        learned = search(key, training.values)
        visits = [result.visits[0] for result in learned]
        histories, weights = (np.concatenate(parts) for parts in zip(*visits, strict=True))
        visited = visited_rmse(training.values, exact, tree, histories, weights)
        tables.append(tabulate(key, plain, learned, training).assign(heldout=share, visited_rmse=visited))
    return pd.concat(tables, ignore_index=True)


def search(key: dict[str, Any], values: ValueFunction) -> list[Nested]:
    """Nested search of both players."""
    return [
        nested_search(
            enumerated(key["game"]),
            blueprint(key["game"], key["blueprint"]),
            gadgets(),
            Lookahead(values, depth=key["depth"]),
            player=player,
            solver=Solver(iterations=key["iterations"], progress=False),
            value=value(key["game"]),
        )
        for player in (0, 1)
    ]


def tabulate(
    key: dict[str, Any], plain: list[Nested], learned: list[Nested], training: Training
) -> pd.DataFrame:
    """A row for every player, gadget and prior: with exact values, and with the network."""
    table, other = (
        pd.concat([part.table for part in parts], ignore_index=True) for parts in (plain, learned)
    )
    return pd.DataFrame(
        {
            "game": key["game"],
            "blueprint": key["blueprint"],
            "player": table["player"],
            "gadget": table["gadget"],
            "prior": table["prior"],
            "blueprint_exploitability": table["blueprint_exploitability"],
            "exact": table["nested_exploitability"],
            "network": other["nested_exploitability"],
            "steps": key["steps"],
            "train_seconds": training.seconds,
            "payoff_range": training.payoff_range,
            "train_rmse": training.train_rmse,
            "heldout_rmse": training.heldout_rmse,
            "network_seconds": sum(result.value_seconds for result in learned),
            "search_seconds": sum(float(result.seconds.sum()) for result in learned),
            "searches": sum(int(result.searches.sum()) for result in learned),
        }
    )


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability with the network against that with exact values; one panel per game and blueprint."""
    names = {"exact": "blueprint_exploitability", "network": "refined_exploitability"}
    frame = frame[frame["heldout"] == 0].drop(columns="blueprint_exploitability")
    renamed = frame.rename(columns=names).assign(epsilon=EPSILON)
    groups = list(renamed.groupby(["game", "blueprint"], sort=False))
    figure, axes = make_axes(len(groups), min(len(groups), len(GAMES)), (4.0, 3.6))
    for ax, ((game, spec), part) in zip(axes, groups, strict=True):
        exploitability_scatter(part, ax=ax, title=f"{titled(str(game))} after {spec}")
        ax.set(xlabel="exploitability with exact values", ylabel="exploitability with the network")
    one_legend(figure, axes, 4)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors as shares of the payoff range; exploitability with the network over that with exact values."""
    rows: list[dict[str, Any]] = []
    for (game, spec, share), part in frame.groupby(["game", "blueprint", "heldout"], sort=False):
        first, ratio = part.iloc[0], part["network"] / part["exact"]
        rows.append(
            {
                "game": titled(str(game)),
                "blueprint": spec,
                "share held out": share,
                "training s": first["train_seconds"],
                **{
                    name: share_of(first[f"{name}_rmse"], first["payoff_range"])
                    for name in ("train", "heldout", "visited")
                },
                "ratio, median": float(ratio.median()),
                "ratio, largest": float(ratio.max()),
                "at most 1.1": f"{(ratio <= 1.1).sum()} of {len(ratio)}",
                "searches / s": first["searches"] / first["search_seconds"],
                "time in the network": f"{first['network_seconds'] / first['search_seconds']:.1%}",
            }
        )
    return pd.DataFrame(rows)


def share_of(error: float, payoff_range: float) -> str:
    """An error in payoff ranges, if known."""
    return "–" if math.isnan(error) else f"{error / payoff_range:.2%}"
