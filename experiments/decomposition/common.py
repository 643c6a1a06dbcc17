"""Shared by the three figures: re-solving for both players, Leduc's ranks, colours."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

from jaxgadget import HistoryTree, Policy, Refinement, Solver, refine
from jaxgadget.gadgets.gadget import Gadget

HERE = pathlib.Path(__file__).parent

SAFE, UNSAFE, PAPER = "#0072B2", "#D55E00", "#555555"
"""Colours of the curves and of the paper's numbers (Okabe and Ito 2008)."""


def resolve_both(
    tree: HistoryTree,
    where: str,
    blueprint: Policy,
    gadgets: tuple[Sequence[Gadget], Sequence[Gadget]],
    *,
    iterations: int,
    value: tuple[float, float],
) -> tuple[Policy, tuple[Refinement, Refinement]]:
    """Re-solves all subgames for both players by CFR in float64.

    Args:
      tree: the game's histories.
      where: the cut.
      blueprint: profiles, a lane each.
      gadgets: player 0's and player 1's.
      iterations: iterations of CFR in every gadget game.
      value: bracket of the game's value.

    Returns:
      Profiles in which both players re-solved, lanes as in `Refinement`; and the two refinements.
    """
    first, second = (
        refine(
            tree,
            where,
            blueprint,
            gadgets[player],
            player=player,
            solver=Solver(algorithm="cfr", iterations=iterations, dtype="float64", progress=False),
            value=value,
        )
        for player in (0, 1)
    )
    pair = (first.policy.probabilities[0], second.policy.probabilities[1])
    return Policy(tree, pair, first.policy.labels), (first, second)


def ranks(player: int, infostate: str) -> str:
    """An infostate of Leduc with ranks 0, 1, 2 for cards 0 … 5: suits are irrelevant."""
    return re.sub(r"\[(Private|Public): (\d)\]", lambda card: f"[{card[1]}: {int(card[2]) // 2}]", infostate)
