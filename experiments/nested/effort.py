"""The effect of entries and iterations: exploitability of nested search with fewer of them.

`paper_sizes` uses few of them; Goofspiel 5 with the same blueprint shows the loss.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.common import GOOFSPIEL, titled
from experiments.nested.common import DEPTH, ENTRIES, ITERATIONS, SMALL, search_exactly
from experiments.nested.large import BLUEPRINT
from experiments.study import Settings

NAME = "effort"
EFFORTS = [(3, 100), (3, 500), (3, ITERATIONS), (ENTRIES, 100), (ENTRIES, 500), (ENTRIES, ITERATIONS)]
"""Entries a player, iterations of a search."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, number of entries and of iterations, gadget and prior."""
    keys = [
        {"game": game, "blueprint": BLUEPRINT, "depth": DEPTH}
        | {"player": player, "entries": entries, "iterations": iterations}
        for game in settings.pick((GOOFSPIEL,), SMALL)
        for entries, iterations in settings.pick(EFFORTS, [(3, 10), (3, 20)])
        for player in (0, 1)
    ]
    return settings.gather(NAME, keys, measure)


def measure(key: dict[str, Any]) -> pd.DataFrame:
    """Nested search of one player, with all gadgets."""
    nested = search_exactly(key, visits=False)
    names = ["game", "entries", "iterations", "player", "gadget", "prior"]
    names += ["blueprint_exploitability", "nested_exploitability", "gap_max"]
    return nested.table.assign(game=key["game"], entries=key["entries"], iterations=key["iterations"])[names]


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """By gadget: exploitability over the blueprint's, the number of larger ones, and the largest gap."""
    rows = frame[frame["gadget"] != "unsafe"]
    ratio = rows["nested_exploitability"] / rows["blueprint_exploitability"]
    rows = rows.assign(game=rows["game"].map(titled), ratio=ratio, worse=ratio > 1)
    grouped = rows.groupby(["game", "entries", "iterations"], sort=False)
    ratios = grouped["ratio"].agg(["min", "median", "max"])
    worse = grouped["worse"].agg(lambda x: f"{int(x.sum())} of {len(x)}")
    return ratios.assign(worse=worse, **{"largest gap": grouped["gap_max"].max()}).reset_index()
