"""The compiled training step of a value network, and its errors: batches are drawn on the device.

All randomness is a function of the key and the number of the step; no generator is carried along.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxgadget.learn.network import Architecture, Weights, evaluate
from jaxgadget.learn.returns import Simulator, sample_returns

WARM_UP = 0.02
"""The share of the steps in which the learning rate rises."""

ERROR_PAIRS = 16
"""Sampled pairs of returns a history where errors are measured."""

SECOND_MOMENT = 0.99
"""Decay of the mean squared gradient. With the usual 0.999 the error was 1.7 times as large in Goofspiel 5
after 3,000 steps, and a seventh larger in Leduc with sampled returns after 2,000."""

WEIGHT_DECAY = 1e-4
LARGEST_GRADIENT = 1.0
"""Gradients are clipped to this norm."""

CONSTANTS = {
    "warm-up": WARM_UP,
    "second moment": SECOND_MOMENT,
    "weight decay": WEIGHT_DECAY,
    "largest gradient": LARGEST_GRADIENT,
}
"""What weights depend on besides a training's settings; a training does not go on with others."""

EVALUATED = 1024
"""Histories that are evaluated at once."""

ERRORS_KEY = 2**31 - 1
"""Folded into the key for the returns that errors are measured with; no step has this number."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What is compiled for.

    Attributes:
      shape: the network's.
      batch_size: histories a step.
      pairs: sampled returns a history.
    """

    shape: Architecture
    batch_size: int
    pairs: int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Examples:
    """What is learnt from; `N` histories on the device, those to train on first.

    Attributes:
      encodings: `[N, inputs]`.
      targets: `[N, K, K]` in units of `scale`; None if returns are sampled.
      histories: `[N]` in the simulator's tree.
      simulator: what samples returns; None for given targets.
      groups: `[2, G]` first example and size of each group of those trained on.
      shares: `[G]` how often a group is drawn from, added up.
      scale: payoff units of the network's outputs.
      key: what all randomness comes from.
      rate: the largest learning rate.
      steps: of the whole training.
    """

    encodings: jax.Array
    targets: jax.Array | None
    histories: jax.Array
    simulator: Simulator | None
    groups: jax.Array
    shares: jax.Array
    scale: jax.Array
    key: jax.Array
    rate: jax.Array
    steps: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a training is.

    Attributes:
      weights: the network's.
      moments: the optimiser's.
      step: steps done.
      loss_sum: of the steps since `advance` was called.
      failed: the step whose loss or gradient was not finite, -1 if none was; the weights are from before it.
    """

    weights: Weights
    moments: Any
    step: jax.Array
    loss_sum: jax.Array
    failed: jax.Array


_optimiser = optax.chain(
    optax.clip_by_global_norm(LARGEST_GRADIENT),
    optax.scale_by_adam(b2=SECOND_MOMENT),
    optax.add_decayed_weights(WEIGHT_DECAY),
)


def begin(weights: Weights) -> Progress:
    """No step done."""
    zero = jnp.int32(0)
    return Progress(
        weights=weights, moments=_optimiser.init(weights), step=zero, loss_sum=jnp.float32(0), failed=zero - 1
    )


@functools.partial(jax.jit, static_argnames="plan", donate_argnames="progress")
def advance(progress: Progress, examples: Examples, until: jax.Array, *, plan: Plan) -> Progress:
    """Trains until so many steps are done, or one fails."""

    def goes_on(now: Progress) -> jax.Array:
        return (now.step < until) & (now.failed < 0)

    def train(now: Progress) -> Progress:
        loss, gradient = jax.value_and_grad(_loss)(now.weights, examples, now.step, plan)
        is_finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
            updates, moments = _optimiser.update(gradient, now.moments, now.weights)
        rate = -_learning_rate(examples, now.step)
        weights = optax.apply_updates(now.weights, jax.tree.map(lambda update: rate * update, updates))
        weights, moments = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old), (weights, moments), (now.weights, now.moments)
        )
        return Progress(
            weights=weights,
            moments=moments,
            step=now.step + is_finite.astype(jnp.int32),
            loss_sum=now.loss_sum + loss,
            failed=jnp.where(is_finite, -1, now.step).astype(jnp.int32),
        )

    start = dataclasses.replace(progress, loss_sum=jnp.float32(0))
    return jax.lax.while_loop(goes_on, train, start)


def _learning_rate(examples: Examples, step: jax.Array) -> jax.Array:
    """Up in a straight line, then down as a cosine."""
    done = step.astype(jnp.float32) / examples.steps
    rising = jnp.minimum((done + 1 / examples.steps) / WARM_UP, 1.0)
    return examples.rate * rising * 0.5 * (1 + jnp.cos(jnp.pi * done))


def _loss(weights: Weights, examples: Examples, step: jax.Array, plan: Plan) -> jax.Array:
    """Mean squared error over a batch, in units of `scale`²."""
    key = jax.random.fold_in(examples.key, step)
    rows = _draw(examples, jax.random.fold_in(key, 0), plan.batch_size)
    values = evaluate(plan.shape, weights, examples.encodings[rows].astype(jnp.float32))
    if examples.targets is not None:
        return jnp.mean(jnp.square(values - examples.targets[rows]))
    pairs, (returns,) = _sample(examples, rows, key, plan.shape, plan.pairs, 1)
    return jnp.mean(jnp.square(_chosen(values, pairs) - returns))


def _draw(examples: Examples, key: jax.Array, count: int) -> jax.Array:
    """`[count]` examples to train on: a group by its share, then one of it."""
    uniform = jax.random.uniform(jax.random.fold_in(key, 0), (count,))
    group = jnp.sum(uniform[:, None] >= examples.shares[None, :-1], axis=1)
    first, size = examples.groups[:, group]
    return first + jax.random.randint(jax.random.fold_in(key, 1), (count,), 0, size)


def _sample(
    examples: Examples, rows: jax.Array, key: jax.Array, shape: Architecture, pairs: int, times: int
) -> tuple[tuple[jax.Array, jax.Array], list[jax.Array]]:
    """`[B, pairs]` both players' uniformly drawn entries, and that often independent returns of them."""
    assert examples.simulator is not None
    size = (len(rows), pairs)
    drawn = jax.random.randint(jax.random.fold_in(key, 1), (2, *size), 0, shape.num_entries)
    histories = jnp.repeat(examples.histories[rows], pairs)
    entries = (drawn[0].reshape(-1), drawn[1].reshape(-1))
    returns = [
        sample_returns(examples.simulator, histories, entries, jax.random.fold_in(key, 2 + time))
        for time in range(times)
    ]
    return (drawn[0], drawn[1]), [found.reshape(size) / examples.scale for found in returns]


