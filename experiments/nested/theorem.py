"""With an equilibrium's continuations in both portfolios, a depth-limited game has the value of the game.

Both restricted sets of continuations then hold an equilibrium, whatever the limit (Brown, Sandholm and
Amos 2018, §4). Without it in player 0's portfolio it need not be so.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd

from experiments.nested.common import GAMES, SMALL, enumerated, piece, value
from experiments.refinements.common import Settings, titled
from jaxgadget import Policy, Unsafe, nash_conv, solve
from jaxgadget.searching.limited import search
from jaxgadget.searching.value import ExactValues

NAME = "theorem"
GOOFSPIEL_4 = "goofspiel(imp_info=True,num_cards=4,points_order=descending)"
ITERATIONS = 3000
ENTRIES = 3


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, depth and portfolio of player 0."""
    found: list[pd.DataFrame] = []
    for game in SMALL if settings.smoke else ("kuhn_poker", GOOFSPIEL_4, *GAMES[:3]):
        moves = int(enumerated(game).num_moves.max())
        for depth in range(1, moves):
            key = {"experiment": NAME, "game": game, "depth": depth}
            key |= {"iterations": 100 if settings.smoke else ITERATIONS}
            found.append(piece(settings, key, lambda key=key: measure(key)))
    return pd.concat(found, ignore_index=True)


@functools.cache
def equilibrium(game: str, iterations: int) -> Policy:
    """Close to an equilibrium; player 0's value is known by then."""
    return solve(enumerated(game), algorithm="pcfr+", iterations=iterations).policy


def measure(key: dict[str, Any]) -> pd.DataFrame:
    """Solves the depth-limited game with and without the equilibrium in player 0's portfolio."""
    tree, solved = enumerated(key["game"]), equilibrium(key["game"], key["iterations"])
    first = [Policy.dirichlet(tree, seed) for seed in range(ENTRIES)]
    second = Policy.stack([Policy.dirichlet(tree, seed) for seed in range(10, 9 + ENTRIES)] + [solved])
    low, high = value(key["game"])
    rows: list[dict[str, Any]] = []
    for name, entries in (("with", [solved, *first[1:]]), ("without", first)):
        mine = Policy.stack(entries)
        portfolio = Policy(tree, (mine.probabilities[0], second.probabilities[1]), mine.labels)
        found = search(
            tree,
            "depth:0",
            Policy.uniform(tree),
            Unsafe(),
            values=ExactValues(portfolio),
            depth=key["depth"],
            iterations=key["iterations"],
            dtype="float64",
            progress=False,
        )
        rows.append(
            {
                "game": key["game"],
                "depth": key["depth"],
                "leaves": len(found.lookahead.leaves),
                "equilibrium": name,
                "value": float(found.gadget_value.sum()),
                "gap": float(found.gap.sum()),
                "game_value_low": low,
                "game_value_high": high,
                "nash_conv": float(nash_conv(solved)[0]),
            }
        )
    return pd.DataFrame(rows)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """How far the depth-limited value is from the bracket of the game's, over what gap and NashConv allow."""
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
