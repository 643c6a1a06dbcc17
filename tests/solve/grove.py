"""All random shapes as one game, so that one compiled program serves every one of them.

Chance picks a shape and both players see it, so the game's subgames are those of the five
shapes of `tests/reference/random_games.py`, side by side in one forest of very different
sizes, and its exploitability is the chance-weighted sum of theirs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget import BlueprintPrior, MaxMargin, NoPrior, Policy, Resolving, UniformPrior, Unsafe
from jaxgadget.games.game import CHANCE
from jaxgadget.solve import forest as on_device
from jaxgadget.solve.drive import precision
from jaxgadget.solve.gadget import Gadget
from jaxgadget.solve.prior import Ranges
from jaxgadget.solve.problem import Parts
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from tests.reference import cuts, efg, gadgets
from tests.reference.efg import Array, Label, Strategy
from tests.reference.random_games import SHAPES, History, RandomGame, Shape, Turn, random_policy

LIST = tuple(SHAPES.values())
NUM_SUBGAMES = sum(shape.subgames for shape in LIST)
PRIORS = {"none": NoPrior(), "uniform": UniformPrior(), "blueprint": BlueprintPrior()}
KINDS: dict[str, type[Any]] = {"unsafe": Unsafe, "resolving": Resolving, "max-margin": MaxMargin}


def _turn(h: History) -> Turn:
    return _shape(h).turn(h[1:]) if h else (CHANCE, tuple(range(len(LIST))))


def _seen(player: int, h: History) -> Hashable:
    return h[0] if len(h) == 1 else _shape(h).seen(player, h[1:])


def _shape(h: History) -> Shape:
    number = h[0]
    assert isinstance(number, int)
    return LIST[number]


GROVE = Shape("grove", "", NUM_SUBGAMES, _turn, _seen)


@functools.cache
def grove(seed: int) -> tuple[HistoryTree, efg.Game]:
    """The production tree and the explicit game; the seed changes payoffs and chance only."""
    tree = enumerate_game(RandomGame(GROVE, seed))
    return tree, efg.from_tree(tree)


def roots(seed: int) -> list[int]:
    """The roots of every shape's own cut."""
    tree, game = grove(seed)
    depth = [int(shape.cut.removeprefix("depth:")) for shape in LIST]
    return sorted(h for d in set(depth) for h in cuts.depth_roots(game, d) if depth[part_of(tree, h)] == d)


def part_of(tree: HistoryTree, history: int) -> int:
    """Which shape a history lies in."""
    first = tree.moves(history)[0]
    assert isinstance(first, int)
    return first


def grove_cut(seed: int) -> Cut:
    """The same as a cut of the production tree, from a predicate."""

    def shapes_cuts(tree: HistoryTree) -> Array:
        return np.array(roots(seed))

    return cut(grove(seed)[0], shapes_cuts)


@functools.cache
def forest(seed: int, padded: bool = True) -> Forest:
    return build_forest(grove(seed)[0], grove_cut(seed), padded=padded)


def subgames(seed: int, resolver: int, blueprint: Strategy) -> list[gadgets.Subgame]:
    """The explicit subgames, in the order of the forest's."""
    game = grove(seed)[1]
    return gadgets.subgames(game, cuts.components(game, roots(seed)), resolver, blueprint)


# Blueprints


def clipped_policy(tree: HistoryTree, seed: int) -> dict[Label, Array]:
    """Hardly ever anything but one action: reaches far below the clip of the blueprint prior."""
    rng = np.random.default_rng(seed)
    rows = random_policy(tree, rng, 0.0)
    for label, row in rows.items():
        weights = row * np.where(np.arange(len(row)) == rng.integers(len(row)), 1.0, 1e-3)
        rows[label] = weights / weights.sum()
    return rows


