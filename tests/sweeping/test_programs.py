"""A long sweep drops compiled programs before there are too many, which changes no number."""

import pathlib
from typing import Any

import pytest
from pandas.testing import assert_frame_equal

from jaxgadget import sweep
from jaxgadget.sweeping.store import TIMES
from jaxgadget.util import compilation
from tests.solving import sweeping

SETTINGS: dict[str, Any] = {
    "games": "kuhn_poker",
    "cuts": "depth:1",
    "blueprints": "uniform",
    "gadgets": "resolving",
    "priors": "none",
    "iterations": 2,
}


@pytest.mark.slow
def test_programs_are_dropped_between_pieces(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sweep(tmp_path / "plain", **sweeping(**SETTINGS))
    dropped: list[int] = []
    drop = compilation.drop_programs

    def count() -> None:
        dropped.append(compilation.num_mappings())
        drop()

    monkeypatch.setattr(compilation, "drop_programs", count)
    monkeypatch.setattr(compilation, "MAX_MAPPINGS", 10)
    again = sweep(tmp_path / "again", **sweeping(**SETTINGS))
    assert len(dropped) >= again["piece"].nunique() == 2
    columns = list(TIMES)
    assert_frame_equal(plain.drop(columns=columns), again.drop(columns=columns), check_exact=True)
