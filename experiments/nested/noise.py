"""How much errors of a value function matter: exact values at the limit with independent noise on top.

Every history has noise of its own, the same whenever it is asked for: a network's errors without its bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments.nested.common import (
    DEPTH,
    ENTRIES,
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
from experiments.refinements.common import GOOFSPIEL, Settings, titled
from jaxgadget.games.game import FloatArray, IntArray
from jaxgadget.searching.nested import nested_search
from jaxgadget.searching.value import ExactValues, OwnValues
from jaxgadget.tree.history import HistoryTree

NAME = "noise"
SHARES = (0.0, 1e-4, 1e-3, 1e-2)
"""Standard deviations, in payoff ranges."""

SEEDS = 3


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, gadget and prior, size of noise and seed."""
    found: list[pd.DataFrame] = []
    for game in SMALL if settings.smoke else ("leduc_poker", GOOFSPIEL):
        for player in (0, 1):
            key = {"experiment": NAME, "game": game, "blueprint": TRAINED, "depth": DEPTH, "player": player}
            key |= (
                {"entries": 3, "iterations": 10, "shares": [0.0, 1e-2], "seeds": 1}
                if settings.smoke
                else {"entries": ENTRIES, "iterations": ITERATIONS, "shares": list(SHARES), "seeds": SEEDS}
            )
            found.append(piece(settings, key, lambda key=key: measure(key)))
    return pd.concat(found, ignore_index=True)


def measure(key: dict[str, Any]) -> pd.DataFrame:
    """Nested search of one player, with all gadgets, for every size of noise and seed."""
    game, spec = key["game"], key["blueprint"]
    tree = enumerated(game)
    exact = ExactValues(portfolio(game, spec, key["entries"]))
    tables: list[pd.DataFrame] = []
    for share in key["shares"]:
        for seed in range(key["seeds"] if share else 1):
            noise = np.random.default_rng(seed).normal(0, share * tree.payoff_range, tree.num_histories)

            def noisy(tree: HistoryTree, histories: IntArray, noise: FloatArray = noise) -> FloatArray:
                return exact(tree, histories) + noise[histories, None, None]

            found = nested_search(
                tree,
                blueprint(game, spec),
                gadgets(),
                values=OwnValues(noisy, key["entries"]),
                player=key["player"],
                depth=key["depth"],
                iterations=key["iterations"],
                value=value(game),
                progress=False,
            )
            tables.append(found.table.assign(game=game, noise=share, seed=seed))
    names = ["game", "player", "gadget", "prior", "noise", "seed", "nested_exploitability"]
    return pd.concat(tables, ignore_index=True)[names]


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability over that without noise: least, median and most over gadgets, priors, players, seeds."""
    keys = ["game", "player", "gadget", "prior"]
    plain = frame[frame["noise"] == 0].rename(columns={"nested_exploitability": "plain"})
    rows = frame[frame["noise"] > 0].merge(plain[[*keys, "plain"]], on=keys, validate="many_to_one")
    rows = rows.assign(ratio=rows["nested_exploitability"] / rows["plain"], game=rows["game"].map(titled))
    return rows.groupby(["game", "noise"], sort=False)["ratio"].agg(["min", "median", "max"]).reset_index()
