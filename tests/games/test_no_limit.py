"""No-limit Leduc poker compared with OpenSpiel's universal_poker and by hand; sizes and errors."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.parameters import read_bets
from jaxgadget.games.registry import load
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.tree.cut import cut
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.arrays import IntArray

UNCAPPED = 100
MENU = "1/4-1/2-3/4-1-3/2-2-3-a"


def universal_poker(stack: int, abstraction: str, starting_player: int = 0, ranks: int = 3) -> str:
    """OpenSpiel's game string, in which players are numbered from 1."""
    first = f"{starting_player + 1} {starting_player + 1}"
    return (
        f"universal_poker(betting=nolimit,bettingAbstraction={abstraction},blind=1 1,stack={stack} {stack},"
        f"firstPlayer={first},numPlayers=2,numRounds=2,numRanks={ranks},numSuits=2,numHoleCards=1,"
        "numBoardCards=0 1)"
    )


def same_partition(a: IntArray, b: IntArray) -> bool:
    pairs = len(np.unique(np.stack([a, b]), axis=1).T)
    return pairs == len(np.unique(a)) == len(np.unique(b))


@pytest.mark.parametrize(
    ("stack", "starting_player", "ranks"),
    [(2, 0, 3), (3, 0, 3), (4, 0, 3), (5, 1, 3), (7, 0, 3), (3, 1, 5)],
)
def test_pot_and_all_in_is_openspiels_game(stack: int, starting_player: int, ranks: int):
    pytest.importorskip("pyspiel")
    assert_equal_to_openspiels(stack, starting_player, ranks)


