"""Training of a range network below a cut: `train_ranges`.

Ranges are drawn at random, then collected in rounds from the queries of searches with the current network.
All subgames are solved for them, and the payoffs of both players' infostates are the targets.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.tree_util import Partial

from jaxgadget.core.devices import HOME
from jaxgadget.core.driver import Report
from jaxgadget.core.memory import find_memory
from jaxgadget.core.regret import CFR_PLUS, Rule
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.ranges import divide, sum_rows
from jaxgadget.gadgets.trunk_gadgets import OptimalContinuation
from jaxgadget.learn.errors import Errors, RegressionResult
from jaxgadget.learn.options import RangeTrainingConfig
from jaxgadget.learn.range_network import (
    ERRORS,
    ERRORS_FORMAT,
    KIND,
    MEASURED,
    PublicStates,
    RangeArchitecture,
    RangeNetwork,
    Slots,
    make_network,
    predict,
    read_errors,
)
from jaxgadget.learn.trainer import Carried, Stateless, Trainer
from jaxgadget.networks.checkpoints import TrainingFolder, last_step, open_training
from jaxgadget.networks.perceptron import Weights, initial_weights
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.refine import refine
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.interrupts import telling_what_is_kept
from jaxgadget.util.memory import megabytes
from jaxgadget.util.players import replaced
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.records import jsonable
from jaxgadget.util.store import Format, read_archive, write_archive, write_record
from jaxgadget.values.draws import CONCENTRATIONS, RangePair, draw_ranges, random_policies, reach_of
from jaxgadget.values.ranged_payoff import Pair, RangeFunction
from jaxgadget.values.ranges import Limit, RangeValues, function_at
from jaxgadget.values.shards import count_lanes
from jaxgadget.values.solved import SolvedRanges, solve_ranges
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk

EVALUATED = 256
"""Number of lanes per evaluation batch."""

SEARCHES = ((10, 15.0), (60, 15.0), (60, 1.0), (250, 1.0))
"""Iterations and averaging of the searches that collect ranges: CFR+ queries its current strategies, which an
average with weights t¹⁵ approximates, and converges to its averages."""

BLUEPRINT_ITERATIONS = (8, 30, 150)
"""CFR+ iterations on the trunk for blueprints of the resolving player; the remaining ones are random."""

NOISE = (1e-3, 0.2)
"""Smallest and largest noise of the values used for these blueprints, in payoff ranges."""

RECIPE: dict[str, str] = {
    "searches": repr(SEARCHES),
    "blueprint iterations": repr(BLUEPRINT_ITERATIONS),
    "noise": repr(NOISE),
    "concentrations": repr(CONCENTRATIONS),
}
"""Constants that determine ranges, besides a training's settings; a training cannot resume with others."""

ROUND = Format(
    name="jaxgadget ranges of a round",
    version=1,
    noun="ranges",
    remedy="delete this file and train again with the same arguments, which collects them again",
    anonymous=True,
)

SOLVED = "solved"
"""Subfolder of the solved training examples, written by `solve_ranges`."""

EVALUATION_SEED = 10**6
"""Second seed of the blueprints that evaluate a network; those of rounds are smaller."""

