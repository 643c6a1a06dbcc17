"""Equal histories of a state machine: of one length, with the same state and the same infostates.

A state determines the rest of the game, so that such histories differ in nothing that follows: for example in
the order of the same dice. One of them stands for all, with their total probability.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxgadget.games.game import dense_ids, first_positions
from jaxgadget.games.machine import StateMachine
from jaxgadget.util.arrays import IntArray


def group_equal(state: Any, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Groups equal histories of one length.

    Args:
      state: n states, in NumPy.
      ids: `[k, n]` ids of both players' infostates, and of anything else that must be equal.

    Returns:
      `[m]` the first history of each group, ascending, and `[n]` the group of each history.
    """
    n = ids.shape[1]
    group, count = np.zeros(n, np.int64), min(n, 1)
    for each in (*ids, *state):
        if count == n:
            return np.arange(n), np.arange(n)
        key, size = _row_ids(each)
        group, count = dense_ids(group * size + key)
    first = first_positions(group, count)
    rank = np.argsort(np.argsort(first))
    return np.sort(first), rank[group]


def _row_ids(values: Any) -> tuple[IntArray, int]:
    """`[n]` ids of the distinct columns of an array `[…, n]`, and their number."""
    flat = np.ascontiguousarray(values.reshape(-1, values.shape[-1]).T)
    if flat.shape[1] == 1 and flat.dtype.kind in "iu":
        return dense_ids(flat[:, 0].astype(np.int64))
    distinct, ids = np.unique(_as_keys(flat), return_inverse=True)
    return ids.ravel(), len(distinct)


def _as_keys(rows: Any) -> Any:
    """`[n]` comparable keys of the rows of a contiguous array `[n, …]`, by their bytes."""
    return rows.view(np.dtype((np.void, max(1, rows.shape[1] * rows.dtype.itemsize)))).ravel()


@dataclasses.dataclass(frozen=True, eq=False)
class HistoryIndex:
    """Finds histories among given ones.

    Attributes:
      machine: the rules.
      length: maximum length of the given histories, L.
      merged: True if equal histories are found in place of each other; otherwise moves must be the same.
      keys: `[n]` keys of the given histories, sorted.
      number: `[n]` their numbers.
    """

    machine: StateMachine[Any]
    length: int
    merged: bool
    keys: Any
    number: IntArray

    @staticmethod
    def of(machine: StateMachine[Any], moves: IntArray, *, merged: bool) -> HistoryIndex:
        """The index of n histories `[L, 3, n]`, padded with -1."""
        keys = _keys(machine, moves, len(moves), merged)
        order = np.argsort(keys)
        return HistoryIndex(machine, len(moves), merged, keys[order], order)

    @property
    def num_bytes(self) -> int:
        """Memory of the index."""
        return self.keys.nbytes + self.number.nbytes

    def find(self, moves: IntArray) -> IntArray:
        """`[m]` the numbers of histories `[K, 3, m]`, padded with -1; -1 for none."""
        keys = _keys(self.machine, moves, self.length, self.merged)
        position = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        fits = (self.keys[position] == keys) & (moves[self.length :] < 0).all(axis=(0, 1))
        return np.where(fits, self.number[position], -1)


def _keys(machine: StateMachine[Any], moves: IntArray, length: int, merged: bool) -> Any:
    """`[n]` keys of histories, padded or cut to a length."""
    padded = np.full((max(length, 1), *moves.shape[1:]), -1, np.int16)
    padded[: min(length, len(moves))] = moves[:length]
    if not merged:
        return _as_keys(np.ascontiguousarray(padded.reshape(-1, moves.shape[-1]).T))
    parts = _noticed(machine, padded)
    flat = [np.ascontiguousarray(part.reshape(-1, part.shape[-1]).T) for part in parts]
    return _as_keys(np.concatenate([part.view(np.uint8) for part in flat], axis=1))


def _noticed(machine: StateMachine[Any], moves: IntArray) -> list[Any]:
    """Arrays `[…, n]` that are the same for equal histories: length, state, and what each player noticed."""
    state, steps = machine.start(moves.shape[-1], np), list[IntArray]()
    for made in moves:
        goes_on = made.max(axis=0) >= 0
        after, seen = machine.step(state, made)
        state = type(state)(*(np.where(goes_on, new, old) for new, old in zip(after, state, strict=True)))
        pairs = np.stack([made[:2].astype(np.int64), np.asarray(seen)[:2].astype(np.int64)])
        steps.append(np.where(goes_on, pairs, -1))
    pairs = np.stack(steps)  # `[L, (action, observation), player, n]`
    nothing = (pairs < 0).all(axis=1, keepdims=True)
    order = np.argsort(nothing, axis=0, kind="stable")  # steps that a player does not notice come last
    pairs = np.take_along_axis(pairs, np.broadcast_to(order, pairs.shape), axis=0)
    return [np.count_nonzero(moves.max(axis=1) >= 0, axis=0)[None], pairs, *state]
