"""Magnetic mirror descent by samples, in the form of PPO (Rudolph et al. 2025).

The policy plays a batch of games against itself. In epochs over the decisions in them it then follows the
clipped surrogate of their advantages, an entropy bonus, and a reverse KL divergence to the policy that
played. This is a step of magnetic mirror descent with the uniform policy as the magnet (Sokota et al. 2023):
its temperature is the weight of the entropy, its step size the inverse of that of the divergence. Advantages
are those of GAE(λ) over a player's own decisions, from the values of a second network.

The entropy bonus moves the fixed point away from the equilibria, so its weight falls during the training.
Deviations from the paper: values are in units of the game's `scale`, advantages are not normalised in each
minibatch, and the optimiser is that of all trainings.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import optax

from jaxgadget.learn.actor_critic import ActorCritic
from jaxgadget.learn.estimators import v_trace
from jaxgadget.learn.options import PPOConfig
from jaxgadget.learn.rollouts import split, take_chosen
from jaxgadget.networks.perceptron import Weights
from jaxgadget.policy.network import POLICY


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Decisions:
    """C decisions of both players, those of one game in a row.

    Attributes:
      inputs: `[C, F + 2]` of the networks.
      legal: `[C, A]` legal actions.
      probability: `[C, A]` of the actions, under the policy that played.
      action: `[C]` chosen action.
      advantage: `[C]` of the chosen action, in units of the scale.
      target: `[C]` of the infostate's value, likewise.
    """

    inputs: jax.Array
    legal: jax.Array
    probability: jax.Array
    action: jax.Array
    advantage: jax.Array
    target: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOLesson:
    """A `Lesson` whose state is the `Decisions` of the latest games.

    Attributes:
      key: random key.
      scale: unit of values.
      networks: both networks and the rules.
      config: settings.
      games: number of games in a batch.
    """

    key: jax.Array
    scale: jax.Array
    networks: ActorCritic = dataclasses.field(metadata={"static": True})
    config: PPOConfig = dataclasses.field(metadata={"static": True})
    games: int = dataclasses.field(metadata={"static": True})

    def init(self, weights: Weights) -> Decisions:
        """Zeros; the first step plays games."""
        shapes = jax.eval_shape(self.collect, weights, jnp.int32(0))
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def carry(self, carried: Decisions, weights: Weights, step: jax.Array) -> Decisions:
        """New games every epochs × minibatches steps."""
        batch, used = jnp.divmod(step, self.config.epochs * self.config.minibatches)
        return jax.lax.cond(used == 0, lambda: self.collect(weights, batch), lambda: carried)

    def collect(self, weights: Weights, batch: jax.Array) -> Decisions:
        """Decisions of a new batch of games; the first ones again if there are fewer than C."""
        networks, capacity = self.networks, self.config.capacity
        rollouts, inputs = networks.play(weights, jax.random.fold_in(self.key, batch), self.games)
        values = networks.values(weights, inputs)
        targets = v_trace(
            values, rollouts.returns / self.scale, rollouts.acting, decay=self.config.trace_decay
        ).value

        def by_game(x: jax.Array) -> jax.Array:
            return jnp.moveaxis(x, 2, 0).reshape(-1, *x.shape[3:])

        acting = by_game(rollouts.acting)
        (found,) = jnp.nonzero(acting, size=capacity)
        row = found[jnp.arange(capacity) % jnp.minimum(jnp.sum(acting), capacity)]
        every = Decisions(
            inputs=inputs,
            legal=rollouts.legal,
            probability=rollouts.probability,
            action=rollouts.action,
            advantage=targets - values,
            target=targets,
        )
        return jax.tree.map(lambda x: split(by_game(x)[row], networks.mesh, 0), every)

    def loss(self, weights: Weights, carried: Decisions, step: jax.Array) -> jax.Array:
        """The surrogate, the entropy, the divergence and the squared error of the values."""
        config, networks = self.config, self.networks
        rows = self._rows(step)
        batch = jax.tree.map(lambda x: split(x[rows], networks.mesh, 0), carried)
        log = networks.log_policy(weights[POLICY], batch.inputs, batch.legal)
        policy = jnp.exp(log)
        old = jnp.log(jnp.where(batch.legal, batch.probability, 1))
        ratio = jnp.exp(take_chosen(log - old, batch.action))
        clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
        surrogate = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
        entropy = -jnp.sum(policy * jnp.where(batch.legal, log, 0), axis=-1)
        divergence = jnp.sum(policy * jnp.where(batch.legal, log - old, 0), axis=-1)
        error = jnp.square(networks.values(weights, batch.inputs) - batch.target)
        return jnp.mean(
            config.value_weight * error
            - surrogate
            - self._temperature(step) * entropy
            + config.divergence * divergence
        )

    def _rows(self, step: jax.Array) -> jax.Array:
        """`[batch_size]` decisions of a step: of an epoch from a random one on, minibatch by minibatch."""
        config = self.config
        epoch, minibatch = jnp.divmod(step, config.minibatches)
        key = jax.random.fold_in(jax.random.fold_in(self.key, EPOCHS_KEY), epoch)
        first = jax.random.randint(key, (), 0, config.capacity) + minibatch * config.batch_size
        return (first + jnp.arange(config.batch_size, dtype=jnp.int32)) % config.capacity

    def _temperature(self, step: jax.Array) -> jax.Array:
        """Weight of the entropy: falls linearly to `final_entropy`."""
        config = self.config
        schedule = optax.linear_schedule(config.entropy, config.final_entropy, config.steps)
        return jnp.asarray(schedule(step), jnp.float32)


EPOCHS_KEY = 2**31 - 1
"""Folded into the key for orders of decisions; not the number of a batch of games."""