VISITED_BLUEPRINTS = 64
"""Number of held-out blueprints that measure `visited_rmse`."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RangeTraining(RegressionResult):
    """Result of `train_ranges`: examples are pairs of ranges, each with all subgames.

    Errors are root mean squares in payoff units, weighted by opposing mass; held-out examples are samples and
    those of held-out blueprints.

    Attributes:
      values: the trained network.
      blueprint_rmse: error over the ranges of held-out blueprints; NaN if there are none.
      visited_rmse: error at the queries of searches with the trained network, for separate blueprints.
      value_rmse: error of the predicted values of these blueprints' optimal continuations.
      samples: number of solved subgames.
      gap_max: their largest gap, in payoff units.
      subgames_per_second: throughput of solving and certifying; NaN if all were read from the folder.
    """

    values: RangeNetwork
    blueprint_rmse: float
    visited_rmse: float
    value_rmse: float
    samples: int
    gap_max: float
    subgames_per_second: float

    def __repr__(self) -> str:
        errors = f"error {self.heldout_rmse:.3g} held out, {self.visited_rmse:.3g} in searches"
        return f"<RangeTraining of {self.values.game}: {errors}, payoff range {self.payoff_range:g}>"


def train_ranges(
    tree: HistoryTree,
    where: CutSpec,
    *,
    config: RangeTrainingConfig | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> RangeTraining:
    """Trains a network to predict values of subgames for any ranges of the players.

    A sample is a pair of ranges for every subgame below the cut, solved by CFR+. The first samples are random
    (`draw_ranges`). Half of the steps train on these and on rounds; each round adds half as many samples,
    from queries of searches with the current network: the opponent's trunk solved against blueprints of many
    kinds. No user blueprint is required. Results are reproducible, also for a resumed training: bit for bit
    with the same JAX version, CPU and number of cores.

    Args:
      tree: histories of the whole game.
      where: the cut, as for `jaxgadget.cut`.
      config: settings of the training.
      folder: folder for checkpoints, the log and solved subgames; a training stored there is resumed.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range, the folder holds another training or shards of one, or
        numbers cease to be finite.
      ImportError: if a folder is given and orbax is not installed.
    """
    began = time.perf_counter()
    config = RangeTrainingConfig.of(config)
    check_whole(tree)
    forest = build_forest(tree, where)
    stored = telling_what_is_kept(lambda: "" if folder is None else describe_kept(folder, config.steps))
    _check_samples(forest, config.samples, config.rounds)
    with precision(np.float32), stored:
        limit = Limit.of(forest.cut, np.dtype(np.float32))
        values = make_network(tree, limit, config.network, config.width, config.depth)
        config.check_room(*values.shape.layers)
        values.weights = initial_weights(values.shape, config.seed)
        if folder is not None:
            values.name = os.fspath(folder)
        described = values.describe(config.describe() | RECIPE)
        with open_training(folder, described, KIND) as keeper:
            data = _Data(forest, values, config, None if keeper is None else keeper.path, progress)

            def collect(weights: Weights, round_idx: int) -> Errors:
                data.collect(dataclasses.replace(values, weights=weights), round_idx)
                return data.errors(limit)

            trainer, errors = train_in_rounds(
                config, data.errors(limit), values.weights, collect, keeper, began, progress
            )
            values.weights = trainer.progress.weights
            measured = {} if keeper is None else read_errors(keeper.path)
            if set(measured) != set(MEASURED):  # otherwise the training was already finished
                train_rmse, heldout_rmse = errors.final(values.weights)
                measured = {
                    "train_rmse": train_rmse,
                    "heldout_rmse": heldout_rmse,
                    "blueprint_rmse": errors.rmse(values.weights, *data.of_blueprints, 1),
                    **_errors_in_searches(forest, values, config, progress),
                }
                if keeper is not None:
                    write_record(keeper.path / ERRORS, ERRORS_FORMAT, jsonable(measured))
    values.error = measured["value_rmse"]
    return RangeTraining(
        values=values,
        log=pd.DataFrame(trainer.log),
        **measured,
        payoff_range=tree.payoff_range,
        samples=sum(part.num_solved for part in data.parts),
        gap_max=max(float(part.gap.max()) for part in data.parts),
        subgames_per_second=data.subgames_per_second(),
        seconds=trainer.seconds(),
    )


def train_in_rounds(
    config: RangeTrainingConfig,
    errors: Errors,
    weights: Weights,
    collect: Callable[[Weights, int], Errors],
    keeper: TrainingFolder | None,
    began: float,
    progress: bool | None,
) -> tuple[Trainer, Errors]:
    """Trains a network, half of the steps in rounds, after each of which examples are added.

    Args:
      config: settings of the training.
      errors: the first examples.
      weights: initial weights.
      collect: function of the current weights and the round; returns all examples.
      keeper: folder of the training, if there is one.
      began: as in `Trainer`.
      progress: show bars.

    Returns:
      The trainer, and the last examples.
    """
    trainer = Trainer(config, errors.lesson, weights, errors, keeper, began)
    for round_idx in range(config.rounds + 1):
        end = config.steps
        if round_idx < config.rounds:
            end = config.steps * (round_idx + 1) // (2 * config.rounds)
        with progress_bar("training", config.steps, progress) as report:
            trainer.train(report, end)
        if round_idx < config.rounds:
            errors = collect(trainer.progress.weights, round_idx)
            trainer.lesson, trainer.measure = errors.lesson, errors
    return trainer, errors


def _check_samples(forest: Forest, samples: int, rounds: int) -> None:
    """Raises ValueError if the solved samples do not fit into memory."""
    lanes = samples + rounds * _num_blueprints(samples) * 2 * len(SEARCHES)
    # Ranges, values and opposing masses; a gap and a mass for every subgame.
    lane_bytes = 8 * (3 * sum(map(len, forest.roots)) + 2 * forest.num_subgames)
    available = find_memory(HOME)
    if available is not None and lanes * lane_bytes > available:
        raise ValueError(
            f"samples={samples}: solutions of these and of {rounds} rounds need at least "
            f"{megabytes(lanes * lane_bytes)}, but {megabytes(available)} is available; choose fewer"
        )


def _num_blueprints(samples: int) -> int:
    """Number of blueprints of a round; its searches are half as many as the samples."""
    return max(samples // (4 * len(SEARCHES)), 4)


def describe_kept(folder: str | os.PathLike[str], steps: int) -> str:
    """Describes the stored state of an interrupted training."""
    path = pathlib.Path(folder)
    count, step = sum(map(count_lanes, path.glob(f"{SOLVED}/*"))), last_step(path)
    parts = [f"{count} solved pairs of ranges"] * (count > 0)
    parts += [f"the checkpoint of step {step} of {steps}"] * (step is not None)
    return f"{os.fspath(folder)!r} keeps {' and '.join(parts) or 'nothing yet'}"


def _errors_in_searches(
    forest: Forest, values: RangeNetwork, config: RangeTrainingConfig, progress: bool | None
) -> dict[str, float]:
    """Errors in searches for blueprints that no round used."""
    generator = np.random.Generator(np.random.PCG64([config.seed, EVALUATION_SEED]))
    blueprints, ranges = _blueprints_and_ranges(forest, values, VISITED_BLUEPRINTS, generator, progress)
    solver = Solver(iterations=config.iterations, progress=progress)
    visited = solve_ranges(forest, normalised(forest, ranges), solver=solver)
    return {
        "visited_rmse": range_rmse(values, visited),
        "value_rmse": value_rmse(forest, values, blueprints, progress=progress),
    }


# --- training data ------------------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeLesson(Stateless):
    """A `Lesson` of N pairs of ranges with all S subgames, the training set first.

    Attributes:
      ranges: for both players `[N, S, n_p]`, normalised in every subgame.
      targets: for both players `[N, S, n_p]` payoffs in units of `scale`.
      states: the public states.
      scale: payoff unit of the network's outputs.
      num_train: size of the training set.
      key: random key.
      shape: shape of the network.
      batch_size: pairs per step.
      evaluated: pairs per evaluation batch.
    """

    ranges: Slots
    targets: Slots
    states: PublicStates
    scale: jax.Array
    num_train: jax.Array
    key: jax.Array
    shape: RangeArchitecture = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})
    evaluated: int = dataclasses.field(default=EVALUATED, metadata={"static": True})

    def loss(self, weights: Weights, carried: Carried, step: jax.Array) -> jax.Array:
        """Mean squared error over the batch of a step, in units of `scale`²."""
        key = jax.random.fold_in(self.key, step)
        rows = jax.random.randint(key, (self.batch_size,), 0, self.num_train)
        return jnp.mean(self._errors(weights, rows))

    def rounds(self, num_examples: int, draws: int) -> int:
        """One round, since targets have no noise."""
        return 1

    def errors(self, weights: Weights, rows: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean squared errors `[evaluated]` of pairs of ranges, in units of `scale`², without noise."""
        error = jnp.mean(self._errors(weights, rows), axis=0)
        return error, jnp.zeros_like(error)

    def _errors(self, weights: Weights, rows: jax.Array) -> jax.Array:
        """`[S, B]` mean squared errors, weighted by opposing mass in each public state."""
        ranges, targets = (
            (jnp.swapaxes(part[0][rows], 0, 1), jnp.swapaxes(part[1][rows], 0, 1))
            for part in (self.ranges, self.targets)
        )
        values, opposing = predict(self.shape, weights, self.states, ranges)
        return sum_of_squares(values, targets, opposing)


