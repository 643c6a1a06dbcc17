"""R-NaD: its networks' states and its loss, from their definitions."""

import dataclasses
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import enumerate_game
from jaxgadget.games.game import PLAYER_1, SIMULTANEOUS
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.actor_critic import ActorCritic
from jaxgadget.learn.decisions import Decisions
from jaxgadget.learn.estimators import neurd_loss
from jaxgadget.learn.rnad import Networks, RNaD, RNaDLesson
from jaxgadget.networks.perceptron import Weights, evaluate
from jaxgadget.policy.network import POLICY, policy_shape
from jaxgadget.util.precision import precision
from jaxgadget.values.histories import conditional_chance
from tests.learn.test_ppo import kuhn_networks, noisy, random_weights

GAMES = 24
METHOD = RNaD(regularisation=0.3, swap=4, threshold=0.2, target_rate=0.25, value_weight=0.7)


def lesson_of(capacity: int = 72) -> tuple[RNaDLesson, Weights]:
    networks = kuhn_networks()
    with precision(np.float32):
        lesson = RNaDLesson(
            key=jax.random.key(5),
            scale=jnp.float32(1.5),
            networks=networks,
            method=METHOD,
            batch_size=GAMES,
            capacity=capacity,
        )
        return lesson, random_weights(networks)


def test_the_target_follows_and_replaces_the_regularisation_policy():
    lesson, first = lesson_of()
    with precision(np.float32):
        weights = [noisy(first, seed) for seed in range(10)]
        carried = lesson.init(first)
        target, regular, before = first, first[POLICY], first[POLICY]
        for step in range(10):
            carried = lesson.carry(carried, weights[step], jnp.int32(step))
            target = jax.tree.map(lambda old, new: 0.75 * old + 0.25 * new, target, weights[step])
            if step in (4, 8):
                regular, before = target[POLICY], regular
            for found, expected in zip(
                jax.tree.leaves(carried), jax.tree.leaves((target, regular, before)), strict=True
            ):
                np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("step", "capacity"), [(1, 72), (3, 72), (3, 31)])
def test_the_loss_is_that_of_its_definition(step: int, capacity: int):
    """Game by game in float64: π_reg is mixed, or pure; or the decisions exceed the usual room."""
    lesson, weights = lesson_of(capacity)
    networks = lesson.networks
    with precision(np.float32):
        carried = Networks(noisy(weights, 2), noisy(weights, 3)[POLICY], noisy(weights, 4)[POLICY])
        loss = float(jax.jit(lesson.loss)(weights, carried, jnp.int32(step)))
        key = jax.random.fold_in(lesson.key, step)
        games, inputs = jax.tree.map(np.asarray, networks.play(weights, key, GAMES))
        logits, regular, before = (
            np.asarray(evaluate(networks.policy, policy, inputs), float)
            for policy in (weights[POLICY], carried.regular, carried.before)
        )
        values, base = (np.asarray(networks.values(w, inputs), float) for w in (weights, carried.target))

    def log_softmax(x: np.ndarray) -> np.ndarray:
        return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))

    share = min(1.0, 2 * step / 4)
    log = log_softmax(logits)
    penalty = 0.3 * (log - share * log_softmax(regular) - (1 - share) * log_softmax(before))
    policy = np.exp(log)
    losses: list[list[float]] = [[], []]
    num_held = 0
    assert (games.acting.sum() <= capacity) == (capacity == 72)
    for game in range(GAMES):
        lost = np.where(games.acting[..., game], (policy * penalty)[:, :, game].sum(axis=-1), 0)
        for player in (0, 1):
            future = games.returns[player, game] / 1.5
            for t in reversed(range(len(lost))):
                future += lost[t, 1 - player] - lost[t, player]
                if games.acting[t, player, game]:
                    at = (t, player, game)
                    action = games.action[at]
                    q = base[at] - penalty[at]
                    q[action] += (future - base[at]) / policy[at][action]
                    force = q - policy[at] @ q
                    centred = logits[at] - logits[at].mean()
                    held = np.where(force < 0, centred < -0.2, centred > 0.2)
                    num_held += held.any()
                    neurd = -centred @ np.where(held, 0, force)
                    losses[player].append(neurd + 0.7 * (values[at] - future) ** 2)
    assert num_held > 1
    assert loss == pytest.approx(sum(np.mean(each) for each in losses), rel=1e-4)


