"""The plot of gain against exploitability."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
from matplotlib.colors import to_hex

import jaxgadget as jg
from jaxgadget import Opponent, Policy
from jaxgadget.report import plot_responses
from jaxgadget.report.styles import PALETTE
from tests.report.test_plots import legend, new_axes

P = (0.0, 0.2, 0.6, 1.0)


@functools.cache
def table() -> pd.DataFrame:
    """Two models of both players, restricted Nash, data-biased and best Nash."""
    tree = jg.enumerate_game(jg.load("kuhn_poker"))
    models = Policy.stack([Policy.uniform(tree), Policy.dirichlet(tree, 3)])
    to, frames = Opponent(models, P[::-1]), list[pd.DataFrame]()
    for player in (0, 1):
        frames.append(jg.respond(tree, to, player=player, algorithm="lp").table)
        frames.append(jg.data_biased_response(tree, to, player=player, algorithm="lp").table)
        frames.append(jg.best_nash(tree, models, player=player).table)
    return pd.concat(frames, ignore_index=True)


def test_a_curve_a_model_in_the_order_of_p_with_its_bound():
    rows = table().query("player == 0 and method == 'restricted-nash'")
    ax = plot_responses(rows, new_axes(), title="Kuhn")
    curves, bounds = ax.lines[::2], ax.lines[1::2]
    assert len(ax.lines) == 4 and ax.get_title() == "Kuhn"
    for number, (curve, bound, (_, part)) in enumerate(
        zip(curves, bounds, rows.groupby("model", sort=False), strict=True)
    ):
        part = part.sort_values("p")
        np.testing.assert_array_equal(curve.get_xdata(), part["exploitability"])
        np.testing.assert_array_equal(curve.get_ydata(), part["gain"])
        gain = part["gain"].to_numpy()[:-1]
        np.testing.assert_allclose(bound.get_xdata(), gain * np.array([0, 0.25, 1.5]), atol=1e-12)
        np.testing.assert_allclose(bound.get_ydata(), gain)
        assert {to_hex(line.get_color()).upper() for line in (curve, bound)} == {PALETTE[number]}
        assert bound.get_linestyle() == "--"
    hollow = [drawn for drawn in ax.collections if to_hex(drawn.get_facecolor()) == "#ffffff"]
    assert [len(drawn.get_offsets()) for drawn in hollow] == [1, 1], "one a model, p = 1"
    assert legend(ax) == ["uniform", "dirichlet:3", "bound G·p/(1−p)", "p = 1: no bound"]
