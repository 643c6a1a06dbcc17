"""The experiments on values of ranges, with tiny networks: tables, pictures, shares of the improvement."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from experiments.continuation import closing
from experiments.continuation.__main__ import STUDY
from experiments.continuation.common import network
from experiments.refinements.common import SMOKE_BLUEPRINTS
from experiments.study import Settings
from jaxgadget import ContinuationValues, enumerate_game, load, make_blueprints, measure_promise
from tests.slow.experiments.frame import every_experiment_is_whole

pytestmark = pytest.mark.longest

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_all_is_measured_from_the_same_blueprints_and_the_optimum_is_the_least(settings: Settings):
    frame = settings.data_of("closing", "this test")
    keys = ["game", "cut", "player"]
    assert set(frame["source"]) == set(closing.SOURCES)
    assert (frame.groupby([*keys, "blueprint"])["method"].size().nunique()) == 1
    best = frame[frame["method"] == "optimal continuation"].set_index([*keys, "blueprint"])["refined"]
    floor = best.reindex(pd.MultiIndex.from_frame(frame[[*keys, "blueprint"]])).to_numpy()
    assert (frame["refined"] >= floor - 1e-5).all()
    promised = frame[frame["delta"].notna()]
    assert set(promised["source"]) == {"network", "network, no guard"}
    assert (promised["theorem2_bound"] >= promised["delta"] * 2).all()


def test_the_largest_error_is_that_of_the_package(settings: Settings):
    frame = settings.data_of("closing", "this test")
    tree = enumerate_game(load("kuhn_poker"))
    profiles = make_blueprints(tree, SMOKE_BLUEPRINTS)
    values = ContinuationValues(network(settings, "kuhn_poker", "depth:2"), guard=False)
    measured = measure_promise(tree, "depth:2", profiles, values, player=1)
    rows = frame[(frame["source"] == "network, no guard") & (frame["player"] == 1)]
    rows = rows[rows["method"] == "max-margin, blueprint prior"]
    np.testing.assert_allclose(rows["delta"], measured.delta, rtol=0, atol=1e-4)
    np.testing.assert_allclose(rows["theorem2_bound"], measured.theorem2_bound, rtol=0, atol=1e-3)


def test_shares_are_of_the_way_and_near_blueprints_have_none():
    rows = [("a", "optimal continuation", 1.0, 0.2), ("a", "other", 1.0, 0.4)]
    rows += [("b", "optimal continuation", 0.205, 0.2), ("b", "other", 0.205, 0.1)]
    columns = ["blueprint", "method", "blueprint_exploitability", "refined"]
    frame = pd.DataFrame(rows, columns=columns).assign(game="g", cut="c", player=0, source="exact")
    shares = closing.shares(frame).set_index(["blueprint", "method"])["share"]
    assert shares["a", "other"] == pytest.approx(0.75)
    assert math.isnan(shares["b", "other"])


def test_behind_is_against_best_responses_with_the_same_gadget_and_prior():
    rows = [
        ("best response", "resolving, none prior", 0.5),
        ("best response", "resolving, blueprint prior", 0.3),
        ("best response", "max-margin, blueprint prior", 0.4),
        ("network", "resolving, none prior", 0.55),
        ("network", "resolving, blueprint prior", 0.5),
        ("network", "max-margin, blueprint prior", 0.25),
        ("noise", "1.0%, resolving, none prior", 0.5 + 1e-6),
    ]
    frame = pd.DataFrame(rows, columns=["source", "method", "refined"]).assign(
        game="g", cut="c", player=0, blueprint="a", distance=0.8, payoff_range=1.0
    )
    expected = [0, 0, 0, 0.05 / 0.8, 0.2 / 0.8, 0, 0]
    assert closing.behind(frame).tolist() == pytest.approx(expected)
