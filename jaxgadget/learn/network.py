"""Value network: a residual perceptron from a history's encoding to K × K values.

Values are in units of the payoff range. In symmetric games players do not share weights: the symmetry
V(h)[k, l] = −V(h with the seats swapped)[l, k] requires mirrored portfolios, unlike those of a search.
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

from jaxgadget.learn.encoding import Encoding, decision_histories
from jaxgadget.networks.checkpoints import NetworkKind, parsing, read_description, restore_weights
from jaxgadget.networks.perceptron import (
    Perceptron,
    Weights,
    abstract_weights,
    batches,
    evaluate,
    weights_digest,
)
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision

KIND = NetworkKind(name="value network", version=1, writer="train_value")
"""Kind of network of the training folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
    """The shape of a network.

    Attributes:
      inputs: size of a history's encoding.
      num_entries: number of continuation strategies, K.
      width: units of a layer.
      depth: residual blocks, of two layers each.
    """

    inputs: int
    num_entries: int
    width: int
    depth: int

    def build(self, rngs: nnx.Rngs) -> ValueNetwork:
        """The network, with random weights."""
        return ValueNetwork(self, rngs)


class ValueNetwork(Perceptron):
    """Perceptron `[B, inputs]` → `[B, K, K]` with initial output 0."""

    def __init__(self, shape: Architecture, rngs: nnx.Rngs):
        super().__init__(shape.inputs, shape.num_entries**2, shape.width, shape.depth, rngs)
        self.num_entries = shape.num_entries

    def __call__(self, x: jax.Array) -> jax.Array:
        """Values of a batch of encodings, in units of the payoff range."""
        return super().__call__(x).reshape(x.shape[0], self.num_entries, self.num_entries)


_evaluate = compiled(evaluate, static_argnums=0)


@dataclasses.dataclass(eq=False, kw_only=True, repr=False)
class NetworkValues:
    """A trained network as a value function.

    Attributes:
      game: name of the game.
      shape: its architecture.
      encoding: encoding of histories.
      scale: payoff range, the unit of its outputs.
      weights: its parameters.
      blueprint: `blueprint_digest` of the portfolio that it was trained on; None if unknown.
      name: name for tables: its folder, otherwise `network`.
      seconds: total time of all calls, including encoding.
      calls: number of calls.
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
        """Number of continuation strategies, K."""
        return self.shape.num_entries

    @property
    def fingerprint(self) -> str:
        """Digest of its weights."""
        return weights_digest(self.weights)

    def describe(self, training: dict[str, Any]) -> dict[str, Any]:
        """Description for a `TrainingFolder`, with the settings that determine the weights."""
        return {
            "game": self.game,
            "architecture": dataclasses.asdict(self.shape),
            "encoding": dataclasses.asdict(self.encoding),
            "scale": self.scale,
            "blueprint": self.blueprint,
            "training": training,
        }

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """Values of histories for player 0, `[H, K, K]`.

        Raises:
          ValueError: if the tree is of another game.
        """
        check_histories(tree)
        if tree.game.name != self.game:
            raise ValueError(
                f"value: the network is for {self.game!r}, not for {tree.game.name!r}; train one for this "
                "game"
            )
        began, histories = time.perf_counter(), np.asarray(histories)
        values = np.empty((len(histories), self.num_entries, self.num_entries))
        for rows, size in batches(len(histories)):
            encoded = self.encoding(tree, histories[rows])
            padded = np.zeros((size, self.shape.inputs), np.float32)
            padded[: len(encoded)] = encoded
            with precision(np.float32):
                outputs = np.asarray(_evaluate(self.shape, self.weights, padded))
            values[rows] = outputs[: len(encoded)]
        values *= self.scale
        self.calls += 1
        self.seconds += time.perf_counter() - began
        return values


def load_values(folder: str | os.PathLike[str], tree: HistoryTree) -> NetworkValues:
    """Loads a network from a folder of `train_value`, with the newest checkpoint's weights.

    Args:
      folder: the folder.
      tree: the game's histories, possibly truncated.

    Returns:
      The network. It is specific to the blueprint that is strategy 0 of its portfolio (digest: `blueprint`).

    Raises:
      ValueError: if it is missing, cannot be read, or is for another game.
      ImportError: if orbax is not installed.
    """
    check_histories(tree)
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
    """The described network, with abstract weights; raises any exception if the description is invalid."""
    encoding_fields: Any = description["encoding"]
    sizes = tuple(
        (int(first), int(second), int(chance)) for first, second, chance in encoding_fields["sizes"]
    )
    encoding = Encoding(**(encoding_fields | {"sizes": sizes}))
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
