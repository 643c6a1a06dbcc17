"""Training examples of a value network: histories, their encodings, and targets or a simulator."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.learn.encoding import CHUNK, Encoding, check_encoding, decision_histories
from jaxgadget.learn.history_lesson import HistoryLesson
from jaxgadget.learn.network import NetworkValues
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.learn.returns import make_simulator
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import IntArray
from jaxgadget.values.histories import ExactValues, ValueFunction, leaf_values

TARGET_BYTES = 4 * 2**30
"""Memory limit of exact targets."""


def find_targets(portfolio: Policy, targets: str | ValueFunction) -> ValueFunction | None:
    """The value function of the targets; None for sampled returns."""
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


def split(tree: HistoryTree, histories: IntArray | None, config: TrainingConfig) -> tuple[IntArray, int]:
    """`[N]` histories, the training set first, by number of moves; and the size of the training set."""
    chosen = decision_histories(tree) if histories is None else np.asarray(histories)
    whole = chosen.ndim == 1 and np.issubdtype(chosen.dtype, np.integer) and len(chosen) > 0
    if not whole or chosen.min() < 0 or chosen.max() >= tree.num_histories:
        raise ValueError(
            f"histories={histories!r}: expected histories of {tree.game.name}, integers from 0 to "
            f"{tree.num_histories - 1}, at least one"
        )
    chosen = np.unique(chosen)
    order = np.random.Generator(np.random.PCG64(config.seed)).permutation(chosen)
    num_train = len(chosen) - min(math.ceil(config.heldout * len(chosen)), len(chosen) - 1)
    train = order[:num_train]
    train = train[np.argsort(tree.num_moves[train], kind="stable")]
    return np.concatenate([train, order[num_train:]]), num_train


def make_lesson(
    tree: HistoryTree,
    portfolio: Policy,
    values: NetworkValues,
    config: TrainingConfig,
    pairs: int,
    source: ValueFunction | None,
    order: IntArray,
    num_train: int,
) -> HistoryLesson:
    """Transfers the training examples to the device.

    Args:
      tree: the game's histories.
      portfolio: both players' strategies, for sampled returns.
      values: the network, for its encoding and scale.
      config: settings of the training.
      pairs: sampled returns for each history and step.
      source: value function of the targets; None for sampled returns.
      order: `[N]` the histories, the training set first, ascending in their number of moves.
      num_train: size of the training set.

    Raises:
      ValueError: if all payoffs are equal, the game's encoding does not determine infostates, or the targets
        need too much memory or are not finite.
    """
    if tree.payoff_range <= np.finfo(np.float64).tiny:
        raise ValueError(f"tree={tree!r}: all payoffs are equal; expected a game with different payoffs")
    check_encoding(tree, values.encoding)
    size = 8 * len(order) * portfolio.num_lanes**2
    if source is not None and size > TARGET_BYTES:
        raise ValueError(
            f"targets: values of {len(order)} histories take {size / 2**30:.1f} GiB, "
            f"more than {TARGET_BYTES // 2**30}; use targets='sampled' or learn fewer histories"
        )
    targets = None
    if source is not None:
        targets = jnp.asarray(leaf_values(source, tree, order) / values.scale, jnp.float32)
    moves = tree.num_moves[order[:num_train]]
    first, sizes = np.unique(moves, return_index=True, return_counts=True)[1:]
    shares = np.cumsum(np.sqrt(sizes)) / np.sqrt(sizes).sum()
    return HistoryLesson(
        encodings=jnp.asarray(_encode(values.encoding, tree, order)),
        targets=targets,
        histories=jnp.asarray(order, jnp.int32),
        simulator=make_simulator(tree, portfolio) if source is None else None,
        groups=jnp.asarray(np.stack([first, sizes]), jnp.int32),
        shares=jnp.asarray(shares, jnp.float32),
        scale=jnp.float32(values.scale),
        key=jax.random.key(config.seed),
        shape=values.shape,
        batch_size=config.batch_size,
        pairs=pairs,
    )


def _encode(encoding: Encoding, tree: HistoryTree, histories: IntArray) -> Any:
    """`[N, width]` encodings, as uint8 if they are zeros and ones."""
    blocks: list[Any] = []
    for first in range(0, len(histories), CHUNK):
        block = encoding(tree, histories[first : first + CHUNK])
        small = block.astype(np.uint8) if ((block == 0) | (block == 1)).all() else block
        blocks.append(small)
    return np.concatenate(blocks)
