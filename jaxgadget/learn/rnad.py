"""Regularised Nash dynamics, R-NaD (Perolat et al. 2022); most settings of Kubíček, Burch and Lisý (2024).

Rewards are transformed by η · log(π / π_reg) of both players; NeuRD follows the dynamics of the transformed
game to its fixed point, which becomes the next π_reg. During the first half of the steps with one π_reg it is
mixed with the previous one.

Every step plays new games with the current policy. The ratios of V-trace are therefore 1, and its clips have
no effect. Values are of the player's infostate; a critic that sees the full state is not needed.

Deviations: the optimiser is the one shared by all trainings, and NeuRD's bound β on logits is 6 instead of 2.
With β = 2 no probability falls much below exp(-4) times the largest one; the papers set small probabilities
to 0 afterwards. In Liar's Dice with one die of four sides NashConv rose from 0.24 after 8,000 steps to 0.34
after 40,000 with β = 2, and was 0.025 after 17,000 with β = 6.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxgadget.core.solver import check_iterations
from jaxgadget.learn.actor_critic import VALUE, ActorCritic, check_room, measure_game
from jaxgadget.learn.estimators import action_values, neurd_loss, v_trace
from jaxgadget.learn.options import PolicyTrainingConfig, check_number
from jaxgadget.learn.policy_lesson import PolicyTask
from jaxgadget.learn.rollouts import Rollouts, by_game, split
from jaxgadget.networks.perceptron import PerceptronShape, Weights, evaluate
from jaxgadget.policy.network import POLICY

LARGEST_FORCE = 1e4
"""Clip of NeuRD's advantages."""