def exact_gradient(lesson: RNaDLesson, weights: Weights, carried: Networks, step: int) -> Weights:
    """Gradient of the expected loss, up to the variance of its values' targets, from the enumerated tree."""
    method, networks = lesson.method, lesson.networks
    tree = enumerate_game(networks.machine)
    decisions = Decisions.of(tree)
    inputs, legal = jnp.asarray(decisions.inputs), jnp.asarray(decisions.legal)
    num_infosets, num_actions = legal.shape
    log = np.asarray(networks.log_policy(weights[POLICY], inputs, legal), float)
    regular = np.asarray(lesson._regular(carried, inputs, legal, jnp.int32(step)), float)
    policy = np.where(decisions.legal, np.exp(log), 0)
    penalty = np.where(decisions.legal, method.regularisation * (log - regular), 0)
    lost = np.sum(policy * penalty, axis=1)
    acts = tree.actor & SIMULTANEOUS
    assert (acts != SIMULTANEOUS).all()
    owner = np.where(acts == PLAYER_1, 1, 0)
    row = np.where(acts > 0, tree.infoset[owner, np.arange(len(acts))] + owner * len(tree.infosets[0]), -1)
    parent, drawn = tree.parent, conditional_chance(tree, np.arange(len(acts)))
    action = np.maximum(tree.action[0], tree.action[1])  # of the player who acts at the parent
    moved = np.where(acts[parent] > 0, policy[row[parent], action], drawn)
    moved[0] = 1
    reach = np.ones(len(acts))
    for h in range(1, len(acts)):
        reach[h] = reach[parent[h]] * moved[h]
    total = tree.payoff / float(lesson.scale)  # player 0's, with the rewards from here on
    sign = np.where(owner == 1, -1.0, 1.0)
    for h in reversed(range(len(acts))):
        if acts[h]:
            total[h] -= sign[h] * lost[row[h]]
        if h:
            total[parent[h]] += moved[h] * total[h]
    own_total = np.zeros((num_infosets, num_actions))
    weight = np.zeros(num_infosets)
    np.add.at(weight, row[acts > 0], reach[acts > 0])
    below = np.flatnonzero(acts[parent] > 0)
    below = below[below > 0]
    np.add.at(own_total, (row[parent[below]], action[below]), (reach[parent] * sign[parent] * total)[below])
    after = own_total / np.maximum(weight, 1e-300)[:, None]
    target = np.sum(policy * after, axis=1) - lost
    seat = np.repeat([0, 1], [len(each) for each in tree.infosets])
    share = weight / np.bincount(seat, weight)[seat]
    share, values = jnp.asarray(share, jnp.float32), jnp.asarray(after - penalty, jnp.float32)
    targets = jnp.asarray(target, jnp.float32)

    def loss(weights: Weights) -> jax.Array:
        logits = evaluate(networks.policy, weights[POLICY], inputs)
        neurd = neurd_loss(logits, legal, values, threshold=method.threshold)
        error = jnp.square(networks.values(weights, inputs) - targets)
        return jnp.sum(share * (neurd + method.value_weight * error))

    return jax.grad(loss)(weights)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [KuhnPoker(), LeducPoker()], ids=lambda machine: machine.name)
def test_the_sampled_gradient_is_the_exact_one_within_its_error(machine: StateMachine[Any]):
    """Means over batches of games, with values, π_reg and targets that have nothing to do with the policy."""
    shape = policy_shape(machine, 8, 0)
    networks = ActorCritic(machine=machine, policy=shape, value=dataclasses.replace(shape, outputs=1))
    method, batches = dataclasses.replace(METHOD, threshold=1e3), 400
    with precision(np.float32):
        weights = random_weights(networks)
        carried = Networks(noisy(weights, 2), noisy(weights, 3)[POLICY], noisy(weights, 4)[POLICY])
        lesson = RNaDLesson(
            key=jax.random.key(7),
            scale=jnp.float32(2.0),
            networks=networks,
            method=method,
            batch_size=64,
            capacity=64 * 5,
        )
        exact = jax.flatten_util.ravel_pytree(exact_gradient(lesson, weights, carried, 1))[0]

        @jax.jit
        def sample(key: jax.Array) -> jax.Array:
            own = dataclasses.replace(lesson, key=key)
            return jax.flatten_util.ravel_pytree(jax.grad(own.loss)(weights, carried, jnp.int32(1)))[0]

        keys = jax.random.split(jax.random.key(8), batches)
        sampled = np.stack([sample(key) for key in keys]).astype(float)
    error = sampled.std(axis=0) / np.sqrt(batches)
    apart = np.abs(sampled.mean(axis=0) - np.asarray(exact, float))
    assert np.linalg.norm(exact) > 10 * np.linalg.norm(error) / 4
    assert (apart <= 4.5 * error + 1e-6).all()
