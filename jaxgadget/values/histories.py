"""Value functions of histories: expected payoffs if both players continue with a portfolio strategy.

Multi-valued states (Brown, Sandholm and Amos 2018, "Depth-limited solving for imperfect-information
games"): at a depth limit both players choose once among K strategies for the rest of the game, so a
history has K × K values. A value function may be exact, a network, or a user's own. Plain NumPy.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.tree.history import HistoryTree, check_histories, check_whole
from jaxgadget.tree.matching import first_child, places_in
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.digest import digest

SWEEP_BYTES = 2**30
"""Memory limit for the values of two adjacent levels; K² pairs that need more are processed in blocks."""

CHUNK_CELLS = 2**18
"""Number of histories × pairs per multiplication."""


@runtime_checkable
class ValueFunction(Protocol):
    """Maps a batch of histories to K × K tables of values.

    Any callable with `num_entries` qualifies; `OwnValues` adapts a plain function.
    """

    @property
    def num_entries(self) -> int:
        """Number of continuation strategies of each player, K."""
        ...

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """Values of histories for player 0.

        Args:
          tree: the game's histories, possibly truncated.
          histories: `[H]` histories of `tree`.

        Returns:
          `[H, K, K]` player 0's expected payoff given the history (without reach probabilities), in units of
          `tree.payoff` (that is, minus half of the game's constant), if player 0 continues with its strategy
          k (axis 1) and player 1 with its strategy l (axis 2).
        """
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class OwnValues:
    """Adapts a user-defined function to `ValueFunction`.

    Attributes:
      function: maps a tree and `[H]` histories to `[H, K, K]` values, as in `ValueFunction`.
      num_entries: number of continuation strategies, K.
    """

    function: Callable[[HistoryTree, IntArray], Any]
    num_entries: int

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(
                f"function={self.function!r}: expected a function of a tree and histories that returns "
                "[histories, K, K] values"
            )
        check_whole_number("num_entries", self.num_entries, 1)

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """Calls the function."""
        return self.function(tree, histories)


def one_each(values: ValueFunction | Sequence[ValueFunction], count: int) -> list[ValueFunction]:
    """Broadcasts value functions to `count` blueprints.

    Raises:
      ValueError: if there are neither 1 nor `count`, or they have different numbers of strategies.
    """
    if isinstance(values, str):
        raise ValueError(f"values={values!r}: expected a value function, such as ExactValues(portfolio)")
    functions = list(values) if isinstance(values, Sequence) else [values] * count
    if len(functions) != count:
        raise ValueError(
            f"values: {len(functions)} value functions for {count} blueprints; expected 1 or {count}"
        )
    for function in functions:
        if isinstance(function, type) or not callable(function) or not hasattr(function, "num_entries"):
            raise ValueError(
                f"values={function!r}: expected a value function, such as ExactValues(portfolio), or "
                "OwnValues(function, num_entries) for a plain function"
            )
        check_whole_number("values.num_entries", function.num_entries, 1)
    if len({function.num_entries for function in functions}) > 1:
        raise ValueError("values: value functions differ in num_entries; expected equal numbers")
    return functions


def leaf_values(
    value: ValueFunction, tree: HistoryTree, histories: IntArray, dtype: npt.DTypeLike = np.float64
) -> FloatArray:
    """`[H, K, K]` validated values of a value function.

    Args:
      value: the value function; called once, or not at all without histories.
      tree: the game's histories.
      histories: `[H]` histories of `tree`.
      dtype: type in which the values will be used.

    Raises:
      ValueError: if `value` is not a value function, a history is not in the tree, or the values are not real
        numbers, have another shape, are not finite or too large for `dtype`; names the first such history.

    Warns:
      UserWarning: if a value is far outside the range of the game's payoffs.
    """
    check_histories(tree)
    count = getattr(value, "num_entries", None)
    if not callable(value) or count is None:
        raise ValueError(
            f"value={value!r}: expected a value function, such as ExactValues(portfolio) or "
            "OwnValues(function, num_entries)"
        )
    size = check_whole_number("value.num_entries", count, 1)
    histories = _checked(tree, histories)
    if len(histories) == 0:
        return np.zeros((0, size, size))
    table = _as_numbers(value, value(tree, histories))
    if table.shape != (len(histories), size, size):
        raise ValueError(
            f"value={value!r} returned values of shape {table.shape}, expected "
            f"{(len(histories), size, size)} (histories, strategies of player 0, strategies of player 1)"
        )
    value_dtype = np.dtype(dtype)
    largest = float(np.finfo(value_dtype.name).max)
    bad = np.argwhere(~(np.abs(table) <= largest))
    if len(bad):
        row, first, second = bad[0].tolist()
        large = f" up to {largest:.1e}, the range of {value_dtype}" if np.isfinite(table).all() else ""
        raise ValueError(
            f"value={value!r} returned {table[row, first, second]} at {_describe(tree, int(histories[row]))} "
            f"for strategies {first} of player 0 and {second} of player 1; expected finite values{large}"
        )
    _warn_if_far(value, tree, histories, table)
    return table


def _warn_if_far(value: ValueFunction, tree: HistoryTree, histories: IntArray, table: FloatArray) -> None:
    """Warns if a value is outside of the payoff range by more than the range's width."""
    if tree.is_truncated:
        return
    low, high = tree.payoff_bounds
    far = np.argwhere(np.abs(table - (low + high) / 2) > 1.5 * (high - low) + 1e-9 * (1 + abs(low)))
    if len(far):
        row, first, second = far[0].tolist()
        warnings.warn(
            f"value={value!r} returned {table[row, first, second]:g} at "
            f"{_describe(tree, int(histories[row]))}: payoffs lie between {low:g} and {high:g}; expected "
            "player 0's payoffs in the game's unit",
            stacklevel=3,
        )


def _as_numbers(value: ValueFunction, answer: object) -> FloatArray:
    """Converts returned values to float64; raises ValueError unless they are real numbers."""
    try:
        table = np.asarray(answer)
    except (TypeError, ValueError) as error:
        raise ValueError(f"value={value!r} did not return numbers: {error}") from error
    if not np.can_cast(table.dtype, np.float64, "same_kind"):
        raise ValueError(f"value={value!r} returned {table.dtype}: expected real numbers")
    return table.astype(np.float64)


def _checked(tree: HistoryTree, histories: object) -> IntArray:
    queried = np.asarray(histories)
    if queried.size == 0:
        queried = queried.astype(np.int64)
    whole = queried.ndim == 1 and np.issubdtype(queried.dtype, np.integer)
    if not whole or (queried.size and not 0 <= queried.min() <= queried.max() < tree.num_histories):
        raise ValueError(
            f"histories={histories!r}: expected a one-dimensional array of histories of {tree.game.name}, "
            f"integers from 0 to {tree.num_histories - 1}"
        )
    return queried


def _describe(tree: HistoryTree, history: int) -> str:
    """Describes a history by its moves and the infostates of the acting players."""
    moves = tree.moves(history)
    acting = [p for p in (0, 1) if tree.actor[history] & ACTOR_BIT[p] and tree.actor[history] != CHANCE]
    names = [f"player {p} at {tree.game.infostate_string(p, moves)!r}" for p in acting]
    return f"history {history} of {tree.game.name}, moves {moves}" + "".join(f", {name}" for name in names)


# --- exactly ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class ExactValues:
    """The exact value function of a portfolio: one sweep over the histories below the queried ones.

    `V[h, k, l] = Σ_c chance(c | h) · π_0,k(c | h) · π_1,l(c | h) · V[c, k, l]` over the children c of h, the
    payoff at terminals. All K² pairs are processed together if `SWEEP_BYTES` allow, otherwise in blocks.
    Values below a chance outcome of probability 0 are 0, because the tree only stores the product of
    probabilities.

    Attributes:
      portfolio: both players' K strategies: player p's strategy k is lane k of `probabilities[p]`. Its tree
        holds the whole game; queried histories may belong to a truncated tree.
    """

    portfolio: Policy
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "portfolio", as_policy(self.portfolio, name="portfolio"))
        check_whole(self.portfolio.tree)

    @property
    def num_entries(self) -> int:
        """Number of strategies, K: the portfolio's lanes."""
        return self.portfolio.num_lanes

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """Values of histories for player 0, `[H, K, K]`.

        Raises:
          ValueError: if the tree is not of the portfolio's game.
        """
        check_histories(tree)
        histories = _checked(tree, histories)
        whole = self.portfolio.histories
        whole_histories = histories if tree is whole else places_in(whole, tree, "portfolio")[histories]
        queried, inverse = np.unique(whole_histories, return_inverse=True)
        levels = _levels(whole, queried.astype(whole.parent.dtype))
        size = self.num_entries
        values = np.empty((len(queried), size, size))
        tables = [np.concatenate([rows, np.ones((1, size))]) for rows in self.portfolio.probabilities]
        for first, second in _blocks(levels, size):
            pair = (tables[0][:, first], tables[1][:, second])
            values[:, first, second] = _sweep(whole, levels, pair, len(queried))
        return values if np.array_equal(queried, whole_histories) else values[inverse]


