"""Range network: from a public state and both ranges to counterfactual values of all infostates.

As in DeepStack (Moravčík et al. 2017), except for the outputs. Ranges are normalised in every public state.
The outputs are payoffs, divided by the payoff range, of every pair of infostates, one of each player; the
value of an infostate is their mean, weighted by the other player's range. Values are therefore zero-sum
without DeepStack's outer correction, and linear in the other player's range for fixed payoffs of pairs. With
one output per infostate errors were 20 % larger in Goofspiel 5. Padding of smaller public states is masked.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import pathlib
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.tree_util import Partial

from jaxgadget.gadgets.ranges import divide
from jaxgadget.games.game import Game
from jaxgadget.games.machine import StateMachine
from jaxgadget.learn.encoding import find_encoding
from jaxgadget.learn.options import NETWORKS
from jaxgadget.networks.checkpoints import (
    NetworkKind,
    content_files,
    number_of,
    parsing,
    read_description,
    restore_weights,
)
from jaxgadget.networks.perceptron import (
    Perceptron,
    Weights,
    abstract_weights,
    count_weights,
    evaluate,
    weights_digest,
)
from jaxgadget.tree.cut import Cut, CutSpec, cut
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.states import paths_to
from jaxgadget.util.arrays import FloatArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.digest import digest
from jaxgadget.util.store import Format, file_checksum, read_record
from jaxgadget.values.ranged_payoff import Pair, RangeFunction
from jaxgadget.values.ranges import Limit

KIND = NetworkKind(name="range network", version=1, writer="train_ranges")

ERRORS = "errors.json"
"""File with the errors of a finished training, beside the network."""

ERRORS_FORMAT = Format(
    name="jaxgadget errors of a range network",
    version=1,
    noun="file",
    remedy="delete it and train again with the same arguments, which only measures",
    anonymous=True,
)
MEASURED = ("train_rmse", "heldout_rmse", "blueprint_rmse", "visited_rmse", "value_rmse")
"""Errors in that file."""

DIVERGED = 0.5
"""Error, as a fraction of the payoff range, above which a network is useless."""

Slots: TypeAlias = tuple[jax.Array, jax.Array]
"""Arrays of both players `[S, B, n_p]`: public states, batch, infostates with padding."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, kw_only=True)
class RangeArchitecture:
    """The shape of a range network.

    Attributes:
      network: `padded`, a separate perceptron for every public state; or `infostates`, one for all, applied
        to infostates and their sums, for public states of any size and number.
      sizes: for both players, number of infostates of every public state; empty for `infostates`.
      features: size of an infostate's encoding, 0 for `padded`.
      width: units of a layer; in a `padded` network those of the largest public states, fewer for others, so
        that a layer's weights are proportional to a public state's infostates.
      depth: residual blocks, of two layers each.
    """

    network: str
    sizes: tuple[tuple[int, int], ...]
    features: int
    width: int
    depth: int

    def build(self, rngs: nnx.Rngs) -> nnx.Module:
        """The network, with random weights."""
        return (_Padded if self.network == "padded" else _Infostates)(self, rngs)

    @property
    def groups(self) -> tuple[SizeGroup, ...]:
        """Public states of a `padded` network by size, ascending."""
        largest = max(sum(size) for size in self.sizes)
        return tuple(
            SizeGroup(
                states=tuple(state for state, other in enumerate(self.sizes) if other == size),
                sizes=size,
                width=math.ceil(self.width * math.sqrt(sum(size) / largest)),
            )
            for size in sorted(set(self.sizes))
        )

    @property
    def layers(self) -> tuple[int, int]:
        """Numbers of inputs and outputs that determine a training's memory."""
        if self.network == "padded":
            return max(group.layers for group in self.groups)
        return self.features + _OWN, self.width

    @property
    def num_weights(self) -> int:
        """Number of trained parameters."""
        if self.network == "padded":
            return sum(
                len(group.states) * count_weights(*group.layers, group.width, self.depth)
                for group in self.groups
            )
        inner = count_weights(self.features + _OWN, self.width, self.width, self.depth)
        return inner + count_weights(_POOLED * self.width, self.width, self.width, self.depth)


