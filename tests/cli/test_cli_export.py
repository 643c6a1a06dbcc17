"""`jaxgadget export`, and games of one's own on the command line."""

import json
import pathlib
import re
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from jaxgadget import Policy, enumerate_game, load, read_sweep, solve
from jaxgadget.cli import app
from tests.games.test_own import GUESS


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, list(map(str, arguments)), prog_name="jaxgadget")


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
        (("nosuch", "x.efg"), "'nosuch' is unknown"),
        (("kuhn_poker", "missing/x.efg"), "FILE: cannot write 'missing/x.efg'"),
        (("kuhn_poker", "x.efg", "--profile", "y.txt"), "give both of them, or neither"),
        (("kuhn_poker", "x.efg", "--blueprint", "uniform"), "give both of them, or neither"),
        (
            ("kuhn_poker", "x.efg", "--blueprint", "steep", "--profile", "y.txt"),
            "blueprint 'steep' is unknown",
        ),
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


def record(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json", "-")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


SPEC = "guess.py:Guess(size=2)"
FAST = ("--blueprint", "uniform", "--iterations", 3)


@pytest.mark.slow
def test_own_games_wherever_a_game_is_named(folder: pathlib.Path):
    name = f"{folder}/guess.py:Guess(size=2)"
    assert record("solve", SPEC, "--algorithm", "lp")["value"] == pytest.approx(0.2)
    assert record("refine", SPEC, "--cut", "depth:0", *FAST, "--gadget", "unsafe")["game"] == name
    assert record("nested", SPEC, *FAST, "--gadget", "unsafe", "--k", 1)["game"] == name
    few = ("--matches", 2, "--gadget", "unsafe", "--gadget", "resolving", "--prior", "none", "--k", 1)
    assert record("match", SPEC, *FAST, *few)["game"] == name
    few = ("--steps", 2, "--width", 4, "--batch-size", 4, "--k", 1, "--out", folder / "values")
    assert record("train-value", SPEC, *FAST, *few)["game"] == name
    bench = record("bench", SPEC, "--lanes", 1, "--iterations", 1, "--repeats", 1, "--engine", "jaxgadget")
    assert [row["game"] for row in bench["rows"]] == [name]


SWEEP = (
    "sweep",
    "rows",
    "--game",
    SPEC,
    "--game",
    "guess:Guess",
    "--cut",
    "depth:0",
    "--blueprint",
    "uniform",
)
FEW = ("--iterations", 3, "--gadget", "unsafe", "--player", 0)


@pytest.mark.slow
def test_a_sweep_of_own_games_goes_on_from_another_folder(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    assert run(*SWEEP, *FEW).exit_code == 0
    names = [f"{folder}/guess.py:Guess(size=2)", f"{folder}/guess.py:Guess"]
    assert read_sweep(folder / "rows")["game"].tolist() == names
    manifest = json.loads((folder / "rows/manifest.json").read_text())
    assert list(manifest["request"]["games"]) == names
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    again = ("sweep", "../rows", *(word for name in names for word in ("--game", name)), *SWEEP[6:], *FEW)
    assert run(*again).exit_code == 0
    assert len(read_sweep(folder / "rows")) == 2
    for name in manifest["request"]["games"]:  # a process that has only the manifest
        assert enumerate_game(load(name)).game.name == name


def test_a_sweep_is_refused_if_an_own_game_s_rules_have_changed(folder: pathlib.Path):
    assert run(*SWEEP, *FEW).exit_code == 0
    assert run(*SWEEP, *FEW).exit_code == 0
    (folder / "guess.py").write_text(GUESS.replace("else -1", "else -2"))
    result = run(*SWEEP, *FEW)
    assert result.exit_code == 2 and "its rules are not those with which the sweep" in result.stderr


def test_a_policy_of_an_own_game_is_read_again(folder: pathlib.Path):
    assert run("solve", SPEC, "--iterations", 5, "--save", "own.npz").exit_code == 0
    policy = Policy.load("own.npz", enumerate_game(load(SPEC)))
    assert policy.num_lanes == 1
    assert record("refine", SPEC, "--cut", "depth:0", "--blueprint", "file:own.npz", "--iterations", 3)[
        "rows"
    ]
    other = run("refine", "guess.py:Guess", "--cut", "depth:0", "--blueprint", "file:own.npz")
    assert other.exit_code == 2 and "is a policy of" in other.stderr


@pytest.mark.slow
def test_the_commands_of_the_guide(folder: pathlib.Path):
    guide = pathlib.Path(__file__).parents[2] / "docs/guide/own_games.md"
    (block,) = (
        text for text in re.findall(r"```sh\n(.*?)```", guide.read_text(), re.DOTALL) if "guess.py" in text
    )
    lines = block.strip().splitlines()
    assert len(lines) == 2
    for line in lines:
        words = re.findall(r'"([^"]*)"|(\S+)', line)
        program, *arguments = [quoted or plain for quoted, plain in words]
        few = ("--iterations", 3) if arguments[0] == "sweep" else ()
        assert program == "jaxgadget" and run(*arguments, *few).exit_code == 0, line
