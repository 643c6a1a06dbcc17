"""Estimators: exact expectations over all games, and sampled policy gradients."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.estimators import action_values, neurd_loss, v_trace
from jaxgadget.learn.rollouts import Rollouts, play, take_chosen
from jaxgadget.util.precision import precision
from tests.learn.enumerated import Games, Linear, enumerate_games

GAMES = [KuhnPoker(), Goofspiel(num_cards=3, imp_info=True, points_order="descending")]


def ratios(machine: StateMachine[Any], behaviour: Linear, target: Linear) -> tuple[Games, Any]:
    """All games with one policy's probabilities, and the other one's ratios to them."""
    games, others = enumerate_games(machine, behaviour), enumerate_games(machine, target)
    assert games.moves == others.moves
    with precision(np.float64):
        now = take_chosen(others.rollouts.probability, games.rollouts.action)
        return games, np.asarray(jnp.where(games.rollouts.acting, now / games.rollouts.chosen, 1))


def by_infostate(games: Games, weight: Any, x: Any) -> tuple[Any, Any]:
    """Means of `x[T, 2, n]` over the decisions at each infostate, games weighted, and the weights' sums."""
    acting, size = np.asarray(games.rollouts.acting), games.infostate.max() + 1
    weight = np.broadcast_to(weight, acting.shape)[acting]
    total = np.bincount(games.infostate[acting], weight, size)
    sums = np.bincount(games.infostate[acting], weight * np.asarray(x)[acting], size)
    return np.divide(sums, total, out=np.zeros(size), where=total > 0), total


@pytest.mark.parametrize("machine", GAMES, ids=str)
def test_expected_v_trace_without_clips_is_exact(machine: StateMachine[Any]):
    """The expectation given an infostate, over the games of one policy, is the value of the other one there.

    Histories have the playing policy's reach, and the other policy plays from there: the
    returns, weighted by the ratios of all later moves.
    """
    games, ratio = ratios(machine, Linear.random(machine, 0), Linear.random(machine, 1))
    rollouts = games.rollouts
    rng = np.random.default_rng(0)
    with precision(np.float64):
        values = rng.normal(size=games.infostate.max() + 1)[games.infostate]
        rewards = rng.normal(size=games.infostate.max() + 1)[games.infostate]
        found = v_trace(values, rollouts.returns, rollouts.acting, ratio=ratio, rewards=rewards)
    later = np.cumprod((ratio[:, 0] * ratio[:, 1])[::-1], axis=0)[::-1][:, None]
    gained = np.cumsum(rewards[::-1], axis=0)[::-1] + np.asarray(rollouts.returns)
    exact, reached = by_infostate(games, games.probability, later * gained)
    mean, _ = by_infostate(games, games.probability, found.value)
    assert (reached > 0).any()
    np.testing.assert_allclose(mean, exact, atol=1e-12)


@pytest.mark.parametrize("machine", GAMES, ids=str)
def test_expected_values_of_actions_are_exact(machine: StateMachine[Any]):
    """And so is the advantage's covariance with the score, which is the policy gradient."""
    games, ratio = ratios(machine, Linear.random(machine, 0), Linear.random(machine, 1))
    rollouts = games.rollouts
    rng = np.random.default_rng(0)
    with precision(np.float64):
        values = rng.normal(size=games.infostate.max() + 1)[games.infostate]
        targets = v_trace(values, rollouts.returns, rollouts.acting, ratio=ratio)
        found = action_values(values, targets.outcome, rollouts.action, rollouts.probability)
    own_later = np.cumprod(ratio[::-1], axis=0)[::-1]
    others = own_later[:, ::-1] * np.concatenate([own_later[1:], np.ones_like(own_later[:1])])
    for action in range(machine.num_actions):
        mean, reached = by_infostate(games, games.probability, found[..., action])
        took = np.asarray(rollouts.action) == action
        weight = games.probability * took / np.maximum(np.asarray(rollouts.probability)[..., action], 1e-300)
        sums, total = by_infostate(games, weight, others * np.asarray(rollouts.returns))
        possible = total > 0
        np.testing.assert_allclose(
            mean[possible], (sums * total / np.maximum(reached, 1e-300))[possible], atol=1e-11
        )


def test_clipped_v_trace_by_hand():
    """Player 0 decides twice, player 1 between its decisions; recursion of Espeholt et al. (2018), Eq. 1."""
    acting = jnp.array([[1, 0], [0, 1], [1, 0]], bool)[:, :, None]
    with precision(np.float64):
        values = jnp.array([[0.5, 0], [0, -0.25], [0.75, 0]])[:, :, None]
        ratio = jnp.array([[0.5, 1], [1, 3.0], [4.0, 1]])[:, :, None]
        returns = jnp.array([[2.0], [-2.0]])
        found = v_trace(values, returns, acting, ratio=ratio, decay=0.5, rho_bar=2.0, c_bar=1.0)
    last = 0.75 + 2.0 * (2.0 - 0.75)
    first = 0.5 + 1.5 * (0.75 - 0.5) + 0.5 * 1.0 * (last - 0.75)
    other = -0.25 + 2.0 * (-2.0 + 0.25)
    expected = np.array([[first, 0], [0, other], [last, 0]])
    np.testing.assert_allclose(found.value[..., 0], expected, atol=1e-15)
    outcomes = np.array([[3.0 * last, 0], [0, 4.0 * -2.0], [2.0, 0]])
    np.testing.assert_allclose(found.outcome[..., 0], outcomes, atol=1e-15)