class SizeGroup(NamedTuple):
    """Public states with equally many infostates.

    Attributes:
      states: indices of the public states.
      sizes: for both players, number of infostates of each.
      width: units of a layer.
    """

    states: tuple[int, ...]
    sizes: tuple[int, int]
    width: int

    @property
    def layers(self) -> tuple[int, int]:
        """Numbers of inputs and outputs of a perceptron."""
        pairs = self.sizes[0] * self.sizes[1]
        return _SEEN * sum(self.sizes) + pairs, pairs


_SEEN = 3
"""Inputs of a `padded` network per infostate: its range, the square root of it, its opposing mass."""


class _Padded(nnx.Module):
    """Maps inputs of a public state's infostates to payoffs of their pairs."""

    def __init__(self, shape: RangeArchitecture, rngs: nnx.Rngs):
        def perceptrons(group: SizeGroup) -> Perceptron:
            @nnx.split_rngs(splits=len(group.states))
            @nnx.vmap
            def build(rngs: nnx.Rngs) -> Perceptron:
                return Perceptron(*group.layers, group.width, shape.depth, rngs)

            return build(rngs)

        self.groups = shape.groups
        self.each = nnx.List([perceptrons(group) for group in self.groups])

    def __call__(
        self, ranges: Slots, opposing: Slots, deals: jax.Array, features: Slots, mask: Slots
    ) -> jax.Array:
        del features
        first, second = (player_mask.shape[1] for player_mask in mask)

        @nnx.vmap
        def ask(perceptron: Perceptron, x: jax.Array) -> jax.Array:
            return perceptron(x)

        payoffs: list[jax.Array] = []
        for group, perceptron in zip(self.groups, self.each, strict=True):
            states, seen = np.asarray(group.states), list[jax.Array]()
            for own, mass, size in zip(ranges, opposing, group.sizes, strict=True):
                # About 1 each, for any number of infostates.
                scaled, met = size * own[states, :, :size], size * mass[states, :, :size]
                seen += [scaled, jnp.sqrt(scaled), met]  # the square root distinguishes small ranges from 0
            dealt = group.sizes[0] * deals[states, :, : group.sizes[0], : group.sizes[1]]
            seen.append(dealt.reshape(*dealt.shape[:2], -1))
            pairs = ask(perceptron, jnp.concatenate(seen, axis=-1)).reshape(dealt.shape)
            padding = (0, first - group.sizes[0]), (0, second - group.sizes[1])
            payoffs.append(jnp.pad(pairs, ((0, 0), (0, 0), *padding)))
        order = np.argsort(np.concatenate([group.states for group in self.groups]))
        # Unique indices have a gradient without atomic additions on a GPU.
        return jnp.concatenate(payoffs).at[order].get(unique_indices=True)


_OWN = 3
"""Inputs of an infostate besides its encoding: its player, its range, its opposing mass."""

_POOLED = 5
"""Inputs of an infostate's vector: its own, and both players' means, weighted by range and unweighted."""


class _Infostates(nnx.Module):
    """Embeds every infostate alone, then with the sums over its public state.

    A pair's payoff is the inner product of their vectors.
    """

    def __init__(self, shape: RangeArchitecture, rngs: nnx.Rngs):
        seen = shape.features + _OWN
        self.inner = Perceptron(seen, shape.width, shape.width, shape.depth, rngs, from_zero=False)
        width = shape.width
        self.outer = Perceptron(_POOLED * width, width, width, shape.depth, rngs, from_zero=False)

    def __call__(
        self, ranges: Slots, opposing: Slots, deals: jax.Array, features: Slots, mask: Slots
    ) -> jax.Array:
        del deals
        hidden: list[jax.Array] = []
        pooled: list[jax.Array] = []
        for player in (0, 1):
            batch = ranges[player].shape[1]
            encoded = jnp.repeat(features[player][:, None], batch, axis=1)
            whose = jnp.full_like(ranges[player], player)
            size = jnp.sum(mask[player], axis=-1, keepdims=True)
            # Opposing masses of about 1 each, independent of the padding.
            scaled = opposing[player] * size[:, None]
            numbers = jnp.stack([whose, ranges[player], scaled], axis=-1)
            seen = self.inner(jnp.concatenate([encoded, numbers], axis=-1))
            hidden.append(seen)
            even = mask[player] / size
            pooled.append(jnp.einsum("sbn,sbnw->sbw", ranges[player], seen))
            pooled.append(jnp.einsum("sn,sbnw->sbw", even, seen))
        together = jnp.concatenate(pooled, axis=-1)
        first, second = (
            self.outer(
                jnp.concatenate([seen, jnp.repeat(together[:, :, None], seen.shape[2], axis=2)], axis=-1)
            )
            for seen in hidden
        )
        return jnp.einsum("sbiw,sbjw->sbij", first, second) / first.shape[-1]


