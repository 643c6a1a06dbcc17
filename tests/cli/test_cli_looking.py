"""`jaxgadget show` and `infostates`."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

import jaxgadget as jg
from jaxgadget.report import decisions_frame, roots_frame
from tests.cli.commands import record, run


def test_show_prints_the_frames(kuhn: jg.HistoryTree, tmp_path: pathlib.Path) -> None:
    policy = jg.Policy.stack([jg.Policy.dirichlet(kuhn, 1), jg.Policy.dirichlet(kuhn, 2)])
    policy.save(tmp_path / "two.npz")
    arguments = (
        "--cut",
        "depth:1",
        "--subgame",
        1,
        "--policy",
        tmp_path / "two.npz",
        "--lane",
        "dirichlet:2",
    )
    found = record(run("show", "kuhn_poker", *arguments, "--json", "-"))
    forest, lane = jg.build_forest(kuhn, "depth:1"), policy.lane(1)
    assert found["roots"] == roots_frame(forest, lane, 1).to_dict("records")
    assert found["decisions"] == decisions_frame(forest, lane, 1).to_dict("records")
    assert (found["game"], found["cut"], found["subgame"], found["num_subgames"]) == (
        *("kuhn_poker", "depth:1"),
        *(1, 2),
    )
    by_name = ("--infostate", "0b", *arguments[4:])
    assert record(run("show", "kuhn_poker", *by_name, "--json", "-"))["subgame"] == int(
        forest.infoset_subgame(1)[kuhn.find_infoset("0b")[1]]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--subgame", 2), "--subgame 2: expected a number from 0 to 1"),
        (("--infostate", "0"), "--infostate '0' lies above the cut 'depth:1'"),
        (("--policy", "draws:2"), "--policy 'draws:2' holds 2 policies; pick one by --lane"),
    ],
)
def test_show_complains_in_a_line(arguments: tuple[object, ...], message: str) -> None:
    result = run("show", "kuhn_poker", *arguments)
    assert result.exit_code == 2 and re.search(message, result.stderr), result.stderr
    assert result.stderr.count("\n") == 1


def test_infostates_are_listed(kuhn: jg.HistoryTree) -> None:
    found = record(run("infostates", "kuhn_poker", "--json", "-"))
    rows = found["infostates"]
    assert [row["infostate"] for row in rows] == [*kuhn.infoset_names[0], *kuhn.infoset_names[1]]
    (row,) = [row for row in rows if row["infostate"] == "1pb"]
    assert (row["player"], row["decisions"], row["histories"]) == (0, 1, 2)
    assert (row["actions"], row["action_names"]) == ([0, 1], ["Pass", "Bet"])
    assert kuhn.find_infoset("1pb") == (0, row["infoset"]) and "subgame" not in row
    shown = run("infostates", "kuhn_poker").stdout
    assert "12 of 12 infostates" in shown and "0 Pass, 1 Bet" in shown


def test_infostates_are_filtered(kuhn: jg.HistoryTree) -> None:
    def names(*arguments: object) -> list[str]:
        return [
            row["infostate"]
            for row in record(run("infostates", "kuhn_poker", *arguments, "--json", "-"))["infostates"]
        ]

    assert names("--player", 1) == list(kuhn.infoset_names[1])
    assert sorted(names("--match", "p", "--match", "0")) == ["0p", "0pb"]
    assert names("--match", "x") == []
    assert len(names("--cut", "depth:1")) == 9
    result = run("infostates", "kuhn_poker", "--subgame", 7)
    assert result.exit_code == 2 and "--subgame 7: expected a number from 0 to 1" in result.stderr


def test_infostates_need_no_jax() -> None:
    script = "import sys; from jaxgadget.cli import app; app(sys.argv[1:], standalone_mode=False)"
    command = [
        sys.executable,
        "-c",
        f"{script}; print([n for n in ('jax', 'matplotlib') if n in sys.modules])",
    ]
    done = subprocess.run([*command, "infostates", "kuhn_poker"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done
