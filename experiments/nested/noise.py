"""The effect of errors of a value function: exact values at the limit with independent noise.

Every history has independent noise, equal in every call: errors like a network's, without bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments.common import GOOFSPIEL, titled
from experiments.nested.common import (
    DEPTH,
    ENTRIES,
    ITERATIONS,
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
from jaxgadget.subgames.nested import nested_search
from jaxgadget.subgames.schedule import Lookahead
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.values.histories import ExactValues, OwnValues

NAME = "noise"
SHARES = (0.0, 1e-4, 1e-3, 1e-2)
"""Standard deviations, in payoff ranges."""

SEEDS = 3


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, gadget and prior, size of noise and seed."""
    effort = settings.pick(
        {"entries": ENTRIES, "iterations": ITERATIONS, "shares": SHARES, "seeds": SEEDS},
        {"entries": 3, "iterations": 10, "shares": (0.0, 1e-2), "seeds": 1},
    )
    keys = [
        {"game": game, "blueprint": TRAINED, "depth": DEPTH, "player": player, **effort}
        for game in settings.pick(("leduc_poker", GOOFSPIEL), SMALL)
        for player in (0, 1)
    ]
    return settings.gather(NAME, keys, measure)


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

            nested = nested_search(
                tree,
                blueprint(game, spec),
                gadgets(),
                Lookahead(OwnValues(noisy, key["entries"]), depth=key["depth"]),
                player=key["player"],
                solver=Solver(iterations=key["iterations"], progress=False),
                value=value(game),
            )
            tables.append(nested.table.assign(game=game, noise=share, seed=seed))
    names = ["game", "player", "gadget", "prior", "noise", "seed", "nested_exploitability"]
    return pd.concat(tables, ignore_index=True)[names]


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability over that without noise: range and median over gadgets, priors, players, seeds."""
    keys = ["game", "player", "gadget", "prior"]
    plain = frame[frame["noise"] == 0].rename(columns={"nested_exploitability": "plain"})
    rows = frame[frame["noise"] > 0].merge(plain[[*keys, "plain"]], on=keys, validate="many_to_one")
    rows = rows.assign(ratio=rows["nested_exploitability"] / rows["plain"], game=rows["game"].map(titled))
    return rows.groupby(["game", "noise"], sort=False)["ratio"].agg(["min", "median", "max"]).reset_index()
