"""What a value network learns from: histories, their encodings, and targets or a simulator."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.learn.encoding import CHUNK, Encoding, check_encoding, decision_histories
from jaxgadget.learn.history_lesson import HistoryLesson
from jaxgadget.learn.network import NetworkValues
from jaxgadget.learn.options import TrainingOptions
from jaxgadget.learn.returns import make_simulator
from jaxgadget.policy.policy import Policy
from jaxgadget.solving.options import check_iterations
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import IntArray
from jaxgadget.values.histories import ExactValues, ValueFunction, leaf_values

TARGET_BYTES = 4 * 2**30
"""What exact targets may take."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueOptions(TrainingOptions):
    """Numbers of a training of histories' values, checked; as in `train_value`."""

    pairs: int
    targets: str

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pairs", check_iterations(self.pairs, "pairs"))


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


def make_lesson(
    tree: HistoryTree,
    portfolio: Policy,
    values: NetworkValues,
    options: ValueOptions,
    source: ValueFunction | None,
    order: IntArray,
    num_train: int,
) -> HistoryLesson:
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
    return HistoryLesson(
        encodings=jnp.asarray(_encode(values.encoding, tree, order)),
        targets=targets,
        histories=jnp.asarray(order, jnp.int32),
        simulator=make_simulator(tree, portfolio) if source is None else None,
        groups=jnp.asarray(np.stack([first, sizes]), jnp.int32),
        shares=jnp.asarray(shares, jnp.float32),
        scale=jnp.float32(values.scale),
        key=jax.random.key(options.seed),
        shape=values.shape,
        batch_size=options.batch_size,
        pairs=options.pairs,
    )


def _encode(encoding: Encoding, tree: HistoryTree, histories: IntArray) -> Any:
    """`[N, width]` encodings, as bytes if they are zeros and ones."""
    parts: list[Any] = []
    for first in range(0, len(histories), CHUNK):
        part = encoding(tree, histories[first : first + CHUNK])
        small = part.astype(np.uint8) if ((part == 0) | (part == 1)).all() else part
        parts.append(small)
    return np.concatenate(parts)
