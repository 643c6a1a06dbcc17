"""The curves of a training: what is drawn, in which unit, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from jaxgadget.report.training import draw_training

LOG = pd.DataFrame(
    {
        "step": [10, 20, 30],
        "loss": [0.04, 0.01, 0.0025],
        "heldout_rmse": [0.8, 0.4, 0.2],
        "seconds": [1, 2, 3],
    }
)


def lines(ax):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.get_lines()}


def test_both_curves_are_in_per_cent_of_the_range():
    ax = draw_training(LOG, payoff_range=4.0, goal=2.0, title="Kuhn")
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["Held-out RMSE"][1], [20, 10, 5])
    np.testing.assert_allclose(drawn["Root of the loss"][1], [20, 10, 5])
    assert drawn["Goal: 2"][1] == [2, 2]
    assert ax.get_title() == "Kuhn"
    assert {text.get_text() for text in ax.get_legend().get_texts()} == set(drawn)


@pytest.mark.parametrize("log", [LOG[:0], LOG.drop(columns="loss")])
def test_a_table_that_is_no_log_is_refused(log):
    with pytest.raises(ValueError, match="expected at least one row with step, loss, heldout_rmse"):
        draw_training(log)
