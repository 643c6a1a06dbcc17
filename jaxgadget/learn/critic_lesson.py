"""Lessons of critics: targets for the values of states under all pairs of continuations.

`BranchLesson` plays every game on under one random pair of continuations from a random state: an unbiased
target of one value. `VTraceLesson` plays all games by one policy and corrects for the continuations by
V-trace, as Kubíček, Burch and Lisý (2024, SePoT): targets of all K × K values of all states of a game.

Learned continuations follow the changes of the policy in its training, as in the public implementation of
SePoT: those of a player's decisions in a game go to the closest one. There the policy is trained along with
the critic; here it is given, and its changes are those that a step of gradient ascent on a batch of its games
would make, to first order.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxgadget.games.machine import StateMachine, StateStrategy
from jaxgadget.learn.continuations import Continuations, Learned
from jaxgadget.learn.estimators import state_v_trace
from jaxgadget.learn.options import check_number
from jaxgadget.learn.rollouts import Rollouts, play, states_at, take_chosen
from jaxgadget.learn.trainer import Carried, Stateless
from jaxgadget.networks.perceptron import PerceptronShape, Weights, evaluate
from jaxgadget.policy.network import log_policy, state_policy, with_seat
from jaxgadget.util.arguments import is_finite_number

CRITIC = "critic"
"""Name of the weights and architecture of the values."""

DIRECTIONS = "directions"
"""Name of those of learned continuations."""

BRANCHES = 4
"""Games that branch off one game of exploration, which are played to their end to know their steps."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VTrace:
    """Settings of V-trace targets; the defaults are SePoT's, but for `target_rate` and `exploration`.

    Attributes:
      rho_bar: clip of the weights of temporal differences. With a finite one, values are those of strategies
        between the continuations and the policy that plays.
      c_bar: clip of the traces.
      decay: λ.
      target_rate: share of the weights that the network of the targets takes over in each step. With 1e-3,
        SePoT's value for 75,000 steps, values lag behind in short trainings.
      exploration: the games follow the policy mixed with uniform play, whose share is drawn uniformly from 0
        to this, for each game and player. With 0, SePoT's value, nothing is learned about states that the
        policy does not reach, and ratios of probabilities are unbounded.

    Raises:
      ValueError: if a setting is out of range.
    """

    rho_bar: float = float("inf")
    c_bar: float = 1.0
    decay: float = 1.0
    target_rate: float = 1e-2
    exploration: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rho_bar", "c_bar"):
            value: Any = getattr(self, name)
            if value != float("inf") and not (is_finite_number(value) and value > 0):
                raise ValueError(f"{name}={value!r}: expected a positive number, or infinity")
            object.__setattr__(self, name, float(value))
        for name in ("decay", "target_rate", "exploration"):
            object.__setattr__(self, name, check_number(name, getattr(self, name), 1.0))

    def describe(self) -> dict[str, float | str]:
        """All settings, for a `TrainingFolder`."""
        settings: dict[str, float] = dataclasses.asdict(self)
        return {name: "inf" if value == float("inf") else value for name, value in settings.items()}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class CriticTask:
    """Data of the lessons of a critic.

    Attributes:
      policy: weights of the policy network.
      continuations: the strategies.
      scale: unit of the critic's outputs.
      half: half of the sum of both players' returns.
      key: random key.
      machine: the rules.
      policy_shape: architecture of the policy network.
      shape: architecture of the critic.
      batch_size: games per step.
    """

    policy: Weights
    continuations: Continuations
    scale: jax.Array
    half: jax.Array
    key: jax.Array
    machine: StateMachine[Any] = dataclasses.field(metadata={"static": True})
    policy_shape: PerceptronShape = dataclasses.field(metadata={"static": True})
    shape: PerceptronShape = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})

    def values(self, weights: Weights, games: Rollouts) -> jax.Array:
        """`[T, n, K, K]` the critic's values of all states, in units of `scale`, by its weights."""
        inputs = jnp.concatenate([games.features[:, player] for player in (0, 1)], axis=-1)
        outputs = evaluate(self.shape, weights, inputs.astype(jnp.float32))
        return outputs.reshape(*outputs.shape[:-1], self.continuations.size, self.continuations.size)

    def returns(self, games: Rollouts) -> jax.Array:
        """`[n]` player 0's, in units of `scale`."""
        return (games.returns[0] - self.half) / self.scale

    def mixed(self, share: jax.Array) -> StateStrategy:
        """The policy mixed with uniform play, given its share `[2, n]`."""
        network = state_policy(self.machine, self.policy_shape, self.policy)

        def probabilities(state: Any, player: int) -> jax.Array:
            legal = self.machine.legal(state, player).astype(jnp.float32)
            uniform = legal / jnp.maximum(legal.sum(axis=0), 1)
            return (1 - share[player]) * network(state, player) + share[player] * uniform

        return probabilities

    def directions_loss(self, weights: Weights, key: jax.Array) -> jax.Array:
        """Loss of learned continuations: see `Learned.loss`; 0 for given ones.

        The changes of the policy are those of gradient ascent on its returns in a batch of games of its own,
        minus the critic's values.
        """
        if not isinstance(self.continuations, Learned):
            return jnp.float32(0)
        network = state_policy(self.machine, self.policy_shape, self.policy)
        games = play(self.machine, network, key, jnp.int32(0), self.batch_size)
        inputs = policy_inputs(games)
        values = self.values(jax.lax.stop_gradient(weights[CRITIC]), games)[..., 0, 0]
        gain = self.returns(games)[None] - values
        advantage = jnp.where(games.acting, jnp.stack([gain, -gain], axis=1), 0)

        def log(policy: Weights) -> jax.Array:
            return log_policy(self.policy_shape, policy, inputs, games.legal)

        ascent = jax.grad(lambda policy: jnp.sum(advantage * take_chosen(log(policy), games.action)))
        tangent = ascent(self.policy)
        _, change = jax.jvp(lambda policy: jnp.exp(log(policy)), (self.policy,), (tangent,))
        return self.continuations.loss(weights[DIRECTIONS], change, inputs, games.legal, games.acting)

    def with_directions(self, error: jax.Array, weights: Weights, key: jax.Array) -> jax.Array:
        """The critic's error, whose gradient is that of the loss of learned continuations, too."""
        loss = self.directions_loss(weights, key)
        return error + (loss - jax.lax.stop_gradient(loss))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class BranchLesson(CriticTask, Stateless):
    """The `Lesson` of a critic by branching: an unbiased target for one pair of continuations a game.

    Games of exploration follow a mixture of the policy and uniform play, with a random share for each player.
    From random ones of their steps, each as probable as the others of its game, other games go on with random
    numbers of their own, under a random pair of continuations, to their end. The value of this pair at the
    state of the step is the expected return.
    """

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        """Mean squared error over the games of a step, in units of `scale`²."""
        inputs, entries, returns = self.branch(weights, step)
        table = evaluate(self.shape, weights[CRITIC], inputs)
        size = self.continuations.size
        values = take_chosen(table, entries[0] * size + entries[1])
        error = jnp.mean(jnp.square(values - returns))
        key = jax.random.fold_in(jax.random.fold_in(self.key, step), 5)
        return self.with_directions(error, weights, key)

    def branch(self, weights: Weights, step: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """One state of each game of a step, with a target.

        Returns:
          `[n, 2F]` inputs, `[2, n]` both players' continuations, and `[n]` returns in units of `scale`.
        """
        n, key = self.batch_size, jax.random.fold_in(self.key, step)
        keys = [jax.random.fold_in(key, number) for number in range(5)]
        count = -(-n // BRANCHES)
        share = jax.random.uniform(keys[2], (2, count))
        explored = play(self.machine, self.mixed(share), keys[4], jnp.int32(0), count)
        game = jnp.arange(n, dtype=jnp.int32) % count
        branched = draw_steps(keys[0], is_alive(explored)[:, game])
        start = states_at(self.machine, explored, branched, game)
        entries = jax.random.randint(keys[1], (2, n), 0, self.continuations.size)
        directions = jax.lax.stop_gradient(weights.get(DIRECTIONS, {}))
        network = state_policy(self.machine, self.policy_shape, self.policy)

        def continued(state: Any, player: int) -> jax.Array:
            legal = jnp.asarray(self.machine.legal(state, player)).T
            inputs = with_seat(jnp.asarray(self.machine.features(state, player)).T, player)
            every = self.continuations(directions, network(state, player).T, inputs, legal)
            return jnp.take_along_axis(every, entries[player][:, None, None], axis=1)[:, 0].T

        games = play(self.machine, continued, keys[3], jnp.int32(0), n, start=start)
        inputs = jnp.concatenate([games.features[0, player] for player in (0, 1)], axis=-1)
        return inputs.astype(jnp.float32), entries, self.returns(games)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class VTraceLesson(CriticTask):
    """The `Lesson` of a critic by V-trace; its state is the critic's weights for the targets.

    Attributes:
      method: settings.
    """

    method: VTrace = dataclasses.field(metadata={"static": True})

    def init(self, weights: Weights) -> Weights:
        """The critic's weights."""
        return weights[CRITIC]

    def carry(self, carried: Weights, weights: Weights, step: jax.Array) -> Weights:
        """The network of the targets follows the critic."""
        rate = self.method.target_rate
        return jax.tree.map(lambda old, new: old + rate * (new - old), carried, weights[CRITIC])

    def loss(self, weights: Weights, carried: Weights, step: jax.Array) -> jax.Array:
        """Mean squared error over all values of all states of the games of a step, in units of `scale`²."""
        n, key = self.batch_size, jax.random.fold_in(self.key, step)
        keys = [jax.random.fold_in(key, number) for number in range(3)]
        share = self.method.exploration * jax.random.uniform(keys[0], (2, n))
        games = play(self.machine, self.mixed(share), keys[1], jnp.int32(0), n)
        targets = jax.lax.stop_gradient(self.targets(weights, self.values(carried, games), games))
        error = jnp.mean(jnp.square(self.values(weights[CRITIC], games) - targets), axis=(2, 3))
        alive = is_alive(games)
        error = jnp.sum(jnp.where(alive, error, 0)) / jnp.sum(alive).astype(jnp.float32)
        return self.with_directions(error, weights, keys[2])

    def targets(self, weights: Weights, values: jax.Array, games: Rollouts) -> jax.Array:
        """`[T, n, K, K]` V-trace targets of all states, 0 after the end of a game, given values of them."""
        inputs, legal = policy_inputs(games), games.legal
        own = jnp.where(legal, jnp.exp(log_policy(self.policy_shape, self.policy, inputs, legal)), 0)
        continued = self.continuations(weights.get(DIRECTIONS, {}), own, inputs, legal)
        action = jnp.broadcast_to(games.action[..., None], continued.shape[:-1])
        ratio = take_chosen(continued, action) / games.chosen[..., None]
        ratio = jnp.where(games.acting[..., None], ratio, 1)
        pairs = ratio[:, 0, :, :, None] * ratio[:, 1, :, None, :]
        method, alive = self.method, is_alive(games)[..., None, None]
        return state_v_trace(
            values,
            jnp.broadcast_to(self.returns(games)[:, None, None], values.shape[1:]),
            jnp.broadcast_to(alive, values.shape),
            ratio=pairs,
            decay=method.decay,
            rho_bar=method.rho_bar,
            c_bar=method.c_bar,
        )


def draw_steps(key: jax.Array, alive: jax.Array) -> jax.Array:
    """`[n]` a step of each game, all before its end with equal probability, given the mask `[T, n]`."""
    length = jnp.sum(alive, axis=0, dtype=jnp.int32)
    return jax.random.randint(key, length.shape, 0, length)


def is_alive(games: Rollouts) -> jax.Array:
    """`[T, n]` mask of the states before the end of their game."""
    return games.acting.any(axis=1) | (games.outcome >= 0)


def policy_inputs(games: Rollouts) -> jax.Array:
    """`[T, 2, n, F + 2]` inputs of a policy network."""
    return jnp.stack([with_seat(games.features[:, player], player) for player in (0, 1)], axis=1)
