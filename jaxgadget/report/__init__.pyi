from .boards import boards_picture as boards_picture
from .curves import convergence_curves as convergence_curves
from .heatmap import pairwise_heatmap as pairwise_heatmap
from .holdem import frequencies_table as frequencies_table
from .holdem import grid_picture as grid_picture
from .holdem import hands_table as hands_table
from .pareto import plot_responses as plot_responses
from .plots import exploitability_scatter as exploitability_scatter
from .plots import save_picture as save_picture
from .show import decisions_frame as decisions_frame
from .show import roots_frame as roots_frame
from .show import subgame_picture as subgame_picture
from .statistics import paired_t_tests as paired_t_tests
from .subgame import range_frame as range_frame
from .subgame import range_picture as range_picture
from .subgame import strategy_frame as strategy_frame
from .subgame import strategy_picture as strategy_picture

__all__ = [
    "boards_picture",
    "convergence_curves",
    "decisions_frame",
    "exploitability_scatter",
    "frequencies_table",
    "grid_picture",
    "hands_table",
    "paired_t_tests",
    "pairwise_heatmap",
    "plot_responses",
    "range_frame",
    "range_picture",
    "roots_frame",
    "save_picture",
    "strategy_frame",
    "strategy_picture",
    "subgame_picture",
]
