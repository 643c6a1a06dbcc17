"""The compiled training step of a value network, and its errors: batches are drawn on the device.

All randomness is a function of the key and the number of the step; no generator is carried along.
"""

from __future__ import annotations

import dataclasses
import functools

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

CONSTANTS: dict[str, float | str] = {
    "schedule": "warm-up, then cosine",
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
class Hyperparameters:
    """What is compiled for.

    Attributes:
      shape: the network's.
      batch_size: histories a step.
      pairs: sampled returns a history.
      learning_rate: the largest.
      steps: of the whole training.
    """

    shape: Architecture
    batch_size: int
    pairs: int
    learning_rate: float
    steps: int


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
    """

    encodings: jax.Array
    targets: jax.Array | None
    histories: jax.Array
    simulator: Simulator | None
    groups: jax.Array
    shares: jax.Array
    scale: jax.Array
    key: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a training is.

    Attributes:
      weights: the network's.
      optimiser: its state.
      step: steps done.
      loss_sum: of the steps since `advance` was called; NaN if the loss or gradient of step `step` was not
        finite: then all else is from before it.
    """

    weights: Weights
    optimiser: optax.OptState
    step: jax.Array
    loss_sum: jax.Array


def learning_rate(hyper: Hyperparameters) -> optax.Schedule:
    """The number of a step → its learning rate: up in a straight line, then down as a cosine."""
    warm_up = int(WARM_UP * hyper.steps)
    return optax.warmup_cosine_decay_schedule(
        init_value=hyper.learning_rate / (warm_up + 1),  # from 0 the first step would do nothing
        peak_value=hyper.learning_rate,
        warmup_steps=warm_up,
        decay_steps=hyper.steps,
    )


def _make_optimiser(hyper: Hyperparameters) -> optax.GradientTransformation:
    """AdamW on clipped gradients."""
    adamw = optax.adamw(learning_rate(hyper), b2=SECOND_MOMENT, weight_decay=WEIGHT_DECAY)
    return optax.chain(optax.clip_by_global_norm(LARGEST_GRADIENT), adamw)


def begin(weights: Weights, hyper: Hyperparameters) -> Progress:
    """No step done."""
    return Progress(
        weights=weights,
        optimiser=_make_optimiser(hyper).init(weights),
        step=jnp.int32(0),
        loss_sum=jnp.float32(0),
    )


@functools.partial(jax.jit, static_argnames="hyper", donate_argnames="progress")
def advance(progress: Progress, examples: Examples, until: jax.Array, *, hyper: Hyperparameters) -> Progress:
    """Trains until so many steps are done, or one fails."""
    optimiser = _make_optimiser(hyper)

    def goes_on(now: Progress) -> jax.Array:
        return (now.step < until) & jnp.isfinite(now.loss_sum)

    def train(now: Progress) -> Progress:
        loss, gradient = jax.value_and_grad(_loss)(now.weights, examples, now.step, hyper)
        is_finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
            updates, state = optimiser.update(gradient, now.optimiser, now.weights)
        # `optax.apply_if_finite` does not see the loss, and its branch slows small networks by a quarter.
        weights, state = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old),
            (optax.apply_updates(now.weights, updates), state),
            (now.weights, now.optimiser),
        )
        return Progress(
            weights=weights,
            optimiser=state,
            step=now.step + is_finite.astype(jnp.int32),
            loss_sum=now.loss_sum + jnp.where(is_finite, loss, jnp.nan),
        )

    start = dataclasses.replace(progress, loss_sum=jnp.float32(0))
    return jax.lax.while_loop(goes_on, train, start)


def _loss(weights: Weights, examples: Examples, step: jax.Array, hyper: Hyperparameters) -> jax.Array:
    """Mean squared error over a batch, in units of `scale`²."""
    key = jax.random.fold_in(examples.key, step)
    rows = _draw(examples, jax.random.fold_in(key, 0), hyper.batch_size)
    values = evaluate(hyper.shape, weights, examples.encodings[rows].astype(jnp.float32))
    if examples.targets is not None:
        return jnp.mean(jnp.square(values - examples.targets[rows]))
    pairs, (returns,) = _sample(examples, rows, key, hyper.shape, hyper.pairs, 1)
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
    return (drawn[0], drawn[1]), [payoff.reshape(size) / examples.scale for payoff in returns]


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
        number = batch * EVALUATED + jnp.arange(EVALUATED, dtype=jnp.int32)
        rows = first + number % count
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
        added = [jnp.sum(jnp.where(number < total, mean, 0)) for mean in means]
        return sums[0] + added[0], sums[1] + added[1]

    zero, unit = jnp.float32(0), jnp.square(examples.scale) / total.astype(jnp.float32)
    error, noise = jax.lax.fori_loop(0, -(-total // EVALUATED), add, (zero, zero))
    return error * unit, noise * unit
