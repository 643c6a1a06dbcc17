"""User-defined games by `path.py:Class` and `module:Class`."""

import json
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import jaxgadget
from jaxgadget.cli import app
from jaxgadget.games.checks import check_machine
from jaxgadget.games.game import bet_fraction
from jaxgadget.games.kuhn import KuhnPoker
from jaxgadget.games.machine import StateMachine
from jaxgadget.games.registry import load
from jaxgadget.games.stepwise import CHANCE, Rules, Step
from jaxgadget.tree.history import enumerate_game

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/guide/own_games.md").read_text(), re.MULTILINE | re.DOTALL
)
GUESS = next(program for program in PROGRAMS if "class Guess" in program)
ONE_BET = next(program for program in PROGRAMS if "class OneBet" in program)
MORE = """
import dataclasses
import helpers
import jaxgadget
from jaxgadget.games.kuhn import KuhnPoker


@dataclasses.dataclass(frozen=True)
class Kuhn(KuhnPoker):
    "Has levels of its own."
    flag: bool = False
    share: float = 0.5
    word: str = "a"
    count: int = 2
    anything: object = None


def typed(count: int, share: "float", rest=None):
    assert (type(count), type(share)) == (int, float), (count, share)
    return Kuhn(count=count, share=share, anything=rest)


class Nothing:
    pass


def three_players(seat=0):
    from tests.games.test_team import Signals

    return jaxgadget.team(Signals(), (seat,))


class Raises:
    def __init__(self, size=1):
        raise ZeroDivisionError(f"{size} / 0")


NUMBER = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "guess.py").write_text(GUESS)
    (tmp_path / "one_bet.py").write_text(ONE_BET.split("check_machine(OneBet())")[0])
    (tmp_path / "more.py").write_text(MORE)
    (tmp_path / "helpers.py").write_text("")
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaves.py").write_text("import sys; sys.exit(3)")
    (tmp_path / "imports.py").write_text("import nowhere_to_be_found")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_user_defined_rules_define_sizes_of_bets(folder):
    """Through the rules, their file and a menu; other user-defined games have no bets."""
    text = (
        "from jaxgadget.games.examples import TreeRules, Turn\n\n\nclass Bets(TreeRules):\n"
        "    def __init__(self, size: float = 2.0):\n"
        "        super().__init__('bets', ('Call', 'Bet'), Turn(0, {'Call': 0.0, 'Bet': 1.0}))\n"
        "        object.__setattr__(self, 'size', size)\n\n"
        "    def bet_fraction(self, state, action):\n"
        "        return self.size * action\n"
    )
    (folder / "bets.py").write_text(text)
    for spec in ("bets.py:Bets", "menu(game=bets.py:Bets,actions_0=1)"):
        game = load(spec)
        assert [bet_fraction(game, (), action) for action in (0, 1)] == [0.0, 2.0]
    assert bet_fraction(load("more.py:Kuhn"), (0, 1), 1) is None
    assert bet_fraction(load("coin_toss"), (0,), 3) is None


def value(game):
    return jaxgadget.solve(enumerate_game(game), algorithm="lp").value


def test_the_guide_s_game(folder):
    """A correct guess of card k pays k + 1, otherwise -1: player 1 shows k with probability ∝ 1 / (k + 2)."""
    for spec, size in (("guess.py:Guess", 3), ("guess.py:Guess(size=4)", 4)):
        share = 1 / sum(1 / (k + 2) for k in range(size))
        assert value(load(spec)) == pytest.approx(share - 1, abs=1e-9)
    assert GUESS.count("\n") < 25


def test_a_function_may_make_a_game_of_teams(folder):
    game = load("more.py:three_players(seat=1)")
    assert game.name == f"{folder}/more.py:three_players(seat=1)"
    assert enumerate_game(game).num_histories == 1 + 2 * (1 + 3 * (1 + 3 * (1 + 2 + 4)))


def test_the_name_loads_it_again_from_any_folder(folder, tmp_path_factory, monkeypatch):
    game = load("./guess.py:Guess(size=4)")
    assert game.name == f"{folder}/guess.py:Guess(size=4)"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    again = load(game.name)
    assert again.name == game.name and enumerate_game(again).num_histories == 17
    program = (
        "import sys, jaxgadget; print(jaxgadget.enumerate_game(jaxgadget.load(sys.argv[1])).num_histories)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, game.name], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "17"


def test_parameters_have_the_type_of_their_default_or_annotation(folder):
    made = load("more.py:Kuhn(flag=true,share=2,word=3,count=4,anything=1.5)").game
    assert (made.flag, made.share, made.word, made.count, made.anything) == (True, 2.0, "3", 4, 1.5)
    assert type(made.share) is float
    assert load("more.py:typed(count=1,share=1,rest=some)").game.anything == "some"
    assert load("more.py:Kuhn(anything=True)").game.anything is True
    assert load("more.py:Kuhn(anything=7)").game.anything == 7


def test_a_game_with_levels_of_its_own_is_passed_on(folder):
    game, kuhn = load("more.py:Kuhn"), KuhnPoker()
    tree, theirs = enumerate_game(game), enumerate_game(kuhn)
    for field in ("parent", "actor", "chance", "payoff", "infostate"):
        np.testing.assert_array_equal(getattr(tree, field), getattr(theirs, field))
    assert tree.infoset_names == theirs.infoset_names and game.cuts() == {} and game.num_actions == 2
    assert game.action_string(0, 1) == "Bet"
    assert enumerate_game(game, depth=1).num_leaves > 0


class OneBetByState(Rules):
    """The guide's machine, one state at a time: both numbers, then the actions."""

    name, actions = "one_bet", ("pass", "bet")

    def __init__(self, size):
        self.size = size

    def initial_state(self):
        return ()

    def actors(self, moves):
        if len(moves) < 2:
            return (CHANCE,)
        return (len(moves) - 2,) if moves[2:] in ((), (1,)) else ()

    def chance_outcomes(self, moves):
        return [(number, 1 / self.size) for number in range(self.size)]

    def legal_actions(self, moves, player):
        return (0, 1)

    def step(self, moves, move):
        after = (*moves, move)
        if len(after) <= 2:
            return Step(after, public="drawn", private=(move, None) if len(after) == 1 else (None, move))
        first, second, *played = after
        higher = (first > second) - (first < second)
        pays = {(0,): higher, (1, 0): 1, (1, 1): 2 * higher}
        return Step(after, reward=pays.get(tuple(played), 0), public=move)