def assert_equal_to_openspiels(stack: int, starting_player: int, ranks: int) -> HistoryTree:
    """For every history: the actor, moves by name, chance, payoffs, and the acting player's knowledge."""
    game = NoLimitLeduc(
        stack=stack, max_raises=UNCAPPED, starting_player=starting_player, num_ranks=ranks, bets="a-1"
    )
    tree = enumerate_game(game)
    theirs = enumerate_game(load("openspiel:" + universal_poker(stack, "fcpa", starting_player, ranks)))
    for field in ("level_offset", "parent", "actor", "num_moves"):
        np.testing.assert_array_equal(getattr(tree, field), getattr(theirs, field), err_msg=field)
    # A pot-sized bet of the whole stack is all-in here, and a pot-sized bet in OpenSpiel.
    action = tree.action.copy()
    bets_all_in = (theirs.action == 2) & (tree.action == 3)
    bets_all_in[2] = False
    action[bets_all_in] = 2
    np.testing.assert_array_equal(action, theirs.action)
    for h in np.nonzero(bets_all_in.any(axis=0))[0].tolist():
        assert game.bet_fraction(tree.moves(int(tree.parent[h])), 3) == 1
    np.testing.assert_allclose(tree.chance, theirs.chance, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(tree.payoff, theirs.payoff)
    for player in (0, 1):
        acts = tree.infoset[player] >= 0
        assert same_partition(tree.infoset[player, acts], theirs.infoset[player, acts])
        for action in set(np.unique(theirs.action[player]).tolist()) - {-1}:
            name = game.action_string(player, action).replace("Bet 1", "Bet")
            assert theirs.game.action_string(player, action) == f"player={player} move={name}"
    return tree


@pytest.mark.parametrize(
    ("stack", "histories", "infosets", "value"),
    [(7, 5797, 264, -0.06992496971308931), (13, 12877, 576, -0.0659450950920632)],
)
def test_published_values(stack: int, histories: int, infosets: int, value: float):
    tree = enumerate_game(NoLimitLeduc(stack=stack, max_raises=UNCAPPED))
    assert tree.num_histories == histories and [len(rows) for rows in tree.infosets] == [infosets, infosets]
    assert solve_exactly(tree).value == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("stack", [11, 14])
def test_minimum_raises_are_openspiels(stack: int):
    """After every line of bets, exactly the bets with a legal number of chips are offered."""
    pyspiel = pytest.importorskip("pyspiel")
    theirs = pyspiel.load_game(universal_poker(stack, "fullgame"))
    game = NoLimitLeduc(stack=stack, bets=MENU, max_raises=UNCAPPED)
    sizes, _ = read_bets("", MENU)
    too_small = 0

    def walk(state, moves: tuple[int, ...], betting):
        nonlocal too_small
        if state.is_terminal():
            return
        if state.is_chance_node():
            card = state.chance_outcomes()[0][0]
            below = betting if len(moves) < 2 else game.betting.second_round(betting)
            walk(state.child(card), (*moves, card), below)
            return
        stakes = max(betting.paid)
        legal = game.betting.legal_actions(betting)
        offered = [stakes + game.betting.raise_of(action, betting) for action in legal if action > 1]
        wanted = {stakes + round(size * 2 * stakes) for size in sizes} | {stack}
        raises_to = set(state.legal_actions()) - {0, 1}
        assert offered == sorted(wanted & raises_to), moves
        assert (0 in legal) == (0 in state.legal_actions()) and 1 in legal
        too_small += any(stakes < chips < min(raises_to, default=0) for chips in wanted)
        for action in legal:
            chips = max(betting.paid) + game.betting.raise_of(action, betting)
            after = game.betting.after(action, betting, False)
            walk(state.child(action if action < 2 else chips), (*moves, action), after)

    walk(theirs.new_initial_state(), (), game.betting.start())
    assert too_small > 0, "the minimum raise never mattered"


SIZES = [
    ("stack=13,bets=1-a,max_raises=3", 2_677, 180),
    ("stack=13,bets=1/2-1-2-a,max_raises=2", 13_669, 924),
    (f"stack=20,bets={MENU},max_raises=2,min_raise=chip", 91_327, 5_952),
    (f"stack=20,bets={MENU},max_raises=2", 79_357, 5_178),
    ("stack=13,bets=1/2-1-2-a,max_raises=2,num_ranks=6", 116_113, 3_612),
]


@pytest.mark.parametrize(("parameters", "histories", "infosets"), SIZES)
def test_published_sizes(parameters: str, histories: int, infosets: int):
    tree = enumerate_game(load(f"no_limit_leduc({parameters},suit_isomorphism=True)"))
    assert tree.num_histories == histories
    assert [len(rows) for rows in tree.infosets] == [infosets, infosets]


def returns_of(game: NoLimitLeduc) -> dict[tuple[int, ...], float]:
    tree = enumerate_game(game)
    return {tree.moves(h): float(tree.payoff[h]) for h in tree.terminals.tolist()}


def test_payoffs_by_hand():
    """Cards 0 and 1 are of rank 0, 2 and 3 of rank 1, 4 and 5 of rank 2."""
    fold, call, half, pot, all_in = range(5)
    payoff = returns_of(NoLimitLeduc(stack=13, bets="1/2-1-a", max_raises=2))
    assert payoff[0, 2, half, fold] == 1  # player 1 loses its ante
    assert payoff[0, 2, half, pot, fold] == -2  # 1 + 1
    assert payoff[0, 2, half, pot, call, 1, call, call] == 6  # raised by the pot of 4 to 6; player 0 pairs
    assert payoff[0, 2, half, pot, call, 4, call, half, call] == -12  # raised by half of 12
    assert payoff[0, 2, all_in, call, 4] == -13 and payoff[0, 2, all_in, call, 1] == 13
    assert payoff[0, 2, call, call, 4, call, all_in, fold] == -1
    assert payoff[2, 3, pot, call, 4, call, call] == 0  # equal ranks


def test_the_cap_counts_the_raises_of_both_in_a_round():
    tree = enumerate_game(NoLimitLeduc(stack=50, bets="1/2-a", max_raises=1))
    lines = {tree.moves(h)[2:] for h in range(tree.num_histories)}
    assert (2, 1, 0, 2) in lines and (2, 2) not in lines and (2, 3) not in lines


def test_bets_are_whole_chips_and_those_of_the_same_chips_are_one():
    """After calling, the pot is 2: 1/4 is half a chip, so no bet; 3/4 is 1.5 chips, rounded to 2, as is 1."""
    game = NoLimitLeduc(bets="1/4-1/2-3/4-1-2-a", stack=13)
    start = game.betting.start()
    names = [game.action_string(0, action) for action in game.betting.legal_actions(start)]
    assert names == ["Call", "Bet 1/2", "Bet 1", "Bet 2", "AllIn"]
    assert [game.betting.raise_of(action, start) for action in (3, 4, 5)] == [1, 2, 2]
    without = NoLimitLeduc(bets="3/4-7/8", stack=13)  # 1.5 and 1.75 chips
    assert without.betting.legal_actions(start) == (1, 3)
    short = NoLimitLeduc(bets="1-2-a", stack=3)  # the pot-sized bet is all-in
    assert [short.action_string(0, a) for a in short.betting.legal_actions(start)] == ["Call", "AllIn"]


def test_a_bet_of_the_whole_stack_is_legal_without_all_in():
    game = NoLimitLeduc(bets="1", stack=3)
    assert game.betting.legal_actions(game.betting.start()) == (1, 2)
    assert returns_of(game)[0, 2, 2, 1, 1] == 3


def test_bet_fractions():
    game = NoLimitLeduc(bets="1/4-1/2-1-a", stack=13)
    assert [game.bet_fraction((0, 2), action) for action in (1, 3, 4, 5)] == [0.0, 0.5, 1.0, 6.0]
    after = (0, 2, 4)  # a bet of 2 on 1: the pot is 6 after calling
    assert [game.bet_fraction(after, action) for action in (0, 1, 3, 4, 5)] == [None, 0, 0.5, 1.0, 10 / 6]


@pytest.mark.parametrize("starting_player", [0, 1])
@pytest.mark.parametrize("bets", ["1-a", "1/2-1-2-a"])
def test_infostate_strings_are_one_each_and_the_same_with_other_bets(starting_player: int, bets: str):
    game = NoLimitLeduc(bets=bets, max_raises=2, stack=7, starting_player=starting_player)
    tree = enumerate_game(game)
    for player in (0, 1):
        assert len(set(tree.infostate_strings[player])) == len(tree.infosets[player])
    larger = enumerate_game(NoLimitLeduc(bets=MENU, max_raises=2, stack=7, starting_player=starting_player))
    for player in (0, 1):
        assert set(tree.infostate_strings[player]) <= set(larger.infostate_strings[player])
    sizes = [Fraction(money) for money in re.findall(r"\[Pot: (\d+)\]", tree.infostate_strings[0][-1])]
    assert all(2 <= pot <= 14 for pot in sizes)


def test_cuts_are_leducs():
    """The flop without all-in hands, for which the public card is decisive and no player acts."""
    tree = enumerate_game(NoLimitLeduc(stack=5, max_raises=1))
    flop, before = (tree.game.cuts()[name](tree) for name in ("flop", "before-flop"))
    after = np.isin(tree.parent, np.nonzero(before))
    all_in = after & (tree.actor == TERMINAL)
    assert (tree.actor[before] == CHANCE).all() and all_in.any()
    assert (flop == after & ~all_in).all() and np.isin(tree.actor[flop], ACTOR_BIT).all()
    assert all(3 in tree.moves(h)[2:-1] for h in np.nonzero(all_in)[0].tolist())
    for name in ("flop", "before-flop"):
        assert cut(tree, name).num_subgames > 0


HUGE = NoLimitLeduc(bets=MENU, stack=10**9, max_raises=100)


def test_only_the_lines_that_go_on_are_listed():
    """With a billion chips the complete betting could not be enumerated."""
    trees = [enumerate_game(HUGE, depth=depth) for depth in (0, 1)]
    assert [tree.num_histories for tree in trees] == sorted(tree.num_histories for tree in trees)
    assert trees[1].num_leaves == 30 * 7  # with 2 chips 1/4 is no bet, and 3/4 equals 1
    with pytest.raises(ValueError, match="histories"):
        enumerate_game(HUGE, max_histories=20_000)


def test_the_name_is_canonical():
    game = load("no_limit_leduc(bets=a-0.50-2-1,stack=20)")
    assert game.name == "no_limit_leduc(bets=1/2-1-2-a,stack=20)"
    assert load(game.name) == game
