"""The experiment on one cut in larger games, with fewer blueprints in the largest: takes hours."""

from __future__ import annotations

import pandas as pd

from experiments.knowledge import one_cut
from experiments.knowledge.common import EQUILIBRIUM, WAYS, dark_hex, goofspiel, liars_dice
from experiments.study import Settings

NAME = "larger_cut"
ABRUPT = dark_hex(2, 3, "abrupt")

SPOTS = (
    (liars_dice(4), "depth:1"),
    (goofspiel(5), "depth:2"),
    (goofspiel(5), "depth:3"),
    (liars_dice(5), "depth:1"),
    (liars_dice(6), "depth:1"),
    (dark_hex(2, 3, "classical"), "own:3"),
    (ABRUPT, "own:3"),
)
SMOKE_SPOTS = ((goofspiel(3), "depth:1"),)

LARGE = {liars_dice(6), dark_hex(2, 3, "classical"), ABRUPT}
"""Games with more than 100,000 histories, whose best blueprint is an average of CFR+."""

BLUEPRINTS = ("uniform", "dirichlet:0", "cfr:3", "cfr:10", "cfr:100", EQUILIBRIUM)
LARGE_BLUEPRINTS = ("uniform", "cfr:3", "cfr:30", "cfr+:1000")
SMOKE_BLUEPRINTS = ("uniform", "cfr+:10")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player, way, blueprint and gadget with prior."""

    def specs_of(game: str) -> tuple[str, ...]:
        return settings.pick(LARGE_BLUEPRINTS if game in LARGE else BLUEPRINTS, SMOKE_BLUEPRINTS)

    spots = settings.pick(SPOTS, SMOKE_SPOTS)
    return one_cut.refine_spots(settings, NAME, spots, lambda game: WAYS, specs_of)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """As in `cut`."""
    return one_cut.summarise(frame)
