"""Search with values of ranges against search with multi-valued states: exploitability and time."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pandas as pd

from experiments.common import GOOFSPIEL, tree_of
from experiments.continuation.common import SMALL, network
from experiments.study import Settings
from jaxgadget import BlueprintPrior, ExactValues, Lookahead, Resolving, Solver, make_portfolio, nested_search
from jaxgadget.policy.blueprints import make_blueprints
from jaxgadget.policy.evaluate import game_value

NAME = "nested"
CASES = (("leduc_poker", "flop"), (GOOFSPIEL, "depth:1"))
BLUEPRINTS = ("uniform", "cfr:10", "cfr:100")
ENTRIES = (1, 5, 10)
ITERATIONS, SMOKE_ITERATIONS = (100, 1000), (5,)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, blueprint, kind of values and number of iterations."""
    small = [(game, cut) for game, cuts in SMALL.items() for cut in cuts]

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        game, cut, player = key["game"], key["cut"], key["player"]
        tree, rows = tree_of(game), list[pd.DataFrame]()
        profiles = make_blueprints(tree, settings.pick(BLUEPRINTS, BLUEPRINTS[:1]))
        ranged = network(settings, game, cut)
        kinds: dict[str, Any] = {f"network at {cut}": ranged}
        for entries in settings.pick(ENTRIES, ENTRIES[:1]):
            kinds[f"{entries} entries, exact"] = [
                ExactValues(make_portfolio(profiles.lane(lane), size=entries))
                for lane in range(profiles.num_lanes)
            ]
        value = game_value(tree, progress=False)
        for (name, values), count in itertools.product(
            kinds.items(), settings.pick(ITERATIONS, SMOKE_ITERATIONS)
        ):
            gadget = Resolving(BlueprintPrior(), 2e-2)
            seconds: list[float] = []
            for _ in range(settings.pick(4, 2)):  # the first run compiles
                began = time.perf_counter()
                found = nested_search(
                    tree,
                    profiles,
                    gadget,
                    Lookahead(values),
                    player=player,
                    value=value,
                    solver=Solver(iterations=count, progress=False),
                )
                seconds.append(time.perf_counter() - began)
            table = found.table[["blueprint", "blueprint_exploitability", "nested_exploitability"]]
            timed = {"values": name, "iterations": count, "seconds": min(seconds[1:]) / profiles.num_lanes}
            rows.append(table.assign(**key, **timed))
        return pd.concat(rows, ignore_index=True)

    keys = [
        {"game": game, "cut": cut, "player": player}
        for (game, cut), player in itertools.product(settings.pick(CASES, small), (0, 1))
    ]
    return settings.gather(NAME, keys, measure)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exact exploitability of the policies of nested search, and seconds per blueprint without compilation.

    Seconds are the minimum of three runs. With a network of ranges, search does not depend on the blueprint.
    Resolving, blueprint prior, ε = 0.02.
    """
    keys = ["game", "player", "values", "iterations"]
    table = frame.pivot_table(
        index=keys, columns="blueprint", values="nested_exploitability", sort=False
    ).reset_index()
    seconds = frame.groupby(keys, sort=False)["seconds"].mean().reset_index()
    return table.merge(seconds, on=keys)
