"""Values at a depth limit that depend on the ranges, as a payoff operator.

As in DeepStack (Moravčík et al. 2017) and ReBeL (Brown et al. 2020): both players' ranges at the limit go
in, counterfactual values of all infostates there come out, in every update of CFR. `solve_trunk` runs it.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial, all_leaves

from jaxgadget.games.game import dense_ids
from jaxgadget.kernels.cfr import State, averages, start, step
from jaxgadget.kernels.payoff import MatrixPayoff, Payoff, array_bytes, build_payoff
from jaxgadget.kernels.regret import Rule, find_rule
from jaxgadget.kernels.rows import Sums, build_sums, take_rows
from jaxgadget.solving.decomposition import (
    ForestPayoff,
    RootSums,
    forest_payoff,
    played_values,
    trunk_problem,
)
from jaxgadget.solving.options import check_iterations
from jaxgadget.tree.cover import Roots, cover_of, find_roots
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.sequence import Entries
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.values.histories import ValueFunction, leaf_values, one_each

Pair: TypeAlias = tuple[jax.Array, jax.Array]
"""Arrays of player 0 and player 1."""

RangeFunction: TypeAlias = Callable[[Pair], Pair]
"""Both players' ranges → both players' values; see `RangeValues`."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Limit:
    """A depth limit, as a value function must know it: H leaf histories, R_p leaf infostates of player p.

    Attributes:
      cut: `cut.roots` are the leaf histories `[H]`, `cut.subgame` `[H]` their public states: which of them
        belong together by common knowledge.
      roots: both players' leaf infostates `[R_p]`: ids, public states, and the tree's sequences above.
      row: for both players `[H]`, which leaf infostate each leaf history is in.
      dtype: of ranges and values.
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
        """The game's histories, perhaps only down to the limit."""
        return self.cut.tree

    def infostate(self, player: int, row: int) -> str:
        """The game's name of a leaf infostate."""
        history = int(self.cut.roots[np.argmax(self.row[player] == row)])
        return self.tree.game.infostate_string(player, self.tree.moves(history))

    def matrix(self, weight: FloatArray | None = None) -> Entries:
        """`[R_0, R_1]` between leaf infostates: the sum of chance's reach × weight over their histories.

        Args:
          weight: `[H]` or `[H, L]`; by default 1, which gives chance's reach.

        Returns:
          A sparse matrix: `row`, `column` and `value` `[m]` (or `[m, L]`) of its cells, and its `shape`.
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
    """A value function that depends on the ranges: called once with a limit, it gives a `RangeFunction`.

    That function is traced by JAX inside CFR's loop, so it computes with `jax.numpy`. It takes one argument,
    the pair of ranges `(r_0 [R_0, L], r_1 [R_1, L])`, and gives the pair `(v_0 [R_0, L], v_1 [R_1, L])`, rows
    in the order of `limit.roots`, L lanes that share nothing, of any floating type.

    - `r_p[s]` is player p's own reach of its infostate s: the product of the probabilities of its own
      actions. A range is no distribution, and may be 0 everywhere in a public state.
    - `v_p[s]` is the counterfactual value of s in p's own utility: the sum over the histories h in s of
      chance's reach of h × the other player's range there × what p gets from h on, in units of the payoff
      (less half of the game's constant). Own reach is not counted, and matters only for how play goes on.
      In a zero-sum game `Σ r_0·v_0 + Σ r_1·v_1 = 0`; nothing here demands it.

    The arrays of a function that is a pytree, such as `jax.tree_util.Partial(apply, weights)`, are arguments
    of the compiled loop, and functions that differ in nothing else share it. Those of a closure are constants
    in it, and every closure compiles its own.

    An object may say `num_lanes` = L, else it serves any number of lanes; and `linear` = True, if each
    player's values are a fixed matrix times the other's range: then the depth-limited game is a matrix game
    and has a certified gap. That is taken at its word: said of other values, the gap certifies nothing.
    It may have a `doubt`, a sentence that says why it is not to be relied on, None if nothing is known
    against it.
    """

    def __call__(self, limit: Limit) -> RangeFunction:
        """The function for a limit; JAX computes in `limit.dtype` meanwhile."""
        ...


def check_lanes(values: object, num_lanes: int) -> None:
    """ValueError unless range values serve so many blueprints."""
    count = getattr(values, "num_lanes", None)
    if count is not None and count != num_lanes:
        raise ValueError(
            f"values={values!r} have num_lanes={count!r} for {num_lanes} blueprint(s): expected a lane for "
            "each blueprint, or no num_lanes"
        )


def warn_of_doubts(values: Sequence[object]) -> None:
    """Says of range values why they are not to be relied on, each reason once.

    Warns:
      UserWarning: if an object has a `doubt`; see `RangeValues`.
    """
    for doubt in dict.fromkeys(getattr(function, "doubt", None) for function in values):
        if doubt is not None:
            warnings.warn(doubt, stacklevel=4)


def check_unary(name: str, function: Callable[..., Any], argument: str) -> None:
    """ValueError if a function cannot be called with one argument alone; one without a signature passes."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
    except TypeError:
        raise ValueError(f"{name} has arguments {signature}: expected one, {argument}") from None


def function_at(values: RangeValues, limit: Limit, num_lanes: int) -> RangeFunction:
    """What values say at a limit, as a pytree, its shapes checked; call inside `precision(limit.dtype)`.

    Raises:
      ValueError: if it is no function, or gives something else than both players' values.
    """
    returned = values(limit)
    if not callable(returned):
        raise ValueError(f"values={values!r} gave {returned!r}: expected a function of both players' ranges")
    check_unary(f"what values={values!r} gave", returned, "the pair of ranges")
    function = Partial(returned) if all_leaves([returned]) else returned
    first, second = (jax.ShapeDtypeStruct((len(roots), num_lanes), limit.dtype) for roots in limit.roots)
    parts = jax.eval_shape(lambda ranges: _as_arrays(values, function(ranges)), (first, second))
    if [part.shape for part in parts] != [first.shape, second.shape]:
        raise ValueError(
            f"values={values!r} gave shapes {[part.shape for part in parts]}: expected {first.shape} and "
            f"{second.shape}, [leaf infostates, lanes] of both players"
        )
    for part in parts:
        if not jnp.issubdtype(part.dtype, jnp.floating):
            raise ValueError(f"values={values!r} gave {part.dtype}: expected floating-point numbers")
    return function


def _as_arrays(values: RangeValues, answer: object) -> list[jax.Array]:
    """What a function gave, one array or several; ValueError for anything else."""
    parts: list[Any] = list(answer) if isinstance(answer, tuple | list) else [answer]
    for part in parts:
        if not isinstance(part, jax.Array | np.ndarray):
            raise ValueError(
                f"values={values!r} gave a function that returns {part!r}: expected the pair of both "
                "players' values, two arrays; does it end with `return first, second`?"
            )
    return parts


# --- the operator -------------------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RangedPayoff:
    """The payoff of a lookahead with K = 1, with values for the ranges at its limit.

    Attributes:
      weighting: the solve's rule, whose weights the sums of values have.
      outside: the payoff of terminals before the limit.
      function: a `RangeFunction`, as a pytree.
      sequence: for both players `[R]` the sequence of each leaf infostate.
      linked: for both players, sums over leaf infostates into sequences.
      added: for both players `[R, L]`, what else comes to their leaf infostates besides them: another copy
        of theirs, for which the same values hold. None if nothing does.
      bound: a payoff that no values exceed, above the limit and at every leaf.
    """

    weighting: Rule
    outside: Payoff
    function: Any
    sequence: Pair
    linked: tuple[Sums, Sums]
    bound: Payoff
    added: Pair | None = None

    def gradient(self, player: int, reach: Pair, state: RootSums) -> tuple[jax.Array, RootSums]:
        """See `Payoff`; `state` gains the player's values, until one is not finite: then it stays so."""
        ranges = take_rows(reach[0], self.sequence[0]), take_rows(reach[1], self.sequence[1])
        if self.added is not None:
            ranges = ranges[0] + self.added[0], ranges[1] + self.added[1]
        values = self.function(ranges)[player].astype(reach[player].dtype)
        outside, _ = self.outside.gradient(player, reach, None)
        after = state.add(player, values, self.weighting)
        fine = jnp.isfinite(state.total[0]).all() & jnp.isfinite(state.total[1]).all()
        kept = jax.tree.map(lambda new, old: jnp.where(fine, new, old), after, state)
        return outside + self.linked[player](values), kept

    def absolute(self) -> Payoff:
        """See `Payoff`; of `bound`, since nothing is known of the values."""
        return self.bound.absolute()

    def num_bytes(self) -> tuple[int, int]:
        """See `Payoff`; what the function has by lane is counted as shared."""
        outside, bound = self.outside.num_bytes(), self.bound.num_bytes()
        rest = array_bytes((self.function, self.sequence, self.linked))
        return outside[0] + bound[0] + rest, outside[1] + bound[1]

    def take_lanes(self, lanes: IntArray) -> RangedPayoff:
        """Not known to a function of all lanes' ranges: TypeError."""
        raise TypeError("values that depend on the ranges are asked for all lanes at once; solve them so")


def ranged_payoff(look: Forest, limit: Limit, function: RangeFunction, weighting: Rule) -> RangedPayoff:
    """Puts a lookahead's payoff on the device; call inside `precision(limit.dtype)`.

    Args:
      look: with K = 1, so that nobody chooses at the limit.
      limit: its leaves.
      function: see `function_at`.
      weighting: the rule that it will be solved with.
    """
    most = float(np.abs(look.tree.payoff).max())
    bound = look.with_values(np.full((len(look.leaves), 1, 1), most)).form.payoff
    sequence: list[jax.Array] = []
    linked: list[Sums] = []
    for player in (0, 1):
        leaf_sequence = np.empty(len(limit.roots[player]), np.int64)
        leaf_sequence[limit.row[player]] = look.leaves.sequence[player][:, 0]
        total = look.form.treeplex[player].num_sequences
        sequence.append(jax.device_put(leaf_sequence.astype(np.int32)))
        linked.append(build_sums(leaf_sequence, np.ones(len(leaf_sequence), np.bool_), total, limit.dtype))
    return RangedPayoff(
        weighting=jax.tree.map(jnp.asarray, weighting),
        outside=build_payoff(look.terminals, limit.dtype),
        function=function,
        sequence=(sequence[0], sequence[1]),
        linked=(linked[0], linked[1]),
        bound=build_payoff(bound, limit.dtype),
    )


def no_sums(limit: Limit, num_lanes: int) -> RootSums:
    """The state of a `RangedPayoff` before the first update."""
    first, second = (jnp.zeros((len(roots), num_lanes), limit.dtype) for roots in limit.roots)
    none, zero = jnp.zeros((), jnp.int32), jnp.zeros((), limit.dtype)
    return RootSums(updates=(none, none), weight=(zero, zero), total=(first, second))


# --- values -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class FixedValues:
    """Values of histories that do not depend on the ranges: K = 1 of multi-valued states.

    Attributes:
      values: with a single entry, such as `ExactValues(blueprint)`; several make a lane each.
    """

    values: ValueFunction | Sequence[ValueFunction]
    linear: ClassVar[bool] = True

    @property
    def num_lanes(self) -> int:
        """L."""
        return len(self.values) if isinstance(self.values, Sequence) else 1

    def __call__(self, limit: Limit) -> RangeFunction:
        """See `RangeValues`.

        Raises:
          ValueError: for value functions of several entries, of another game, or that give no numbers.
        """
        functions = one_each(self.values, self.num_lanes)
        if functions[0].num_entries != 1:
            raise ValueError(
                f"values={functions[0]!r} has {functions[0].num_entries} entries: expected one, as in "
                "ExactValues(blueprint), since nobody chooses at the limit"
            )
        leaf_value = [leaf_values(function, limit.tree, limit.cut.roots)[:, 0, 0] for function in functions]
        weight = leaf_value[0] if len(leaf_value) == 1 else np.stack(leaf_value, axis=1)
        return Partial(_multiplied, build_payoff(limit.matrix(weight), limit.dtype))


def _multiplied(matrix: MatrixPayoff, ranges: Pair) -> Pair:
    return matrix.gradient(0, ranges, None)[0], matrix.gradient(1, ranges, None)[0]


@dataclasses.dataclass(frozen=True)
class ResolvedValues:
    """Values of an equilibrium below the limit, solved anew for all ranges: CFR-D (`jaxgadget.cfr_d`).

    Attributes:
      iterations: of CFR below the limit, each time.
      algorithm: its name, or a `Rule`.
    """

    iterations: int
    algorithm: str | Rule = "cfr+"

    def __call__(self, limit: Limit) -> RangeFunction:
        """See `RangeValues`.

        Raises:
          ValueError: for a truncated tree, an unknown algorithm, or a number out of range.
        """
        counts, rule = (check_iterations(self.iterations),), find_rule(self.algorithm)
        forest = build_forest(limit.tree, limit.cut, padded=False)
        problem = trunk_problem(
            forest, build_trunk(forest), iterations=counts, rule=rule, weighting=rule, dtype=limit.dtype
        )
        first, second = (jax.device_put(np.arange(len(roots), dtype=np.int32)) for roots in limit.roots)
        return Partial(_solved_values, dataclasses.replace(forest_payoff(problem), link=(first, second)))


def _solved_values(payoff: ForestPayoff, ranges: Pair) -> Pair:
    """As `ForestPayoff.root_values`, of both players at once."""
    problem = payoff.take_lanes(np.zeros(ranges[0].shape[-1], np.int64)).subgames(ranges)

    def advance(_: jax.Array, state: State) -> State:
        return step(problem, payoff.rule, state)

    solved = jax.lax.fori_loop(0, payoff.iterations[0], advance, start(problem, payoff.rule))
    strategy = averages(problem, solved.strategy_sum)
    return played_values(problem, strategy, 0), played_values(problem, strategy, 1)
