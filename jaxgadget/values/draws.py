"""Random ranges, as training data of range networks.

A search may query any ranges, so the draws are diverse: reach probabilities of random policies above the cut,
Dirichlet distributions within public states, and DeepStack's recursive distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from jaxgadget.policy.policy import Policy
from jaxgadget.tree.forest import Forest, check_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray

RangePair: TypeAlias = tuple[FloatArray, FloatArray]
"""Both players' ranges `[R_p, L]`."""

Draw: TypeAlias = Callable[[Forest, int, np.random.Generator], RangePair]
"""Function of a forest, a number of lanes and a generator that returns a pair of ranges."""

LARGEST = 2**31 - 1
"""Default number of lanes."""

CONCENTRATIONS = (0.05, 5.0)
"""Concentrations of the Dirichlet distributions, from nearly deterministic to nearly uniform."""


def draw_ranges(
    forest: Forest, count: int, *, draws: Sequence[Draw] | None = None, seed: int = 0
) -> RangePair:
    """Draws pairs of ranges, one per lane: equally many of each kind, sorted by kind.

    Args:
      forest: the subgames.
      count: number of lanes, L.
      draws: the kinds; by default `reached` (twice), `dirichlet` and `recursive`.
      seed: seed of the random generator.

    Raises:
      ValueError: if a number is out of range, `draws` is empty, or one of them does not return both players'
        ranges with the requested number of lanes.
    """
    check_forest(forest)
    count = check_whole_number("count", count, 1, LARGEST)
    kinds = _check_draws((reached, reached, dirichlet, recursive) if draws is None else draws)
    generator = np.random.Generator(np.random.PCG64(check_whole_number("seed", seed, 0)))
    sizes = np.diff(np.linspace(0, count, len(kinds) + 1).astype(int)).tolist()
    drawn = [
        check_ranges(forest, draw(forest, size, generator), f"ranges of draws[{kind}]", size)
        for kind, (draw, size) in enumerate(zip(kinds, sizes, strict=True))
        if size
    ]
    first, second = (np.concatenate([pair[player] for pair in drawn], axis=1) for player in (0, 1))
    return first, second


def _check_draws(draws: object) -> tuple[Draw, ...]:
    """Returns the kinds; raises ValueError if there are none or one is not a function."""
    kinds: Any = tuple(draws) if isinstance(draws, Iterable) and not isinstance(draws, str) else ()
    if not kinds or not all(callable(draw) and not isinstance(draw, type) for draw in kinds):
        raise ValueError(
            f"draws={draws!r}: expected a non-empty list of functions of a forest, a number of lanes and a "
            "generator, such as [dirichlet]"
        )
    return kinds


def check_ranges(
    forest: Forest, ranges: object, name: str = "ranges", num_lanes: int | None = None
) -> RangePair:
    """Validates both players' ranges `[R_p, L]` and converts them to float64.

    Args:
      forest: the subgames.
      ranges: the argument to validate.
      name: its name, for errors.
      num_lanes: L; by default any number >= 1.

    Raises:
      ValueError: if `forest` is not a forest, or ranges are of another cut, negative, not finite, or 0
        everywhere in a lane.
    """
    check_forest(forest)
    if not isinstance(ranges, tuple | list) or len(ranges) != 2:
        actual = f"{len(ranges)} parts" if isinstance(ranges, tuple | list) else f"a {type(ranges).__name__}"
        raise ValueError(
            f"{name}: {actual}; expected a pair, the ranges of player 0 and those of player 1, each of shape "
            "[root infostates, lanes], as returned by draw_ranges"
        )
    first, second = (_check_rows(forest, player, ranges[player], name, num_lanes) for player in (0, 1))
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"{name} have {first.shape[1]} and {second.shape[1]} lanes: expected equal numbers")
    return first, second


