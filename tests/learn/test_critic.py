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
from jaxgadget.learn.continuations import Biased, Continuations, Learned, action_weights
from jaxgadget.learn.critic import NetworkCritic, critic_shape, load_critic, train_critic
from jaxgadget.learn.critic_lesson import (
    CRITIC,
    DIRECTIONS,
    BranchLesson,
    CriticTask,
    VTrace,
    VTraceLesson,
    draw_steps,
)
from jaxgadget.learn.options import TrainerConfig
from jaxgadget.learn.rollouts import Rollouts, play
from jaxgadget.networks.perceptron import Weights, evaluate, initial_weights
from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.network import NetworkPolicy, log_policy, policy_shape, state_policy, with_seat
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.states import states_at
from jaxgadget.util.precision import precision
from tests.learn.enumerated import Linear, enumerate_games

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


def table(policy: NetworkPolicy, tree: HistoryTree, given: Continuations, weights: Weights) -> Policy:
    """The portfolio whose values a critic learns, from the definition."""
    pair: list[Any] = []
    for player, infosets in enumerate(tree.infosets):
        owner, action = infosets.infoset[1:], infosets.action[1:]
        rows = policy.on(tree).probabilities[player]
        if isinstance(given, Biased):
            made = rows * np.asarray(given.action_weights, float)[:, action].T
        else:
            assert isinstance(given, Learned)
            features = np.asarray(policy.machine.features(states_at(tree, infosets.history)[1], player)).T
            inputs = np.concatenate([features, np.tile(np.eye(2)[player], (len(features), 1))], axis=1)
            with precision(np.float32):
                outputs = evaluate(given.shape, weights[DIRECTIONS], jnp.asarray(inputs, jnp.float32))
            directions = np.asarray(outputs, float).reshape(len(features), given.size - 1, -1)
            moves = directions[owner, :, action]
            norm = np.sqrt([np.bincount(owner, square) for square in np.square(moves).T]).T
            made = np.concatenate([rows, np.maximum(rows + moves / norm[owner], 1e-8)], axis=1)
        pair.append(normalise_rows(made, owner))
    return Policy(tree, (pair[0], pair[1]), tuple(map(str, range(given.size))))


def task(policy: NetworkPolicy, kind: str, batch_size: int = 8) -> tuple[CriticTask, Weights]:
    """Of a random critic and random continuations, K = 3."""
    machine = policy.machine
    shape = critic_shape(machine, 3, 8, 0)
    biased = Biased(action_weights=jnp.asarray(action_weights(machine.num_actions, 3, 4.0), jnp.float32))
    given = biased if kind == "biased" else Learned.of(policy.shape, 3, 8, 0)
    rng = np.random.default_rng(4)
    weights = {CRITIC: initial_weights(shape, 1), DIRECTIONS: given.initial_weights(2)}
    weights = jax.tree.map(lambda x: x + jnp.asarray(0.3 * rng.normal(size=x.shape), x.dtype), weights)
    made = CriticTask(
        policy=policy.weights,
        continuations=given,
        scale=jnp.float32(2),
        half=jnp.float32(0),
        key=jax.random.key(1),
        machine=machine,
        policy_shape=policy.shape,
        shape=shape,
        batch_size=batch_size,
    )
    return made, weights


def find_states(machine: StateMachine[Any], tree: HistoryTree, inputs: Any) -> tuple[Any, Any]:
    """Histories with moves, and the index among them of the states with given inputs `[n, 2F]`."""
    decisions = np.flatnonzero(tree.actor)
    state = states_at(tree, decisions)[1]
    features = np.concatenate([np.asarray(machine.features(state, player)) for player in (0, 1)]).T
    known = {row.astype(np.float32).tobytes(): number for number, row in enumerate(features)}
    assert len(known) == len(decisions)
    return decisions, np.array([known[row.astype(np.float32).tobytes()] for row in inputs])


@pytest.mark.parametrize(("name", "kind"), [(GAMES[0], "learned"), (GAMES[1], "biased")])
def test_targets_by_branching_are_unbiased(name: str, kind: str) -> None:
    """Their means at every state and pair of continuations are exact values, within 4.5 standard errors."""
    policy, size = network(name), 3
    machine, tree = policy.machine, enumerate_game(load(name))
    with precision(np.float32):
        made, weights = task(policy, kind, 40_000)
        lesson = BranchLesson(**vars(made))
        inputs, entries, returns = map(np.asarray, jax.jit(lesson.branch)(weights, jnp.int32(3)))
    decisions, found = find_states(machine, tree, inputs)  # none of them at the end of a game
    assert len(decisions) == len(np.unique(found))  # exploration reaches every state
    exact = ExactValues(table(policy, tree, made.continuations, weights))(tree, decisions)
    squared = dataclasses.replace(tree, payoff=tree.payoff**2, cache={})
    squares = ExactValues(table(policy, squared, made.continuations, weights))(squared, decisions)
    cell = (found * size + entries[0]) * size + entries[1]
    count = np.bincount(cell, minlength=exact.size)
    mean = np.bincount(cell, 2 * returns, minlength=exact.size) / np.maximum(count, 1)
    variance = np.maximum(squares - exact**2, 1e-9).ravel()
    enough = count * variance >= 3
    score = (mean - exact.ravel())[enough] * np.sqrt((count / variance)[enough])
    assert enough.sum() > 20
    assert np.abs(score).max() < 4.5
    assert np.square(score).mean() < 1.5
    assert np.ptp(exact, axis=(1, 2)).max() > 0.2  # continuations differ