def _chosen(values: jax.Array, pairs: tuple[jax.Array, jax.Array]) -> jax.Array:
    """`[B, pairs]` of `[B, K, K]`."""
    return values[jnp.arange(len(values))[:, None], pairs[0], pairs[1]]


@functools.partial(jax.jit, static_argnames="shape")
def mean_square(
    weights: Weights,
    examples: Examples,
    first: jax.Array,
    last: jax.Array,
    rounds: jax.Array,
    *,
    shape: Architecture,
) -> tuple[jax.Array, jax.Array]:
    """Mean squared error over the examples from `first` to before `last`, in payoff units, and its noise.

    Given targets have no noise. Sampled ones do: the mean over two independent returns r and r′ of the
    squared errors, and half of the mean of (r − r′)², which is what their variance adds to it. Every
    example is looked at in so many rounds, each with returns of its own.
    """
    count = last - first
    total = count * rounds

    def add(batch: jax.Array, sums: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        place = batch * EVALUATED + jnp.arange(EVALUATED, dtype=jnp.int32)
        rows = first + place % count
        values = evaluate(shape, weights, examples.encodings[rows].astype(jnp.float32))
        if examples.targets is not None:
            error = jnp.square(values - examples.targets[rows])
            noise = jnp.zeros_like(error)
        else:
            key = jax.random.fold_in(jax.random.fold_in(examples.key, ERRORS_KEY), batch)
            pairs, (r, other) = _sample(examples, rows, key, shape, ERROR_PAIRS, 2)
            values = _chosen(values, pairs)
            error = (jnp.square(values - r) + jnp.square(values - other)) / 2
            noise = jnp.square(r - other) / 2
        means = [part.reshape(EVALUATED, -1).mean(axis=1) for part in (error, noise)]
        found = [jnp.sum(jnp.where(place < total, mean, 0)) for mean in means]
        return sums[0] + found[0], sums[1] + found[1]

    zero, unit = jnp.float32(0), jnp.square(examples.scale) / total.astype(jnp.float32)
    error, noise = jax.lax.fori_loop(0, -(-total // EVALUATED), add, (zero, zero))
    return error * unit, noise * unit
