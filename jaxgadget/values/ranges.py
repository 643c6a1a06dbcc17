"""Range-dependent value functions at a depth limit: user-defined, of histories, and re-solved subgames."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial, all_leaves

from jaxgadget.core.host import Entries, merge_entries
from jaxgadget.core.payoff import MatrixPayoff, build_payoff
from jaxgadget.core.regret import Rule, find_rule
from jaxgadget.core.rows import build_sums
from jaxgadget.core.solver import check_iterations
from jaxgadget.games.game import dense_ids
from jaxgadget.tree.cover import Roots, cover_of, find_roots
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.trunk import Trunk
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.values.decomposition import solved_subgames
from jaxgadget.values.histories import ValueFunction, leaf_values, one_each
from jaxgadget.values.ranged_payoff import Pair, RangedPayoff, RangeFunction


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """A depth limit as seen by value functions: H leaf histories, R_p leaf infostates of player p.

    Attributes:
      cut: `cut.roots` are the leaf histories `[H]`, `cut.subgame` `[H]` their public states (common-knowledge
        components).
      roots: both players' leaf infostates `[R_p]`: ids, public states, and the tree's sequences above.
      row: for both players `[H]`, index of the leaf infostate of each leaf history.
      dtype: type of ranges and values.
    """

    cut: Cut
    roots: tuple[Roots, Roots]
    row: tuple[IntArray, IntArray]
    dtype: np.dtype[Any]

    @staticmethod
    def of(where: Cut, dtype: np.dtype[Any]) -> Limit:
        """The limit whose leaf histories are the roots of a cut."""
        (first, row), (second, column) = (find_roots(cover_of(where), player) for player in (0, 1))
        return Limit(cut=where, roots=(first, second), row=(row, column), dtype=dtype)

    @property
    def tree(self) -> HistoryTree:
        """The game's history tree, possibly truncated at the limit."""
        return self.cut.histories

    def infostate(self, player: int, row: int) -> str:
        """The game's string of a leaf infostate."""
        history = int(self.cut.roots[np.argmax(self.row[player] == row)])
        return self.tree.game.infostate_string(player, self.tree.moves(history))

    def matrix(self, weight: FloatArray | None = None) -> Entries:
        """Matrix `[R_0, R_1]` over leaf infostates: sum of chance's reach × weight over common histories.

        Args:
          weight: `[H]` or `[H, L]`; by default 1, which gives chance's reach.

        Returns:
          A sparse matrix: `row`, `column` and `value` `[m]` (or `[m, L]`) of its entries, and its `shape`.
        """
        chance = self.tree.chance[self.cut.roots]
        weighted = chance if weight is None else (chance * weight.T).T
        shape = (len(self.roots[0]), len(self.roots[1]))
        pair, count = dense_ids(self.row[0] * shape[1] + self.row[1])
        row, column = np.empty(count, np.int64), np.empty(count, np.int64)
        row[pair], column[pair] = self.row
        value = np.zeros((count, *weighted.shape[1:]))
        np.add.at(value, pair, weighted)
        return Entries(row=row, column=column, value=value, shape=shape)


