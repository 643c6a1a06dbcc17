"""Where lookaheads end: leaf histories below a cut; and whether the payoffs there fit into memory.

A lookahead is a forest that ends at a limit (`build_forest(tree, where, limit=…)`).
"""

from __future__ import annotations

import sys

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, SIMULTANEOUS
from jaxgadget.solving.devices import Placement
from jaxgadget.solving.memory import find_memory, megabytes
from jaxgadget.tree.cut import Cut, first_below
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import BoolArray, IntArray

CELL_BYTES = 490
"""What a payoff takes on the host and the device while it is put there: in Goofspiel 6 350 bytes with 10
entries, 490 with 3."""

CHUNK = 1 << 22
"""Histories that are looked at at once: a temporary as long as a large tree is hundreds of megabytes."""


def most_payoffs(placement: Placement, memory_limit: int | None = None) -> int:
    """How many payoffs, K² a leaf and one a terminal, fit in so many bytes; by default in what there is."""
    available = find_memory(placement) if memory_limit is None else memory_limit
    return sys.maxsize if available is None else available // CELL_BYTES


def check_room(leaves: IntArray, num_entries: int, game: str, placement: Placement) -> None:
    """ValueError if the values at the leaves take more memory than there is on the devices."""
    payoffs = len(leaves) * num_entries**2
    if payoffs > (most := most_payoffs(placement)):
        raise ValueError(
            f"num_entries={num_entries}: a lookahead of {game} has {payoffs} payoffs, which take "
            f"{megabytes(payoffs * CELL_BYTES)}, {megabytes(most * CELL_BYTES)} may be taken; expected fewer "
            "entries (K), or a smaller depth"
        )


def limit_by_depth(tree: HistoryTree, where: Cut, depth: int) -> IntArray:
    """Leaf histories: the first decisions of anybody at least `depth` moves below the roots."""
    return first_below(tree, where, _far(tree, where, depth) & ((tree.actor & SIMULTANEOUS) > 0))


def limit_at_decisions(tree: HistoryTree, where: Cut, depth: int, player: int) -> IntArray:
    """Leaf histories: where `player` decides again, at least `depth` moves below the roots."""
    return first_below(tree, where, _far(tree, where, depth) & ((tree.actor & ACTOR_BIT[player]) > 0))


def _far(tree: HistoryTree, where: Cut, depth: int) -> BoolArray:
    far = where.root >= 0
    for begin in range(0, len(far), CHUNK):
        root, moves = where.root[begin : begin + CHUNK], tree.num_moves[begin : begin + CHUNK]
        far[begin : begin + CHUNK] &= moves - tree.num_moves[np.maximum(root, 0)] >= depth
    return far
