"""CDBR-NN (appendix D): a network at the limit, trained once, compared with values solved there."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd

from experiments.common import tree_of, value_of
from experiments.continuation.common import network as trained_network
from experiments.opponents.common import (
    CFR_MODELS,
    DRAWN_MODELS,
    LEDUC,
    SMALL,
    SMOKE_MODELS,
    in_words,
    is_drawn,
    models_of,
)
from experiments.opponents.gains import BEST, LBR, shares
from experiments.opponents.gains import measure as measure_gain
from experiments.study import Settings
from jaxgadget import Lookahead, Opponent, Policy, ResolvedValues, Solver, nested_search

NAME = "network"
CUTS = {LEDUC: "flop", SMALL: "depth:2"}
"""The cut at which the first search ends and the second begins."""

MODELS = (*CFR_MODELS, *(f"cfr:{count}" for count in (89, 144, 233)), *DRAWN_MODELS)
RESOLVED, NETWORK = "CDBR, solved", "CDBR-NN"
ITERATIONS, SMOKE_ITERATIONS = 1000, 30
"""Of CFR+ above the limit, and in the subgames; where values are solved, `BELOW` in each."""

BELOW, SMOKE_BELOW = 100, 10


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every player, method and model, with the gain against it."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    (game,) = settings.pick((LEDUC,), (SMALL,))
    methods = settings.pick((BEST, LBR, RESOLVED, NETWORK), (BEST, RESOLVED, NETWORK))
    keys = itertools.product((0, 1), methods)
    return settings.gather(
        NAME, [{"game": game, "player": player, "method": method} for player, method in keys], measure
    )


def _measure(settings: Settings, game: str, player: int, method: str) -> pd.DataFrame:
    models = models_of(game, settings.pick(MODELS, SMOKE_MODELS))
    if method in (BEST, LBR):
        return measure_gain(models, game, player, method)
    tree, cut = tree_of(game), CUTS[game]
    below = ResolvedValues(settings.pick(BELOW, SMOKE_BELOW))
    found = nested_search(
        tree,
        Policy.uniform(tree),
        lookahead=Lookahead(below if method == RESOLVED else trained_network(settings, game, cut), limit=cut),
        opponent=Opponent(models, 1.0),
        player=player,
        solver=Solver(iterations=settings.pick(ITERATIONS, SMOKE_ITERATIONS), progress=settings.progress),
        value=value_of(game),
    )
    table = found.table[["model", "gain", "seconds"]]
    return table.assign(game=game, player=player, method=method)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gains in payoffs by model, then the mean share of the best response's in per cent.

    CDBR searches to the public card, then each subgame to the end. `solved`: with values that are solved at
    the limit in every iteration; `CDBR-NN`: with a network trained without these models.
    """
    tables: dict[str, pd.DataFrame] = {}
    for (game, player), rows in shares(frame).groupby(["game", "player"], sort=False):
        methods, models = list(dict.fromkeys(rows["method"])), list(dict.fromkeys(rows["model"]))
        gains = rows.pivot(index="model", columns="method", values="gain").loc[models, methods]
        for label, part in (
            ("CFR", rows[~is_drawn(rows["model"])]),
            ("drawn", rows[is_drawn(rows["model"])]),
        ):
            gains.loc[f"share [%], {label}"] = 100 * part.groupby("method")["share"].mean()
        tables[f"{in_words(str(game))}, player {player}"] = gains.reset_index()
    return tables
