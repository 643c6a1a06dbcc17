"""R-NaD: its networks' states and its loss, from their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.learn.rnad import Networks, RNaD, RNaDLesson
from jaxgadget.networks.perceptron import Weights, evaluate
from jaxgadget.policy.network import POLICY
from jaxgadget.util.precision import precision
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
    """Game by game in float64: π_reg is mixed, or pure; or only the first games fit."""
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
    used = np.cumsum(games.acting.sum(axis=(0, 1))) <= capacity
    assert used.all() == (capacity == 72)
    for game in np.flatnonzero(used):
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
