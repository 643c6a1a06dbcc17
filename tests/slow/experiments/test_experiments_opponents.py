"""The experiments on responses to opponents with tiny settings: data, tables, shares, and definitions."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.opponents import breaker
from experiments.opponents.__main__ import STUDY
from experiments.study import Settings
from tests.slow.experiments.frame import every_experiment_is_whole

pytestmark = pytest.mark.longest

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_gadgets_values_of_actions_equal_their_objectives(settings: Settings) -> None:
    """The best action's value by definition is the objective, at every p, and the five actions differ."""
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
