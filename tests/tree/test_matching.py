"""Histories of one tree in another by names of moves, compared with a walk from the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jaxgadget.games.examples import TreeRules, Turn
from jaxgadget.games.game import Game
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.matching import match_histories, same_actions

BETS = ("1-a", "1/2-1-2-a", "2-a", "1/4-1")


def by_names(tree: HistoryTree) -> dict[tuple, int]:
    """Histories by the names of their moves."""
    known: list[tuple] = [()]
    for h in range(1, tree.num_histories):
        first, second, outcome = tree.action[:, h].tolist()
        move = (
            first < 0 or tree.game.action_string(0, first),
            second < 0 or tree.game.action_string(1, second),
            outcome,
        )
        known.append((*known[int(tree.parent[h])], move))
    return {names: h for h, names in enumerate(known)}


PAIRS: list[tuple[Game, Game]] = [
    *(
        (NoLimitLeduc(bets=a, max_raises=2, stack=7), NoLimitLeduc(bets=b, max_raises=2, stack=7))
        for a, b in itertools.permutations(BETS, 2)
    ),
    (Goofspiel(num_cards=3), MenuAbstraction(Goofspiel(num_cards=3), {1: [0, 1, 2]})),
    (KuhnPoker(), KuhnPoker()),
]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda game: game.name)
def test_histories_are_matched_by_the_names_of_moves(first: Game, second: Game):
    tree, other = enumerate_game(first), enumerate_game(second)
    known = by_names(other)
    expected = [known.get(names, -1) for names in by_names(tree)]
    np.testing.assert_array_equal(match_histories(tree, other), expected)


def test_names_that_are_there_twice_are_refused():
    def game(*actions: str) -> StepwiseGame:
        return StepwiseGame(TreeRules("twice", actions, Turn(0, {action: 1.0 for action in actions})))

    class Renamed(MenuAbstraction):
        def action_string(self, player: int, action: int) -> str:
            return "same"

    first = game("same", "other")
    assert same_actions(first, first, 0).tolist() == [0, 1, -1]
    with pytest.raises(ValueError, match="player 0"):
        same_actions(first, Renamed(game("a", "b"), {}), 0)
