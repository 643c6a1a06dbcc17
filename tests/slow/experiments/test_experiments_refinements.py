"""The refinement experiments run, and what is kept of them is whole: rows, columns, finite numbers."""

from __future__ import annotations

import pathlib
import types

import numpy as np
import pandas as pd
import pytest

from experiments.refinements import claims, closing, figure2, figure18, figures14_17, sensitivity
from experiments.refinements.__main__ import STUDY, main
from experiments.refinements.common import GRID, HERE, SMALL
from experiments.study import Settings
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.registry import DEFAULT_PRIORS
from jaxgadget.report.tables import KNOWLEDGE
from jaxgadget.sweeping.store import SCHEMA, TIMES

EXPERIMENTS = STUDY.experiments
SWEPT = ("figure2", "figure19", "figure3", "sensitivity", "reach", "larger")
SMALL_CUTS = sum(map(len, SMALL.values()))
BLUEPRINTS = 5
ROWS = {  # of a smoke test, for each cut of the small game
    "figure2": 8 * BLUEPRINTS,
    "figure19": 8 * BLUEPRINTS,
    "figure3": 8 * 2,
    "sensitivity": 2 * 10 * BLUEPRINTS,
    "reach": 13 * BLUEPRINTS,
    "larger": 8 * BLUEPRINTS,
    "figures14_17": 8 * 7,
    "figure18": BLUEPRINTS,
    "closing": (7 + 12) * 2,
    "claims": len(claims.COMPARISONS),
}
MAY_BE_EMPTY = {"seed", "alternative", "gifts", "exploitability_bound"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    written = tmp_path_factory.mktemp("refinements")
    main(["--smoke", "--folder", str(written)])
    return written


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.NAME)
def test_every_experiment_is_whole(folder: pathlib.Path, experiment: types.ModuleType) -> None:
    name = experiment.NAME
    frame = pd.read_parquet(folder / "data" / f"{name}.parquet")
    check_columns(name, frame)
    assert len(frame) == ROWS[name] * SMALL_CUTS
    check_finite(name, frame)
    assert len(experiment.summarise(frame))
    if hasattr(experiment, "draw"):
        assert (folder / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    else:
        assert name == "claims"


COLUMNS = {
    "claims": [
        "game",
        "cut",
        "player",
        "first",
        "second",
        "cases",
        "better",
        "worse",
        "ratio",
        "largest_loss",
    ],
    "closing": [
        "game",
        "cut",
        "blueprints",
        "method",
        "closed",
        "median",
        "least",
        "worse",
        "cases",
        "source",
    ],
    "figures14_17": ["game", "cut", "row", "column", "likely", "pairs"],
    "figure18": [
        *("game", "cut", "player", "blueprint", "seed", "blueprint_exploitability", "unsafe"),
        *("resolving", "difference", "gap", "order"),
    ],
}
MORE = {"sensitivity": ["varied", "value"]}


def check_columns(name: str, frame: pd.DataFrame) -> None:
    if name in SWEPT:
        left_out = ("form", "piece", "piece_rows", "failure", "guard_share", "model", "p", "gain", *KNOWLEDGE)
        names = [name for name in SCHEMA.names if name not in left_out]
        assert list(frame.columns) == names + MORE.get(name, []) and len(names) == len(SCHEMA) - len(left_out)
    else:
        assert list(frame.columns) == COLUMNS[name]


def check_finite(name: str, frame: pd.DataFrame) -> None:
    """Every number is finite; bounds where a gadget has one."""
    numbers = frame.drop(columns=MAY_BE_EMPTY, errors="ignore").select_dtypes("number")
    assert numbers.shape[1] >= 2 and np.isfinite(numbers.to_numpy(float)).all(), name
    if "exploitability_bound" in frame:
        safe = frame[~frame["gadget"].isin(["unsafe", "full"])]
        assert np.isfinite(safe["exploitability_bound"]).all() and len(safe)
        unsure = 1e-6 + frame["game_value_high"] - frame["game_value_low"]
        held = safe["refined_exploitability"] <= safe["exploitability_bound"] + unsure[safe.index]
        assert held.all(), name


def test_there_is_a_row_count_for_each() -> None:
    assert set(ROWS) == {experiment.NAME for experiment in EXPERIMENTS} == {*SWEPT, *set(ROWS) - set(SWEPT)}


def test_data_regenerate_bit_for_bit(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    again = figure2.compute(STUDY.settings(smoke=True, folder=tmp_path)).drop(columns=list(TIMES))
    kept = pd.read_parquet(folder / "data" / "figure2.parquet").drop(columns=list(TIMES))
    again["seed"] = again["seed"].astype(kept["seed"].dtype)
    pd.testing.assert_frame_equal(again, kept, check_exact=True)


def test_tables_are_those_of_the_data(folder: pathlib.Path) -> None:
    text = (folder / "tables.md").read_text(encoding="utf-8")
    assert text == STUDY.tables(STUDY.settings(smoke=True, folder=folder))
    assert text.count("\n## ") == len(EXPERIMENTS)


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
    numbers = {  # by blueprint: one for each of `names`
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


CUTS = sum(map(len, GRID.values()))
COMMITTED = {
    "figure2": 45 * 8 * 2 * CUTS,
    "claims": len(claims.COMPARISONS) * 2 * CUTS,
    "figures14_17": 8 * 7 * CUTS,
    "figure18": 45 * 2 * CUTS,
    "figure3": 8 * 11 * CUTS,
    "sensitivity": 2 * 10 * 15 * 2,
    "reach": 15 * 13 * 2 * CUTS,
    "larger": 12 * 8 * 3,
    "closing": 7 * 2 * (CUTS + 3) + 12 * 2 * CUTS,
    "figure19": 45 * 8 * 2 * CUTS,
}


@pytest.mark.parametrize("name", [experiment.NAME for experiment in EXPERIMENTS])
def test_what_is_kept_is_whole(name: str) -> None:
    frame = pd.read_parquet(HERE / "data" / f"{name}.parquet")
    check_columns(name, frame)
    check_finite(name, frame)
    assert len(frame) == COMMITTED[name]
    pictures = sorted(path.suffix for path in (HERE / "pictures").glob(f"{name}.*"))
    assert pictures == ([] if name == "claims" else [".png", ".svg"])


def test_the_tables_kept_are_those_of_the_data_kept() -> None:
    assert (HERE / "tables.md").read_text(encoding="utf-8") == STUDY.tables(STUDY.settings())