class RangeValues(Protocol):
    """A range-dependent value function: called once with a limit, it returns a `RangeFunction`.

    The returned function is traced by JAX inside CFR's loop, so it must use `jax.numpy`. It maps the pair of
    ranges `(r_0 [R_0, L], r_1 [R_1, L])` to the pair of values `(v_0 [R_0, L], v_1 [R_1, L])`, with rows in
    the order of `limit.roots` and L independent lanes, of any floating type.

    - `r_p[s]` is player p's own reach of its infostate s: the product of the probabilities of its own
      actions. A range is not normalised and may be 0 everywhere in a public state.
    - `v_p[s]` is the counterfactual value of s in p's own utility: the sum over the histories h in s of
      chance's reach of h × the other player's range there × p's expected payoff after h, in units of the
      payoff (minus half of the game's constant). p's own reach is not a factor. In a zero-sum game `Σ r_0·v_0
      + Σ r_1·v_1 = 0`; this is not checked.

    The arrays of a function that is a pytree, such as `jax.tree_util.Partial(apply, weights)`, are arguments
    of the compiled loop, which functions of equal structure share. The arrays of a closure are constants, so
    every closure is compiled separately.

    Optional attributes: `num_lanes` = L, if the object supports only this number of lanes; `linear` = True,
    if each player's values are a fixed matrix times the other's range, so that the depth-limited game is a
    matrix game with a certified gap (this is not checked: otherwise the gap is meaningless); `reads_below` =
    True, if the function needs the histories below the limit, which searches from public states then
    enumerate, too; `doubt`, a sentence with a reason not to rely on the values, or None.
    """

    def __call__(self, limit: Limit) -> RangeFunction:
        """Returns the function for a limit; called with JAX's default type set to `limit.dtype`."""
        ...


def check_lanes(values: object, num_lanes: int) -> None:
    """Raises ValueError unless range values support `num_lanes` blueprints."""
    count = getattr(values, "num_lanes", None)
    if count is not None and count != num_lanes:
        raise ValueError(
            f"values={values!r} have num_lanes={count!r} for {num_lanes} blueprint(s): expected one lane for "
            "each blueprint, or no num_lanes"
        )


def warn_of_doubts(values: Sequence[object]) -> None:
    """Warns of each distinct `doubt` of range values once.

    Warns:
      UserWarning: if an object has a `doubt` (`RangeValues`).
    """
    for doubt in dict.fromkeys(getattr(function, "doubt", None) for function in values):
        if doubt is not None:
            warnings.warn(doubt, stacklevel=4)


