"""The refinement experiments with tiny settings: their bounds hold, and tables match the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.refinements import claims, closing, figure18, figures14_17, sensitivity
from experiments.refinements.__main__ import STUDY
from experiments.refinements.common import HERE
from experiments.study import Settings
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.registry import DEFAULT_PRIORS
from tests.slow.experiments.frame import every_experiment_is_whole

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_bounds_hold(settings: Settings) -> None:
    for name in ("figure2", "figure19", "figure3", "sensitivity", "reach", "larger"):
        frame = settings.data_of(name, "this test")
        safe = frame[~frame["gadget"].isin(["unsafe", "full"])]
        unsure = 1e-6 + safe["game_value_high"] - safe["game_value_low"]
        assert len(safe), name
        assert (safe["refined_exploitability"] <= safe["exploitability_bound"] + unsure).all(), name


def test_differences_and_distances_by_hand() -> None:
    keys = {"game": "g", "cut": "c", "player": 0, "prior": "none", "epsilon": 0.0, "gap_sum": 0.01}
    rows = [
        {"blueprint": name, "seed": seed, "gadget": gadget, "refined_exploitability": refined}
        | {"blueprint_exploitability": before}
        for name, seed, before, numbers in (("a", None, 1.0, (0.5, 0.2, 0.1)), ("b", 3, 2.0, (0.4, 2.5, 0.0)))
        for gadget, refined in zip(("unsafe", "resolving", "optimal-continuation"), numbers, strict=True)
    ]
    frame = pd.DataFrame(rows).assign(**keys)
    shares = closing.closed(frame).set_index(["blueprints", "method"])["closed"]
    assert shares["checkpoints", "unsafe"] == pytest.approx(0.5 / 0.9)
    assert shares["checkpoints", "resolving, no prior"] == pytest.approx(0.8 / 0.9)
    assert shares["draws", "unsafe"] == pytest.approx(0.8)
    assert shares["draws", "resolving, no prior"] == pytest.approx(-0.25)
    frame.loc[frame["gadget"] == "resolving", "prior"] = "blueprint"

    class Kept(Settings):
        def data(self, name: str) -> pd.DataFrame:
            return frame

    pairs = figure18.compute(Kept(folder=HERE, work=HERE)).set_index("blueprint")
    assert pairs.loc["a", "difference"] == pytest.approx(0.3)
    assert pairs.loc["b", "difference"] == pytest.approx(-2.1)
    assert pairs["order"].to_dict() == {"a": 0, "b": 1}
    likely = figures14_17.compute(Kept(folder=HERE, work=HERE)).set_index(["row", "column"])["likely"]
    assert len(likely) == 6
    np.testing.assert_allclose(likely + likely.swaplevel().reindex(likely.index), 1)


def test_claims_by_hand() -> None:
    names = [("unsafe", "none"), *((g, p) for g in ("resolving", "max-margin") for p in DEFAULT_PRIORS)]
    numbers = {  # by blueprint: one per name in `names`
        "a": (0.1, 0.5, 0.4, 0.3, 0.2, 0.2, 0.2),
        "b": (9.0, 0.5, 0.6, 0.5, 0.1, 0.2, 0.1),
    }
    rows = [
        {"game": "g", "cut": "c", "player": 0, "blueprint": blueprint, "gadget": gadget, "prior": prior}
        | {"refined_exploitability": number, "blueprint_exploitability": 1.0}
        for blueprint, all_of_them in numbers.items()
        for (gadget, prior), number in zip(names, all_of_them, strict=True)
    ]

    class Kept(Settings):
        def data(self, name: str) -> pd.DataFrame:
            return pd.DataFrame(rows)

    shares = claims.compute(Kept(folder=HERE, work=HERE)).set_index(["first", "second"])
    assert len(shares) == len(claims.COMPARISONS) and (shares["cases"] == 2).all()
    prior = shares.loc["resolving/uniform", "resolving/none"]
    assert (prior["better"], prior["worse"]) == (1, 1) and prior["largest_loss"] == pytest.approx(0.1)
    assert prior["ratio"] == pytest.approx(np.sqrt(0.8 * 1.2))
    equal = shares.loc["max-margin/blueprint", "max-margin/none"]
    assert (equal["better"], equal["worse"]) == (0, 0) and equal["ratio"] == pytest.approx(1)
    itself = shares.loc["unsafe/none", claims.BLUEPRINT]
    assert (itself["better"], itself["worse"]) == (1, 1) and itself["largest_loss"] == pytest.approx(8)


def test_the_other_scale_is_the_prior_over_its_largest() -> None:
    numbers, subgame = np.array([[0.1], [0.3], [0.0]]), np.array([0, 0, 1])
    ranges = Ranges(
        num_subgames=2,
        subgame=subgame,
        root=np.arange(3),
        resolver=numbers,
        opponent=numbers,
        mass=numbers,
        cbv=numbers,
    )
    follow = sensitivity.LargestPrior(1e-2).follow(ranges)
    np.testing.assert_allclose(follow[:, 0], [1 / 3, 1, 0.5], rtol=1e-12)


def test_the_tables_kept_are_those_of_the_data_kept() -> None:
    assert (HERE / "tables.md").read_text(encoding="utf-8") == STUDY.tables(STUDY.settings())