def sum_of_squares(values: Slots, targets: Slots, opposing: Slots) -> jax.Array:
    """`[S, B]` mean over both players of squared errors, weighted by opposing mass."""
    errors = [
        jnp.sum(mass * jnp.square(value - target), axis=-1) / jnp.maximum(jnp.sum(mass, axis=-1), 1e-9)
        for value, target, mass in zip(values, targets, opposing, strict=True)
    ]
    return (errors[0] + errors[1]) / 2


class _Data:
    """Solved ranges: random ones, then those of each round.

    Attributes:
      parts: the solved ranges of each.
      counts: size of the training set, and number of all pairs.
      of_blueprints: the first pair of held-out blueprints, and the last + 1.
    """

    def __init__(
        self,
        forest: Forest,
        values: RangeNetwork,
        config: RangeTrainingConfig,
        folder: pathlib.Path | None,
        progress: bool | None,
    ):
        self._forest, self._values, self._config = forest, values, config
        self._folder, self._progress = folder, progress
        self.parts = [self._solve(draw_ranges(forest, config.samples, seed=config.seed), "drawn")]
        # Draws are sorted by kind; held-out samples are taken from all kinds.
        order = np.random.Generator(np.random.PCG64(config.seed)).permutation(config.samples)
        self._blueprint = [order]
        self._count()

    def collect(self, values: RangeNetwork, round_idx: int) -> None:
        """Adds a round: ranges queried by searches with these values."""
        count, name = _num_blueprints(self._config.samples), f"round-{round_idx + 1}"

        def draw() -> RangePair:
            generator = np.random.Generator(np.random.PCG64([self._config.seed, round_idx + 1]))
            return _blueprints_and_ranges(self._forest, values, count, generator, self._progress)[1]

        ranges = kept_ranges(self._folder, name, draw)
        self.parts.append(self._solve(ranges, name))
        # Blueprints are sorted by kind, too.
        order = np.random.Generator(np.random.PCG64([self._config.seed, round_idx + 1, 1])).permutation(count)
        self._blueprint.append(order[np.arange(ranges[0].shape[1]) % count])
        self._count()

    def _solve(self, ranges: RangePair, name: str) -> SolvedRanges:
        folder = None if self._folder is None else self._folder / SOLVED / name
        return solve_ranges(
            self._forest,
            normalised(self._forest, ranges),
            solver=Solver(iterations=self._config.iterations, checkpoint=folder, progress=self._progress),
        )

    def _count(self) -> None:
        held = [self._held_out(blueprint) for blueprint in self._blueprint]
        left = sum(int((~mask).sum()) for mask in held)
        total = left + sum(int(mask.sum()) for mask in held)
        self._held, self.counts = held, (left, total)
        self.of_blueprints = left + int(held[0].sum()), total

    def _held_out(self, blueprint: IntArray) -> Any:
        """Mask `[L]` of held-out pairs, given their blueprints."""
        count = int(blueprint.max()) + 1
        return blueprint < min(math.ceil(self._config.heldout * count), count - 1)

    def lesson(self, limit: Limit) -> RangeLesson:
        """All examples on the device: training set, held-out random pairs, held-out blueprints."""
        states = PublicStates.of(limit, self._values.shape.network)
        ranges, targets = examples_of(self.parts, states, self._values.scale)
        held = np.concatenate(self._held)
        order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
        return RangeLesson(
            ranges=(ranges[0][order], ranges[1][order]),
            targets=(targets[0][order], targets[1][order]),
            states=states,
            scale=jnp.float32(self._values.scale),
            num_train=jnp.int32(self.counts[0]),
            key=jax.random.key(self._config.seed),
            shape=self._values.shape,
            batch_size=self._config.batch_size,
        )

    def errors(self, limit: Limit) -> Errors:
        """The lesson of all examples, with the sizes of its sets."""
        return Errors(self.lesson(limit), *self.counts)

    def subgames_per_second(self) -> float:
        """Throughput of subgames that were not read from a folder."""
        fresh = [part for part in self.parts if part.seconds.get("run")]
        seconds = sum(part.seconds["run"] for part in fresh)
        return sum(part.num_solved - part.num_read for part in fresh) / seconds if seconds else math.nan


