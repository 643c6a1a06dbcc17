"""Trains a network of ranges below a cut: `train_ranges`.

Ranges are drawn at random, and then collected in rounds where searches that use the network ask. All
subgames are solved for them, thousands a second, and what both players' infostates are worth is the target.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.tree_util import Partial

from jaxgadget.gadgets.prior import NoPrior
from jaxgadget.gadgets.ranges import divide, sum_rows
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.kernels.regret import CFR_PLUS, Rule
from jaxgadget.learn.checkpoints import REMEDY, TrainingFolder, last_step
from jaxgadget.learn.options import TrainingOptions
from jaxgadget.learn.perceptron import Weights, initial_weights
from jaxgadget.learn.range_network import (
    ERRORS,
    KIND,
    MEASURED,
    NETWORKS,
    PublicStates,
    RangeArchitecture,
    RangeNetwork,
    Slots,
    make_network,
    predict,
    read_errors,
)
from jaxgadget.learn.trainer import Trainer
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.refine import refine
from jaxgadget.solving.devices import HOME
from jaxgadget.solving.driver import Report
from jaxgadget.solving.memory import find_memory, megabytes
from jaxgadget.solving.options import check_iterations
from jaxgadget.tree.cut import CutSpec
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, check_whole
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.interrupts import telling_what_is_kept
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.sealed import damaged, read_archive, write_archive, write_record
from jaxgadget.values.draws import CONCENTRATIONS, RangePair, draw_ranges, random_policies, reach_of
from jaxgadget.values.ranges import Limit, Pair, RangeFunction, RangeValues, function_at
from jaxgadget.values.shards import count_lanes
from jaxgadget.values.solved import SolvedRanges, solve_ranges
from jaxgadget.values.trunk import LimitedTrunk, solve_trunk

EVALUATED = 256
"""Lanes that are evaluated at once."""

SEARCHES = ((10, 15.0), (60, 15.0), (60, 1.0), (250, 1.0))
"""Iterations and averaging of the searches that collect ranges: CFR+ asks at its current strategies, of which
an average with t¹⁵ is nearly one, and ends at its averages."""

BLUEPRINT_ITERATIONS = (8, 30, 150)
"""Of CFR+ on the trunk, for what the resolving player follows there; a last part is drawn at random."""

NOISE = (1e-3, 0.2)
"""Of the values that these blueprints are found with, in payoff ranges: from nearly none to much."""

RECIPE: dict[str, str] = {
    "searches": repr(SEARCHES),
    "blueprint iterations": repr(BLUEPRINT_ITERATIONS),
    "noise": repr(NOISE),
    "concentrations": repr(CONCENTRATIONS),
}
"""What ranges depend on besides a training's settings; a training does not go on with others."""

SOLVED = "solved"
"""The folder of what was solved to learn from, in the training's own; `solve_ranges` keeps it."""

JUDGES = 10**6
"""Beside the seed, of the blueprints that a network is judged by; rounds have smaller numbers."""

