"""With an equilibrium's continuations in both portfolios, a depth-limited game keeps the value of the game.

Both restricted sets of continuations then contain an equilibrium, for any limit (Brown, Sandholm and Amos
2018, §4). Without it in player 0's portfolio the value may differ.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd

from experiments.common import titled
from experiments.nested.common import GAMES, SMALL, enumerated, value
from experiments.study import Settings
from jaxgadget import Policy, Solver, Unsafe, nash_conv, solve
from jaxgadget.subgames.depth_limited import search
from jaxgadget.values.histories import ExactValues

NAME = "theorem"
GOOFSPIEL_4 = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
ITERATIONS = 3000
ENTRIES = 3


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, depth and portfolio of player 0."""
    keys = [
        {"game": game, "depth": depth, "iterations": settings.pick(ITERATIONS, 100)}
        for game in settings.pick(("kuhn_poker", GOOFSPIEL_4, *GAMES[:3]), SMALL)
        for depth in range(1, int(enumerated(game).num_moves.max()))
    ]
    return settings.gather(NAME, keys, measure)


@functools.cache
def equilibrium(game: str, iterations: int) -> Policy:
    """An approximate equilibrium, with player 0's value."""
    return solve(enumerated(game), algorithm="pcfr+", iterations=iterations).policy


def measure(key: dict[str, Any]) -> pd.DataFrame:
    """Solves the depth-limited game with and without the equilibrium in player 0's portfolio."""
    tree, solved = enumerated(key["game"]), equilibrium(key["game"], key["iterations"])
    first = [Policy.dirichlet(tree, seed) for seed in range(ENTRIES)]
    second = Policy.stack([Policy.dirichlet(tree, seed) for seed in range(10, 9 + ENTRIES)] + [solved])
    low, high = value(key["game"])
    rows: list[dict[str, Any]] = []
    for name, entries in (("with", [solved, *first[1:]]), ("without", first)):
        stacked = Policy.stack(entries)
        portfolio = Policy(tree, (stacked.probabilities[0], second.probabilities[1]), stacked.labels)
        limited = search(
            tree,
            "depth:0",
            Policy.uniform(tree),
            Unsafe(),
            values=ExactValues(portfolio),
            depth=key["depth"],
            solver=Solver(iterations=key["iterations"], dtype="float64", progress=False),
        )
        rows.append(
            {
                "game": key["game"],
                "depth": key["depth"],
                "leaves": len(limited.lookahead.leaves),
                "equilibrium": name,
                "value": float(limited.gadget_value.sum()),
                "gap": float(limited.gap.sum()),
                "game_value_low": low,
                "game_value_high": high,
                "nash_conv": float(nash_conv(solved)[0]),
            }
        )
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Distance of the depth-limited value from the game's bracket, over the tolerance by gap and NashConv."""
    low, high, value = (frame[name] for name in ("game_value_low", "game_value_high", "value"))
    frame = frame.assign(
        game=frame["game"].map(titled),
        off=np.maximum(0, np.maximum(low - value, value - high)),
        allowed=frame["gap"] + frame["nash_conv"],
    )
    return (
        frame.pivot_table(
            index=["game", "depth"], columns="equilibrium", values=["off", "allowed"], sort=False
        )
        .pipe(lambda table: table.set_axis([f"{a}, {b}" for a, b in table.columns], axis=1))
        .reset_index()
    )
