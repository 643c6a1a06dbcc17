"""`jaxgadget holdem`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from jaxgadget.cli import app
from jaxgadget.poker import solve
from jaxgadget.poker.betting import ALL_IN, BetMenu
from jaxgadget.poker.solve import solve_spots
from jaxgadget.poker.spots import Spot

BLUFFS = ("--board", "2s3h4d6c7c", "--oop", "AsAh,QsQh", "--ip", "KsKh", "--pot", 20, "--stack", 10)
MENUS = ("--bets", "a", "--ip-bets", "", "--raises", "")
ROW: dict[str, Any] = {"board": "2s3h4d6c7c", "oop": "AsAh,QsQh", "ip": "KsKh", "pot": 20, "stack": 10}


def run(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(
        app, ["holdem", *map(str, arguments)], prog_name="jaxgadget"
    )


def test_a_row_is_the_library_s_and_a_picture_is_drawn(tmp_path: pathlib.Path):
    picture = tmp_path / "grid.png"
    result = run(*BLUFFS, *MENUS, "--iterations", 50, "--json", "-", "--plot", picture, "--line", "all-in 10")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {"rows", "seconds"}
    menus = (BetMenu(bets=(ALL_IN,), raises=()), BetMenu(bets=(), raises=()))
    (solution,) = solve_spots([Spot(**ROW, menus=menus)], iterations=50)
    (row,) = found["rows"]
    assert set(row) == {"board", "ev", "exploitability", "gap", "iterations", "hands", "root"}
    assert row["ev"] == pytest.approx(solution.ev)
    assert row["exploitability"] == pytest.approx(solution.exploitability)
    assert row["root"] == pytest.approx(solution.frequencies())
    assert picture.stat().st_size > 1000


def test_the_tree_is_printed():
    result = run(*BLUFFS, *MENUS, "--tree")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "oop check",
        "  ip check: showdown, 0 more each",
        "oop all-in 10",
        "  ip fold: oop wins, 0 more each",
        "  ip call: showdown, 10 more each",
    ]


def test_what_is_solved_is_not_solved_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    spots, results = tmp_path / "spots.jsonl", tmp_path / "rows.jsonl"
    asked = ("--spots", spots, "--results", results, *MENUS, "--iterations", 20)
    spots.write_text(json.dumps(ROW) + "\n\n")
    assert run(*asked).exit_code == 0
    first = results.read_text()
    spots.write_text(json.dumps(ROW | {"pot": 40, "cap": 1}) + "\n" + json.dumps(ROW) + "\n")
    numbers: list[int] = []
    built = solve.build_batch

    def count(batch: Any, form: Any) -> Any:
        numbers.append(len(batch))
        return built(batch, form)

    monkeypatch.setattr(solve, "build_batch", count)
    result = run(*asked, "--json", "-")
    assert result.exit_code == 0, result.stderr
    assert numbers == [1]
    assert results.read_text().startswith(first)
    rows = json.loads(result.stdout)["rows"]
    assert [sum(row["ev"]) for row in rows] == pytest.approx([40, 20])
    assert run(*asked).exit_code == 0
    assert numbers == [1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "board is missing"),
        ((*BLUFFS[2:], *MENUS), "board is missing"),
        (("--board", "2s3h", *BLUFFS[2:]), "has 2 cards: expected 4 for a turn or 5 for a river"),
        (("--board", "2s2s3h4d5c", *BLUFFS[2:]), "2s is there twice"),
        ((*BLUFFS[:6], "--pot", -20, "--stack", 10), "pot=-20"),
        ((*BLUFFS[:6], "--pot", 20, "--stack", 0), "stack=0"),
        ((*BLUFFS, "--bets", "", "--raises", ""), "menus leave no action"),
        ((*BLUFFS, "--bets", "5x"), "bets='5x': '5x' is no size"),
        ((*BLUFFS, "--ip-raises", "-1%"), "ip_raises='-1%'"),
        ((*BLUFFS[:2], "--oop", "AZs", *BLUFFS[4:]), "oop='AZs': 'Z' at character 2"),
        ((*BLUFFS[:2], "--oop", "KsKh", *BLUFFS[4:]), "no pair of hands is compatible"),
        ((*BLUFFS, "--target-gap", "much"), "target_gap='much': expected chips >= 0"),
        ((*BLUFFS, "--results", "rows.jsonl"), "--results means nothing without --spots"),
        ((*BLUFFS, "--line", "check"), "--line means nothing without --plot"),
        ((*BLUFFS, *MENUS, "--plot", "grid.png", "--line", "bet 5"), "'bet 5' is not to be done"),
        (("--spots", "nowhere.jsonl"), "cannot be read"),
        (("--spots", "x.jsonl", *BLUFFS), "--board means nothing with --spots"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[object, ...], message: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows: expected at least one"),
        ("{", "line 1: "),
        ("[1]", "line 1: expected a JSON object"),
        (
            json.dumps(ROW) + "\n" + json.dumps(ROW | {"pots": 3}),
            "line 2: 'pots' is no part of a spot; near to it: 'pot'",
        ),
        (json.dumps(ROW | {"stack": "10"}), "line 1: stack='10': expected a number of chips > 0"),
        (json.dumps(ROW | {"bets": 5}), "line 1: bets=5: expected a text"),
    ],
)
def test_bad_rows_name_their_line(text: str, message: str, tmp_path: pathlib.Path):
    spots = tmp_path / "spots.jsonl"
    spots.write_text(text)
    result = run("--spots", spots)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_file_of_something_else_is_left_alone(tmp_path: pathlib.Path):
    spots, results = tmp_path / "spots.jsonl", tmp_path / "notes.txt"
    spots.write_text(json.dumps(ROW))
    results.write_text("mine\n")
    result = run("--spots", spots, "--results", results)
    assert result.exit_code == 2
    assert "line 1, is no result of this command" in " ".join(result.stderr.split())
    assert results.read_text() == "mine\n"
