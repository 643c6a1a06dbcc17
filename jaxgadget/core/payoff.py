"""The payoff operator: payoffs of a player's sequences, given the other player's reach.

The same matrix has two forms. *Rows* gathers and sums the terminals of every sequence.
*Blocks* multiplies small dense matrices, one for each connected component of the terminals (such as a
terminal public state), so that each row of the reach is read only once.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, Protocol, overload, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from scipy.sparse import csr_array

from jaxgadget.core.components import connected_components
from jaxgadget.core.hands import HandsPayoff, build_hands_payoff, hands_payoff_bytes, multiply_hands
from jaxgadget.core.host import Entries, HandEntries, Rounding, exact_size, slots_in_groups
from jaxgadget.core.loops import MANY_LANES
from jaxgadget.core.rows import (
    EXACT,
    UNROLLED_WIDTH,
    Cells,
    RowSums,
    array_bytes,
    build_row_sums,
    list_cells,
    take_rows,
)
from jaxgadget.util.arrays import FloatArray, IntArray
from jaxgadget.util.native import Kernel

PayoffForm = Literal["auto", "rows", "blocks"]

MIN_BLOCK_FILL = 0.2
"""Minimum share of used cells for blocks, which are slower if they are emptier. On one core and 64 lanes, an
iteration with blocks took half the time of one with rows on Leduc (71 % filled), Liar's Dice (100 %) and
Goofspiel 5 (35 %)."""


class Payoff(Protocol):
    """Payoff operator of a game; a value network or a re-solved forest may implement it as well.

    A payoff is a pytree whose precision and device are changed leaf by leaf; its type is never inspected.
    Linear programs require a `ListedPayoff`.
    """

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """`[num_sequences, lanes]` gradient of `player`, given both players' reach, and the next state."""
        ...

    def absolute(self) -> Payoff:
        """The payoff of absolute values, without a state.

        Its gradient at upper bounds on both players' reach is an upper bound on the absolute payoff of each
        of a player's sequences; it is ≥ 0 for both players.
        """
        ...

    def num_bytes(self) -> tuple[int, int]:
        """Bytes on a device: independent of the lanes, and per lane."""
        ...

    def take_lanes(self, lanes: IntArray) -> Payoff:
        """The payoff of the given lanes; the same object if all lanes share it."""
        ...


@runtime_checkable
class ListedPayoff(Protocol):
    """A payoff that can list its matrix."""

    def entries(self) -> Entries:
        """The matrix; values `[m]`, or `[m, lanes]`."""
        ...


@runtime_checkable
class GeneralPayoff(Protocol):
    """A payoff that may not be zero-sum: its gradients are those of each player's own payoff."""

    @property
    def zero_sum(self) -> bool:
        """True if one player's payoff is minus the other's."""
        ...


