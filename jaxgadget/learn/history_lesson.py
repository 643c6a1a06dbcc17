"""The lesson of histories, for a value network: batches, sampled returns and errors, on the device.

An example is a history with either all its K × K exact values or a few sampled returns, each under a
uniformly drawn pair of entries.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxgadget.learn.network import Architecture
from jaxgadget.learn.perceptron import Weights, evaluate
from jaxgadget.learn.returns import Simulator, sample_returns

ERROR_PAIRS = 16
"""Sampled pairs of returns a history where errors are measured."""

EVALUATED = 1024
"""Histories that are evaluated at once."""

ERRORS_KEY = 2**31 - 1
"""Folded into the key for the returns that errors are measured with; no step has this number."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class HistoryLesson:
    """A `Lesson`; `N` histories on the device, those to train on first.

    Attributes:
      encodings: `[N, inputs]`.
      targets: `[N, K, K]` in units of `scale`; None if returns are sampled.
      histories: `[N]` in the simulator's tree.
      simulator: what samples returns; None for given targets.
      groups: `[2, G]` first example and size of each group of those trained on.
      shares: `[G]` how often a group is drawn from, added up.
      scale: payoff units of the network's outputs.
      key: what all randomness comes from.
      shape: the network's.
      batch_size: histories a step.
      pairs: sampled returns a history.
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

    def loss(self, weights: Weights, step: jax.Array) -> jax.Array:
        """See `Lesson`."""
        key = jax.random.fold_in(self.key, step)
        rows = self._draw(jax.random.fold_in(key, 0))
        values = self._evaluate(weights, rows)
        if self.targets is not None:
            return jnp.mean(jnp.square(values - self.targets[rows]))
        pairs, (returns,) = self._sample(rows, key, self.pairs, 1)
        return jnp.mean(jnp.square(_chosen(values, pairs) - returns))

    def rounds(self, num_examples: int, draws: int) -> int:
        """See `Lesson`."""
        return 1 if self.targets is not None else -(-draws // (ERROR_PAIRS * num_examples))

    def mean_square(
        self, weights: Weights, first: jax.Array, last: jax.Array, rounds: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """See `Lesson`.

        Given targets have no noise. Sampled ones do: the mean over two independent returns r and r′ of the
        squared errors, and half of the mean of (r − r′)², which is what their variance adds to it. Every
        example is looked at in so many rounds, each with returns of its own.
        """
        count = last - first
        total = count * rounds

        def add(batch: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            number = batch * EVALUATED + jnp.arange(EVALUATED, dtype=jnp.int32)
            rows = first + number % count
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
            means = [part.reshape(EVALUATED, -1).mean(axis=1) for part in (error, noise)]
            added = [jnp.sum(jnp.where(number < total, mean, 0)) for mean in means]
            return sums[0] + added[0], sums[1] + added[1]

        zero, unit = jnp.float32(0), jnp.square(self.scale) / total.astype(jnp.float32)
        error, noise = jax.lax.fori_loop(0, -(-total // EVALUATED), add, (zero, zero))
        return error * unit, noise * unit

    def _evaluate(self, weights: Weights, rows: jax.Array) -> jax.Array:
        """`[B, K, K]` in units of `scale`."""
        return evaluate(self.shape, weights, self.encodings[rows].astype(jnp.float32))

    def _draw(self, key: jax.Array) -> jax.Array:
        """`[batch_size]` examples to train on: a group by its share, then one of it."""
        size = (self.batch_size,)
        uniform = jax.random.uniform(jax.random.fold_in(key, 0), size)
        group = jnp.sum(uniform[:, None] >= self.shares[None, :-1], axis=1)
        first, count = self.groups[:, group]
        return first + jax.random.randint(jax.random.fold_in(key, 1), size, 0, count)

    def _sample(
        self, rows: jax.Array, key: jax.Array, pairs: int, times: int
    ) -> tuple[tuple[jax.Array, jax.Array], list[jax.Array]]:
        """`[B, pairs]` both players' uniformly drawn entries, and that often independent returns of them."""
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
    """`[B, pairs]` of `[B, K, K]`."""
    return values[jnp.arange(len(values))[:, None], pairs[0], pairs[1]]
