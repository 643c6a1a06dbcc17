"""Translation in no-limit Leduc: its exploitability, and many draws."""

from __future__ import annotations

import functools

import pytest

from jaxgadget import solve
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.policy.evaluate import exploitability
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.translation import translate
from jaxgadget.tree.history import HistoryTree, enumerate_game
from tests.policy.test_translation import assert_plays_over_draws

pytestmark = pytest.mark.optimised


@functools.cache
def large() -> HistoryTree:
    return enumerate_game(NoLimitLeduc(bets="1/2-1-2-a", max_raises=2, suit_isomorphism=True))


@functools.cache
def value() -> float:
    return solve_exactly(large()).value


@functools.cache
def blueprint(names: tuple[str, ...]) -> Policy:
    """Blueprint of the game without the other bets of either player."""
    menu = ("Fold", "Call", *names)
    coarse = enumerate_game(MenuAbstraction(large().game, {0: menu, 1: menu}))
    return solve(coarse, algorithm="cfr+", iterations=1000).policy


@pytest.mark.parametrize(
    ("names", "player", "expected"),
    [
        (("Bet 1", "AllIn"), 1, (0.472, 0.508, 0.536)),
        (("Bet 1", "AllIn"), 0, (0.295, 0.314, 0.328)),
        (("Bet 1/2", "Bet 1", "AllIn"), 1, (0.077, 0.116, 0.187)),
        (("Bet 1/2", "Bet 1", "AllIn"), 0, (0.044, 0.072, 0.131)),
    ],
)
def test_exploitabilities(names: tuple[str, ...], player: int, expected: tuple[float, ...]):
    """The guide's numbers, for averages of CFR+: optima of linear programs depend on HiGHS's version."""
    losses = [
        float(exploitability(translate(blueprint(names), large(), rule), player, value=(value(), value()))[0])
        for rule in ("pseudo-harmonic", "linear", "nearest")
    ]
    assert losses == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("player", [0])
def test_over_draws_the_player_plays_the_translated_policy(player: int):
    spec = {"bets": "1/2-1-2-a", "max_raises": 1, "stack": 9, "num_ranks": 2}
    tree = enumerate_game(NoLimitLeduc(**spec, suit_isomorphism=True))
    menu = ["Fold", "Call", "Bet 1/2", "AllIn"]
    policy = Policy.dirichlet(enumerate_game(MenuAbstraction(tree.game, {0: menu, 1: menu})), 1)
    assert_plays_over_draws(tree, policy, player, 400)
