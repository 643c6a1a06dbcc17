"""Value functions: what a history is worth if both players go on with an entry of their portfolios.

Multi-valued states (Brown, Sandholm and Amos 2018, "Depth-limited solving for imperfect-information
games"): at a depth limit both players choose once among K strategies for the rest of the game, so a
history has K × K values. A value function may be exact, a network, or a user's own. Plain NumPy.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.policy.policy import Policy, as_policy
from jaxgadget.tree.history import HistoryTree, check_tree, check_whole
from jaxgadget.tree.truncated import first_child, places_in
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.digest import digest

SWEEP_BYTES = 2**30
"""What the values of two neighbouring levels may take; where K² pairs need more, they go in blocks."""

CHUNK_CELLS = 2**18
"""Histories × pairs that are multiplied at a time."""


class ValueFunction(Protocol):
    """A batch of histories in, a K × K table of values each out.

    Anything callable with `num_entries` is one; `OwnValues` makes one of a plain function.
    """

    @property
    def num_entries(self) -> int:
        """K, how many continuation strategies each player has."""
        ...

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """What histories are worth to player 0.

        Args:
          tree: the game's histories, possibly to a depth limit only.
          histories: `[H]` histories of it.

        Returns:
          `[H, K, K]` player 0's expected payoff from a history on, in units of `tree.payoff` (that is,
          less half of the game's constant), if player 0 goes on with its entry k (axis 1) and player 1
          with its entry l (axis 2). The history is given: no reach is counted.
        """
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class OwnValues:
    """A user's own function as a `ValueFunction`.

    Attributes:
      function: called with a tree and `[H]` histories, gives `[H, K, K]`, as `ValueFunction` says.
      num_entries: K.
    """

    function: Callable[[HistoryTree, IntArray], Any]
    num_entries: int

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ValueError(
                f"function={self.function!r}: expected a function of a tree and histories that gives "
                "[histories, K, K] values"
            )
        check_whole_number("num_entries", self.num_entries, 1)

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """What the function gives."""
        return self.function(tree, histories)


def one_each(values: ValueFunction | Sequence[ValueFunction], count: int) -> list[ValueFunction]:
    """A value function for each of `count` blueprints.

    Raises:
      ValueError: if there are neither one nor as many, or they have different numbers of entries.
    """
    if isinstance(values, str):
        raise ValueError(f"values={values!r}: expected a value function, such as ExactValues(portfolio)")
    functions = list(values) if isinstance(values, Sequence) else [values] * count
    if len(functions) != count:
        raise ValueError(
            f"values: {len(functions)} value functions for {count} blueprints; expected one, or one for each"
        )
    for function in functions:
        if isinstance(function, type) or not callable(function) or not hasattr(function, "num_entries"):
            raise ValueError(
                f"values={function!r}: expected a value function, such as ExactValues(portfolio), or "
                "OwnValues(function, num_entries) for a plain function"
            )
        check_whole_number("values.num_entries", function.num_entries, 1)
    if len({function.num_entries for function in functions}) > 1:
        raise ValueError("values: value functions of different numbers of entries; expected one K for all")
    return functions


def leaf_values(
    value: ValueFunction, tree: HistoryTree, histories: IntArray, dtype: npt.DTypeLike = np.float64
) -> FloatArray:
    """`[H, K, K]` a value function's values, checked.

    Args:
      value: called once, not at all if there are no histories.
      tree: the game's histories.
      histories: `[H]` histories of it.
      dtype: what will be computed in with these values.

    Raises:
      ValueError: if `value` is no value function, a history is not one of the tree, or the values are no
        real numbers, of another shape, not finite or too large for `dtype`; the first such history is named.

    Warns:
      UserWarning: if a value is far from all payoffs of the game.
    """
    check_tree(tree)
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
            f"value={value!r} gave values of shape {table.shape}, expected {(len(histories), size, size)} "
            "(histories, entries of player 0, entries of player 1)"
        )
    number = np.dtype(dtype)
    most = float(np.finfo(number.name).max)
    bad = np.argwhere(~(np.abs(table) <= most))
    if len(bad):
        row, first, second = bad[0].tolist()
        large = f" up to {most:.1e}, as {number} holds" if np.isfinite(table).all() else ""
        raise ValueError(
            f"value={value!r} gave {table[row, first, second]} at {_describe(tree, int(histories[row]))} "
            f"for entries {first} of player 0 and {second} of player 1; expected finite values{large}"
        )
    _warn_if_far(value, tree, histories, table)
    return table


def _warn_if_far(value: ValueFunction, tree: HistoryTree, histories: IntArray, table: FloatArray) -> None:
    """UserWarning if a value lies further outside of what the game can pay than that is wide."""
    if tree.is_truncated:
        return
    low, high = tree.payoff_bounds
    far = np.argwhere(np.abs(table - (low + high) / 2) > 1.5 * (high - low) + 1e-9 * (1 + abs(low)))
    if len(far):
        row, first, second = far[0].tolist()
        warnings.warn(
            f"value={value!r} gave {table[row, first, second]:g} at {_describe(tree, int(histories[row]))}: "
            f"payoffs lie between {low:g} and {high:g}; expected player 0's payoffs in the game's unit",
            stacklevel=3,
        )


def _as_numbers(value: ValueFunction, answer: object) -> FloatArray:
    """What a value function gave, in float64; ValueError unless it is real numbers."""
    try:
        table = np.asarray(answer)
    except (TypeError, ValueError) as error:
        raise ValueError(f"value={value!r} gave no numbers: {error}") from error
    if not np.can_cast(table.dtype, np.float64, "same_kind"):
        raise ValueError(f"value={value!r} gave no numbers: expected real ones, not {table.dtype}")
    return table.astype(np.float64)


def _checked(tree: HistoryTree, histories: object) -> IntArray:
    asked = np.asarray(histories)
    if asked.size == 0:
        asked = asked.astype(np.int64)
    whole = asked.ndim == 1 and np.issubdtype(asked.dtype, np.integer)
    if not whole or (asked.size and not 0 <= asked.min() <= asked.max() < tree.num_histories):
        raise ValueError(
            f"histories={histories!r}: expected a one-dimensional array of histories of {tree.game.name}, "
            f"whole numbers from 0 to {tree.num_histories - 1}"
        )
    return asked


def _describe(tree: HistoryTree, history: int) -> str:
    """A history by its moves, and the infostates of the players who act there."""
    moves = tree.moves(history)
    acting = [p for p in (0, 1) if tree.actor[history] & ACTOR_BIT[p] and tree.actor[history] != CHANCE]
    names = [f"player {p} at {tree.game.infostate_string(p, moves)!r}" for p in acting]
    return f"history {history} of {tree.game.name}, moves {moves}" + "".join(f", {name}" for name in names)


# --- exactly ------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class ExactValues:
    """The exact value function of a portfolio: one sweep over the histories below the asked ones.

    `V[h, k, l] = Σ_c chance(c | h) · π_0,k(c | h) · π_1,l(c | h) · V[c, k, l]` over the children c of h, the
    payoff at terminals. All K² pairs go together as far as `SWEEP_BYTES` allow, else in blocks; nothing that
    does not lie below an asked history is looked at. Below a chance outcome of probability 0 later
    chance is unknown to the tree, so values there are 0.

    Attributes:
      portfolio: both players' K entries: player p's entry k is lane k of `probabilities[p]`. Its tree
        holds the whole game; the histories that are asked for may be of a tree to a depth limit.
    """

    portfolio: Policy
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "portfolio", as_policy(self.portfolio, name="portfolio"))
        check_whole(self.portfolio.tree)

    @property
    def num_entries(self) -> int:
        """K, the portfolio's lanes."""
        return self.portfolio.num_lanes

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """`[H, K, K]`, as `ValueFunction` says.

        Raises:
          ValueError: if the tree is not of the portfolio's game.
        """
        check_tree(tree)
        histories = _checked(tree, histories)
        whole = self.portfolio.tree
        whole_histories = histories if tree is whole else places_in(whole, tree, "portfolio")[histories]
        asked, inverse = np.unique(whole_histories, return_inverse=True)
        levels = _levels(whole, asked.astype(whole.parent.dtype))
        size = self.num_entries
        values = np.empty((len(asked), size, size))
        tables = [np.concatenate([rows, np.ones((1, size))]) for rows in self.portfolio.probabilities]
        for first, second in _blocks(levels, size):
            pair = (tables[0][:, first], tables[1][:, second])
            values[:, first, second] = _sweep(whole, levels, pair, len(asked))
        return values if np.array_equal(asked, whole_histories) else values[inverse]


