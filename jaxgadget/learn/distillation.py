"""Distillation: a policy network learns the rows of a table.

The loss is the mean of KL(table ‖ network) over all infosets: the cross-entropy minus the table's entropy.
Infosets count alike, not by how often the table reaches them, because a search below the network, and
opponents that leave its play, reach infosets that it rarely reaches itself.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.learn.options import PolicyTrainingConfig
from jaxgadget.learn.policy_lesson import Batches, PolicyTask
from jaxgadget.learn.trainer import Carried, Lesson, Stateless
from jaxgadget.networks.perceptron import PerceptronShape, Weights
from jaxgadget.policy.policy import PolicyLike, as_policy
from jaxgadget.util.digest import digest


@dataclasses.dataclass(frozen=True, eq=False)
class Distil:
    """Learns the rows of a policy at all infosets of the game.

    Attributes:
      target: the policy, one lane.
    """

    target: PolicyLike

    @property
    def name(self) -> str:
        """`distil`."""
        return "distil"

    @property
    def config(self) -> PolicyTrainingConfig:
        """Batches are of infosets, in a random order that repeats; all if there are fewer."""
        return PolicyTrainingConfig(steps=5000, batch_size=2048)

    def networks(self, task: PolicyTask) -> dict[str, PerceptronShape]:
        """None."""
        return {}

    def lesson(self, task: PolicyTask) -> Lesson:
        """A `DistilLesson`; ValueError if the target is not one policy of the game."""
        decisions = task.all_decisions(self.name)
        policy = as_policy(self.target, decisions.tree, name="target")
        if policy.num_lanes != 1:
            raise ValueError(
                f"target has {policy.num_lanes} lanes {list(policy.labels[:3])}; pick one by policy.lane(0)"
            )
        table = decisions.table(policy)
        return DistilLesson(batches=Batches.of(task, decisions), target=jnp.asarray(table, jnp.float32))

    def describe(self, lesson: Any) -> dict[str, Any]:
        """The table."""
        return {"target": digest(np.asarray(lesson.target))}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class DistilLesson(Stateless):
    """A `Lesson` of all decisions.

    Attributes:
      batches: the decisions.
      target: `[I, A]` probabilities, 0 for illegal actions.
    """

    batches: Batches
    target: jax.Array

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        """Mean KL(table ‖ network) over the batch of a step."""
        rows = self.batches.rows(step)
        target = self.target[rows]
        difference = jnp.log(jnp.where(target > 0, target, 1)) - self.batches.log_policy(weights, rows)
        return jnp.mean(jnp.sum(target * difference, axis=1))
