"""The cost of a guard: seconds of a refinement with and without, with estimates of a network."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd

from experiments.common import titled, tree_of
from experiments.continuation.common import blueprints, cases, network
from experiments.study import Settings
from jaxgadget import ContinuationValues, Resolving, Solver, refine

NAME = "guard"
ITERATIONS, SMOKE_ITERATIONS = 2000, 10
TURNS = 3


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, turn, and with and without a guard."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, **key)

    keys = [{"game": game, "cut": cut} for game, cut in cases(settings)]
    return settings.gather(NAME, keys, measure)


def _measure(settings: Settings, game: str, cut: str) -> pd.DataFrame:
    tree, profiles, values = tree_of(game), blueprints(settings, game), network(settings, game, cut)
    solver = Solver(iterations=settings.pick(ITERATIONS, SMOKE_ITERATIONS), progress=False)
    value = tree.payoff_bounds  # exploitabilities are not computed

    def run(guard: bool) -> float:
        gadget = Resolving(alternative=ContinuationValues(values, guard=guard))
        return refine(tree, cut, profiles, gadget, value=value, solver=solver).seconds["run"]

    for guard in (False, True):  # compiles
        run(guard)
    turns = itertools.product(range(TURNS), (False, True))
    rows = [{"turn": turn, "guard": guard, "seconds": run(guard)} for turn, guard in turns]
    return pd.DataFrame(rows).assign(game=game, cut=cut, blueprints=profiles.num_lanes)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Seconds of resolving, blueprint prior, for player 0: the network's trunk, subgames and evaluations.

    Without compilation; with and without a guard alternately, the minimum of three times each.
    """
    rows: list[dict[str, Any]] = []
    for (game, cut), part in frame.groupby(["game", "cut"], sort=False):
        seconds = part.groupby("guard")["seconds"].min()
        rows.append(
            {
                "game": titled(str(game), str(cut)),
                "blueprints": part["blueprints"].iloc[0],
                "no guard": seconds[False],
                "guard": seconds[True],
                "times": seconds[True] / seconds[False],
            }
        )
    return pd.DataFrame(rows)