def _check_rows(forest: Forest, player: int, values: Any, name: str, num_lanes: int | None) -> FloatArray:
    """Validates one player's ranges."""
    name, count = f"{name}[{player}]", len(forest.roots[player])
    try:
        rows = np.asarray(values)
    except Exception:  # ragged rows, or an error of another array library
        rows = np.asarray(None)
    fits = rows.ndim == 2 and len(rows) == count and rows.shape[1] == (num_lanes or max(rows.shape[1], 1))
    if rows.dtype.kind not in "fiu" or not fits:
        lanes = "lanes, at least 1" if num_lanes is None else str(num_lanes)
        raise ValueError(
            f"{name} of shape {rows.shape} and type {rows.dtype}: expected real numbers of shape ({count}, "
            f"{lanes}), one row per root infostate of player {player} below {forest.cut!r}, in the order "
            "of forest.roots"
        )
    if not np.isfinite(rows).all() or (rows < 0).any():
        row, lane = np.argwhere(~np.isfinite(rows) | (rows < 0))[0].tolist()
        raise ValueError(
            f"{name} is {rows[row, lane]} at root {forest.root_names(player)[row]!r}, lane {lane}: "
            "expected finite numbers >= 0"
        )
    empty = np.flatnonzero(~(rows > 0).any(axis=0))
    if len(empty):
        raise ValueError(
            f"{name} is 0 everywhere in lane {int(empty[0])}: expected a positive reach of some root; "
            "remove that lane"
        )
    return rows.astype(np.float64)


def reached(forest: Forest, count: int, generator: np.random.Generator) -> RangePair:
    """Reach of the roots under `random_policies`."""
    return reach_of(forest, random_policies(forest.histories, count, generator))


def reach_of(forest: Forest, policy: Policy) -> RangePair:
    """Both players' reach of the roots under a policy."""
    first, second = (policy.reach(player)[forest.roots[player].sequence] for player in (0, 1))
    return first, second


def random_policies(tree: HistoryTree, count: int, generator: np.random.Generator) -> Policy:
    """Random policies: a Dirichlet draw at every infoset, with a random concentration per lane."""
    rows: list[FloatArray] = []
    for player in (0, 1):
        infoset = tree.infosets[player].infoset[1:]
        rows.append(dirichlet_rows(infoset, len(tree.infosets[player]), count, generator))
    return Policy(tree, (rows[0], rows[1]), tuple(f"random #{lane}" for lane in range(count)))


def dirichlet(forest: Forest, count: int, generator: np.random.Generator) -> RangePair:
    """Random ranges: a Dirichlet draw in every subgame, with a random concentration per lane."""
    first, second = (
        dirichlet_rows(roots.subgame, forest.num_subgames, count, generator) for roots in forest.roots
    )
    return first, second


def recursive(forest: Forest, count: int, generator: np.random.Generator) -> RangePair:
    """DeepStack's random ranges (Moravčík et al. 2017, supplement, "Training data"), in every subgame.

    A set of infostates with probability p is halved, one half gets a uniform share of p, and so on down to
    single infostates. Deviation: DeepStack splits by hand strength, which only poker has; here the order is
    random.
    """
    first, second = (recursive_rows(roots.subgame, count, generator) for roots in forest.roots)
    return first, second


def dirichlet_rows(group: IntArray, groups: int, count: int, generator: np.random.Generator) -> FloatArray:
    """`[n, count]` a Dirichlet draw in every group, with one concentration per lane."""
    low, high = np.log(CONCENTRATIONS)
    concentration = np.exp(generator.uniform(low, high, count))
    # With a small concentration a gamma variable may underflow; its logarithm does not.
    shape = np.broadcast_to(concentration, (len(group), count))
    logs = np.log(generator.gamma(shape + 1)) + np.log(generator.uniform(size=shape.shape)) / shape
    most = np.full((groups, count), -np.inf)
    np.maximum.at(most, group, logs)
    weight = np.exp(logs - most[group])
    total = np.zeros((groups, count))
    np.add.at(total, group, weight)
    return weight / total[group]


def recursive_rows(
    group: IntArray, count: int, generator: np.random.Generator, rank: FloatArray | None = None
) -> FloatArray:
    """`[n, count]` recursive draws in every group, in the order of `rank`, or in a random one per lane."""
    drawn = np.zeros((len(group), count))
    for group_idx in range(int(group.max(initial=-1)) + 1):
        rows = np.flatnonzero(group == group_idx)
        order = np.repeat((rows if rank is None else rows[np.argsort(rank[rows])])[:, None], count, axis=1)
        if rank is None:
            order = generator.permuted(order, axis=0)
        share = np.ones((len(rows), count))
        spans = [(0, len(rows))]
        while spans:
            begin, end = spans.pop()
            if end - begin > 1:
                middle, cut = (begin + end) // 2, generator.uniform(size=count)
                share[begin:middle] *= cut
                share[middle:end] *= 1 - cut
                spans += [(begin, middle), (middle, end)]
        np.put_along_axis(drawn, order, share, axis=0)
    return drawn
