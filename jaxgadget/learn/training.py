"""Trains a value network for a portfolio: `train_value`."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.learn.checkpoints import TrainingFolder
from jaxgadget.learn.encoding import find_encoding
from jaxgadget.learn.examples import ValueOptions, find_targets, make_lesson, split
from jaxgadget.learn.history_lesson import HistoryLesson
from jaxgadget.learn.network import KIND, Architecture, NetworkValues
from jaxgadget.learn.perceptron import initial_weights
from jaxgadget.learn.trainer import Trainer
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.histories import ValueFunction, blueprint_digest, leaf_values


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Training:
    """What `train_value` gives.

    Attributes:
      values: the trained network.
      log: columns `step`, `loss` (mean squared error since the row before in squares of the payoff range,
        sampled returns' noise included), `heldout_rmse` (payoff units, without noise), `seconds` so far, and
        `examples_per_second` (histories, each with all its targets).
      train_rmse: root mean squared error against exact values, in payoff units, over histories and pairs
        trained on.
      heldout_rmse: the same over the histories held out; NaN if there are none.
      payoff_range: the largest less the smallest payoff.
      seconds: of all runs together, exact targets and compiling included.
      heldout: `[H]` the histories never trained on.
    """

    values: NetworkValues
    log: pd.DataFrame
    train_rmse: float
    heldout_rmse: float
    payoff_range: float
    seconds: float
    heldout: IntArray

    def __repr__(self) -> str:
        errors = f"error {self.train_rmse:.3g} trained on, {self.heldout_rmse:.3g} held out"
        return f"<Training of {self.values.game}: {errors}, payoff range {self.payoff_range:g}>"

    @property
    def examples_per_second(self) -> float:
        """Median of the log's."""
        return float(self.log["examples_per_second"].median())


def train_value(
    tree: HistoryTree,
    portfolio: PolicyLike,
    *,
    folder: str | os.PathLike[str] | None = None,
    steps: int = 10_000,
    batch_size: int = 256,
    width: int = 512,
    depth: int = 1,
    learning_rate: float = 3e-3,
    seed: int = 0,
    targets: str | ValueFunction = "exact",
    pairs: int = 16,
    histories: IntArray | None = None,
    heldout: float = 0.02,
    every: int | None = None,
    show_progress: bool | None = None,
) -> Training:
    """Trains a network to predict what histories are worth under every pair of entries.

    AdamW on the mean squared error; the learning rate rises over 2 % of the steps, then falls as a cosine.
    Histories with equally many moves share in proportion to the square root of their number. The same
    arguments give the same weights, however often a training was cut off: bit for bit with the same JAX on
    the same CPU with equally many cores. With a folder a warning tells if one of these has changed.

    Args:
      tree: histories of the whole game.
      portfolio: both players' K entries, lane by lane; the values are for the blueprint that is entry 0.
      folder: keeps checkpoints and the log; a training that lies there goes on.
      steps: training steps.
      batch_size: histories a step, drawn with replacement.
      width: units of a layer.
      depth: residual blocks of two layers each.
      learning_rate: the largest.
      seed: of weights, batches, returns, and what is held out.
      targets: `exact` expectations; `sampled` returns, where H × K × K numbers do not fit on the device (the
        whole tree still must); or a value function, called once.
      pairs: sampled returns a history and step, each under a pair of entries drawn uniformly.
      histories: `[H]` what to learn; by default every history where a player acts.
      heldout: the share never trained on, drawn at random; 0 is best for search, which asks about these too.
      every: steps between two checkpoints and rows of the log; by default a fiftieth of all.
      show_progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range or of another game, the folder holds another training, or
        numbers cease to be finite (the step is named, the checkpoint before it stays).
      ImportError: if a folder is given and orbax is not installed.
    """
    began = time.perf_counter()
    options = ValueOptions(
        steps=steps,
        batch_size=batch_size,
        width=width,
        depth=depth,
        learning_rate=learning_rate,
        seed=seed,
        pairs=pairs,
        heldout=heldout,
        targets=targets if isinstance(targets, str) else "own",
    )
    every = options.find_every(every)
    check_whole(tree)
    portfolio = as_policy(portfolio, tree, name="portfolio")
    source = find_targets(portfolio, targets)
    order, num_train = split(tree, histories, options)
    encoding = find_encoding(tree)
    shape = Architecture(
        inputs=encoding.width, num_entries=portfolio.num_lanes, width=options.width, depth=options.depth
    )
    options.check_room(shape.inputs, shape.num_entries**2)
    values = NetworkValues(
        game=tree.game.name,
        shape=shape,
        encoding=encoding,
        scale=tree.payoff_range,
        weights=initial_weights(shape, options.seed),
        blueprint=blueprint_digest(portfolio),
    )
    with precision(np.float32):
        lesson = make_lesson(tree, portfolio, values, options, source, order, num_train)
        keeper = None
        if folder is not None:
            described = values.describe(_describe(options, portfolio, order, lesson))
            keeper, values.name = TrainingFolder(folder, described, KIND), os.fspath(folder)
        trainer = Trainer(
            options.schedule,
            lesson,
            values.weights,
            (num_train, len(order)),
            keeper,
            began,
            batch_size=options.batch_size,
        )
        with progress_bar("training", options.steps, show_progress) as report:
            trainer.train(every, report)
        values.weights = trainer.progress.weights
        train_rmse, heldout_rmse = trainer.errors()
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
    options: ValueOptions, portfolio: Policy, order: IntArray, lesson: HistoryLesson
) -> dict[str, Any]:
    """What the weights depend on besides the network: of targets, what the other settings do not decide."""
    own = lesson.targets if options.targets == "own" else None
    return options.describe() | {
        "histories": digest(order),
        "portfolio": digest(*portfolio.probabilities),
        "own targets": None if own is None else digest(np.asarray(own)),
    }


def visited_rmse(
    values: ValueFunction, exact: ValueFunction, tree: HistoryTree, histories: IntArray, weights: FloatArray
) -> float:
    """Root mean squared error where search asks, in payoff units.

    Args:
      values: what is judged.
      exact: what it should be.
      tree: the game's histories.
      histories: `[H]` leaf histories.
      weights: `[H, K, K]` how often each was reached and each pair of entries chosen there, >= 0.

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