def kept_ranges(folder: pathlib.Path | None, name: str, draw: Callable[[], RangePair]) -> RangePair:
    """Ranges that a round collected, from the training's folder; drawn and stored there if they are missing.

    A resumed training cannot draw them again, as its network has changed.

    Raises:
      ValueError: if the file is damaged.
    """
    path = None if folder is None else folder / f"{name}.npz"
    archive = None if path is None else read_archive(path, ROUND)
    if path is None or archive is None:
        ranges = draw()
        if path is not None:
            write_archive(path, ROUND, {}, {"first": ranges[0], "second": ranges[1]})
        return ranges
    try:
        return archive.arrays["first"], archive.arrays["second"]
    except KeyError as error:
        raise ROUND.damaged(path, error) from error


def examples_of(parts: Sequence[SolvedRanges], states: PublicStates, scale: float) -> tuple[Slots, Slots]:
    """Both players' ranges and payoffs, `[N, S, n_p]`, payoffs in units of `scale`."""
    pairs: list[Slots] = []
    targets = [(part.payoffs[0] / scale, part.payoffs[1] / scale) for part in parts]
    for source in ([part.ranges for part in parts], targets):
        first, second = (
            jnp.concatenate([jnp.swapaxes(_to_slots(states, x)[p], 0, 1) for x in source]) for p in (0, 1)
        )
        pairs.append((first, second))
    return pairs[0], pairs[1]


