"""Critics: targets against exact values, training, search with a critic, files."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgadget import ExactValues, MaxMargin, Policy, SearchPlayer, enumerate_game, load, play_players
from jaxgadget.games.game import SIMULTANEOUS
from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.critic import (
    CriticLesson,
    NetworkCritic,
    action_weights,
    critic_shape,
    load_critic,
    train_critic,
)
from jaxgadget.learn.options import TrainerConfig
from jaxgadget.networks.perceptron import initial_weights
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.network import NetworkPolicy, policy_shape
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.states import states_at
from jaxgadget.util.precision import precision

GAMES = ["kuhn_poker", "goofspiel(imp_info=True,num_cards=3)"]
SMALL = TrainerConfig(steps=60, batch_size=128, width=16, depth=0, every=20)


def network(name: str, seed: int = 0) -> NetworkPolicy:
    """A random policy network that is not uniform."""
    machine = load(name)
    assert isinstance(machine, StateMachine)
    shape = policy_shape(machine, 16, 0)
    with precision(np.float32):
        leaves, structure = jax.tree.flatten(initial_weights(shape, seed))
        keys = jax.random.split(jax.random.key(seed), len(leaves))
        noisy = [x + 0.5 * jax.random.normal(key, x.shape) for x, key in zip(leaves, keys, strict=True)]
    return NetworkPolicy(machine=machine, shape=shape, weights=jax.tree.unflatten(structure, noisy))


def continuations(policy: NetworkPolicy, tree: HistoryTree, size: int, factor: float) -> Policy:
    """The portfolio whose values a critic learns, as a table."""
    table, weights = policy.on(tree), action_weights(policy.machine.num_actions, size, factor)
    pair: list[Any] = []
    for rows, infosets in zip(table.probabilities, tree.infosets, strict=True):
        biased = rows * weights[:, infosets.action[1:]].T
        pair.append(normalise_rows(biased, infosets.infoset[1:]))
    return Policy(tree, (pair[0], pair[1]), tuple(map(str, range(size))))


@pytest.mark.parametrize("name", GAMES)
def test_targets_are_unbiased(name: str) -> None:
    """Their means at every state and pair of continuations are exact values, within 4.5 standard errors."""
    policy, size = network(name), 3
    machine, tree = policy.machine, enumerate_game(load(name))
    with precision(np.float32):
        lesson = CriticLesson(
            policy=policy.weights,
            action_weights=jnp.asarray(action_weights(machine.num_actions, size, 4.0), jnp.float32),
            scale=jnp.float32(2),
            half=jnp.float32(0),
            key=jax.random.key(1),
            machine=machine,
            policy_shape=policy.shape,
            shape=critic_shape(machine, size, 8, 0),
            batch_size=40_000,
        )
        inputs, entries, returns, acts = map(np.asarray, jax.jit(lesson.branch)(jnp.int32(3)))
    decisions = np.flatnonzero(tree.actor)  # and chance nodes
    exact = ExactValues(continuations(policy, tree, size, 4.0))(tree, decisions)
    squared = dataclasses.replace(tree, payoff=tree.payoff**2, cache={})
    squares = ExactValues(continuations(policy, squared, size, 4.0))(squared, decisions)
    state = states_at(tree, decisions)[1]
    features = np.concatenate([np.asarray(machine.features(state, player)) for player in (0, 1)]).T
    known = {row.astype(np.float32).tobytes(): number for number, row in enumerate(features)}
    found = np.array([known[row.tobytes()] for row in inputs[acts]])
    assert len(known) == len(decisions) == len(np.unique(found))  # exploration reaches every state
    cell = (found * size + entries[0, acts]) * size + entries[1, acts]
    count = np.bincount(cell, minlength=exact.size)
    mean = np.bincount(cell, 2 * returns[acts], minlength=exact.size) / np.maximum(count, 1)
    variance = np.maximum(squares - exact**2, 1e-9).ravel()
    enough = count * variance >= 3
    score = (mean - exact.ravel())[enough] * np.sqrt((count / variance)[enough])
    assert enough.sum() > 20
    assert np.abs(score).max() < 4.5
    assert np.square(score).mean() < 1.5
    assert np.ptp(exact, axis=(1, 2)).max() > 0.2  # continuations differ


def test_training_learns_the_values() -> None:
    policy, size = network("kuhn_poker"), 2
    tree = enumerate_game(load("kuhn_poker"))
    decisions = np.flatnonzero(tree.actor & SIMULTANEOUS)
    config = TrainerConfig(steps=1000, batch_size=256, width=32, depth=1, learning_rate=3e-3)
    critic = train_critic(policy, size, factor=4.0, config=config, progress=False).critic
    exact = ExactValues(continuations(policy, tree, size, 4.0))(tree, decisions)
    rmse = np.sqrt(np.square(critic(tree, decisions) - exact).mean())
    assert rmse < 0.1 < exact.std()


def test_files_resume_and_what_is_refused(tmp_path: Any) -> None:
    policy = network("kuhn_poker")
    whole = train_critic(policy, 2, config=SMALL, progress=False).critic
    folder = tmp_path / "critic"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "block_until_ready", _stops_after(2))
        with pytest.raises(KeyboardInterrupt):
            train_critic(policy, 2, config=SMALL, folder=folder, progress=False)
    with pytest.raises(ValueError, match="not finished"):
        load_critic(folder, policy.machine)
    resumed = train_critic(policy, 2, config=SMALL, folder=folder, progress=False).critic
    for other in (resumed, load_critic(folder, policy.machine)):
        jax.tree.map(np.testing.assert_array_equal, other.weights, whole.weights)
    with pytest.raises(ValueError, match="is for 'kuhn_poker', not for 'leduc_poker'"):
        load_critic(folder, load("leduc_poker"))
    with pytest.raises(ValueError, match="policy"):
        train_critic(network("kuhn_poker", 1), 2, config=SMALL, folder=folder, progress=False)
    description = json.loads((folder / "network.json").read_text())
    assert description["num_entries"] == 2
    assert train_critic(policy, 1, config=SMALL, progress=False).critic.num_entries == 1
    for arguments, message in (({"num_entries": 4}, "num_entries"), ({"factor": 0}, "factor")):
        with pytest.raises(ValueError, match=message):
            train_critic(policy, **{"num_entries": 2, "config": SMALL} | arguments)


def _stops_after(calls: int) -> Any:
    """`jax.block_until_ready` that is interrupted after some calls."""
    original, left = jax.block_until_ready, [calls]

    def block(value: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return original(value)

    return block


def test_search_with_a_critic_plays_without_a_tree() -> None:
    policy = network("goofspiel(imp_info=True,num_cards=4,points_order=descending)")
    critic = train_critic(policy, 3, config=SMALL, progress=False).critic
    search = SearchPlayer(policy, MaxMargin(), values=critic, iterations=20)
    played = play_players(policy.machine, {"network": policy, "search": search}, matches=3, seed=0)
    assert search.searches(0) >= 3 and search.searches(1) >= 3
    assert np.isfinite(played.table["mean_return"]).all()
    other = dataclasses.replace(critic, machine=load("kuhn_poker"))
    assert isinstance(other, NetworkCritic)
    with pytest.raises(ValueError, match="is for 'kuhn_poker'"):
        lost = SearchPlayer(policy, MaxMargin(), values=other, iterations=20)
        play_players(policy.machine, {"network": policy, "search": lost}, matches=1, seed=0)
