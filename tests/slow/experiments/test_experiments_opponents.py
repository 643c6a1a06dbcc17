"""The experiments on responses to opponents, tiny: data and tables, shares, definitions against solves."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.common import tree_of
from experiments.opponents import breaker, gadgets, gains, speed, tradeoff
from experiments.opponents.__main__ import STUDY
from experiments.opponents.common import LEDUC, goofspiel, in_words, is_drawn, turn_based
from experiments.study import Settings
from tests.slow.experiments.frame import every_experiment_is_whole

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_speed_compares_the_same_lanes(settings: Settings) -> None:
    frame = settings.data_of("speed", "this test").set_index("way")
    assert frame.loc["one batch", "lanes"] == 12
    assert frame.loc["one by one", "lanes"] == frame.loc["linear programs", "lanes"] == 2
    assert (frame["largest_gap"] <= speed.GAP).all() and (frame["seconds"] > 0).all()


def test_what_gadgets_take_actions_for_is_what_they_are_solved_for(settings: Settings) -> None:
    """The best action's worth by definition is the objective, at every p, and the five actions differ."""
    frame = settings.data_of("breaker", "this test")
    best = frame.groupby(["game", "method", "p"])[["worth", "objective"]].max()
    np.testing.assert_allclose(best["worth"], best["objective"], atol=1e-9)
    played = frame[frame["probability"] > 0.5].groupby(["game", "method"])["action"].nunique()
    assert played["gadget_breaker", "max-margin"] == played["resolving_breaker", "resolving"] == 2
    assert played["gadget_breaker", "full"] == played["gadget_breaker", "RNR"] > 2
    assert breaker.estimates("gadget_breaker")["max-margin"].tolist() == [0, -15, -29, -43, -56]


def test_siblings_are_safe_jointly_and_not_apart(settings: Settings) -> None:
    frame = settings.data_of("siblings", "this test").set_index("searched")
    assert frame.loc["joint", "exploitability"].max() < 1e-9
    apart = frame.loc["full, branch by branch"]
    assert (apart["exploitability"] > apart["theorem"]).all()


def test_methods_are_compared_with_the_same_models(settings: Settings) -> None:
    frame = settings.data_of("tradeoff", "this test")
    rnr, joint = (frame[frame["method"] == method].set_index("p") for method in ("RNR", "joint"))
    objective = [
        rows["gain"] * rows.index - (1 - rows.index) * rows["exploitability"] for rows in (rnr, joint)
    ]
    assert (objective[0] >= objective[1] - 1e-9).all(), "a restricted Nash response is optimal"
    safe = joint[joint.index < 1]
    assert (safe["exploitability"] <= safe.index * safe["gain"] / (1 - safe.index) + 1e-9).all()
    assert frame["gain"].max() <= frame["best_response_gain"].iloc[0] + 1e-9
    for name in ("gadgets", "steps"):
        frame = settings.data_of(name, "this test")
        keys = ["game", "model", "p"]
        assert frame.groupby(keys).size().nunique() == 1, name


def test_round_by_round_a_game_is_searched_twice() -> None:
    schedule = tradeoff.round_schedule(tree_of(LEDUC), 0)
    first, second = (schedule.leaves(level.cut(schedule.tree)) for level in schedule.levels)
    assert len(first) == len(schedule.levels[1].roots) and not len(second)
    assert schedule.levels[1].num_subgames == 30 and schedule.kept(0).sum() + schedule.kept(1).sum() == 468


def test_shares_are_of_the_best_response() -> None:
    rows = [("m", gains.BEST, 2.0), ("m", "CDBR, own 1", 0.5)]
    frame = pd.DataFrame(rows, columns=["model", "method", "gain"]).assign(game="g", player=0)
    assert gains.shares(frame)["share"].tolist() == [1.0, 0.25]


def test_games_and_models_in_words() -> None:
    assert in_words(turn_based(goofspiel(4))) == "Goofspiel 4, turn by turn"
    assert in_words(LEDUC) == "Leduc"
    assert is_drawn(pd.Series(["cfr:3", "dirichlet:0", "draw 1"])).tolist() == [False, True, True]
    assert set(gadgets.PRIORS) == {"none", "uniform", "blueprint"}
