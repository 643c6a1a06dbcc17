"""Training of a value network for a portfolio: `train_value`."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.core.solver import check_iterations
from jaxgadget.learn.encoding import find_encoding
from jaxgadget.learn.errors import Errors, RegressionResult
from jaxgadget.learn.examples import find_targets, make_lesson, split
from jaxgadget.learn.history_lesson import HistoryLesson
from jaxgadget.learn.network import KIND, Architecture, NetworkValues
from jaxgadget.learn.options import TrainingConfig
from jaxgadget.learn.trainer import Trainer
from jaxgadget.networks.checkpoints import open_training
from jaxgadget.networks.perceptron import initial_weights
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.histories import ValueFunction, blueprint_digest, leaf_values


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Training(RegressionResult):
    """Result of `train_value`: examples are histories, each with all its targets.

    Errors are against exact values, over histories and pairs of strategies.

    Attributes:
      values: the trained network.
      heldout: `[H]` held-out histories.
    """

    values: NetworkValues
    heldout: IntArray

    def __repr__(self) -> str:
        errors = f"error {self.train_rmse:.3g} training, {self.heldout_rmse:.3g} held out"
        return f"<Training of {self.values.game}: {errors}, payoff range {self.payoff_range:g}>"


def train_value(
    tree: HistoryTree,
    portfolio: PolicyLike,
    *,
    config: TrainingConfig | None = None,
    targets: str | ValueFunction = "exact",
    pairs: int = 16,
    histories: IntArray | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Training:
    """Trains a network to predict the values of histories for every pair of strategies.

    AdamW on the mean squared error, with linear warm-up over 2 % of the steps, then cosine decay. Histories
    are grouped by number of moves; groups are drawn in proportion to the square root of their size. Results
    are reproducible, also for a resumed training: bit for bit with the same JAX version, CPU and number of
    cores. Resuming with different ones issues a warning.

    Args:
      tree: histories of the whole game.
      portfolio: both players' K strategies, as lanes; the values are specific to the blueprint, strategy 0.
      config: settings of the training. For search use `heldout=0`, as searches evaluate all histories.
      targets: `exact` expectations; `sampled` returns, for H × K × K values that do not fit on the device
        (the whole tree must fit); or a value function, called once.
      pairs: sampled returns per history and step, each for a uniformly drawn pair of strategies.
      histories: `[H]` histories to learn; by default all at which a player acts.
      folder: folder for checkpoints and the log; a training stored there is resumed.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range or of another game, the folder holds another training, or
        a number is not finite (names the step; the last checkpoint remains).
      ImportError: if `folder` is not None and orbax is not installed.
    """
    began = time.perf_counter()
    config = TrainingConfig.of(config)
    pairs = check_iterations(pairs, "pairs")
    check_whole(tree)
    portfolio = as_policy(portfolio, tree, name="portfolio")
    source = find_targets(portfolio, targets)
    order, num_train = split(tree, histories, config)
    encoding = find_encoding(tree)
    shape = Architecture(
        inputs=encoding.width, num_entries=portfolio.num_lanes, width=config.width, depth=config.depth
    )
    config.check_room(shape.inputs, shape.num_entries**2)
    values = NetworkValues(
        game=tree.game.name,
        shape=shape,
        encoding=encoding,
        scale=tree.payoff_range,
        weights=initial_weights(shape, config.seed),
        blueprint=blueprint_digest(portfolio),
    )
    if folder is not None:
        values.name = os.fspath(folder)
    with precision(np.float32):
        lesson = make_lesson(tree, portfolio, values, config, pairs, source, order, num_train)
        described = values.describe(_describe(config, portfolio, order, lesson, targets, pairs))
        with open_training(folder, described, KIND) as keeper:
            errors = Errors(lesson, num_train, len(order))
            trainer = Trainer(config, lesson, values.weights, errors, keeper, began)
            with progress_bar("training", config.steps, progress) as report:
                trainer.train(report)
            values.weights = trainer.progress.weights
            train_rmse, heldout_rmse = errors.final(values.weights)
    return Training(
        values=values,
        log=pd.DataFrame(trainer.log),
        train_rmse=train_rmse,
        heldout_rmse=heldout_rmse,
        payoff_range=tree.payoff_range,
        seconds=trainer.seconds(),
        heldout=np.sort(order[num_train:]),
    )


def _describe(
    config: TrainingConfig,
    portfolio: Policy,
    order: IntArray,
    lesson: HistoryLesson,
    targets: str | ValueFunction,
    pairs: int,
) -> dict[str, Any]:
    """Everything that determines the weights, besides the network."""
    own = None if isinstance(targets, str) else lesson.targets
    return config.describe() | {
        "pairs": pairs,
        "targets": targets if isinstance(targets, str) else "own",
        "histories": digest(order),
        "portfolio": digest(*portfolio.probabilities),
        "own targets": None if own is None else digest(np.asarray(own)),
    }


def visited_rmse(
    values: ValueFunction, exact: ValueFunction, tree: HistoryTree, histories: IntArray, weights: FloatArray
) -> float:
    """Root mean squared error at the leaves visited by a search, in payoff units.

    Args:
      values: the value function to evaluate.
      exact: the exact value function.
      tree: the game's histories.
      histories: `[H]` leaf histories.
      weights: `[H, K, K]` frequency of each leaf and pair of strategies, >= 0.

    Raises:
      ValueError: if the weights have another shape, or are negative, not finite or all 0.
    """
    if not len(histories):
        raise ValueError("histories=[]: expected at least one leaf")
    error = leaf_values(values, tree, histories) - leaf_values(exact, tree, histories)
    weights = np.asarray(weights, np.float64)
    if weights.shape != error.shape or not (weights >= 0).all() or not 0 < weights.sum() < math.inf:
        raise ValueError(
            f"weights of shape {weights.shape}: expected {error.shape} finite numbers >= 0, not all of them 0"
        )
    return math.sqrt(np.average(np.square(error), weights=weights))