# --- public states ------------------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicStates:
    """The S public states at a limit, padded to the largest: n_p infostates of player p.

    Attributes:
      row: for both players `[S, n_p]` index of the leaf infostate, R_p for padding.
      slot: for both players `[R_p]` position of each leaf infostate in S × n_p.
      mask: for both players `[S, n_p]` 1 at infostates, 0 at padding.
      chance: `[S, n_0, n_1]` chance's reach of each pair, normalised in each public state.
      weight: `[S]` normaliser of `chance`.
      features: for both players `[S, n_p, E]` their encodings, E = 0 if not used.
    """

    row: Pair
    slot: Pair
    mask: Pair
    chance: jax.Array
    weight: jax.Array
    features: Pair

    @staticmethod
    def of(limit: Limit, network: str) -> PublicStates:
        """Public states of a limit, in float32; call inside a `precision`."""
        count = int(limit.cut.subgame.max()) + 1
        row: list[jax.Array] = []
        slot: list[jax.Array] = []
        mask: list[jax.Array] = []
        features: list[jax.Array] = []
        sizes: list[int] = []
        for player in (0, 1):
            state = limit.roots[player].subgame
            order = np.argsort(state, kind="stable")
            first = np.searchsorted(state[order], np.arange(count))
            nth = np.empty(len(state), np.int64)
            nth[order] = np.arange(len(state)) - first[state[order]]
            sizes.append(int(nth.max()) + 1)
            row_idx = np.full((count, sizes[-1]), len(state))
            row_idx[state, nth] = np.arange(len(state))
            encodings = _encodings(limit, player) if network == "infostates" else np.zeros((len(state), 0))
            row.append(jnp.asarray(row_idx, jnp.int32))
            slot.append(jnp.asarray(state * sizes[-1] + nth, jnp.int32))
            mask.append(jnp.asarray(row_idx < len(state), jnp.float32))
            padded = np.concatenate([encodings, np.zeros((1, encodings.shape[1]))])
            features.append(jnp.asarray(padded[row_idx], jnp.float32))
        cells = limit.matrix()
        chance = np.zeros((count, sizes[0], sizes[1]))
        (first, second), state = slot, limit.roots[0].subgame[cells.row]
        nth = np.asarray(first)[cells.row] % sizes[0], np.asarray(second)[cells.column] % sizes[1]
        chance[state, nth[0], nth[1]] = cells.value
        weight = chance.sum(axis=(1, 2))
        return PublicStates(
            row=(row[0], row[1]),
            slot=(slot[0], slot[1]),
            mask=(mask[0], mask[1]),
            chance=jnp.asarray(chance / weight[:, None, None], jnp.float32),
            weight=jnp.asarray(weight, jnp.float32),
            features=(features[0], features[1]),
        )

    @property
    def sizes(self) -> tuple[int, int]:
        """n_0 and n_1."""
        return self.row[0].shape[1], self.row[1].shape[1]

    @property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """For both players, number of infostates of every public state."""
        first, second = (np.asarray(mask).sum(axis=1).astype(int).tolist() for mask in self.mask)
        return tuple(zip(first, second, strict=True))

    def to_slots(self, player: int, rows: jax.Array) -> jax.Array:
        """Scatters `[R_p, L]` into `[S, L, n_p]`, 0 for padding."""
        return jnp.swapaxes(rows.at[self.row[player]].get(mode="fill", fill_value=0), 1, 2)

    def gathered(self, player: int, slots: jax.Array) -> jax.Array:
        """Gathers `[R_p, L]` from `[S, L, n_p]`."""
        flat = jnp.swapaxes(slots, 1, 2).reshape(-1, slots.shape[1])
        return flat[self.slot[player]]

    def scaled(self, ranges: Slots) -> tuple[Slots, Slots]:
        """Normalised ranges in float32, uniform where all are 0, and their sums `[S, B, 1]`."""
        totals = [jnp.sum(rows, axis=-1, keepdims=True) for rows in ranges]
        first, second = (
            divide(rows, total, (mask / jnp.sum(mask, axis=-1, keepdims=True))[:, None].astype(rows.dtype))
            for rows, total, mask in zip(ranges, totals, self.mask, strict=True)
        )
        return (first.astype(jnp.float32), second.astype(jnp.float32)), (totals[0], totals[1])

    def opposing(self, ranges: Slots) -> Slots:
        """For both players, chance × the other's range at each infostate."""
        first = jnp.einsum("sij,sbj->sbi", self.chance, ranges[1])
        return first, jnp.einsum("sij,sbi->sbj", self.chance, ranges[0])