def test_each_step_that_happened_is_as_probable_as_the_others_of_its_game() -> None:
    length = np.tile([1, 2, 5, 3], 10_000)
    step = np.asarray(draw_steps(jax.random.key(0), jnp.asarray(np.arange(5)[:, None] < length)))
    for steps in (1, 2, 3, 5):
        count = np.bincount(step[length == steps])
        np.testing.assert_allclose(count, 10_000 / steps, atol=4.5 * 50)
        assert len(count) == steps


@pytest.mark.parametrize(("name", "kind"), [(GAMES[0], "learned"), (GAMES[1], "biased")])
def test_expected_targets_by_v_trace_are_exact(name: str, kind: str) -> None:
    """Over all games of another policy: without clips for any values, with c̄ = 1 for the exact ones."""
    policy = network(name)
    machine, tree = policy.machine, enumerate_game(load(name))
    games = enumerate_games(machine, Linear.random(machine, 0))
    rollouts: Rollouts = jax.tree.map(np.asarray, games.rollouts)
    with precision(np.float32):
        small = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == np.float64 else x, rollouts)
        small = jax.tree.map(jnp.asarray, small)
        made, weights = task(policy, kind)
        values = made.values(weights[CRITIC], small)
        alive = np.asarray(small.acting.any(axis=1) | (small.outcome >= 0))
    both = np.moveaxis(rollouts.features, 1, 2)[alive].reshape(alive.sum(), -1)
    decisions, found = find_states(machine, tree, both)
    exact = ExactValues(table(policy, tree, made.continuations, weights))(tree, decisions)
    at_states = np.zeros((*alive.shape, 3, 3), np.float32)
    at_states[alive] = exact[found] / 2

    def expected(method: VTrace, values: Any) -> Any:
        with precision(np.float32):
            lesson = VTraceLesson(**vars(made), method=method)
            targets = 2 * np.asarray(lesson.targets(weights, values, small), float)
        assert not targets[~alive].any()
        reach = np.broadcast_to(games.probability, alive.shape)[alive]
        total = np.bincount(found, reach)
        sums = [np.bincount(found, reach * column) for column in targets[alive].reshape(-1, 9).T]
        return (np.array(sums) / total).T.reshape(-1, 3, 3)

    infinite = float("inf")
    np.testing.assert_allclose(expected(VTrace(c_bar=infinite), values), exact, atol=1e-5)
    np.testing.assert_allclose(expected(VTrace(), jnp.asarray(at_states)), exact, atol=1e-5)
    assert np.abs(expected(VTrace(), values) - exact).max() > 0.01  # c̄ = 1 relies on the values
    assert np.abs(expected(VTrace(rho_bar=1.0), jnp.asarray(at_states)) - exact).max() > 0.01
    assert np.ptp(exact, axis=(1, 2)).max() > 0.2


def test_directions_are_centres_of_the_changes_of_a_step() -> None:
    """Their loss, game by game: the policy after a small step, and the closest direction of each player."""
    policy = network("leduc_poker")
    with precision(np.float32):
        made, weights = task(policy, "learned", 24)
        key, given = jax.random.key(3), made.continuations
        loss = float(jax.jit(made.directions_loss)(weights, key))
        own = state_policy(policy.machine, policy.shape, policy.weights)
        games: Rollouts = play(policy.machine, own, key, jnp.int32(0), 24)
        inputs = jnp.stack([with_seat(games.features[:, seat], seat) for seat in (0, 1)], axis=1)
        values = np.asarray(made.values(weights[CRITIC], games), float)[..., 0, 0]
        gain = np.asarray(games.returns[0], float) / 2 - values

        def score(policy_weights: Weights) -> jax.Array:
            log = log_policy(policy.shape, policy_weights, inputs, games.legal)
            chosen = jnp.take_along_axis(log, jnp.maximum(games.action, 0)[..., None].astype(int), -1)[..., 0]
            signed = jnp.asarray(np.stack([gain, -gain], axis=1), jnp.float32)
            return jnp.sum(jnp.where(games.acting, chosen * signed, 0))

        def moved(rate: float) -> Any:
            ahead = jax.tree.map(lambda x, g: x + rate * g, policy.weights, jax.grad(score)(policy.weights))
            return np.exp(np.asarray(log_policy(policy.shape, ahead, inputs, games.legal), float))

        assert isinstance(given, Learned)
        outputs = np.asarray(evaluate(given.shape, weights[DIRECTIONS], inputs), float)
    change, acting, legal = moved(1e-4) - moved(-1e-4), np.asarray(games.acting), np.asarray(games.legal)
    directions, total, winners = outputs.reshape(*acting.shape, 2, -1), 0.0, set[int]()
    for player in (0, 1):
        for game in range(24):
            own_moves = np.flatnonzero(acting[:, player, game])
            if not len(own_moves):
                continue
            apart = np.zeros(2)
            for k in (0, 1):
                for t in own_moves:
                    at = legal[t, player, game]
                    d, c = directions[t, player, game, k, at], change[t, player, game, at]
                    apart[k] += np.linalg.norm(d / np.linalg.norm(d) - c / np.linalg.norm(c))
            winners.add(k := int(np.argmin(apart)))
            for t in own_moves:
                at = legal[t, player, game]
                d, c = directions[t, player, game, k, at], change[t, player, game, at]
                total += np.square(d - c / np.linalg.norm(c)).sum()
    assert winners == {0, 1}
    assert loss == pytest.approx(total / acting.sum(), rel=1e-2)


