"""Head-to-head tables like the paper's Figures 4, 20 and 21, for Goofspiel 5 and Liar's Dice 1×5.

The paper plays Goofspiel 7 and Liar's Dice 2×4 with learned values. Here both players' searches are assembled
to policies of the whole game, so expected win rates exist in addition to matches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import GOOFSPIEL, make_axes, titled
from experiments.nested.common import (
    DEPTH,
    ENTRIES,
    ITERATIONS,
    LIARS_DICE_5,
    SMALL,
    TRAINED,
    blueprint,
    enumerated,
    gadgets,
    portfolio,
)
from experiments.study import Settings
from jaxgadget import Policy, Solver
from jaxgadget.gadgets.gadget import describe
from jaxgadget.policy.matches import expected_matches, play_matches, worst_matchup
from jaxgadget.report.matches import draw_matches
from jaxgadget.subgames.nested import nested_search
from jaxgadget.subgames.schedule import Lookahead
from jaxgadget.values.histories import ExactValues

NAME = "matches"
MATCHES, SEED = 10_000, 0


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game and ordered pair of gadgets."""
    effort = settings.pick(
        {"entries": ENTRIES, "iterations": ITERATIONS, "matches": MATCHES},
        {"entries": 3, "iterations": 10, "matches": 50},
    )
    keys = [
        {"game": game, "blueprint": TRAINED, "depth": DEPTH, **effort}
        for game in settings.pick((GOOFSPIEL, LIARS_DICE_5), SMALL)
    ]
    return settings.gather(NAME, keys, play)


def play(key: dict[str, Any]) -> pd.DataFrame:
    """Assembles both players' search after one blueprint and plays all pairs."""
    game, spec = key["game"], key["blueprint"]
    tree, asked = enumerated(game), gadgets()
    bound = tree.payoff_range
    halves = [
        nested_search(
            tree,
            blueprint(game, spec),
            asked,
            Lookahead(ExactValues(portfolio(game, spec, key["entries"])), depth=key["depth"]),
            player=player,
            solver=Solver(iterations=key["iterations"], progress=False),
            value=(-bound, bound),
        ).policy.probabilities[player]
        for player in (0, 1)
    ]
    names = tuple(describe(gadget).partition(", epsilon")[0] for gadget in asked)
    policy = Policy(tree, (halves[0], halves[1]), names)
    frame = play_matches(policy, matches=key["matches"], seed=SEED).table.drop(columns="failure")
    exact = expected_matches(policy).rename(columns=lambda name: f"expected_{name}")
    keys = {"left_on": ["row", "column"], "right_on": ["expected_row", "expected_column"]}
    joined = frame.merge(exact, validate="one_to_one", **keys)
    joined = joined.drop(columns=["expected_row", "expected_column"])
    joined.insert(0, "game", game)
    return joined


def draw(frame: pd.DataFrame) -> Figure:
    """Win rates of rows against columns; one panel per game."""
    groups = list(frame.groupby("game", sort=False))
    figure, axes = make_axes(len(groups), 2, (7.0, 6.0))
    for ax, (game, part) in zip(axes, groups, strict=True):
        draw_matches(part, ax, title=titled(str(game)))
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Each setting's expected win rate against its worst matchup (the paper's Figure 4)."""
    tables: list[pd.DataFrame] = []
    for game, part in frame.groupby("game", sort=False):
        exact = part[["row", "column"]].assign(win_rate=part["expected_win_rate"])
        worst = worst_matchup(exact).assign(game=titled(str(game)))
        off = np.abs(part["win_rate"] - part["expected_win_rate"]) / part["ci95"].where(part["ci95"] > 0)
        tables.append(worst.assign(largest_error_in_ci95=float(off.max())))
    return pd.concat(tables, ignore_index=True)[
        ["game", "row", "column", "win_rate", "largest_error_in_ci95"]
    ]
