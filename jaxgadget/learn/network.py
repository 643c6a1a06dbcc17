"""A value network: residual perceptron in flax's NNX, a history's encoding in, K × K values out.

Values come in units of the payoff range. Games symmetric in the players do not share weights here: the
symmetry V(h)[k, l] = −V(h with the seats swapped)[l, k] needs both players' portfolios to be mirror
images, and those of a search are not.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any, TypeAlias

import jax
import numpy as np
from flax import nnx

from jaxgadget.learn.encoding import Encoding
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.precision import precision

SMALLEST_BATCH, LARGEST_BATCH = 64, 4096
"""Batches are padded to powers of two in between."""

Weights: TypeAlias = dict[Any, Any]
"""The network's parameters, nested."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    """The shape of a network.

    Attributes:
      inputs: numbers of a history's encoding.
      num_entries: K.
      width: units of a layer.
      depth: residual blocks, of two layers each.
    """

    inputs: int
    num_entries: int
    width: int
    depth: int

    @property
    def num_weights(self) -> int:
        """Numbers that are trained."""
        outputs = self.num_entries**2
        block = 2 * self.width + 2 * (self.width**2 + self.width)  # a norm, two layers with biases
        inward, outward = (self.inputs + 1) * self.width, (self.width + 1) * outputs
        return inward + self.depth * block + 2 * self.width + outward


class _Block(nnx.Module):
    """x + W₂ relu(W₁ norm(x)), starting as x."""

    def __init__(self, width: int, rngs: nnx.Rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.first = nnx.Linear(width, width, rngs=rngs)
        self.second = nnx.Linear(width, width, kernel_init=nnx.initializers.zeros_init(), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.second(nnx.relu(self.first(self.norm(x))))


class ValueNetwork(nnx.Module):
    """`[B, inputs]` → `[B, K, K]`, starting at 0."""

    def __init__(self, shape: Architecture, rngs: nnx.Rngs):
        outputs = shape.num_entries**2
        self.num_entries = shape.num_entries
        self.inward = nnx.Linear(shape.inputs, shape.width, rngs=rngs)
        self.blocks = nnx.List([_Block(shape.width, rngs) for _ in range(shape.depth)])
        self.norm = nnx.LayerNorm(shape.width, rngs=rngs)
        self.outward = nnx.Linear(shape.width, outputs, kernel_init=nnx.initializers.zeros_init(), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Values of a batch of encodings, in units of the payoff range."""
        x = self.inward(x)
        for block in self.blocks:
            x = block(x)
        values = self.outward(nnx.relu(self.norm(x)))
        return values.reshape(x.shape[0], self.num_entries, self.num_entries)


def initial_weights(shape: Architecture, seed: int) -> Weights:
    """Random weights, float32, reproducible from the seed."""
    with precision(np.float32):
        return _draw_weights(shape, jax.random.key(seed))


@functools.partial(jax.jit, static_argnums=0)
def _draw_weights(shape: Architecture, key: jax.Array) -> Weights:
    return nnx.to_pure_dict(nnx.state(ValueNetwork(shape, nnx.Rngs(key))))


@functools.lru_cache(maxsize=16)
def _structure(shape: Architecture) -> tuple[Any, Any]:
    with precision(np.float32):
        return nnx.split(nnx.eval_shape(lambda: ValueNetwork(shape, nnx.Rngs(0))))


def abstract_weights(shape: Architecture) -> Weights:
    """Shapes and dtypes of the weights."""
    return nnx.to_pure_dict(_structure(shape)[1])


def evaluate(shape: Architecture, weights: Weights, x: jax.Array) -> jax.Array:
    """`[B, inputs]` → `[B, K, K]`, for use inside `jit`."""
    definition, state = _structure(shape)
    state = jax.tree.map(lambda leaf: leaf, state)  # a copy, as it is filled in place
    nnx.replace_by_pure_dict(state, weights)
    return nnx.merge(definition, state)(x)


_evaluate = jax.jit(evaluate, static_argnums=0)


@dataclasses.dataclass(eq=False, kw_only=True, repr=False)
class NetworkValues:
    """A trained network as a value function.

    Attributes:
      game: name of the game that it is for.
      shape: its architecture.
      encoding: how histories become its inputs.
      scale: the payoff range, the unit of its outputs.
      weights: its parameters.
      blueprint: digest of both players' entry 0 of the portfolio that it was trained on, as
        `blueprint_digest` gives it; None if that is not known.
      name: what tables call it: the folder that it is in, else `network`.
      seconds: spent in it so far, encoding the histories included.
      calls: how often it was asked.
    """

    game: str
    shape: Architecture
    encoding: Encoding
    scale: float
    weights: Weights
    blueprint: str | None = None
    name: str = "network"
    seconds: float = 0.0
    calls: int = 0

    def __repr__(self) -> str:
        k, width, depth = self.shape.num_entries, self.shape.width, self.shape.depth
        return f"<NetworkValues of {self.game}: K = {k}, width {width}, depth {depth}>"

    @property
    def num_entries(self) -> int:
        """K."""
        return self.shape.num_entries

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """`[H, K, K]` values of histories, as `ValueFunction` says.

        Raises:
          ValueError: if the tree is of another game.
        """
        check_tree(tree)
        if tree.game.name != self.game:
            raise ValueError(
                f"value: a network for {self.game!r}, not for {tree.game.name!r}; train one for this game"
            )
        began, histories = time.perf_counter(), np.asarray(histories)
        values = np.empty((len(histories), self.num_entries, self.num_entries))
        for begin in range(0, len(histories), LARGEST_BATCH):
            rows = histories[begin : begin + LARGEST_BATCH]
            size = max(SMALLEST_BATCH, 1 << (len(rows) - 1).bit_length())
            padded = np.zeros((size, self.shape.inputs), np.float32)
            padded[: len(rows)] = self.encoding(tree, rows)
            with precision(np.float32):
                outputs = np.asarray(_evaluate(self.shape, self.weights, padded))
            values[begin : begin + len(rows)] = outputs[: len(rows)]
        values *= self.scale
        self.calls += 1
        self.seconds += time.perf_counter() - began
        return values
