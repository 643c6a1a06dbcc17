"""Game strings, the list of games, and every kind of argument that `load` accepts."""

import re
import sys
import tracemalloc

import pytest

from jaxgadget.games import registry
from jaxgadget.games.examples import coin_toss
from jaxgadget.games.game import Game
from jaxgadget.games.parameters import parse_spec
from jaxgadget.games.registry import list_games, load
from jaxgadget.tree.history import enumerate_game


@pytest.mark.parametrize(
    ("spec", "name", "parameters"),
    [
        ("leduc_poker", "leduc_poker", {}),
        ("leduc_poker()", "leduc_poker", {}),
        (
            "goofspiel(imp_info=True,num_cards=4,points_order=descending)",
            "goofspiel",
            {"imp_info": "True", "num_cards": "4", "points_order": "descending"},
        ),
        (" a ( b = c , d = e ) ", "a", {"b": "c", "d": "e"}),
        (
            "misere(game=goofspiel(num_cards=3,x=y(z=1)),seed=1)",
            "misere",
            {"game": "goofspiel(num_cards=3,x=y(z=1))", "seed": "1"},
        ),
    ],
)
def test_specs_are_taken_apart(spec, name, parameters):
    assert parse_spec(spec) == (name, parameters)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("leduc_poker(", "expected name or name"),
        ("leduc_poker(a=b()", "parentheses"),
        ("leduc_poker(players)", "got the parameter 'players'; write it as parameter=value"),
        ("leduc_poker(players=2,players=2)", "duplicate parameter 'players'"),
    ],
)
def test_malformed_specs(spec, problem):
    with pytest.raises(ValueError, match=rf"game {spec!r}".replace("(", r"\(").replace(")", r"\)")) as caught:
        load(spec)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("leduk_poker", "leduk_poker"),
        ("kuhn_poker(cards=4)", "players="),
        ("leduc_poker(num_ranks=4.5)", "num_ranks="),
        ("coin_toss(sell_heads=x)", "sell_heads="),
        ("leduc_poker(num_ranks=\u0664)", "num_ranks="),
        ("goofspiel(num_cards=1500000000)", "num_cards="),
        ("liars_dice(numdice=80,dice_sides=80)", "make 12,800 bids"),
        ("leduc_poker(num_ranks=200,num_suits=100)", "make 20000 cards"),
        (
            "leduc_poker(raise_sizes=" + "9" * 5000 + "-1)",
            r"expected two positive integers of at most 9 digits",
        ),
    ],
)
def test_unknown_and_bad_values(spec, message):
    with pytest.raises(ValueError, match=message):
        load(spec)


# Every parameter that OpenSpiel lists: accepted values, and refused values with the reason.
PARAMETERS = {
    ("kuhn_poker", "players"): (["2"], {"3": "2, as only two-player games", "two": "an integer"}),
    ("leduc_poker", "players"): (["2"], {"3": "2, as only two-player games"}),
    ("leduc_poker", "action_mapping"): (["True", "False"], {"2": "True or False"}),
    ("leduc_poker", "suit_isomorphism"): (["True", "False"], {"yes": "True or False"}),
    ("leduc_poker", "starting_player"): (["0", "1"], {"2": "from 0 to 1", "-1": "from 0 to 1"}),
    ("goofspiel", "players"): (["2"], {"3": "2, as only two-player games"}),
    ("goofspiel", "num_cards"): (["1", "4", "20"], {"0": "from 1 to 10000", "4.0": "an integer"}),
    ("goofspiel", "num_turns"): (
        ["-1", "1", "11", "13"],
        {"12": "never ends", "0": "never ends", "14": "from -1 to 13", "-2": "from -1 to 13"},
    ),
    ("goofspiel", "points_order"): (["random", "descending", "ascending"], {"up": "one of random, "}),
    ("goofspiel", "imp_info"): (["True", "False"], {"perhaps": "True or False"}),
    ("goofspiel", "egocentric"): (["True", "False"], {"none": "True or False"}),
    ("goofspiel", "returns_type"): (
        ["win_loss", "point_difference"],
        {"total_points": "neither zero-sum nor constant-sum", "points": "one of win_loss, "},
    ),
    ("liars_dice", "players"): (["2"], {"1": "2, as only two-player games"}),
    ("liars_dice", "numdice"): (["1", "3"], {"0": "from 1 to 10000", "one": "an integer"}),
    ("liars_dice", "dice_sides"): (["1", "6"], {"0": "from 1 to 10000"}),
    ("liars_dice", "bidding_rule"): (["reset-face", "reset-quantity"], {"reset": "one of reset-face, "}),
}


def test_every_parameter_of_openspiels_is_tried():
    pyspiel = pytest.importorskip("pyspiel")
    names = {name for name, _ in PARAMETERS}
    theirs = {kind.short_name: kind for kind in pyspiel.registered_games() if kind.short_name in names}
    listed = {(name, key) for name in names for key in theirs[name].parameter_specification}
    assert set(PARAMETERS) == listed and len(names) == 4


@pytest.mark.parametrize(("name", "key"), PARAMETERS)
def test_every_parameter_of_openspiels_is_accepted_or_refused_by_name(name, key):
    pyspiel = pytest.importorskip("pyspiel")
    accepted, refused = PARAMETERS[name, key]
    for text in accepted:
        game = load(f"{name}({key}={text})")
        theirs = pyspiel.load_game(f"{name}({key}={text})").get_parameters()
        assert {k: getattr(game, k) for k in theirs} == theirs and str(theirs[key]) == text
        assert load(game.name) == game
    for text, reason in refused.items():
        with pytest.raises(ValueError, match=rf"^{name}: {key}='?{re.escape(text)}'?: expected .*{reason}"):
            load(f"{name}({key}={text})")


def test_every_listed_game_loads_and_its_name_loads_it_again():
    entries = list_games()
    assert [entry.name for entry in entries] == list(registry._MAKERS)
    for entry in entries:
        assert entry.description.endswith(".") and len(entry.description) < 120
        game: Game = load(entry.name)
        assert load(game.name).name == game.name == entry.name
        for key, default in entry.parameters.items():
            if isinstance(default, int | float | str):
                load(f"{entry.name}({key}={default})")


def test_names_have_the_parameters_that_are_not_the_defaults():
    assert load("coin_toss(sell_heads=1)").name == coin_toss(1, -0.5).name == "coin_toss(sell_heads=1.0)"
    assert load("coin_toss(sell_heads=0.5,sell_tails=-0.5)").name == "coin_toss"


def test_a_missing_module_leaves_the_others(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxgadget.games.leduc.rules", None)
    assert load("kuhn_poker").name == "kuhn_poker"


def test_openspiel_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(ImportError, match="pip install"):
        load("openspiel:kuhn_poker")


def test_the_largest_games_are_refused_before_they_take_memory():
    """Little is allocated before the first histories are counted."""
    for spec in (
        "goofspiel(num_cards=10000)",
        "liars_dice(dice_sides=5000)",
        "liars_dice(numdice=5000,dice_sides=1)",
        "leduc_poker(num_ranks=5000)",
        "leduc_poker(max_raises=20)",
    ):
        game = load(spec)
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match=r"more than max_histories=1,000|2,000 steps|hands of dice"):
                enumerate_game(game, max_histories=1000)
            assert tracemalloc.get_traced_memory()[1] < 10e6
        finally:
            tracemalloc.stop()
