"""Rollouts against all games with their probabilities, and against exact values in the tree."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.rollouts import Rollouts, draw, play, rollout_bytes
from jaxgadget.util.precision import precision
from tests.learn.enumerated import Linear, enumerate_games

GAMES = [KuhnPoker(), Goofspiel(num_cards=3, imp_info=True)]
COUNT = 50_000


def played(machine: StateMachine[Any], policy: Linear, seed: int, first: int, n: int) -> Rollouts:
    with precision(np.float32):
        run = jax.jit(lambda key, first: play(machine, policy, key, first, n))
        return jax.tree.map(np.asarray, run(jax.random.key(seed), jnp.int32(first)))


@pytest.mark.parametrize("machine", GAMES, ids=str)
def test_frequencies_and_returns_are_those_of_the_game(machine: StateMachine[Any]):
    policy = Linear.random(machine, 1)
    games, found = enumerate_games(machine, policy), played(machine, policy, 5, 0, COUNT)
    moves = np.concatenate([found.action.transpose(2, 0, 1), found.outcome.T[:, :, None]], axis=2)
    number = {name: k for k, name in enumerate(games.moves)}
    index = np.array([number[tuple(map(tuple, row[(row >= 0).any(axis=1)].tolist()))] for row in moves])
    frequency = np.bincount(index, minlength=len(games.moves)) / COUNT
    error = np.sqrt(games.probability * (1 - games.probability) / COUNT)
    assert games.probability.sum() == pytest.approx(1)
    assert (abs(frequency - games.probability) <= 4 * error).all()
    # A game's arrays agree with the rules for its moves.
    np.testing.assert_array_equal(found.returns, np.asarray(games.rollouts.returns)[:, index])
    np.testing.assert_array_equal(found.acting, np.asarray(games.rollouts.acting)[:, :, index])
    acting = found.acting
    for name in ("features", "legal"):
        expected = np.asarray(getattr(games.rollouts, name))[:, :, index]
        np.testing.assert_array_equal(getattr(found, name)[acting], expected[acting])
    expected = np.asarray(games.rollouts.probability)[:, :, index]
    np.testing.assert_allclose(found.probability[acting], expected[acting], atol=1e-5)
    chosen = np.asarray(found.chosen)
    assert (chosen[~acting] == 1).all() and (found.action[~acting] == -1).all()
    index = found.action[acting].astype(int)[:, None]
    np.testing.assert_array_equal(
        chosen[acting], np.take_along_axis(found.probability[acting], index, 1)[:, 0]
    )


def test_a_game_depends_on_its_index_only():
    machine = Goofspiel(num_cards=3)
    policy = Linear.random(machine, 2)
    whole, part = played(machine, policy, 3, 0, 200), played(machine, policy, 3, 150, 30)
    for name in ("action", "outcome", "features"):
        np.testing.assert_array_equal(
            getattr(part, name),
            getattr(whole, name)[:, ..., 150:180, :]
            if name == "features"
            else getattr(whole, name)[..., 150:180],
        )
    other = played(machine, policy, 4, 0, 200)
    assert (other.outcome != whole.outcome).any()


def test_draws_never_take_what_is_impossible():
    with precision(np.float32):
        probability = jnp.array([[0, 0.0], [0.25, 1.0], [0, 0], [0.75, 0], [0, 0]])
        for uniform in (0.0, 0.2499999, 0.25, 0.9999999):
            first, second = np.asarray(draw(probability, jnp.full(2, uniform)))
            assert first == (1 if uniform < 0.25 else 3) and second == 1


@pytest.mark.parametrize("machine", GAMES, ids=str)
def test_memory_is_known_before(machine: StateMachine[Any]):
    found = played(machine, Linear.random(machine, 0), 0, 0, 16)
    assert rollout_bytes(machine, 16) == sum(x.nbytes for x in jax.tree.leaves(found))
