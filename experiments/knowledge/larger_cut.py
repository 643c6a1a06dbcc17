"""The experiment on one cut in larger games, with fewer ways and blueprints: it takes hours."""

from __future__ import annotations

import pandas as pd

from experiments.knowledge import one_cut
from experiments.knowledge.common import EQUILIBRIUM, WAYS, dark_hex, goofspiel, liars_dice
from experiments.study import Settings

NAME = "larger_cut"
SPOTS = (
    (liars_dice(4), "depth:1"),
    (goofspiel(5), "depth:2"),
    (goofspiel(5), "depth:3"),
    (liars_dice(5), "depth:1"),
    (liars_dice(6), "depth:1"),
    (dark_hex(2, 3, "classical"), "own:3"),
    (dark_hex(2, 3, "abrupt"), "own:3"),
)
SMOKE_SPOTS = ((goofspiel(3), "depth:1"),)

FEWER_WAYS = [(known, how) for known, how in WAYS if known == "order 1" or how == "together"]
"""Strategies of higher orders, which are not safe in any way, are only put together."""

LARGE = {liars_dice(6), dark_hex(2, 3, "classical"), dark_hex(2, 3, "abrupt")}
"""Games of more than 100,000 histories: the best blueprint is an average of CFR+."""

BLUEPRINTS = ("uniform", "dirichlet:0", "cfr:3", "cfr:10", "cfr:100", EQUILIBRIUM)
LARGE_BLUEPRINTS = ("uniform", "cfr:3", "cfr:30", "cfr+:1000")
SMOKE_BLUEPRINTS = ("uniform", "cfr+:10")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player, way, blueprint and gadget with prior."""

    def specs_of(game: str) -> tuple[str, ...]:
        return settings.pick(LARGE_BLUEPRINTS if game in LARGE else BLUEPRINTS, SMOKE_BLUEPRINTS)

    return one_cut.refine_spots(settings, NAME, settings.pick(SPOTS, SMOKE_SPOTS), FEWER_WAYS, specs_of)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """As in `cut`."""
    return one_cut.summarise(frame)
