"""Slow tests of training networks of ranges: learning, and the identity of networks in sweeps."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
from typing import Any

import jax
import numpy as np
import pytest

import jaxgadget as jg
from jaxgadget.learn.range_training import normalised
from tests.learn.test_range_training import (
    CUT,
    few_searches,  # noqa: F401  # a fixture of this module, too
    forest,
    train,
)
from tests.solving import sweeping
from tests.trees import kuhn


def test_it_learns() -> None:
    tree = kuhn()
    found = train(
        network="padded", width=16, samples=64, steps=300, every=150, learning_rate=1e-2, batch_size=16
    )
    assert list(found.log.columns) == ["step", "loss", "heldout_rmse", "seconds", "examples_per_second"]
    assert found.log["step"].tolist() == [150, 300]
    assert found.log["loss"].iloc[-1] < found.log["loss"].iloc[0] / 3
    assert (found.log["examples_per_second"] > 0).all() and found.log["seconds"].is_monotonic_increasing
    assert found.log["heldout_rmse"].iloc[-1] == found.heldout_rmse
    assert found.payoff_range == tree.payoff_range == 4 and found.values.error == found.value_rmse
    # The error of a network that always returns 0 is the scale of the values.
    nothing = dataclasses.replace(
        found.values, weights=jax.tree.map(lambda x: np.zeros_like(x), found.values.weights)
    )
    ranges = normalised(forest(), jg.draw_ranges(forest(), 32, seed=9))
    fresh = jg.solve_ranges(forest(), ranges, solver=jg.Solver(iterations=300, progress=False))
    assert jg.range_rmse(found.values, fresh) < 0.35 * jg.range_rmse(nothing, fresh)
    assert found.train_rmse < 0.1 * found.payoff_range
    assert f"error {found.heldout_rmse:.3g} held out" in repr(found)


def test_a_sweep_knows_another_network_in_the_same_folder(tmp_path: pathlib.Path) -> None:
    """The network's name is the folder's; rows of a previous network there are not reused."""
    pytest.importorskip("orbax.checkpoint")
    folder, rows = tmp_path / "network", tmp_path / "rows"
    how: dict[str, Any] = {"gadgets": "resolving", "priors": "none", "players": 0, "iterations": 20}
    how |= {"blueprints": "dirichlet:0", "alternatives": f"values:{folder}"}
    train(folder, rounds=0)
    before = jg.sweep(rows, **sweeping(games="kuhn_poker", cuts=CUT, **how))
    assert before["alternative"].tolist() == [f"values:{folder}"]
    assert before["exploitability_bound"].isna().all()
    again = jg.sweep(rows, **sweeping(games="kuhn_poker", cuts=CUT, **how))
    assert again.equals(before), "it is read"
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match="does not exist"):
        jg.sweep(rows, **sweeping(games="kuhn_poker", cuts=CUT, **how))
    train(folder, rounds=0, seed=1)
    with pytest.raises(ValueError, match=re.escape(str(rows))) as raised:
        jg.sweep(rows, **sweeping(games="kuhn_poker", cuts=CUT, **how))
    said = "\n".join([str(raised.value), *raised.value.__notes__])
    assert "its folder now contains another network" in said and "choose another folder" in said
    assert not re.search("[0-9a-f]{32}", said), "digests are not printed"