@dataclasses.dataclass(frozen=True, eq=False)
class _AskedLevel:
    """The histories of a level that count: asked ones and those below asked ones.

    Attributes:
      rows: `[m]` the histories, ascending.
      inner: `[i]` which rows are not terminal.
      start: `[i + 1]` where the children of each of those start among `children`.
      children: `[c]` the children, in order.
      below: `[c]` where these stand among the next level's rows, None if they are all of them.
      asked: `[a]` which rows are asked for.
      result: `[a]` where these stand among all that is asked.
    """

    rows: IntArray
    inner: IntArray
    start: IntArray
    children: IntArray
    below: IntArray | None
    asked: IntArray
    result: slice


def _levels(tree: HistoryTree, asked: IntArray) -> list[_AskedLevel]:
    """The levels of all that lies at or below the asked histories (ascending), the highest first."""
    levels: list[_AskedLevel] = []
    bounds = np.searchsorted(asked, tree.level_offset).tolist()
    children = asked[:0]
    rows = asked[: bounds[1]]
    for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
        inner = np.nonzero(tree.actor[rows] != TERMINAL)[0]
        start, children = _children(tree, rows[inner])
        fresh = asked[end : bounds[min(number + 2, len(bounds) - 1)]]
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
                    asked=np.searchsorted(rows, asked[begin:end]),
                    result=slice(begin, end),
                )
            )
        rows = following
    return levels


