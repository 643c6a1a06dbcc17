"""A turn and a flop solved to the next card with values of ranges: exact exploitability of what is assembled.

The strategy on the first street is found with values at the next card; the later streets are then solved for
the ranges that it leads to. Exploitability is exact, as best responses deviate on all streets.
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
MENU = BetMenu(bets="50%", raises="100%", cap=2)
TURN = Spot(board="Td9d6hQc", oop=NARROW[0], ip=NARROW[1], pot=100, stack=300, menus=MENU)
FLOP = Spot(
    board="Jh7h4h", oop="TT-88,AQs,KQs,JTs,T9s", ip="QQ+,99,AKs,AJs,QJs", pot=100, stack=200, menus=MENU
)
WIDE_FLOP = Spot(board="Td9d6h", oop=NARROW[0], ip=NARROW[1], pot=100, stack=200, menus=MENU)
ITERATIONS = 300
"""Iterations of CFR+ on the first street."""

SMOKE_DEAD = "".join(rank + suit for rank in "234578" for suit in "cdhs") + "6c6d6s"
"""Dead cards of a smoke test."""

SMOKE = dataclasses.replace(TURN, oop="AA,KK,JTs", ip="QQ,TT,KJs", dead=SMOKE_DEAD)

SPOTS = {spot.board: spot for spot in (TURN, FLOP, WIDE_FLOP)}
VALUES = {
    TURN.board: ("equities", "network", "resolved 10", "full solve"),
    FLOP.board: ("equities", "network", "full solve"),
    WIDE_FLOP.board: ("equities", "network", "full solve"),
}
TRAINING = {
    TURN.board: dataclasses.replace(DEFAULT, samples=256, steps=3000),
    **dict.fromkeys(
        (FLOP.board, WIDE_FLOP.board), dataclasses.replace(DEFAULT, samples=64, steps=3000, iterations=30)
    ),
}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for each board and kind of values."""
    keys = [
        {"board": board, "values": each}
        for board, values in settings.pick(VALUES, {TURN.board: VALUES[TURN.board][:2]}).items()
        for each in values
    ]
    return settings.gather(NAME, keys, lambda key: _row(settings, **key))


def _row(settings: Settings, board: str, values: str) -> pd.DataFrame:
    spot, row = settings.pick(SPOTS[board], SMOKE), dict[str, Any](board=board, values=values)
    solver = Solver(algorithm="dcfr", iterations=settings.pick(1000, 5), dtype="float32", progress=False)
    if values == "full solve":
        began = time.perf_counter()
        (solution,) = solve_spots([spot], solver=solver)
        row |= {"seconds": time.perf_counter() - began, "exploitability": solution.exploitability}
        return pd.DataFrame([row | {"ev": solution.ev[0]}])
    began = time.perf_counter()
    function = _values(settings, spot, values, row)
    row["prepared"] = time.perf_counter() - began
    iterations = settings.pick(ITERATIONS, 3)
    solve_to_deal(spot, function, iterations=1)
    began = time.perf_counter()
    limited = solve_to_deal(spot, function, iterations=iterations)
    row["seconds"] = time.perf_counter() - began
    (solution,) = solve_spots([spot], locks=limited.locks(), solver=solver)
    row |= {"exploitability": solution.unlocked_exploitability, "below": solution.exploitability}
    predicted = spot.pot * (0.5 + (limited.game_values[0, 0] - limited.game_values[1, 0]) / 2)
    return pd.DataFrame([row | {"ev": solution.ev[0], "predicted": predicted}])


def _values(settings: Settings, spot: Spot, values: str, row: dict[str, Any]) -> DealValues:
    """The values of a row; adds the network's error to the row."""
    if values == "equities":
        return CheckedDown()
    if values.startswith("resolved"):
        return ResolvedDeals(int(values.split()[1]))
    tiny = dataclasses.replace(DEFAULT, samples=16, steps=4, iterations=3, width=8, rounds=1)
    trained = train_deals(
        spot,
        config=settings.pick(TRAINING[spot.board], tiny),
        folder=None if settings.smoke else settings.work / f"{NAME}-{spot.board}",
        progress=settings.progress,
    )
    row |= {"error": trained.heldout_rmse, "samples": trained.samples}
    return trained.values


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability of the assembled strategy on all streets, in % of the pot.

    `prepared`: seconds of training, solved ranges included. `seconds`: the first street, 300 iterations of
    CFR+, programs compiled before; for the full solve 1,000 iterations of DCFR with their certificate.
    `below`: the exploitability if only later streets deviate. `predicted`: the first player's EV by the
    values at the next card, `ev` the assembled strategy's. `error`: of the network over held-out ranges, in
    pots at that card.
    """
    return frame
