"""Proposition 4.1 of GS2 as printed and as corrected, in a game for which its maximum is too small."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from experiments.study import Settings
from jaxgadget import Knowledge, MaxMargin, NoPrior, Policy, Solver, enumerate_game, refine
from jaxgadget.games.examples import Chance, Outcome, TreeRules, Turn
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

NAME = "proposition"
MAX_HANDS, SMOKE_MAX_HANDS = 8, 3
WON, LOST = 0.1, -1.0


def guesses(num_hands: int) -> StepwiseGame:
    """The opponent has one of several hands; the player guesses it, or stays safe for 0.

    A correct guess pays 0.1, a wrong one −1. The value is 0: with two or more hands guessing does not pay.
    """

    def guess(hand: int) -> Turn:
        pays = {"safe": 0.0} | {f"r{j}": WON if j == hand else LOST for j in range(num_hands)}
        return Turn(0, pays)

    outcomes = [Outcome(1 / num_hands, guess(j), (None, str(j))) for j in range(num_hands)]
    actions = ("safe", *(f"r{j}" for j in range(num_hands)))
    return StepwiseGame(TreeRules(f"guesses {num_hands}", actions, Chance(outcomes), "subgame", 0))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every number of hands: exact exploitability, and both forms of the bound."""
    most = settings.pick(MAX_HANDS, SMOKE_MAX_HANDS)
    return pd.DataFrame([_measure(count) for count in range(2, most + 1)])


@dataclasses.dataclass(frozen=True)
class EachOnce:
    """Considers one of the opponent's infostates in each draw: the exact uniform draw of one."""

    draws: int
    name: ClassVar[str] = "each once"

    def consider(self, values: FloatArray, subgame: IntArray) -> BoolArray:
        """As many draws as infostates, of one subgame."""
        return np.repeat(np.eye(len(subgame), dtype=np.bool_), values.shape[1], axis=1)


def _measure(num_hands: int) -> dict[str, Any]:
    tree = enumerate_game(guesses(num_hands))
    names = [tree.game.action_string(0, action) for action in range(num_hands + 1)]
    safe = Policy.from_function(tree, lambda *_: [float(name == "safe") for name in names], "safe")
    found = refine(
        tree,
        "subgame",
        safe,
        MaxMargin(NoPrior()),
        knowledge=Knowledge(order=1, generate=EachOnce(num_hands), combine="together"),
        solver=Solver(algorithm="lp", progress=False),
        value=(0.0, 0.0),
    )
    reach, considered, most_lost = 1 / num_hands, 1 / num_hands, 0.0 - LOST
    term = reach * (1 - considered) * most_lost  # one term per infostate of the opponent
    return {
        "hands": num_hands,
        "blueprint_exploitability": found.blueprint_exploitability[0],
        "mixture_exploitability": found.refined_exploitability[0],
        "printed_bound": term,
        "mended_bound": num_hands * term,
    }


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """One of the opponent's infostates drawn uniformly, and only that one considered; max-margin, exact.

    The mixture's exploitability, and the bound of Proposition 4.1: the blueprint's plus the largest
    (`printed`), or the sum (`mended`), of reach × (1 − ω) × δ over the opponent's infostates.
    """
    return frame
