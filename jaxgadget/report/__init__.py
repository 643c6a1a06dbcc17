"""Results as tables and pictures.

The functions here draw from DataFrames or results and return matplotlib's axes, so that one
can go on drawing; matplotlib is imported when the first of them is called.
"""

from jaxgadget.report.curves import convergence_curves
from jaxgadget.report.heatmap import pairwise_heatmap
from jaxgadget.report.plots import exploitability_scatter, save_picture
from jaxgadget.report.statistics import paired_t_tests
from jaxgadget.report.subgame import range_frame, range_picture, strategy_frame, strategy_picture

__all__ = [
    "convergence_curves",
    "exploitability_scatter",
    "paired_t_tests",
    "pairwise_heatmap",
    "range_frame",
    "range_picture",
    "save_picture",
    "strategy_frame",
    "strategy_picture",
]