def test_advantages_are_those_of_gae():
    """The sum of temporal differences, discounted by λ (Schulman et al. 2016, Eq. 16)."""
    games = enumerate_games(GAMES[1], Linear.random(GAMES[1], 0))
    acting, returns = games.rollouts.acting, np.asarray(games.rollouts.returns)
    with precision(np.float64):
        values = np.random.default_rng(1).normal(size=games.infostate.max() + 1)[games.infostate]
        advantage = np.asarray(v_trace(values, games.rollouts.returns, acting, decay=0.8).value) - values
    for player in (0, 1):
        for game in range(returns.shape[1]):
            own = np.flatnonzero(np.asarray(acting)[:, player, game])
            here = values[own, player, game]
            difference = np.append(here[1:], returns[player, game]) - here
            for k, step in enumerate(own):
                expected = sum(0.8**j * d for j, d in enumerate(difference[k:]))
                assert advantage[step, player, game] == pytest.approx(expected)


def gradient_by_game(machine: StateMachine[Any], weights: Any, rollouts: Rollouts, values: Any) -> Any:
    """`[n, …]` score × advantage of every game, summed over decisions; λ = 1."""

    def log_probability(weights: Any, game: Any) -> Any:
        features, legal, action, acting, advantage = game
        logits = jnp.einsum("paf,tpf->tpa", weights, features)
        logs = jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf), axis=-1)
        index = jnp.maximum(action, 0)[..., None].astype(int)
        chosen = jnp.take_along_axis(logs, index, axis=-1)[..., 0]
        return jnp.sum(jnp.where(acting, chosen, 0) * advantage)

    advantage = v_trace(values, rollouts.returns, rollouts.acting).value - values
    game = (
        rollouts.features.astype(values.dtype),
        rollouts.legal,
        rollouts.action,
        rollouts.acting,
        advantage,
    )
    return jax.vmap(jax.grad(log_probability), in_axes=(None, (2, 2, 2, 2, 2)))(weights, game)


@pytest.mark.parametrize("machine", GAMES, ids=str)
def test_sampled_policy_gradient_is_the_exact_one_within_its_error(machine: StateMachine[Any]):
    """The exact gradient of both players' values by their own weights: by the games' probabilities."""
    policy, n = Linear.random(machine, 3), 20_000
    games = enumerate_games(machine, policy)
    with precision(np.float64):

        def value(weights: Any) -> Any:
            logits = jnp.einsum("paf,tpnf->tpna", weights, games.rollouts.features.astype(jnp.float64))
            rows = jax.nn.softmax(jnp.where(games.rollouts.legal, logits, -jnp.inf), axis=-1)
            now = jnp.where(games.rollouts.acting, take_chosen(rows, games.rollouts.action), 1)
            chance = games.probability / np.prod(games.rollouts.chosen, axis=(0, 1))
            fixed = jax.lax.stop_gradient(now)
            reach = [chance * jnp.prod(now[:, player] * fixed[:, 1 - player], axis=0) for player in (0, 1)]
            return jnp.sum(jnp.stack(reach) * games.rollouts.returns)

        exact = jax.grad(value)(jnp.asarray(policy.weights))
        baseline = 0.1 * games.rollouts.features.sum(axis=-1).astype(jnp.float64)
        everywhere = gradient_by_game(machine, jnp.asarray(policy.weights), games.rollouts, baseline)
        expected = np.einsum("n,n...->...", games.probability, everywhere)
    np.testing.assert_allclose(expected, exact, atol=1e-12)
    with precision(np.float32):
        weights = jnp.asarray(policy.weights, jnp.float32)
        run = jax.jit(lambda key: play(machine, Linear(machine, weights), key, jnp.int32(0), n))
        rollouts = run(jax.random.key(1))
        values = 0.1 * rollouts.features.sum(axis=-1).astype(jnp.float32)
        sampled = np.asarray(gradient_by_game(machine, weights, rollouts, values), np.float64)
    error = sampled.std(axis=0) / np.sqrt(n)
    assert np.count_nonzero(exact) > 10
    assert (abs(sampled.mean(axis=0) - np.asarray(exact)) <= 4 * error + 1e-6).all()


def test_neurd_moves_logits_by_advantages_within_its_bounds():
    legal = np.array([True, True, False, True])
    logits, values = np.array([0.5, -0.5, 9.0, 0.0]), np.array([4.0, -6.0, 50.0, 2.5])
    policy = np.exp(logits[legal]) / np.exp(logits[legal]).sum()
    advantage = values[legal] - policy @ values[legal]
    assert advantage[0] > 0.5 and advantage[1] < -0.5 and advantage[2] > 0.5

    def change(logits: Any, threshold: float, clip: float) -> Any:
        """Of the legal logits."""
        with precision(np.float64):
            loss = np.asarray(jax.grad(neurd_loss)(logits, legal, values, threshold=threshold, clip=clip))
        assert loss[2] == 0
        return -loss[legal]

    def centred(force: Any) -> Any:
        return np.array(force) - np.mean(force)

    np.testing.assert_allclose(change(logits, 2.0, np.inf), centred(advantage), atol=1e-12)
    np.testing.assert_allclose(change(logits, 0.51, 0.5), centred([0.5, -0.5, 0.5]), atol=1e-12)
    # Logits 0 and 1 are outside of [-β, β] and would move further, but those of -logits inwards.
    np.testing.assert_allclose(change(logits, 0.49, 0.5), centred([0.0, 0.0, 0.5]), atol=1e-12)
    np.testing.assert_allclose(change(-logits, 0.49, 0.5), centred([0.5, -0.5, 0.5]), atol=1e-12)