@pytest.mark.parametrize("size", [2, 4])
def test_the_guide_s_state_machine(folder, size):
    spec = f"one_bet.py:OneBet(size={size})"
    machine = load(spec)
    assert isinstance(machine, StateMachine) and machine.name == f"{folder}/{spec}"
    assert isinstance(pickle.loads(pickle.dumps(machine)), StateMachine)
    check_machine(machine)
    tree, expected = enumerate_game(machine), enumerate_game(load(OneBetByState(size)))
    for field in ("level_offset", "parent", "actor", "action", "chance", "payoff"):
        np.testing.assert_array_equal(getattr(tree, field), getattr(expected, field), err_msg=field)
    for player in (0, 1):
        pairs = {*zip(tree.infoset[player].tolist(), expected.infoset[player].tolist(), strict=True)}
        assert len(pairs) == 1 + len(tree.infosets[player]) == 1 + len(expected.infosets[player])
    result = CliRunner().invoke(app, ["solve", spec, "--algorithm", "lp", "--json", "-"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["value"] == pytest.approx(value(machine), abs=1e-9)


def test_a_machine_that_cheats_is_found_by_its_path(folder):
    text = (folder / "one_bet.py").read_text()
    assert text.count("state.numbers[player]") == 1
    (folder / "one_bet.py").write_text(text.replace("state.numbers[player]", "state.numbers[1 - player]"))
    with pytest.raises(
        ValueError, match=r"one_bet.py:OneBet breaks a rule of state machines: features differ"
    ):
        check_machine(load("one_bet.py:OneBet"))


def test_modules(folder, monkeypatch):
    assert load("jaxgadget.games.kuhn:KuhnPoker").name == "jaxgadget.games.kuhn:KuhnPoker"
    assert load("guess:Guess").name == f"{folder}/guess.py:Guess"  # importable from the working folder only
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir("/")
    assert load("guess:Guess(size=2)").name == "guess:Guess(size=2)"


def test_a_changed_file_is_read_again(folder):
    assert enumerate_game(load("guess.py:Guess")).num_histories == 10
    (folder / "guess.py").write_text(GUESS.replace("size: int = 3", "size: int = 12"))
    assert enumerate_game(load("guess.py:Guess")).num_histories == 145
    (folder / "guess.py").write_text(GUESS.replace("size: int = 3", "size: int = 11"))  # same size
    assert enumerate_game(load("guess.py:Guess")).num_histories == 122
    assert not (folder / "__pycache__").exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.py:Guess", "nowhere"),
        ("no_such_module:Guess", "no_such_module"),
        ("guess.py:Gess", "guess"),
        ("more.py:Nothing", "Nothing"),
        ("more.py:Raises(size=2)", "size="),
        ("more.py:typed(count=1.5,share=1)", "count"),
        ("guess.py:Guess(size=\u0663)", "size"),
        ("guess.py:Guess(length=2)", "Guess"),
        ("broken.py:Game", "broken"),
    ],
)
def test_errors(folder, spec, message):
    with pytest.raises(ValueError, match=message):
        load(spec)