VISITED_BLUEPRINTS = 64
"""With so many `visited_rmse` is measured, which nothing was trained on."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RangeTraining:
    """What `train_ranges` gives. Errors are root mean squares in payoff units, by opposing mass.

    Attributes:
      values: the trained network.
      log: columns `step`, `loss` (mean squared error since the row before in squares of the payoff range),
        `heldout_rmse`, `seconds` so far, and `examples_per_second` (pairs of ranges, each with all subgames).
      train_rmse: over the ranges trained on.
      heldout_rmse: over those held out, by sample and by blueprint; NaN if there are none.
      blueprint_rmse: over the ranges of blueprints that were held out; NaN likewise.
      visited_rmse: where searches with the trained network ask, after blueprints drawn for this alone.
      value_rmse: of the value that the network predicts for the optimal continuations of these blueprints.
      payoff_range: the largest less the smallest payoff.
      samples: subgames that were solved to learn from.
      gap_max: the largest gap of these, in payoff units.
      subgames_per_second: solved and certified; NaN if all were read from the folder.
      seconds: of all runs together, solving and compiling included.
    """

    values: RangeNetwork
    log: pd.DataFrame
    train_rmse: float
    heldout_rmse: float
    blueprint_rmse: float
    visited_rmse: float
    value_rmse: float
    payoff_range: float
    samples: int
    gap_max: float
    subgames_per_second: float
    seconds: float

    def __repr__(self) -> str:
        errors = f"error {self.heldout_rmse:.3g} held out, {self.visited_rmse:.3g} where searches ask"
        return f"<RangeTraining of {self.values.game}: {errors}, payoff range {self.payoff_range:g}>"


def train_ranges(
    tree: HistoryTree,
    where: CutSpec,
    *,
    folder: str | os.PathLike[str] | None = None,
    samples: int = 8192,
    rounds: int = 2,
    steps: int = 10_000,
    batch_size: int = 64,
    network: str = "padded",
    width: int = 128,
    depth: int = 1,
    learning_rate: float = 2e-3,
    seed: int = 0,
    iterations: int = 300,
    heldout: float = 0.05,
    every: int | None = None,
    show_progress: bool | None = None,
) -> RangeTraining:
    """Trains a network to predict what subgames are worth for any ranges of the players.

    A sample is a pair of ranges for every subgame below the cut, solved by CFR+. The first ones are drawn
    (`draw_ranges`). Half of the steps go to these and to the rounds; each round adds half as many samples,
    from where searches with the network as it is would ask: the opponent's trunk solved against blueprints of
    many kinds. No blueprint of a user's is looked at. The same arguments give the same weights, however often
    a training was cut off: bit for bit with the same JAX on the same CPU with equally many cores.

    Args:
      tree: histories of the whole game.
      where: the cut; see `jaxgadget.cut`.
      folder: keeps checkpoints, the log and solved subgames; a training that lies there goes on.
      samples: pairs of ranges drawn at random.
      rounds: of collecting more.
      steps: training steps.
      batch_size: samples a step, each with all subgames, drawn with replacement.
      network: `padded`, most accurate for its cut; or `infostates`, which serves other cuts too.
      width: units of a layer; of `padded` for the largest public states, fewer for smaller ones.
      depth: residual blocks of two layers each.
      learning_rate: the largest.
      seed: of ranges, weights, batches, and what is held out.
      iterations: of CFR+ in every subgame.
      heldout: the share of samples, and of the blueprints in rounds, never trained on.
      every: steps between two checkpoints and rows of the log; by default a fiftieth of all.
      show_progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: if an argument is out of range, the folder holds another training or shards of one, or
        numbers cease to be finite.
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
        heldout=heldout,
    )
    every = options.find_every(every)
    samples, rounds = check_whole_number("samples", samples, 16), check_whole_number("rounds", rounds, 0, 100)
    iterations = check_iterations(iterations)
    if network not in NETWORKS:
        raise ValueError(f"network={network!r} is unknown; expected one of {', '.join(NETWORKS)}")
    check_whole(tree)
    forest = build_forest(tree, where)
    kept = telling_what_is_kept(lambda: "" if folder is None else describe_kept(folder, options.steps))
    _check_samples(forest, samples, rounds)
    with precision(np.float32), kept:
        limit = Limit.of(forest.cut, np.dtype(np.float32))
        values = make_network(tree, limit, network, options.width, options.depth)
        options.check_room(*values.shape.layers)
        values.weights = initial_weights(values.shape, options.seed)
        keeper = None
        if folder is not None:
            told = (
                options.describe() | RECIPE | {"samples": samples, "rounds": rounds, "iterations": iterations}
            )
            keeper, values.name = TrainingFolder(folder, values.describe(told), KIND), os.fspath(folder)
        place = None if keeper is None else keeper.path
        data = _Data(forest, values, options, samples, iterations, place, show_progress)
        trainer = Trainer(
            options.schedule,
            data.lesson(limit),
            values.weights,
            data.counts,
            keeper,
            began,
            batch_size=options.batch_size,
        )
        ends = [options.steps * (number + 1) // (2 * rounds) for number in range(rounds)] + [options.steps]
        for number, end in enumerate(ends):
            with progress_bar("training", options.steps, show_progress) as report:
                trainer.train(every, report, end)
            if number < rounds:
                data.collect(dataclasses.replace(values, weights=trainer.progress.weights), number)
                trainer.lesson, trainer.counts = data.lesson(limit), data.counts
        values.weights = trainer.progress.weights
        measured = {} if keeper is None else read_errors(keeper.path)
        if set(measured) != set(MEASURED):  # else the training was finished before
            train_rmse, heldout_rmse = trainer.errors()
            measured = {
                "train_rmse": train_rmse,
                "heldout_rmse": heldout_rmse,
                "blueprint_rmse": trainer.rmse(*data.of_blueprints, 1),
                **_judged(forest, values, options.seed, iterations, show_progress),
            }
            if keeper is not None:
                known = {name: error if math.isfinite(error) else None for name, error in measured.items()}
                write_record(keeper.path / ERRORS, known)
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


def _check_samples(forest: Forest, samples: int, rounds: int) -> None:
    """ValueError if what is solved to learn from does not fit into memory."""
    lanes = samples + rounds * _num_blueprints(samples) * 2 * len(SEARCHES)
    # Ranges, values and opposing masses; a gap and deals for every subgame.
    lane_bytes = 8 * (3 * sum(map(len, forest.roots)) + 2 * forest.num_subgames)
    available = find_memory(HOME)
    if available is not None and lanes * lane_bytes > available:
        raise ValueError(
            f"samples={samples}: what is solved for them and in {rounds} rounds takes at least "
            f"{megabytes(lanes * lane_bytes)}, {megabytes(available)} may be taken; choose fewer"
        )


def _num_blueprints(samples: int) -> int:
    """Of a round: searches after them are half as many as the samples."""
    return max(samples // (4 * len(SEARCHES)), 4)


def describe_kept(folder: str | os.PathLike[str], steps: int) -> str:
    """What an interrupted training of so many steps finds in its folder, in words."""
    path = pathlib.Path(folder)
    count, step = sum(map(count_lanes, path.glob(f"{SOLVED}/*"))), last_step(path)
    parts = [f"{count} solved pairs of ranges"] * (count > 0)
    parts += [f"the checkpoint of step {step} of {steps}"] * (step is not None)
    return f"{os.fspath(folder)!r} keeps {' and '.join(parts) or 'nothing yet'}"


def _judged(
    forest: Forest, values: RangeNetwork, seed: int, iterations: int, progress: bool | None
) -> dict[str, float]:
    """Errors after blueprints that are drawn for this alone."""
    generator = np.random.Generator(np.random.PCG64([seed, JUDGES]))
    judges, ranges = _blueprints_and_ranges(forest, values, VISITED_BLUEPRINTS, generator, progress)
    visited = solve_ranges(forest, normalised(forest, ranges), iterations=iterations, progress=progress)
    return {
        "visited_rmse": range_rmse(values, visited),
        "value_rmse": value_rmse(forest, values, judges, progress=progress),
    }


# --- what is learnt from ------------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeLesson:
    """A `Lesson`: N pairs of ranges with all S subgames, those to train on first.

    Attributes:
      ranges: for both players `[N, S, n_p]`, adding up to 1 in every subgame.
      targets: for both players `[N, S, n_p]` payoffs in units of `scale`.
      states: the public states.
      scale: payoff units of the network's outputs.
      num_train: how many pairs are trained on.
      key: what all randomness comes from.
      shape: the network's.
      batch_size: pairs a step.
    """

    ranges: Slots
    targets: Slots
    states: PublicStates
    scale: jax.Array
    num_train: jax.Array
    key: jax.Array
    shape: RangeArchitecture = dataclasses.field(metadata={"static": True})
    batch_size: int = dataclasses.field(metadata={"static": True})

    def loss(self, weights: Weights, step: jax.Array) -> jax.Array:
        """See `Lesson`."""
        key = jax.random.fold_in(self.key, step)
        rows = jax.random.randint(key, (self.batch_size,), 0, self.num_train)
        return jnp.mean(self._errors(weights, rows))

    def rounds(self, num_examples: int, draws: int) -> int:
        """See `Lesson`; targets have no noise."""
        return 1

    def mean_square(
        self, weights: Weights, first: jax.Array, last: jax.Array, rounds: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """See `Lesson`."""
        count = last - first

        def add(batch: jax.Array, total: jax.Array) -> jax.Array:
            number = batch * EVALUATED + jnp.arange(EVALUATED, dtype=jnp.int32)
            error = jnp.mean(self._errors(weights, first + number % count), axis=0)
            return total + jnp.sum(jnp.where(number < count, error, 0))

        total = jax.lax.fori_loop(0, -(-count // EVALUATED), add, jnp.float32(0))
        return total * jnp.square(self.scale) / count.astype(jnp.float32), jnp.float32(0)

    def _errors(self, weights: Weights, rows: jax.Array) -> jax.Array:
        """`[S, B]` mean squared errors, in a public state by opposing mass."""
        ranges, targets = (
            (jnp.swapaxes(part[0][rows], 0, 1), jnp.swapaxes(part[1][rows], 0, 1))
            for part in (self.ranges, self.targets)
        )
        values, opposing = predict(self.shape, weights, self.states, ranges)
        return sum_of_squares(values, targets, opposing)


def sum_of_squares(values: Slots, targets: Slots, opposing: Slots) -> jax.Array:
    """`[S, B]` the mean over both players of squared errors, weighted by opposing mass."""
    errors = [
        jnp.sum(mass * jnp.square(value - target), axis=-1) / jnp.maximum(jnp.sum(mass, axis=-1), 1e-9)
        for value, target, mass in zip(values, targets, opposing, strict=True)
    ]
    return (errors[0] + errors[1]) / 2


class _Data:
    """Solved ranges, part by part: what was drawn, then what rounds collected.

    Attributes:
      parts: solved.
      counts: how many pairs are trained on, and how many there are.
      of_blueprints: the first pair of blueprints that were held out, and one past the last.
    """

    def __init__(
        self,
        forest: Forest,
        values: RangeNetwork,
        options: TrainingOptions,
        samples: int,
        iterations: int,
        folder: pathlib.Path | None,
        progress: bool | None,
    ):
        self._forest, self._values, self._options, self._progress = forest, values, options, progress
        self._samples, self._iterations, self._folder = samples, iterations, folder
        drawn = draw_ranges(forest, samples, seed=options.seed)
        self.parts = [self._solve(drawn, "drawn")]
        # Kinds of draws lie side by side: what is held out is spread over all of them.
        order = np.random.Generator(np.random.PCG64(options.seed)).permutation(samples)
        self._blueprint = [order]
        self._count()

    def collect(self, values: RangeNetwork, number: int) -> None:
        """A round: ranges where searches with these values ask."""
        count, name = _num_blueprints(self._samples), f"round-{number + 1}"
        ranges = None if self._folder is None else _read_ranges(self._folder / f"{name}.npz")
        if ranges is None:  # else the network may be further by now
            generator = np.random.Generator(np.random.PCG64([self._options.seed, number + 1]))
            _, ranges = _blueprints_and_ranges(self._forest, values, count, generator, self._progress)
            if self._folder is not None:
                write_archive(self._folder / f"{name}.npz", {}, {"first": ranges[0], "second": ranges[1]})
        self.parts.append(self._solve(ranges, name))
        # Kinds of blueprints lie side by side, too.
        order = np.random.Generator(np.random.PCG64([self._options.seed, number + 1, 1])).permutation(count)
        self._blueprint.append(order[np.arange(ranges[0].shape[1]) % count])
        self._count()

    def _solve(self, ranges: RangePair, name: str) -> SolvedRanges:
        folder = None if self._folder is None else self._folder / SOLVED / name
        return solve_ranges(
            self._forest,
            normalised(self._forest, ranges),
            iterations=self._iterations,
            folder=folder,
            progress=self._progress,
        )

    def _count(self) -> None:
        held = [self._held_out(blueprint) for blueprint in self._blueprint]
        left = sum(int((~mask).sum()) for mask in held)
        total = left + sum(int(mask.sum()) for mask in held)
        self._held, self.counts = held, (left, total)
        self.of_blueprints = left + int(held[0].sum()), total

    def _held_out(self, blueprint: IntArray) -> Any:
        """`[L]` whether a pair is held out, as its blueprint is."""
        count = int(blueprint.max()) + 1
        return blueprint < min(math.ceil(self._options.heldout * count), count - 1)

    def lesson(self, limit: Limit) -> RangeLesson:
        """All of it on the device: what to train on, drawn pairs held out, blueprints held out."""
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
            key=jax.random.key(self._options.seed),
            shape=self._values.shape,
            batch_size=self._options.batch_size,
        )

    def subgames_per_second(self) -> float:
        """Of those that were not read from a folder."""
        fresh = [part for part in self.parts if part.seconds.get("run")]
        seconds = sum(part.seconds["run"] for part in fresh)
        return sum(part.num_solved - part.num_read for part in fresh) / seconds if seconds else math.nan


def _read_ranges(path: pathlib.Path) -> RangePair | None:
    """What a round collected, if it did; ValueError if the file is damaged."""
    if not path.exists():
        return None
    try:
        arrays = read_archive(path)[1]
        return arrays["first"], arrays["second"]
    except (OSError, ValueError, KeyError) as error:
        raise damaged(path, error, REMEDY) from error


def examples_of(parts: Sequence[SolvedRanges], states: PublicStates, scale: float) -> tuple[Slots, Slots]:
    """Ranges and payoffs, `[N, S, n_p]` of both players, payoffs in units of `scale`."""
    pairs: list[Slots] = []
    targets = [(part.payoffs[0] / scale, part.payoffs[1] / scale) for part in parts]
    for source in ([part.ranges for part in parts], targets):
        first, second = (
            jnp.concatenate([jnp.swapaxes(_spread(states, x)[p], 0, 1) for x in source]) for p in (0, 1)
        )
        pairs.append((first, second))
    return pairs[0], pairs[1]


def _spread(states: PublicStates, pair: tuple[Any, Any]) -> Slots:
    """Numbers of both players' infostates `[R_p, L]` in slots, in float32."""
    first, second = (states.spread(p, jnp.asarray(pair[p], jnp.float32)) for p in (0, 1))
    return first, second


def normalised(forest: Forest, ranges: RangePair) -> RangePair:
    """Ranges that add up to 1 in every subgame, even where they were 0."""
    scaled: list[Any] = []
    for roots, rows in zip(forest.roots, ranges, strict=True):
        total = sum_rows(roots.subgame, rows, forest.num_subgames)
        even = 1 / np.bincount(roots.subgame)[roots.subgame, None]
        scaled.append(divide(rows, total[roots.subgame], even))
    return scaled[0], scaled[1]


# --- where searches ask -------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _Noisy:
    """Range values with noise of its own in every lane: `noise` for both players `[R_p, L]`, in payoffs."""

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
    """So many blueprints, and where searches after them ask."""
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
    """What a resolving player may follow: from a few iterations of CFR+ on the trunk, or drawn at random.

    Args:
      forest: the subgames.
      values: range values, for any number of lanes; CFR+ sees them with noise of its own in every lane.
      count: blueprints.
      generator: of all that is random.
      report: is told the number of searches done, of as many as `BLUEPRINT_ITERATIONS`.
    """
    tree, blueprints = forest.tree, list[Policy]()
    part = count // (len(BLUEPRINT_ITERATIONS) + 1)
    if part:
        uniform = Policy.stack([Policy.uniform(tree)] * part)
        low, high = np.log(NOISE)
        for iterations in BLUEPRINT_ITERATIONS:
            size = np.exp(generator.uniform(low, high, part)) * tree.payoff_range
            first, second = (generator.normal(size=(len(roots), part)) * size for roots in forest.roots)
            noisy = _Noisy(values, (first, second))
            blueprints.append(_search(forest, noisy, uniform, None, iterations, CFR_PLUS).policy)
            report(len(blueprints))
    rest = count - part * len(BLUEPRINT_ITERATIONS)
    return Policy.stack([*blueprints, random_policies(tree, rest, generator)])


def searched_ranges(
    forest: Forest, values: RangeValues, blueprint: Policy, report: Report = lambda done: None
) -> RangePair:
    """Ranges where searches with these values ask: the opponent's trunk is solved against blueprints.

    Args:
      forest: the subgames.
      values: range values, for any number of lanes.
      blueprint: what the resolving player follows, a lane each.
      report: is told the number of searches done, of twice as many as `SEARCHES`.

    Returns:
      For each of `SEARCHES`, first with player 0 as the resolver, then with player 1: a lane a blueprint.
    """
    own, pairs = reach_of(forest, blueprint), list[RangePair]()
    for player in (0, 1):
        for iterations, averaging in SEARCHES:
            rule = dataclasses.replace(CFR_PLUS, averaging=averaging)
            searched = _search(forest, values, blueprint, player, iterations, rule)
            reached = reach_of(forest, searched.policy)
            pairs.append((own[0], reached[1]) if player == 0 else (reached[0], own[1]))
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
    """How far off the predicted value of the optimal continuation is, a root mean square in payoff units.

    The value is unique, where counterfactual values at the roots need not be.

    Args:
      forest: the subgames.
      values: what is judged.
      blueprint: what the resolving player follows above the cut, a lane each; both players in turn.
      iterations: of the predictions' trunk, and of the continuations that they are held against.
      progress: see `solve_trunk`.
    """
    errors: list[FloatArray] = []
    for player in (0, 1):
        searched = _search(forest, values, blueprint, player, iterations, CFR_PLUS, progress)
        predicted = searched.best_response_values[player]
        best = refine(
            forest.tree,
            forest.cut,
            blueprint,
            OptimalContinuation(NoPrior()),
            player=player,
            iterations=iterations,
            value=forest.tree.payoff_bounds,  # exploitabilities are not asked for
            progress=progress,
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
        forest.tree,
        forest.cut,
        values,
        blueprint=blueprint,
        fixed=fixed,
        algorithm=rule,
        iterations=iterations,
        dtype="float32",
        progress=progress,
    )


def range_rmse(values: RangeValues, solved: SolvedRanges) -> float:
    """Root mean squared error over solved ranges, in payoff units, in every subgame by opposing mass.

    Args:
      values: what is judged.
      solved: by `solve_ranges`.
    """
    forest, total, lanes = solved.forest, 0.0, solved.gap.shape[1]
    asked, targets = normalised(forest, solved.ranges), solved.payoffs
    with precision(np.float64):
        limit = Limit.of(forest.cut, np.dtype(np.float64))
        states = PublicStates.of(limit, "padded")
        error = jax.jit(functools.partial(_total_error, function_at(values, limit, lanes)))
        for begin in range(0, lanes, EVALUATED):
            part = slice(begin, begin + EVALUATED)
            ranges, expected = ((pair[0][:, part], pair[1][:, part]) for pair in (asked, targets))
            total += float(error(states, ranges, expected))
    return math.sqrt(total / (lanes * forest.num_subgames))


def _total_error(function: RangeFunction, states: PublicStates, ranges: Pair, payoffs: Pair) -> jax.Array:
    """Squared errors of values `[R_p, L]` against payoffs, all public states and lanes together."""
    opposing = states.opposing(_spread(states, ranges))
    first, second = (
        divide(worth, mass * states.weight[:, None, None])
        for worth, mass in zip(_spread(states, function(ranges)), opposing, strict=True)
    )
    return jnp.sum(sum_of_squares((first, second), _spread(states, payoffs), opposing))