def cornered_policy(tree: HistoryTree, seed: int) -> dict[Label, Array]:
    """Many reaches are 0, and in `bids` nobody bids 0, so that only some `N(s)` of a subgame are 0."""
    rows = random_policy(tree, np.random.default_rng(seed), 0.35)
    bids = list(SHAPES).index("bids")
    for player in (0, 1):
        infosets = tree.infosets[player]
        for j in np.nonzero(infosets.depth == 0)[0].tolist():
            if part_of(tree, int(infosets.history[j])) == bids:
                weights = np.array([0.0, *range(1, len(rows[player, j]))])
                rows[player, j] = weights / weights.sum()
    return rows


@functools.cache
def blueprints(seed: int) -> list[dict[Label, Array]]:
    """Three of them: with unequal reaches, with many that are 0, and with clipped ones."""
    tree, _ = grove(seed)
    plain = random_policy(tree, np.random.default_rng(seed))
    return [plain, cornered_policy(tree, seed), clipped_policy(tree, seed)]


@functools.cache
def explicit(seed: int, resolver: int, blueprint: int) -> list[gadgets.Subgame]:
    """The explicit subgames for one of the `blueprints`."""
    return subgames(seed, resolver, blueprints(seed)[blueprint])


def to_policy(tree: HistoryTree, rows: Sequence[Strategy]) -> Policy:
    """Explicit strategies as a policy, a lane each."""
    pair = [np.stack([efg.to_sequences(tree, lane, p)[1:] for lane in rows], axis=1) for p in (0, 1)]
    return Policy(tree, (pair[0], pair[1]), tuple(f"lane {k}" for k in range(len(rows))))


def from_policy(policy: Policy, lane: int) -> dict[Label, Array]:
    """One lane of a policy as an explicit strategy."""
    one, two = (np.concatenate([[1.0], rows[:, lane]]) for rows in policy.probabilities)
    return efg.from_sequences(policy.tree, (one, two))


# The production side


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What comes before a gadget: forest, structure and ranges, in float64."""

    forest: Forest
    structure: on_device.Structure
    strategy: tuple[Parts, Parts]
    ranges: Ranges

    @property
    def player(self) -> int:
        return self.structure.player

    def games(self, asked: Sequence[Gadget]) -> on_device.GadgetGames:
        with precision(np.float64):
            return on_device.build_games(self.forest, self.structure, self.ranges, asked, np.float64)


def prepare(where: Forest, player: int, policy: Policy) -> Prepared:
    """Puts a forest and blueprints on the device."""
    with precision(np.float64):
        parts: list[Parts] = []
        reaches: list[jax.Array] = []
        for p in (0, 1):
            sequence = where.form.action_sequences(p)
            rows = np.where(sequence[:, None] >= 0, policy.probabilities[p][sequence - 1], 0)
            parts.append(Parts(jnp.zeros((0, policy.num_lanes)), jnp.asarray(rows)))
            own = policy.reach(p)[where.roots[p].sequence]
            padding = where.form.treeplex[p].num_roots - len(own)
            reaches.append(jnp.asarray(np.pad(own, ((0, padding), (0, 0)))))
        structure = on_device.build_structure(where, player, np.float64)
        ranges = on_device.blueprint_ranges(structure, (parts[0], parts[1]), (reaches[0], reaches[1]))
    return Prepared(where, structure, (parts[0], parts[1]), ranges)


@functools.cache
def prepared(seed: int, player: int) -> Prepared:
    """The grove with its `blueprints`, a lane each."""
    return prepare(forest(seed), player, to_policy(grove(seed)[0], blueprints(seed)))


def body_rows(where: Forest, player: int, rows: Any, lane: int) -> dict[Label, Array]:
    """A lane of a body's `[Q, lanes]` by infoset label."""
    treeplex = where.form.treeplex[player]
    values = np.asarray(rows)[:, lane]
    found: dict[Label, Array] = {}
    for infoset, first, count in zip(
        treeplex.infoset.tolist(),
        treeplex.first_sequence.tolist(),
        treeplex.num_actions.tolist(),
        strict=True,
    ):
        if infoset >= 0:
            begin = first - treeplex.num_roots
            found[player, infoset] = values[begin : begin + count]
    return found
