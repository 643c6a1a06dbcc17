"""`jaxgadget sweep`."""

import functools
import json
import pathlib
import re
import sys
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import read_sweep
from jaxgadget.sweeping.store import SCHEMA
from jaxgadget.sweeping.workers import Processes
from tests.cli import commands
from tests.cli.commands import words
from tests.gadgets.test_registry import OWN

run = functools.partial(commands.run, "sweep")

FAST = ("--blueprint", "uniform", "--iterations", 3)
CUT = ("--game", "kuhn_poker", "--cut", "depth:1", *FAST)


def test_json_is_alone_and_strict(tmp_path: pathlib.Path):
    folder = tmp_path / "sweep"
    more = ("--blueprint", "draws:1", "--seed", 2, "--gadget", "unsafe", "--player", 1)
    result = run(folder, *CUT, *more, "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    record = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert list(record) == ["folder", "rows"] and record["folder"] == str(folder)
    assert [list(row) for row in record["rows"]] == [SCHEMA.names] * 2
    first, second = record["rows"]
    assert (first["blueprint"], first["seed"], first["exploitability_bound"]) == ("uniform", None, None)
    assert (second["blueprint"], second["seed"], second["player"]) == ("dirichlet:2000", 2, 1)
    found = read_sweep(folder)
    for row, kept in zip(record["rows"], found.to_dict("records"), strict=True):
        assert {name: kept[name] for name in row if row[name] is not None} == {
            name: value for name, value in row.items() if value is not None
        }


def test_tables_and_files(tmp_path: pathlib.Path):
    """One table per game, cut, number of iterations and player; files with all rows; a picture."""
    folder, csv, parquet, plot = (tmp_path / name for name in ("s", "r.csv", "r.parquet", "r.svg"))
    options = ("--blueprint", "draws:2", "--iterations", 4, "--gadget", "resolving", "--epsilon", 0.1)
    files = ("--csv", csv, "--parquet", parquet, "--plot", plot, "--json", tmp_path / "r.json")
    result = run(folder, *CUT, *options, *files)
    assert (result.exit_code, result.stderr) == (0, ""), result.stderr
    text = words(result.stdout)
    for iterations in (3, 4):
        for player in (0, 1):
            assert f"kuhn_poker, cut depth:1, {iterations} iterations, player {player}" in text
    assert text.count("Exploitability, over 3 blueprints") == 4
    assert "36 results in 4 pieces" in text and "half of NashConv" in text and f"picture to {plot}" in text
    rows = read_sweep(folder)
    assert len(rows) == 36 == len(json.loads((tmp_path / "r.json").read_text())["rows"])
    assert_frame_equal(
        pd.read_parquet(parquet)[SCHEMA.names].astype({"seed": "Int64"}), rows, check_exact=True
    )
    found = pd.read_csv(csv)
    assert list(found) == SCHEMA.names
    assert found["refined_exploitability"].tolist() == rows["refined_exploitability"].tolist()
    drawn = plot.read_text()
    assert drawn.count("4 iterations") == 2 and "3 iterations" in drawn


def test_the_same_command_resumes(tmp_path: pathlib.Path):
    first = run(tmp_path / "s", *CUT, "--gadget", "unsafe", "--csv", tmp_path / "first.csv")
    again = run(tmp_path / "s", *CUT, "--gadget", "unsafe", "--csv", tmp_path / "again.csv")
    assert first.exit_code == again.exit_code == 0
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "again.csv").read_bytes(), "times too"
    other = run(tmp_path / "s", *CUT, "--gadget", "unsafe", "--iterations", 4)
    assert other.exit_code == 2
    assert re.search(r"^Error: .* has other settings: .*--extend.*\n  iterations: 4 added\n$", other.stderr)
    more = run(tmp_path / "s", *CUT, "--gadget", "unsafe", "--iterations", 4, "--extend")
    assert more.exit_code == 0 and len(read_sweep(tmp_path / "s")) == 4


def test_a_folder_without_locks(tmp_path: pathlib.Path):
    result = run(tmp_path / "s", *CUT, "--gadget", "unsafe", "--no-locks")
    assert result.exit_code == 0 and (tmp_path / "s" / "claims").is_dir()
    assert run(tmp_path / "s", *CUT, "--gadget", "unsafe").exit_code == 0, "the folder knows"
    run(tmp_path / "t", *CUT, "--gadget", "unsafe")
    other = run(tmp_path / "t", *CUT, "--gadget", "unsafe", "--no-locks")
    assert other.exit_code == 2 and "began with locks=True" in words(other.stderr)


