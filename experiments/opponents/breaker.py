"""Figures 4 and 9: games whose five actions are found by some gadgets, and by others for no p."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.opponents.common import COLORS, name_axes
from experiments.study import Settings
from jaxgadget import (
    Full,
    HistoryTree,
    MaxMargin,
    NoPrior,
    Opponent,
    Policy,
    Resolving,
    Solver,
    enumerate_game,
    load,
    refine,
    respond,
)
from jaxgadget.games.examples import Chance, Outcome, TreeRules, Turn
from jaxgadget.games.stepwise import StepwiseGame
from jaxgadget.report.styles import PALETTE
from jaxgadget.util.arrays import FloatArray

NAME = "breaker"
NUM_P, SMOKE_NUM_P = 200, 12
"""p = 0, 1/200, …, 199/200."""

SIDES = ("Heads", "Tails")
COSTS: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {
    "gadget_breaker": {
        "red": {"Heads": (0, 15, 29, 43, 56), "Tails": (0, 0, 0, 0, 0)},
        "green": {"Heads": (0, 7, 19, 35, 56), "Tails": (0, 0, 0, 0, 0)},
    },
    "resolving_breaker": {
        color: {"Heads": (0, 11, 24, 39, 56), "Tails": (0, 4, 5, 4, 0)} for color in ("red", "green")
    },
}
"""Costs of actions 0 to 4 after each placement of a coin; after the model's, M, action k earns 7k."""

METHODS = ("RNR", "full", "resolving", "max-margin")


def resolving_breaker() -> StepwiseGame:
    """`gadget_breaker` with other costs: both sides of a coin have a cost, and resolving adds both."""

    def placed(costs: Mapping[str, Sequence[float]]) -> Turn:
        pays = {side: [0.0 - cost for cost in costs[side]] for side in SIDES}
        pays["M"] = [7.0 * k for k in range(5)]
        return Turn(1, {side: Turn(0, {str(k): pay[k] for k in range(5)}) for side, pay in pays.items()})

    coins = COSTS["resolving_breaker"].items()
    tree = Chance([Outcome(0.5, placed(costs), (None, color)) for color, costs in coins])
    actions = (*SIDES, "M", *map(str, range(5)))
    return StepwiseGame(TreeRules("resolving_breaker", actions, tree, "subgame", 1))


