"""`jaxgadget train-ranges`, and its networks in `refine --alternative` and `nested --leaf`."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

import jaxgadget as jg
from jaxgadget.learn import range_training
from jaxgadget.subgames import limit_search
from jaxgadget.tree import history, states
from tests.cli.commands import changed, record, run
from tests.policy.test_network import make, write

pytestmark = pytest.mark.slow

TRAIN: tuple[object, ...] = (
    *("train-ranges", "kuhn_poker", "--cut", "depth:2", "--samples", 16, "--rounds", 1, "--steps", 6),
    *("--width", 8, "--batch-size", 4, "--iterations", 20, "--heldout", 0.25),
)
RECORD = [
    *("game", "cut", "subgames_per_second", "samples", "steps", "seconds"),
    *("train_rmse", "heldout_rmse", "blueprint_rmse", "visited_rmse", "value_rmse"),
    *("gap_max", "payoff_range"),
]
REFINE = ("refine", "kuhn_poker", "--cut", "depth:2", "--blueprint", "cfr:3", "--prior", "none")
NESTED = ("nested", "kuhn_poker", "--blueprint", "cfr:3", "--iterations", 20, "--gadget", "resolving")


@pytest.fixture(scope="module", autouse=True)
def few_searches() -> Iterator[None]:
    pytest.importorskip("orbax.checkpoint")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_training, "SEARCHES", ((6, 15.0),))
        patch.setattr(range_training, "BLUEPRINT_ITERATIONS", (3,))
        patch.setattr(range_training, "VISITED_BLUEPRINTS", 4)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, dict[str, Any], pathlib.Path]:
    """A folder with a network, the command's output, and the learning curves."""
    folder = tmp_path_factory.mktemp("trained")
    out, picture = folder / "ranges", folder / "curves.png"
    return out, record(run(*TRAIN, "--out", out, "--plot", picture, "--json", "-")), picture


Trained = tuple[pathlib.Path, dict[str, Any], pathlib.Path]


def test_train_ranges(trained: Trained) -> None:
    out, found, picture = trained
    assert list(found) == RECORD
    assert (found["game"], found["cut"], found["steps"], found["payoff_range"]) == (
        "kuhn_poker",
        "depth:2",
        6,
        4,
    )
    assert found["samples"] == 16 + 8 and found["subgames_per_second"] > 0 and found["seconds"] > 0
    assert all(0 < found[name] < 4 for name in RECORD if name.endswith("_rmse"))
    assert picture.read_bytes().startswith(b"\x89PNG")
    loaded = jg.load_ranges(out, jg.enumerate_game(jg.load("kuhn_poker")))
    assert loaded.error == found["value_rmse"] and loaded.shape.width == 8


def test_the_same_command_resumes_and_another_is_refused(trained: Trained) -> None:
    out, before, _ = trained
    again = record(run(*TRAIN, "--out", out, "--json", "-"))
    assert again["subgames_per_second"] is None, "all were read"
    for name in ("seconds", "subgames_per_second"):
        del again[name]
    assert again == {name: value for name, value in before.items() if name in again}
    for option, value, message in (
        ("--width", 16, "architecture width is 8, not 16"),
        ("--steps", 7, "of 6 steps, not 7"),
        ("--samples", 17, "samples is 16, not 17"),
        ("--cut", "depth:1", "cut is 'depth:2', not 'depth:1'"),
    ):
        result = run(*changed(TRAIN, option, value), "--out", out)
        assert result.exit_code == 2 and message in result.stderr, option
        assert "Traceback" not in result.stderr
    shown = re.sub(r"\s+", " ", run(*TRAIN, "--out", out).stdout)
    assert f"{before['visited_rmse']:.5f}" in shown and "24 subgames solved, largest gap" in shown
    assert "jaxgadget refine kuhn_poker --cut depth:2 --alternative values:" in shown
    assert "jaxgadget nested kuhn_poker --leaf values:" in shown


