"""Trees written as Gambit files, and read by `load` and by Gambit."""

import pathlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from jaxgadget import HistoryTree, enumerate_game, load, write_efg
from jaxgadget.games.stepwise import CHANCE, Rules, Step
from jaxgadget.tree.gambit import infoset_order
from tests.games.test_gambit import CORNERS
from tests.reference.random_games import SHAPES, random_game

FIELDS = (
    "level_offset",
    "parent",
    "actor",
    "action",
    "num_moves",
    "chance",
    "payoff",
    "infostate",
    "infoset",
)
GAMES: dict[str, Callable[[], Any]] = {
    "kuhn": lambda: load("kuhn_poker"),
    "leduc": lambda: load("leduc_poker"),
    "goofspiel": lambda: load("goofspiel(num_cards=3,imp_info=True)"),
    "coin toss": lambda: load("coin_toss"),
    "forfeit": lambda: load("matching_pennies_forfeit"),
    **{shape: lambda shape=shape: random_game(shape, 3) for shape in SHAPES},
}


def reread(tree: HistoryTree, path: pathlib.Path) -> HistoryTree:
    write_efg(tree, path)
    return enumerate_game(load(path))


def check_same(tree: HistoryTree, other: HistoryTree) -> None:
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(tree, field), getattr(other, field), err_msg=field)
    assert tree.constant == other.constant
    assert tree.infoset_names == other.infoset_names
    assert tree.game.num_actions == other.game.num_actions
    names = [[t.game.action_string(0, a) for a in range(t.game.num_actions)] for t in (tree, other)]
    assert names[0] == names[1]


@pytest.mark.parametrize("name", GAMES)
def test_a_game_that_was_read_is_the_same_when_it_is_written_and_read_again(
    name: str, tmp_path: pathlib.Path
):
    first = reread(enumerate_game(GAMES[name]()), tmp_path / "first.efg")
    check_same(first, reread(first, tmp_path / "second.efg"))
    assert (tmp_path / "second.efg").read_text().count("\n") == (tmp_path / "first.efg").read_text().count(
        "\n"
    )


ODD_ORDER = r"""EFG 2 R "odd \"order\" \\ of names" { "A" "B" }
c "" 1 "" { "x" 0.1 "y" 0.2 "z" 0.7 } 0
p "" 1 9 "1:2" { "x" "y" } 0
p "" 1 2 "" { "T" "x" } 0
p "" 2 1 "" { "p" } 0
t "" 1 "" { 1e-3 -1/1000 }
p "" 2 2 "say \"q\"" { "q" } 0
t "" 1
t "" 1
c "" 2 "" { "even" 1/7 "odd" 6/7 } 1
t "" 2 "" { -1/3 1/3 }
t "" 2
t "" 1
"""


@pytest.mark.parametrize("text", [CORNERS, ODD_ORDER])
def test_odd_files_are_the_same_when_they_are_written_and_read_again(text: str, tmp_path: pathlib.Path):
    (tmp_path / "odd.efg").write_text(text)
    tree = enumerate_game(load(tmp_path / "odd.efg"))
    check_same(tree, reread(tree, tmp_path / "again.efg"))
    assert load(tmp_path / "again.efg").title == load(tmp_path / "odd.efg").title


@pytest.mark.parametrize("name", ["kuhn", "coin toss", "betting", "weather", "delays"])
def test_a_written_tree_is_read_back(name: str, tmp_path: pathlib.Path):
    tree = enumerate_game(GAMES[name]())
    again = reread(tree, tmp_path / "game.efg")
    for field in ("level_offset", "parent", "actor", "payoff"):
        np.testing.assert_array_equal(getattr(tree, field), getattr(again, field), err_msg=field)
    np.testing.assert_allclose(tree.chance, again.chance, rtol=1e-15)
    for player in (0, 1):
        pairs = set(zip(tree.infoset[player].tolist(), again.infoset[player].tolist(), strict=True))
        assert len(pairs) == len(tree.infosets[player]) + 1
        names, others = tree.infoset_names[player], again.infoset_names[player]
        assert all(names[a] == others[b] for a, b in pairs - {(-1, -1)})


class Tenths(Rules[int]):
    """Chance with probabilities that have no exact floating-point sum; payoffs of all magnitudes."""

    name = "tenths"
    actions = ("same", "other")
    shares = (0.1, 0.2, 0.3, 0.15, 0.25, *[1e-17] * 3)

    def initial_state(self) -> int:
        return -1

    def actors(self, state: int) -> tuple[int, ...]:
        return (CHANCE,) if state < 0 else (0,) if state < 100 else ()

    def legal_actions(self, state: int, player: int) -> tuple[int, ...]:
        return (0, 1)

    def chance_outcomes(self, state: int) -> list[tuple[int, float]]:
        return list(enumerate(self.shares))

    def step(self, state: int, move: int) -> Step[int]:
        if state < 0:
            return Step(move, private=(move, None))
        return Step(100 + move, reward=(1e-300, 1 / 3, 12345678.9, -1e25)[(2 * state + move) % 4])


