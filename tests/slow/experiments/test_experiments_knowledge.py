"""The experiments on what a player knows, tiny: data and tables, what is safe, counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.common import tree_of
from experiments.knowledge.__main__ import STUDY
from experiments.knowledge.common import (
    COMPONENTS,
    SAFE,
    WAYS,
    cut_of,
    dark_hex,
    goofspiel,
    in_words,
    ratio,
    with_way,
)
from experiments.study import Settings
from tests.slow.experiments.frame import every_experiment_is_whole

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_every_way_has_the_same_results(settings: Settings) -> None:
    for name in ("pennies", "cut"):
        frame = with_way(settings.data_of(name, "this test"))
        assert frame["failure"].isna().all()
        assert frame.groupby("way").size().nunique() == 1
        assert len(frame["way"].unique()) == len(WAYS)


def test_pennies_are_safe_where_it_is_said_and_not_together(settings: Settings) -> None:
    frame = with_way(settings.data_of("pennies", "this test"))
    exact = frame[(frame["algorithm"] == "lp") & (frame["gadget"] != "unsafe")]
    is_safe = np.array([pair in SAFE for pair in zip(exact["known"], exact["combine"], strict=True)])
    assert (exact["rise"][is_safe] <= 1e-3).all()  # mistakes of priors
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


def test_costs_of_both_kinds_of_subgames_are_measured(settings: Settings) -> None:
    """That, not how much they are."""
    frame = settings.data_of("cost", "this test")
    kinds = [(gadget, kind) for gadget in ("resolving", "max-margin") for kind in ("cut", "known")]
    assert list(zip(frame["gadget"], frame["subgames"], strict=True)) == kinds
    assert ((frame["least"] > 0) & (frame["least"] <= frame["median"])).all()


def test_ratios_leave_out_what_cannot_fall() -> None:
    rows = [(0.0, 0.5), (0.4, 0.1), (0.1, 0.4), (0.2, 0.0)]
    frame = pd.DataFrame(rows, columns=["blueprint_exploitability", "refined_exploitability"])
    assert ratio(frame) == pytest.approx(0.005 ** (1 / 3))


def test_own_decisions_are_counted_from_one() -> None:
    game = dark_hex(2, 2, "classical")
    tree = tree_of(game)
    for player in (0, 1):
        roots = cut_of(game, "own:2", player).roots
        assert len(roots) > 0 and (tree.infosets[player].depth[tree.infoset[player, roots]] == 1).all()


def test_games_in_words() -> None:
    assert in_words(dark_hex(2, 3, "abrupt"), "own:3") == "Dark Hex 2×3, abrupt decision 3"
    assert in_words(goofspiel(5), "depth:2") == "Goofspiel 5 depth 2"
    assert COMPONENTS in {known for known, _ in SAFE}
