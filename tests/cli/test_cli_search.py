"""`jaxgadget nested`, `match` and `train-value`."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jaxgadget
from jaxgadget.learn import errors
from jaxgadget.networks import checkpoints
from tests.cli.commands import changed, record, run
from tests.gadgets.test_registry import OWN

NESTED = ["game", "algorithm", "iterations", "game_value", "rows"]
NESTED_ROW = """
    player blueprint model p beyond gadget prior epsilon limit depth step k leaf algorithm iterations
    blueprint_exploitability nested_exploitability gain best_response_gain exploitability
    exploitability_bound objectives gap_max searches seconds
""".split()
TRAIN: tuple[object, ...] = (
    *("train-value", "kuhn_poker", "--blueprint", "cfr:3", "--k", 3, "--iterations", 5, "--steps", 3),
    *("--width", 8, "--batch-size", 4, "--learning-rate", 0.01, "--targets", "sampled"),
)
FAST = ("kuhn_poker", "--blueprint", "cfr:3", "--k", 3, "--iterations", 20)


@pytest.fixture(scope="module", autouse=True)
def few_draws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LOG_DRAWS", "FINAL_DRAWS"):
            patch.setattr(errors, name, 2**10)
        yield


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[pathlib.Path, dict[str, Any], pathlib.Path]:
    """A folder with a network, the command's output, and the learning curves."""
    folder = tmp_path_factory.mktemp("trained")
    out, picture = folder / "values", folder / "curves.png"
    return out, record(run(*TRAIN, "--out", out, "--plot", picture, "--json", "-")), picture


def test_nested(tmp_path: pathlib.Path) -> None:
    more = ("--player", "both", "--gadget", "resolving", "--prior", "none", "--prior", "blueprint")
    files = ("--save", tmp_path / "nested.npz", "--json", "-")
    found = record(run("nested", *FAST, *more, "--epsilon", 0.1, "--depth", 2, *files))
    assert list(found) == [*NESTED, "nash_conv"] and found["iterations"] == 20
    low, high = found["game_value"]
    assert low <= -1 / 18 <= high and high - low < 1e-3
    assert [list(row) for row in found["rows"]] == [NESTED_ROW] * 4
    assert [(row["player"], row["prior"], row["epsilon"]) for row in found["rows"]] == [
        (0, "none", 0.0),
        (0, "blueprint", 0.1),
        (1, "none", 0.0),
        (1, "blueprint", 0.1),
    ]
    for row in found["rows"]:
        assert (row["blueprint"], row["depth"], row["k"], row["leaf"]) == ("cfr:3", 2, 3, "exact")
        assert 0 <= row["nested_exploitability"] < 1 and row["searches"] > 0 and row["gap_max"] > 0
    # Both players' halves are in the file.
    tree = jaxgadget.enumerate_game(jaxgadget.load("kuhn_poker"))
    policy = jaxgadget.Policy.load(tmp_path / "nested.npz", tree)
    for player in (0, 1):
        np.testing.assert_allclose(
            jaxgadget.exploitability(policy, player),
            [row["nested_exploitability"] for row in found["rows"] if row["player"] == player],
            atol=1e-6,
        )
    np.testing.assert_allclose(found["nash_conv"], jaxgadget.nash_conv(policy), atol=1e-9)


def test_a_gadget_of_a_users_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    more = ("--prior", "none", "--depth", 2, "--player", 0, "--json", "-")
    (found,), (same,) = (
        record(run("nested", *FAST, "--gadget", gadget, *more))["rows"]
        for gadget in (f"{path}:Bold", "resolving")
    )
    assert (found["gadget"], same["gadget"]) == ("bold", "resolving")
    assert found["nested_exploitability"] == same["nested_exploitability"]


def test_match() -> None:
    arguments = ("--gadget", "resolving", "--prior", "blueprint", "--matches", 40, "--seed", 3)
    found = record(run("match", *FAST, *arguments, "--json", "-"))
    said = {"seed": 3, "blueprint": "cfr:3", "depth": 1, "iterations": 20, "k": 3, "leaf": "exact"}
    rest = {name: value for name, value in found.items() if name != "rows"}
    assert rest == {"game": "kuhn_poker", **said, "epsilon": 0.02}
    assert [list(row) for row in found["rows"]] == [
        ["row", "column", "matches", "win_rate", "mean_return", "ci95", "return_ci95"]
    ] * 2
    first, second = found["rows"]
    assert {first["row"], first["column"]} == {"resolving, blueprint prior, epsilon 0.02", "blueprint"}
    assert first["win_rate"] + second["win_rate"] == pytest.approx(1) and first["matches"] == 40
    assert first["mean_return"] == pytest.approx(-second["mean_return"])
    again = record(run("match", *FAST, *arguments, "--json", "-"))
    assert again == found
    shown = run("match", *FAST, *arguments).stdout
    assert shown.count("±") == 2 and "win rate" not in shown  # one line per pair, and the note


def test_match_without_search(tmp_path: pathlib.Path) -> None:
    """Tables and bots in an enumerated game."""
    players = ("--blueprint", "cfr:3", "--gadget", "none", "--against", "uniform", "--against", "draws:2")
    bot = ("--against", "openspiel:uniform_random")
    found = record(run("match", "kuhn_poker", *players, *bot, "--matches", 30, "--json", "-"))
    names = {"blueprint", "uniform", "dirichlet:0", "dirichlet:1", "openspiel:uniform_random"}
    assert {row["row"] for row in found["rows"]} == names and "depth" not in found
    by_pair = {(row["row"], row["column"]): row["mean_return"] for row in found["rows"]}
    assert by_pair["uniform", "openspiel:uniform_random"] == 0
    assert by_pair["blueprint", "uniform"] == by_pair["blueprint", "openspiel:uniform_random"] != 0


