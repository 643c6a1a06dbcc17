"""Sweeps by what players know: rows are those of refine, and folders know what was asked."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

import jaxgadget as jg
from jaxgadget.sweeping.store import SCHEMA

KUHN: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": ["uniform", "cfr:3"],
    "gadgets": ["resolving", "unsafe"],
    "priors": "none",
    "players": 1,
    "iterations": 5,
    "progress": False,
}
KNOWN = [
    jg.Knowledge(combine="in-turn"),
    None,
    jg.Knowledge(math.inf, generate=jg.RandomGeneration(1, draws=2)),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Any]:
    folder = tmp_path_factory.mktemp("known") / "sweep"
    return folder, jg.sweep(folder, **KUHN, knowledge=KNOWN)


def test_rows_are_those_of_refine(finished: tuple[pathlib.Path, Any]) -> None:
    _, rows = finished
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    blueprints = jg.make_blueprints(tree, ["uniform", "cfr:3"], progress=False)
    gadgets = [jg.Resolving(jg.NoPrior()), jg.Unsafe()]
    value = tuple(rows[["game_value_low", "game_value_high"]].iloc[0])
    assert len(rows) == 3 * 2 * 2
    for number, knowledge in enumerate(KNOWN):
        result = jg.refine(
            tree,
            "depth:1",
            blueprints,
            gadgets,
            knowledge=knowledge,
            player=1,
            iterations=5,
            value=value,
        )
        columns = [name for name in SCHEMA.names if name in result.table]
        assert {"order", "unfrozen", "generation", "combine", "mean_exploitability"} < set(columns)
        found = rows[columns].iloc[number * 4 : (number + 1) * 4].reset_index(drop=True)
        said = ["model", "gifts", "failure", "alternative", "unfrozen", "generation", "combine"]
        numbers = [name for name in columns if name not in said]
        assert_frame_equal(found[numbers], result.table[numbers], check_exact=True)
        for name in said[-3:]:
            assert [None if x != x else x for x in found[name]] == result.table[name].tolist()


def test_a_folder_is_of_what_was_to_be_known(finished: tuple[pathlib.Path, Any]) -> None:
    folder, rows = finished
    again = jg.sweep(folder, **KUHN, knowledge=KNOWN)
    assert_frame_equal(again, rows)
    with pytest.raises(ValueError, match="has other settings") as refused:
        jg.sweep(folder, **KUHN, knowledge=jg.Knowledge(3))
    assert any("order 3" in note for note in refused.value.__notes__)


def test_what_cannot_be_known_is_refused_before_anything_is_solved(tmp_path: pathlib.Path) -> None:
    for asked, message in [
        ({"knowledge": []}, "is empty: expected at least one"),
        ({"knowledge": 1}, "knowledge=1: expected Knowledge"),
        ({"knowledge": KNOWN[0], "opponent": jg.Opponent(["uniform"], 0.5)}, "knowledge and opponent"),
        ({"knowledge": KNOWN[0], "gadgets": "full"}, "full looks at play above the cut"),
    ]:
        with pytest.raises(ValueError, match=message):
            jg.sweep(tmp_path / "sweep", **(KUHN | asked))
    assert not (tmp_path / "sweep").exists()
