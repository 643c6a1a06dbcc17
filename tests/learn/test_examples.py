"""Examples of a training: values of any dtype, and a portfolio of the same game."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from jaxgadget import Policy, enumerate_game, load
from jaxgadget.games.game import CHANCE
from jaxgadget.games.stepwise import Rules, Step
from jaxgadget.learn.options import LARGEST, TrainingConfig
from jaxgadget.learn.training import train_value
from jaxgadget.values.histories import ExactValues
from tests.solving import configured

SETTINGS: dict[str, Any] = {
    "steps": 2,
    "batch_size": 4,
    "width": 8,
    "depth": 1,
    "learning_rate": 0.5,
    "seed": 3,
    "heldout": 0.25,
}


@dataclasses.dataclass(frozen=True)
class Guess(Rules[tuple[int, ...]]):
    """Chance draws a number, player 0 sees it and announces one, player 1 guesses, having peeked or not."""

    peeks: bool = False
    prize: float = 1.0

    name = "guess"
    actions = ("a", "b")

    def initial_state(self):
        return ()

    def actors(self, state):
        return ((CHANCE,), (0,), (1,), ())[len(state)]

    def legal_actions(self, state, player):
        return (0, 1)

    def chance_outcomes(self, state):
        return ((0, 0.5), (1, 0.5))

    def step(self, state, move):
        after = (*state, move)
        if len(after) == 1:
            return Step(after, private=(move, move if self.peeks else None))
        return Step(after, self.prize * (len(after) == 3 and move == state[0]), public=move)


def guess(**options: Any):
    return enumerate_game(load(Guess(**options)))


@pytest.mark.parametrize("name", ["seed", "depth"])
@pytest.mark.parametrize("value", [2**31, np.int64(2**31), -1, np.int8(-1), True, np.True_, 1.0])
def test_bad_seeds_and_depths(name: str, value: object):
    with pytest.raises(ValueError, match=f"{name}="):
        TrainingConfig(**SETTINGS | {name: value})
    assert getattr(TrainingConfig(**SETTINGS | {name: np.uint32(LARGEST)}), name) == LARGEST == 2**31 - 1


@pytest.mark.parametrize("name", ["learning_rate", "heldout"])
@pytest.mark.parametrize("value", [np.float32("nan"), np.inf, "0.1", None, np.float64(-1), True])
def test_bad_shares(name: str, value: object):
    with pytest.raises(ValueError, match=f"{name}="):
        TrainingConfig(**SETTINGS | {name: value})


def test_portfolios_are_for_the_very_game():
    """Equal names are not enough: observations and payoffs are compared, too."""
    tree, peeked, dear = guess(), guess(peeks=True), guess(prize=2.0)
    portfolio = Policy.dirichlet(tree, 0)
    for other, which in ((peeked, "infostates of player 1"), (dear, "payoffs")):
        message = f"is for a different game named 'guess': {which} differ"
        with pytest.raises(ValueError, match=message):
            train_value(other, portfolio, **configured(**SETTINGS))
        with pytest.raises(ValueError, match=message):
            ExactValues(portfolio)(other, np.zeros(1, int))


class DullGuess(Guess):
    def encode(self, tree, histories):
        return tree.num_moves[histories][:, None]


def test_encodings_that_tell_too_little_are_refused():
    tree = enumerate_game(load(DullGuess()))
    with pytest.raises(ValueError, match="histories"):
        train_value(tree, Policy.uniform(tree), **configured(**SETTINGS))
