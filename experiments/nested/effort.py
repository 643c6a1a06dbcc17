"""How much entries and iterations matter: exploitability of nested search with fewer of them.

`paper_sizes` can afford few; Goofspiel 5 with the same blueprint says what they cost.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.nested.common import DEPTH, ENTRIES, ITERATIONS, SMALL, piece, search_exactly
from experiments.nested.large import BLUEPRINT
from experiments.refinements.common import GOOFSPIEL, Settings, titled

NAME = "effort"
EFFORTS = [(3, 100), (3, 500), (3, ITERATIONS), (ENTRIES, 100), (ENTRIES, 500), (ENTRIES, ITERATIONS)]
"""Entries a player, iterations of a search."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, number of entries and of iterations, gadget and prior."""
    found: list[pd.DataFrame] = []
    for game in SMALL if settings.smoke else (GOOFSPIEL,):
        for entries, iterations in [(3, 10), (3, 20)] if settings.smoke else EFFORTS:
            for player in (0, 1):
                key = {"experiment": NAME, "game": game, "blueprint": BLUEPRINT, "depth": DEPTH}
                key |= {"player": player, "entries": entries, "iterations": iterations}
                found.append(piece(settings, key, lambda key=key: measure(key)))
    return pd.concat(found, ignore_index=True)


def measure(key: dict[str, Any]) -> pd.DataFrame:
    """Nested search of one player, with all gadgets."""
    found = search_exactly(key, visits=False)
    names = ["game", "entries", "iterations", "player", "gadget", "prior"]
    names += ["blueprint_exploitability", "nested_exploitability", "gap_max"]
    return found.table.assign(game=key["game"], entries=key["entries"], iterations=key["iterations"])[names]


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """With gadgets: exploitability over the blueprint's, how often it is larger, and the largest gap."""
    rows = frame[frame["gadget"] != "unsafe"]
    ratio = rows["nested_exploitability"] / rows["blueprint_exploitability"]
    rows = rows.assign(game=rows["game"].map(titled), ratio=ratio, worse=ratio > 1)
    grouped = rows.groupby(["game", "entries", "iterations"], sort=False)
    found = grouped["ratio"].agg(["min", "median", "max"])
    worse = grouped["worse"].agg(lambda x: f"{int(x.sum())} of {len(x)}")
    return found.assign(worse=worse, **{"largest gap": grouped["gap_max"].max()}).reset_index()
