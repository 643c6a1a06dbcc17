"""What takes long of training networks of ranges: that it learns, more places to be cut off at."""

from __future__ import annotations

import pathlib
import re
import shutil
from typing import Any

import pytest

import jaxgadget as jg
from jaxgadget import RangeTraining
from jaxgadget.learn import range_training
from jaxgadget.learn.checkpoints import TrainingFolder
from jaxgadget.values import solved
from tests.learn.test_range_training import (
    CUT,
    CutOff,
    check_learning,
    check_resuming,
    few_searches,  # noqa: F401  # a fixture of this module, too
    train,
)


@pytest.mark.parametrize("network", ["padded", "infostates"])
def test_it_learns(network: str) -> None:
    check_learning(network)


@pytest.fixture(scope="module")
def undisturbed() -> RangeTraining:
    return train()


@pytest.mark.parametrize(
    "cut_off",
    [
        (solved.RangeSolver, "solve", 1, True),  # what was drawn is solved, but not written
        (range_training, "searched_ranges", 1, True),  # inside a round: its ranges are not written
        (TrainingFolder, "save", 3, False),  # after the round, before its first checkpoint
        (TrainingFolder, "save", 3, True),
    ],
    ids=["drawing", "collecting", "after a round", "later"],
)
def test_cut_off_it_goes_on_to_the_same_weights(
    undisturbed: RangeTraining, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, cut_off: CutOff
) -> None:
    check_resuming(undisturbed, tmp_path, monkeypatch, cut_off)


def test_a_sweep_knows_another_network_in_the_same_folder(tmp_path: pathlib.Path) -> None:
    """Its name is the folder's; rows of the network that lay there before are not given for its own."""
    pytest.importorskip("orbax.checkpoint")
    folder, rows = tmp_path / "network", tmp_path / "rows"
    how: dict[str, Any] = {"gadgets": "resolving", "priors": "none", "players": 0, "iterations": 20}
    how |= {"blueprints": "dirichlet:0", "alternatives": f"values:{folder}"}
    train(folder, rounds=0)
    before = jg.sweep(rows, "kuhn_poker", CUT, **how)
    assert before["alternative"].tolist() == [f"values:{folder}"]
    assert before["exploitability_bound"].isna().all()
    again = jg.sweep(rows, "kuhn_poker", CUT, **how)
    assert again.equals(before), "it is read"
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match="does not exist"):
        jg.sweep(rows, "kuhn_poker", CUT, **how)
    train(folder, rounds=0, seed=1)
    with pytest.raises(ValueError, match=re.escape(str(rows))) as raised:
        jg.sweep(rows, "kuhn_poker", CUT, **how)
    said = "\n".join([str(raised.value), *raised.value.__notes__])
    assert "its folder holds another network now" in said and "choose another folder" in said
    assert not re.search("[0-9a-f]{32}", said), "digests tell nobody anything"
