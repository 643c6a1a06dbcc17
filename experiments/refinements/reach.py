"""Beyond the paper: reach gadgets with priors, beside those without gifts."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from experiments.refinements import figure2
from experiments.refinements.common import FEW_BLUEPRINTS, GRID, Settings
from jaxgadget import MaxMargin, NoPrior, OptimalContinuation, ReachMaxMargin, ReachResolving, Resolving
from jaxgadget.solve.gadget import Gadget
from jaxgadget.solve.prior import PRIORS

NAME = "reach"


def compute(settings: Settings) -> pd.DataFrame:
    """Rows as in Figure 2, for four gadgets with three priors each, and the optimal continuation."""
    kinds = (Resolving, ReachResolving, MaxMargin, ReachMaxMargin)
    gadgets: list[Gadget] = [kind(prior()) for kind in kinds for prior in PRIORS.values()]
    return settings.sweep(
        NAME,
        GRID,
        blueprints=settings.blueprints(FEW_BLUEPRINTS),
        gadgets=[*gadgets, OptimalContinuation(NoPrior())],
        players=settings.players(0, 1),
        iterations=settings.iterations(),
    )


def draw(frame: pd.DataFrame) -> Figure:
    """As Figure 2."""
    return figure2.draw(frame)


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over blueprints and players of refined over blueprint exploitability."""
    return figure2.summarise(frame)
