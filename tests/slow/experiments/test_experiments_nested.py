"""The experiments on nested search run with tiny settings."""

from __future__ import annotations

from experiments.nested.__main__ import STUDY
from experiments.nested.common import BLUEPRINTS
from experiments.study import Settings
from tests.slow.experiments.frame import every_experiment_is_whole

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_numbers_are_of_the_experiments(settings: Settings) -> None:
    table = settings.data_of("exploitability", "this test")
    assert table["blueprint"].unique().tolist() == list(BLUEPRINTS[:2])
    assert (table["nested_exploitability"] > -1e-5).all() and table["searches"].gt(0).all()
    values = settings.data_of("theorem", "this test").set_index(["depth", "equilibrium"])
    middle = values[["game_value_low", "game_value_high"]].mean(axis=1)
    off = (values["value"] - middle).abs()
    assert (off.xs("with", level=1) < off.xs("without", level=1)).all()
