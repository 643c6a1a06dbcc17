"""Shared by the experiments: the river of the figures, menus, and random boards."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from jaxgadget import BetMenu, Spot
from jaxgadget.games.sizes import ALL_IN
from jaxgadget.holdem.cards import NUM_CARDS, card_name

HERE = pathlib.Path(__file__).parent

RIVER: dict[str, Any] = {"board": "Td9d6hQc2s", "pot": 200, "stack": 900}
"""The river of the figures; its menu is the default one, of 57 public nodes."""

RANDOM = ("random", "random")
"""Full ranges."""

NARROW = (
    "66+,A8s+,A5s-A4s,AJo+,K9s+,KQo,QTs+,JTs,96s+,85s+,75s+,65s,54s",
    "QQ-22,AQs-A2s,ATo+,K5s+,KJo+,Q8s+,J8s+,T7s+,96s+,86s+,75s+,64s+,53s+",
)
"""Ranges of 167 and 246 hands on that river."""

NEVER = BetMenu(bets=(), raises=())
ALL_IN_ONCE = BetMenu(bets=(ALL_IN,), raises=())
HALF = BetMenu(bets=(0.5,), raises=())

MENUS: dict[str, Any] = {
    "57 nodes": BetMenu(),
    # Both may bet half the pot, and the second may raise by the pot: each bet or raise adds itself, a fold
    # and a call to the three nodes of checks.
    "12 nodes": (BetMenu(bets=(0.5,), raises=(), cap=2), BetMenu(bets=(0.5,), raises=(1.0,), cap=2)),
}


def random_board(seed: int) -> str:
    """A random board of five cards."""
    return "".join(map(card_name, np.random.default_rng(seed).permutation(NUM_CARDS)[:5].tolist()))


def river(ranges: tuple[str, str] = RANDOM, **changes: Any) -> Spot:
    """The river of the figures, or another one."""
    given: dict[str, Any] = RIVER | {"oop": ranges[0], "ip": ranges[1]} | changes
    return Spot(**given)
