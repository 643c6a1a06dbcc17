"""A network alone, and with its subgames re-solved: exact exploitability in games that can be enumerated.

The blueprint is the table of a network that PPO trained. Subgames are re-solved to the end of the game.
"""

from __future__ import annotations

import functools
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from experiments.common import GOOFSPIEL, LIARS_DICE, make_axes, one_legend, titled, tree_of, value_of
from experiments.policy_networks.common import LEDUC, SMALL, SMALL_STEPS, liars_dice, train
from experiments.study import Settings
from jaxgadget import NoPrior, OptimalContinuation, Solver, refine
from jaxgadget.report import exploitability_scatter
from jaxgadget.subgames.refine import default_gadgets

NAME = "search"

TWO_DICE = liars_dice(3)

CUTS = {LEDUC: "flop", **dict.fromkeys((LIARS_DICE, TWO_DICE, GOOFSPIEL, SMALL), "depth:1")}
"""Cuts below which subgames are re-solved."""

EFFORT, SMOKE = {"iterations": 2000, "steps": 10_000}, {"iterations": 10, "steps": SMALL_STEPS}


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, player, gadget and prior."""
    games = settings.pick((LEDUC, LIARS_DICE, TWO_DICE, GOOFSPIEL), (SMALL,))
    keys = [{"game": game, **settings.pick(EFFORT, SMOKE)} for game in games]
    return settings.gather(NAME, keys, functools.partial(measure, settings))


def measure(settings: Settings, key: dict[str, Any]) -> pd.DataFrame:
    """Both players' subgames in one game."""
    game = key["game"]
    tree, value = tree_of(game), value_of(game)
    blueprint = train(settings, game, "PPO", key["steps"]).policy.on(tree)
    gadgets = [*default_gadgets(), OptimalContinuation(NoPrior())]
    solver = Solver(iterations=key["iterations"], progress=False)
    tables = [
        refine(tree, CUTS[game], blueprint, gadgets, player=player, value=value, solver=solver).table
        for player in (0, 1)
    ]
    columns = ["player", "gadget", "prior", "epsilon", "blueprint_exploitability", "refined_exploitability"]
    frame = pd.concat(tables, ignore_index=True)[[*columns, "exploitability_bound", "gap_max"]]
    return frame.assign(**key, game_value_low=value[0], game_value_high=value[1])


def draw(frame: pd.DataFrame) -> Figure:
    """Exploitability with re-solved subgames against that of the network; a panel per game."""
    groups = list(frame.groupby("game", sort=False))
    figure, axes = make_axes(len(groups), 2, (4.0, 3.6))
    for ax, (game, part) in zip(axes, groups, strict=True):
        exploitability_scatter(part, ax=ax, title=titled(str(game), CUTS[str(game)]))
    one_legend(figure, axes, 4)
    return figure


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Exploitability of players 0 and 1: of the network alone, and re-solved by each gadget and prior."""
    columns: dict[str, dict[str, str]] = {}
    for game, part in frame.groupby("game", sort=False):
        column = {"network": pair(part.drop_duplicates("player")["blueprint_exploitability"])}
        for (gadget, prior), rows in part.groupby(["gadget", "prior"], sort=False):
            column[str(gadget) if prior == "none" else f"{gadget}, {prior} prior"] = pair(
                rows["refined_exploitability"]
            )
        columns[titled(str(game), CUTS[str(game)])] = column
    return pd.DataFrame(columns).rename_axis("strategy").reset_index()


def pair(values: pd.Series) -> str:
    """Both players' numbers."""
    return " / ".join(f"{value:.2g}" for value in values)
