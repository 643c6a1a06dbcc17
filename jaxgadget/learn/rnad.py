"""Regularised Nash dynamics, R-NaD (Perolat et al. 2022); settings of Kubíček, Burch and Lisý (2024).

Rewards are transformed by η · log(π / π_reg) of both players, NeuRD follows the game's dynamics to the fixed
point of that, and the policy found there becomes the next π_reg. In the first half of the steps with one
π_reg it is mixed with the one before.

Every step plays new games with the current policy. The ratios of V-trace are therefore 1, and its clips have
no effect. Values are of the player's infostate; a critic that sees the full state is not needed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxgadget.learn.actor_critic import ActorCritic
from jaxgadget.learn.estimators import action_values, neurd_loss, v_trace
from jaxgadget.learn.options import RNaDConfig
from jaxgadget.networks.perceptron import Weights, evaluate
from jaxgadget.policy.network import POLICY


class Networks(NamedTuple):
    """State of the lesson.

    Attributes:
      target: slow average of both networks' weights.
      regular: the policy's weights of π_reg.
      before: those of the π_reg before.
    """

    target: Weights
    regular: Weights
    before: Weights


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RNaDLesson:
    """A `Lesson` of games that the current policy plays against itself.

    Attributes:
      key: random key.
      scale: unit of values.
      networks: both networks and the rules.
      config: settings.
    """

    key: jax.Array
    scale: jax.Array
    networks: ActorCritic = dataclasses.field(metadata={"static": True})
    config: RNaDConfig = dataclasses.field(metadata={"static": True})

    def init(self, weights: Weights) -> Networks:
        """All networks are the first one."""
        return Networks(weights, weights[POLICY], weights[POLICY])

    def carry(self, carried: Networks, weights: Weights, step: jax.Array) -> Networks:
        """The target follows the weights; every `swap` steps it is the next π_reg."""
        rate = self.config.target_rate
        target = jax.tree.map(lambda old, new: old + rate * (new - old), carried.target, weights)
        swaps = (step > 0) & (step % self.config.swap == 0)
        regular, before = jax.tree.map(
            lambda new, old: jnp.where(swaps, new, old),
            (target[POLICY], carried.regular),
            (carried.regular, carried.before),
        )
        return Networks(target, regular, before)

    def loss(self, weights: Weights, carried: Networks, step: jax.Array) -> jax.Array:
        """NeuRD's loss and the squared error of the values, means over each player's decisions."""
        config, networks = self.config, self.networks
        games, inputs = networks.play(
            jax.lax.stop_gradient(weights), jax.random.fold_in(self.key, step), config.batch_size
        )
        logits = evaluate(networks.policy, weights[POLICY], inputs)
        log = jax.lax.stop_gradient(networks.log_policy(weights[POLICY], inputs, games.legal))
        penalty = jnp.where(games.legal, log - self._regular(carried, inputs, games.legal, step), 0)
        penalty = config.regularisation * penalty
        lost = jnp.where(games.acting, jnp.sum(jnp.exp(log) * penalty, axis=-1), 0)
        values = networks.values(carried.target, inputs)
        found = v_trace(values, games.returns / self.scale, games.acting, rewards=lost[:, ::-1] - lost)
        advantage = action_values(values, found.outcome, games.action, games.probability) - penalty
        neurd = neurd_loss(logits, games.legal, advantage, threshold=config.threshold, clip=LARGEST_FORCE)
        error = jnp.square(networks.values(weights, inputs) - found.value)
        count = jnp.sum(games.acting, axis=(0, 2), keepdims=True, dtype=jnp.float32)
        share = jnp.where(games.acting, 1 / jnp.maximum(count, 1), 0)
        return jnp.sum(share * (neurd + config.value_weight * error))

    def _regular(self, carried: Networks, inputs: jax.Array, legal: jax.Array, step: jax.Array) -> Any:
        """Logarithms of π_reg, up to constants."""
        done = (step % self.config.swap).astype(jnp.float32) / self.config.swap
        share = jnp.minimum(2 * done, 1)
        regular, before = (
            self.networks.log_policy(policy, inputs, legal) for policy in (carried.regular, carried.before)
        )
        return share * regular + (1 - share) * before


LARGEST_FORCE = 1e4
"""Clip of NeuRD's advantages."""
