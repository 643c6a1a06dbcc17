"""A gadget to start with, chosen by the size of the game."""

from __future__ import annotations

from typing import NamedTuple

from jaxgadget.core.devices import HOME
from jaxgadget.core.memory import FOREST_BYTES, GAME_ARRAYS, find_memory
from jaxgadget.gadgets.alternative import ContinuationValues
from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.prior import BlueprintPrior
from jaxgadget.gadgets.root_gadgets import MaxMargin, Resolving
from jaxgadget.tree.cut import CutSpec, cut
from jaxgadget.tree.forest import build_forest
from jaxgadget.tree.public import Tree, check_tree
from jaxgadget.util.memory import megabytes

CONTINUATION_ITERATIONS = 300
"""Iterations of the continuation: the smallest of 10, 30, 100, 300 and 1,000 with which resolving closed at
least .985 of the mean distance to the optimal continuation in each game of `experiments/continuation`."""


class Recommendation(NamedTuple):
    """A gadget, with the reason for the choice.

    Attributes:
      gadget: the gadget.
      reason: the reason, in one sentence.
    """

    gadget: Gadget
    reason: str


def recommended(tree: Tree, where: CutSpec, *, memory_limit: int | None = None) -> Recommendation:
    """Chooses a gadget for all subgames below a cut.

    A safe gadget is limited by the values that it promises to the opponent. If all subgames fit in memory at
    once, the choice is resolving with the values of the continuation after 300 iterations: in seven games of
    8,181 to 255,617 histories it closed .987 to .998 of the distance from the blueprint to the optimal
    continuation, and made none of 381 blueprints worse by more than a thousandth. Otherwise it is max-margin
    with best-response values, which closed more than resolving with them in the three largest of these games
    (`experiments/continuation`). Both have the blueprint prior and a bound on exploitability.

    Args:
      tree: the game, in history or hand form.
      where: the cut, as in `refine`.
      memory_limit: maximum number of bytes of a solve; by default as in `Solver`.
    """
    subgames = cut(check_tree(tree), where)
    sequences = build_forest(tree, subgames).form.num_sequences
    needed = round(sequences * (FOREST_BYTES + 8 * GAME_ARRAYS[4]))
    available = find_memory(HOME) if memory_limit is None else memory_limit
    room = f"all subgames below {subgames.name} take about {megabytes(needed)} at once"
    if available is None or needed <= available:
        values = ContinuationValues(CONTINUATION_ITERATIONS)
        return Recommendation(
            Resolving(BlueprintPrior(), alternative=values),
            f"Resolving with the continuation's values after {CONTINUATION_ITERATIONS} iterations: {room}.",
        )
    return Recommendation(
        MaxMargin(BlueprintPrior()),
        f"Max-margin with best-response values: {room}, but {megabytes(available)} is available.",
    )