def _children(tree: HistoryTree, parents: IntArray) -> tuple[IntArray, IntArray]:
    """`[i + 1]` where the children of every parent (ascending) start, and the children themselves."""
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
    """Blocks of the K × K pairs whose values of two neighbouring levels keep within `SWEEP_BYTES`."""
    kept = [len(level.rows) if len(level.inner) else 0 for level in levels]
    widest = max((a + b for a, b in itertools.pairwise([*kept, 0])), default=1)
    pairs = max(1, SWEEP_BYTES // (8 * max(widest, 1)))
    wide = min(size, pairs)
    high = min(size, max(1, pairs // size))
    for first in range(0, size, high):
        for second in range(0, size, wide):
            yield slice(first, first + high), slice(second, second + wide)


def _sweep(
    tree: HistoryTree, levels: list[_AskedLevel], tables: tuple[FloatArray, FloatArray], count: int
) -> FloatArray:
    """`[count, k, l]` the values of the asked histories for a block of pairs.

    Args:
      tree: the whole game's histories.
      levels: what counts, the highest first.
      tables: both players' probabilities, `[Q + 1, k]` and `[Q + 1, l]`; the last row is 1.
      count: how many histories are asked for.
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
        values[level.result] = level_values[level.asked]
        below = level_values
    return values


def _chunks(start: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Runs of parents with about so many children."""
    cuts = np.searchsorted(start, np.arange(0, start[-1], most))
    yield from itertools.pairwise(np.unique(np.append(cuts, len(start) - 1)).tolist())


def _expected(
    tree: HistoryTree,
    level: _AskedLevel,
    below: FloatArray,
    tables: tuple[FloatArray, FloatArray],
    begin: int,
    end: int,
) -> FloatArray:
    """`[end - begin, k, l]` the values of a level's inner histories from those of their children."""
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
    """`[c, entries]` how likely the player does what leads to a child, 1 where it does nothing."""
    moved = tree.action[player, children] >= 0
    return table[np.where(moved, tree.sequence[player, children] - 1, len(table) - 1)]


def conditional_chance(tree: HistoryTree, children: IntArray) -> FloatArray:
    """`[c]` how likely chance does what leads to a child, 1 where it does nothing."""
    above = tree.chance[tree.parent[children]]
    conditional = np.divide(tree.chance[children], above, out=np.zeros(len(children)), where=above > 0)
    return np.where(tree.action[2, children] >= 0, conditional, 1.0)


def blueprint_digest(portfolio: Policy) -> str:
    """Stands for both players' entry 0, or for a blueprint of one lane: equal if all probabilities are."""
    return digest(*(np.ascontiguousarray(rows[:, 0], np.float64) for rows in portfolio.probabilities))