def _to_slots(states: PublicStates, pair: tuple[Any, Any]) -> Slots:
    """Scatters both players' arrays `[R_p, L]` into slots, in float32."""
    first, second = (states.to_slots(p, jnp.asarray(pair[p], jnp.float32)) for p in (0, 1))
    return first, second


def normalised(forest: Forest, ranges: RangePair) -> RangePair:
    """Normalises ranges in every subgame; all zeros become uniform."""
    scaled: list[Any] = []
    for roots, rows in zip(forest.roots, ranges, strict=True):
        total = sum_rows(roots.subgame, rows, forest.num_subgames)
        even = 1 / np.bincount(roots.subgame)[roots.subgame, None]
        scaled.append(divide(rows, total[roots.subgame], even))
    return scaled[0], scaled[1]


# --- ranges in searches -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _Noisy:
    """Range values with independent noise per lane, `[R_p, L]` for both players, in payoff units."""

    values: RangeValues
    noise: RangePair

    def __call__(self, limit: Limit) -> RangeFunction:
        cells = limit.matrix()
        chance = np.zeros(cells.shape)
        chance[cells.row, cells.column] = cells.value
        arrays = [jnp.asarray(x, limit.dtype) for x in (chance, *self.noise)]
        return Partial(_with_noise, self.values(limit), *arrays)


def _with_noise(
    function: RangeFunction, chance: jax.Array, first: jax.Array, second: jax.Array, ranges: Pair
) -> Pair:
    values = function(ranges)
    return values[0] + (chance @ ranges[1]) * first, values[1] + (chance.T @ ranges[0]) * second


def _blueprints_and_ranges(
    forest: Forest, values: RangeValues, count: int, generator: np.random.Generator, progress: bool | None
) -> tuple[Policy, RangePair]:
    """Draws `count` blueprints and collects the ranges queried by searches against them."""
    drawn = len(BLUEPRINT_ITERATIONS)
    with progress_bar("searching", drawn + 2 * len(SEARCHES), progress, coarse=True) as report:
        report(0)
        blueprint = find_blueprints(forest, values, count, generator, report)
        return blueprint, searched_ranges(forest, values, blueprint, lambda done: report(drawn + done))


def find_blueprints(
    forest: Forest,
    values: RangeValues,
    count: int,
    generator: np.random.Generator,
    report: Report = lambda done: None,
) -> Policy:
    """Blueprints of a resolving player: from a few iterations of CFR+ on the trunk, or random.

    Args:
      forest: the subgames.
      values: range values, for any number of lanes; CFR+ uses them with independent noise per lane.
      count: number of blueprints.
      generator: random generator.
      report: progress callback; receives the number of completed searches, out of
        `len(BLUEPRINT_ITERATIONS)`.
    """
    tree, blueprints = forest.histories, list[Policy]()
    per_setting = count // (len(BLUEPRINT_ITERATIONS) + 1)
    if per_setting:
        uniform = Policy.stack([Policy.uniform(tree)] * per_setting)
        low, high = np.log(NOISE)
        for iterations in BLUEPRINT_ITERATIONS:
            size = np.exp(generator.uniform(low, high, per_setting)) * tree.payoff_range
            first, second = (
                generator.normal(size=(len(roots), per_setting)) * size for roots in forest.roots
            )
            noisy = _Noisy(values, (first, second))
            blueprints.append(_search(forest, noisy, uniform, None, iterations, CFR_PLUS).policy)
            report(len(blueprints))
    num_random = count - per_setting * len(BLUEPRINT_ITERATIONS)
    return Policy.stack([*blueprints, random_policies(tree, num_random, generator)])