def test_probabilities_sum_to_exactly_one_and_numbers_have_no_exponent(tmp_path: pathlib.Path):
    tree = enumerate_game(load(Tenths()))
    again = reread(tree, tmp_path / "tenths.efg")
    np.testing.assert_array_equal(tree.chance, again.chance)
    np.testing.assert_array_equal(tree.payoff, again.payoff)
    lines = (tmp_path / "tenths.efg").read_text().splitlines()
    (chance,) = (line for line in lines if line.startswith("c"))
    shares = [Fraction(word) for word in chance.partition("{")[2].partition("}")[0].split()[1::2]]
    assert sum(shares) == 1 and list(map(float, shares)) == list(Tenths.shares)
    assert not any("e-" in line or "e+" in line for line in lines)


def test_thirds_are_thirds(tmp_path: pathlib.Path):
    write_efg(enumerate_game(load("kuhn_poker")), tmp_path / "kuhn.efg")
    assert 'c "" 1 "" { "0" 1/3 "1" 1/3 "2" 1/3 } 0' in (tmp_path / "kuhn.efg").read_text()


def test_only_whole_trees_are_written_and_files_are_whole_or_not_there(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "kuhn.efg"
    with pytest.raises(ValueError, match="whole game"):
        write_efg(enumerate_game(load("kuhn_poker"), depth=1), path)
    with pytest.raises(ValueError, match="tree="):
        write_efg("kuhn_poker", path)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="does not exist"):
        write_efg(enumerate_game(load("kuhn_poker")), tmp_path / "nowhere" / "kuhn.efg")
    path.write_text("what was there before")
    monkeypatch.setattr("jaxgadget.tree.gambit._quoted", lambda text: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_efg(enumerate_game(load("kuhn_poker")), path)
    assert [p.name for p in tmp_path.iterdir()] == [
        "kuhn.efg"
    ] and path.read_text() == "what was there before"


@pytest.mark.parametrize("name", GAMES)
def test_gambit_reads_the_same_game(name: str, tmp_path: pathlib.Path):
    gambit = pytest.importorskip("pygambit")
    tree = enumerate_game(GAMES[name]())
    write_efg(tree, tmp_path / "game.efg")
    game = gambit.read_efg(str(tmp_path / "game.efg"))
    assert game.title == tree.game.name and list(game.players) == ["Player 0", "Player 1"]
    assert game.is_const_sum and game.is_perfect_recall
    profile = game.mixed_behavior_profile(rational=False)
    for player, order in enumerate(infoset_order(tree)):
        infosets, names = tree.infosets[player], tree.game
        actions = [
            infosets.action[infosets.first_sequence[k] :][: infosets.num_actions[k]].tolist() for k in order
        ]
        expected = [[names.action_string(player, action) for action in row] for row in actions]
        assert [[action for action, _ in row] for _, row in profile[f"Player {player}"]] == expected
    payoffs = tree.payoff[tree.terminals]
    extremes = float(game.get_min_payoff("Player 0")), float(game.get_max_payoff("Player 0"))
    assert extremes == (payoffs.min() + tree.constant / 2, payoffs.max() + tree.constant / 2)


def ends(state: Any, chance: float = 1.0) -> list[tuple[float, ...]]:
    """Chance reach and returns of every terminal state of an OpenSpiel game."""
    if state.is_terminal():
        return [(chance, *state.returns())]
    shares = (
        dict(state.chance_outcomes()) if state.is_chance_node() else dict.fromkeys(state.legal_actions(), 1.0)
    )
    return [end for action, share in shares.items() for end in ends(state.child(action), chance * share)]


@pytest.mark.parametrize("name", ["kuhn", "goofspiel", "coin toss", "forfeit", *SHAPES])
def test_openspiel_reads_the_same_game(name: str, tmp_path: pathlib.Path):
    """Including ends with payoff 0, such as a draw in Goofspiel."""
    pyspiel: Any = pytest.importorskip("pyspiel")
    tree = enumerate_game(GAMES[name]())
    write_efg(tree, tmp_path / "game.efg")
    game = pyspiel.load_efg_game((tmp_path / "game.efg").read_text())
    first = tree.payoff[tree.terminals] + tree.constant / 2
    expected = np.array([tree.chance[tree.terminals], first, tree.constant - first]).T
    found = np.array(ends(game.new_initial_state()))
    for rows in (expected, found):
        rows[:] = rows[np.lexsort(rows.round(9).T)]
    np.testing.assert_allclose(found, expected, atol=1e-9)
