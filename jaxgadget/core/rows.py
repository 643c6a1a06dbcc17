"""Products of a sparse matrix and a dense one with lanes, as gathers.

Both sums of a solver have this form: the values of the infosets below a sequence, and
the payoff against an opponent's reach if blocks would be mostly empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.core.devices import HOME
from jaxgadget.core.host import Rounding, exact_size
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

UNROLLED_WIDTH = 16
"""Maximum width of a bucket that is a chain of fused gathers; wider ones are a contraction."""

EXACT = jax.lax.Precision.HIGHEST
"""Precision of contractions; by default a GPU rounds the mantissa of float32 to ten bits."""

MIN_FILL = 0.3
"""Minimum share of used cells for a single bucket; otherwise rows are sorted into buckets by width."""


def on_host(x: npt.NDArray[Any]) -> jax.Array:
    """A NumPy array typed as a JAX array; it is copied to a device when a program first uses it."""
    return cast("jax.Array", x)


def array_bytes(tree: Any) -> int:
    """Bytes of a pytree's arrays, or of their shapes; an array that occurs twice counts once."""
    leaves = {id(x): x for x in jax.tree.leaves(tree)}.values()
    return sum(int(np.prod(x.shape)) * np.dtype(x.dtype).itemsize for x in leaves)


def pad_rows(values: npt.NDArray[Any], size: int, fill: int) -> npt.NDArray[Any]:
    """Pads the first axis with `fill`: `[n, …]` → `[size, …]`."""
    extra = [(0, size - len(values))] + [(0, 0)] * (values.ndim - 1)
    return np.pad(values, extra, constant_values=fill)


