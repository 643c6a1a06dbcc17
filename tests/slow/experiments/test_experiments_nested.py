"""The experiments on nested search run, and what is kept of them is whole."""

from __future__ import annotations

import pathlib

import numpy as np
import pandas as pd
import pytest

from experiments.common import GOOFSPIEL, titled
from experiments.nested.__main__ import STUDY, main
from experiments.nested.common import BLUEPRINTS, HERE

EXPERIMENTS = {experiment.NAME: experiment for experiment in STUDY.experiments}

ROWS = {"theorem": 2 * 2, "exploitability": 2 * 2 * 7, "matches": 7 * 6, "network": 2 * 2 * 7}
ROWS |= {
    "noise": 2 * 2 * 7,
    "throughput": 2,
    "effort": 2 * 2 * 7,
    "large": 42,
    "paper_sizes": 42,
    "by_hands": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    written = tmp_path_factory.mktemp("nested")
    main(["--smoke", "--folder", str(written)])
    return written


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_whole(folder: pathlib.Path, name: str) -> None:
    frame = pd.read_parquet(folder / "data" / f"{name}.parquet")
    assert len(frame) == ROWS[name] and set(frame["game"]) == {"kuhn_poker"}
    summary = EXPERIMENTS[name].summarise(frame)
    if name == "network":
        # Where none is held out, there is no error over such.
        assert (frame["heldout_rmse"].isna() == (frame["heldout"] == 0)).all()
        frame = frame.drop(columns="heldout_rmse")
    numbers = frame.select_dtypes("number")
    assert numbers.size and np.isfinite(numbers.to_numpy()).all()
    assert len(summary)
    if hasattr(EXPERIMENTS[name], "draw"):
        assert (folder / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"## {name}" in (folder / "tables.md").read_text(encoding="utf-8")


def test_numbers_are_of_the_experiments(folder: pathlib.Path) -> None:
    table = pd.read_parquet(folder / "data" / "exploitability.parquet")
    assert table["blueprint"].unique().tolist() == list(BLUEPRINTS[:2])
    assert (table["nested_exploitability"] > -1e-5).all() and table["searches"].gt(0).all()
    values = pd.read_parquet(folder / "data" / "theorem.parquet").set_index(["depth", "equilibrium"])
    middle = values[["game_value_low", "game_value_high"]].mean(axis=1)
    off = (values["value"] - middle).abs()
    assert (off.xs("with", level=1) < off.xs("without", level=1)).all()


def page() -> str:
    """The folder's README, on one line."""
    return " ".join((HERE / "README.md").read_text(encoding="utf-8").split())


def kept(name: str) -> pd.DataFrame:
    return pd.read_parquet(HERE / "data" / f"{name}.parquet")


def test_the_page_tells_the_networks_of_the_data() -> None:
    frame = kept("network")
    frame = frame[frame["heldout"] == 0].assign(game=frame["game"].map(titled))
    ratio, left = frame["network"] / frame["exact"], frame["exact"] / frame["payoff_range"]
    good, goofspiel = ratio <= 1.1, frame["game"] == "Goofspiel 5"
    leduc = (frame["game"] == "Leduc") & (frame["blueprint"] == "cfr:10")
    assert (frame["visited_rmse"] < 0.02 * frame["payoff_range"]).all()
    assert frame["train_seconds"].max() < 7 * 60
    for said in (
        f"holds in {good[goofspiel].sum()} of {goofspiel.sum()} settings of Goofspiel 5",
        f"in {good[leduc].sum()} of {leduc.sum()} of Leduc after `cfr:10`",
        f"in {good.sum()} of all {len(frame)}",
        f"in {(left[~good] < 0.01).sum()} of the other {(~good).sum()} exact values leave less than 1 %",
    ):
        assert said in page()
    most = frame.loc[ratio.idxmax()]
    before, exact, network = (most[k] for k in ("blueprint_exploitability", "exact", "network"))
    assert (
        f"{before:.3f} becomes {exact:.0e} with exact values and {network:.0e}".replace("e-0", "e-") in page()
    )
    lost = (frame["network"] - frame["exact"])[~good]
    for rows, where in (
        (lost, "unsafe search's in Liar's Dice 1×5 ({:.2f} and {:.2f} after `cfr:10`)"),
        (lost[frame["gadget"] != "unsafe"], "max-margin's in Leduc after `dirichlet:0` ({:.2f} and {:.2f})"),
    ):
        row = frame.loc[rows.idxmax()]
        assert where.format(row["exact"], row["network"]) in page()


def test_the_page_tells_the_noise_of_the_data() -> None:
    values = EXPERIMENTS["noise"].summarise(kept("noise")).set_index(["noise", "game"])
    least, most = (values[name].groupby(level=0).agg(name) for name in ("min", "max"))
    assert "1.4 times as exploitable in the median" in page()
    assert values["median"][0.01].between(1.3, 1.4).all()
    for said in (
        f"(up to {values['max'][0.01, 'Leduc']:.1f} times in Leduc, "
        f"{values['max'][0.01, 'Goofspiel 5']:.1f} in Goofspiel 5)",
        f"{least[1e-3]:.2f} to {most[1e-3]:.1f} times if it is 0.1 %",
        f"{least[1e-4]:.2f} to {most[1e-4]:.1f} times if it is 0.01 %",
    ):
        assert said in page()


def test_the_page_tells_the_effort_and_the_sizes_of_the_data() -> None:
    medians = EXPERIMENTS["effort"].summarise(kept("effort")).set_index(["entries", "iterations"])["median"]
    few, many = (", ".join(f"{x:{form}}" for x in medians[k]) for k, form in ((3, ".1f"), (10, ".2f")))
    few, many = (" and ".join(listed.rsplit(", ", 1)) for listed in (few, many))
    assert f"is {few} times as exploitable as the blueprint with three entries" in page()
    assert f"and {many} times with ten entries" in page()
    sizes = kept("paper_sizes").set_index(["game", "step", "quantity"])["value"].sort_index()
    assert sizes.xs("GiB", level="quantity").max() < 8
    ratios: list[float] = []
    for player in (0, 1):
        values = sizes.loc[GOOFSPIEL.replace("5", "7"), f"nested, player {player}"]
        quantity = values.index.str
        safe = values[quantity.startswith("exploitability, ") & ~quantity.endswith("unsafe")]
        ratios += (safe / values["blueprint exploitability"]).tolist()
    assert f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)} settings with one" in page()
    assert f"up to {max(ratios):.1f} times" in page()
