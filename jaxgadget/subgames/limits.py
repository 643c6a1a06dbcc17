"""Limits of lookaheads: leaf histories below a cut, and a check that the payoffs there fit in memory.

A lookahead is a forest that ends at a limit (`build_forest(tree, where, limit=…)`).
"""

from __future__ import annotations

import sys

import numpy as np

from jaxgadget.core.devices import Placement
from jaxgadget.core.memory import find_memory
from jaxgadget.games.game import ACTOR_BIT, SIMULTANEOUS
from jaxgadget.tree.cut import Cut, first_below
from jaxgadget.tree.public import Tree
from jaxgadget.util.arrays import BoolArray, IntArray
from jaxgadget.util.memory import megabytes

CELL_BYTES = 490
"""Bytes of host and device memory for each payoff during transfer; measured in Goofspiel 6: 350 with 10
entries, 490 with 3."""

CHUNK = 1 << 22
"""Histories processed at a time: a temporary array as long as a large tree takes hundreds of megabytes."""


def most_payoffs(placement: Placement, memory_limit: int | None = None) -> int:
    """Maximum number of payoffs that fit in memory, K² for each leaf and one for each terminal."""
    available = find_memory(placement) if memory_limit is None else memory_limit
    return sys.maxsize if available is None else available // CELL_BYTES


def check_room(leaves: IntArray, num_entries: int, game: str, placement: Placement) -> None:
    """Raises ValueError if the values at the leaves need more memory than the devices have."""
    payoffs = len(leaves) * num_entries**2
    if payoffs > (most := most_payoffs(placement)):
        raise ValueError(
            f"num_entries={num_entries}: a lookahead of {game} has {payoffs} payoffs, which take "
            f"{megabytes(payoffs * CELL_BYTES)}, but {megabytes(most * CELL_BYTES)} is available; expected "
            "fewer entries (K), or a smaller depth"
        )


def limit_by_depth(tree: Tree, where: Cut, depth: int) -> IntArray:
    """Leaf nodes: the first decisions of either player at least `depth` moves below the roots."""
    return first_below(tree, where, _far(tree, where, depth) & ((tree.actor & SIMULTANEOUS) > 0))


def limit_at_decisions(tree: Tree, where: Cut, depth: int, player: int) -> IntArray:
    """Leaf nodes: the next decisions of `player` at least `depth` moves below the roots."""
    return first_below(tree, where, _far(tree, where, depth) & ((tree.actor & ACTOR_BIT[player]) > 0))


def _far(tree: Tree, where: Cut, depth: int) -> BoolArray:
    far = where.root >= 0
    for begin in range(0, len(far), CHUNK):
        root, moves = where.root[begin : begin + CHUNK], tree.num_moves[begin : begin + CHUNK]
        far[begin : begin + CHUNK] &= moves - tree.num_moves[np.maximum(root, 0)] >= depth
    return far


def check_depth(depth: object) -> int:
    """Returns `depth` if it is a whole number of moves, at least 1; raises ValueError otherwise."""
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer) or depth < 1:
        raise ValueError(f"depth={depth!r}: expected a whole number of moves >= 1")
    return int(depth)
