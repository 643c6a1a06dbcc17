"""`jaxgadget export`, and user-defined games on the command line."""

import pathlib
import re
import sys

import pytest

from jaxgadget import enumerate_game, load, solve
from tests.cli.commands import run
from tests.games.test_own import GUESS


def test_a_game_and_strategies_are_written_for_gambit(tmp_path: pathlib.Path):
    gambit = pytest.importorskip("pygambit")
    tree = enumerate_game(load("kuhn_poker"))
    solve(tree, algorithm="lp").policy.save(tmp_path / "equilibrium.npz")
    efg, profile = tmp_path / "kuhn.efg", tmp_path / "kuhn.txt"
    strategies = ("--blueprint", f"file:{tmp_path / 'equilibrium.npz'}", "--blueprint", "uniform")
    result = run("export", "kuhn_poker", efg, *strategies, "--profile", profile)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    assert result.stdout == f"Wrote the game to {efg}\nWrote the strategies to {profile}\n"
    game = gambit.read_efg(str(efg))
    assert game.title == "kuhn_poker" and enumerate_game(load(efg)).num_histories == tree.num_histories
    equilibrium, uniform = profile.read_text().splitlines()
    assert uniform == "NE" + ",0.5" * 24 and equilibrium.startswith("NE,") and equilibrium.count(",") == 24


def test_export_refuses(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        (("kuhn_poker", "x.xyz"), "expected a name that ends in .efg"),
        (("kuhn_poker", "missing/x.efg"), "FILE: cannot write 'missing/x.efg'"),
        (("kuhn_poker", "x.efg", "--profile", "y.txt"), "give both or neither"),
        (("kuhn_poker", "x.efg", "--blueprint", "uniform", "--profile", "./x.efg"), "both name"),
    ):
        result = run("export", *arguments)
        assert result.exit_code == 2 and message in result.stderr, (arguments, result.stderr)
        assert not list(tmp_path.iterdir())


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "guess.py").write_text(GUESS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


SPEC = "guess.py:Guess(size=2)"
FAST = ("--blueprint", "uniform", "--iterations", 3)


FEW = ("--iterations", 3, "--gadget", "unsafe", "--player", 0)


@pytest.mark.slow
def test_the_commands_of_the_guide(folder: pathlib.Path):
    guide = pathlib.Path(__file__).parents[2] / "docs/guide/own_games.md"
    (block,) = (
        text for text in re.findall(r"```sh\n(.*?)```", guide.read_text(), re.DOTALL) if "guess.py" in text
    )
    lines = block.strip().splitlines()
    assert [line.split()[1] for line in lines] == ["solve", "refine", "sweep"]
    for line in lines:
        words = re.findall(r'"([^"]*)"|(\S+)', line)
        program, *arguments = [quoted or plain for quoted, plain in words]
        few = () if arguments[0] == "solve" else ("--iterations", 3)
        assert program == "jaxgadget" and run(*arguments, *few).exit_code == 0, line