@runtime_checkable
class NestedPayoff(Protocol):
    """Payoff that includes games below the game's own terminal nodes, which are solved together with it.

    Their strategies are its state; `gradient` updates those of the player.
    """

    def start(self, dtype: DTypeLike) -> Any:
        """The state before the first iteration."""
        ...

    def values(
        self, player: int, reach: tuple[jax.Array, jax.Array], state: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Gradients of a player against the other's average strategy below.

        Returns:
          `[num_sequences, lanes]` gradient if the player best-responds below, and if it follows its average.
        """
        ...


@runtime_checkable
class LoopedPayoff(Protocol):
    """Payoff that has a kernel for the whole loop of some problems."""

    def find_loop(self, problem: Any, rule: Any) -> Kernel | None:
        """A kernel that iterates as `core.cfr.step` does; None if there is none.

        Its arguments are the games, of which this is the payoff, the regret-matching rule, the state, the
        number of the last iteration, and `running` as in `core.cfr.step`; its result is the new state.
        """
        ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocks:
    """A sparse matrix as batches of dense blocks of equal shape.

    Attributes:
      matrix: for every shape, the blocks `[blocks, rows, columns]`, or `[blocks, rows, columns, lanes]`.
      column: for every shape, the matrix's column of each block's column, `[blocks, columns]`.
      position: `[num_rows]` position of each row in the concatenated products, which are followed by zeros.
    """

    matrix: tuple[jax.Array, ...]
    column: tuple[jax.Array, ...]
    position: jax.Array

    @property
    def num_rows(self) -> int:
        """Number of rows of the result."""
        return self.position.shape[0]

    def cells(self) -> Cells:
        """The nonzero cells."""
        buckets: list[tuple[IntArray, IntArray, FloatArray]] = []
        begin = 0
        for matrix, column in zip(map(np.asarray, self.matrix), map(np.asarray, self.column), strict=True):
            rows = matrix.shape[0] * matrix.shape[1]
            position = begin + np.arange(rows).reshape(*matrix.shape[:2], 1)
            buckets.append((position, column[:, None, :], matrix))
            begin += rows
        return list_cells(np.asarray(self.position), buckets)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Product with `[num_columns, lanes]`, as `[num_rows, lanes]`."""
        lanes = x.shape[-1]
        parts: list[jax.Array] = []
        position, first = self.position, 0
        for matrix, column in zip(self.matrix, self.column, strict=True):
            blocks, height, width = matrix.shape[:3]
            if lanes >= MANY_LANES and max(height, width) <= UNROLLED_WIDTH:
                parts += _multiply_by_row(matrix, x, column)
                at = position - first  # block by block in `position`, but row by row in the products
                is_here = (at >= 0) & (at < blocks * height)
                position = jnp.where(is_here, first + at % height * blocks + at // height, position)
            else:
                parts.append(_multiply(matrix, take_rows(x, column)).reshape(-1, lanes))
            first += blocks * height
        parts.append(jnp.zeros((1, lanes), x.dtype))
        return take_rows(jnp.concatenate(parts), position)


def _multiply(matrix: jax.Array, x: jax.Array) -> jax.Array:
    """Blocks `[b, i, j]` (or `[b, i, j, L]`) times `[b, j, L]`; narrow ones as one fused loop."""
    width, by_lane = matrix.shape[2], matrix.ndim == 4
    if width > UNROLLED_WIDTH:
        return jnp.einsum("bijl,bjl->bil" if by_lane else "bij,bjl->bil", matrix, x, precision=EXACT)
    columns = matrix if by_lane else matrix[..., None]
    terms = [columns[:, :, j] * x[:, j : j + 1] for j in range(width)]
    return functools.reduce(jnp.add, terms)


def _multiply_by_row(matrix: jax.Array, x: jax.Array, column: jax.Array) -> list[jax.Array]:
    """The products of all blocks, row by row, `[b, L]` each, so that one kernel reads every row of x once."""
    factors = matrix if matrix.ndim == 4 else matrix[..., None]
    columns = [take_rows(x, column[:, j]) for j in range(matrix.shape[2])]
    return [
        functools.reduce(jnp.add, [factors[:, i, j] * reach for j, reach in enumerate(columns)])
        for i in range(matrix.shape[1])
    ]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class MatrixPayoff:
    """A zero-sum payoff matrix over pairs of sequences; it keeps no state.

    Attributes:
      maps: the maps from player 1's reach to player 0's gradient, and from player 0's reach to player 1's.
    """

    maps: tuple[RowSums | Blocks, RowSums | Blocks]

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """`[num_sequences, lanes]` gradient of `player`, given both players' reach, and the next state."""
        return self.maps[player](reach[1 - player]), state

    def absolute(self) -> MatrixPayoff:
        """The payoff of absolute values, without a state."""
        return jax.tree.map(lambda x: jnp.abs(x) if _is_number(x) else x, self)

    def num_bytes(self) -> tuple[int, int]:
        """Bytes on a device: independent of the lanes, and per lane."""
        total, lanes = array_bytes(self), self._lanes()
        if lanes is None:
            return total, 0
        numbers = array_bytes([x for x in jax.tree.leaves(self) if _is_number(x)])
        return total - numbers, numbers // lanes

    def take_lanes(self, lanes: IntArray) -> MatrixPayoff:
        """The payoff of the given lanes; the same object if all lanes share it."""
        if self._lanes() is None:
            return self
        return jax.tree.map(lambda x: x[..., lanes] if _is_number(x) else x, self)

    def entries(self) -> Entries:
        """The matrix, `[player 0's sequences, player 1's sequences]`, in the precision of the payoff."""
        row, column, value = self.maps[0].cells()
        order = np.lexsort((column, row))
        shape = (self.maps[0].num_rows, self.maps[1].num_rows)
        return Entries(row=row[order], column=column[order], value=value[order], shape=shape)

    def _lanes(self) -> int | None:
        """Number of lanes with separate values; None if all lanes share them."""
        forward = self.maps[0]
        arrays, usual = (forward.matrix, 3) if isinstance(forward, Blocks) else (forward.weight, 2)
        return arrays[0].shape[-1] if arrays and len(arrays[0].shape) > usual else None


def _is_number(x: Any) -> bool:
    """True for an array of values, False for indices."""
    return np.issubdtype(x.dtype, np.floating)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TerminalPayoff:
    """A zero-sum payoff terminal by terminal, in sequential chunks; it keeps no state.

    Attributes:
      sequence: for both players `[chunks, terminals]`, the sequence that leads to each terminal.
      value: `[chunks, terminals]` chance probability × player 0's payoff, 0 for padding.
      signs: factor of both players' payoff: 1 and -1, or 1 and 1 for absolute values.
    """

    sequence: tuple[jax.Array, jax.Array]
    value: jax.Array
    signs: tuple[int, int] = dataclasses.field(default=(1, -1), metadata={"static": True})

    def gradient(self, player: int, reach: tuple[jax.Array, jax.Array], state: Any) -> tuple[jax.Array, Any]:
        """`[num_sequences, lanes]` gradient of `player`, given both players' reach, and the next state."""
        own, other = self.sequence[player], self.sequence[1 - player]

        def add(total: jax.Array, chunk: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
            to, by, value = chunk
            earned = value[:, None] * take_rows(reach[1 - player], by)
            return total.at[to].add(earned, mode="promise_in_bounds", wrap_negative_indices=False), None

        won, _ = jax.lax.scan(add, jnp.zeros_like(reach[player]), (own, other, self.value))
        return self.signs[player] * won, state

    def absolute(self) -> TerminalPayoff:
        """The payoff of absolute values, without a state."""
        return dataclasses.replace(self, value=jnp.abs(self.value), signs=(1, 1))

    def num_bytes(self) -> tuple[int, int]:
        """Bytes on a device: independent of the lanes, and per lane."""
        return array_bytes(self), 0

    def take_lanes(self, lanes: IntArray) -> TerminalPayoff:
        """The payoff of the given lanes; the same object if all lanes share it."""
        return self


@overload
def build_payoff(
    entries: Entries, dtype: DTypeLike, *, form: PayoffForm = ..., rounding: Rounding = ...
) -> MatrixPayoff: ...


@overload
def build_payoff(
    entries: Entries | HandEntries, dtype: DTypeLike, *, form: PayoffForm = ..., rounding: Rounding = ...
) -> MatrixPayoff | HandsPayoff: ...


def build_payoff(
    entries: Entries | HandEntries,
    dtype: DTypeLike,
    *,
    form: PayoffForm = "auto",
    rounding: Rounding = exact_size,
) -> MatrixPayoff | HandsPayoff:
    """Places a payoff on the device.

    Args:
      entries: chance probability × player 0's payoff; values `[m]`, or `[m, lanes]`.
      dtype: floating-point type of the values.
      form: `rows`, `blocks`, or `auto`: blocks if they are full enough; no effect in hand form.
      rounding: rounding of sizes; no effect in hand form.

    Raises:
      ValueError: if the payoff is not zero-sum.
    """
    if isinstance(entries, HandEntries):
        if not entries.zero_sum:
            raise ValueError(
                "payoff: the game is not zero-sum; expected a zero-sum game (with rake, spots of hold'em are "
                "solved by solve_spots and evaluated by evaluate_spot)"
            )
        return build_hands_payoff(entries, dtype)
    if form != "rows":
        label = _components(entries)
        if form == "blocks" or _fill(entries, label) >= MIN_BLOCK_FILL:
            forward = _build_blocks(entries, label, dtype, rounding)
            backward = _build_blocks(entries.swapped(), np.roll(label, -entries.shape[0]), dtype, rounding)
            return MatrixPayoff(maps=(forward, backward))
    forward, backward = (
        build_row_sums(side.row, side.column, side.value, side.shape[0], dtype, rounding)
        for side in (entries, entries.swapped())
    )
    return MatrixPayoff(maps=(forward, backward))


def multiply(entries: Entries | HandEntries, player: int, x: FloatArray) -> FloatArray:
    """Product of a matrix over pairs of sequences, in float64: `[n_other, L]` → `[n_player, L]`.

    Args:
      entries: the matrix; player 0's sequences (or roots) are its rows, player 1's its columns.
      player: the player whose sequences are the rows of the result.
      x: numbers of the other player's sequences.
    """
    if isinstance(entries, HandEntries):
        return multiply_hands(entries, player, x)
    matrix = csr_array((entries.value, (entries.row, entries.column)), shape=entries.shape)
    return np.asarray((matrix if player == 0 else csr_array(matrix.T)) @ x)


def payoff_bytes(entries: Entries | HandEntries, dtype: DTypeLike) -> int:
    """Estimated bytes of one direction of a payoff on a device."""
    if isinstance(entries, HandEntries):
        return hands_payoff_bytes(entries, dtype)
    fill, size = block_fill(entries), np.dtype(dtype).itemsize
    if fill >= MIN_BLOCK_FILL:
        return round(len(entries.row) * size / fill)
    return 2 * len(entries.row) * (size + 4)  # rows are filled up to powers of two


def block_fill(entries: Entries) -> float:
    """Share of nonzero cells of all blocks."""
    return _fill(entries, _components(entries))


def _fill(entries: Entries, label: IntArray) -> float:
    rows = np.bincount(label[np.unique(entries.row)])
    columns = np.bincount(label[entries.shape[0] + np.unique(entries.column)], minlength=len(rows))
    return len(entries.row) / max(int((rows * columns[: len(rows)]).sum()), 1)


def _components(entries: Entries) -> IntArray:
    """`[rows + columns]` the connected component of every row, then of every column."""
    return connected_components(entries.row, entries.column + entries.shape[0], sum(entries.shape))


def _build_blocks(entries: Entries, label: IntArray, dtype: DTypeLike, rounding: Rounding) -> Blocks:
    row, column, shape = entries.row, entries.column, entries.shape
    used_rows, used_columns = np.unique(row), np.unique(column)
    blocks, row_block = np.unique(label[used_rows], return_inverse=True)
    column_block = np.searchsorted(blocks, label[used_columns + shape[0]])
    row_slot, height = slots_in_groups(row_block, len(blocks))
    column_slot, width = slots_in_groups(column_block, len(blocks))
    at_row, at_column = np.zeros(shape[0], np.int64), np.zeros(shape[1], np.int64)
    at_row[used_rows], at_column[used_columns] = row_slot, column_slot
    entry_block = row_block[np.searchsorted(used_rows, row)]
    position = np.zeros(shape[0], np.int32)
    matrices: list[jax.Array] = []
    columns: list[jax.Array] = []
    total = 0
    for tall, wide in np.unique(np.stack([height, width], axis=1), axis=0).tolist():
        member = np.nonzero((height == tall) & (width == wide))[0]
        block_idx = np.full(len(blocks), -1, np.int64)
        block_idx[member] = np.arange(len(member))
        size = rounding(len(member))
        matrix = np.zeros((size, tall, wide, *entries.value.shape[1:]), dtype)
        in_blocks = block_idx[entry_block] >= 0
        matrix[block_idx[entry_block[in_blocks]], at_row[row[in_blocks]], at_column[column[in_blocks]]] = (
            entries.value[in_blocks]
        )
        index = np.zeros((size, wide), np.int32)
        of_column = block_idx[column_block] >= 0
        index[block_idx[column_block[of_column]], column_slot[of_column]] = used_columns[of_column]
        of_row = block_idx[row_block] >= 0
        position[used_rows[of_row]] = total + block_idx[row_block[of_row]] * tall + row_slot[of_row]
        total += size * tall
        matrices.append(jax.device_put(matrix))
        columns.append(jax.device_put(index))
    empty = np.ones(shape[0], np.bool_)
    empty[used_rows] = False
    position[empty] = total
    return Blocks(matrix=tuple(matrices), column=tuple(columns), position=jax.device_put(position))
