"""Generation: selects the opponent's root infostates that a search considers.

The two methods of GS2 (Ge et al. 2023, *Efficient subgame refinement for extensive-form games*, appendix)
select random infostates, or the most diverse ones by its Algorithm 2. The paper sorts histories; here an
infostate counts once, regardless of its number of histories, as all of them have its value. A selection is a
mask of the roots, and draws are lanes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import LARGEST_RETURN
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@runtime_checkable
class Generation(Protocol):
    """Selects some of the opponent's root infostates; `considered_roots` checks a user-defined generation."""

    @property
    def name(self) -> str:
        """Name in tables and labels."""
        ...

    @property
    def draws(self) -> int:
        """Number of draws."""
        ...

    def consider(self, values: FloatArray, subgame: IntArray) -> BoolArray:
        """Selects the infostates to consider.

        Args:
          values: `[J, lanes]` finite counterfactual best-response value of every infostate, in the opponent's
            utility and divided by the mass: `-V̄(J) / N(J)`.
          subgame: `[J]` index of each infostate's subgame, in any order.

        Returns:
          `[J, draws * lanes]` True for selected infostates: all lanes of the first draw, then those of the
          second, and so on.
        """
        ...


@dataclasses.dataclass(frozen=True)
class RandomGeneration:
    """Random infostates of every subgame, drawn uniformly without replacement.

    The draws of a subgame depend only on the seed, its index and its number of infostates: they are equal for
    all lanes and independent of other subgames, and a larger number of draws begins with those of a smaller
    number.

    Attributes:
      num: number of infostates to consider in a subgame; all if it has fewer.
      draws: number of draws.
      seed: seed of the draws.

    Raises:
      ValueError: if an attribute is not a whole number, `num` or `draws` is not positive, or `seed` is
        negative.
    """

    num: int
    draws: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for field, least in (("num", 1), ("draws", 1), ("seed", 0)):
            object.__setattr__(self, field, check_whole_number(field, getattr(self, field), least))

    @property
    def name(self) -> str:
        """Name as for `--generate`: `random:3:20`."""
        return f"random:{self.num}:{self.draws}{f':{self.seed}' if self.seed else ''}"

    def consider(self, values: FloatArray, subgame: IntArray) -> BoolArray:
        """Selects the infostates to consider, as a mask `[J, draws * lanes]`."""
        values, subgame = _check_infostates(values, subgame)
        drawn = np.zeros((len(subgame), self.draws), np.bool_)
        for numbers, rows in _alike(subgame):
            for column, number in enumerate(numbers.tolist()):
                stream = np.random.SeedSequence(self.seed, spawn_key=(number,))
                keys = np.random.default_rng(stream).random((self.draws, len(rows)))
                first = np.argsort(keys, axis=1)[:, : self.num]
                drawn[rows[first, column], np.arange(self.draws)[:, None]] = True
        return np.repeat(drawn, values.shape[1], axis=1)


@dataclasses.dataclass(frozen=True)
class DiverseGeneration:
    """The infostates of every subgame with the most diverse values, as `diverse` chooses them.

    Attributes:
      num: number of infostates to consider in a subgame; all if it has fewer.

    Raises:
      ValueError: if `num` is not a positive whole number.
    """

    num: int
    draws: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "num", check_whole_number("num", self.num, 1))

    @property
    def name(self) -> str:
        """Name as for `--generate`: `diverse:3`."""
        return f"diverse:{self.num}"

    def consider(self, values: FloatArray, subgame: IntArray) -> BoolArray:
        """Selects the infostates to consider, as a mask `[J, draws * lanes]`."""
        values, subgame = _check_infostates(values, subgame)
        chosen = np.zeros(values.shape, np.bool_)
        for _, rows in _alike(subgame):
            size = len(rows)
            columns = values[rows].reshape(size, -1)  # a column for each subgame and lane
            chosen[rows] = _choose_diverse(columns, self.num).reshape(*rows.shape, -1)
        return chosen


def diverse(values: npt.ArrayLike, num: int) -> IntArray:
    """Selects the most diverse values: those with the smallest sum of squared gaps, including both extremes.

    With `num` = 1 the largest value is selected, and all values if there are at most `num`. Of equal values,
    the first in `values` counts as the smallest. Of several optimal selections, the second largest selected
    value is as small as possible, then the one below it, and so on (as in the paper's Algorithm 2).

    Args:
      values: `[m]` finite numbers, at least one.
      num: number of values to select, at least 1.

    Returns:
      `[min(num, m)]` positions in `values`, ascending.

    Raises:
      ValueError: if the values are not finite numbers, or `num` is not a positive whole number.
    """
    column = np.asarray(values)
    if column.ndim != 1 or len(column) == 0:
        raise ValueError(f"values of shape {column.shape}: expected [m] numbers, at least one")
    return np.nonzero(
        _choose_diverse(_check_values(column)[:, None], check_whole_number("num", num, 1))[:, 0]
    )[0]


