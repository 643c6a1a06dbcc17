"""A residual perceptron in flax's NNX, and networks as functions of their weights."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np
from flax import nnx

from jaxgadget.util.compilation import compiled
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import precision

SMALLEST_BATCH, LARGEST_BATCH = 64, 4096
"""Smallest and largest batch of a network called from the host; batches are padded to powers of two."""

Weights: TypeAlias = dict[Any, Any]
"""A network's parameters, a nested dictionary."""


class Shape(Protocol):
    """Static description of a network: the structure of its weights and its function; hashable."""

    def build(self, rngs: nnx.Rngs) -> nnx.Module:
        """The network, with random weights."""
        ...


def count_weights(inputs: int, outputs: int, width: int, depth: int) -> int:
    """Number of trained parameters of a `Perceptron`."""
    block = 2 * width + 2 * (width**2 + width)  # a layer norm, two layers with biases
    return (inputs + 1) * width + depth * block + 2 * width + (width + 1) * outputs


class _Block(nnx.Module):
    """Residual block x + W₂ relu(W₁ norm(x)), initially the identity."""

    def __init__(self, width: int, rngs: nnx.Rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.first = nnx.Linear(width, width, rngs=rngs)
        self.second = nnx.Linear(width, width, kernel_init=nnx.initializers.zeros_init(), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.second(nnx.relu(self.first(self.norm(x))))


class Perceptron(nnx.Module):
    """Residual perceptron `[..., inputs]` → `[..., outputs]`.

    Args:
      inputs: number of inputs.
      outputs: number of outputs.
      width: units of a layer.
      depth: residual blocks, of two layers each.
      rngs: random streams of the weights.
      from_zero: if True, the initial output is 0; unsuitable if the output feeds another perceptron, as the
        gradient would be 0.
    """

    def __init__(
        self, inputs: int, outputs: int, width: int, depth: int, rngs: nnx.Rngs, *, from_zero: bool = True
    ):
        self.inward = nnx.Linear(inputs, width, rngs=rngs)
        self.blocks = nnx.List([_Block(width, rngs) for _ in range(depth)])
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        last = nnx.initializers.zeros_init() if from_zero else nnx.initializers.lecun_normal()
        self.outward = nnx.Linear(width, outputs, kernel_init=last, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Outputs `[..., outputs]`."""
        x = self.inward(x)
        for block in self.blocks:
            x = block(x)
        return self.outward(nnx.relu(self.norm(x)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PerceptronShape:
    """The shape of a `Perceptron` with initial output 0.

    Attributes:
      inputs: number of inputs.
      outputs: number of outputs.
      width: units of a layer.
      depth: residual blocks, of two layers each.
    """

    inputs: int
    outputs: int
    width: int
    depth: int

    def build(self, rngs: nnx.Rngs) -> Perceptron:
        """The network, with random weights."""
        return Perceptron(self.inputs, self.outputs, self.width, self.depth, rngs)


def initial_weights(shape: Shape, seed: int) -> Weights:
    """Random weights, float32, reproducible from the seed."""
    with precision(np.float32):
        return _draw_weights(shape, jax.random.key(seed))


@compiled(static_argnums=0)
def _draw_weights(shape: Shape, key: jax.Array) -> Weights:
    return nnx.to_pure_dict(nnx.state(shape.build(nnx.Rngs(key))))


@functools.lru_cache(maxsize=16)
def _structure(shape: Shape) -> tuple[Any, Any]:
    with precision(np.float32):
        return nnx.split(nnx.eval_shape(lambda: shape.build(nnx.Rngs(0))))


def abstract_weights(shape: Shape) -> Weights:
    """Shapes and dtypes of the weights."""
    return nnx.to_pure_dict(_structure(shape)[1])


def weights_digest(weights: Weights) -> str:
    """Digest of a network's weights, equal for equal networks."""
    return digest(*map(np.asarray, jax.tree.leaves(weights)))


def evaluate(shape: Shape, weights: Weights, *inputs: Any) -> Any:
    """Applies the network to its inputs, for use inside `jit`."""
    definition, state = _structure(shape)
    state = jax.tree.map(lambda leaf: leaf, state)  # a copy, since it is filled in place
    nnx.replace_by_pure_dict(state, weights)
    return nnx.merge(definition, state)(*inputs)


def batches(count: int) -> Iterator[tuple[slice, int]]:
    """Yields batches of `count` rows: a slice and the padded batch size, which takes few distinct values."""
    for begin in range(0, count, LARGEST_BATCH):
        rows = slice(begin, min(begin + LARGEST_BATCH, count))
        yield rows, max(SMALLEST_BATCH, 1 << (rows.stop - begin - 1).bit_length())
