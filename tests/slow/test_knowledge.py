"""Own infostates re-solved in many drawn games: what is said to be safe is."""

from __future__ import annotations

import pytest

from tests.refining.test_knowledge import check_safe


@pytest.mark.parametrize("player", [0, 1])
@pytest.mark.parametrize("seed", range(40))
def test_damped_and_in_turn_never_raise_exploitability(seed: int, player: int) -> None:
    check_safe(seed, player)