def take_rows(x: jax.Array, index: jax.Array) -> jax.Array:
    """`x[index]` for indices in bounds, without a check and without support for negative indices."""
    return x.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class RowSums:
    """`y[r] = Σ_c weight[r, c] · x[index[r, c]]`, with rows in buckets of equal width.

    Attributes:
      index: for every bucket `[width, rows]` rows of x.
      weight: for every bucket `[width, rows]` or `[width, rows, lanes]` weights, 0 for unused cells.
      slot_of_row: `[num_rows]` position of each row in the concatenated buckets, which are followed by a row
        of zeros; None if there is one bucket and it is in order.
    """

    index: tuple[jax.Array, ...]
    weight: tuple[jax.Array, ...]
    slot_of_row: jax.Array | None

    @property
    def num_rows(self) -> int:
        """Number of rows of the result."""
        return self.weight[0].shape[1] if self.slot_of_row is None else self.slot_of_row.shape[0]

    def cells(self) -> Cells:
        """The nonzero cells."""
        slot_of_row = np.arange(self.num_rows) if self.slot_of_row is None else np.asarray(self.slot_of_row)
        begin = np.cumsum([0, *(weight.shape[1] for weight in self.weight)]).tolist()
        buckets = [
            (first + np.arange(weight.shape[1]), np.asarray(index), np.asarray(weight))
            for first, index, weight in zip(begin[:-1], self.index, self.weight, strict=True)
        ]
        return list_cells(slot_of_row, buckets)

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[num_columns, lanes]` → `[num_rows, lanes]`, 0 for rows without entries."""
        parts = [_bucket_sum(index, weight, x) for index, weight in zip(self.index, self.weight, strict=True)]
        if self.slot_of_row is None:
            return parts[0]
        parts.append(jnp.zeros((1, x.shape[1]), x.dtype))
        return take_rows(jnp.concatenate(parts), self.slot_of_row)

    def least(self, x: jax.Array) -> jax.Array:
        """`[num_columns, lanes]` → `[num_rows, lanes]` minima, not sums; ∞ for rows without entries."""
        parts = [
            jnp.where(weight[:, :, None] != 0, take_rows(x, index), jnp.inf).min(axis=0)
            for index, weight in zip(self.index, self.weight, strict=True)
        ]
        if self.slot_of_row is None:
            return parts[0]
        parts.append(jnp.full((1, x.shape[1]), jnp.inf, x.dtype))
        return take_rows(jnp.concatenate(parts), self.slot_of_row)

    def of_parts(self, parts: Sequence[jax.Array]) -> jax.Array:
        """The sums of an argument given in parts, which are concatenated."""
        return self(jnp.concatenate(parts))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class ScatteredSums:
    """`y[row[i]] += x[i]`, sequentially.

    Attributes:
      num_rows: number of rows of the result.
      row: `[n]` target of each row of x; `num_rows` for none.
    """

    num_rows: int = dataclasses.field(metadata={"static": True})
    row: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[n, lanes]` → `[num_rows, lanes]`."""
        return self.of_parts([x])

    def of_parts(self, parts: Sequence[jax.Array]) -> jax.Array:
        """The sums of an argument given in parts, added one part after the other.

        Concatenated parts would be compiled to one loop that looks up the part of every number.
        """
        total = jnp.zeros((self.num_rows, parts[0].shape[1]), parts[0].dtype)
        first = 0
        for part in parts:
            row = self.row[first : first + len(part)]
            total = total.at[row].add(part, mode="drop", wrap_negative_indices=False)
            first += len(part)
        return total


Sums = RowSums | ScatteredSums


def build_sums(
    row: IntArray,
    real: BoolArray,
    num_rows: int,
    dtype: DTypeLike,
    rounding: Rounding = exact_size,
    platform: str | None = None,
) -> Sums:
    """Builds sums of rows into fewer rows: scattered on a CPU; gathered elsewhere, as writes would collide.

    Scattering is one operation. On one core it takes 0.9 µs with 1 lane and 22 µs with 64 for
    Leduc's 510 infosets; gathering takes a dozen operations and is not faster.

    Args:
      row: `[n]` target of each row of the argument.
      real: `[n]` True for rows that are included.
      num_rows: number of rows of the result.
      dtype: floating-point type of the weights.
      rounding: rounding of sizes.
      platform: platform of the devices that will compute, in JAX's terms (`cpu`, `gpu`, `tpu`); by default
        that of the default device.
    """
    if (platform or HOME.platform) == "cpu":
        return ScatteredSums(
            num_rows=num_rows, row=jax.device_put(np.where(real, row, num_rows).astype(np.int32))
        )
    column = np.nonzero(real)[0]
    return build_row_sums(row[column], column, np.ones(len(column)), num_rows, dtype, rounding)


Cells = tuple[IntArray, IntArray, FloatArray]
"""Cells of a sparse matrix, on the host: row `[m]`, column `[m]`, value `[m]` or `[m, lanes]`."""


def list_cells(slot_of_row: IntArray, buckets: Sequence[tuple[IntArray, IntArray, FloatArray]]) -> Cells:
    """The nonzero cells of a sparse matrix.

    Args:
      slot_of_row: `[num_rows]` position of each row in the concatenated buckets; past their end for empty
        rows.
      buckets: for every bucket three arrays that broadcast to one shape: the position of each cell's row in
        the concatenated buckets, the cell's column, and its value, optionally with an axis of lanes.
    """
    row_at = np.zeros(1 + max((int(position.max()) for position, _, _ in buckets), default=0), np.int64)
    full = slot_of_row < len(row_at)
    row_at[slot_of_row[full]] = np.nonzero(full)[0]
    parts: list[Cells] = []
    for position, column, value in buckets:
        shape = np.broadcast_shapes(position.shape, column.shape)
        used = value != 0 if value.ndim == len(shape) else (value != 0).any(axis=-1)
        rows, columns = (np.broadcast_to(x, shape)[used] for x in (position, column))
        parts.append((row_at[rows], columns.astype(np.int64), value[used]))
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    row, column, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    return row, column, value


def _bucket_sum(index: jax.Array, weight: jax.Array, x: jax.Array) -> jax.Array:
    if index.shape[0] > UNROLLED_WIDTH:
        form = "crl,crl->rl" if weight.ndim == 3 else "cr,crl->rl"
        return jnp.einsum(form, weight, take_rows(x, index), precision=EXACT)
    weights = weight if weight.ndim == 3 else weight[:, :, None]
    total = weights[0] * take_rows(x, index[0])
    for column in range(1, index.shape[0]):
        total += weights[column] * take_rows(x, index[column])
    return total


def build_row_sums(
    row: IntArray,
    column: IntArray,
    value: FloatArray,
    num_rows: int,
    dtype: DTypeLike,
    rounding: Rounding = exact_size,
) -> RowSums:
    """Sorts the entries of a sparse matrix into buckets.

    Args:
      row: `[m]` row of each entry.
      column: `[m]` column of each entry.
      value: `[m]` value of each entry.
      num_rows: number of rows of the result.
      dtype: floating-point type of the weights.
      rounding: rounding of the number of rows of a bucket.
    """
    order = np.argsort(row, kind="stable")
    row, column, value = row[order], column[order], value[order]
    count = np.bincount(row, minlength=num_rows)
    slot = np.arange(len(row)) - np.concatenate([[0], np.cumsum(count)])[row]
    width = int(count.max(initial=0))
    if width == 0:
        return RowSums(index=(), weight=(), slot_of_row=jnp.zeros(num_rows, jnp.int32))
    if len(row) >= MIN_FILL * width * num_rows and width <= UNROLLED_WIDTH:
        index, weight = _fill(width, num_rows, slot, row, column, value, dtype)
        return RowSums(index=(index,), weight=(weight,), slot_of_row=None)
    bucket_width = _bucket_width(count)
    indices: list[jax.Array] = []
    weights: list[jax.Array] = []
    slot_of_row = np.zeros(num_rows, np.int32)
    total = 0
    for wide in np.unique(bucket_width[bucket_width > 0]).tolist():
        rows = np.nonzero(bucket_width == wide)[0]
        local = np.zeros(num_rows, np.int64)
        local[rows] = np.arange(len(rows))
        in_bucket = bucket_width[row] == wide
        size = rounding(len(rows))
        index, weight = _fill(
            wide, size, slot[in_bucket], local[row[in_bucket]], column[in_bucket], value[in_bucket], dtype
        )
        indices.append(index)
        weights.append(weight)
        slot_of_row[rows] = total + np.arange(len(rows))
        total += size
    slot_of_row[bucket_width == 0] = total
    return RowSums(index=tuple(indices), weight=tuple(weights), slot_of_row=jax.device_put(slot_of_row))


def _bucket_width(count: IntArray) -> IntArray:
    """Rounds numbers of entries per row up to powers of two, so that few buckets are needed."""
    return np.where(count > 0, 1 << np.ceil(np.log2(np.maximum(count, 1))).astype(np.int64), 0)


def _fill(
    width: int,
    num_rows: int,
    slot: IntArray,
    row: IntArray,
    column: IntArray,
    value: FloatArray,
    dtype: Any,
) -> tuple[jax.Array, jax.Array]:
    index = np.zeros((width, num_rows), np.int32)
    weight = np.zeros((width, num_rows, *value.shape[1:]), dtype)
    index[slot, row] = column
    weight[slot, row] = value
    return jax.device_put(index), jax.device_put(weight)