@dataclasses.dataclass(frozen=True, eq=False)
class _AskedLevel:
    """The histories of a level that are queried or below queried ones.

    Attributes:
      rows: `[m]` the histories, ascending.
      inner: `[i]` indices of the non-terminal rows.
      start: `[i + 1]` position in `children` of the first child of each of these.
      children: `[c]` the children, in order.
      below: `[c]` their positions in the next level's rows, None if they are all of them.
      queried: `[a]` indices of the queried rows.
      result: `[a]` their positions among all queried histories.
    """

    rows: IntArray
    inner: IntArray
    start: IntArray
    children: IntArray
    below: IntArray | None
    queried: IntArray
    result: slice


def _levels(tree: HistoryTree, queried: IntArray) -> list[_AskedLevel]:
    """Levels of the histories at or below the queried ones (ascending), top-down."""
    levels: list[_AskedLevel] = []
    bounds = np.searchsorted(queried, tree.level_offset).tolist()
    children = queried[:0]
    rows = queried[: bounds[1]]
    for level_idx, (begin, end) in enumerate(itertools.pairwise(bounds)):
        inner = np.nonzero(tree.actor[rows] != TERMINAL)[0]
        start, children = _children(tree, rows[inner])
        fresh = queried[end : bounds[min(level_idx + 2, len(bounds) - 1)]]
        following = np.union1d(children, fresh) if len(fresh) else children
        if len(rows):
            new = len(following) > len(children)
            levels.append(
                _AskedLevel(
                    rows=rows,
                    inner=inner,
                    start=start,
                    children=children,
                    below=np.searchsorted(following, children) if new else None,
                    queried=np.searchsorted(rows, queried[begin:end]),
                    result=slice(begin, end),
                )
            )
        rows = following
    return levels


