"""Public trees of rivers and turns, built from menus."""

import numpy as np
import pytest

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.games.sizes import ALL_IN, parse_sizes
from jaxgadget.holdem import betting
from jaxgadget.holdem.betting import BetMenu, BettingTree, SpotBetting, build_betting
from jaxgadget.holdem.cards import cards_left, parse_board

NEVER = BetMenu(bets=(), raises=())
HALF = BetMenu(bets=(0.5,), raises=())


def river(pot: float, stack: float, first: BetMenu, second: BetMenu | None = None) -> BettingTree:
    return build_betting(SpotBetting(pot, stack, ((first, second or first),)))


def test_a_small_river_in_full():
    tree = river(60, 100, HALF, NEVER)
    assert str(tree).splitlines() == [
        "oop check",
        "  ip check: showdown, 0 more each",
        "oop bet 30",
        "  ip fold: oop wins, 0 more each",
        "  ip call: showdown, 30 more each",
    ]


def test_a_river_with_three_bets_and_two_raises_has_the_known_size():
    """A published tree: 20 decisions, 56 actions, 19 showdowns, 18 folds."""
    tree = river(200, 900, BetMenu())
    decides = np.isin(tree.tree.actor, ACTOR_BIT)
    assert (decides.sum(), len(tree.tree) - 1, tree.shows.sum(), (tree.folded >= 0).sum()) == (20, 56, 19, 18)


def test_a_raise_is_a_share_of_the_pot_after_calling():
    tree = river(200, 900, BetMenu())
    names = [tree.action_name(child) for child in tree.children(tree.find("bet 100"))]
    assert names == ["fold", "call", "raise to 500", "all-in 900"]
    assert tree.put_in[tree.find("bet 100, raise to 500, fold")].tolist() == [100, 500]
    assert tree.put_in[tree.find("bet 100, raise to 500, all-in 900, call")].tolist() == [900, 900]
    assert [tree.action_name(c) for c in tree.children(tree.find("check, all-in 900"))] == ["fold", "call"]


def test_a_raise_is_at_least_as_large_as_the_last():
    tree = river(100, 1000, BetMenu(bets=(1.0,), raises=(0.1,), cap=3))
    assert tree.find("bet 100, raise to 200, raise to 300, call")


def test_a_cap_ends_raising():
    tree = river(100, 10_000, BetMenu(bets=(0.5,), raises=(0.5,), cap=2))
    after = tree.find("bet 50, raise to 150")
    assert [tree.action_name(child) for child in tree.children(after)] == ["fold", "call"]
    tree = river(100, 900, HALF, BetMenu(cap=1))
    assert [tree.action_name(child) for child in tree.children(tree.find("bet 50"))] == ["fold", "call"]


def test_thresholds_add_and_force_all_in():
    assert river(100, 150, BetMenu(bets=(0.5,), raises=(), add_all_in=1.5)).find("all-in 150")
    with pytest.raises(ValueError, match="'all-in 151' is not"):
        river(100, 151, BetMenu(bets=(0.5,), raises=(), add_all_in=1.5)).find("all-in 151")
    # After a bet of 50 and a call, 20 are left for a pot of 200: a tenth.
    assert river(100, 70, BetMenu(bets=(0.5,), raises=(), force_all_in=0.1)).find("all-in 70")
    assert river(100, 70, BetMenu(bets=(0.5,), raises=(), force_all_in=0.09)).find("bet 50")


def test_sizes_that_are_one_are_offered_once():
    tree = river(100, 100, BetMenu(bets=(1.0, 2.0, ALL_IN), raises=()))
    assert [tree.action_name(child) for child in tree.children(0)] == ["check", "all-in 100"]


def test_menus_are_per_player():
    tree = river(100, 100, NEVER, HALF)
    assert [tree.action_name(child) for child in tree.children(0)] == ["check"]
    assert tree.find("check, bet 50, call")


