"""Restricted Nash responses to many models with many p: in one batch, one by one, and by linear programs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from experiments.study import Settings
from jaxgadget import (
    HistoryTree,
    Opponent,
    Policy,
    Responses,
    Solver,
    enumerate_game,
    game_value,
    load,
    respond,
)
from jaxgadget.policy.blueprints import make_blueprints

NAME = "speed"
GAP = 1e-3
"""Of the payoff range: all lanes of a solve by CFR+ get there."""

GAMES, SMOKE_GAMES = ("leduc_poker",), ("kuhn_poker",)
MODELS, SMOKE_MODELS = "draws:100:0.5", "draws:4"
NUM_P, SMOKE_NUM_P = 11, 3
SAMPLE, SMOKE_SAMPLE = 22, 2
"""Number of lanes that are solved one by one, spread over models and p."""

CFR = Solver(iterations=5000, check_every=25, dtype="float32", progress=False)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and method, all in one run, without compilation."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        tree = enumerate_game(load(key["game"]))
        models = make_blueprints(tree, settings.pick(MODELS, SMOKE_MODELS), progress=False)
        numbers = np.linspace(0, 1, settings.pick(NUM_P, SMOKE_NUM_P)).tolist()
        cfr = dataclasses.replace(CFR, target_gap=GAP * tree.payoff_range)
        exact = Solver(algorithm="lp", progress=False)
        everything, sample = Opponent(models, numbers), _spread(models, numbers, settings)
        rows = [
            _timed(tree, "one batch", [everything], cfr),
            _timed(tree, "one by one", sample, cfr),
            _timed(tree, "linear programs", sample, exact),
        ]
        return pd.DataFrame([key | row for row in rows])

    games = settings.pick(GAMES, SMOKE_GAMES)
    return settings.gather(NAME, [{"game": game} for game in games], measure)


def _spread(models: Policy, numbers: Sequence[float], settings: Settings) -> list[Opponent]:
    """Single-lane opponents: every p equally often, and as many models as there are opponents."""
    count = settings.pick(SAMPLE, SMOKE_SAMPLE)
    lanes = np.linspace(0, models.num_lanes - 1, count).round().astype(int).tolist()
    return [Opponent(models.lane(lane), numbers[number % len(numbers)]) for number, lane in enumerate(lanes)]


def _timed(tree: HistoryTree, way: str, opponents: Sequence[Opponent], solver: Solver) -> dict[str, Any]:
    """Seconds of a second turn, including evaluation and certificates."""
    value = game_value(tree)

    def turn() -> list[Responses]:
        return [respond(tree, opponent, value=value, solver=solver) for opponent in opponents]

    turn()
    began = time.perf_counter()
    responses = turn()
    seconds = time.perf_counter() - began
    lanes = sum(len(result.gap) for result in responses)
    gap = max(float(result.gap.max()) for result in responses) / tree.payoff_range
    return {
        "way": way,
        "lanes": lanes,
        "seconds": seconds,
        "milliseconds_a_lane": 1e3 * seconds / lanes,
        "largest_gap": gap,
    }


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Restricted Nash responses to a hundred random models with eleven p from 0 to 1, for player 0.

    CFR+ until every gap is at most a thousandth of the payoff range (`largest_gap` is in that unit). A sample
    is solved one by one and by linear programs. Times: seconds per lane relative to the batch.
    """
    batch = frame[frame["way"] == "one batch"].set_index("game")["milliseconds_a_lane"]
    return frame.assign(times=frame["milliseconds_a_lane"] / batch.reindex(frame["game"]).to_numpy())
