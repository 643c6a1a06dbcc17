"""Sweeps over own infostates: rows equal those of `refine`, and folders record the request."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from typing import Any

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

import jaxgadget as jg
from jaxgadget.sweeping.store import SCHEMA
from tests.solving import sweeping

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
    return folder, jg.sweep(folder, **sweeping(knowledge=KNOWN, **KUHN))


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


def test_a_folder_records_the_knowledge(finished: tuple[pathlib.Path, Any]) -> None:
    folder, rows = finished
    again = jg.sweep(folder, **sweeping(knowledge=KNOWN, **KUHN))
    assert_frame_equal(again, rows)
    with pytest.raises(ValueError, match="has other settings") as refused:
        jg.sweep(folder, **sweeping(knowledge=jg.Knowledge(3), **KUHN))
    assert any("order 3" in note for note in refused.value.__notes__)


@dataclasses.dataclass
class First:
    """A user-defined generation: the first infostates; a mutable dataclass has no hash."""

    num: int
    name: str = "first"
    draws: int = 1

    def consider(self, values: np.ndarray, subgame: np.ndarray) -> np.ndarray:
        """In the order of the rows."""
        rank = np.arange(len(subgame)) - np.searchsorted(subgame, subgame)
        return np.broadcast_to((rank < self.num)[:, None], values.shape)


def test_a_user_defined_generation(tmp_path: pathlib.Path) -> None:
    """Each occurs once, and is distinguished from others when the sweep is resumed."""
    first = [jg.Knowledge(generate=First(1)), jg.Knowledge(generate=First(1))]
    asked = KUHN | {"blueprints": "uniform", "gadgets": "resolving"}
    rows = jg.sweep(tmp_path / "sweep", **sweeping(knowledge=first, **asked))
    assert rows["generation"].tolist() == ["first"]
    assert_frame_equal(jg.sweep(tmp_path / "sweep", **sweeping(knowledge=first[0], **asked)), rows)
    with pytest.raises(ValueError, match="has other settings"):
        jg.sweep(tmp_path / "sweep", **sweeping(knowledge=jg.Knowledge(generate=First(2)), **asked))
    with pytest.raises(ValueError, match="name"):
        jg.Knowledge(generate=First(1, name=3))  # pyright: ignore[reportArgumentType]
