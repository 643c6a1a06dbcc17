"""`jaxgadget train-policy`, and its networks as blueprints of other commands."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import jaxgadget
from jaxgadget.cli import app
from jaxgadget.policy.evaluate import nash_conv
from jaxgadget.policy.network import load_policy
from jaxgadget.tree.history import HistoryTree, enumerate_game

pytest.importorskip("orbax.checkpoint")
TRAIN = ("train-policy", "kuhn_poker", "--steps", 4, "--width", 8, "--seed", 3)


def run(*arguments: Any) -> Result:
    return CliRunner(env={"COLUMNS": "140"}).invoke(app, [*map(str, arguments)], prog_name="jaxgadget")


def kuhn() -> HistoryTree:
    return enumerate_game(jaxgadget.load("kuhn_poker"))


def record(result: Result) -> dict[str, Any]:
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, dict[str, Any]]:
    """A folder with a network, beside its learning curve, and the command's record."""
    folder = tmp_path_factory.mktemp("trained")
    arguments = (*TRAIN, "--inner", 2, "--alpha", 0.5, "--plot", folder / "curve.png")
    return folder / "policy", record(run(*arguments, "--out", folder / "policy", "--json", "-"))


@pytest.mark.slow
def test_train_policy(trained: tuple[pathlib.Path, dict[str, Any]]) -> None:
    out, found = trained
    expected = ["game", "method", "steps", "seconds", "examples_per_second", "loss", "nash_conv"]
    assert list(found) == expected
    assert (found["game"], found["method"], found["steps"]) == ("kuhn_poker", "mmd", 4)
    policy = load_policy(out, kuhn().game)
    assert found["nash_conv"] == pytest.approx(nash_conv(policy, tree=kuhn())[0])
    described = json.loads((out / "network.json").read_text())
    assert described["architecture"]["policy"]["width"] == 8
    training = described["training"]
    assert [training[name] for name in ("inner", "alpha", "eta", "seed")] == [2, 0.5, 1.0, 3]
    assert (out.parent / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_it_is_a_blueprint_and_can_be_shown(trained: tuple[pathlib.Path, dict[str, Any]]) -> None:
    out, _ = trained
    refined = record(
        run("refine", "kuhn_poker", "--blueprint", f"file:{out}", "--iterations", 5, "--json", "-")
    )
    assert {row["blueprint"] for row in refined["rows"]} == {f"file:{out}"}
    assert run("show", "kuhn_poker", "--policy", out).exit_code == 0


def test_the_same_command_resumes_and_another_is_refused(
    trained: tuple[pathlib.Path, dict[str, Any]], tmp_path: pathlib.Path
) -> None:
    out, before = trained
    same = (*TRAIN, "--inner", 2, "--alpha", 0.5, "--out", tmp_path / "policy", "--json", "-")
    shutil.copytree(out, tmp_path / "policy")
    shutil.rmtree(tmp_path / "policy" / "checkpoints" / "4")
    result = run("refine", "kuhn_poker", "--blueprint", f"file:{tmp_path / 'policy'}")
    assert result.exit_code == 2 and "not finished: its checkpoint is of step 3 of 4" in result.stderr
    again = json.loads(run(*same).stdout)
    assert [again[name] for name in ("loss", "nash_conv")] == [before[name] for name in ("loss", "nash_conv")]
    result = run(*same[:-4], "--eta", 2, *same[-4:])
    assert result.exit_code == 2 and "training eta is 1.0, not 2.0" in result.stderr


def test_distil(tmp_path: pathlib.Path) -> None:
    arguments = (*TRAIN, "--method", "distil", "--target", "dirichlet:1", "--out", tmp_path / "policy")
    shown = run(*arguments).stdout
    assert "training by distil" in shown and "--blueprint file:" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "setting", "value"), [("ppo", "final_entropy", 0.25), ("rnad", "target_rate", 0.5)]
)
def test_methods_that_sample(method: str, setting: str, value: float, tmp_path: pathlib.Path) -> None:
    arguments = ("--method", method, f"--{setting.replace('_', '-')}", value, "--batch-size", 8)
    found = record(run(*TRAIN, *arguments, "--out", tmp_path / "policy", "--json", "-"))
    assert (found["method"], found["steps"]) == (method, 4)
    policy = load_policy(tmp_path / "policy", kuhn().game)
    assert found["nash_conv"] == pytest.approx(nash_conv(policy, tree=kuhn())[0])
    described = json.loads((tmp_path / "policy" / "network.json").read_text())
    assert described["training"][setting] == value and set(described["architecture"]) == {"policy", "value"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--method", "distil"), "--method distil needs a --target"),
        (("--target", "uniform"), "--target has no effect with --method mmd"),
        (
            ("--method", "distil", "--target", "uniform", "--eta", 2),
            "--eta has no effect with --method distil",
        ),
        (("--method", "distil", "--target", "cfr"), "target 'cfr' is unknown"),
        (("--method", "distil", "--target", "draws:2"), "2 lanes"),
        (("--method", "rnad", "--clip", 1), "--clip has no effect with --method rnad"),
        (("--alpha", 0), "alpha=0.0: expected a positive number"),
        (("--max-histories", 10), "needs all decisions of kuhn_poker"),
    ],
)
def test_bad_options(tmp_path: pathlib.Path, arguments: tuple[Any, ...], expected: str) -> None:
    result = run(*TRAIN, *arguments, "--out", tmp_path / "policy")
    assert result.exit_code == 2 and expected in result.stderr
    assert not (tmp_path / "policy").exists()


def test_a_network_of_another_game_is_refused(trained: tuple[pathlib.Path, dict[str, Any]]) -> None:
    out, _ = trained
    result = run("refine", "goofspiel(num_cards=3)", "--blueprint", f"file:{out}")
    assert result.exit_code == 2 and "is for 'kuhn_poker', not for 'goofspiel(num_cards=3)'" in result.stderr