def _encodings(limit: Limit, player: int) -> FloatArray:
    """`[R, E]` of a player's leaf infostates: the mean of their histories' encodings."""
    encoded = find_encoding(limit.tree)(limit.tree, limit.cut.roots)
    total = np.zeros((len(limit.roots[player]), encoded.shape[1]))
    np.add.at(total, limit.row[player], encoded)
    return total / np.bincount(limit.row[player])[:, None]


def predict(
    shape: RangeArchitecture, weights: Weights, states: PublicStates, ranges: Slots
) -> tuple[Slots, Slots]:
    """Predicts zero-sum payoffs of infostates for normalised ranges, in units of the payoff range.

    Returns:
      Payoffs of both players `[S, B, n_p]`, and their opposing masses.
    """
    opposing = states.opposing(ranges)
    deals = states.chance[:, None] * ranges[0][..., None] * ranges[1][..., None, :]
    met = jnp.sum(deals, axis=(2, 3), keepdims=True)
    deals /= jnp.where(met > 0, met, 1)
    pairs = evaluate(shape, weights, ranges, opposing, deals, states.features, states.mask)
    pairs *= states.chance[:, None]
    earned = (
        jnp.einsum("sbij,sbj->sbi", pairs, ranges[1]),
        -jnp.einsum("sbij,sbi->sbj", pairs, ranges[0]),
    )
    first, second = (
        jnp.where(mass > 0, value / jnp.where(mass > 0, mass, 1), 0)
        for value, mass in zip(earned, opposing, strict=True)
    )
    return (first, second), opposing


@compiled
def range_values(
    shape: RangeArchitecture, weights: Weights, states: PublicStates, scale: jax.Array, ranges: Pair
) -> Pair:
    """The `RangeFunction` of a network."""
    slots = states.to_slots(0, ranges[0]), states.to_slots(1, ranges[1])
    scaled, totals = states.scaled(slots)
    payoffs, opposing = predict(shape, weights, states, scaled)
    unit = scale * states.weight[:, None, None]
    first, second = (
        states.gathered(p, (payoffs[p] * opposing[p] * unit).astype(ranges[p].dtype) * totals[1 - p])
        for p in (0, 1)
    )
    return first, second


# --- the value function -------------------------------------------------------------------


