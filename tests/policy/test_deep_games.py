"""Deep games: sweeps over stacked levels of one shape, compared with backward induction and single levels."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.policy.evaluate import whole_problem
from tests.reference.efg import Array

TREEPLEX = sys.modules["jaxgadget.core.treeplex"]


class Chain(Rules[int]):
    """At every step the actor continues by action 0, or stops by another action; both see it.

    Args:
      actors: `[n]` the actor of each step.
      payoffs: `[n, actions]` what player 0 gets where it stops; for action 0 only the last one counts.
    """

    name = "chain"

    def __init__(self, actors: Array, payoffs: Array) -> None:
        self.order, self.payoffs = actors.tolist(), payoffs.tolist()
        self.actions = [f"action {number}" for number in range(payoffs.shape[1])]

    def initial_state(self) -> int:
        return 0

    def actors(self, state: int) -> tuple[int, ...]:
        return (self.order[state],) if 0 <= state < len(self.order) else ()

    def legal_actions(self, state: int, player: int) -> range:
        return range(len(self.actions))

    def step(self, state: int, move: int) -> Step[int]:
        last = state == len(self.order) - 1
        if move == 0 and not last:
            return Step(state + 1, public=move)
        return Step(-1, reward=self.payoffs[state][move], public=move)


def value_of(actors: Array, payoffs: Array) -> float:
    """Player 0's value, by backward induction."""
    value = payoffs[-1, 0]
    for actor, row in zip(actors[::-1], payoffs[::-1], strict=True):
        value = (max, min)[actor](value, *row[1:])
    return float(value)


def stacked(tree: jg.HistoryTree) -> tuple[int, int]:
    """The number of levels in both players' longest stacks."""
    first, second = (max(side.body.repeats, default=0) for side in whole_problem(tree, 1, np.float64).sides)
    return first, second


@pytest.mark.slow
def test_levels_together_are_as_one_by_one() -> None:
    check_levels(1, 9, 2, 0.1)  # random ones: tests/slow


def check_levels(seed: int, length: int, num_actions: int, floor: float | None) -> None:
    rng = np.random.default_rng(seed)
    actors, payoffs = rng.integers(0, 2, length), rng.normal(size=(length, num_actions))
    solutions: list[jg.Solution] = []
    exact: list[jg.Solution] = []
    depths: list[int] = []
    for like in (2, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TREEPLEX, "LIKE_LEVELS", like)
            tree = jg.enumerate_game(jg.load(Chain(actors, payoffs)))
            depths.append(max(stacked(tree)))
            solutions.append(jg.solve(tree, iterations=7, floors=floor))
            exact.append(jg.solve(tree, algorithm="lp", floors=floor))
    assert depths[0] > 2 and depths[1] == 1
    together, one_by_one = solutions
    for ours, theirs in zip(together.policy.probabilities, one_by_one.policy.probabilities, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    for name in ("value", "gap", "nash_conv", "best_response_values"):
        np.testing.assert_allclose(getattr(together, name), getattr(one_by_one, name), rtol=0, atol=1e-12)
    assert exact[0].gap == pytest.approx(0, abs=1e-9)
    assert exact[0].value == pytest.approx(exact[1].value, abs=1e-9)
    if floor is None:
        assert exact[0].value == pytest.approx(value_of(actors, payoffs), abs=1e-9)


@pytest.mark.parametrize("alternating", [False, True])
def test_a_chain_of_300_decisions(alternating: bool) -> None:
    actors = np.arange(300) % 2 if alternating else np.zeros(300, np.int64)
    payoffs = np.random.default_rng(0).normal(size=(300, 2))
    tree = jg.enumerate_game(jg.load(Chain(actors, payoffs)))
    assert stacked(tree) == ((149, 149) if alternating else (299, 0))
    solution = jg.solve(tree, iterations=2000)
    low, high = -solution.best_response_values[0], solution.best_response_values[1]
    assert low - 1e-12 <= value_of(actors, payoffs) <= high + 1e-12
    assert high - low < 0.05
