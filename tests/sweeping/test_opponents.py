"""Sweeps against opponents who follow a model: rows equal those of `refine`; folders record opponents."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

import jaxgadget as jg
from jaxgadget.sweeping.store import MANIFEST_FORMAT, SCHEMA, TIMES, Store
from jaxgadget.sweeping.sweep import Workshop
from jaxgadget.util.store import checksum, read_record, write_record
from tests.solving import sweeping

KUHN: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": ["uniform", "cfr:3"],
    "gadgets": ["resolving", "max-margin"],
    "priors": "none",
    "players": 0,
    "iterations": 5,
    "progress": False,
}
AGAINST = [jg.Opponent(["uniform", "cfr:7"], (0.25, 1)), jg.Opponent()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Any]:
    folder = tmp_path_factory.mktemp("against") / "sweep"
    return folder, jg.sweep(folder, **sweeping(opponent=AGAINST, **KUHN))


def test_rows_are_those_of_refine(finished: tuple[pathlib.Path, Any]) -> None:
    _, rows = finished
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    models = jg.make_blueprints(tree, ["uniform", "cfr:7"], progress=False)
    low, high = rows[["game_value_low", "game_value_high"]].iloc[0]
    result = jg.refine(
        tree,
        "depth:1",
        jg.make_blueprints(tree, ["uniform", "cfr:3"], progress=False),
        [jg.Resolving(jg.NoPrior()), jg.MaxMargin(jg.NoPrior())],
        opponent=[jg.Opponent(models, (0.25, 1)), jg.Opponent()],
        iterations=5,
        value=(low, high),
    )
    columns = [name for name in SCHEMA.names if name in result.table]
    assert {"model", "p", "gain", "refined_exploitability"} < set(columns)
    assert len(rows) == 2 * 5 * 2
    expected = result.table[columns]
    unsaid = ["model", "gifts", "failure", "unfrozen", "generation", "combine"]
    assert_frame_equal(
        rows[columns].drop(columns=unsaid),
        expected.drop(columns=unsaid),
        check_exact=True,
    )
    assert rows["model"].fillna("").tolist() == expected["model"].fillna("").tolist()


def test_going_on_makes_nothing_anew_and_knows_the_models(
    finished: tuple[pathlib.Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rows = finished
    monkeypatch.setattr(Workshop, "solve", None)
    again = jg.sweep(folder, **sweeping(opponent=AGAINST, **KUHN))
    assert_frame_equal(again, rows)
    assert_frame_equal(jg.read_sweep(folder), rows)


def test_another_opponent_is_another_sweep(finished: tuple[pathlib.Path, Any]) -> None:
    opponent = [jg.Opponent(["uniform", "cfr:7"], (0.25, 0.9)), jg.Opponent()]
    folder, _ = finished
    with pytest.raises(ValueError, match="has other settings"):
        jg.sweep(folder, **sweeping(opponent=opponent, **KUHN))


def test_a_policy_may_be_a_model_and_its_rows_count(tmp_path: pathlib.Path) -> None:
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    drawn, other = jg.Policy.dirichlet(tree, 1), jg.Policy.dirichlet(tree, 2)
    settings = KUHN | {"gadgets": "resolving", "blueprints": "uniform"}
    rows = jg.sweep(tmp_path, **sweeping(opponent=jg.Opponent(drawn, 0.5), **settings))
    assert rows["model"].tolist() == ["dirichlet:1"]
    renamed = dataclasses.replace(other, labels=drawn.labels)
    with pytest.raises(ValueError, match="settings"):
        jg.sweep(tmp_path, **sweeping(opponent=jg.Opponent(renamed, 0.5), **settings))
    with pytest.raises(ValueError, match="expected Opponent"):
        jg.sweep(tmp_path, **sweeping(opponent=drawn, **settings))  # type: ignore[arg-type]


def test_pieces_that_were_written_before_there_were_opponents_are_read(tmp_path: pathlib.Path) -> None:
    settings = KUHN | {"gadgets": "resolving", "blueprints": "uniform"}
    rows = jg.sweep(tmp_path, **sweeping(**settings))
    (path,) = (tmp_path / "pieces").glob("*.parquet")
    table = pq.read_table(path).drop_columns(["model", "p", "gain"])
    pq.write_table(table.replace_schema_metadata({b"checksum": checksum(table.to_pydict())}), path)
    manifest = read_record(tmp_path / "manifest.json", MANIFEST_FORMAT)
    assert manifest is not None
    pieces = [{k: v for k, v in piece.items() if k != "opponents"} for piece in manifest["pieces"]]
    write_record(tmp_path / "manifest.json", MANIFEST_FORMAT, {**manifest, "pieces": pieces})
    again = jg.sweep(tmp_path, **sweeping(**settings))
    assert_frame_equal(again.drop(columns=list(TIMES)), rows.drop(columns=list(TIMES)))
    assert again["p"].tolist() == [0.0] and again["model"].isna().all() and np.isnan(again["gain"]).all()
    assert "opponents" not in Store(tmp_path).manifest().request  # type: ignore[union-attr]