def test_a_cut_may_be_one_games(tmp_path: pathlib.Path):
    """A cut may name its game; the other game takes the cut without a name."""
    games = ("--game", "coin_toss", "--game", "kuhn_poker")
    exactly = ("--blueprint", "uniform", "--gadget", "unsafe", "--algorithm", "lp", "--player", 0)
    cuts = ("--cut", "coin_toss:play", "--cut", "depth:2")
    result = run(tmp_path / "s", *games, *exactly, *cuts)
    assert result.exit_code == 0, result.stderr
    rows = read_sweep(tmp_path / "s")
    assert list(zip(rows["game"], rows["cut"], strict=True)) == [
        ("coin_toss", "play"),
        ("kuhn_poker", "depth:2"),
    ]
    result = run(tmp_path / "t", *games[:2], *exactly, *cuts)
    assert result.exit_code == 2 and "every game has its own cut" in words(result.stderr)


@pytest.mark.slow
def test_workers_have_the_gadget_of_a_users_file(tmp_path: pathlib.Path):
    (tmp_path / "mine.py").write_text(OWN)
    gadget = ("--gadget", f"{tmp_path / 'mine.py'}:Bold", "--prior", "none", "--player", 0)
    result = run(tmp_path / "s", "--game", "kuhn_poker", "--cut", "depth:1", *FAST, *gadget, "--workers", 2)
    assert result.exit_code == 0, result.stderr
    assert read_sweep(tmp_path / "s")["gadget"].tolist() == ["bold"]


def test_workers_are_processes_or_jobs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, Any]] = []

    def spy(*arguments: Any, **more: Any) -> None:
        asked.append({name: more[name] for name in ("executor", "workers", "locks")})
        raise KeyboardInterrupt

    monkeypatch.setattr("jaxgadget.sweeping.workers.slurm_executor", lambda *arguments: arguments)
    monkeypatch.setattr(sys.modules["jaxgadget.sweeping.sweep"], "sweep", spy)
    run(tmp_path, *CUT)
    run(tmp_path, *CUT, "--workers", 3)
    slurm = ("--slurm", "partition=cpu,time=1:00", "--slurm", "nodelist=a,b")
    run(tmp_path, *CUT, "--workers", 2, *slurm)
    assert asked[0] == {"executor": None, "workers": None, "locks": None}
    assert isinstance(asked[1]["executor"], Processes) and asked[1]["workers"] == 3
    options = {"partition": "cpu", "time": "1:00", "nodelist": "a,b"}
    assert asked[2]["executor"] == (tmp_path / "slurm", options) and asked[2]["workers"] == 2


def test_without_a_cut_each_game_has_its_first(tmp_path: pathlib.Path):
    games = ("--game", "coin_toss", "--game", "kuhn_poker")
    exactly = ("--blueprint", "uniform", "--gadget", "unsafe", "--algorithm", "lp", "--player", 0)
    result = run(tmp_path / "s", *games, *exactly)
    assert result.exit_code == 0, result.stderr
    rows = read_sweep(tmp_path / "s")
    assert list(zip(rows["game"], rows["cut"], strict=True)) == [
        ("coin_toss", "play"),
        ("kuhn_poker", "depth:1"),
    ]
    assert "coin_toss, cut play, player 0" in words(result.stdout)


def test_an_interrupt_says_how_to_resume(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jaxgadget.sweeping.store.Store.write", interrupt)
    folder = str(tmp_path / "s")
    result = run(folder, *CUT, "--gadget", "unsafe")
    assert result.exit_code == 130
    assert (
        result.stderr == f"Interrupted. {folder!r} keeps 0 of 2 pieces; repeat the same command to resume.\n"
    )
    monkeypatch.undo()
    assert run(folder, *CUT, "--gadget", "unsafe").stderr == ""
    next((tmp_path / "s" / "pieces").iterdir()).unlink()
    assert run(folder, *CUT, "--gadget", "unsafe").stderr == f"Resuming {folder!r} with piece 2 of 2.\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--game", "whist"), "whist"),
        ((*CUT, "--blueprint", "draws:1", "--seed", "-1"), "seeds=-1: expected a whole number >= 0"),
        ((*CUT, "--algorithm", "lp"), "--iterations has no effect with --algorithm lp; leave it out"),
        ((*CUT, "--seed", "3"), "--seed has no effect without --blueprint draws:COUNT"),
        ((*CUT, "--plot", "picture.gif"), "--plot: picture 'picture.gif': expected a file name that ends in"),
        ((*CUT, "--workers", "0"), "Invalid value for '--workers'"),
        ((*CUT, "--slurm", "partition=cpu"), "--slurm 'partition=cpu': expected --workers with it"),
        ((*CUT, "--workers", "2", "--slurm", "cpu"), "--slurm 'cpu': expected options of sbatch, such as"),
        ((*CUT, "--csv", "same", "--parquet", "same"), "--csv and --parquet both name 'same'"),
    ],
)
def test_bad_input_is_status_2_and_a_sentence(
    tmp_path: pathlib.Path, arguments: tuple[object, ...], complaint: str
):
    result = run(tmp_path / "s", *arguments)
    assert result.exit_code == 2
    assert complaint in words(result.stderr)
    assert "Traceback" not in result.stderr and result.stdout == ""
