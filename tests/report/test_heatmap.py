import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from jaxgadget.report import pairwise_heatmap
from tests.report.test_plots import new_axes

NAMES = ["unsafe", "resolving, no prior", "max-margin, blueprint prior"]
VALUES = [[np.nan, 0.999, 0.5], [0.001, np.nan, 0.0], [0.25, 1.0, np.nan]]


def matrix(values: list[list[float]] = VALUES, names: list[str] = NAMES) -> pd.DataFrame:
    return pd.DataFrame(values, index=names, columns=names)


def cells(ax: Axes) -> dict[tuple[int, int], str]:
    """Text by row and column."""
    return {(int(t.get_position()[1]), int(t.get_position()[0])): t.get_text() for t in ax.texts}


def test_a_number_in_each_cell():
    ax = pairwise_heatmap(matrix(), new_axes(), title="Leduc")
    expected = {
        (0, 1): ">.99",
        (0, 2): "0.50",
        (1, 0): "<.01",
        (1, 2): "0.00",
        (2, 0): "0.25",
        (2, 1): "1.00",
    }
    assert cells(ax) == expected
    assert [label.get_text() for label in ax.get_xticklabels()] == NAMES
    assert [label.get_text() for label in ax.get_yticklabels()] == NAMES
    assert ax.get_title() == "Leduc"
    low, high = ax.get_ylim()
    assert low > high, "the first row is on top"
