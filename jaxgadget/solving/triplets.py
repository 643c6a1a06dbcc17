"""Sparse matrices put together block by block."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array, csc_array

from jaxgadget.games.game import FloatArray, IntArray


class Triplets:
    """Entries of a sparse matrix, collected a block at a time."""

    def __init__(self) -> None:
        self._blocks: list[tuple[IntArray, IntArray, FloatArray]] = []

    def add(self, rows: IntArray, columns: IntArray, values: FloatArray | float) -> None:
        """Adds entries; those with row or column -1 are left out."""
        kept = (rows >= 0) & (columns >= 0)
        block = np.broadcast_to(np.asarray(values, np.float64), rows.shape)
        self._blocks.append((rows[kept], columns[kept], block[kept]))

    def matrix(self, shape: tuple[int, int]) -> csc_array:
        """All entries, those of one place summed."""
        rows, columns, values = (np.concatenate(parts) for parts in zip(*self._blocks, strict=True))
        found = coo_array((values, (rows, columns)), shape=shape).tocsc()
        found.sort_indices()
        return found
