"""Trains a value network for a portfolio: `train_value`.

An example is a history with either all its K × K exact values or a few sampled returns, each under a
uniformly drawn pair of entries. Batches are drawn on the device inside one compiled loop. Everything
random follows from the seed and the number of the step, so a training that was cut off and goes on
ends with the very weights of one that was not: bit for bit on one CPU with one JAX and equally many cores,
as the order in which XLA adds up depends on these.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from jaxgadget.learn.checkpoints import Row, TrainingFolder
from jaxgadget.learn.encoding import find_encoding
from jaxgadget.learn.examples import TrainingOptions, find_targets, make_examples, split
from jaxgadget.learn.learner import (
    CONSTANTS,
    ERROR_PAIRS,
    Examples,
    Hyperparameters,
    advance,
    begin,
    mean_square,
)
from jaxgadget.learn.network import Architecture, NetworkValues, initial_weights
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.memory import find_memory, megabytes
from jaxgadget.solving.options import check_iterations
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.values.histories import ValueFunction, blueprint_digest, leaf_values

PARTS = 50
"""By default so many checkpoints and rows of the log a training."""

log = logging.getLogger(__name__)
TRAINED_ARRAYS = 4
"""What training holds at least of every weight: itself, its gradient, and both moments of Adam."""

LOG_DRAWS, FINAL_DRAWS = 2**15, 2**20
"""Pairs of sampled returns that an error is measured with, at least, in the log and at the end."""


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
    options = TrainingOptions(
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
    every = check_iterations(max(1, options.steps // PARTS) if every is None else every, "every")
    check_whole(tree)
    portfolio = as_policy(portfolio, tree, name="portfolio")
    source = find_targets(portfolio, targets)
    order, num_train = split(tree, histories, options)
    encoding = find_encoding(tree)
    shape = Architecture(
        inputs=encoding.width, num_entries=portfolio.num_lanes, width=options.width, depth=options.depth
    )
    _check_room(shape, options.batch_size)
    values = NetworkValues(
        game=tree.game.name,
        shape=shape,
        encoding=encoding,
        scale=tree.payoff_range,
        weights=initial_weights(shape, options.seed),
        blueprint=blueprint_digest(portfolio),
    )
    with precision(np.float32):
        examples = make_examples(tree, portfolio, values, options, source, order, num_train)
        keeper = None
        if folder is not None:
            described = _describe(options, portfolio, order, examples)
            keeper, values.name = TrainingFolder(folder, values, described), os.fspath(folder)
        hyper = Hyperparameters(
            shape=shape,
            batch_size=options.batch_size,
            pairs=options.pairs,
            learning_rate=options.learning_rate,
            steps=options.steps,
        )
        trainer = _Trainer(hyper, examples, values, (num_train, len(order)), keeper, began)
        with progress_bar("training", options.steps, show_progress) as report:
            trainer.train(every, report)
        values.weights = trainer.progress.weights
        parts = (0, num_train), (num_train, len(order))
        errors = [trainer.rmse(*part, FINAL_DRAWS) for part in parts]
    return Training(
        values=values,
        log=pd.DataFrame(trainer.log),
        train_rmse=errors[0],
        heldout_rmse=errors[1],
        payoff_range=tree.payoff_range,
        seconds=trainer.seconds(),
        heldout=np.sort(order[num_train:]),
    )


def _check_room(shape: Architecture, batch_size: int) -> None:
    """ValueError if the weights, and what a step makes of them and of a batch, do not fit into memory."""
    activations = batch_size * (shape.inputs + shape.num_entries**2 + (3 * shape.depth + 2) * shape.width)
    needed = 4 * (TRAINED_ARRAYS * shape.num_weights + 2 * activations)
    available = find_memory(HOME)
    if available is not None and needed > available:
        raise ValueError(
            f"width={shape.width}, depth={shape.depth}, batch_size={batch_size}: training takes at least "
            f"{megabytes(needed)}, {megabytes(available)} may be taken; choose smaller ones"
        )


def _describe(
    options: TrainingOptions, portfolio: Policy, order: IntArray, examples: Examples
) -> dict[str, str | float | None]:
    """What the weights depend on besides the network: of targets, what the other settings do not decide."""
    own = examples.targets if options.targets == "own" else None
    return dataclasses.asdict(options) | {
        **CONSTANTS,
        "histories": digest(order),
        "portfolio": digest(*portfolio.probabilities),
        "own targets": None if own is None else digest(np.asarray(own)),
    }


# --- the run ----------------------------------------------------------------------------


class _Trainer:
    """A training in parts."""

    def __init__(
        self,
        hyper: Hyperparameters,
        examples: Examples,
        values: NetworkValues,
        counts: tuple[int, int],
        keeper: TrainingFolder | None,
        began: float,
    ):
        self._hyper, self._examples, self._counts = hyper, examples, counts
        self._keeper, self._began, self._before = keeper, began, 0.0
        self.progress = begin(values.weights, hyper)
        self.log: list[Row] = []
        if keeper is not None:
            self.progress, self.log = keeper.load(self.progress)
            self._before = self.log[-1]["seconds"] if self.log else 0.0
            if 0 < (step := int(self.progress.step)) < hyper.steps:
                log.info("Going on in %r after step %d of %d.", str(keeper.path), step, hyper.steps)

    def seconds(self) -> float:
        """So far, with the runs before."""
        return self._before + time.perf_counter() - self._began

    def rmse(self, first: int, last: int, draws: int) -> float:
        """Over a range of examples, in payoff units, without the returns' noise; NaN if it is empty.

        Args:
          first: the first example.
          last: one past the last.
          draws: at least so many pairs of returns are sampled, if targets are.
        """
        if first == last:
            return math.nan
        rounds = 1 if self._examples.targets is not None else -(-draws // (ERROR_PAIRS * (last - first)))
        numbers = [jnp.int32(number) for number in (first, last, rounds)]
        error, noise = mean_square(self.progress.weights, self._examples, *numbers, shape=self._hyper.shape)
        return math.sqrt(max(0.0, float(error) - float(noise))) if math.isfinite(error) else math.inf

    def train(self, every: int, report: Callable[[int], None]) -> None:
        """Goes on until all steps are done."""
        steps = self._hyper.steps
        self._advance(0)  # compiles
        done = int(self.progress.step)
        report(done)
        while done < steps:
            before, until = time.perf_counter(), min(steps, (done // every + 1) * every)
            self._advance(until)
            elapsed = time.perf_counter() - before
            error, step = self.rmse(*self._shown(), LOG_DRAWS), int(self.progress.step)
            if step < until or not math.isfinite(error):
                self._fail(min(step, until - 1))
            row: Row = {
                "step": until,
                "loss": float(self.progress.loss_sum) / (until - done),
                "heldout_rmse": error if self._counts[0] < self._counts[1] else math.nan,
                "seconds": self.seconds(),
                "examples_per_second": (until - done) * self._hyper.batch_size / max(elapsed, 1e-9),
            }
            self.log.append(row)
            done = until
            if self._keeper is not None:
                self._keeper.save(self.progress, self.log)
            report(done)

    def _shown(self) -> tuple[int, int]:
        """Which examples the log's error is over: those held out, else a few of the others."""
        num_train, total = self._counts
        return (num_train, total) if num_train < total else (0, min(total, 1024))

    def _advance(self, until: int) -> None:
        self.progress = jax.block_until_ready(
            advance(self.progress, self._examples, jnp.int32(until), hyper=self._hyper)
        )

    def _fail(self, step: int) -> None:
        last = None if self._keeper is None else self._keeper.last_step()
        kept = "" if last is None else f"; the folder keeps the checkpoint of step {last}"
        raise ValueError(
            f"training stopped at step {step}: the loss, its gradient or a value is not finite; "
            f"choose a smaller learning_rate than {self._hyper.learning_rate:g}{kept}"
        )


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
