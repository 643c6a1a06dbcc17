"""Games without some of their histories."""

from __future__ import annotations

import numpy as np
import pytest

from jaxgadget.games.game import TooLargeError
from jaxgadget.games.pruned import PrunedGame
from jaxgadget.games.registry import load
from jaxgadget.tree.history import enumerate_game
from jaxgadget.tree.matching import match_histories


def test_pruned_histories_are_removed_with_their_descendants_only():
    tree = enumerate_game(load("kuhn_poker"))
    no_bet = ~((tree.action[0] == 1) & (tree.num_moves == 1))
    pruned = enumerate_game(PrunedGame(tree.game, no_bet, "without player 0's first bet"))
    dropped = ~no_bet
    for history in range(1, tree.num_histories):
        dropped[history] |= dropped[tree.parent[history]]
    assert 0 < dropped.sum() < tree.num_histories
    match = match_histories(tree, pruned)
    np.testing.assert_array_equal(match >= 0, ~dropped)
    assert pruned.num_histories == (~dropped).sum()
    np.testing.assert_array_equal(pruned.payoff[match[~dropped]], tree.payoff[~dropped])
    assert pruned.game.name == "kuhn_poker without player 0's first bet"
    assert set(pruned.infoset_names[1]) == {name for name in tree.infoset_names[1] if name.endswith("p")}
    assert set(pruned.infoset_names[0]) == set(tree.infoset_names[0])


def test_pruned_histories_do_not_count():
    tree = enumerate_game(load("kuhn_poker"))
    no_bet = ~((tree.action[0] == 1) & (tree.num_moves == 1))
    game = PrunedGame(tree.game, no_bet, "without a bet")
    size = enumerate_game(game).num_histories
    with pytest.raises(TooLargeError, match="max_histories"):
        enumerate_game(game, max_histories=size // 2)
