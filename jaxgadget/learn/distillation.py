"""Distillation: a policy network learns the rows of a table.

The loss is the mean of KL(table ‖ network) over all infosets: the cross-entropy minus the table's entropy.
Infosets have equal weight instead of their reach under the table, because a search below the network, and
opponents that deviate from its play, reach infosets that it rarely reaches itself.
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
    """Distillation of a policy at all infosets of the game.

    Attributes:
      target: the policy, with one lane.
    """

    target: PolicyLike

    @property
    def name(self) -> str:
        """`distil`."""
        return "distil"

    @property
    def config(self) -> PolicyTrainingConfig:
        """Default settings; batches consist of infosets in random order, or of all if there are fewer."""
        return PolicyTrainingConfig(steps=5000, batch_size=2048)

    def networks(self, task: PolicyTask) -> dict[str, PerceptronShape]:
        """No further networks."""
        return {}

    def lesson(self, task: PolicyTask) -> Lesson:
        """A `DistilLesson`; raises ValueError unless the target is a policy of the game with one lane."""
        decisions = task.all_decisions(self.name)
        policy = as_policy(self.target, decisions.tree, name="target")
        if policy.num_lanes != 1:
            raise ValueError(
                f"target has {policy.num_lanes} lanes {list(policy.labels[:3])}; pick one by policy.lane(0)"
            )
        table = decisions.table(policy)
        return DistilLesson(batches=Batches.of(task, decisions), target=jnp.asarray(table, jnp.float32))

    def describe(self, lesson: Any) -> dict[str, Any]:
        """Digest of the table."""
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
