"""The experiments on hold'em with tiny settings: data, pictures, tables, and relations of their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.holdem.__main__ import STUDY
from experiments.holdem.common import MENUS, river
from experiments.holdem.cost import problems_of, written_down
from experiments.study import Settings
from jaxgadget.core import cfr
from jaxgadget.core.regret import find_rule
from jaxgadget.core.response import payoff_reaches
from jaxgadget.util.precision import precision
from tests.slow.experiments.frame import every_experiment_is_whole

test_every_experiment_is_whole = every_experiment_is_whole(STUDY)


def test_figures_of_given_strategies_are_met(settings: Settings) -> None:
    frame = settings.data_of("figures", "this test").set_index("figure")
    given = frame[frame["exploitability"] == 0]
    assert len(given) == 7
    np.testing.assert_allclose(given["here"], given["elsewhere"], rtol=0, atol=1e-9)
    solved = frame[frame["exploitability"] > 0]
    assert (solved["exploitability"] < 50).all()


@pytest.mark.parametrize("boards", [("Td9d6hQc2s",), ("Td9d6hQc2s", "2c2d7h7sKs")])
def test_matrices_that_are_timed_are_the_operators_written_down(boards: tuple[str, ...]) -> None:
    spots = [river(board=board, menus=MENUS["12 nodes"]) for board in boards]
    (problem,) = problems_of(spots, in_range=True)
    dense = written_down(problem)
    with precision(np.float32):
        rule = find_rule("dcfr")
        reach = payoff_reaches(problem, cfr.step(problem, rule, cfr.start(problem, rule)).plan)
        for player in (0, 1):
            ours, theirs = (np.asarray(p.payoff.gradient(player, reach, None)[0]) for p in (problem, dense))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
