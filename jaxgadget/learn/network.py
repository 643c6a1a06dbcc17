"""A value network: a residual perceptron, a history's encoding in, K × K values out.

Values come in units of the payoff range. Games symmetric in the players do not share weights here: the
symmetry V(h)[k, l] = −V(h with the seats swapped)[l, k] needs both players' portfolios to be mirror
images, and those of a search are not.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import time
from typing import Any

import jax
import numpy as np
from flax import nnx

from jaxgadget.learn.checkpoints import NetworkKind, parsing, read_description, restore_weights
from jaxgadget.learn.encoding import Encoding, decision_histories
from jaxgadget.learn.perceptron import Perceptron, Weights, abstract_weights, evaluate
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.precision import precision

SMALLEST_BATCH, LARGEST_BATCH = 64, 4096
"""Batches are padded to powers of two in between."""

KIND = NetworkKind(name="value network", version=1, writer="train_value")
"""What a folder with one says it holds."""


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

    def build(self, rngs: nnx.Rngs) -> ValueNetwork:
        """See `Shape`."""
        return ValueNetwork(self, rngs)


class ValueNetwork(Perceptron):
    """`[B, inputs]` → `[B, K, K]`, starting at 0."""

    def __init__(self, shape: Architecture, rngs: nnx.Rngs):
        super().__init__(shape.inputs, shape.num_entries**2, shape.width, shape.depth, rngs)
        self.num_entries = shape.num_entries

    def __call__(self, x: jax.Array) -> jax.Array:
        """Values of a batch of encodings, in units of the payoff range."""
        return super().__call__(x).reshape(x.shape[0], self.num_entries, self.num_entries)


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

    def describe(self, training: dict[str, Any]) -> dict[str, Any]:
        """For a `TrainingFolder`, with what the weights depend on besides."""
        return {
            "game": self.game,
            "architecture": dataclasses.asdict(self.shape),
            "encoding": dataclasses.asdict(self.encoding),
            "scale": self.scale,
            "blueprint": self.blueprint,
            "training": training,
        }

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


def load_values(folder: str | os.PathLike[str], tree: HistoryTree) -> NetworkValues:
    """The network that `train_value` left in a folder, with the newest checkpoint's weights.

    Args:
      folder: where it is.
      tree: the game's histories, possibly to a depth limit.

    Returns:
      The network. It is for the one blueprint that is entry 0 of its portfolio; `blueprint` stands for that.

    Raises:
      ValueError: if there is none, it cannot be read, or it is for another game.
      ImportError: if orbax is not installed.
    """
    check_tree(tree)
    description = read_description(folder, KIND)
    with parsing(folder, KIND):
        values = _parse(description, os.fspath(folder))
    if values.game != tree.game.name:
        raise ValueError(
            f"{KIND.label(folder)} is for {values.game!r}, not for {tree.game.name!r}; "
            "train one for this game"
        )
    with parsing(folder, KIND):
        values.encoding(tree, decision_histories(tree)[:1])
    values.weights = restore_weights(folder, values.weights, KIND)
    return values


def _parse(description: dict[str, Any], name: str) -> NetworkValues:
    """The network that is described, with no weights yet but their shapes; any error if it is not."""
    told: Any = description["encoding"]
    sizes = tuple((int(first), int(second), int(chance)) for first, second, chance in told["sizes"])
    encoding = Encoding(**(told | {"sizes": sizes}))
    counts: Any = description["architecture"]
    shape = Architecture(**{name: operator.index(count) for name, count in counts.items()})
    if min(shape.num_entries, shape.width, shape.depth + 1) < 1 or shape.inputs != encoding.width:
        raise ValueError(f"architecture {counts}")
    scale = float(description["scale"])
    if not 0 < scale < math.inf:
        raise ValueError(f"scale {scale}")
    if not isinstance(description["blueprint"], str | None):
        raise ValueError(f"blueprint {description['blueprint']}")
    return NetworkValues(
        game=str(description["game"]),
        shape=shape,
        encoding=encoding,
        scale=scale,
        weights=abstract_weights(shape),
        blueprint=description["blueprint"],
        name=name,
    )
