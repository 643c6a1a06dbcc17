"""Shared by the experiments: games, models of an opponent, and shares of a gain."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from experiments.common import LIARS_DICE, titled, tree_of
from jaxgadget import (
    Full,
    HistoryTree,
    Lookahead,
    MaxMargin,
    Nested,
    NoPrior,
    OptimalContinuation,
    OptimalValues,
    Policy,
    Resolving,
    Solver,
    make_blueprints,
    nested_search,
)
from jaxgadget.gadgets.gadget import Gadget

HERE = pathlib.Path(__file__).parent

LEDUC = "leduc_poker"
SMALL = "kuhn_poker"
"""Replaces the others in a smoke test."""


def goofspiel(num_cards: int) -> str:
    """The Goofspiel of Milec, Kubíček and Lisý (2024), with the same best Nash shares."""
    parameters = f"num_cards={num_cards},imp_info=True,points_order=descending"
    return f"goofspiel({parameters},returns_type=point_difference)"


def turn_based(game: str) -> str:
    """A game of simultaneous moves in which one player moves first, unseen by the other (by OpenSpiel)."""
    return f"openspiel:turn_based_simultaneous_game(game={game})"


GAMES = (LEDUC, goofspiel(5), LIARS_DICE)

CFR_MODELS = tuple(f"cfr:{count}" for count in (1, 3, 8, 21, 34, 55))
"""Average strategies by iterations of CFR; against 34 the paper's LBR no longer gains."""

DRAWN_MODELS = tuple(f"dirichlet:{seed}" for seed in range(4))
SMOKE_MODELS = ("cfr:2", "dirichlet:0")

JOINT = OptimalContinuation(NoPrior())
GADGETS: dict[str, Gadget] = {
    "joint": JOINT,
    "full, branch by branch": Full(NoPrior()),
    "resolving": Resolving(NoPrior()),
    "max-margin": MaxMargin(NoPrior()),
}
"""Gadgets of a continual search, without priors."""

COLORS = {
    "best response": "#000000",
    "RNR": "#000000",
    "best Nash": "#999999",
    "joint": "#0072B2",
    "full": "#56B4E9",
    "full, branch by branch": "#56B4E9",
    "resolving": "#D55E00",
    "max-margin": "#009E73",
    "SES": "#CC79A7",
    "CDBR-NE": "#E69F00",
    "second round only": "#8B4513",
    "joint, 500 iterations": "#F0E442",
}


def models_of(game: str, specs: str | Sequence[str]) -> Policy:
    """Models of an opponent, a lane each."""
    return make_blueprints(tree_of(game), specs, progress=False)


def in_words(game: str) -> str:
    """A game as a short title, `turn by turn` for sequential versions of simultaneous moves."""
    inside = re.fullmatch(r"openspiel:turn_based_simultaneous_game\(game=(.*)\)", game)
    return f"{titled(inside[1])}, turn by turn" if inside else titled(game)


def is_drawn(models: pd.Series) -> pd.Series:
    """Mask of models that are random; the others are early averages of CFR."""
    return models.str.startswith(("draw", "dirichlet"))


def name_axes(ax: Axes, title: str = "", *, linear_to: float | None = None) -> None:
    """Labels gain over exploitability in small print; logarithmic beyond `linear_to`, if given."""
    if linear_to is not None:
        ax.set_xscale("symlog", linthresh=linear_to)
        ax.set_xlim(left=-linear_to / 10)
    ax.set_title(title, fontsize=9)
    ax.set_xlabel("Exploitability [payoff]", fontsize=8)
    ax.set_ylabel("Gain [payoff]", fontsize=8)
    ax.tick_params(labelsize=7)
    ax.legend(fontsize=7)


def nested_exactly(
    tree: HistoryTree,
    blueprint: Policy | None = None,
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    depth: int = 1,
    limit: str = "moves",
    step: int | None = None,
    **keywords: Any,
) -> Nested:
    """Nested search by linear programs, with optimal values at its limits; uniform blueprint by default."""
    return nested_search(
        tree,
        Policy.uniform(tree) if blueprint is None else blueprint,
        gadgets,
        Lookahead(OptimalValues(), depth=depth, limit=limit, step=step),
        solver=Solver(algorithm="lp", progress=False),
        **keywords,
    )