@dataclasses.dataclass(eq=False, kw_only=True, repr=False)
class RangeNetwork:
    """A trained network as `RangeValues`, for any number of lanes.

    Attributes:
      game: name of the game.
      cut: name of the cut of its training.
      roots: digest of that cut's root histories, by their moves.
      shape: its architecture.
      scale: payoff range, the unit of its outputs.
      weights: its parameters.
      error: root mean squared error of the predicted values of optimal continuations, in payoff units,
        measured by `train_ranges` for its own blueprints (`RangeTraining.value_rmse`); not the Δ of Theorem
        2, which bounds every alternative value. None if training is not finished.
      name: name for tables: its folder, otherwise `ranges`.
    """

    game: str
    cut: str
    roots: str
    shape: RangeArchitecture
    scale: float
    weights: Weights
    error: float | None = None
    name: str = "ranges"

    def __repr__(self) -> str:
        description = f"{self.shape.network}, width {self.shape.width}, depth {self.shape.depth}"
        return f"<RangeNetwork of {self.game} below {self.cut}: {description}>"

    @property
    def fingerprint(self) -> str:
        """Digest of its weights, by which a resumed match recognises it."""
        return weights_digest(self.weights)

    @property
    def doubt(self) -> str | None:
        """Reason not to rely on it: its training is not finished or diverged; otherwise None."""
        return find_doubt(self.name, self.error, self.scale)

    def describe(self, training: dict[str, Any]) -> dict[str, Any]:
        """Description for a `TrainingFolder`, with the settings that determine the weights."""
        shape = dataclasses.asdict(self.shape) | {"sizes": [list(size) for size in self.shape.sizes]}
        return {
            "game": self.game,
            "cut": self.cut,
            "roots": self.roots,
            "architecture": shape,
            "scale": self.scale,
            "training": training,
        }

    def __call__(self, limit: Limit) -> RangeFunction:
        """The network's function at a limit.

        Raises:
          ValueError: if the limit is of another game, the network is `padded` and the limit of another cut,
            or it needs infostates' encodings and the tree is too short for them.
        """
        self.check(limit.tree.game)
        if self.shape.network == "padded" and not self.is_for(limit.cut):
            raise ValueError(
                f"{self.name!r} is a padded network for the cut {self.cut!r} of {self.game}, not for "
                f"{limit.cut.name!r}; use that cut, or train a network for this cut or one of infostates"
            )
        states = PublicStates.of(limit, self.shape.network)
        if states.features[0].shape[-1] != self.shape.features:
            raise ValueError(
                f"{self.name!r} is a network of infostates, whose encoding in {self.game} depends on the "
                f"longest history: expected a tree as deep as in training, not {limit.tree!r}, or a padded "
                "network"
            )
        return Partial(range_values, self.shape, self.weights, states, jnp.float32(self.scale))

    def is_for(self, where: Cut) -> bool:
        """True for the cut of the training, in any tree with its roots."""
        ids = digest(where.roots)  # in networks of version 0.4; these differ in truncated trees
        return self.roots in (_digest_roots(where), ids)

    def check(self, game: Game) -> None:
        """Raises ValueError unless the network is for the game."""
        if game.name != self.game:
            raise ValueError(
                f"{self.name!r} is a range network for {self.game!r}, not for {game.name!r}; "
                "train one for this game"
            )


def _digest_roots(where: Cut) -> str:
    """Digest of the moves to a cut's roots."""
    return digest(paths_to(where.histories, where.roots)[0])


def make_network(
    tree: HistoryTree, limit: Limit, network: str, width: int, depth: int, weights: Weights | None = None
) -> RangeNetwork:
    """A network with the given weights, by default none."""
    states = PublicStates.of(limit, network)
    padded = network == "padded"
    shape = RangeArchitecture(
        network=network,
        sizes=states.counts if padded else (),
        features=states.features[0].shape[-1],
        width=width,
        depth=depth,
    )
    return RangeNetwork(
        game=tree.game.name,
        cut=limit.cut.name,
        roots=_digest_roots(limit.cut),
        shape=shape,
        scale=tree.payoff_range,
        weights={} if weights is None else weights,
    )


def load_ranges(
    folder: str | os.PathLike[str], tree: HistoryTree | StateMachine[Any], where: CutSpec | None = None
) -> RangeNetwork:
    """Loads a network from a folder of `train_ranges`, with the newest checkpoint's weights.

    Args:
      folder: the folder.
      tree: the game's histories, at least to the cut; or its rules, in a game that is not enumerated.
      where: the expected cut of a `padded` network, which requires histories; by default any.

    Raises:
      ValueError: if it is missing, cannot be read, or is for another game or cut.
      ImportError: if orbax is not installed.
    """
    if where is not None or not isinstance(tree, StateMachine):
        check_histories(tree)
    description = read_description(folder, KIND)
    with parsing(folder, KIND):
        network = _parse(description, os.fspath(folder))
    network.check(tree if isinstance(tree, StateMachine) else tree.game)
    if where is not None and network.shape.network == "padded":
        expected = cut(check_histories(tree), where)
        if not network.is_for(expected):
            raise ValueError(
                f"{KIND.label(folder)} is for the cut {network.cut!r}, not for {expected.name!r}; train one "
                "for this cut"
            )
    network.weights = restore_weights(folder, abstract_weights(network.shape), KIND)
    network.error = read_errors(folder).get("value_rmse")
    return network


