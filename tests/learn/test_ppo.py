"""Sampled MMD in the form of PPO: its decisions and its loss, from their definitions."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.learn.actor_critic import VALUE, ActorCritic, measure_game
from jaxgadget.learn.ppo import PPO, PPOLesson
from jaxgadget.networks.perceptron import Weights, evaluate, initial_weights
from jaxgadget.policy.network import POLICY, policy_shape
from jaxgadget.util.precision import precision
from tests.learn.enumerated import Linear, enumerate_games

METHOD = PPO(
    minibatches=4, epochs=2, trace_decay=0.7, clip=0.1, entropy=0.3, final_entropy=0.1, divergence=0.4,
    value_weight=0.6,
)  # fmt: skip
CAPACITY = 64


def kuhn_networks() -> ActorCritic:
    policy = policy_shape(KuhnPoker(), 8, 1)
    value = dataclasses.replace(policy, outputs=1)
    return ActorCritic(machine=KuhnPoker(), policy=policy, value=value)


def random_weights(networks: ActorCritic) -> Weights:
    initial = {POLICY: initial_weights(networks.policy, 0), VALUE: initial_weights(networks.value, 0)}
    return noisy(initial, 1)


def lesson_of(games: int) -> tuple[PPOLesson, Weights]:
    networks = kuhn_networks()
    with precision(np.float32):
        lesson = PPOLesson(
            key=jax.random.key(2),
            scale=jnp.float32(1.5),
            networks=networks,
            method=METHOD,
            batch_size=16,
            steps=100,
            games=games,
        )
        return lesson, random_weights(networks)


def noisy(weights: Weights, seed: int) -> Weights:
    """Other weights, all of them random: initially the policy is uniform and values are 0."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: x + jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype), weights)


@pytest.mark.parametrize("games", [12, 60])  # about 27 and 135 decisions, for 64 places
def test_decisions_are_those_of_the_games_in_order(games: int):
    lesson, weights = lesson_of(games)
    with precision(np.float32):
        found = jax.tree.map(np.asarray, jax.jit(lesson.collect)(weights, jnp.int32(3)))
        rollouts, inputs = jax.tree.map(
            np.asarray, lesson.networks.play(weights, jax.random.fold_in(lesson.key, 3), games)
        )
        values = np.asarray(evaluate(lesson.networks.value, weights[VALUE], inputs))[..., 0]
    rows = list[tuple[int, int, int]]()
    expected = list[tuple[float, float]]()
    for game in range(games):
        target = dict[tuple[int, int, int], float]()
        for player in (0, 1):
            own = np.flatnonzero(rollouts.acting[:, player, game])
            here = values[own, player, game]
            ahead = np.append(here[1:], rollouts.returns[player, game] / 1.5)
            for k, step in enumerate(own):
                later = (ahead - here)[k:]
                target[step, player, game] = here[k] + later @ METHOD.trace_decay ** np.arange(len(later))
        for row in sorted(target):
            rows.append(row)
            expected.append((target[row], target[row] - values[row]))
    index = np.array(rows)[np.arange(CAPACITY) % min(len(rows), CAPACITY)]
    assert (len(rows) < CAPACITY) == (games == 12)
    place = tuple(index.T)
    np.testing.assert_array_equal(found.inputs, inputs[place])
    np.testing.assert_array_equal(found.probability, rollouts.probability[place])
    np.testing.assert_array_equal(found.action, rollouts.action[place])
    chosen = np.array(expected)[np.arange(CAPACITY) % min(len(rows), CAPACITY)]
    np.testing.assert_allclose(found.target, chosen[:, 0], atol=1e-5)
    np.testing.assert_allclose(found.advantage, chosen[:, 1], atol=1e-5)


def test_the_loss_is_that_of_its_definition():
    lesson, weights = lesson_of(60)
    later, step = noisy(weights, 2), 27
    with precision(np.float32):
        decisions = jax.jit(lesson.collect)(weights, jnp.int32(0))
        loss = float(jax.jit(lesson.loss)(later, decisions, jnp.int32(step)))
        log = lesson.networks.log_policy(later[POLICY], decisions.inputs, decisions.legal)
        values = np.asarray(evaluate(lesson.networks.value, later[VALUE], decisions.inputs))[:, 0]
        rows = np.asarray(lesson._rows(jnp.int32(step)))
    policy, old = np.exp(np.asarray(log, float)), np.asarray(decisions.probability, float)
    temperature = 0.3 + (0.1 - 0.3) * step / 100
    total, num_clipped = 0.0, 0
    for row in rows:
        action, advantage = int(decisions.action[row]), float(decisions.advantage[row])
        ratio = policy[row, action] / old[row, action]
        bounded = min(max(ratio, 0.9), 1.1)
        num_clipped += ratio * advantage > bounded * advantage
        surrogate = min(ratio * advantage, bounded * advantage)
        entropy = -sum(p * math.log(p) for p in policy[row])
        divergence = sum(p * math.log(p / q) for p, q in zip(policy[row], old[row], strict=True))
        error = (values[row] - float(decisions.target[row])) ** 2
        total += 0.6 * error - surrogate - temperature * entropy + 0.4 * divergence
    assert 0 < num_clipped < len(rows)
    assert loss == pytest.approx(total / len(rows), abs=1e-5)


def test_every_epoch_takes_all_decisions_once():
    lesson, _ = lesson_of(60)
    with precision(np.float32):
        rows = np.asarray(jax.vmap(lesson._rows)(jnp.arange(12))).reshape(3, -1)
    for epoch in rows:
        np.testing.assert_array_equal(np.sort(epoch), np.arange(CAPACITY))
    assert len({int(epoch[0]) for epoch in rows}) == 3


def test_games_are_new_after_the_last_epoch():
    lesson, weights = lesson_of(30)
    with precision(np.float32):
        carry = jax.jit(lesson.carry)
        states = [carry(lesson.init(weights), weights, jnp.int32(0))]
        for step in range(1, 17):
            states.append(carry(states[-1], weights, jnp.int32(step)))
    new = [not np.array_equal(a.inputs, b.inputs) for a, b in itertools.pairwise(states)]
    assert np.flatnonzero(new).tolist() == [7, 15]  # from step 7 to 8, and from 15 to 16


def test_a_game_is_measured_under_the_uniform_policy():
    machine = Goofspiel(num_cards=3, returns_type="point_difference")
    uniform = Linear(machine, 0 * Linear.random(machine, 0).weights)
    games, found = enumerate_games(machine, uniform), measure_game(machine, 0)
    assert found.decisions == 4  # two tricks, both players; the last one is forced
    exact = math.sqrt(games.probability @ np.asarray(games.rollouts.returns)[0] ** 2)
    assert found.scale == pytest.approx(exact, rel=0.05) and exact != pytest.approx(1, abs=0.1)
