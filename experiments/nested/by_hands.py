"""Nested search to the end of Liar's Dice 2×5, by hands: a game of 1.3 billion histories, evaluated exactly.

One search at each of 524,288 public nodes per player, in minutes. It may take 9 GB, so it runs only if named.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pandas as pd

from experiments.common import peak_bytes, titled
from experiments.nested.common import SMALL
from experiments.study import Settings
from jaxgadget import Policy, Solver, load, nested_search, public_tree, solve
from jaxgadget.gadgets.specs import make_gadgets

NAME = "by_hands"
GAME = "liars_dice(dice_sides=5,numdice=2)"
ALGORITHM = "dcfr"
BLUEPRINTS, SMOKE_BLUEPRINTS = (5, 150), (5, 20)
"""Iterations of the blueprints; the last one's certificate brackets the value."""

SEARCHES = (("resolving", 0, 40), ("resolving", 1, 40))
SMOKE_SEARCHES = (("resolving", 0, 20),)
"""Gadget, player and iterations."""

EPSILON = 1e-3
MEMORY_LIMIT = 9_000_000_000


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every gadget, player, number of iterations and blueprint."""
    keys = [
        {"game": game, "gadget": gadget, "player": player, "iterations": iterations}
        for game in settings.pick((GAME,), SMALL)
        for gadget, player, iterations in settings.pick(SEARCHES, SMOKE_SEARCHES)
    ]
    return settings.gather(NAME, keys, functools.partial(search, settings))


def search(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Nested search of one player with one gadget after all blueprints."""
    blueprint, bracket = blueprints(key["game"], settings.pick(BLUEPRINTS, SMOKE_BLUEPRINTS))
    nested = nested_search(
        blueprint.tree,
        blueprint,
        make_gadgets([key["gadget"]], ["blueprint"], [EPSILON]),
        player=key["player"],
        solver=Solver(
            algorithm=ALGORITHM,
            iterations=key["iterations"],
            memory_limit=MEMORY_LIMIT,
            progress=settings.progress,
        ),
        value=bracket,
    )
    columns = ["blueprint", "blueprint_exploitability", "nested_exploitability", "gap_max", "searches"]
    table = nested.table[[*columns, "seconds"]]
    low, high = bracket
    return table.assign(**key, value_at_least=low, value_at_most=high, GiB=peak_bytes() / 2**30)


@functools.cache
def blueprints(game: str, iterations: tuple[int, ...]) -> tuple[Policy, tuple[float, float]]:
    """Averages after some numbers of iterations, a lane each, and the bracket of the last one."""
    tree = public_tree(load(game))
    solved = [
        solve(tree, solver=Solver(algorithm=ALGORITHM, iterations=count, dtype="float32"))
        for count in iterations
    ]
    policy = Policy.stack([solution.policy for solution in solved])
    labels = tuple(f"{ALGORITHM}:{count}" for count in iterations)
    return dataclasses.replace(policy, labels=labels), solved[-1].bracket


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability before and after [payoff], the largest gap of a search, seconds per lane, and memory.

    Guaranteed values are exact; the value, and therefore exploitability, is known up to half of `within`.
    """
    columns = [
        *("game", "gadget", "player", "iterations", "blueprint", "blueprint_exploitability"),
        *("nested_exploitability", "gap_max", "searches", "seconds", "GiB"),
    ]
    within = frame["value_at_most"] - frame["value_at_least"]
    return frame.assign(game=frame["game"].map(titled))[columns].assign(within=within)
