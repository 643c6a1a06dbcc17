"""Published numbers of further subgames by CFR, and CFR-D in games larger than Kuhn poker."""

from __future__ import annotations

import pytest

from jaxgadget import Policy, Solver, nash_conv
from jaxgadget.subgames.cfr_d import cfr_d
from tests.subgames.test_cfr_d import LEDUC_VALUE
from tests.subgames.test_refine import GROUPS, QUICK, check_published
from tests.trees import tree_of

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize(("game", "where", "player"), [group for group in GROUPS if group not in QUICK])
def test_published_subgames(game: str, where: str, player: int) -> None:
    check_published(game, where, player)


@pytest.mark.parametrize(
    ("name", "value", "cut", "iterations", "subgame_iterations", "most"),
    [
        # A share of the payoff range, far below that of uniform play.
        ("goofspiel(num_cards=3,imp_info=True)", 0.0, "depth:1", 60, 60, 0.05),  # symmetric
        ("leduc_poker", LEDUC_VALUE, "before-flop", 40, 60, 0.02),
    ],
)
def test_other_games(
    name: str, value: float, cut: str, iterations: int, subgame_iterations: int, most: float
) -> None:
    tree = tree_of(name)
    found = cfr_d(
        tree, cut, solver=Solver(iterations=iterations, progress=False), subgame_iterations=subgame_iterations
    )
    policy = found.resolve(solver=Solver(iterations=300, progress=False))
    left = float(nash_conv(policy)[0])
    assert left < most * tree.payoff_range
    assert left < float(nash_conv(Policy.uniform(tree))[0]) / 5
    low, high = -found.best_response_values[0, 0], found.best_response_values[1, 0]
    assert low <= value + 1e-3
    assert high >= value - 1e-3
