"""Gains of local best responses: Leduc poker, against increasingly late averages of CFR."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.common import value_of
from experiments.opponents.common import LEDUC, models_of
from experiments.opponents.gains import BEST, CALL_DOWN, LBR, measure
from experiments.study import Settings

NAME = "local"
METHODS = (BEST, LBR, CALL_DOWN, "CDBR, own 1")
MODELS = tuple(f"cfr:{count}" for count in (21, 34, 55, 89, 144, 233, 377, 610))
SMOKE_MODELS = ("cfr:2", "cfr:3")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every player, method and model."""
    models = models_of(LEDUC, settings.pick(MODELS, SMOKE_MODELS))

    def measured(key: dict[str, Any]) -> pd.DataFrame:
        found = measure(models, LEDUC, key["player"], key["method"])
        utility = found["gain"] + sum(value_of(LEDUC)) / 2 * (1 if key["player"] == 0 else -1)
        return found.assign(utility=utility)

    keys = [{"player": player, "method": method} for player in (0, 1) for method in METHODS]
    return settings.gather(NAME, keys, measured)


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain in payoffs by model, CDBR by linear programs; a utility of 0 is a gain of 0.0856 and −0.0856."""
    tables: dict[str, pd.DataFrame] = {}
    for player, rows in frame.groupby("player", sort=False):
        table = rows.pivot(index="method", columns="model", values="gain")
        order = list(dict.fromkeys(rows["model"]))
        tables[f"Leduc, player {player}"] = table.loc[list(METHODS), order].reset_index()
    return tables
