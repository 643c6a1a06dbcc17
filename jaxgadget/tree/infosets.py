"""One player's infosets and sequences, derived from histories."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, dense_ids, first_positions
from jaxgadget.util.arrays import IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Infosets:
    """One player's infosets (infostates at which it acts), sorted by (depth, number of legal actions).

    A sequence is an (infoset, action) pair; sequence 0 is the empty one. Infoset `j` has the sequences
    `first_sequence[j] + k` for its k-th legal action; those of infosets 0, 1, … are consecutive.

    Attributes:
      depth: `[I]` number of the player's own earlier decisions.
      num_actions: `[I]` number of legal actions.
      first_sequence: `[I]` first sequence of each infoset.
      parent: `[I]` the sequence that leads to each infoset.
      history: `[I]` the first history of each infoset.
      action: `[num_sequences]` action id of each sequence, ascending in an infoset; -1 for the empty one.
      infoset: `[num_sequences]` the infoset of each sequence; -1 for the empty one.
    """

    depth: IntArray
    num_actions: IntArray
    first_sequence: IntArray
    parent: IntArray
    history: IntArray
    action: IntArray
    infoset: IntArray

    def __len__(self) -> int:
        return len(self.depth)

    @property
    def num_sequences(self) -> int:
        """Number of sequences, including the empty one."""
        return len(self.action)

    def own_actions(self, infoset: int) -> tuple[int, ...]:
        """The player's own action ids that lead to an infoset."""
        done: list[int] = []
        sequence = int(self.parent[infoset])
        while sequence:
            done.append(int(self.action[sequence]))
            sequence = int(self.parent[self.infoset[sequence]])
        return tuple(reversed(done))


def find_infosets(
    player: int,
    offset: IntArray,
    parent: IntArray,
    actor: IntArray,
    action: IntArray,
    infostate: IntArray,
) -> tuple[Infosets, IntArray, IntArray]:
    """Finds one player's infosets and sequences.

    Args:
      player: 0 or 1.
      offset: `[num_levels + 1]` first history of each level.
      parent: `[n]` the parent history.
      actor: `[n]` bits as in `games.game.HistoryLevel`.
      action: `[n]` the player's action at the parent, -1 for none.
      infostate: `[n]` the player's infostate.

    Returns:
      The infosets, `[n]` the infoset (-1 where the player does not act), and `[n]` the player's
      last sequence. They are consistent only with perfect recall, which `contract` checks.
    """
    acts = np.nonzero(actor & ACTOR_BIT[player])[0]
    group, count = dense_ids(infostate[acts])
    infoset = np.full(len(parent), -1, np.int32)
    infoset[acts] = group
    history = acts[first_positions(group, count)]
    # Provisional ids: infosets by infostate, sequences by (infoset, action) from 1.
    moved = np.nonzero(action >= 0)[0]
    taken = action[moved].astype(np.int64)
    width = int(taken.max(initial=0)) + 1
    code = infoset[parent[moved]].astype(np.int64) * width + taken
    dense_code, num_taken = dense_ids(code)
    last = _last_sequence(offset, parent, moved, dense_code + 1)
    values = np.empty(num_taken, np.int64)
    values[dense_code] = code
    owner, taken = values // width, values % width
    num_actions = np.bincount(owner, minlength=count)
    depth = _depth(np.append(-1, owner)[last[history]])
    order, rank, renumber = _final_numbers(depth, num_actions, owner)
    sequence_action = np.full(1 + num_taken, -1, np.int32)
    sequence_action[renumber[1:]] = taken
    sequence_infoset = np.full(1 + num_taken, -1, np.int32)
    sequence_infoset[renumber[1:]] = rank[owner]
    infosets = Infosets(
        depth=depth[order],
        num_actions=num_actions[order],
        first_sequence=1 + np.cumsum(num_actions[order]) - num_actions[order],
        parent=renumber[last[history]][order],
        history=history[order],
        action=sequence_action,
        infoset=sequence_infoset,
    )
    infoset[acts] = rank[group]
    return infosets, infoset, renumber.astype(np.int32)[last]


def _last_sequence(offset: IntArray, parent: IntArray, moved: IntArray, sequence: IntArray) -> IntArray:
    """`[n]` last sequence of every history, given histories `moved[m]` and the sequences they end with."""
    last = np.zeros(len(parent), np.int32)
    last[moved] = sequence
    bounds = np.searchsorted(moved, offset).tolist()
    ends = offset.tolist()
    for level in range(1, len(ends) - 1):
        begin, end = ends[level], ends[level + 1]
        num_moved = bounds[level + 1] - bounds[level]
        if num_moved < end - begin:
            above = last[parent[begin:end]]
            own = last[begin:end]
            last[begin:end] = np.where(own > 0, own, above) if num_moved else above
    return last


def _depth(parent: IntArray) -> IntArray:
    """`[I]` number of infosets above each infoset, given the next one above (-1 for none)."""
    above = np.append(parent, -1)  # -1 is its own parent
    depth = np.zeros(len(parent), np.int32)
    ancestor = parent
    while (has_ancestor := ancestor >= 0).any():
        depth += has_ancestor
        ancestor = above[ancestor]
    return depth


def _final_numbers(
    depth: IntArray, num_actions: IntArray, owner: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Renumbers infosets by (depth, number of actions), so that equal ones are adjacent.

    Args:
      depth: `[I]` depth of each infoset.
      num_actions: `[I]` number of actions of each infoset.
      owner: `[Q]` the infoset of each non-empty sequence, ascending.

    Returns:
      `[I]` the infosets in their new order, `[I]` the new id of each infoset, and `[1 + Q]` that of each
      sequence.
    """
    order = np.lexsort((num_actions, depth))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    before = np.cumsum(num_actions[order]) - num_actions[order]
    nth = np.arange(len(owner)) - (np.cumsum(num_actions) - num_actions)[owner]
    return order, rank, np.append(0, 1 + before[rank[owner]] + nth)
