"""What a value network learns from: histories, their encodings, and targets or a simulator."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.learn.encoding import CHUNK, Encoding, check_encoding, decision_histories
from jaxgadget.learn.learner import Examples
from jaxgadget.learn.network import NetworkValues
from jaxgadget.learn.returns import make_simulator
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.options import check_iterations
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_whole_number, is_finite_number
from jaxgadget.util.arrays import IntArray
from jaxgadget.values.histories import ExactValues, ValueFunction, leaf_values

TARGET_BYTES = 4 * 2**30
"""What exact targets may take."""

LARGEST = 2**31 - 1
"""Of seeds, which the device draws from, and depths."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Numbers of a training, checked; as in `train_value`."""

    steps: int
    batch_size: int
    width: int
    depth: int
    learning_rate: float
    seed: int
    pairs: int
    heldout: float
    targets: str

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "width", "pairs"):
            object.__setattr__(self, name, check_iterations(getattr(self, name), name))
        for name in ("depth", "seed"):
            count = check_whole_number(name, getattr(self, name), 0, LARGEST)
            object.__setattr__(self, name, count)
        if not is_finite_number(self.learning_rate) or not self.learning_rate > 0:
            raise ValueError(
                f"learning_rate={self.learning_rate!r}: expected a positive number, such as 1e-3"
            )
        if not is_finite_number(self.heldout) or not 0 <= self.heldout < 1:
            raise ValueError(f"heldout={self.heldout!r}: expected a share of at least 0 and below 1")
        for name in ("learning_rate", "heldout"):
            object.__setattr__(self, name, float(getattr(self, name)))  # NumPy's cannot be written as JSON


def find_targets(portfolio: Policy, targets: str | ValueFunction) -> ValueFunction | None:
    """What gives the targets; None for sampled returns."""
    if not isinstance(targets, str):
        count = getattr(targets, "num_entries", None)
        if not callable(targets) or count != portfolio.num_lanes:
            raise ValueError(
                f"targets={targets!r}: expected exact, sampled, or a value function with num_entries = "
                f"{portfolio.num_lanes}, as the portfolio has"
            )
        return targets
    if targets not in ("exact", "sampled"):
        raise ValueError(f"targets={targets!r}: expected exact, sampled, or a value function")
    return ExactValues(portfolio) if targets == "exact" else None


def split(tree: HistoryTree, histories: IntArray | None, options: TrainingOptions) -> tuple[IntArray, int]:
    """`[N]` histories, and how many are trained on: the first, by number of moves. Else in random order."""
    chosen = decision_histories(tree) if histories is None else np.asarray(histories)
    whole = chosen.ndim == 1 and np.issubdtype(chosen.dtype, np.integer) and len(chosen) > 0
    if not whole or chosen.min() < 0 or chosen.max() >= tree.num_histories:
        raise ValueError(
            f"histories={histories!r}: expected histories of {tree.game.name}, whole numbers from 0 to "
            f"{tree.num_histories - 1}, at least one"
        )
    chosen = np.unique(chosen)
    order = np.random.Generator(np.random.PCG64(options.seed)).permutation(chosen)
    num_train = len(chosen) - min(math.ceil(options.heldout * len(chosen)), len(chosen) - 1)
    train = order[:num_train]
    train = train[np.argsort(tree.num_moves[train], kind="stable")]
    return np.concatenate([train, order[num_train:]]), num_train


def make_examples(
    tree: HistoryTree,
    portfolio: Policy,
    values: NetworkValues,
    options: TrainingOptions,
    source: ValueFunction | None,
    order: IntArray,
    num_train: int,
) -> Examples:
    """Puts on the device what is learnt from.

    Args:
      tree: the game's histories.
      portfolio: both players' entries, for sampled returns.
      values: the network, for its encoding and scale.
      options: of the training.
      source: what gives the targets; None for sampled returns.
      order: `[N]` the histories, those to train on first, ascending in their moves.
      num_train: how many these are.

    Raises:
      ValueError: if all payoffs are equal, the game's own encoding tells too little, or the targets would
        take too much memory or are not finite.
    """
    if tree.payoff_range <= np.finfo(np.float64).tiny:
        raise ValueError(f"tree={tree!r}: all payoffs are equal, so there is nothing to learn")
    check_encoding(tree, values.encoding)
    size = 8 * len(order) * portfolio.num_lanes**2
    if source is not None and size > TARGET_BYTES:
        raise ValueError(
            f"targets={options.targets!r}: values of {len(order)} histories take {size / 2**30:.1f} GiB, "
            f"more than {TARGET_BYTES // 2**30}; use targets='sampled' or learn fewer histories"
        )
    targets = None
    if source is not None:
        targets = jnp.asarray(leaf_values(source, tree, order) / values.scale, jnp.float32)
    moves = tree.num_moves[order[:num_train]]
    first, sizes = np.unique(moves, return_index=True, return_counts=True)[1:]
    shares = np.cumsum(np.sqrt(sizes)) / np.sqrt(sizes).sum()
    return Examples(
        encodings=jnp.asarray(_encode(values.encoding, tree, order)),
        targets=targets,
        histories=jnp.asarray(order, jnp.int32),
        simulator=make_simulator(tree, portfolio) if source is None else None,
        groups=jnp.asarray(np.stack([first, sizes]), jnp.int32),
        shares=jnp.asarray(shares, jnp.float32),
        scale=jnp.float32(values.scale),
        key=jax.random.key(options.seed),
    )


def _encode(encoding: Encoding, tree: HistoryTree, histories: IntArray) -> Any:
    """`[N, width]` encodings, as bytes if they are zeros and ones."""
    parts: list[Any] = []
    for first in range(0, len(histories), CHUNK):
        part = encoding(tree, histories[first : first + CHUNK])
        small = part.astype(np.uint8) if ((part == 0) | (part == 1)).all() else part
        parts.append(small)
    return np.concatenate(parts)
