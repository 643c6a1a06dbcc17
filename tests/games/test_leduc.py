"""Features of Leduc poker beyond OpenSpiel's game: cuts, larger decks, other raises."""

import numpy as np
import pytest

from jaxgadget.games.game import CHANCE, TERMINAL
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.tree.history import enumerate_game


@pytest.mark.parametrize(
    ("game", "lines", "cards"),
    [
        (LeducPoker(), 5, 6),
        (LeducPoker(starting_player=1), 5, 6),
        (LeducPoker(suit_isomorphism=True), 5, 3),
        (LeducPoker(max_raises=3), 7, 6),
        (LeducPoker(num_ranks=4, num_suits=1, max_raises=1), 3, 4),
        (LeducPoker(action_mapping=True), 5, 6),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_cuts_are_betting_lines_and_public_cards(game, lines, cards):
    tree = enumerate_game(game)
    cuts = game.cuts()
    assert set(cuts) == {"flop", "before-flop"}
    flop, before = cuts["flop"](tree), cuts["before-flop"](tree)
    # One public state per betting line, and below it one per card.
    assert len(np.unique(tree.public[before])) == lines
    assert len(np.unique(tree.public[flop])) == lines * cards
    assert (tree.actor[before] == CHANCE).all()
    assert not np.isin(tree.actor[flop], (CHANCE, TERMINAL)).any()
    assert np.isin(tree.parent[flop], np.nonzero(before)[0]).all()
    # Nothing else follows two private cards, a round of betting and a chance node.
    assert int(flop.sum()) == int(np.isin(tree.parent, np.nonzero(before)[0]).sum())


def returns_of(game):
    """Player 0's return after every sequence of moves."""
    tree = enumerate_game(game)
    return {tree.moves(h): tree.payoff[h] for h in tree.terminals.tolist()}


def test_larger_deck_by_hand():
    # Ranks 0-3 in three suits; raises of 3 and 5 chips, one a round.
    payoff = returns_of(LeducPoker(num_ranks=4, num_suits=3, raise_sizes="3-5", max_raises=1))
    check, bet, fold, call = 1, 2, 0, 1
    assert payoff[(0, 11, check, check, 1, check, check)] == 1  # rank 0 pairs the public card
    assert payoff[(0, 11, bet, call, 1, bet, call)] == 9
    assert payoff[(0, 11, bet, call, 9, bet, call)] == -9  # player 1 pairs its 3
    assert payoff[(3, 4, bet, call, 5, check, check)] == 0  # both pair
    assert payoff[(3, 4, bet, call, 8, check, check)] == 0  # equal ranks
    assert payoff[(8, 3, check, bet, fold)] == -1
    assert payoff[(8, 3, bet, call, 0, check, bet, fold)] == -4
    assert payoff[(8, 3, bet, call, 0, check, bet, call)] == 9  # the higher rank


def test_suits_do_not_matter():
    """Dealing ranks gives the same game as dealing cards: each rank line has the same chance and payoff."""
    sizes = {"num_ranks": 4, "num_suits": 3, "max_raises": 1}
    cards, ranks = (
        lines_of_ranks(LeducPoker(**sizes), 3),
        lines_of_ranks(LeducPoker(**sizes, suit_isomorphism=True), 1),
    )
    assert cards.keys() == ranks.keys()
    for line, (chance, value) in cards.items():
        assert ranks[line] == (pytest.approx(chance), value)


def lines_of_ranks(game, suits):
    """The chance and payoff of every terminal line, with cards replaced by their ranks."""
    tree = enumerate_game(game)
    lines, result = [()], {}
    for h in range(1, tree.num_histories):
        a, b, card = tree.action[:, h].tolist()
        step = ("deal", card // suits) if card >= 0 else ("act", max(a, b))
        lines.append((*lines[tree.parent[h]], step))
    for h in tree.terminals.tolist():
        chance, value = result.setdefault(lines[h], (0.0, tree.payoff[h]))
        assert value == tree.payoff[h]
        result[lines[h]] = chance + tree.chance[h], value
    return result


def test_strings_of_larger_games_read_like_openspiels():
    game = LeducPoker(num_ranks=5, num_suits=3, raise_sizes="1-10", max_raises=3)
    assert game.infostate_string(1, (14, 3, 2, 2, 2, 1, 12, 1)) == (
        "[Observer: 1][Private: 3][Round 2][Player: 1][Pot: 8][Money: 96 96][Public: 12]"
        "[Round1: 2 2 2 1][Round2: 1]"
    )
    assert game.infostate_string(0, (14, 3)) == (
        "[Observer: 0][Private: 14][Round 1][Player: 0][Pot: 2][Money: 99 99][Round1: ][Round2: ]"
    )
