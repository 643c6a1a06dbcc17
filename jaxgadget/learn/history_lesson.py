"""The lesson of a value network of histories: batches, sampled returns and errors, on the device.

An example is a history with either all K × K exact values or some sampled returns, each for a uniformly drawn
pair of strategies.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxgadget.learn.network import Architecture
from jaxgadget.learn.returns import Simulator, sample_returns
from jaxgadget.learn.trainer import Carried, Stateless
from jaxgadget.networks.perceptron import Weights, evaluate

ERROR_PAIRS = 16
"""Number of sampled pairs of returns per history when errors are measured."""

EVALUATED = 1024
"""Number of histories per evaluation batch."""

ERRORS_KEY = 2**31 - 1
"""Folded into the key for returns that measure errors; differs from all steps."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class HistoryLesson(Stateless):
    """A `Lesson` of `N` histories on the device, the training set first.

    Attributes:
      encodings: `[N, inputs]`.
      targets: `[N, K, K]` in units of `scale`; None if returns are sampled.
      histories: `[N]` indices in the simulator's tree.
      simulator: samples returns; None with `targets`.
      groups: `[2, G]` first example and size of each group of the training set.
      shares: `[G]` cumulative probabilities of the groups.
      scale: payoff unit of the network's outputs.
      key: random key.
      shape: shape of the network.
      batch_size: histories per step.
      pairs: sampled returns per history.
    """

    encodings: jax.Array
    targets: jax.Array | None
    histories: jax.Array
    simulator: Simulator | None
    groups: jax.Array
    shares: jax.Array
    scale: jax.Array
    key: jax.Array
    shape: Architecture = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})
    pairs: int = dataclasses.field(metadata={"static": True})

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        """Mean squared error over the batch of a step, in units of `scale`²."""
        key = jax.random.fold_in(self.key, step)
        rows = self._draw(jax.random.fold_in(key, 0))
        values = self._evaluate(weights, rows)
        if self.targets is not None:
            return jnp.mean(jnp.square(values - self.targets[rows]))
        pairs, (returns,) = self._sample(rows, key, self.pairs, 1)
        return jnp.mean(jnp.square(_chosen(values, pairs) - returns))

    def rounds(self, num_examples: int, draws: int) -> int:
        """Number of rounds over the examples for at least `draws` draws; 1 for exact targets."""
        return 1 if self.targets is not None else -(-draws // (ERROR_PAIRS * num_examples))

    @property
    def evaluated(self) -> int:
        """Number of histories per evaluation batch."""
        return EVALUATED

    def errors(self, weights: Weights, rows: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean squared errors `[EVALUATED]` of histories, in units of `scale`², and their noise.

        Exact targets have no noise. For sampled targets the error is the mean over two independent returns r
        and r′, and the noise, which is the contribution of their variance, half of the mean of (r − r′)².
        Every batch draws new returns.
        """
        values = self._evaluate(weights, rows)
        if self.targets is not None:
            error = jnp.square(values - self.targets[rows])
            noise = jnp.zeros_like(error)
        else:
            key = jax.random.fold_in(jax.random.fold_in(self.key, ERRORS_KEY), batch)
            pairs, (r, other) = self._sample(rows, key, ERROR_PAIRS, 2)
            values = _chosen(values, pairs)
            error = (jnp.square(values - r) + jnp.square(values - other)) / 2
            noise = jnp.square(r - other) / 2
        return error.reshape(EVALUATED, -1).mean(axis=1), noise.reshape(EVALUATED, -1).mean(axis=1)

    def _evaluate(self, weights: Weights, rows: jax.Array) -> jax.Array:
        """Network outputs `[B, K, K]`, in units of `scale`."""
        return evaluate(self.shape, weights, self.encodings[rows].astype(jnp.float32))

    def _draw(self, key: jax.Array) -> jax.Array:
        """`[batch_size]` training examples: a group by its share, then one of its examples."""
        size = (self.batch_size,)
        uniform = jax.random.uniform(jax.random.fold_in(key, 0), size)
        group = jnp.sum(uniform[:, None] >= self.shares[None, :-1], axis=1)
        first, count = self.groups[:, group]
        return first + jax.random.randint(jax.random.fold_in(key, 1), size, 0, count)

    def _sample(
        self, rows: jax.Array, key: jax.Array, pairs: int, times: int
    ) -> tuple[tuple[jax.Array, jax.Array], list[jax.Array]]:
        """Both players' random strategies `[B, pairs]`, and `times` independent returns `[B, pairs]`."""
        assert self.simulator is not None
        size = (len(rows), pairs)
        drawn = jax.random.randint(jax.random.fold_in(key, 1), (2, *size), 0, self.shape.num_entries)
        histories = jnp.repeat(self.histories[rows], pairs)
        entries = (drawn[0].reshape(-1), drawn[1].reshape(-1))
        returns = [
            sample_returns(self.simulator, histories, entries, jax.random.fold_in(key, 2 + time))
            for time in range(times)
        ]
        return (drawn[0], drawn[1]), [payoff.reshape(size) / self.scale for payoff in returns]


def _chosen(values: jax.Array, pairs: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Selects `[B, pairs]` of `[B, K, K]`."""
    return values[jnp.arange(len(values))[:, None], pairs[0], pairs[1]]
