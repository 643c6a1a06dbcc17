"""A trained value network at the limit instead of exact values: its errors, and what they cost.

Errors are over histories held out of training, and over the leaves and pairs of entries that search visits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.nested.common import (
    DEPTH,
    ENTRIES,
    EPSILON,
    GAMES,
    ITERATIONS,
    SMALL,
    TRAINED,
    blueprint,
    enumerated,
    gadgets,
    piece,
    portfolio,
    value,
)
from experiments.refinements.common import GOOFSPIEL, Settings, make_axes, one_legend, titled
from jaxgadget.report import exploitability_scatter
from jaxgadget.search.nested import nested_search
from jaxgadget.search.training import train_value, visited_rmse
from jaxgadget.search.value import ExactValues

NAME = "network"
STEPS, MORE_STEPS = 10_000, {GOOFSPIEL: 20_000}
"""Of training; as many as ten minutes allow where 10,000 leave visible errors."""

PAIRS = [(game, TRAINED) for game in GAMES] + [("leduc_poker", spec) for spec in ("dirichlet:0", "cfr:100")]
"""Games and blueprints; a network knows one blueprint's portfolio."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, gadget and prior, with the errors of the network."""
    found: list[pd.DataFrame] = []
    for game, spec in [(SMALL[0], TRAINED)] if settings.smoke else PAIRS:
        key = {"experiment": NAME, "game": game, "blueprint": spec, "depth": DEPTH}
        key |= (
            {"entries": 3, "iterations": 10, "steps": 20}
            if settings.smoke
            else {"entries": ENTRIES, "iterations": ITERATIONS, "steps": MORE_STEPS.get(game, STEPS)}
        )
        found.append(piece(settings, key, lambda key=key: measure(settings, key)))
    return pd.concat(found, ignore_index=True)


def measure(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Trains a network for one game's portfolio and searches with it and with exact values."""
    game, spec = key["game"], key["blueprint"]
    tree, entries = enumerated(game), portfolio(game, spec, key["entries"])
    folder = settings.work / f"values-{titled(game)}-{spec}-{key['entries']}-{key['steps']}".replace(" ", "-")
    training = train_value(tree, entries, folder=folder, steps=key["steps"], show_progress=False)
    exact, found = ExactValues(entries), dict[str, list[Any]]()
    for name, values in (("exact", exact), ("network", training.values)):
        for player in (0, 1):
            result = nested_search(
                tree,
                blueprint(game, spec),
                gadgets(),
                values=values,
                player=player,
                depth=key["depth"],
                iterations=key["iterations"],
                value=value(game),
                progress=False,
            )
            found.setdefault(name, []).append(result)
    visits = [result.visits[0] for result in found["network"]]
    histories, weights = (np.concatenate(parts) for parts in zip(*visits, strict=True))
    table, other = (
        pd.concat([result.table for result in found[name]], ignore_index=True)
        for name in ("exact", "network")
    )
    return pd.DataFrame(
        {
            "game": game,
            "blueprint": spec,
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
            "visited_rmse": visited_rmse(training.values, exact, tree, histories, weights),
            "network_seconds": sum(result.value_seconds for result in found["network"]),
            "search_seconds": sum(float(result.seconds.sum()) for result in found["network"]),
            "searches": sum(int(result.searches.sum()) for result in found["network"]),
        }
    )


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability with the network against that with exact values; a panel a game and blueprint."""
    names = {"exact": "blueprint_exploitability", "network": "refined_exploitability"}
    renamed = frame.drop(columns="blueprint_exploitability").rename(columns=names).assign(epsilon=EPSILON)
    groups = list(renamed.groupby(["game", "blueprint"], sort=False))
    figure, axes = make_axes(len(groups), 3, (4.0, 3.6))
    for ax, ((game, spec), part) in zip(axes, groups, strict=True):
        exploitability_scatter(part, ax=ax, title=f"{titled(str(game))} after {spec}")
        ax.set(xlabel="exploitability with exact values", ylabel="exploitability with the network")
    one_legend(figure, axes, 4)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors as shares of the payoff range; exploitability with the network over that with exact values."""
    rows: list[dict[str, Any]] = []
    for (game, spec), part in frame.groupby(["game", "blueprint"], sort=False):
        first, ratio = part.iloc[0], part["network"] / part["exact"]
        rows.append(
            {
                "game": titled(str(game)),
                "blueprint": spec,
                "training s": first["train_seconds"],
                **{
                    name: f"{first[f'{name}_rmse'] / first['payoff_range']:.2%}"
                    for name in ("heldout", "visited")
                },
                "ratio, median": float(ratio.median()),
                "ratio, largest": float(ratio.max()),
                "searches / s": first["searches"] / first["search_seconds"],
                "time in the network": f"{first['network_seconds'] / first['search_seconds']:.1%}",
            }
        )
    return pd.DataFrame(rows)
