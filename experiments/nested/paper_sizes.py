"""`large` for Goofspiel 7 and Liar's Dice 2×4, the games of the paper's matches (Kubíček et al. 2026, §8.1).

Takes hours on two cores, so it runs only if named.
"""

from __future__ import annotations

import pandas as pd

from experiments.nested.large import compute_games, summarise
from experiments.study import Settings

__all__ = ["NAME", "compute", "summarise"]

NAME = "paper_sizes"
HOW = {"entries": 3, "iterations": 100, "solve": 200}
"""Few iterations and entries, for two cores."""

GAMES = {
    "liars_dice(dice_sides=4,numdice=2)": HOW | {"memory_limit": 3 << 30},
    "goofspiel(imp_info=True,num_cards=7,points_order=descending)": HOW | {"memory_limit": 3 << 29},
}
"""Memory limit of searches, for a total of 8 GiB."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and quantity."""
    return compute_games(settings, NAME, GAMES)
