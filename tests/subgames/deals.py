"""Random games in which only the deal is private: each hand meets few hands of the other player."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from jaxgadget.games.examples import Chance, Outcome, Tree, TreeRules, Turn
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.tree.history import HistoryTree, enumerate_game

NAMES = ("a", "b", "c")


def play(deals: Sequence[tuple[float, tuple[int, int], Tree]], name: str) -> HistoryTree:
    """A game that begins with a deal: its probabilities, both hands, and the actions that follow."""
    outcomes = [Outcome(probability, then, private=hands) for probability, hands, then in deals]
    return enumerate_game(StepwiseGame(TreeRules(name, NAMES, Chance(outcomes))))


@functools.cache
def drawn(seed: int) -> HistoryTree:
    """One player acts, the other answers and may observe the action, and sometimes the first acts again."""
    rng = np.random.default_rng(seed)
    first, public, again = int(rng.integers(2)), bool(rng.integers(2)), bool(rng.integers(2))
    counts = rng.integers(2, 4, size=2)

    def last() -> Tree:
        if not again:
            return float(rng.normal())
        return Turn(first, {name: float(rng.normal()) for name in NAMES[:2]})

    def then() -> Tree:
        answers = [
            Turn(1 - first, {name: last() for name in NAMES[: counts[1]]}, public) for _ in range(counts[0])
        ]
        return Turn(first, dict(zip(NAMES, answers, strict=False)), public)

    pairs = sorted({(int(x), int(y)) for x, y in rng.integers(4, size=(int(rng.integers(4, 9)), 2))})
    weight = rng.dirichlet(np.ones(len(pairs)))
    return play([(float(p), pair, then()) for p, pair in zip(weight, pairs, strict=True)], f"deal {seed}")


@functools.cache
def rounds(
    seed: int, turns: int = 5, begins: int = 0, known: bool = False, shown: int | None = None
) -> HistoryTree:
    """A chain of hands, each of which meets two of the other player's, and alternating moves, some hidden.

    Args:
      seed: seed of payoffs, deals and observations.
      turns: how many moves of two actions.
      begins: the player who moves first.
      known: a player who moves once in public before the deal.
      shown: number of moves after which a coin decides whether the other player's hand is revealed to both.
    """
    rng = np.random.default_rng(seed)
    pairs = [(k // 2, (k + 1) // 2) for k in range(5)]
    weight, public = rng.dirichlet(np.ones(len(pairs))), rng.integers(2, size=turns)

    def then(pair: tuple[int, int], turn: int = 0, tossed: bool = False) -> Tree:
        if turn == turns:
            return float(rng.normal())
        if turn == shown and not tossed:
            sides = pair[1 - begins], None
            return Chance([Outcome(0.5, then(pair, turn, True), public=side) for side in sides])
        children = {name: then(pair, turn + 1) for name in NAMES[:2]}
        return Turn((begins + turn) % 2, children, bool(public[turn]))

    def deal() -> Chance:
        return Chance(
            [Outcome(float(p), then(pair), private=pair) for p, pair in zip(weight, pairs, strict=True)]
        )

    root: Tree = Turn(begins, {name: deal() for name in NAMES[:2]}, True) if known else deal()
    return enumerate_game(StepwiseGame(TreeRules(f"rounds {seed}", NAMES, root)))
