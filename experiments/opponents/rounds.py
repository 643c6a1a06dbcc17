"""Figure 15: repeated rock-paper-scissors against a biased model: gain and risk of every method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common import make_axes, one_legend
from experiments.opponents.common import COLORS, GADGETS, name_axes, nested_exactly
from experiments.study import Settings
from jaxgadget import (
    HistoryTree,
    MaxMargin,
    Opponent,
    Policy,
    RangePrior,
    Solver,
    Unsafe,
    enumerate_game,
    evaluate_policy,
    exploitability,
    load,
    mix,
    refine,
    respond,
)

NAME = "rounds"
GAME = "repeated_rps"
BIAS = {"Rock": 0.5, "Paper": 0.3, "Scissors": 0.2}
"""The model's strategy in both rounds, independent of the history. The paper does not state its bias."""

NUM_P, SMOKE_NUM_P = 100, 5
"""p = 0, 1/100, …, 99/100."""

SECOND = "second round only"
"""A response to the model below the cut alone, as the paper's text describes its Exp-strat."""


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every method and p, for player 0."""
    tree, count = enumerate_game(load(GAME)), settings.pick(NUM_P, SMOKE_NUM_P)
    exact = Solver(algorithm="lp", progress=False)
    every_p, value = np.arange(count) / count, (0.0, 0.0)
    model, equilibrium = _biased(tree), Policy.uniform(tree)
    opponent = Opponent(model, every_p.tolist())
    found = {"RNR": respond(tree, opponent, solver=exact, value=value).policy}
    how: dict[str, Any] = {"limit": "own", "value": value}
    for way, gadget in GADGETS.items():
        found[way] = nested_exactly(tree, equilibrium, gadget, opponent=opponent, **how).policy
    locked = nested_exactly(tree, opponent=Opponent(model, 1.0), **how).policy
    found["CDBR-NE"] = mix(equilibrium, locked, (1 - every_p).tolist(), how="plans")
    gadgets = [MaxMargin(RangePrior(model), alpha) for alpha in every_p.tolist()]
    ses = refine(tree, "subgame", equilibrium, gadgets, solver=exact, value=value)
    found["SES"] = ses.policy
    exploiting = refine(tree, "subgame", equilibrium, Unsafe(), opponent=opponent, solver=exact, value=value)
    found[SECOND] = exploiting.policy
    return pd.concat(
        [_worth(policy, model).assign(method=method, p=every_p) for method, policy in found.items()],
        ignore_index=True,
    )


def _biased(tree: HistoryTree) -> Policy:
    def row(player: int, infoset: int, count: int) -> list[float]:
        first = int(tree.infosets[player].first_sequence[infoset])
        ids = tree.infosets[player].action[first : first + count]
        return [BIAS[tree.game.action_string(player, int(action))] for action in ids]

    return Policy.from_function(tree, row, "biased")


def _worth(policy: Policy, model: Policy) -> pd.DataFrame:
    theirs = np.repeat(model.probabilities[1], policy.num_lanes, axis=1)
    earned = evaluate_policy(Policy(policy.tree, (policy.probabilities[0], theirs), policy.labels)).value
    return pd.DataFrame({"gain": earned, "exploitability": exploitability(policy, 0, value=(0.0, 0.0))})


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """The largest gain of each method with an exploitability E up to the given limit, over all p.

    By linear programs. The model plays Rock 0.5, Paper 0.3 and Scissors 0.2 in both rounds; a best response
    gains 0.6. p of SES is α, of CDBR-NE the weight of the response. `pairs`: distinct pairs of gain and E.
    """
    rows: list[dict[str, Any]] = []
    for method, part in frame.groupby("method", sort=False):
        limits = (0.0, 0.25, 0.5, 1.0, 2.0)
        most = {
            f"E ≤ {limit:g}": part.loc[part["exploitability"] <= limit + 1e-6, "gain"].max().round(6) + 0.0
            for limit in limits
        }
        pairs = len(part[["gain", "exploitability"]].round(6).drop_duplicates())
        rows.append({"method": method} | most | {"pairs": pairs})
    return pd.DataFrame(rows)


def draw(frame: pd.DataFrame) -> Figure:
    """Gain over exploitability, one curve over p per method."""
    figure, (ax,) = make_axes(1, 1, (5.0, 3.6))
    sizes = (9, 8, 6.5, 5, 4, 3, 3, 3)
    for size, (method, part) in zip(sizes, frame.groupby("method", sort=False), strict=True):
        part = part.sort_values(["exploitability", "gain"])
        style: dict[str, Any] = {"color": COLORS[str(method)], "markersize": size, "linewidth": 1}
        ax.plot(part["exploitability"].clip(lower=0), part["gain"], "o-", label=method, **style)
    name_axes(ax)
    one_legend(figure, [ax], 4)
    return figure