def check_generation(generation: object) -> None:
    """Raises ValueError unless `generation` is a `Generation`."""
    if (
        isinstance(generation, type)
        or not isinstance(generation, Generation)
        or not isinstance(cast(object, generation.name), str)
        or not callable(generation.consider)
    ):
        raise ValueError(
            f"generation={generation!r}: expected RandomGeneration(num), DiverseGeneration(num), or an "
            "object with name (a string), draws and consider"
        )
    check_whole_number("draws", generation.draws, 1)


def considered_roots(generation: Generation, values: npt.ArrayLike, subgame: npt.ArrayLike) -> BoolArray:
    """The opponent's root infostates that a generation selects, checked.

    Args:
      generation: `RandomGeneration`, `DiverseGeneration`, or a user-defined one.
      values: `[J, lanes]` value of each of the opponent's root infostates, in its own utility: `-V̄(J) /
        N(J)`.
      subgame: `[J]` index of each infostate's subgame, whole numbers >= 0 in any order.

    Returns:
      `[J, draws * lanes]` True for selected infostates: all lanes of the first draw, then those of the
      second, and so on. A user-defined generation may select no infostates of a subgame.

    Raises:
      ValueError: if values or subgames are not as described, or the generation is invalid or returns another
        shape or type.
    """
    check_generation(generation)
    numbers, of_subgame = _check_infostates(values, subgame)
    chosen: Any = np.asarray(generation.consider(numbers, of_subgame))
    expected = (len(numbers), generation.draws * numbers.shape[1])
    if chosen.dtype != np.bool_ or chosen.shape != expected:
        raise ValueError(
            f"generation {generation.name!r} returned {chosen.dtype} {chosen.shape}; expected booleans "
            f"{list(expected)}: [infostates, {generation.draws} draw(s) x {numbers.shape[1]} lanes]"
        )
    return chosen


def _check_infostates(values: npt.ArrayLike, subgame: npt.ArrayLike) -> tuple[FloatArray, IntArray]:
    """Returns values `[J, lanes]` and subgames `[J]`; raises ValueError if they are invalid."""
    rows, numbers = np.asarray(values), np.asarray(subgame)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"values of shape {rows.shape}: expected [infostates, lanes], at least one of each")
    whole = np.issubdtype(numbers.dtype, np.integer)
    if not whole or numbers.shape != rows.shape[:1] or numbers.min() < 0:
        raise ValueError(
            f"subgame={np.array2string(numbers, threshold=9)}: expected a whole number >= 0 for each of the "
            f"{len(rows)} infostates in values"
        )
    return _check_values(rows), numbers


def _check_values(values: npt.NDArray[Any]) -> FloatArray:
    """Returns values as float64; raises ValueError unless they are numbers whose squares are finite."""
    if not (np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)):
        raise ValueError(f"values of {values.dtype}: expected numbers")
    numbers = values.astype(np.float64)
    bad = numbers[~(np.abs(numbers) <= LARGEST_RETURN)]
    if len(bad):
        raise ValueError(
            f"values: {bad[0]}; expected finite numbers of at most {LARGEST_RETURN:g} in size; give "
            "infostates of mass 0, which have no value, any number, such as 0"
        )
    return numbers


def _alike(subgame: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yields subgames of equal size: their indices `[n]`, and the rows of their infostates `[size, n]`."""
    order = np.argsort(subgame, kind="stable")
    numbers, sizes = np.unique(subgame, return_counts=True)
    first = np.cumsum(sizes) - sizes
    for size in np.unique(sizes).tolist():
        alike = sizes == size
        yield numbers[alike], order[first[alike] + np.arange(size)[:, None]]


def _choose_diverse(values: FloatArray, num: int) -> BoolArray:
    """`[m, columns]` True for the values that `diverse` selects in each column."""
    size, columns = values.shape
    if num >= size:
        return np.ones(values.shape, np.bool_)
    order = np.argsort(values, axis=0, kind="stable")
    ranked = np.take_along_axis(values, order, axis=0)
    column = np.arange(columns)
    cost = (ranked - ranked[0]) ** 2  # least sum of squared gaps from the first value to each, with one gap
    before: list[IntArray] = []  # for each number of gaps from 2, the value selected before each value
    for gaps in range(2, num):
        longer, link = np.zeros_like(cost), np.zeros(cost.shape, np.int64)
        for last in range(gaps, size):
            totals = cost[gaps - 1 : last] + (ranked[gaps - 1 : last] - ranked[last]) ** 2
            best = totals.argmin(axis=0)
            longer[last], link[last] = totals[best, column], best + gaps - 1
        cost = longer
        before.append(link)
    taken = np.full(columns, size - 1)
    chosen = np.zeros(values.shape, np.bool_)
    chosen[order[taken, column], column] = True
    for link in reversed(before):
        taken = link[taken, column]
        chosen[order[taken, column], column] = True
    if num > 1:
        chosen[order[0], column] = True
    return chosen