def _children(tree: HistoryTree, parents: IntArray) -> tuple[IntArray, IntArray]:
    """`[i + 1]` offsets of the children of every parent (ascending), and the children."""
    first = first_child(tree, parents)
    count = np.searchsorted(tree.parent, parents, side="right") - first
    start = np.append(0, np.cumsum(count))
    if not len(parents):
        return start, parents
    if first[-1] + count[-1] - first[0] == start[-1]:
        return start, np.arange(first[0], first[0] + start[-1], dtype=parents.dtype)
    return start, np.repeat((first - start[:-1]).astype(parents.dtype), count) + np.arange(
        start[-1], dtype=parents.dtype
    )


def _blocks(levels: list[_AskedLevel], size: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of the K × K pairs such that the values of two adjacent levels fit in `SWEEP_BYTES`."""
    rows_per_level = [len(level.rows) if len(level.inner) else 0 for level in levels]
    widest = max((a + b for a, b in itertools.pairwise([*rows_per_level, 0])), default=1)
    pairs = max(1, SWEEP_BYTES // (8 * max(widest, 1)))
    wide = min(size, pairs)
    high = min(size, max(1, pairs // size))
    for first in range(0, size, high):
        for second in range(0, size, wide):
            yield slice(first, first + high), slice(second, second + wide)


def _sweep(
    tree: HistoryTree, levels: list[_AskedLevel], tables: tuple[FloatArray, FloatArray], count: int
) -> FloatArray:
    """`[count, k, l]` values of the queried histories for a block of pairs.

    Args:
      tree: the whole game's histories.
      levels: the relevant histories, top-down.
      tables: both players' probabilities, `[Q + 1, k]` and `[Q + 1, l]`; the last row is 1.
      count: number of queried histories.
    """
    shape = (tables[0].shape[1], tables[1].shape[1])
    values = np.empty((count, *shape))
    below = np.empty((0, *shape))
    for level in reversed(levels):
        payoff = tree.payoff[level.rows, None, None]
        level_values: FloatArray = np.broadcast_to(payoff, (len(payoff), *shape))
        if len(level.inner):
            level_values = level_values.copy()
            for begin, end in _chunks(level.start, max(1, CHUNK_CELLS // (shape[0] * shape[1]))):
                level_values[level.inner[begin:end]] = _expected(tree, level, below, tables, begin, end)
        values[level.result] = level_values[level.queried]
        below = level_values
    return values


def _chunks(start: IntArray, max_children: int) -> Iterator[tuple[int, int]]:
    """Ranges of parents with about `max_children` children."""
    cuts = np.searchsorted(start, np.arange(0, start[-1], max_children))
    yield from itertools.pairwise(np.unique(np.append(cuts, len(start) - 1)).tolist())


def _expected(
    tree: HistoryTree,
    level: _AskedLevel,
    below: FloatArray,
    tables: tuple[FloatArray, FloatArray],
    begin: int,
    end: int,
) -> FloatArray:
    """`[end - begin, k, l]` values of a level's non-terminal histories from those of their children."""
    bounds = level.start[begin : end + 1]
    kids = slice(int(bounds[0]), int(bounds[-1]))
    children = level.children[kids]
    values = below[kids] if level.below is None else below[level.below[kids]]
    for player, axis in ((0, 2), (1, 1)):
        if (tree.action[player, children] >= 0).any():
            values = values * np.expand_dims(_probability(tree, player, tables[player], children), axis)
    num_children, num_parents = len(children), end - begin
    total = scipy.sparse.csr_array(
        (conditional_chance(tree, children), np.arange(num_children), bounds - bounds[0]),
        shape=(num_parents, num_children),
    )
    return (total @ values.reshape(num_children, -1)).reshape(num_parents, *values.shape[1:])


def _probability(tree: HistoryTree, player: int, table: FloatArray, children: IntArray) -> FloatArray:
    """`[c, strategies]` probability of the player's action that leads to each child, 1 if it does not act."""
    moved = tree.action[player, children] >= 0
    return table[np.where(moved, tree.sequence[player, children] - 1, len(table) - 1)]


def conditional_chance(tree: HistoryTree, children: IntArray) -> FloatArray:
    """`[c]` probability of the chance outcome that leads to each child, 1 if chance does not act."""
    above = tree.chance[tree.parent[children]]
    conditional = np.divide(tree.chance[children], above, out=np.zeros(len(children)), where=above > 0)
    return np.where(tree.action[2, children] >= 0, conditional, 1.0)


def blueprint_digest(portfolio: Policy) -> str:
    """Digest of both players' strategy 0, equal for equal probabilities."""
    return digest(*(np.ascontiguousarray(rows[:, 0], np.float64) for rows in portfolio.probabilities))
