"""Table 1: shares of the best response's gain that depth-limited best responses and best equilibria reach."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd

from experiments.common import tree_of, value_of
from experiments.opponents.common import LEDUC, SMALL, goofspiel, in_words, nested_exactly, turn_based
from experiments.study import Settings
from jaxgadget import Opponent, Policy, best_nash
from jaxgadget.util.players import Bracket

NAME = "table1"

GAMES = {
    LEDUC: 6,
    goofspiel(4): 2,
    turn_based(goofspiel(4)): 6,
    goofspiel(5): 3,
    turn_based(goofspiel(5)): 6,
}
"""The deepest searches, in moves of the players; a simultaneous one counts once."""

KEPT = {
    LEDUC: {3: 2, 5: 3},
    goofspiel(4): {2: 2},
    turn_based(goofspiel(4)): {3: 2, 5: 3},
    goofspiel(5): {2: 2, 3: 3},
    turn_based(goofspiel(5)): {3: 2, 5: 3},
}
"""Number of player 0's own decisions within a search of the given number of moves."""

PRINTED = {
    LEDUC: {"CDBR1": 74.4, "CDBR3": 96.0, "CDBR5": 97.1, "best Nash": 32.6, "ABR": 98.0},
    goofspiel(4): {"CDBR1": 98.5, "CDBR3": 100.0, "CDBR5": 100.0, "best Nash": 77.1, "ABR": 97.0},
    goofspiel(5): {"CDBR1": 93.5, "CDBR3": 100.0, "CDBR5": 100.0, "best Nash": 50.4, "ABR": 95.0},
}
"""In per cent; turn by turn the games are the same."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player and strategy."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        deepest = settings.pick(GAMES.get(key["game"], 2), 2)
        return pd.DataFrame([key | row for row in _strategies(key["game"], key["player"], deepest)])

    games = settings.pick(tuple(GAMES), (SMALL,))
    keys = [{"game": game, "player": player} for game, player in itertools.product(games, (0, 1))]
    return settings.gather(NAME, keys, measure)


def _strategies(game: str, player: int, deepest: int) -> Iterator[dict[str, Any]]:
    """The best equilibrium against the uniform model, then searches of all depths."""
    tree, value = tree_of(game), value_of(game)
    model = Policy.uniform(tree)
    best = best_nash(tree, model, player=player, value=value)
    most = float(best.best_response_gain[0])
    yield _row("best Nash", most, float(best.gain[0]), float(best.exploitability[0]))
    schedules = [("own", depth, 1) for depth in range(1, deepest + 1)]
    schedules += [("own", depth, step) for depth, step in KEPT.get(game, {}).items() if player == 0]
    schedules += [("moves", depth, depth) for depth in range(1, deepest + 1)]
    schedules += [("moves", depth, 1) for depth in range(2, deepest + 1)]
    for limit, depth, step in schedules:
        begin = time.perf_counter()
        found = nested_exactly(
            tree,
            opponent=Opponent(model, 1.0),
            player=player,
            depth=depth,
            limit=limit,
            step=step,
            value=value,
        )
        middle = Bracket(*value).for_player(player).middle
        row = _row("CDBR", most, float(found.gain[0]), float(found.nested_exploitability[0]))
        yield row | {
            "limit": limit,
            "depth": depth,
            "step": step,
            "first": (float(found.objectives[0, 0]) - middle) / most,
            "searches": int(found.searches[0]),
            "seconds": time.perf_counter() - begin,
        }


def _row(method: str, most: float, gain: float, exploitability: float) -> dict[str, Any]:
    return {
        "method": method,
        "limit": None,
        "depth": None,
        "step": None,
        "best_response_gain": most,
        "gain": gain,
        "share": gain / most,
        "exploitability": exploitability,
        "first": None,
        "searches": None,
        "seconds": None,
    }


def summarise(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Gain against the uniform model in per cent of the best response's, by linear programs.

    Searches end at the first own decision at least the given number of moves down (`own`), or after exactly
    that number (`moves`). The next search starts at the next own decision, after one move (`step 1`), or
    where the previous one ended (`kept`). `-`: not run. Printed: Milec, Kubíček and Lisý's Table 1, for
    player 0.
    """
    tables: dict[str, pd.DataFrame] = {}
    for (game, player), rows in frame.groupby(["game", "player"], sort=False):
        searched = rows[rows["method"] == "CDBR"].copy()
        own, single = searched["limit"] == "own", searched["step"] == 1
        kept = searched["limit"] + ", kept"
        searched["way"] = kept.mask(single & own, "own, step 1").mask(
            single & ~own & (searched["depth"] > 1), "moves, step 1"
        )
        table = searched.pivot(index="way", columns="depth", values="share")
        table = (100 * table).map(lambda share: "-" if pd.isna(share) else f"{share:.2f}").reset_index()
        table.columns = ["searches end", *(f"depth {depth:.0f}" for depth in table.columns[1:])]
        share = rows.loc[rows["method"] == "best Nash", "share"].item()
        tables[f"{in_words(game)}, player {player}; best Nash {100 * share:.2f}"] = table
    printed = {in_words(game): row for game, row in PRINTED.items()}
    tables["Printed"] = pd.DataFrame.from_dict(printed, orient="index").reset_index(names="game")
    return tables
