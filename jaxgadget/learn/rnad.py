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

from jaxgadget.core.solver import check_iterations
from jaxgadget.learn.actor_critic import VALUE, ActorCritic, check_room, measure_game
from jaxgadget.learn.estimators import action_values, neurd_loss, v_trace
from jaxgadget.learn.options import PolicyTrainingConfig, check_number
from jaxgadget.learn.policy_lesson import PolicyTask
from jaxgadget.networks.perceptron import PerceptronShape, Weights, evaluate
from jaxgadget.policy.network import POLICY

LARGEST_FORCE = 1e4
"""Clip of NeuRD's advantages."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RNaD:
    """Regularised Nash dynamics; the config's batches are of games.

    Values are in units of the returns' standard deviation under the uniform policy.

    Attributes:
      regularisation: η, weight of the reward transformation.
      swap: number of steps between changes of the regularisation policy.
      threshold: β, largest absolute logit that NeuRD increases.
      target_rate: share of the weights that the target network takes over in each step.
      value_weight: weight of the values' squared error.

    Raises:
      ValueError: if a setting is out of range.
    """

    regularisation: float = 0.2
    swap: int = 500
    threshold: float = 2.0
    target_rate: float = 1e-3
    value_weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "swap", check_iterations(self.swap, "swap"))
        for name in ("regularisation", "threshold", "value_weight"):
            object.__setattr__(self, name, check_number(name, getattr(self, name)))
        object.__setattr__(self, "target_rate", check_number("target_rate", self.target_rate, 1.0))

    @property
    def name(self) -> str:
        """`rnad`."""
        return "rnad"

    @property
    def config(self) -> PolicyTrainingConfig:
        """Default settings of the training."""
        return PolicyTrainingConfig(steps=50_000, batch_size=64, average=0.2)

    def networks(self, task: PolicyTask) -> dict[str, PerceptronShape]:
        """The values."""
        return {VALUE: dataclasses.replace(task.shape, outputs=1)}

    def lesson(self, task: PolicyTask) -> RNaDLesson:
        """New games in every step; ValueError if they do not fit into memory."""
        check_room(task.machine, task.config.batch_size)
        return RNaDLesson(
            key=jax.random.key(task.config.seed),
            scale=jnp.float32(measure_game(task.machine, task.config.seed).scale),
            networks=ActorCritic.of(task),
            method=self,
            batch_size=task.config.batch_size,
        )

    def describe(self, lesson: RNaDLesson) -> dict[str, Any]:
        """All settings, and the scale that was measured."""
        return dataclasses.asdict(self) | {"scale": float(lesson.scale)}


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
      method: settings.
      batch_size: number of games of a step.
    """

    key: jax.Array
    scale: jax.Array
    networks: ActorCritic = dataclasses.field(metadata={"static": True})
    method: RNaD = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})

    def init(self, weights: Weights) -> Networks:
        """All networks are the first one."""
        return Networks(weights, weights[POLICY], weights[POLICY])

    def carry(self, carried: Networks, weights: Weights, step: jax.Array) -> Networks:
        """The target follows the weights; every `swap` steps it is the next π_reg."""
        rate = self.method.target_rate
        target = jax.tree.map(lambda old, new: old + rate * (new - old), carried.target, weights)
        swaps = (step > 0) & (step % self.method.swap == 0)
        regular, before = jax.tree.map(
            lambda new, old: jnp.where(swaps, new, old),
            (target[POLICY], carried.regular),
            (carried.regular, carried.before),
        )
        return Networks(target, regular, before)

    def loss(self, weights: Weights, carried: Networks, step: jax.Array) -> jax.Array:
        """NeuRD's loss and the squared error of the values, means over each player's decisions."""
        method, networks = self.method, self.networks
        games, inputs = networks.play(
            jax.lax.stop_gradient(weights), jax.random.fold_in(self.key, step), self.batch_size
        )
        logits = evaluate(networks.policy, weights[POLICY], inputs)
        log = jax.lax.stop_gradient(networks.log_policy(weights[POLICY], inputs, games.legal))
        penalty = jnp.where(games.legal, log - self._regular(carried, inputs, games.legal, step), 0)
        penalty = method.regularisation * penalty
        lost = jnp.where(games.acting, jnp.sum(jnp.exp(log) * penalty, axis=-1), 0)
        values = networks.values(carried.target, inputs)
        found = v_trace(values, games.returns / self.scale, games.acting, rewards=lost[:, ::-1] - lost)
        advantage = action_values(values, found.outcome, games.action, games.probability) - penalty
        neurd = neurd_loss(logits, games.legal, advantage, threshold=method.threshold, clip=LARGEST_FORCE)
        error = jnp.square(networks.values(weights, inputs) - found.value)
        count = jnp.sum(games.acting, axis=(0, 2), keepdims=True, dtype=jnp.float32)
        share = jnp.where(games.acting, 1 / jnp.maximum(count, 1), 0)
        return jnp.sum(share * (neurd + method.value_weight * error))

    def _regular(self, carried: Networks, inputs: jax.Array, legal: jax.Array, step: jax.Array) -> Any:
        """Logarithms of π_reg, up to constants."""
        done = (step % self.method.swap).astype(jnp.float32) / self.method.swap
        share = jnp.minimum(2 * done, 1)
        regular, before = (
            self.networks.log_policy(policy, inputs, legal) for policy in (carried.regular, carried.before)
        )
        return share * regular + (1 - share) * before
