"""Actor and critic: a policy network and a network for the values of infostates, trained by self-play."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxgadget.core.devices import HOME
from jaxgadget.core.memory import find_memory
from jaxgadget.games.machine import StateMachine, sum_of_returns
from jaxgadget.learn.compiled_rules import check_compiled
from jaxgadget.learn.fixed import FixedOpponent, seated
from jaxgadget.learn.policy_lesson import PolicyTask
from jaxgadget.learn.rollouts import BATCH, Rollouts, play, rollout_bytes
from jaxgadget.networks.perceptron import PerceptronShape, Weights, evaluate
from jaxgadget.policy.network import POLICY, log_policy, state_policy, with_seat
from jaxgadget.util.compilation import compiled
from jaxgadget.util.memory import megabytes
from jaxgadget.util.precision import numpy_promotion, precision

VALUE = "value"
"""Name of the value network's weights."""

log = logging.getLogger(__name__)

PROBED = 4096
"""Number of games under the uniform policy from which `measure_game` estimates its means."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCritic:
    """Static description of both networks, the rules and the devices; hashable.

    Both networks have the same inputs. Without a mesh everything is computed on one device. With one, games
    and decisions are split over the devices, and gradients are those of the joint batch.

    Attributes:
      machine: rules of the game.
      policy: architecture of the policy network.
      value: architecture of the value network.
      mesh: devices, as for `play`; None for one device.
    """

    machine: StateMachine[Any]
    policy: PerceptronShape
    value: PerceptronShape
    mesh: Mesh | None = None

    @staticmethod
    def of(task: PolicyTask) -> ActorCritic:
        """The networks of a task, on a number of local devices that divides the batch size."""
        devices = jax.local_devices()
        count = math.gcd(len(devices), task.config.batch_size)
        if count < len(devices):
            log.warning(
                "batch_size=%d is split over %d of %d devices: choose a multiple of %d.",
                task.config.batch_size,
                count,
                len(devices),
                len(devices),
            )
        mesh = Mesh(np.array(devices[:count]), (BATCH,)) if count > 1 else None
        value = dataclasses.replace(task.shape, outputs=1)
        return ActorCritic(machine=task.machine, policy=task.shape, value=value, mesh=mesh)

    def whole(self, count: int) -> int:
        """`count` rounded up to a multiple of the number of devices."""
        size = 1 if self.mesh is None else self.mesh.size
        return -(-count // size) * size

    def play(
        self,
        weights: Weights,
        key: jax.Array,
        games: int,
        opponent: FixedOpponent | None = None,
        seat: int = 0,
    ) -> tuple[Rollouts, jax.Array]:
        """Games of the policy against itself or an opponent, and the networks' inputs `[T, 2, n, F + 2]`.

        Half of the sum of both players' returns is subtracted from each return.

        Args:
          weights: weights of both networks.
          key: random key.
          games: number of games.
          opponent: policy of the other seat, whose decisions are not marked as `acting`; by default the
            network plays both seats.
          seat: seat of the network if there is an opponent.
        """
        rules = self.machine if opponent is None else opponent.rules(self.machine)
        policy = state_policy(rules, self.policy, weights[POLICY])
        if opponent is not None:
            policy = seated(policy, opponent.policy(rules), seat)
        rollouts = play(rules, policy, key, jnp.int32(0), games, self.mesh)
        if opponent is not None:
            is_own = jnp.arange(2)[None, :, None] == seat
            rollouts = dataclasses.replace(rollouts, acting=rollouts.acting & is_own)
        half = jnp.float32(sum_of_returns(self.machine) / 2)
        rollouts = dataclasses.replace(rollouts, returns=rollouts.returns - half)
        features = rollouts.features
        inputs = jnp.stack([with_seat(features[:, player], player) for player in (0, 1)], axis=1)
        return rollouts, inputs

    def log_policy(self, policy: Weights, inputs: jax.Array, legal: jax.Array) -> jax.Array:
        """`[..., A]` log-probabilities of actions under the policy network with the given weights."""
        return log_policy(self.policy, policy, inputs, legal)

    def values(self, weights: Weights, inputs: jax.Array) -> jax.Array:
        """`[...]` values of infostates for their players, in units of the scale."""
        return evaluate(self.value, weights[VALUE], inputs)[..., 0]


def check_room(machine: StateMachine[Any], games: int) -> None:
    """Raises ValueError if a batch of games does not fit into memory."""
    needed, available = rollout_bytes(machine, games), find_memory(HOME)
    if available is not None and needed > available:
        raise ValueError(
            f"batch_size: a batch of {games} games of {machine.name} needs at least {megabytes(needed)}, but "
            f"{megabytes(available)} is available; choose a smaller batch_size"
        )


@dataclasses.dataclass(frozen=True)
class Measured:
    """Measurements of a game under the uniform policy.

    Attributes:
      by_player: mean number of each player's decisions per game.
      scale: root mean square of the returns' deviations from half of their sum, the unit of values.
    """

    by_player: tuple[float, float]
    scale: float

    @property
    def decisions(self) -> float:
        """Mean number of both players' decisions per game."""
        return sum(self.by_player)


def measure_game(machine: StateMachine[Any], seed: int) -> Measured:
    """Plays some games under the uniform policy, reproducible from the seed.

    Raises:
      ValueError: if JAX cannot compile the rules.
    """
    check_compiled(machine)
    with precision(np.float32):
        (first, second), square = _measure(machine, jax.random.key(seed))
        return Measured((float(first), float(second)), float(square) ** 0.5 or 1.0)


@compiled(static_argnums=0)
def _measure(machine: StateMachine[Any], key: jax.Array) -> tuple[jax.Array, jax.Array]:
    def uniform(state: Any, player: int) -> jax.Array:
        with numpy_promotion():
            legal = jnp.asarray(machine.legal(state, player))
            return legal / jnp.maximum(legal.sum(axis=0), 1)

    rollouts = play(machine, uniform, key, jnp.int32(0), PROBED)
    first, second = rollouts.returns
    decisions = jnp.sum(rollouts.acting, axis=(0, 2), dtype=jnp.float32) / PROBED
    return decisions, jnp.mean(jnp.square((first - second) / 2))
