"""All random shapes as one game, so that one compiled program covers all of them.

Chance picks a shape and both players see it, so the game's subgames are those of the five
shapes of `tests/reference/random_games.py`, side by side in one forest of very different
sizes, and its exploitability is the chance-weighted sum of theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxgadget import OptimalContinuation, Policy, ReachResolving
from jaxgadget.core.problem import Problem, with_regret_tolerance
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.games import GadgetGames, Prepared, build_games
from jaxgadget.subgames.prepare import prepare
from jaxgadget.tree.cut import Cut, cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.precision import precision
from tests.reference import cuts, efg, gadgets
from tests.reference.efg import Array, Label, Strategy
from tests.reference.random_games import SHAPES, RandomGame, random_policy, side_by_side

LIST = tuple(SHAPES.values())
NUM_SUBGAMES = sum(shape.subgames for shape in LIST)
NUM_BLUEPRINTS = 3


GROVE = side_by_side("grove", LIST)


@functools.cache
def grove(seed: int) -> tuple[HistoryTree, efg.Game]:
    """The production tree and the explicit game; the seed changes payoffs and chance only."""
    tree = enumerate_game(RandomGame(GROVE, seed))
    return tree, efg.from_tree(tree)


def roots(seed: int) -> list[int]:
    """The roots of each shape's own cut."""
    tree, game = grove(seed)
    depth = [int(shape.cut.removeprefix("depth:")) for shape in LIST]
    return sorted(h for d in set(depth) for h in cuts.depth_roots(game, d) if depth[part_of(tree, h)] == d)


def part_of(tree: HistoryTree, history: int) -> int:
    """The index of the shape that a history belongs to."""
    first = tree.moves(history)[0]
    assert isinstance(first, int)
    return first


def grove_cut(seed: int) -> Cut:
    """The same cut on the production tree, given by a predicate."""

    def shapes_cuts(tree: HistoryTree) -> Array:
        return np.array(roots(seed))

    return cut(grove(seed)[0], shapes_cuts)


@functools.cache
def forest(seed: int, padded: bool = True) -> Forest:
    return build_forest(grove(seed)[0], grove_cut(seed), padded=padded)


@functools.cache
def components(seed: int) -> list[list[int]]:
    return cuts.components(grove(seed)[1], roots(seed))


def subgames(seed: int, resolver: int, blueprint: Strategy) -> list[gadgets.Subgame]:
    """The explicit subgames, in the order of the forest."""
    return gadgets.subgames(grove(seed)[1], components(seed), resolver, blueprint)


# Blueprints


def clipped_policy(tree: HistoryTree, seed: int) -> dict[Label, Array]:
    """Nearly pure rows: reaches far below the clip of the blueprint prior."""
    rng = np.random.default_rng(seed)
    rows = random_policy(tree, rng, 0.0)
    for label, row in rows.items():
        weights = row * np.where(np.arange(len(row)) == rng.integers(len(row)), 1.0, 1e-3)
        rows[label] = weights / weights.sum()
    return rows


def cornered_policy(tree: HistoryTree, seed: int) -> dict[Label, Array]:
    """A policy with many zero reaches.

    In `bids` no player bids 0, so that only some `N(s)` of a subgame are 0; in `betting` player 0 never
    bets, so that `N` is 0 at decisions of player 1 above the cut.
    """
    rows = random_policy(tree, np.random.default_rng(seed), 0.35)
    names = list(SHAPES)
    for player in (0, 1):
        infosets = tree.infosets[player]
        for j in np.nonzero(infosets.depth == 0)[0].tolist():
            part = names[part_of(tree, int(infosets.history[j]))]
            if part == "bids":
                weights = np.array([0.0, *range(1, len(rows[player, j]))])
                rows[player, j] = weights / weights.sum()
            if part == "betting" and player == 0:
                rows[player, j] = np.array([1.0, 0.0])
    return rows


@functools.cache
def blueprints(seed: int) -> list[dict[Label, Array]]:
    """Three blueprints: with unequal reaches, with many zero reaches, and with clipped ones."""
    tree, _ = grove(seed)
    plain = random_policy(tree, np.random.default_rng(seed))
    return [plain, cornered_policy(tree, seed), clipped_policy(tree, seed)]


@functools.cache
def above(seed: int, resolver: int, blueprint: int) -> gadgets.Above:
    """The explicit cut of one of the `blueprints`."""
    return subgames(seed, resolver, blueprints(seed)[blueprint])[0].above


def explicit(seed: int, resolver: int, blueprint: int) -> list[gadgets.Subgame]:
    """The explicit subgames of one of the `blueprints`."""
    return above(seed, resolver, blueprint).subgames


def to_policy(tree: HistoryTree, rows: Sequence[Strategy]) -> Policy:
    """Explicit strategies as a policy with one lane each."""
    pair = [np.stack([efg.to_sequences(tree, lane, p)[1:] for lane in rows], axis=1) for p in (0, 1)]
    return Policy(tree, (pair[0], pair[1]), tuple(f"lane {k}" for k in range(len(rows))))


def from_policy(policy: Policy, lane: int) -> dict[Label, Array]:
    """One lane of a policy as an explicit strategy."""
    one, two = (np.concatenate([[1.0], rows[:, lane]]) for rows in policy.probabilities)
    return efg.from_sequences(policy.tree, (one, two))


# The production side


EVERYTHING: tuple[Gadget, ...] = (ReachResolving(), OptimalContinuation())
"""Together they need all data that `prepare` provides, except played values."""


def games(here: Prepared, asked: Sequence[Gadget]) -> GadgetGames:
    """The gadget games of kinds that share an entry."""
    return build_games(here, asked)


def problem_of(games: GadgetGames) -> Problem:
    """All lanes as one problem in float64 on the device."""
    with precision(np.float64):
        return with_regret_tolerance(jax.device_put(games.batch.problem()))


@functools.cache
def prepared(seed: int, player: int) -> Prepared:
    """The grove with one lane per `blueprints` entry and the data that any gadget needs."""
    return prepare(forest(seed), player, to_policy(grove(seed)[0], blueprints(seed)), EVERYTHING)


def body_rows(where: Forest, player: int, rows: Any, lane: int) -> dict[Label, Array]:
    """One lane of a body's `[Q, lanes]` array, by infoset label."""
    treeplex = where.form.treeplex[player]
    values = np.asarray(rows)[:, lane]
    found: dict[Label, Array] = {}
    for number, infoset in enumerate(treeplex.infoset.tolist()):
        if infoset >= 0:
            found[player, infoset] = values[treeplex.rows(number)]
    return found
