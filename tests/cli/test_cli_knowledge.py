"""`--order` and related options of `refine` and `nested`."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

import jaxgadget as jg
from tests.cli.commands import run

PENNIES = "n_matching_pennies(num_deals=4)"
REFINE = ("refine", PENNIES, "--blueprint", "uniform", "--gadget", "resolving", "--prior", "none")
EXACTLY = (*REFINE, "--algorithm", "lp")
NESTED = ("nested", "kuhn_poker", "--blueprint", "uniform", "--gadget", "resolving", "--prior", "none")
COLUMNS = ("order", "unfrozen", "generation", "combine")


def row(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    (found,) = json.loads(result.stdout)["rows"]
    return found


def test_rows_have_columns_of_knowledge() -> None:
    options, knowledge, said = (
        ("--order", 3, "--unfrozen", "--combine", "in-turn"),
        jg.Knowledge(3, True, combine="in-turn"),
        (3, True, None, "in-turn"),
    )
    found = row(*EXACTLY, *options)
    tree = jg.enumerate_game(jg.load(PENNIES))
    (expected,) = jg.refine(
        tree,
        "subgame",
        jg.Policy.uniform(tree),
        jg.Resolving(jg.NoPrior()),
        knowledge=knowledge,
        algorithm="lp",
    ).table.to_dict("records")
    assert tuple(found[name] for name in COLUMNS) == said
    for name in ("refined_exploitability", "mean_exploitability", "blueprint_exploitability"):
        assert found[name] == expected[name]
    assert (found["exploitability_bound"] is None) == bool(options[2:])


def test_sweeps_take_several_orders(tmp_path: pathlib.Path) -> None:
    sweep = ("sweep", tmp_path / "s", "--game", PENNIES, "--blueprint", "uniform", "--player", 0)
    how = ("--gadget", "resolving", "--prior", "none", "--algorithm", "lp", "--combine", "in-turn")
    result = run(*sweep, *how, "--order", 1, "--order", "inf", "--json", "-")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)["rows"]
    assert [(row["order"], row["combine"]) for row in found] == [(1, "in-turn"), ("inf", "in-turn")]
    assert "resolving, order ∞" in run(*sweep, *how, "--order", 1, "--order", "inf").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*REFINE, "--order", 2), "--order 2: expected 1, 3, 5, … or inf, common knowledge"),
        ((*REFINE, "--combine", "damped"), "--combine has no effect without --order; leave it out"),
        (
            (*REFINE, "--order", 1, "--generate", "all:3"),
            "generation 'all' is unknown; expected one of random, diverse",
        ),
        (
            (*REFINE, "--order", 1, "--model", "uniform", "--p", 0.5),
            "--order 1 cannot be combined with --model",
        ),
        ((*NESTED, "--leaf", "optimal", "--order", 1), "--order 1 with --leaf optimal: these values are of"),
        ((*NESTED, "--leaf", "end", "--depth", 2), "--depth has no effect with --leaf end; leave it out"),
    ],
)
def test_options_without_effect_are_refused(arguments: tuple[object, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
