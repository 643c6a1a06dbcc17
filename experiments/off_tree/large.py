"""13 ranks in 4 suits, 912,614 histories: one blueprint, both players, few lanes; time and memory.

Rows are measured in the process of the experiment: memory is its current peak.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import pandas as pd

from experiments.common import peak_bytes
from experiments.off_tree import common
from experiments.off_tree.common import METHODS, TRANSLATIONS, blueprints_of, leduc, on_menu, short, tree_of
from experiments.study import Settings
from jaxgadget import (
    MaxMargin,
    NoPrior,
    Resolving,
    Solver,
    UniformPrior,
    Unsafe,
    game_value,
    nested_off_tree,
    translate_off_tree,
)
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.subgames.off_tree import Answering
from jaxgadget.util.players import Bracket

NAME = "large"
GAME, SMOKE_GAME = leduc(bets="1/2-1-a", ranks=13, suits=4), leduc(stack=7, bets="1/2-1-a", raises=1)
MENU, SPEC = "1-a", "cfr+:1000"
ITERATIONS = 1000
TOLERANCE = 1e-6
"""Width of the value's bracket as a share of the payoff range."""

GADGETS: tuple[Gadget, ...] = (Resolving(NoPrior()), Resolving(UniformPrior()), MaxMargin(NoPrior()))


@functools.cache
def bracket(game: str, iterations: int) -> tuple[float, float]:
    """Bracket of player 0's value, by CFR."""
    return game_value(tree_of(game), tolerance=TOLERANCE, iterations=iterations, progress=False)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every seat, method and gadget with prior."""
    iterations = settings.pick(ITERATIONS, common.SMOKE_ITERATIONS)

    def solve(key: dict[str, Any]) -> pd.DataFrame:
        return _measure(iterations=iterations, **key).assign(**key)

    game = settings.pick(GAME, SMOKE_GAME)
    keys = [{"game": game, "player": player, "method": method} for player in (1, 0) for method in METHODS]
    return settings.gather(NAME, keys, solve)


def _measure(game: str, player: int, method: str, iterations: int) -> pd.DataFrame:
    begin = time.perf_counter()
    tree, value = tree_of(game, MENU), bracket(game, 3 * iterations)
    blueprint = blueprints_of(game, MENU, (SPEC,))
    prepared = time.perf_counter()
    asked: dict[str, Any] = {"player": player, "value": value}
    if method in TRANSLATIONS:
        found = translate_off_tree(
            tree, blueprint, method.partition(":")[2], solver=Solver(progress=False), **asked
        )
    else:
        given = (*GADGETS, Unsafe()) if method == "expensive" else GADGETS
        known: Any = method
        found = nested_off_tree(
            tree,
            blueprint,
            given,
            Answering(known),
            solver=Solver(iterations=iterations, progress=False),
            **asked,
        )
    ended = time.perf_counter()
    table = found.table.rename(columns={"seconds": "method_seconds"})
    return table.drop(columns="above_optimum").assign(
        on_menu=Bracket(*value).for_player(player).middle - on_menu(blueprint, player)[0],
        menu_exploitability=table["game_value"] - table["menu_value"],
        value_width=value[1] - value[0],
        histories=tree_of(game).num_histories,
        prepared=prepared - begin,
        seconds=ended - prepared,
        memory=peak_bytes() / 2**30,
    )


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Antes; `seconds` of a method in total, including values of games; `memory`: current peak in GiB.

    `value ±`: half the bracket of the game's value from CFR; all exploitabilities may be off by it.
    """
    table = frame.assign(game=frame["game"].map(short), **{"value ±": frame["value_width"] / 2})
    columns = ["player", "method", "gadget", "prior", "on_menu", "menu_exploitability", "exploitability"]
    columns += ["certificate", "gap_max", "levels", "subgames", "value ±", "seconds", "memory"]
    return table[columns]