def test_nested_with_its_values(trained: Trained, tmp_path: pathlib.Path) -> None:
    out = trained[0]
    files = ("--player", "both", "--save", tmp_path / "nested.npz", "--plot", tmp_path / "nested.svg")
    found = record(run(*NESTED, "--prior", "none", "--leaf", f"ranges:{out}", *files, "--json", "-"))
    assert [(row["player"], row["depth"], row["k"]) for row in found["rows"]] == [(0, None, 1), (1, None, 1)]
    assert {row["leaf"] for row in found["rows"]} == {f"{out} at depth:2"}
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    policy = jg.Policy.load(tmp_path / "nested.npz", tree)
    for player in (0, 1):
        (row,) = (row for row in found["rows"] if row["player"] == player)
        after = jg.exploitability(policy, player, value=tuple(found["game_value"]))
        assert row["nested_exploitability"] == pytest.approx(float(after[0]), abs=1e-6)
    assert "nested search, " in (tmp_path / "nested.svg").read_text()
    text = re.sub(r"\s+", " ", run(*NESTED, "--leaf", f"values:{out}").stdout)
    assert "from the root to the limit and again in every public state there, 20 iterations each" in text
    assert "values at the limit took" not in text and "nan" not in text.lower().replace("cnan", "")


MATCH = (
    "match",
    "kuhn_poker",
    "--iterations",
    5,
    "--matches",
    10,
    "--gadget",
    "resolving",
    "--prior",
    "none",
)


def test_matches_with_its_values_in_a_tree_and_without(
    trained: Trained, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaf, network = ("--leaf", f"values:{trained[0]}"), ("--blueprint", f"file:{tmp_path / 'policy'}")
    write(tmp_path / "policy", make("kuhn_poker"))
    write(tmp_path / "other", make("leduc_poker"))
    in_tree = record(run(*MATCH, "--blueprint", "uniform", *leaf, "--json", "-"))
    assert (in_tree["depth"], in_tree["k"]) == (None, 1)
    assert {row["row"] for row in in_tree["rows"]} == {"resolving", "blueprint"}
    limits = list[str | None]()
    enumerate_whole = history.enumerate_game
    for module in (limit_search, states):
        monkeypatch.setattr(
            module,
            "enumerate_game",
            lambda game, **how: (limits.append(how.get("limit", game.name)), enumerate_whole(game, **how))[1],
        )
    played = run(*MATCH, *network, *leaf, "--checkpoint", tmp_path / "played")
    assert played.exit_code == 0 and "public states were searched" in " ".join(played.stdout.split())
    assert "depth:2" in limits and all(limit == "depth:2" or " after [" in str(limit) for limit in limits)
    for arguments, message in (
        ((*MATCH, *network, *leaf, "--depth", 2), "--depth has no effect with values of ranges"),
        (
            ("match", "leduc_poker", *MATCH[2:], "--blueprint", f"file:{tmp_path / 'other'}", *leaf),
            "for 'kuhn_poker'",
        ),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and message in re.sub(r"\s+", " ", result.stderr), arguments
        assert "Traceback" not in result.stderr


def test_bad_input(trained: Trained, tmp_path: pathlib.Path) -> None:
    out = trained[0]
    other = "leduc_poker(num_ranks=2)"
    for arguments, message in (
        ((*NESTED, "--leaf", f"ranges:{tmp_path / 'nothing'}"), "does not exist"),
        ((*NESTED, "--leaf", f"ranges:{tmp_path}"), "has no network.json"),
        ((*NESTED, "--leaf", out), f"{str(out)!r} holds a network of ranges, from train_ranges; expected"),
        ((*NESTED, "--leaf", f"ranges:{out / 'solved' / 'drawn'}"), "holds solved ranges, from solve_ranges"),
        (
            (*REFINE, "--gadget", "optimal-continuation", "--alternative", f"values:{out}"),
            f"--alternative values:{out} has no effect with --gadget optimal-continuation",
        ),
        *(
            (
                (*NESTED, "--leaf", f"ranges:{out}", option, 2),
                f"{option} has no effect with values of ranges",
            )
            for option in ("--depth", "--k", "--step")
        ),
        (("nested", other, "--leaf", f"ranges:{out}", "--blueprint", "uniform"), "for 'kuhn_poker'"),
        (("sweep", out, "--game", "kuhn_poker"), "expected an empty folder, or one with a sweep"),
        ((*changed(REFINE, "--cut", "depth:1"), "--alternative", f"values:{out}"), "the cut 'depth:2'"),
        (TRAIN, "--out"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2 and message in re.sub(r"\s+", " ", result.stderr), arguments
        assert "Traceback" not in result.stderr and "FolderRanges(" not in result.stderr
    assert not (tmp_path / "a").exists() or not list((tmp_path / "a").iterdir()), "nothing was begun"
