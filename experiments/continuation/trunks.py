"""A trunk solved with a network of ranges at its limit, and with exact values there."""

from __future__ import annotations

from typing import Any

import pandas as pd

from experiments.common import tree_of
from experiments.continuation.common import cases, network
from experiments.study import Settings
from jaxgadget import NoPrior, Policy, ResolvedValues, Resolving, nash_conv
from jaxgadget.core.solver import Solver
from jaxgadget.opponents.opponent import Opponent, list_opponents
from jaxgadget.subgames.continual import search_continually
from jaxgadget.values.ranges import RangeValues

NAME = "trunks"
ITERATIONS, SMOKE_ITERATIONS = 1000, 10
BELOW, SMOKE_BELOW = 300, 10
"""Iterations of the reference for exact values, in every subgame and update."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut and kind of values."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        game, cut = key["game"], key["cut"]
        count = settings.pick(ITERATIONS, SMOKE_ITERATIONS)
        below = settings.pick(BELOW, SMOKE_BELOW)
        kinds: dict[str, RangeValues] = {
            "network": network(settings, game, cut),
            "exact": ResolvedValues(below),
        }
        tree, rows = tree_of(game), list[dict[str, Any]]()
        profile = Policy.uniform(tree)
        for name, values in kinds.items():
            halves, seconds = [], 0.0
            for player in (0, 1):
                trunk, refined = search_continually(
                    profile,
                    [Resolving(NoPrior())],
                    list_opponents(Opponent(), tree),
                    values,
                    cut,
                    player,
                    solver=Solver(iterations=count, dtype="float32", progress=False),
                    value=tree.payoff_bounds,
                )
                halves.append(refined.policy.probabilities[player])
                seconds += trunk.seconds["run"]
            whole = Policy(tree, (halves[0], halves[1]), ("resolved",))
            row = {"values": name, "nash_conv": float(nash_conv(whole)[0])}
            rows.append(key | row | {"payoff_range": tree.payoff_range, "trunk_seconds": seconds / 2})
        return pd.DataFrame(rows)

    return settings.gather(NAME, [{"game": game, "cut": cut} for game, cut in cases(settings)], measure)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """NashConv of the whole strategy, with subgames re-solved using the values of the trunk's solve.

    Exact: subgames solved by 300 iterations of CFR+ in every update of the trunk. Trunk seconds: time of
    1,000 iterations, including compilation.
    """
    table = frame[["game", "cut", "values", "nash_conv"]].copy()
    table["of the payoff range"] = (frame["nash_conv"] / frame["payoff_range"]).map("{:.3%}".format)
    table["trunk_seconds"] = frame["trunk_seconds"]
    return table
