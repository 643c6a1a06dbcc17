"""Figure 5's row of approximate values: 500 iterations of CFR+ below the limit, in each of 1,000 above."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments.common import tree_of, value_of
from experiments.opponents.common import JOINT, LEDUC, models_of
from experiments.study import Settings
from jaxgadget import Lookahead, Opponent, Policy, ResolvedValues, Solver, nested_search, respond

NAME = "approximate"
MODELS = tuple(f"cfr:{count}" for count in (1, 3, 8, 21, 34, 100, 300))
SMOKE_MODELS = ("cfr:2",)
EVERY_P, SMOKE_EVERY_P = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9), (0.1, 0.5)
EFFORTS, SMOKE_EFFORTS = ((500, 1000), (50, 1000)), ((5, 10),)
"""Iterations below the limit and above it; the first are the paper's."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every effort, model and p, for player 0 of Leduc poker, searched round by round."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    efforts = settings.pick(EFFORTS, SMOKE_EFFORTS)
    return settings.gather(NAME, [{"below": below, "above": above} for below, above in efforts], measure)


def _measure(settings: Settings, below: int, above: int) -> pd.DataFrame:
    tree, value = tree_of(LEDUC), value_of(LEDUC)
    models = models_of(LEDUC, settings.pick(MODELS, SMOKE_MODELS))
    every_p = settings.pick(EVERY_P, SMOKE_EVERY_P)
    found = nested_search(
        tree,
        Policy.uniform(tree),
        JOINT,
        Lookahead(ResolvedValues(below), limit="flop"),
        opponent=Opponent(models, every_p),
        solver=Solver(iterations=above, progress=settings.progress),
        value=value,
    )
    best = respond(tree, Opponent(models, 1.0), solver=Solver(algorithm="lp", progress=False), value=value)
    most = np.repeat(best.gain, len(every_p))
    table = found.table[["model", "p", "gain", "exploitability"]]
    return table.assign(below=below, above=above, best_response_gain=most)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain / exploitability in payoffs, by model and p; joint searches, player 0 of Leduc poker.

    `over p·gain/(1−p)`: the number of p with a larger exploitability.
    """
    tables: dict[str, pd.DataFrame] = {}
    for (below, above), rows in frame.groupby(["below", "above"], sort=False):
        table: list[dict[str, Any]] = []
        for model, part in rows.groupby("model", sort=False):
            row: dict[str, Any] = {"model": model, "best response": part["best_response_gain"].iloc[0]}
            for _, lane in part.iterrows():
                row[f"p = {lane['p']:g}"] = f"{lane['gain']:.4f} / {max(lane['exploitability'], 0):.4f}"
            limit = part["p"] * part["gain"] / (1 - part["p"])
            row["over p·gain/(1−p)"] = int((part["exploitability"] > limit).sum())
            table.append(row)
        tables[f"{below} iterations below, {above} above"] = pd.DataFrame(table)
    return tables