@dataclasses.dataclass(frozen=True)
class FolderRanges:
    """The network in a folder as `RangeValues`, loaded on first use.

    Attributes:
      folder: the folder of a `train_ranges`; a path becomes a string.
    """

    folder: str

    def __post_init__(self) -> None:
        path: Any = self.folder
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ValueError(f"FolderRanges({path!r}): expected the folder of a train_ranges")
        object.__setattr__(self, "folder", os.fspath(path))

    @property
    def name(self) -> str:
        """Name for tables."""
        return self.folder

    @property
    def cut(self) -> str:
        """Name of the cut of its training; raises ValueError if it cannot be read."""
        return str(read_description(self.folder, KIND)["cut"])

    @property
    def error(self) -> float | None:
        """`RangeNetwork.error` of the folder; raises ValueError if it cannot be read."""
        read_description(self.folder, KIND)
        return read_errors(self.folder).get("value_rmse")

    @property
    def doubt(self) -> str | None:
        """`RangeNetwork.doubt` of the folder; raises ValueError if it cannot be read."""
        return find_doubt(self.folder, self.error, float(read_description(self.folder, KIND)["scale"]))

    @property
    def fingerprint(self) -> str:
        """Digests of the folder's current contents, by which a sweep identifies its results."""
        read_description(self.folder, KIND)
        folder = pathlib.Path(self.folder)
        files = [*content_files(folder), folder / ERRORS]
        return " ".join(file_checksum(path) if path.exists() else "none" for path in files)

    def __call__(self, limit: Limit) -> RangeFunction:
        """Loads the network and returns its function at a limit; raises ValueError as `load_ranges`."""
        return load_ranges(self.folder, limit.tree)(limit)


def find_doubt(name: str, error: float | None, scale: float, writer: str = KIND.writer) -> str | None:
    """Reason not to rely on a network, and the remedy, in a sentence; None if there is none."""
    if error is None:
        return (
            f"the network in {name!r} is not finished, so its error is unknown; continue {writer} "
            "(with the same arguments and folder), or use another network"
        )
    if not error <= DIVERGED * scale:  # also True for NaN
        return (
            f"the network in {name!r} diverged: the error of its values is {error:.3g}, with "
            f"payoffs in a range of {scale:g}; train again in another folder, with a smaller learning_rate "
            "or more steps"
        )
    return None


def read_errors(folder: str | os.PathLike[str]) -> dict[str, float]:
    """Errors measured by a finished training, NaN if undefined; empty if training is not finished.

    Raises:
      ValueError: if the file is damaged.
    """
    path = pathlib.Path(folder) / ERRORS
    errors = read_record(path, ERRORS_FORMAT) or {}
    try:
        measured = {name: float(number_of(error)) for name, error in errors.items()}
    except ValueError as error:
        raise ERRORS_FORMAT.damaged(path, error) from error
    return {name: measured[name] for name in MEASURED if name in measured}  # older versions measured more


def _parse(description: dict[str, Any], name: str) -> RangeNetwork:
    """The described network, without weights; raises any exception if the description is invalid."""
    fields: dict[str, Any] = dict(description["architecture"])
    network, sizes = fields.pop("network"), fields.pop("sizes")
    counts = {key: operator.index(count) for key, count in fields.items()}
    shape = RangeArchitecture(
        network=network,
        sizes=tuple((operator.index(first), operator.index(second)) for first, second in sizes),
        **counts,
    )
    scale = float(description["scale"])
    if network not in NETWORKS or shape.width < 1 or min(shape.depth, shape.features) < 0:
        raise ValueError(f"architecture {description['architecture']}")
    if not 0 < scale < math.inf:
        raise ValueError(f"scale {scale}")
    game, cut_name, roots = (str(description[key]) for key in ("game", "cut", "roots"))
    return RangeNetwork(game=game, cut=cut_name, roots=roots, shape=shape, scale=scale, weights={}, name=name)
