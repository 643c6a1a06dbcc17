"""Continuations: the K strategies among which each player chooses at the limit of a search with a critic.

The first is the policy network itself. The others are given (`Biased`), or learned along with the critic
(`Learned`), as the transformations of Kubíček, Burch and Lisý (2024, SePoT).
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.networks.perceptron import PerceptronShape, Weights, evaluate, initial_weights
from jaxgadget.util.arrays import FloatArray

SMALLEST = 1e-8
"""Smallest weight of a legal action after a transformation."""

SHORTEST = 1e-12
"""Smallest norm by which a direction is divided."""


class Continuations(Protocol):
    """K continuations of a policy network with A actions; a pytree for use inside `jit`."""

    @property
    def size(self) -> int:
        """K."""
        ...

    def initial_weights(self, seed: int) -> Weights:
        """Initial values of the learned parameters; empty if there are none."""
        ...

    def __call__(
        self, weights: Weights, probability: jax.Array, inputs: jax.Array, legal: jax.Array
    ) -> jax.Array:
        """`[..., K, A]` probabilities of actions.

        Args:
          weights: the parameters.
          probability: `[..., A]` of the policy, 0 for illegal actions.
          inputs: `[..., F + 2]` of the policy network.
          legal: `[..., A]` mask of legal actions.
        """
        ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Biased:
    """The policy with the probabilities of one class of actions each multiplied by a factor.

    Attributes:
      action_weights: `[K, A]` factors of actions; 1 in the first continuation.
    """

    action_weights: jax.Array

    @property
    def size(self) -> int:
        """K."""
        return len(self.action_weights)

    def initial_weights(self, seed: int) -> Weights:
        """Empty."""
        return {}

    def __call__(
        self, weights: Weights, probability: jax.Array, inputs: jax.Array, legal: jax.Array
    ) -> jax.Array:
        """`[..., K, A]` probabilities times factors, normalised."""
        factors = self.action_weights.reshape(*[1] * (probability.ndim - 1), *self.action_weights.shape)
        biased = probability[..., None, :] * factors
        return biased / jnp.maximum(jnp.sum(biased, axis=-1, keepdims=True), jnp.finfo(biased.dtype).tiny)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Learned:
    """SePoT's transformations `normalise(max(π + d_k, 1e-8))` of the policy π, with directions d_k of norm 1.

    A network maps the inputs of the policy network to K - 1 directions; the first continuation is π.

    Attributes:
      shape: architecture of the network.
      num_actions: A.
    """

    shape: PerceptronShape = dataclasses.field(metadata={"static": True})
    num_actions: int = dataclasses.field(metadata={"static": True})

    @staticmethod
    def of(policy: PerceptronShape, num_entries: int, width: int, depth: int) -> Learned:
        """K = `num_entries` continuations of a policy network, by a network of the given width and depth."""
        outputs = (num_entries - 1) * policy.outputs
        shape = PerceptronShape(inputs=policy.inputs, outputs=outputs, width=width, depth=depth)
        return Learned(shape=shape, num_actions=policy.outputs)

    @property
    def size(self) -> int:
        """K."""
        return 1 + self.shape.outputs // self.num_actions

    def initial_weights(self, seed: int) -> Weights:
        """Random weights; initially each direction is random and the same at every infostate."""
        weights, (key,) = initial_weights(self.shape, seed), jax.random.split(jax.random.key(seed), 1)
        last: Any = weights["outward"]
        bias = jax.random.normal(key, last["bias"].shape, last["bias"].dtype)
        return weights | {"outward": last | {"bias": bias}}

    def __call__(
        self, weights: Weights, probability: jax.Array, inputs: jax.Array, legal: jax.Array
    ) -> jax.Array:
        """`[..., K, A]` the policy, then its transformations."""
        is_legal = legal[..., None, :]
        moved = probability[..., None, :] + unit(self._directions(weights, inputs, is_legal))
        moved = jnp.where(is_legal, jnp.maximum(moved, jnp.asarray(SMALLEST, moved.dtype)), 0)
        moved = moved / jnp.maximum(jnp.sum(moved, axis=-1, keepdims=True), jnp.finfo(moved.dtype).tiny)
        return jnp.concatenate([probability[..., None, :], moved], axis=-2)

    def loss(
        self, weights: Weights, change: jax.Array, inputs: jax.Array, legal: jax.Array, acting: jax.Array
    ) -> jax.Array:
        """Mean squared distance of changes of the policy, scaled to norm 1, from the closest direction.

        All decisions of a player in a game are assigned to the direction that is closest on average over
        them, so that directions are centres of clusters of changes.

        Args:
          weights: the parameters.
          change: `[T, 2, n, A]` of the policy's probabilities.
          inputs: `[T, 2, n, F + 2]`.
          legal: `[T, 2, n, A]`.
          acting: `[T, 2, n]` mask of the decisions.
        """
        is_legal = legal[..., None, :]
        directions = self._directions(weights, inputs, is_legal)
        target = unit(jnp.where(is_legal, change[..., None, :], 0))
        apart = jnp.linalg.norm(unit(jax.lax.stop_gradient(directions)) - target, axis=-1)
        closest = jnp.argmin(jnp.sum(jnp.where(acting[..., None], apart, 0), axis=0), axis=-1)
        is_closest = jax.nn.one_hot(closest, self.size - 1, dtype=bool)[None] & acting[..., None]
        squares = jnp.sum(jnp.square(directions - target), axis=-1)
        count = jnp.maximum(jnp.sum(acting), 1).astype(squares.dtype)
        return jnp.sum(jnp.where(is_closest, squares, 0)) / count

    def _directions(self, weights: Weights, inputs: jax.Array, is_legal: jax.Array) -> jax.Array:
        """`[..., K - 1, A]`, 0 for illegal actions."""
        outputs = evaluate(self.shape, weights, inputs)
        directions = outputs.reshape(*outputs.shape[:-1], self.size - 1, self.num_actions)
        return jnp.where(is_legal, directions, 0)


def unit(x: jax.Array) -> jax.Array:
    """`[..., A]` vectors scaled to norm 1."""
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), jnp.asarray(SHORTEST, x.dtype))


def action_weights(num_actions: int, num_entries: int, factor: float) -> FloatArray:
    """`[K, A]` factors of actions in each continuation: all 1, then `factor` for one class of actions each.

    Classes consist of neighbouring actions and are of nearly equal size.
    """
    weights = np.ones((num_entries, num_actions))
    if num_entries == 1:
        return weights
    for entry, actions in enumerate(np.array_split(np.arange(num_actions), num_entries - 1), 1):
        weights[entry, actions] = factor
    return weights
