"""Turns solved to the river with values of ranges: exact exploitability of what is assembled, and time.

The strategy on the turn is found with values at the river's card; the rivers are then solved for the ranges
that it leads to. Exploitability is exact, as best responses deviate on both streets.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pandas as pd

from experiments.holdem.common import NARROW
from experiments.study import Settings
from jaxgadget import BetMenu, Solver, Spot, solve_spots
from jaxgadget.learn.deal_network import DEFAULT, train_deals
from jaxgadget.values.deals import CheckedDown, DealValues, ResolvedDeals, solve_to_deal

NAME = "leaves"
BOARD = "Td9d6hQc"
MENU = BetMenu(bets="50%", raises="100%", cap=2)
ITERATIONS = 300
"""Iterations of CFR+ on the turn."""

SMOKE_DEAD = "".join(rank + suit for rank in "234578" for suit in "cdhs") + "6c6d6s"
"""Dead cards of a smoke test."""

VALUES = ("equities", "network", "resolved 10", "full solve")
TRAINING = dataclasses.replace(DEFAULT, samples=256, steps=3000)


def spot(*, smoke: bool) -> Spot:
    """A turn with a pot of 100 and stacks of 300."""
    oop, ip = ("AA,KK,JTs", "QQ,TT,KJs") if smoke else NARROW
    dead = SMOKE_DEAD if smoke else ""
    return Spot(board=BOARD, oop=oop, ip=ip, pot=100, stack=300, menus=MENU, dead=dead)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for each kind of values."""
    keys = [{"values": values} for values in settings.pick(VALUES, VALUES[:2])]
    return settings.gather(NAME, keys, lambda key: _row(settings, **key))


def _row(settings: Settings, values: str) -> pd.DataFrame:
    turn, row = spot(smoke=settings.smoke), dict[str, Any](values=values)
    solver = Solver(algorithm="dcfr", iterations=settings.pick(1000, 5), dtype="float32", progress=False)
    if values == "full solve":
        began = time.perf_counter()
        (solution,) = solve_spots([turn], solver=solver)
        row |= {"seconds": time.perf_counter() - began, "exploitability": solution.exploitability}
        return pd.DataFrame([row | {"ev": solution.ev[0]}])
    began = time.perf_counter()
    function = _values(settings, turn, values, row)
    row["prepared"] = time.perf_counter() - began
    iterations = settings.pick(ITERATIONS, 3)
    solve_to_deal(turn, function, iterations=1)
    began = time.perf_counter()
    limited = solve_to_deal(turn, function, iterations=iterations)
    row["seconds"] = time.perf_counter() - began
    (solution,) = solve_spots([turn], locks=limited.locks(), solver=solver)
    row |= {"exploitability": solution.unlocked_exploitability, "below": solution.exploitability}
    predicted = turn.pot * (0.5 + (limited.game_values[0, 0] - limited.game_values[1, 0]) / 2)
    return pd.DataFrame([row | {"ev": solution.ev[0], "predicted": predicted}])


def _values(settings: Settings, turn: Spot, values: str, row: dict[str, Any]) -> DealValues:
    """The values of a row; adds the network's error to the row."""
    if values == "equities":
        return CheckedDown()
    if values.startswith("resolved"):
        return ResolvedDeals(int(values.split()[1]))
    tiny = dataclasses.replace(DEFAULT, samples=16, steps=4, iterations=3, width=8, rounds=1)
    trained = train_deals(
        turn,
        config=settings.pick(TRAINING, tiny),
        folder=None if settings.smoke else settings.work / f"{NAME}-{BOARD}",
        progress=settings.progress,
    )
    row |= {"error": trained.heldout_rmse, "samples": trained.samples}
    return trained.values


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability of the assembled strategy on turn and rivers, in % of the pot.

    `prepared`: seconds of training, solved ranges included. `seconds`: the turn, 300 iterations of CFR+,
    programs compiled before; for the full solve 1,000 iterations of DCFR with their certificate. `below`: the
    exploitability if only rivers deviate. `predicted`: the first player's EV by the values at the river, `ev`
    the assembled strategy's. `error`: of the network over held-out ranges, in pots at the river.
    """
    return frame
