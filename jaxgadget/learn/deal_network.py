"""Networks of ranges at the first deal of a hold'em spot: `train_deals`.

As in DeepStack (Moravčík et al. 2017): ranges are drawn at random, all later streets are solved for them, and
a network learns the values of all hands. It is for one board and for the betting that the training had after
a deal; hands are described by features, so that ranges may differ.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import operator
import os
import pathlib
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax.tree_util import Partial

from jaxgadget.core.devices import HOME
from jaxgadget.core.driver import Stopped, cast_arrays, run_all
from jaxgadget.core.loops import LOOP_FORM, LOOP_OPTIONS
from jaxgadget.core.memory import find_memory, find_workers
from jaxgadget.core.regret import find_rule, follows_from_regrets
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.ranges import divide
from jaxgadget.holdem.cards import HANDS, RANKS, SUITS, card_name, hand_name
from jaxgadget.holdem.spots import Spot
from jaxgadget.learn.errors import Errors, RegressionResult
from jaxgadget.learn.options import RangeTrainingConfig
from jaxgadget.learn.range_network import (
    ERRORS,
    ERRORS_FORMAT,
    PublicStates,
    RangeArchitecture,
    find_doubt,
    range_values,
    read_errors,
)
from jaxgadget.learn.range_training import SOLVED, RangeLesson, kept_ranges, train_in_rounds
from jaxgadget.networks.checkpoints import (
    NetworkKind,
    open_training,
    parsing,
    read_description,
    restore_weights,
)
from jaxgadget.networks.perceptron import Weights, abstract_weights, initial_weights, weights_digest
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.digest import digest
from jaxgadget.util.files import make_folder
from jaxgadget.util.locks import hold
from jaxgadget.util.memory import megabytes
from jaxgadget.util.precision import precision
from jaxgadget.util.progress import progress_bar
from jaxgadget.util.records import jsonable
from jaxgadget.util.store import write_record
from jaxgadget.values.deals import (
    CheckedDown,
    DealLimit,
    DealValues,
    check_no_rake,
    resolve_deals,
    solve_limit,
    split_nodes,
)
from jaxgadget.values.draws import CONCENTRATIONS, RangePair, dirichlet_rows, recursive_rows
from jaxgadget.values.ranged_payoff import Pair, RangeFunction
from jaxgadget.values.shards import Shards

KIND = NetworkKind(name="deal network", version=1, writer="train_deals")

DEFAULT = RangeTrainingConfig(
    network="infostates", samples=512, rounds=1, iterations=100, steps=4000, batch_size=8, width=64
)
"""Default settings of `train_deals`."""

BINS = 8
"""Bins of the strengths that a hand may have on the final board."""

SHARD = 8
"""Number of pairs of ranges that are solved and stored together, and lost by an interrupt."""

MANY_HANDS = 5
"""Largest number of hands that a warning lists."""

LANES = 16
"""Number of searches that run together."""

SEARCHES = (8, 30, 80)
"""CFR+ iterations on the first street that draw ranges."""

NOISE = (0.02, 0.5)
"""Smallest and largest noise of the values of these searches, in pots."""

RECIPE: dict[str, str] = {
    "searches": repr(SEARCHES),
    "noise": repr(NOISE),
    "concentrations": repr(CONCENTRATIONS),
    "bins": repr(BINS),
}
"""Constants that determine a training, besides its settings; it cannot resume with others."""


@dataclasses.dataclass(eq=False, kw_only=True, repr=False)
class DealNetwork:
    """A trained network as `DealValues`.

    Attributes:
      board: the board, and dead cards, as card indices.
      trees: the betting after each deal of the training, as `DealLimit.trees`, without duplicates.
      shape: its architecture.
      weights: its parameters.
      hands: the hands of the training's ranges, as indices into `holdem.cards.HANDS`.
      payoff_range: largest payoff range after a deal, in pots at the deal.
      error: root mean squared error over held-out ranges, or those of the training if none are held out, in
        pots at the deal; None before the training ends.
      name: name for tables: its folder, otherwise `deals`.
    """

    board: tuple[tuple[int, ...], tuple[int, ...]]
    trees: tuple[str, ...]
    hands: tuple[int, ...]
    payoff_range: float
    shape: RangeArchitecture
    weights: Weights
    error: float | None = None
    name: str = "deals"

    def __repr__(self) -> str:
        return f"<DealNetwork {self.name}: width {self.shape.width}, depth {self.shape.depth}>"

    @property
    def fingerprint(self) -> str:
        """Digest of its weights."""
        return weights_digest(self.weights)

    @property
    def doubt(self) -> str | None:
        """Reason not to rely on it: its training is not finished or diverged; otherwise None."""
        return find_doubt(self.name, self.error, self.payoff_range, KIND.writer)

    def describe(self, training: dict[str, Any]) -> dict[str, Any]:
        """Description for a `TrainingFolder`, with the settings that determine the weights."""
        shape = dataclasses.asdict(self.shape) | {"sizes": []}
        board = [list(cards) for cards in self.board]
        return {
            "board": board,
            "trees": list(self.trees),
            "hands": list(self.hands),
            "payoff_range": self.payoff_range,
            "architecture": shape,
            "training": training,
        }

    def __call__(self, limit: DealLimit) -> RangeFunction:
        """The network's function.

        Raises:
          ValueError: for deals that it is not for.

        Warns:
          UserWarning: if a range has hands that the training did not have.
        """
        self.check(limit)
        strange = np.setdiff1d(played_hands(limit.spot), self.hands)
        if len(strange):
            names = ", ".join(map(hand_name, strange[:MANY_HANDS].tolist()))
            more = "" if len(strange) <= MANY_HANDS else f" and {len(strange) - MANY_HANDS} others"
            warnings.warn(
                f"{self.name!r} was not trained with {names}{more}; its values may be wrong", stacklevel=2
            )
        states = describe_deals(limit, self.trees)
        return Partial(range_values, self.shape, self.weights, states, jnp.float32(1))

    def check(self, limit: DealLimit) -> None:
        """Raises ValueError unless the network is for the deals of a limit."""
        spot = limit.spot
        check_no_rake(spot, f"network {self.name!r}")
        if board_of(spot) != self.board:
            own, dead = ("".join(map(card_name, cards)) for cards in self.board)
            without = f" without {dead}" if dead else ""
            raise ValueError(
                f"{self.name!r} is a network for {own}{without}, not for {spot.title}: train one with this "
                "board and these dead cards"
            )
        for node, tree in zip(limit.nodes.tolist(), limit.trees, strict=True):
            if tree not in self.trees:
                line = spot.street_betting.line(node)
                raise ValueError(
                    f"{self.name!r} was not trained for the bets of {spot.title} after {line!r}: expected "
                    "its pots and stacks there, and its menus of later streets (--river-bets, "
                    "--river-raises); or train one for these"
                )


def played_hands(spot: Spot) -> IntArray:
    """Hands with a weight in one of the ranges, as indices into `HANDS`."""
    first, second = spot.range_weights
    return spot.hands[(first > 0) | (second > 0)]


def board_of(spot: Spot) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A spot's board and dead cards."""
    return tuple(sorted(spot.cards)), tuple(sorted(spot.dead_cards))