ROOM = 1.5
"""Capacity for the decisions of a step, relative to their mean number under the uniform policy."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RNaD:
    """Regularised Nash dynamics; batches consist of games.

    Values are in units of the returns' standard deviation under the uniform policy.

    Attributes:
      regularisation: η, weight of the reward transformation.
      swap: number of steps between updates of the regularisation policy.
      threshold: β, largest absolute logit that NeuRD increases.
      target_rate: share of the weights that the target network takes over in each step.
      value_weight: weight of the values' squared error.

    Raises:
      ValueError: if a setting is out of range.
    """

    regularisation: float = 0.2
    swap: int = 500
    threshold: float = 6.0
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
        """The value network."""
        return {VALUE: dataclasses.replace(task.shape, outputs=1)}

    def lesson(self, task: PolicyTask) -> RNaDLesson:
        """The lesson, with new games in every step; raises ValueError if they do not fit into memory."""
        networks, measured = ActorCritic.of(task), measure_game(task.machine, task.config.seed)
        check_room(task.machine, task.config.batch_size)
        return RNaDLesson(
            key=jax.random.key(task.config.seed),
            scale=jnp.float32(measured.scale),
            networks=networks,
            method=self,
            batch_size=task.config.batch_size,
            capacity=networks.whole(math.ceil(ROOM * measured.decisions * task.config.batch_size)),
        )

    def describe(self, lesson: RNaDLesson) -> dict[str, Any]:
        """All settings, and the measured scale and number of decisions."""
        return dataclasses.asdict(self) | {"scale": float(lesson.scale), "capacity": lesson.capacity}


class Networks(NamedTuple):
    """State of the lesson.

    Attributes:
      target: weights of the target network, a slow average of both networks' weights.
      regular: weights of π_reg.
      before: weights of the previous π_reg.
    """

    target: Weights
    regular: Weights
    before: Weights


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RNaDLesson:
    """A `Lesson` of games that the current policy plays against itself.

    Compiled code has arrays of fixed sizes: the networks are evaluated at up to `capacity` decisions, or, in
    the rare steps with more decisions, at all moves of all games, so that no game is omitted.

    Attributes:
      key: random key.
      scale: unit of values.
      networks: both networks and the rules.
      method: settings of the method.
      batch_size: number of games of a step.
      capacity: number of decisions for which the usual program of a step has room.
    """

    key: jax.Array
    scale: jax.Array
    networks: ActorCritic = dataclasses.field(metadata={"static": True})
    method: RNaD = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})
    capacity: int = dataclasses.field(metadata={"static": True})

    def init(self, weights: Weights) -> Networks:
        """The initial weights for all networks."""
        return Networks(weights, weights[POLICY], weights[POLICY])

    def carry(self, carried: Networks, weights: Weights, step: jax.Array) -> Networks:
        """Moves the target towards the weights; every `swap` steps the target becomes the next π_reg."""
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
        key = jax.random.fold_in(self.key, step)
        games, inputs = self.networks.play(jax.lax.stop_gradient(weights), key, self.batch_size)
        count, most = jnp.sum(games.acting, dtype=jnp.int32), games.acting.size

        def learn(capacity: int) -> Callable[[], jax.Array]:
            return lambda: self._loss(weights, carried, step, games, inputs, capacity)

        if self.capacity >= most:
            return learn(most)()
        return jax.lax.cond(count <= self.capacity, learn(self.capacity), learn(most))

    def _loss(
        self,
        weights: Weights,
        carried: Networks,
        step: jax.Array,
        games: Rollouts,
        every_input: jax.Array,
        capacity: int,
    ) -> jax.Array:
        """The loss of games with at most `capacity` decisions, given the networks' inputs."""
        method, networks = self.method, self.networks
        flat = by_game(games.acting)
        (rows,) = jnp.nonzero(flat, size=capacity, fill_value=len(flat))

        def take(x: jax.Array) -> jax.Array:
            """Gathers the decisions, `[T, 2, n, ...]` → `[C, ...]`."""
            return split(jnp.take(by_game(x), rows, axis=0, mode="clip"), networks.mesh, 0)

        def put(x: jax.Array) -> jax.Array:
            """Scatters numbers to the decisions, `[C]` → `[T, 2, n]`, 0 elsewhere."""
            moves, _, n = games.acting.shape
            placed = jnp.zeros(n * moves * 2, x.dtype).at[rows].set(x, mode="drop")
            return jnp.moveaxis(placed.reshape(n, moves, 2), 0, 2)

        inputs, legal = take(every_input), take(games.legal)
        logits = evaluate(networks.policy, weights[POLICY], inputs)
        log = jax.lax.stop_gradient(networks.log_policy(weights[POLICY], inputs, legal))
        penalty = jnp.where(legal, log - self._regular(carried, inputs, legal, step), 0)
        penalty = method.regularisation * penalty
        lost = put(jnp.sum(jnp.exp(log) * penalty, axis=-1))
        values = networks.values(carried.target, inputs)
        traced = v_trace(put(values), games.returns / self.scale, games.acting, rewards=lost[:, ::-1] - lost)
        gains = action_values(values, take(traced.outcome), take(games.action), take(games.probability))
        neurd = neurd_loss(logits, legal, gains - penalty, threshold=method.threshold, clip=LARGEST_FORCE)
        error = jnp.square(networks.values(weights, inputs) - take(traced.value))
        is_row, player = rows < len(flat), rows % 2
        own = jnp.stack([is_row & (player == each) for each in (0, 1)]).astype(jnp.float32)
        share = jnp.sum(own / jnp.maximum(jnp.sum(own, axis=1, keepdims=True), 1), axis=0)
        return jnp.sum(share * (neurd + method.value_weight * error))

    def _regular(self, carried: Networks, inputs: jax.Array, legal: jax.Array, step: jax.Array) -> jax.Array:
        """Logarithms of π_reg, up to constants."""
        done = (step % self.method.swap).astype(jnp.float32) / self.method.swap
        share = jnp.minimum(2 * done, 1)
        regular, before = (
            self.networks.log_policy(policy, inputs, legal) for policy in (carried.regular, carried.before)
        )
        return share * regular + (1 - share) * before