@pytest.mark.parametrize(
    ("targets", "kind", "games"),
    [
        ("branch", "biased", 512),
        pytest.param("vtrace", "biased", 64, marks=pytest.mark.slow),
        pytest.param("vtrace", "learned", 64, marks=pytest.mark.slow),
    ],
)
def test_training_learns_the_values(targets: Any, kind: Any, games: int) -> None:
    """Measured: 0.067, 0.055 and 0.095."""
    policy = network("kuhn_poker")
    tree = enumerate_game(load("kuhn_poker"))
    decisions = np.flatnonzero(tree.actor & SIMULTANEOUS)
    config = TrainerConfig(steps=500, batch_size=games, width=32, depth=1, learning_rate=3e-3)
    factor = 4.0 if kind == "biased" else None
    critic = train_critic(
        policy, 3, continuations=kind, factor=factor, targets=targets, config=config, progress=False
    ).critic
    portfolio = table(policy, tree, critic.continuations, critic.weights)
    for found, expected in zip(
        critic.portfolio(policy, tree).probabilities, portfolio.probabilities, strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)
    exact = ExactValues(portfolio)(tree, decisions)
    rmse = np.sqrt(np.square(critic(tree, decisions) - exact).mean())
    assert rmse < 0.15 and exact.std() > 0.9
    with pytest.raises(ValueError, match="expected the network"):
        critic.portfolio(network("kuhn_poker", 1), tree)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({}, id="given"),
        pytest.param({"continuations": "learned", "targets": "vtrace"}, id="learned", marks=pytest.mark.slow),
    ],
)
def test_files_resume_and_what_is_refused(tmp_path: Any, arguments: dict[str, Any]) -> None:
    policy = network("kuhn_poker")

    def train(folder: Any = None, policy: NetworkPolicy = policy) -> NetworkCritic:
        return train_critic(policy, 3, **arguments, config=SMALL, folder=folder, progress=False).critic

    whole, folder = train(), tmp_path / "critic"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "block_until_ready", _stops_after(2))
        with pytest.raises(KeyboardInterrupt):
            train(folder)
    with pytest.raises(ValueError, match="not finished"):
        load_critic(folder, policy.machine)
    resumed, tree = train(folder), enumerate_game(policy.machine)
    for other in (resumed, loaded := load_critic(folder, policy.machine)):
        jax.tree.map(np.testing.assert_array_equal, other.weights, whole.weights)
    for found, expected in zip(
        loaded.portfolio(policy, tree).probabilities, whole.portfolio(policy, tree).probabilities, strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="is for 'kuhn_poker', not for 'leduc_poker'"):
        load_critic(folder, load("leduc_poker"))
    with pytest.raises(ValueError, match="policy"):
        train(folder, network("kuhn_poker", 1))
    other = {"targets": "branch"} if arguments else {"continuations": "learned"}
    with pytest.raises(ValueError, match="another training"):
        train_critic(policy, 3, **arguments | other, config=SMALL, folder=folder, progress=False)
    description = json.loads((folder / "network.json").read_text())
    assert description["num_entries"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_entries": 4}, "num_entries=4"),
        ({"factor": 0}, "factor=0"),
        ({"continuations": "learned", "factor": 2.0}, "factor=2.0 has no effect"),
        ({"continuations": "learned", "num_entries": 1}, "num_entries=1"),
        ({"continuations": "given"}, "continuations='given'"),
        ({"targets": "td"}, "targets='td'"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_critic(network("kuhn_poker"), **{"num_entries": 2, "config": SMALL} | arguments)
    for setting in ({"rho_bar": 0}, {"c_bar": -1}, {"decay": 2}, {"exploration": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(setting))):
            VTrace(**setting)


def _stops_after(calls: int) -> Any:
    """`jax.block_until_ready` that is interrupted after some calls."""
    original, left = jax.block_until_ready, [calls]

    def block(value: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return original(value)

    return block


@pytest.mark.slow
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
