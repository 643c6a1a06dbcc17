"""At play: a network's trunk and one subgame, compared with iterations of all subgames in the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import titled, tree_of
from experiments.continuation.closing import shares
from experiments.continuation.common import blueprints, network
from experiments.study import Settings
from jaxgadget import ContinuationValues, NoPrior, OptimalContinuation, Resolving, Solver, refine, solve_trunk
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.history import HistoryTree

NAME = "play"
TRUNK_ITERATIONS, SMOKE_TRUNK_ITERATIONS = (50, 500), (3,)
SUBGAME_ITERATIONS, SMOKE_SUBGAME_ITERATIONS = 1000, 10
MEASURED, SMOKE_MEASURED = (100, 300), (10, 30)
"""Numbers of iterations of all subgames; the difference in time gives that of one iteration."""

TURNS = 3
MOST = 3000
"""Maximum number of iterations of all subgames, which suffices to close the distance."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, cut, player, blueprint and number of the trunk's iterations."""
    closing = shares(settings.data_of("closing", NAME))

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(settings, closing, **key)

    known = closing[["game", "cut"]].drop_duplicates().to_dict("records")
    keys = [key | {"player": player} for key, player in itertools.product(known, (0, 1))]
    return settings.gather(NAME, keys, measure)


def _measure(settings: Settings, closing: pd.DataFrame, game: str, cut: str, player: int) -> pd.DataFrame:
    tree, profiles, values = tree_of(game), blueprints(settings, game), network(settings, game, cut)
    one, alone = profiles.lane(0), _largest(tree, cut)
    how: dict[str, Any] = {"player": player, "value": tree.payoff_bounds}
    count = settings.pick(SUBGAME_ITERATIONS, SMOKE_SUBGAME_ITERATIONS)

    def solve_all(iterations: int) -> float:
        whole = OptimalContinuation(NoPrior())
        return refine(
            tree, cut, one, whole, solver=Solver(iterations=iterations, progress=False), **how
        ).seconds["run"]

    def solve_subgame() -> float:
        return refine(
            tree, alone, one, Resolving(), solver=Solver(iterations=count, progress=False), **how
        ).seconds["run"]

    def solve_above(iterations: int) -> float:
        found = solve_trunk(
            tree,
            cut,
            values,
            blueprint=one,
            fixed=player,
            solver=Solver(iterations=iterations, dtype="float32", progress=False),
        )
        return found.seconds["run"]

    few, many = settings.pick(MEASURED, SMOKE_MEASURED)
    each = max((_seconds(solve_all, many) - _seconds(solve_all, few)) / (many - few), 1e-9)
    subgame = _seconds(lambda _: solve_subgame(), 0)
    rows: list[pd.DataFrame] = []
    for steps in settings.pick(TRUNK_ITERATIONS, SMOKE_TRUNK_ITERATIONS):
        trunk = _seconds(solve_above, steps)
        equal = int(np.clip(round(trunk / each), 1, MOST))
        promises = ContinuationValues(values, guard=False, iterations=steps), ContinuationValues(equal)
        gadgets = [Resolving(alternative=promise) for promise in promises]
        refined = refine(tree, cut, profiles, gadgets, solver=Solver(iterations=count, progress=False), **how)
        gained = refined.blueprint_exploitability - refined.refined_exploitability
        by_network, by_iterations = np.split(gained, 2)
        measured = {
            "game": game,
            "cut": cut,
            "player": player,
            "blueprint": profiles.labels,
            "histories": tree.num_histories,
            "subgames": refined.num_subgames,
            "trunk_iterations": steps,
            "trunk_seconds": trunk,
            "iteration_seconds": each,
            "subgame_seconds": subgame,
            "equal_iterations": equal,
            "network": by_network,
            "iterations": by_iterations,
        }
        rows.append(pd.DataFrame(measured))
    frame = pd.concat(rows, ignore_index=True)
    known = closing[(closing["game"] == game) & (closing["cut"] == cut) & (closing["player"] == player)]
    best = known[known["method"] == "optimal continuation"].set_index("blueprint")
    distance = frame["blueprint"].map(best["distance"].where(best["share"].notna()))
    return frame.assign(network=frame["network"] / distance, iterations=frame["iterations"] / distance)


def _seconds(run: Callable[[int], float], iterations: int) -> float:
    """The minimum of several runs, after one that compiles."""
    run(iterations)
    return min(run(iterations) for _ in range(TURNS))


def _largest(tree: HistoryTree, where: str) -> Cut:
    """A cut with only the public state that has most roots."""
    whole = cut(tree, where)
    state = int(np.argmax(np.bincount(whole.subgame)))
    roots = whole.roots[whole.subgame == state]
    return cut(tree, lambda _: roots)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Distance closed during play by a network, and by iterations of all subgames in the same time.

    Resolving, blueprint prior, 1,000 iterations of the subgame, one blueprint at a time, without compilation;
    no guard, which would evaluate the whole game. Trunk, and an iteration of all subgames: their times
    relative to the subgame with most roots, which is solved in either case. Equal iterations: iterations of
    all subgames in the time of the network's trunk. Network, iterations: mean shares of the distance that are
    closed, over both players and blueprints, without those that are close to their continuations.
    """
    rows: list[dict[str, Any]] = []
    for (game, where, steps), part in frame.groupby(["game", "cut", "trunk_iterations"], sort=False):
        subgame = part["subgame_seconds"].mean()
        rows.append(
            {
                "game": titled(str(game), str(where)),
                "histories": part["histories"].iloc[0],
                "subgames": part["subgames"].iloc[0],
                "trunk's iterations": steps,
                "trunk": part["trunk_seconds"].mean() / subgame,
                "iteration of all": part["iteration_seconds"].mean() / subgame,
                "equal iterations": part["equal_iterations"].mean(),
                "network": part["network"].mean(),
                "iterations": part["iterations"].mean(),
                "closes more": part[["network", "iterations"]].mean().idxmax(),
            }
        )
    return pd.DataFrame(rows)