def check_unary(name: str, function: Callable[..., Any], argument: str) -> None:
    """Raises ValueError if a function with a signature cannot be called with one argument."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
    except TypeError:
        raise ValueError(f"{name} has arguments {signature}: expected one, {argument}") from None


def function_at(values: RangeValues, limit: Limit, num_lanes: int) -> RangeFunction:
    """Validated function of range values at a limit, as a pytree; call inside `precision(limit.dtype)`.

    Raises:
      ValueError: if it is not a function or does not return both players' values.
    """
    returned = values(limit)
    if not callable(returned):
        raise ValueError(
            f"values={values!r} returned {returned!r}: expected a function of both players' ranges"
        )
    check_unary(f"the function of values={values!r}", returned, "the pair of ranges")
    function = Partial(returned) if all_leaves([returned]) else returned
    first, second = (jax.ShapeDtypeStruct((len(roots), num_lanes), limit.dtype) for roots in limit.roots)
    arrays = jax.eval_shape(lambda ranges: _as_arrays(values, function(ranges)), (first, second))
    if [array.shape for array in arrays] != [first.shape, second.shape]:
        raise ValueError(
            f"values={values!r} returned shapes {[array.shape for array in arrays]}: expected {first.shape} "
            f"and {second.shape}, [leaf infostates, lanes] of both players"
        )
    for array in arrays:
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"values={values!r} returned {array.dtype}: expected floating-point numbers")
    return function


def _as_arrays(values: RangeValues, answer: object) -> list[jax.Array]:
    """The returned array or arrays; raises ValueError for anything else."""
    arrays: list[Any] = list(answer) if isinstance(answer, tuple | list) else [answer]
    for array in arrays:
        if not isinstance(array, jax.Array | np.ndarray):
            raise ValueError(
                f"values={values!r} returned a function that returns {array!r}: expected the pair of both "
                "players' values, two arrays; does it end with `return first, second`?"
            )
    return arrays


def ranged_payoff(trunk: Trunk, limit: Limit, function: RangeFunction, weighting: Rule) -> RangedPayoff:
    """The payoff of a trunk on the device; call inside `precision(limit.dtype)`.

    Args:
      trunk: the game above the limit.
      limit: the depth limit.
      function: the function returned by `function_at`.
      weighting: the rule of the solve.
    """
    outside, chance = trunk.form.payoff, limit.matrix()
    assert isinstance(outside, Entries)
    most = float(np.abs(limit.tree.payoff).max())
    bound = merge_entries(
        np.concatenate([outside.row, trunk.link[0][chance.row]]),
        np.concatenate([outside.column, trunk.link[1][chance.column]]),
        np.concatenate([np.abs(outside.value), most * chance.value]),
        outside.shape,
    )
    first, second = (
        build_sums(link, np.ones(len(link), np.bool_), treeplex.num_sequences, limit.dtype)
        for link, treeplex in zip(trunk.link, trunk.form.treeplex, strict=True)
    )
    return RangedPayoff(
        weighting=jax.tree.map(jnp.asarray, weighting),
        outside=build_payoff(outside, limit.dtype),
        function=function,
        sequence=(
            jax.device_put(trunk.link[0].astype(np.int32)),
            jax.device_put(trunk.link[1].astype(np.int32)),
        ),
        linked=(first, second),
        bound=build_payoff(bound, limit.dtype),
    )


# --- values -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class FixedValues:
    """Values of histories that do not depend on the ranges: K = 1 of multi-valued states.

    Attributes:
      values: value functions with a single strategy, such as `ExactValues(blueprint)`, one per lane.
    """

    values: ValueFunction | Sequence[ValueFunction]
    linear: ClassVar[bool] = True

    @property
    def num_lanes(self) -> int:
        """Number of lanes, L."""
        return len(self.values) if isinstance(self.values, Sequence) else 1

    def __call__(self, limit: Limit) -> RangeFunction:
        """The linear function of these values at a limit.

        Raises:
          ValueError: for value functions with several strategies, of another game, or with invalid values.
        """
        functions = one_each(self.values, self.num_lanes)
        if functions[0].num_entries != 1:
            raise ValueError(
                f"values={functions[0]!r} has num_entries={functions[0].num_entries}: expected 1, as in "
                "ExactValues(blueprint), since there are no choices at the limit"
            )
        leaf_value = [leaf_values(function, limit.tree, limit.cut.roots)[:, 0, 0] for function in functions]
        weight = leaf_value[0] if len(leaf_value) == 1 else np.stack(leaf_value, axis=1)
        return Partial(_multiplied, build_payoff(limit.matrix(weight), limit.dtype))


def _multiplied(matrix: MatrixPayoff, ranges: Pair) -> Pair:
    return matrix.gradient(0, ranges, None)[0], matrix.gradient(1, ranges, None)[0]


@dataclasses.dataclass(frozen=True)
class ResolvedValues:
    """Equilibrium values below the limit, re-solved in every update: CFR-D (`jaxgadget.cfr_d`).

    Attributes:
      iterations: CFR iterations below the limit per update; or one number for each lane.
      algorithm: name of the regret rule, or a `Rule`.
    """

    iterations: int | tuple[int, ...]
    algorithm: str | Rule = "cfr+"
    reads_below: ClassVar[bool] = True

    @property
    def num_lanes(self) -> int | None:
        """Number of lanes, L; None for any number."""
        return len(self.iterations) if isinstance(self.iterations, tuple) else None

    def __call__(self, limit: Limit) -> RangeFunction:
        """The function that re-solves the subgames below a limit.

        Raises:
          ValueError: for a truncated tree, an unknown algorithm, or a number out of range.
        """
        counts = self.iterations if isinstance(self.iterations, tuple) else (self.iterations,)
        counts, rule = [check_iterations(count) for count in counts], find_rule(self.algorithm)
        forest = build_forest(limit.tree, limit.cut, padded=False)
        return solved_subgames(forest, counts, rule, limit.dtype)