@pytest.mark.slow
def test_train_value(trained: tuple[pathlib.Path, dict[str, Any], pathlib.Path]) -> None:
    out, found, picture = trained
    assert (
        list(found)
        == (
            "game k steps seconds examples_per_second train_rmse "
            "heldout_rmse heldout_histories visited_rmse payoff_range"
        ).split()
    )
    assert (found["game"], found["k"], found["steps"], found["payoff_range"]) == ("kuhn_poker", 3, 3, 4.0)
    assert 0 < found["visited_rmse"] < 4 and found["examples_per_second"] > 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    described = json.loads((out / "network.json").read_text())
    assert described["architecture"]["width"] == 8
    settings = [described["training"][name] for name in ("batch_size", "learning_rate", "targets")]
    assert settings == [4, 0.01, "sampled"]


def test_the_same_command_resumes_and_another_is_refused(
    trained: tuple[pathlib.Path, dict[str, Any], pathlib.Path],
) -> None:
    out, before, _ = trained
    again = record(run(*TRAIN, "--out", out, "--json", "-"))
    for name in ("seconds", "examples_per_second"):
        del again[name]
    assert again == {name: value for name, value in before.items() if name in again}
    assert [row["step"] for row in json.loads((out / "log.json").read_text())] == [1, 2, 3]
    result = run(*changed(TRAIN, "--width", 16), "--out", out)
    assert result.exit_code == 2 and "architecture width is 8, not 16" in result.stderr
    assert (
        "of 3 steps, not 4, and a training's steps" in run(*changed(TRAIN, "--steps", 4), "--out", out).stderr
    )
    shown = run(*TRAIN, "--out", out).stdout
    assert "1 held-out histories" in shown
    assert f"jaxgadget nested kuhn_poker --leaf {out} --blueprint cfr:3 --k 3" in shown.replace("\n", " ")


def test_an_interrupt_reports_saved_work_and_the_next_run_resumes(
    trained: tuple[pathlib.Path, dict[str, Any], pathlib.Path],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "values"
    save = checkpoints.TrainingFolder.save

    def interrupted(self: Any, progress: Any, log: Any) -> None:
        if int(progress.step) == 3:
            raise KeyboardInterrupt
        save(self, progress, log)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.TrainingFolder, "save", interrupted)
        cut_off = run(*TRAIN, "--out", out)
    assert (cut_off.exit_code, cut_off.stdout) == (130, "")
    kept = (
        f"Interrupted. {str(out)!r} keeps the checkpoint of step 2 of 3; repeat the same command to resume.\n"
    )
    assert cut_off.stderr == kept
    again = run(*TRAIN, "--out", out, "--json", "-")
    assert (again.exit_code, again.stderr) == (0, f"Resuming {str(out)!r} after step 2 of 3.\n")
    assert json.loads(again.stdout)["train_rmse"] == trained[1]["train_rmse"]


def test_search_with_a_network(trained: tuple[pathlib.Path, dict[str, Any], pathlib.Path]) -> None:
    out, _, _ = trained
    more = ("--gadget", "unsafe", "--leaf", out)
    (row,) = record(run("nested", *FAST, *more, "--json", "-"))["rows"]
    assert row["leaf"] == str(out) and row["nested_exploitability"] >= 0
    (row, _) = record(run("match", *FAST, *more, "--matches", 4, "--json", "-"))["rows"]
    assert {row["row"], row["column"]} == {"unsafe", "blueprint"}
    (row,) = record(run("nested", *FAST[:3], "--iterations", 2, *more, "--json", "-"))["rows"]
    assert row["k"] == 3, "the network's"
    other_game = ("leduc_poker", "--blueprint", "uniform", "--k", 3)
    for arguments, message in (
        (("nested", *FAST[:-4], "--k", 4), "has K = 3, and --k is 4"),
        (("nested", *other_game), "is for 'kuhn_poker', not for 'leduc_poker'"),
        (("nested", *FAST, "--blueprint", "uniform"), "for another --blueprint than 'uniform'"),
        (("match", "kuhn_poker", "--k", 3, "--blueprint", "cfr:4"), "for another --blueprint than 'cfr:4'"),
    ):
        result = run(*arguments, *more)
        assert result.exit_code == 2 and message in result.stderr, arguments


def test_bad_input(tmp_path: pathlib.Path) -> None:
    for arguments, message in (
        (("nested", *FAST, "--leaf", tmp_path / "nothing"), "does not exist"),
        (("match", *FAST, "--gadget", "full"), "'full' is not one of 'unsafe', 'resolving', 'max-margin'"),
        (
            ("nested", *FAST, "--model", "uniform", "--p", 1, "--epsilon", 0.5),
            "--epsilon has no effect without --gadget",
        ),
        (("nested", *FAST, "--algorithm", "lp"), "expected --leaf optimal beside it"),
        (("nested", *FAST, "--leaf", "optimal"), "--k has no effect with optimal values at --leaf"),
        (("nested", *FAST, "--step", 2), "the decision at chance 0, chance 1, Pass, Bet comes before"),
        (("match", *FAST, "--blueprint", "uniform"), "expected one, not 2: cfr:3, uniform"),
        (("nested", *FAST, "--leaf", tmp_path, "--seed", 1), "--seed has no effect with a network at --leaf"),
        (("train-value", "kuhn_poker", "--out", tmp_path / "v", "--width", 10**7), "width=10000000, depth=1"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and message in result.stderr, arguments
        assert "Traceback" not in result.stderr
