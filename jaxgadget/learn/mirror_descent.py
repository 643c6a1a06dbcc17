"""Magnetic mirror descent (Sokota et al. 2023) of a policy network, with exact values on a tree.

In iteration t the policy π_t is evaluated at every infoset: Q(s, a) is the expected return after action a,
given that s is reached, when both players follow π_t. The next policy minimises at every infoset s

    -⟨π(s), Q(s, ·)⟩ + α_t KL(π(s) ‖ ρ(s)) + KL(π(s) ‖ π_t(s)) / η_t,

with the magnet ρ uniform over legal actions, η_t = η / √t and α_t = α / √t, by which the regularised
equilibria that the policy tracks approach a Nash equilibrium. The minimiser is
π* ∝ (π_t exp(η_t Q))^(1 / (1 + α_t η_t)); gradient steps on the weights minimise the mean over infosets of
KL(π* ‖ π). As in the paper's behavioural form each infoset is a separate instance, so all infosets have the
same weight.

Gradient steps on the objective itself have the same fixed point, but the gradient vanishes where a
probability does: in Goofspiel 4 with η = 2 a network overshot to pure strategies, and NashConv stayed at 2.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.core.problem import Parts, Problem, follow, payoff_reach, values_up
from jaxgadget.core.rows import RowSums, build_row_sums
from jaxgadget.core.solver import check_iterations
from jaxgadget.learn.decisions import Decisions
from jaxgadget.learn.options import PolicyTrainingConfig
from jaxgadget.learn.policy_lesson import Batches, PolicyTask
from jaxgadget.learn.trainer import Carried, Lesson
from jaxgadget.networks.perceptron import PerceptronShape, Weights
from jaxgadget.policy.evaluate import whole_problem
from jaxgadget.policy.network import ILLEGAL
from jaxgadget.tree.whole import whole_treeplexes
from jaxgadget.util.arguments import is_finite_number
from jaxgadget.util.arrays import FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True)
class MirrorDescent:
    """Magnetic mirror descent with exact values.

    Attributes:
      eta: η, the step size of the first iteration; that of iteration t is η / √t.
      alpha: α, the weight of the magnet in the first iteration; that of iteration t is α / √t.
      inner: gradient steps per iteration; with too few the network does not follow: NashConv of Goofspiel 4
        (η = 2) was 0.12 after 12,000 steps with 50, and 0.37 after 30,000 with 20. The smaller steps of late
        iterations need more: choose it so that there are at most some thousand iterations.

    Raises:
      ValueError: if a setting is out of range.
    """

    eta: float = 1.0
    alpha: float = 1.0
    inner: int = 50

    def __post_init__(self) -> None:
        for name in ("eta", "alpha"):
            value: Any = getattr(self, name)
            if not is_finite_number(value) or not value > 0:
                raise ValueError(f"{name}={value!r}: expected a positive number, such as 1")
            object.__setattr__(self, name, float(value))
        object.__setattr__(self, "inner", check_iterations(self.inner, "inner"))

    @property
    def name(self) -> str:
        """`mmd`."""
        return "mmd"

    @property
    def config(self) -> PolicyTrainingConfig:
        """Default settings; batches consist of infosets in random order, or of all if there are fewer.

        Gradients vanish at the end of each iteration. With the usual ε of Adam, 1e-8, long trainings
        diverged: Kuhn poker (`inner=1000`) was at a NashConv of 0.013 after 1.2 million steps and of 0.49
        after 3, with this one at 0.0079 and 0.0061.
        """
        return PolicyTrainingConfig(steps=20_000, batch_size=4096, average=0.1, adam_epsilon=1e-5)

    def networks(self, task: PolicyTask) -> dict[str, PerceptronShape]:
        """No further networks."""
        return {}

    def lesson(self, task: PolicyTask) -> Lesson:
        """A `MirrorDescentLesson`."""
        decisions = task.all_decisions(self.name)
        return MirrorDescentLesson(
            batches=Batches.of(task, decisions),
            values=ActionValues.of(decisions),
            eta=jnp.float32(self.eta),
            alpha=jnp.float32(self.alpha),
            inner=self.inner,
        )

    def describe(self, lesson: Any) -> dict[str, Any]:
        """All settings."""
        return dataclasses.asdict(self)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ActionValues:
    """Values of all actions of a game under a policy of both players.

    Attributes:
      problem: the whole game, one lane.
      cells: for both players `[Q]` index of each action of the problem in the flattened `[I, A]` arrays;
        I × A for padding.
      action: `[I × A]` position of each action among both players' actions of the problem; their number
        for illegal ones.
      mass: sums `[I, 1]` of chance's reach × the opponent's over the histories of each infoset, from the
        second player's reach of sequences in the problem, the first player's, and 1.
    """

    problem: Problem
    cells: tuple[jax.Array, jax.Array]
    action: jax.Array
    mass: RowSums

    @staticmethod
    def of(decisions: Decisions) -> ActionValues:
        """The game of some decisions, in float32."""
        tree, form = decisions.tree, whole_treeplexes(decisions.tree)
        problem = whole_problem(tree, 1, np.float32)
        num_cells = decisions.legal.size
        cells, parts = list[IntArray](), list[tuple[IntArray, IntArray, FloatArray]]()
        num_sequences = [side.body.num_sequences for side in reversed(problem.sides)]
        for player, first in ((0, 0), (1, num_sequences[0])):
            rows = form.action_sequences(player) - 1
            cells.append(np.where(rows >= 0, decisions.cells[player][np.maximum(rows, 0)], num_cells))
            histories = np.flatnonzero(tree.infoset[player] >= 0)
            infoset = tree.infoset[player, histories] + player * len(tree.infosets[0])
            sequence = form.from_tree(1 - player)[tree.sequence[1 - player, histories]]
            column = np.where(sequence >= 0, first + sequence, sum(num_sequences))
            parts.append((infoset, column, tree.chance[histories]))
        every = np.concatenate(cells)
        action = np.full(num_cells + 1, len(every))
        action[every] = np.arange(len(every))
        row, column, chance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return ActionValues(
            problem=problem,
            cells=(jnp.asarray(cells[0], jnp.int32), jnp.asarray(cells[1], jnp.int32)),
            action=jnp.asarray(action[:num_cells], jnp.int32),
            mass=build_row_sums(row, column, chance, len(decisions.legal), np.float32),
        )

    def __call__(self, policy: jax.Array) -> jax.Array:
        """Values of actions for the acting player, given their infoset.

        Args:
          policy: `[I, A]` probabilities.

        Returns:
          `[I, A]`; 0 at illegal actions, and at infosets that the opponent's play never reaches.
        """
        flat = jnp.append(policy.reshape(-1), 0)
        sides, terms = self.problem.sides, self.problem.terms
        empty = jnp.zeros((0, 1), policy.dtype)
        strategy = [Parts(empty, flat[cells][:, None]) for cells in self.cells]
        plans = [follow(sides[p], terms[p], strategy[p]) for p in (0, 1)]
        first, second = (payoff_reach(sides[p], terms[p], plans[p]) for p in (0, 1))
        reaches = first, second
        values: list[jax.Array] = []
        for player in (0, 1):
            gradient, _ = self.problem.payoff.gradient(player, reaches, None)
            values.append(values_up(sides[player], terms[player], gradient, strategy[player]).actions.body)
        weighted = jnp.append(jnp.concatenate(values)[:, 0], 0)[self.action].reshape(policy.shape)
        mass = self.mass(jnp.concatenate([second, first, jnp.ones((1, 1), policy.dtype)]))
        return jnp.where(mass > 0, weighted / jnp.where(mass > 0, mass, 1), 0)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class MirrorDescentLesson:
    """A `Lesson` of all decisions; its state consists of π_t and its action values.

    Attributes:
      batches: the decisions.
      values: evaluates policies.
      eta: η.
      alpha: α.
      inner: steps per iteration.
    """

    batches: Batches
    values: ActionValues
    eta: jax.Array
    alpha: jax.Array
    inner: int = dataclasses.field(metadata={"static": True})

    def init(self, weights: Weights) -> Carried:
        """Zeros, replaced before the first loss."""
        zeros = jnp.zeros(self.batches.legal.shape, jnp.float32)
        return {"log_policy": zeros, "values": zeros}

    def carry(self, carried: Carried, weights: Weights, step: jax.Array) -> Carried:
        """Evaluates the policy at the beginning of every iteration."""

        def evaluated() -> Carried:
            log_policy = self.batches.log_policy(weights)
            return {"log_policy": log_policy, "values": self.values(jnp.exp(log_policy))}

        return jax.lax.cond(step % self.inner == 0, evaluated, lambda: carried)

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        """Mean over the batch of the network's KL divergence from the minimiser of the current iteration."""
        rows = self.batches.rows(step)
        root = jnp.sqrt((step // self.inner + 1).astype(jnp.float32))
        eta, alpha = self.eta / root, self.alpha / root
        best = next_policy(
            carried["log_policy"][rows], carried["values"][rows], self.batches.legal[rows], eta, alpha
        )
        return jnp.mean(jnp.sum(jnp.exp(best) * (best - self.batches.log_policy(weights, rows)), axis=1))


def next_policy(
    log_policy: jax.Array, values: jax.Array, legal: jax.Array, eta: jax.Array, alpha: jax.Array
) -> jax.Array:
    """`[n, A]` logarithms of the minimiser of an iteration's objective at n infosets.

    Args:
      log_policy: `[n, A]` logarithms of π_t.
      values: `[n, A]` values of actions under π_t.
      legal: `[n, A]` mask of legal actions.
      eta: η_t.
      alpha: α_t.
    """
    pull = log_policy + eta * values  # the magnet adds a constant
    return jax.nn.log_softmax(jnp.where(legal, pull / (1 + alpha * eta), ILLEGAL), axis=1)
