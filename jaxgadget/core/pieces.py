"""Programs on arrays whose rows are stored in pieces.

XLA fuses elementwise operations on arrays of one shape into one kernel, for any number of results. In an
array over all actions, the actions of an infoset are distant rows, so that sums over them, and all operations
that depend on these sums, have other shapes: each becomes a separate kernel, which reads all of its inputs
again. In pieces, one for every level, slot and run (`Treeplex.slots`), the values of a run's infosets, their
regrets, strategies and reach are elementwise operations on pieces of one shape.

`evaluate_pieces` evaluates any function traced for whole arrays, with the same results.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

ELEMENTWISE = frozenset(
    "abs add add_any and clamp convert_element_type copy div eq erf erf_inv exp exp2 expm1 ge gt integer_pow "
    "is_finite le log log1p logistic lt max min mul ne neg not or pow rem rsqrt select_n sign sqrt square "
    "stop_gradient sub tanh xor".split()
)
"""Names of primitives of which each row of the result depends only on the same row of the operands."""

INLINED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr"}
"""Names of primitives that call a function, and of the parameter that holds the function."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Pieces:
    """An array in pieces along its first axis.

    Attributes:
      pieces: the pieces, at least one.
    """

    pieces: tuple[jax.Array, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of each piece."""
        return tuple(piece.shape[0] for piece in self.pieces)

    @property
    def num_rows(self) -> int:
        """Number of rows of the array."""
        return sum(self.sizes)

    def rows(self, first: int, last: int) -> list[jax.Array]:
        """Rows `first` to `last` (exclusive), in pieces that end where this array's pieces do."""
        rows: list[jax.Array] = []
        for piece, begin in zip(self.pieces, itertools.accumulate(self.sizes, initial=0), strict=False):
            start, stop = max(first - begin, 0), min(last - begin, piece.shape[0])
            if start < stop:
                is_whole = stop - start == piece.shape[0]
                rows.append(piece if is_whole else jax.lax.slice_in_dim(piece, start, stop))
        return rows


Rows = jax.Array | Pieces
"""An array, in pieces or as a whole."""


def joined(x: Any) -> Any:
    """Joins the pieces of an array; returns anything else unchanged."""
    if not isinstance(x, Pieces):
        return x
    return x.pieces[0] if len(x.pieces) == 1 else jnp.concatenate(x.pieces)


def cut(x: Rows, sizes: Sequence[int]) -> Pieces:
    """Divides an array into pieces of the given sizes."""
    whole = x if isinstance(x, Pieces) else Pieces((x,))
    if whole.sizes == tuple(sizes):
        return whole
    ends = list(itertools.accumulate(sizes, initial=0))
    return Pieces(tuple(joined(Pieces(tuple(whole.rows(*bounds)))) for bounds in itertools.pairwise(ends)))


def evaluate_pieces(function: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    """Evaluates a traced function; some of its results are `Pieces`.

    A gather is a boundary between kernels: its operand is computed once beforehand, and not again for every
    row of the result.

    Args:
      function: the function, traced for whole arrays.
      arguments: leaves of its arguments, arrays or `Pieces`.
    """
    return _evaluate(function.jaxpr, function.consts, arguments)


def _evaluate(jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    values: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    for equation in jaxpr.eqns:
        results = _apply(equation, [read(variable) for variable in equation.invars])
        values.update(zip(equation.outvars, results, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _apply(equation: JaxprEqn, operands: list[Any]) -> list[Any]:
    """Results of one operation."""
    name, settings = equation.primitive.name, equation.params
    if name in INLINED:
        inner = settings[INLINED[name]]
        return _evaluate(inner.jaxpr, inner.consts, operands)
    if name == "optimization_barrier":
        return jax.lax.optimization_barrier(operands)
    if name == "concatenate" and settings["dimension"] == 0:
        parts = [piece for x in operands for piece in (x.pieces if isinstance(x, Pieces) else [x])]
        filled = tuple(part for part in parts if part.shape[0])
        return [Pieces(filled) if filled else parts[0]]
    if name == "gather":
        operands[0] = jax.lax.optimization_barrier(operands[0])
    in_pieces = [x for x in operands if isinstance(x, Pieces)]
    if in_pieces:
        by_piece = _by_piece(equation, operands, in_pieces)
        if by_piece is not None:
            return [by_piece]
    return _bind(equation, [joined(x) for x in operands])


def _by_piece(equation: JaxprEqn, operands: list[Any], in_pieces: list[Pieces]) -> Pieces | None:
    """The result of an operation that can be evaluated piece by piece; None for other operations."""
    name, settings = equation.primitive.name, equation.params
    argument: Any = equation.invars[0].aval
    outcome: Any = equation.outvars[0].aval
    before, after = argument.shape, outcome.shape
    if name in ELEMENTWISE:
        whole = [x for x in in_pieces if x.num_rows == after[0]]  # any other has one row, which is broadcast
        if not whole:
            return None
        ends = {end for x in whole for end in itertools.accumulate(x.sizes)}
        sizes = [last - first for first, last in itertools.pairwise([0, *sorted(ends)])]
        parts = [
            cut(x, sizes).pieces if _num_rows(x) == after[0] else [joined(x)] * len(sizes) for x in operands
        ]
        return Pieces(tuple(_bind(equation, list(rows))[0] for rows in zip(*parts, strict=True)))
    if len(operands) > 1:
        return None
    (x,) = in_pieces
    if name == "slice" and before[1:] == after[1:] and set(settings["strides"] or (1,)) == {1}:
        rows = x.rows(settings["start_indices"][0], settings["limit_indices"][0])
        return Pieces(tuple(rows)) if rows else None
    setting = {"broadcast_in_dim": "shape", "reshape": "new_sizes"}.get(name)
    if setting is None or not after or not before[0] or settings.get("broadcast_dimensions", (0,))[0] != 0:
        return None
    counts = [size * after[0] // before[0] for size in x.sizes]
    if any(count * before[0] != size * after[0] for count, size in zip(counts, x.sizes, strict=True)):
        return None
    return Pieces(
        tuple(
            _bind(equation, [piece], **{setting: (count, *after[1:])})[0]
            for piece, count in zip(x.pieces, counts, strict=True)
        )
    )


def _num_rows(x: Any) -> int:
    """Number of rows of an array, in pieces or not; 0 for a scalar."""
    if isinstance(x, Pieces):
        return x.num_rows
    return x.shape[0] if jnp.ndim(x) else 0


def _bind(equation: JaxprEqn, operands: list[Any], **changed: Any) -> list[Any]:
    """Results of an operation on whole arrays, with some of its parameters changed."""
    settings = equation.primitive.get_bind_params(equation.params) | changed
    results = equation.primitive.bind(*operands, **settings)
    return list(results) if equation.primitive.multiple_results else [results]