def tree_of(game: str) -> HistoryTree:
    """The histories of one of the two games."""
    return enumerate_game(resolving_breaker() if game == "resolving_breaker" else load(game))


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every game, method, p and action of player 0."""

    def measure(key: dict[str, Any]) -> pd.DataFrame:
        count = settings.pick(NUM_P, SMOKE_NUM_P)
        return _responses(key["game"], np.arange(count) / count).assign(**key)

    return settings.gather(NAME, [{"game": game} for game in COSTS], measure)


def _responses(game: str, every_p: FloatArray) -> pd.DataFrame:
    tree = tree_of(game)
    opponent = Opponent(_always(tree, 1, "M"), every_p.tolist())
    whole = respond(tree, opponent, solver=Solver(algorithm="lp", progress=False), value=(0.0, 0.0))
    gadgets = [Full(NoPrior()), Resolving(NoPrior()), MaxMargin(NoPrior())]
    blueprint = _always(tree, 0, "0")
    how: dict[str, Any] = {"player": 0, "opponent": opponent, "value": (0.0, 0.0)}
    refined = refine(
        tree, "subgame", blueprint, gadgets, solver=Solver(algorithm="lp", progress=False), **how
    )
    probabilities = np.concatenate([whole.policy.probabilities[0], refined.policy.probabilities[0]], axis=1)
    table = pd.DataFrame(
        {
            "method": np.repeat(METHODS, len(every_p)),
            "p": np.tile(every_p, len(METHODS)),
            "gain": np.append(whole.gain, refined.gain),
            "exploitability": np.append(whole.exploitability, refined.refined_exploitability),
            "objective": np.append(whole.objective, refined.gadget_value[0]),
        }
    )
    values = np.array([estimates(game)[method] for method in table["method"]])
    p = table["p"].to_numpy()[:, None]
    worth = p * 7 * np.arange(5) + (1 - p) * values
    actions = [
        table.assign(action=action, probability=probabilities[action], worth=worth[:, action])
        for action in range(5)
    ]
    return pd.concat(actions, ignore_index=True)


def estimates(game: str) -> dict[str, FloatArray]:
    """`[5]` the guarantee of every action according to each gadget, by definition; action 0 is the blueprint.

    All alternative values are 0. In the actual game, and in the full gadget, the opponent picks the more
    expensive side of each coin. In a resolving gadget it follows wherever that is profitable. In a max-margin
    gadget it picks one side of one coin.
    """
    costs = np.array([[sides[side] for side in SIDES] for sides in COSTS[game].values()])
    real = -costs.max(axis=1).mean(axis=0)
    resolving = -np.maximum(costs, 0).sum(axis=1).mean(axis=0)
    max_margin = -costs.max(axis=(0, 1))
    return {"RNR": real, "full": real, "resolving": resolving, "max-margin": max_margin}


def _always(tree: HistoryTree, player: int, name: str) -> Policy:
    """A policy whose player always takes an action; the other one is uniform."""

    def row(who: int, infoset: int, count: int) -> list[float]:
        first = int(tree.infosets[who].first_sequence[infoset])
        ids = tree.infosets[who].action[first : first + count]
        names = [tree.game.action_string(who, int(action)) for action in ids]
        return [float(action == name) for action in names] if who == player else [1 / count] * count

    return Policy.from_function(tree, row, f"always {name}")


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """The actions that each method plays for some p, and the smallest p; exploitability of the strategies.

    An action counts if its probability is at least a half.
    """
    played = frame[frame["probability"] >= 0.5]
    rows: list[dict[str, Any]] = []
    for (game, method), part in played.groupby(["game", "method"], sort=False):
        first = part.groupby("action")[["p", "gain", "exploitability"]].first()
        rows.append(
            {
                "game": game,
                "method": method,
                "actions": len(first),
                "from p": ", ".join(f"{action}: {row['p']:.3f}" for action, row in first.iterrows()),
                "gain": ", ".join(f"{gain:.0f}" for gain in first["gain"]),
                "exploitability": ", ".join(f"{lost:.0f}" for lost in first["exploitability"]),
            }
        )
    return pd.DataFrame(rows)


def draw(frame: pd.DataFrame) -> dict[str, Figure]:
    """Gain over exploitability of the strategies (Figure 4); the value of every action, by p (Figure 9)."""
    pareto, axes = make_axes(len(COSTS), 2, (4.0, 3.0))
    for ax, (game, rows) in zip(axes, frame.groupby("game", sort=False), strict=True):
        for size, (method, part) in zip((9, 7, 5, 3), rows.groupby("method", sort=False), strict=True):
            part = part[part["action"] == 0].sort_values("exploitability")
            style: dict[str, Any] = {"color": COLORS[str(method)], "label": method, "linewidth": 0.8}
            ax.plot(part["exploitability"], part["gain"], "o-", markersize=size, **style)
        name_axes(ax, str(game))
    one_legend(pareto, axes, 4)
    shown = [(game, method) for game in COSTS for method in METHODS[1:]]
    worth, axes = make_axes(len(shown), 3, (3.4, 2.6))
    for ax, (game, method) in zip(axes, shown, strict=True):
        rows = frame[(frame["game"] == game) & (frame["method"] == method)]
        for color, (action, part) in zip(PALETTE, rows.groupby("action"), strict=False):
            ax.plot(part["p"], part["worth"], color=color, label=f"action {action}", linewidth=1.0)
        ax.set_ylim(-10, 30)
        ax.set_title(f"{game}, {method}", fontsize=9)
        ax.set_xlabel("p", fontsize=8)
        ax.set_ylabel("Worth of an action [payoff]", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.legend(fontsize=7)
    one_legend(worth, axes, 5)
    return {"breaker": pareto, "breaker_worth": worth}
