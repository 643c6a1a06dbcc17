"""The experiments on own infostates with tiny settings: data, tables, safety, and counts."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.knowledge.__main__ import STUDY
from experiments.knowledge.common import (
    SAFE,
    goofspiel,
    with_way,
)
from experiments.study import Settings
from tests.slow.experiments.frame import every_experiment_is_whole

pytestmark = pytest.mark.longest

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_pennies_are_safe_by_the_safe_methods_only(settings: Settings) -> None:
    frame = with_way(settings.data_of("pennies", "this test"))
    exact = frame[(frame["algorithm"] == "lp") & (frame["gadget"] != "unsafe")]
    is_safe = np.array([pair in SAFE for pair in zip(exact["known"], exact["combine"], strict=True)])
    assert (exact["rise"][is_safe] <= 1e-3).all()  # effect of priors with ε > 0
    without = exact["prior"] == "none"
    assert (exact["rise"][is_safe & without] <= 1e-9).all()
    assert exact["rise"][~is_safe].max() > 0.05
    bound = exact["exploitability_bound"]
    assert bound[is_safe].notna().all() and bound[~is_safe].isna().all()
    assert (exact["refined_exploitability"] <= bound + 1e-9)[is_safe].all()


def test_sizes_are_those_of_the_definition(settings: Settings) -> None:
    frame = settings.data_of("sizes", "this test").set_index(["game", "player"])
    row = frame.loc[(goofspiel(4), 0)]
    assert row[["roots", "infostates", "components", "most I^∞"]].tolist() == [144, 70, 32, 28]
    assert round(row["mean I^∞"], 1) == 9.5
    assert (frame["mean I"] <= frame["mean I²"]).all() and (frame["mean I²"] <= frame["mean I^∞"]).all()


def test_the_printed_bound_is_broken_and_the_mended_one_is_not(settings: Settings) -> None:
    frame = settings.data_of("proposition", "this test")
    two = frame.set_index("hands").loc[2]
    found = two[["mixture_exploitability", "printed_bound", "mended_bound"]].tolist()
    assert found == pytest.approx([0.45, 0.25, 0.5], abs=1e-9)
    assert (frame["mixture_exploitability"] > frame["printed_bound"]).all()
    assert (frame["mixture_exploitability"] <= frame["mended_bound"] + 1e-9).all()
