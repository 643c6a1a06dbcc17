"""Floors by hands equal those in the histories: the same iterates, gaps and exact solutions."""

from typing import Any

import numpy as np
import pytest

from jaxgadget import Policy, solve, tremble
from jaxgadget.policy.floors import check_floors
from tests.hands import alike

KUHN = "kuhn_poker"


@pytest.mark.parametrize("algorithm", ["cfr+", "lp"])
@pytest.mark.parametrize("kind", ["number", "arrays"])
def test_solutions_are_those_of_the_histories(kind: str, algorithm: str):
    tree, public = alike.histories(KUHN), alike.public(KUHN)
    prior = Policy.dirichlet(tree, 0)
    theirs: Any = 0.1
    ours: Any = 0.1
    if kind == "arrays":
        theirs = tremble(tree, 0.2, prior)
        ours = tremble(public, 0.2, prior.on(public))
    expected = solve(tree, floors=theirs, algorithm=algorithm, iterations=7)
    solution = solve(public, floors=ours, algorithm=algorithm, iterations=7)
    for name in ("value", "gap"):
        assert abs(getattr(solution, name) - getattr(expected, name)) < 1e-12
    assert solution.nash_conv > 0.01  # the floors bind
    if algorithm == "lp":
        assert solution.gap < 1e-9
        assert "within the floors" in solution.message
    else:
        back = solution.policy.on(tree)
        for rows, other in zip(back.probabilities, expected.policy.probabilities, strict=True):
            np.testing.assert_allclose(rows, other, rtol=0, atol=1e-12)
        assert abs(solution.nash_conv - expected.nash_conv) < 1e-12
    for rows, least in zip(solution.policy.probabilities, check_floors(public, ours), strict=True):
        assert (rows[:, 0] >= least - 1e-12).all()
