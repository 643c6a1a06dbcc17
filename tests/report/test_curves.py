import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes

from jaxgadget.report import convergence_curves
from jaxgadget.report.curves import space_out
from tests.report.test_plots import ALL, new_axes

STEPS = [10, 100, 1000]


def results(
    settings: list[tuple[str, str]] = ALL,
    blueprints: tuple[float, ...] = (1.0,),
    epsilons: tuple[float, ...] = (1e-3,),
) -> pd.DataFrame:
    """The i-th setting decreases as `blueprint · (i + 1) / iterations`."""
    rows = [
        {
            "gadget": gadget,
            "prior": prior,
            "epsilon": epsilon,
            "blueprint": f"cfr:{start}",
            "iterations": step,
            "refined_exploitability": start * (i + 1) / step,
        }
        for i, (gadget, prior) in enumerate(settings)
        for epsilon in (epsilons if prior != "none" else (0.0,))
        for start in blueprints
        for step in reversed(STEPS)
    ]
    return pd.DataFrame(rows)


def labels(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_several_rows_at_a_place_are_a_median_with_quartiles():
    ax = convergence_curves(results(ALL[:1], (1.0, 2.0, 4.0, 8.0, 100.0)), new_axes())
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), 4.0 / np.array(STEPS))
    band = ax.collections[0].get_paths()[0].vertices
    for step in STEPS:
        heights = band[np.isclose(band[:, 0], step), 1]
        np.testing.assert_allclose([heights.min(), heights.max()], [2.0 / step, 8.0 / step])
    assert len(convergence_curves(results(ALL[:1]), new_axes()).collections) == 1, "one row has no band"


@given(st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=12), st.floats(0.01, 0.08))
def test_spread_keeps_order_distance_and_range(places: list[float], apart: float):
    moved = space_out(np.sort(places), apart)
    assert (np.diff(moved) >= apart - 1e-9).all()
    assert -1e-9 <= moved[0] and moved[-1] <= 1 + 1e-9