def test_a_turn_deals_a_river_after_each_way_to_close_it():
    left = cards_left(parse_board("Td9d6hQc")).tolist()
    tree = build_betting(SpotBetting(100, 150, ((HALF, NEVER), (HALF, NEVER))), left)
    actor = tree.tree.actor
    assert (actor == CHANCE).sum() == 2
    for line, ends in (("check, check", 3 * 48), ("bet 50, call", 3 * 48)):
        dealt = tree.children(tree.find(line))
        assert tree.card[dealt].tolist() == left
        below = sum(
            tree.tree.actor[node] == TERMINAL and tree.line(node).startswith(line)
            for node in range(len(tree.tree))
        )
        assert below == ends
    assert "48 cards" in str(tree)


def test_a_bet_on_the_river_is_named_by_its_chips_there():
    left = cards_left(parse_board("Td9d6hQc")).tolist()
    tree = build_betting(SpotBetting(100, 500, ((HALF, NEVER), (HALF, NEVER))), left)
    assert tree.put_in[tree.find("bet 50, call, 2c, bet 100, call")].tolist() == [150, 150]


def test_all_in_on_the_turn_is_shown_on_every_river():
    left = cards_left(parse_board("Td9d6hQc")).tolist()
    tree = build_betting(SpotBetting(100, 150, ((BetMenu(bets=(ALL_IN,), raises=()),) * 2,) * 2), left)
    shown = tree.children(tree.find("all-in 150, call"))
    assert len(shown) == 48
    assert tree.shows[shown].all()


def test_shapes_are_equal_where_only_chips_differ():
    assert river(200, 900, BetMenu()).shape == river(100, 450, BetMenu()).shape
    assert river(200, 900, BetMenu()).shape != river(200, 250, BetMenu()).shape


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("50%, 100%,a", (0.5, 1.0, ALL_IN)), ("", ()), ("33.3%", (0.333,)), ("all-in", (ALL_IN,))],
)
def test_sizes_are_read(text: str, sizes: tuple[float, ...]):
    assert parse_sizes(text) == pytest.approx(sizes)


@pytest.mark.parametrize(
    "text",
    [
        "x%",
        "0%",
        "50%,,a",
    ],
)
def test_sizes_that_are_none_are_refused(text: str):
    with pytest.raises(ValueError, match="bets="):
        parse_sizes(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bets": (-1.0,)}, "-1.0 is not a size"),
        ({"raises": (float("nan"),)}, "nan is not a size"),
        ({"bets": "x"}, "bets='x': 'x' is not a size"),
        ({"bets": 0.5}, "bets=0.5: expected sizes, such as (0.5, 1.0)"),
        ({"raises": (True,)}, "True is not a size"),
        ({"bets": (50, 100)}, "50 is 5000% of the pot; expected fractions of the pot up to 20"),
        ({"cap": -1}, "cap=-1: expected a whole number >= 0"),
        ({"add_all_in": -1}, "add_all_in=-1: expected a number of pots >= 0"),
        ({"force_all_in": "x"}, "force_all_in='x'"),
    ],
)
def test_menus_are_checked(arguments: dict, message: str):
    with pytest.raises(ValueError, match=r".") as error:
        BetMenu(**arguments)
    assert message in str(error.value)


def test_menus_without_a_choice_and_trees_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ValueError, match="menus have no bet sizes"):
        river(100, 100, NEVER)
    with pytest.raises(ValueError, match="raises"):
        river(5, 900, BetMenu(bets=(0.01,), raises=(0.01,)))
    monkeypatch.setattr(betting, "MAX_NODES", 50)
    with pytest.raises(ValueError, match="more than 50 public nodes"):
        river(200, 900, BetMenu())


def test_the_nodes_below_every_card_are_counted(monkeypatch: pytest.MonkeyPatch):
    spot, cards = SpotBetting(100, 150, ((HALF,) * 2,) * 2), range(48)
    nodes = len(build_betting(spot, cards).tree.parent)
    assert sum(betting.count_nodes(spot, [len(cards)])) == nodes
    monkeypatch.setattr(betting, "MAX_NODES", nodes)
    build_betting(spot, cards)
    monkeypatch.setattr(betting, "MAX_NODES", nodes - 1)
    with pytest.raises(ValueError, match="public nodes"):
        build_betting(spot, cards)


def test_a_line_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="expected one of fold, call"):
        river(60, 100, HALF).find("bet 30, raise to 60")