def searched_ranges(
    forest: Forest, values: RangeValues, blueprint: Policy, report: Report = lambda done: None
) -> RangePair:
    """Ranges queried by searches with these values: the opponent's trunk solved against blueprints.

    Args:
      forest: the subgames.
      values: range values, for any number of lanes.
      blueprint: the resolving player's policies, one per lane.
      report: progress callback; receives the number of completed searches, out of `2 * len(SEARCHES)`.

    Returns:
      For each of `SEARCHES`, first with player 0 as the resolver, then with player 1: one lane per blueprint.
    """
    own, pairs = reach_of(forest, blueprint), list[RangePair]()
    for player in (0, 1):
        for iterations, averaging in SEARCHES:
            rule = dataclasses.replace(CFR_PLUS, averaging=averaging)
            searched = _search(forest, values, blueprint, player, iterations, rule)
            reached = reach_of(forest, searched.policy)
            pairs.append(replaced(reached, player, own[player]))
            report(len(pairs))
    first, second = (np.concatenate([pair[player] for pair in pairs], axis=1) for player in (0, 1))
    return first, second


def value_rmse(
    forest: Forest,
    values: RangeValues,
    blueprint: Policy,
    iterations: int = 3000,
    *,
    progress: bool | None = False,
) -> float:
    """Root mean squared error of the predicted value of the optimal continuation, in payoff units.

    The value is unique; counterfactual values at the roots need not be.

    Args:
      forest: the subgames.
      values: the values to evaluate.
      blueprint: policies of the resolving player above the cut, one per lane; both players resolve in turn.
      iterations: iterations of the trunk with predictions, and of the reference continuations.
      progress: show progress, as in `solve_trunk`.
    """
    errors: list[FloatArray] = []
    for player in (0, 1):
        searched = _search(forest, values, blueprint, player, iterations, CFR_PLUS, progress)
        predicted = searched.best_response_values[player]
        best = refine(
            forest.histories,
            forest.cut,
            blueprint,
            OptimalContinuation(NoPrior()),
            player=player,
            solver=Solver(iterations=iterations, progress=progress),
            value=forest.tree.payoff_bounds,  # exploitabilities are not needed
        )
        errors.append(predicted + best.gadget_value[0])
    return float(np.sqrt(np.mean(np.square(errors))))


def _search(
    forest: Forest,
    values: RangeValues,
    blueprint: Policy,
    fixed: int | None,
    iterations: int,
    rule: Rule,
    progress: bool | None = False,
) -> LimitedTrunk:
    return solve_trunk(
        forest.histories,
        forest.cut,
        values,
        blueprint=blueprint,
        fixed=fixed,
        solver=Solver(algorithm=rule, iterations=iterations, dtype="float32", progress=progress),
    )


def range_rmse(values: RangeValues, solved: SolvedRanges) -> float:
    """Root mean squared error over solved ranges, in payoff units, weighted by opposing mass.

    Args:
      values: the values to evaluate.
      solved: result of `solve_ranges`.
    """
    forest, total, lanes = solved.forest, 0.0, solved.gap.shape[1]
    queries, targets = normalised(forest, solved.ranges), solved.payoffs
    with precision(np.float64):
        limit = Limit.of(forest.cut, np.dtype(np.float64))
        states = PublicStates.of(limit, "padded")
        error = compiled(functools.partial(_total_error, function_at(values, limit, lanes)))
        for begin in range(0, lanes, EVALUATED):
            part = slice(begin, begin + EVALUATED)
            ranges, expected = ((pair[0][:, part], pair[1][:, part]) for pair in (queries, targets))
            total += float(error(states, ranges, expected))
    return math.sqrt(total / (lanes * forest.num_subgames))


def _total_error(function: RangeFunction, states: PublicStates, ranges: Pair, payoffs: Pair) -> jax.Array:
    """Sum of squared errors of values `[R_p, L]` against payoffs, over all public states and lanes."""
    opposing = states.opposing(_to_slots(states, ranges))
    first, second = (
        divide(worth, mass * states.weight[:, None, None])
        for worth, mass in zip(_to_slots(states, function(ranges)), opposing, strict=True)
    )
    return jnp.sum(sum_of_squares((first, second), _to_slots(states, payoffs), opposing))
