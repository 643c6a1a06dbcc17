"""Table 1's Goofspiel 6, by CFR+: linear programs with its 37,039 sequences take too long."""

from __future__ import annotations

import time
from typing import Any

import pandas as pd

from experiments.common import tree_of
from experiments.opponents.common import goofspiel, in_words, models_of
from experiments.study import Settings
from jaxgadget import (
    Lookahead,
    Opponent,
    OptimalValues,
    Policy,
    Solver,
    best_nash,
    best_response,
    game_value,
    nested_search,
)

NAME = "larger"
GAME, SMOKE_GAME = goofspiel(6), goofspiel(3)
MODELS = ("uniform", "cfr:3")
DEPTHS = (1, 2, 3)
"""Rounds, of two single actions each, that searches at own decisions look ahead."""

ITERATIONS, SMOKE_ITERATIONS = 1000, 50
NASH_ITERATIONS, SMOKE_NASH_ITERATIONS = 10_000, 200
TOLERANCE = 2.5e-4
"""Of the payoff range, for best Nash strategies by CFR+."""

PRINTED = {"CDBR, own 1": 90.7, "CDBR, own 2": 100.0, "CDBR, own 3": 100.0, "best Nash": 45.9}
"""In per cent, against the uniform model: searches that look 1, 3 and 5 single actions beyond the first."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every method and model, for player 0."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    methods = ["best Nash", *(f"CDBR, own {depth}" for depth in DEPTHS)]
    keys = [{"game": settings.pick(GAME, SMOKE_GAME), "method": method} for method in methods]
    return settings.gather(NAME, keys, measure)


def _measure(settings: Settings, game: str, method: str) -> pd.DataFrame:
    tree, begin = tree_of(game), time.perf_counter()
    models, value = models_of(game, MODELS), game_value(tree, progress=False)
    middle = sum(value) / 2
    most = best_response(models, 0).value - middle
    if method == "best Nash":
        count = settings.pick(NASH_ITERATIONS, SMOKE_NASH_ITERATIONS)
        tolerance = TOLERANCE * tree.payoff_range
        solver = Solver(algorithm="cfr+", iterations=count, dtype="float32", progress=False)
        found = best_nash(tree, models, tolerance=tolerance, value=value, solver=solver)
        numbers = {"exploitability": found.exploitability, "gap": found.gap}
    else:
        found = nested_search(
            tree,
            Policy.uniform(tree),
            lookahead=Lookahead(OptimalValues(), depth=int(method[-1]), limit="own"),
            opponent=Opponent(models, 1.0),
            solver=Solver(iterations=settings.pick(ITERATIONS, SMOKE_ITERATIONS), progress=settings.progress),
            value=value,
        )
        numbers = {"exploitability": found.nested_exploitability, "gap": found.gap_max}
    return pd.DataFrame(
        {
            "game": game,
            "method": method,
            "model": models.labels,
            "best_response_gain": most,
            "gain": found.gain,
            "seconds": time.perf_counter() - begin,
        }
        | numbers
    )


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain in per cent of the best response's, by CFR+; in payoffs gain, exploitability, and gaps (NashConv).

    Gaps of searches are the largest. Printed: Milec, Kubíček and Lisý's Table 1, against the uniform model.
    """
    tables: dict[str, pd.DataFrame] = {}
    for game, rows in frame.groupby("game", sort=False):
        table = rows.drop(columns=["game"])
        table.insert(2, "share", 100 * rows["gain"] / rows["best_response_gain"])
        printed = [
            f"{PRINTED[method]}" if model == "uniform" and game == GAME else "-"
            for method, model in zip(rows["method"], rows["model"], strict=True)
        ]
        table.insert(3, "printed", printed)
        tables[in_words(str(game))] = table
    return tables
