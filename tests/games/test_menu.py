"""Menus: the remaining histories by definition, the same games by other means, and errors."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from jaxgadget.games.abstraction import Abstraction
from jaxgadget.games.examples import coin_toss, off_tree_coin_toss
from jaxgadget.games.game import Budget, Game
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.leduc.no_limit import NoLimitLeduc
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.menu import MenuAbstraction, read_menu
from jaxgadget.games.registry import load
from jaxgadget.policy.exact import solve_exactly
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.tree.matching import match_histories, same_actions
from jaxgadget.util.arrays import IntArray

POT = ["Fold", "Call", "Bet 1", "AllIn"]
LARGE = NoLimitLeduc(bets="1/2-1-2-a", max_raises=2, suit_isomorphism=True)


def same_partition(a: IntArray, b: IntArray) -> bool:
    pairs = len(np.unique(np.stack([a, b]), axis=1).T)
    return pairs == len(np.unique(a)) == len(np.unique(b))


def kept_by_definition(
    tree: HistoryTree, menus: Mapping[int, Sequence[int]], times: int = 0, who: int = 0
) -> list[tuple]:
    """Moves of the histories without a departure from the menu, or with at most so many by one player."""
    kept = []
    for h in range(tree.num_histories):
        path = [h]
        while path[-1]:
            path.append(int(tree.parent[path[-1]]))
        left = [
            sum(tree.action[p, g] >= 0 and tree.action[p, g] not in menus.get(p, range(99)) for g in path)
            for p in (0, 1)
        ]
        if left[who] <= times and left[1 - who] == 0:
            kept.append(tree.moves(h))
    return kept


@pytest.mark.parametrize(
    ("game", "menus"),
    [
        (LeducPoker(suit_isomorphism=True), {0: [0, 1]}),
        (LeducPoker(suit_isomorphism=True), {0: [0, 1], 1: [0, 1, 2]}),
        (NoLimitLeduc(bets="1/2-1-a", stack=5), {0: [0, 1, 3], 1: [0, 1, 4]}),
        (Goofspiel(num_cards=3), {0: [0, 1, 2], 1: [0, 1, 2]}),  # both act at once
        (coin_toss(), {0: [3]}),
        (coin_toss(), {1: [0]}),
    ],
    ids=lambda part: str(getattr(part, "name", part)),
)
@pytest.mark.parametrize("times", [0, 1, 2])
def test_histories_and_infosets_are_those_that_are_left(game: Game, menus: dict[int, list[int]], times: int):
    whole = enumerate_game(game)
    who = next(iter(menus))
    tree = enumerate_game(MenuAbstraction(game, menus, off_tree=times, off_tree_player=who))
    assert [tree.moves(h) for h in range(tree.num_histories)] == kept_by_definition(whole, menus, times, who)
    match = match_histories(tree, whole)
    for field in ("actor", "chance", "payoff", "num_moves"):
        np.testing.assert_array_equal(getattr(tree, field), getattr(whole, field)[match], err_msg=field)
    np.testing.assert_array_equal(tree.action, whole.action[:, match])
    for player in (0, 1):
        assert same_partition(tree.infostate[player], whole.infostate[player, match])


def test_a_menu_of_bets_is_the_game_with_those_bets():
    """Equal except for action ids: histories by name, infosets by string, and the value."""
    tree = enumerate_game(MenuAbstraction(LARGE, {0: POT, 1: POT}))
    small = enumerate_game(NoLimitLeduc(bets="1-a", max_raises=2, suit_isomorphism=True))
    np.testing.assert_array_equal(match_histories(tree, small), np.arange(small.num_histories))
    np.testing.assert_array_equal(tree.payoff, small.payoff)
    assert tree.infoset_names == small.infoset_names
    assert same_actions(small.game, LARGE, 0).tolist() == [0, 1, 3, 5, -1]
    assert same_actions(LARGE, small.game, 1).tolist() == [0, 1, -2, 2, -2, 3, -1]
    assert solve_exactly(tree).value == pytest.approx(solve_exactly(small).value, abs=1e-12)


def test_one_player_may_have_everything():
    tree = enumerate_game(MenuAbstraction(LARGE, {1: POT}))
    assert {int(a) for a in tree.action[0] if a >= 0} == set(range(6))
    assert {int(a) for a in tree.action[1] if a >= 0} == {0, 1, 3, 5}


def test_levels_deepen_until_nothing_is_left_out():
    """Each level contains the previous one; with as many levels as decisions it is the whole game."""
    menus = {0: POT}
    trees = [enumerate_game(MenuAbstraction(LARGE, menus, off_tree=k, off_tree_player=0)) for k in range(5)]
    for smaller, larger in itertools.pairwise(trees):
        assert smaller.num_histories < larger.num_histories or larger.num_histories == 13_669
        assert (match_histories(smaller, larger) >= 0).all()
    assert trees[-1].num_histories == 13_669


def test_only_some_actions_may_be_off_the_tree():
    menus = {0: POT, 1: POT}
    half = MenuAbstraction(LARGE, menus, off_tree=2, off_tree_player=1, off_tree_actions=["Bet 1/2"])
    tree = enumerate_game(half)
    used = {int(a) for a in tree.action[1] if a >= 0}
    assert used == {0, 1, 2, 3, 5} and half.off_tree_actions == (2,)
    nothing = MenuAbstraction(LARGE, menus, off_tree=1, off_tree_player=1, off_tree_actions=[])
    none = enumerate_game(MenuAbstraction(LARGE, menus))
    np.testing.assert_array_equal(enumerate_game(nothing).parent, none.parent)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_truncated_menus_are_the_upper_part_and_list_no_more(depth: int):
    menus = {0: POT, 1: POT}
    whole, tree = (enumerate_game(MenuAbstraction(LARGE, menus), depth=d) for d in (None, depth))
    match = match_histories(tree, whole)
    assert (match >= 0).all() and tree.is_truncated
    for player in (0, 1):
        assert same_partition(tree.infostate[player], whole.infostate[player, match])
    budget = Budget("menu")
    list(MenuAbstraction(LARGE, menus).levels(budget))
    assert budget.num_histories == whole.num_histories
    budget = Budget("menu")
    generated = MenuAbstraction(LARGE, menus).levels(budget)
    next(generated)
    generated.send(np.ones(1, np.bool_))
    assert budget.num_histories == 1 + 3


def test_a_small_menu_of_a_game_without_end():
    """Only lines on the menu are enumerated."""
    huge = NoLimitLeduc(bets="1/4-1/2-3/4-1-3/2-2-3-a", stack=10**9, max_raises=100)
    menus = {0: ["Fold", "Call", "AllIn"], 1: ["Fold", "Call", "AllIn"]}
    tree = enumerate_game(MenuAbstraction(huge, menus), max_histories=20_000)
    small = enumerate_game(NoLimitLeduc(bets="a", stack=10**9, max_raises=100))
    np.testing.assert_array_equal(tree.parent, small.parent)


@pytest.mark.parametrize(
    "game",
    [
        MenuAbstraction(LARGE, {0: POT, 1: POT}),
        MenuAbstraction(LARGE, {1: POT}, off_tree=2, off_tree_player=1),
        MenuAbstraction(LARGE, {0: POT}, off_tree=1, off_tree_player=0, off_tree_actions=[2]),
        MenuAbstraction(LARGE, {0: POT}, off_tree=1, off_tree_player=0, off_tree_actions=[]),
        MenuAbstraction(MenuAbstraction(LARGE, {0: POT}), {1: POT}),
        MenuAbstraction(NoLimitLeduc(), {}),
        MenuAbstraction(KuhnPoker(), {0: ["Pass"]}, off_tree_player=0, off_tree_actions=["Bet"]),
        off_tree_coin_toss(1.0, off_tree=1),
    ],
    ids=lambda game: game.name,
)
def test_the_name_makes_the_game_again(game: MenuAbstraction):
    again = load(game.name)
    assert isinstance(again, MenuAbstraction) and again.name == game.name
    assert vars(again) == {**vars(game), "game": again.game} and again.game.name == game.game.name


def test_names_of_actions_may_stand_in_the_name():
    spec = (
        "menu(game=no_limit_leduc(bets=1/2-1-a),actions_0=Fold|Call|Bet 1|AllIn,off_tree=1,off_tree_player=0)"
    )
    game = load(spec)
    assert game.name == (
        "menu(actions_0=0|1|3|4,game=no_limit_leduc(bets=1/2-1-a),off_tree=1,off_tree_player=0)"
    )
    assert (
        load("menu(game=openspiel:kuhn_poker,actions_1=0)").name
        == "menu(actions_1=0,game=openspiel:kuhn_poker())"
    )


def test_sizes_and_cuts_are_the_games():
    game = MenuAbstraction(LARGE, {0: POT})
    assert game.bet_fraction((0, 1), 2) == LARGE.bet_fraction((0, 1), 2) == 0.5
    assert MenuAbstraction(KuhnPoker(), {}).bet_fraction((0, 1), 1) is None
    assert Abstraction(LARGE, lambda player, infostate: infostate).bet_fraction((0, 1), 5) == 6
    assert set(game.cuts()) == {"flop", "before-flop"}
    assert game.action_string(0, 2) == "Bet 1/2" and game.num_actions == 6


@pytest.mark.parametrize(
    ("menus", "options", "message"),
    [
        ({2: POT}, {}, "menus="),
        ({0: []}, {}, "player 0"),
        ({0: ["Bet 3"]}, {}, "menus[0]: 'Bet 3' is no action of no_limit_leduc("),
        ({0: POT}, {"off_tree": 1}, "off_tree="),
        (
            {0: POT},
            {"off_tree": 1, "off_tree_player": 0, "off_tree_actions": ["Bet 2", "Bet 1"]},
            "off_tree_actions",
        ),
    ],
)
def test_bad_menus(menus: dict[int, list[str]], options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=re.escape(message)):
        MenuAbstraction(LARGE, menus, **options)


def test_a_menu_that_leaves_nothing_is_refused():
    game = MenuAbstraction(NoLimitLeduc(stack=5), {1: ["Bet 1", "AllIn"]})
    expected = r"the menu leaves player 1 no legal action after history \(0, 1, 3\); add"
    with pytest.raises(ValueError, match=expected):
        enumerate_game(game)
    assert enumerate_game(game, depth=1).num_leaves > 0, "it is not asked for what is not enumerated"


@pytest.mark.parametrize(
    ("text", "menu"),
    [
        ("1-a", ("Fold", "Call", "Bet 1", "AllIn")),
        ("200%, 50%,a", ("Fold", "Call", "Bet 1/2", "Bet 2", "AllIn")),
        ("2-1/2", ("Fold", "Call", "Bet 1/2", "Bet 2")),
        ("0.5", ("Fold", "Call", "Bet 1/2")),
        ("a", ("Fold", "Call", "AllIn")),
        ("Bet 1", ("Fold", "Call", "Bet 1")),
        ("Call | Bet 1", ("Call", "Bet 1")),
    ],
)
def test_menus_as_they_are_typed(text: str, menu: tuple[str, ...]):
    assert read_menu(LARGE, 0, text, "--menu") == menu


@pytest.mark.parametrize(
    ("text", "shown"), [("2.5x", "Multiple(factor=2.5)"), ("33%,a", "Bet 0.33"), ("", "''")]
)
def test_sizes_that_are_no_bets(text: str, shown: str):
    with pytest.raises(ValueError, match="Bet 1/2, Bet 1, Bet 2, AllIn") as error:
        read_menu(LARGE, 0, text, "--menu")
    assert shown in str(error.value)
