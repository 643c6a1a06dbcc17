"""Networks of ranges: errors, training data and training times."""

from __future__ import annotations

import dataclasses

import pandas as pd

from experiments.continuation.common import cases, larger_cases, train
from experiments.study import Settings

NAME = "networks"
ERRORS = ("train_rmse", "heldout_rmse", "blueprint_rmse", "visited_rmse", "value_rmse")


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and cut."""

    def learn(key: dict[str, str]) -> pd.DataFrame:
        training = train(settings, key["game"], key["cut"])
        fields = [field.name for field in dataclasses.fields(training) if field.name not in ("values", "log")]
        return pd.DataFrame([key | {name: getattr(training, name) for name in fields}])

    keys = [{"game": game, "cut": cut} for game, cut in cases(settings) + larger_cases(settings)]
    return settings.gather(NAME, keys, learn)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Root mean squared errors in per cent of the payoff range, and the largest gap of the training data.

    Held out: by sample and blueprint; blueprint: by blueprint alone; visited: at queries of searches after
    other blueprints; value: of the predicted value of the optimal continuation, which is unique.
    """
    table = frame[["game", "cut", "samples", "seconds"]].copy()
    for name in (*ERRORS, "gap_max"):
        table[f"{name} [%]"] = 100 * frame[name] / frame["payoff_range"]
    return table