def describe_deals(limit: DealLimit, trees: Sequence[str]) -> PublicStates:
    """The deals of a limit as public states; values are in pots of the spot.

    Args:
      limit: the deals.
      trees: the different kinds of betting after deals, as `DealLimit.trees`.
    """
    count, real = len(limit.nodes), limit.hands >= 0
    num_hands = len(real)
    row = np.where(real, np.arange(count * num_hands).reshape(count, -1), count * num_hands)
    total = limit.compatible.sum()
    with precision(np.float32):
        index = jnp.asarray(row, jnp.int32)
        slot = jnp.arange(count * num_hands, dtype=jnp.int32)
        mask = jnp.asarray(np.broadcast_to(real, row.shape), jnp.float32)
        features = jnp.asarray(_features(limit, trees), jnp.float32)
        chance = jnp.asarray(np.broadcast_to(limit.compatible / total, (count, num_hands, num_hands)))
        return PublicStates(
            row=(index, index),
            slot=(slot, slot),
            mask=(mask, mask),
            chance=chance.astype(jnp.float32),
            weight=jnp.asarray(total * limit.pots, jnp.float32),
            features=(features, features),
        )


def _features(limit: DealLimit, trees: Sequence[str]) -> FloatArray:
    """`[K, H, E]` of every hand at every deal: strengths on the final boards, its cards, and the betting."""
    real = limit.hands >= 0
    strength = limit.strengths[:, real]
    edges = np.arange(BINS)[:, None, None] / BINS
    inside = (strength >= edges) & (strength < edges + 1 / BINS)  # False for NaN
    bins = inside.sum(axis=1) / np.isfinite(strength).sum(axis=0)
    mean, std = np.nanmean(strength, axis=0), np.nanstd(strength, axis=0)
    cards = HANDS[limit.hands[real]]
    ranks = (cards[..., None] // 4 == np.arange(len(RANKS))).sum(axis=1)
    suits = (cards[..., None] % 4 == np.arange(len(SUITS))).sum(axis=1)
    of_hand = np.zeros((len(real), 2 + BINS + len(RANKS) + len(SUITS)))
    of_hand[real] = np.column_stack([2 * mean - 1, std, bins.T, ranks, suits])
    of_node = np.array([[tree == each for each in trees] for tree in limit.trees], np.float64)
    shape = len(limit.nodes), len(real)
    return np.concatenate(
        [
            np.broadcast_to(of_hand[None], (*shape, of_hand.shape[1])),
            np.broadcast_to(of_node[:, None], (*shape, of_node.shape[1])),
        ],
        axis=-1,
    )


def load_deals(folder: str | os.PathLike[str], spot: Spot) -> DealNetwork:
    """Loads a network from a folder of `train_deals`, with the newest checkpoint's weights.

    Args:
      folder: the folder.
      spot: a spot on its board, whose bets after every deal are some of the training's.

    Raises:
      ValueError: if it is missing, cannot be read, or is for another board or other bets after a deal.
      ImportError: if orbax is not installed.
    """
    description = read_description(folder, KIND)
    with parsing(folder, KIND):
        fields: dict[str, Any] = dict(description["architecture"])
        counts = {name: operator.index(fields[name]) for name in ("features", "width", "depth")}
        first, second = description["board"]
        network = DealNetwork(
            board=(tuple(first), tuple(second)),
            trees=tuple(map(str, description["trees"])),
            hands=tuple(map(operator.index, description["hands"])),
            payoff_range=float(description["payoff_range"]),
            shape=RangeArchitecture(network="infostates", sizes=(), **counts),
            weights={},
            name=os.fspath(folder),
        )
    network.check(DealLimit.of(spot))
    network.weights = restore_weights(folder, abstract_weights(network.shape), KIND)
    network.error = _error_of(read_errors(folder))
    return network


def _error_of(measured: Mapping[str, float]) -> float | None:
    """Error over held-out ranges, or those of the training if none are held out; None before the end."""
    error = measured.get("heldout_rmse", math.nan)
    return measured.get("train_rmse") if math.isnan(error) else error


# --- training -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DealTraining(RegressionResult):
    """Result of `train_deals`: examples are pairs of ranges, each at all deals; errors are in pots.

    Attributes:
      values: the trained network.
      samples: number of pairs of ranges.
      gap: mean gap of the solved streets, in pots at the deal.
    """

    values: DealNetwork
    samples: int
    gap: float

    def __repr__(self) -> str:
        return f"<DealTraining {self.values.name}: error {self.heldout_rmse:.3g} pots held out>"


def train_deals(
    spot: Spot,
    *,
    config: RangeTrainingConfig = DEFAULT,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DealTraining:
    """Trains a network to predict the values of all hands when the first card is dealt.

    Ranges are those of searches of the first street with noisy equities, and random ones; all later streets
    are solved for them by DCFR. After half of the steps, half as many are added from searches with the
    network. A training in a folder is resumed, with the solved ranges.

    Args:
      spot: a flop or turn without rake.
      config: settings; `samples` is the number of pairs of ranges, each with all deals, and `iterations` of
        DCFR solve them.
      folder: folder for checkpoints, the log and solved ranges.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for a river or rake, if an argument is out of range, the folder holds another training, or
        numbers cease to be finite.
      ImportError: if a folder is given and orbax is not installed.
    """
    began = time.perf_counter()
    config, limit = RangeTrainingConfig.of(config), DealLimit.of(spot)
    check_no_rake(spot, "training", "no rake")
    if config.network != "infostates":
        raise ValueError(f"network={config.network!r}: expected 'infostates', which all hands share")
    trees = tuple(sorted(set(limit.trees)))
    states = describe_deals(limit, trees)
    shape = RangeArchitecture(
        network="infostates",
        sizes=(),
        features=states.features[0].shape[-1],
        width=config.width,
        depth=config.depth,
    )
    values = DealNetwork(
        board=board_of(spot),
        trees=trees,
        hands=tuple(played_hands(spot).tolist()),
        payoff_range=float(1 + 2 * (limit.stacks / limit.pots).max()),
        shape=shape,
        weights=initial_weights(shape, config.seed),
        name="deals" if folder is None else os.fspath(folder),
    )
    config.check_room(*shape.layers)
    _check_samples(limit, config)
    deals = {"ranges": digest(*spot.range_weights), "deals": list(limit.trees), "pots": limit.pots.tolist()}
    described = values.describe(config.describe() | RECIPE | deals)
    with precision(np.float32), open_training(folder, described, KIND) as keeper:
        data = _DealData(limit, states, shape, config, None if keeper is None else keeper.path, progress)
        data.add(CheckedDown(), 0)

        def collect(weights: Weights, round_idx: int) -> Errors:
            data.add(dataclasses.replace(values, weights=weights), round_idx + 1)
            return data.errors()

        trainer, errors = train_in_rounds(
            config, data.errors(), values.weights, collect, keeper, began, progress
        )
        values.weights = trainer.progress.weights
        train_rmse, heldout_rmse = errors.final(values.weights)
        measured = {"train_rmse": train_rmse, "heldout_rmse": heldout_rmse}
        values.error = _error_of(measured)
        if keeper is not None:
            write_record(keeper.path / ERRORS, ERRORS_FORMAT, jsonable(measured))
    return DealTraining(
        values=values,
        log=pd.DataFrame(trainer.log),
        train_rmse=train_rmse,
        heldout_rmse=heldout_rmse,
        payoff_range=values.payoff_range,
        samples=len(data.held),
        gap=data.gap,
        seconds=trainer.seconds(),
    )


def _check_samples(limit: DealLimit, config: RangeTrainingConfig) -> None:
    """Raises ValueError if the solved samples and the pairs of hands of a step do not fit into memory."""
    count, num_hands = len(limit.nodes), len(limit.hands)
    samples = config.samples + config.rounds * max(config.samples // 2, 1)
    solved = 8 * 6 * samples * count * num_hands  # ranges, values and opposing masses
    pairs = 4 * 6 * max(config.batch_size, LANES) * count * num_hands**2  # deals, payoffs, gradients
    available = find_memory(HOME)
    if available is not None and solved + pairs > available:
        raise ValueError(
            f"samples={config.samples}, batch_size={config.batch_size}: {count} deals of {num_hands} hands "
            f"need at least {megabytes(solved + pairs)}, but {megabytes(available)} is available; choose "
            "fewer bets before the deal, narrower ranges, or fewer samples"
        )


class _DealData:
    """Solved ranges: those drawn first, then those of each round.

    Attributes:
      held: `[N]` mask of held-out pairs.
    """

    def __init__(
        self,
        limit: DealLimit,
        states: PublicStates,
        shape: RangeArchitecture,
        config: RangeTrainingConfig,
        folder: pathlib.Path | None,
        progress: bool | None,
    ):
        self._limit, self._states, self._shape, self._config = limit, states, shape, config
        self._folder, self._progress = folder, progress
        self._parts: list[dict[str, Any]] = []
        self.held = np.zeros(0, np.bool_)

    @property
    def gap(self) -> float:
        """Mean gap of all solved streets, in pots at the deal."""
        return float(np.mean([part["gap"].mean() for part in self._parts]))

    def add(self, values: DealValues, round_idx: int) -> None:
        """Adds ranges of searches with some values, and random ones in round 0, and solves them."""
        config = self._config
        count = config.samples if round_idx == 0 else max(config.samples // 2, 1)
        generator = np.random.Generator(np.random.PCG64([config.seed, round_idx]))
        name = f"round-{round_idx}"

        def draw() -> RangePair:
            is_first = round_idx == 0
            return draw_deal_ranges(
                self._limit, values, count, generator, is_random=is_first, progress=self._progress
            )

        ranges = kept_ranges(self._folder, name, draw)
        solved = solve_deals(
            self._limit,
            ranges,
            config.iterations,
            folder=None if self._folder is None else self._folder / SOLVED / name,
            progress=self._progress,
        )
        self._parts.append(solved)
        order = np.random.Generator(np.random.PCG64([config.seed, round_idx, 1])).permutation(count)
        held = order < min(math.ceil(config.heldout * count), count - 1)
        self.held = np.concatenate([self.held, held])

    def errors(self) -> Errors:
        """All examples on the device, the training set first."""
        count = len(self._limit.nodes)
        order = np.concatenate([np.flatnonzero(~self.held), np.flatnonzero(self.held)])

        def in_slots(rows: list[FloatArray]) -> jax.Array:
            joined = np.concatenate(rows, axis=1).T[order]
            return jnp.asarray(joined.reshape(len(order), count, -1), jnp.float32)

        ranges = [in_slots([part["ranges"][player] for part in self._parts]) for player in (0, 1)]
        targets = [in_slots([self._payoffs(part, player) for part in self._parts]) for player in (0, 1)]
        lesson = RangeLesson(
            ranges=(ranges[0], ranges[1]),
            targets=(targets[0], targets[1]),
            states=self._states,
            scale=jnp.float32(1),
            num_train=jnp.int32((~self.held).sum()),
            key=jax.random.key(self._config.seed),
            shape=self._shape,
            batch_size=self._config.batch_size,
            evaluated=SHARD,
        )
        return Errors(lesson, int((~self.held).sum()), len(self.held))

    def _payoffs(self, part: dict[str, Any], player: int) -> FloatArray:
        """`[K × H, N]` expected payoffs of a player's hands, in pots at the deal."""
        pots = np.repeat(self._limit.pots, len(self._limit.hands))[:, None]
        return divide(part["values"][player], part["opposing"][player] * pots)


def solve_deals(
    limit: DealLimit,
    ranges: RangePair,
    iterations: int,
    *,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Solves all later streets for pairs of ranges by DCFR in float32.

    Args:
      limit: the deals.
      ranges: both players' ranges `[K × H, N]`; they are normalised at every node.
      iterations: number of iterations.
      folder: folder of the results, which are read from there; interrupted solves continue.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Returns:
      `ranges`, `values` and `opposing` of both players, `[K × H, N]`; `gap` and `mass`, `[K, N]`, the gap in
      pots at the deal; `iterations`, `[N]`. As in `SolvedRanges`.
    """
    num_lanes = ranges[0].shape[1]
    first, second = (_normalised(limit, own) for own in ranges)
    request = {
        "game": repr(board_of(limit.spot)),
        "cut": repr(limit.trees),
        "roots": digest(limit.hands, limit.pots),
        "ranges": digest(first, second),
        "iterations": iterations,
        "shard": SHARD,
    }
    rule = find_rule("dcfr")
    assert follows_from_regrets(rule)
    with precision(np.float32):
        branches = jax.tree.map(jnp.asarray, cast_arrays(limit.runouts.branches(rule), np.float32))
        solve = functools.partial(
            _resolved, branches, jnp.float32(limit.runouts.max_payoff), jnp.int32(iterations)
        )
    opposing = tuple(_opposing(limit, other) for other in (second, first))
    stop, done, parts = threading.Event(), list[int](), dict[int, dict[str, Any]]()
    with contextlib.ExitStack() as stack:
        store = None
        if folder is not None:
            make_folder(folder)
            stack.enter_context(hold(pathlib.Path(folder), "folder"))
            store = Shards(folder, request)
        report = stack.enter_context(progress_bar("solving ranges", num_lanes, progress))

        def solve_shard(begin: int) -> None:
            lanes = slice(begin, begin + SHARD)
            pair = first[:, lanes], second[:, lanes]
            part = None if store is None else store.read(begin // SHARD, pair)
            if part is None:
                if stop.is_set():
                    raise Stopped
                with precision(np.float32):
                    padded = [np.pad(own, ((0, 0), (0, SHARD - own.shape[1])), "edge") for own in pair]
                    found = solve((jnp.asarray(padded[0], jnp.float32), jnp.asarray(padded[1], jnp.float32)))
                values = [np.asarray(own, np.float64)[:, : pair[0].shape[1]] for own in found]
                part = _part(limit, pair, values, [own[:, lanes] for own in opposing], iterations)
                if store is not None:
                    store.write(begin // SHARD, part)
            parts[begin] = part
            done.append(pair[0].shape[1])

        tasks = [functools.partial(solve_shard, begin) for begin in range(0, num_lanes, SHARD)]
        if tasks:
            run_all(tasks[:1], 1, stop, lambda: None)  # compiles
            run_all(tasks[1:], find_workers(HOME), stop, lambda: report(sum(done)))
        report(num_lanes)
    joined: dict[str, Any] = {}
    for name, value in parts[0].items():
        rows = [parts[begin][name] for begin in sorted(parts)]
        if isinstance(value, tuple):
            joined[name] = tuple(np.concatenate([row[player] for row in rows], axis=1) for player in (0, 1))
        else:
            joined[name] = np.concatenate(rows, axis=-1)
    return joined


_resolved = compiled(resolve_deals, gpu_options=LOOP_OPTIONS[LOOP_FORM])


def _part(
    limit: DealLimit,
    ranges: RangePair,
    values: Sequence[FloatArray],
    opposing: Sequence[FloatArray],
    iterations: int,
) -> dict[str, Any]:
    """The arrays of solved ranges."""
    shape = len(limit.nodes), len(limit.hands), ranges[0].shape[1]
    gain = sum((own * value).reshape(shape).sum(axis=1) for own, value in zip(ranges, values, strict=True))
    mass = (ranges[0] * opposing[0]).reshape(shape).sum(axis=1)
    return {
        "ranges": ranges,
        "values": (values[0], values[1]),
        "opposing": (opposing[0], opposing[1]),
        "gap": divide(np.maximum(gain, 0), mass * limit.pots[:, None]),
        "mass": mass,
        "iterations": np.full(shape[2], iterations),
    }


def _opposing(limit: DealLimit, other: FloatArray) -> FloatArray:
    """`[K × H, N]` mass of the other player's hands that are compatible with each hand."""
    rows = other.reshape(len(limit.nodes), len(limit.hands), -1)
    return np.einsum("ij,kjn->kin", limit.compatible, rows, optimize=True).reshape(other.shape)


def _normalised(limit: DealLimit, ranges: FloatArray) -> FloatArray:
    """Ranges with sum 1 at every node; all zeros become uniform."""
    real = limit.hands >= 0
    rows = ranges.reshape(len(limit.nodes), len(limit.hands), -1) * real[:, None]
    even = np.broadcast_to((real / real.sum())[:, None], rows.shape)
    return divide(rows, rows.sum(axis=1, keepdims=True), even).reshape(ranges.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class _NoisyDeals:
    """Values with independent noise for each hand, node and lane: `[K × H, L]` for both players, in pots."""

    values: DealValues
    noise: RangePair

    def __call__(self, limit: DealLimit) -> RangeFunction:
        arrays = [jnp.asarray(x, jnp.float64) for x in (limit.compatible, *self.noise)]
        return Partial(_with_noise, self.values(limit), *arrays)


def _with_noise(
    function: RangeFunction, compatible: jax.Array, first: jax.Array, second: jax.Array, ranges: Pair
) -> Pair:
    def met(own: jax.Array) -> jax.Array:
        rows = split_nodes(own, len(own) // len(compatible))
        return jnp.einsum("ij,kjl->kil", compatible, rows).reshape(own.shape)

    values = function(ranges)
    one, other = values[0] + first * met(ranges[1]), values[1] + second * met(ranges[0])
    return one, other


def draw_deal_ranges(
    limit: DealLimit,
    values: DealValues,
    count: int,
    generator: np.random.Generator,
    *,
    is_random: bool = True,
    progress: bool | None = False,
) -> RangePair:
    """Draws pairs of ranges at the deals: `[K × H, count]` for both players.

    Args:
      limit: the deals.
      values: values of the searches, to which noise is added.
      count: number of pairs.
      generator: random generator.
      is_random: half of the ranges are random instead, half of these by strength as in DeepStack.
      progress: show a bar.
    """
    num_random = count // 2 if is_random else 0
    pairs = list[RangePair]()
    node = np.repeat(np.arange(len(limit.nodes)), len(limit.hands))
    rank = np.tile(limit.showdowns.sum(axis=1), len(limit.nodes))
    draws = (
        (num_random // 2, lambda size: dirichlet_rows(node, len(limit.nodes), size, generator)),
        (num_random - num_random // 2, lambda size: recursive_rows(node, size, generator, rank)),
    )
    for size, draw in draws:
        if size:
            dealt = [np.tile(own[limit.runouts.hands], len(limit.nodes)) for own in limit.spot.dealt]
            first, second = (own[:, None] * draw(size) for own in dealt)
            pairs.append((first, second))
    left, (low, high) = count - num_random, np.log(NOISE)
    ends = np.linspace(0, left, len(SEARCHES) + 1).astype(int).tolist()
    with progress_bar("searching", left, progress) as report:
        for begin_of_all, end, iterations in zip(ends, ends[1:], SEARCHES, strict=False):
            for begin in range(begin_of_all, end, LANES):
                lanes = min(LANES, end - begin)
                pots = np.repeat(limit.pots, len(limit.hands))[:, None]
                scale = np.exp(generator.uniform(low, high, lanes)) * pots
                noise = generator.normal(size=(2, *scale.shape)) * scale
                searched = solve_limit(
                    limit,
                    _NoisyDeals(values, (noise[0], noise[1])),
                    num_lanes=lanes,
                    iterations=iterations,
                    solver=Solver(progress=False),
                )
                pairs.append(searched.ranges)
                report(begin + lanes)
    first, second = (np.concatenate([pair[player] for pair in pairs], axis=1) for player in (0, 1))
    return first, second
