"""Sampled magnetic mirror descent in the form of PPO (Rudolph et al. 2025).

The policy plays a batch of games against itself. Epochs over their decisions then maximise the clipped
surrogate of the advantages plus an entropy bonus minus the reverse KL divergence from the policy that
played. This is a step of magnetic mirror descent with the uniform policy as the magnet (Sokota et al. 2023):
its temperature is the weight of the entropy, its step size the inverse of the weight of the divergence.
Advantages are those of GAE(λ) over a player's own decisions, from the values of a second network.

The entropy bonus moves the fixed point away from the equilibria, so its weight falls during the training.
Deviations from the paper: values are in units of the game's `scale`, advantages are not normalised in each
minibatch, and the optimiser is the one shared by all trainings.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxgadget.core.solver import check_iterations
from jaxgadget.learn.actor_critic import VALUE, ActorCritic, check_room, measure_game
from jaxgadget.learn.estimators import v_trace
from jaxgadget.learn.fixed import FixedOpponent
from jaxgadget.learn.options import PolicyTrainingConfig, check_number
from jaxgadget.learn.policy_lesson import PolicyTask
from jaxgadget.learn.rollouts import by_game, split, take_chosen
from jaxgadget.networks.perceptron import PerceptronShape, Weights
from jaxgadget.policy.network import POLICY

EPOCHS_KEY = 2**31 - 1
"""Folded into the key for orders of decisions; differs from all indices of batches of games."""

MIN_DECISIONS = 0.1
"""Smallest mean number of a player's decisions per game from which the number of games is computed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPO:
    """Sampled magnetic mirror descent in the form of PPO; batches consist of decisions.

    Values and advantages are in units of the returns' standard deviation under the uniform policy.

    Attributes:
      minibatches: number of training steps in an epoch over the decisions of a batch of games.
      epochs: number of epochs before new games.
      entropy: weight of the entropy in the first step.
      final_entropy: weight of the entropy in the last step; in between it falls linearly.
      divergence: weight of the divergence from the policy that played.
      clip: maximum change of a probability's ratio that the surrogate rewards.
      value_weight: weight of the values' squared error.
      trace_decay: λ of the advantages.

    Raises:
      ValueError: if a setting is out of range.
    """

    minibatches: int = 4
    epochs: int = 2
    entropy: float = 0.2
    final_entropy: float = 0.02
    divergence: float = 0.025
    clip: float = 0.025
    value_weight: float = 0.5
    trace_decay: float = 1.0

    def __post_init__(self) -> None:
        for name in ("minibatches", "epochs"):
            object.__setattr__(self, name, check_iterations(getattr(self, name), name))
        for name in ("entropy", "final_entropy", "divergence", "clip", "value_weight"):
            object.__setattr__(self, name, check_number(name, getattr(self, name)))
        object.__setattr__(self, "trace_decay", check_number("trace_decay", self.trace_decay, 1.0))

    @property
    def name(self) -> str:
        """`ppo`."""
        return "ppo"

    @property
    def config(self) -> PolicyTrainingConfig:
        """Default settings of the training."""
        return PolicyTrainingConfig(steps=50_000, batch_size=256, average=0.2)

    def networks(self, task: PolicyTask) -> dict[str, PerceptronShape]:
        """The value network."""
        return {VALUE: dataclasses.replace(task.shape, outputs=1)}

    def lesson(self, task: PolicyTask) -> PPOLesson:
        """The lesson, with games for about one batch of decisions; raises ValueError if they do not fit."""
        networks, measured = ActorCritic.of(task), measure_game(task.machine, task.config.seed)
        own = measured.decisions if task.opponent is None else measured.by_player[task.seat]
        games = networks.whole(math.ceil(self.minibatches * task.config.batch_size / max(own, MIN_DECISIONS)))
        check_room(task.machine, games)
        return PPOLesson(
            key=jax.random.key(task.config.seed),
            scale=jnp.float32(measured.scale),
            opponent=task.opponent,
            seat=task.seat,
            networks=networks,
            method=self,
            batch_size=task.config.batch_size,
            steps=task.config.steps,
            games=games,
        )

    def describe(self, lesson: PPOLesson) -> dict[str, Any]:
        """All settings, the measured number of games and scale, and the opponent."""
        described = dataclasses.asdict(self) | {"games": lesson.games, "scale": float(lesson.scale)}
        if lesson.opponent is not None:
            described |= {"opponent": lesson.opponent.describe(), "seat": lesson.seat}
        return described


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """C decisions of both players, those of one game in a row.

    Attributes:
      inputs: `[C, F + 2]` inputs of the networks.
      legal: `[C, A]` mask of legal actions.
      probability: `[C, A]` probabilities of the actions under the policy that played.
      action: `[C]` chosen action.
      advantage: `[C]` advantage of the chosen action, in units of the scale.
      target: `[C]` target of the infostate's value, in units of the scale.
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
    """A `Lesson` whose state is the `Sample` of the latest games.

    Attributes:
      key: random key.
      scale: unit of values.
      opponent: policy of the other seat; None if the network plays against itself.
      networks: both networks and the rules.
      method: settings of the method.
      seat: the network's seat if there is an opponent.
      batch_size: number of decisions of a step.
      steps: number of steps of the training.
      games: number of games in a batch.
    """

    key: jax.Array
    scale: jax.Array
    opponent: FixedOpponent | None = None
    networks: ActorCritic = dataclasses.field(metadata={"static": True})
    method: PPO = dataclasses.field(metadata={"static": True})
    seat: int = dataclasses.field(default=0, metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})
    steps: int = dataclasses.field(metadata={"static": True})
    games: int = dataclasses.field(metadata={"static": True})

    @property
    def capacity(self) -> int:
        """C, number of decisions taken from a batch of games."""
        return self.batch_size * self.method.minibatches

    def init(self, weights: Weights) -> Sample:
        """Zeros; the first step replaces them."""
        shapes = jax.eval_shape(self.collect, weights, jnp.int32(0))
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def carry(self, carried: Sample, weights: Weights, step: jax.Array) -> Sample:
        """New games every epochs × minibatches steps."""
        batch, used = jnp.divmod(step, self.method.epochs * self.method.minibatches)
        return jax.lax.cond(used == 0, lambda: self.collect(weights, batch), lambda: carried)

    def collect(self, weights: Weights, batch: jax.Array) -> Sample:
        """Decisions of a new batch of games; the first ones are repeated if there are fewer than C."""
        networks, capacity = self.networks, self.capacity
        key = jax.random.fold_in(self.key, batch)
        rollouts, inputs = networks.play(weights, key, self.games, self.opponent, self.seat)
        values = networks.values(weights, inputs)
        targets = v_trace(
            values, rollouts.returns / self.scale, rollouts.acting, decay=self.method.trace_decay
        ).value
        acting = by_game(rollouts.acting)
        (decision,) = jnp.nonzero(acting, size=capacity)
        row = decision[jnp.arange(capacity) % jnp.clip(jnp.sum(acting), 1, capacity)]
        every = Sample(
            inputs=inputs,
            legal=rollouts.legal,
            probability=rollouts.probability,
            action=rollouts.action,
            advantage=targets - values,
            target=targets,
        )
        return jax.tree.map(lambda x: split(by_game(x)[row], networks.mesh, 0), every)

    def loss(self, weights: Weights, carried: Sample, step: jax.Array) -> jax.Array:
        """Negative surrogate and entropy bonus, plus the divergence and the squared error of the values."""
        method, networks = self.method, self.networks
        rows = self._rows(step)
        batch = jax.tree.map(lambda x: split(x[rows], networks.mesh, 0), carried)
        log = networks.log_policy(weights[POLICY], batch.inputs, batch.legal)
        policy = jnp.exp(log)
        old = jnp.log(jnp.where(batch.legal, batch.probability, 1))
        ratio = jnp.exp(take_chosen(log - old, batch.action))
        clipped = jnp.clip(ratio, 1 - method.clip, 1 + method.clip)
        surrogate = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
        entropy = -jnp.sum(policy * jnp.where(batch.legal, log, 0), axis=-1)
        divergence = jnp.sum(policy * jnp.where(batch.legal, log - old, 0), axis=-1)
        error = jnp.square(networks.values(weights, batch.inputs) - batch.target)
        return jnp.mean(
            method.value_weight * error
            - surrogate
            - self._temperature(step) * entropy
            + method.divergence * divergence
        )

    def _rows(self, step: jax.Array) -> jax.Array:
        """`[batch_size]` decisions of a step: its minibatch of the epoch, counted from a random start."""
        epoch, minibatch = jnp.divmod(step, self.method.minibatches)
        key = jax.random.fold_in(jax.random.fold_in(self.key, EPOCHS_KEY), epoch)
        first = jax.random.randint(key, (), 0, self.capacity) + minibatch * self.batch_size
        return (first + jnp.arange(self.batch_size, dtype=jnp.int32)) % self.capacity

    def _temperature(self, step: jax.Array) -> jax.Array:
        """Weight of the entropy."""
        schedule = optax.linear_schedule(self.method.entropy, self.method.final_entropy, self.steps)
        return jnp.asarray(schedule(step), jnp.float32)
