"""Training of policy networks: the protocol of methods, and batches of a tree's decisions."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.decisions import Decisions
from jaxgadget.learn.fixed import FixedOpponent
from jaxgadget.learn.options import LARGEST, PolicyTrainingConfig
from jaxgadget.learn.trainer import Lesson
from jaxgadget.networks.perceptron import PerceptronShape, Weights
from jaxgadget.policy.network import POLICY, log_policy


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PolicyTask:
    """A policy network to train.

    Attributes:
      machine: rules of the game.
      shape: architecture of the network.
      config: settings of the training.
      decisions: all decisions of the game; None if the game is too large to enumerate.
      opponent: policy of the other seat; None if the network learns in both.
      seat: the network's seat if there is an opponent.
    """

    machine: StateMachine[Any]
    shape: PerceptronShape
    config: PolicyTrainingConfig
    decisions: Decisions | None
    opponent: FixedOpponent | None = None
    seat: int = 0

    def all_decisions(self, method: str) -> Decisions:
        """All decisions; raises ValueError, which names the method, if the game is too large."""
        if self.decisions is None:
            raise ValueError(
                f"method={method!r} needs all decisions of {self.machine.name}, which has too many histories "
                "to enumerate; choose a smaller game"
            )
        return self.decisions


class PolicyMethod(Protocol):
    """A training method of policy networks."""

    @property
    def name(self) -> str:
        """Name on the command line and in folders."""
        ...

    @property
    def config(self) -> PolicyTrainingConfig:
        """Default settings of the training."""
        ...

    def networks(self, task: PolicyTask) -> dict[str, PerceptronShape]:
        """Networks that are trained beside the policy, such as a critic, by the names of their weights."""
        ...

    def lesson(self, task: PolicyTask) -> Lesson:
        """The lesson; its weights are those of all networks, with the policy's under `POLICY`."""
        ...

    def describe(self, lesson: Any) -> dict[str, Any]:
        """Everything that determines the weights, besides the game, the networks and the config."""
        ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Batches:
    """Batches of all I decisions of a tree, in one random order that repeats.

    Attributes:
      inputs: `[I, F + 2]`.
      legal: `[I, A]`.
      order: `[I]`.
      shape: architecture of the network.
      batch_size: decisions of a batch.
    """

    inputs: jax.Array
    legal: jax.Array
    order: jax.Array
    shape: PerceptronShape = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})

    @staticmethod
    def of(task: PolicyTask, decisions: Decisions) -> Batches:
        """The decisions on the device, shuffled by the config's seed."""
        count = len(decisions.inputs)
        if count * min(task.config.batch_size, count) > LARGEST:
            raise ValueError(
                f"batch_size={task.config.batch_size}: expected at most {LARGEST // count} for {count:,} "
                "infosets, or a method that samples games"
            )
        order = np.random.Generator(np.random.PCG64(task.config.seed)).permutation(count)
        return Batches(
            inputs=jnp.asarray(decisions.inputs),
            legal=jnp.asarray(decisions.legal),
            order=jnp.asarray(order.astype(np.int32)),
            shape=task.shape,
            batch_size=min(task.config.batch_size, count),
        )

    def rows(self, step: jax.Array) -> jax.Array:
        """`[batch_size]` the decisions of a step."""
        count = len(self.order)
        first = (step % count) * (self.batch_size % count) % count  # within int32: see `of`
        return self.order[(first + jnp.arange(self.batch_size, dtype=jnp.int32)) % count]

    def log_policy(self, weights: Weights, rows: jax.Array | None = None) -> jax.Array:
        """`[B, A]` logarithms of the network's probabilities; by default at all decisions."""
        inputs, legal = (self.inputs, self.legal) if rows is None else (self.inputs[rows], self.legal[rows])
        return log_policy(self.shape, weights[POLICY], inputs, legal)
