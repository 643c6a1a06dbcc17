"""A locked turn compared with a linear program of the game of all rivers."""

from __future__ import annotations

from jaxgadget.holdem.locks import Lock
from tests.holdem.test_locks import TURN, check


def test_a_locked_turn_has_the_value_of_a_linear_program():
    """One lock is for every river, another for one."""
    locks = [
        Lock(line="check, bet 60", strategy={"fold": 1}, hands="8c7c"),
        Lock(line="check, check", strategy={"check": 1}, hands="AsKd"),
        Lock(line="check, check, 2s", strategy={"bet 60": 1}, hands="8c7c"),
        Lock(line="check, check, check", strategy={"check": 0.5, "bet 60": 0.5}),
    ]
    check(TURN, locks, iterations=400, small=1e-3)
