"""Two subgames that are unsafe to search separately, and safe to search jointly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments.opponents.common import GADGETS, nested_exactly
from experiments.study import Settings
from jaxgadget import HistoryTree, Opponent, Policy, enumerate_game, load

NAME = "siblings"
GAME = "coin_toss_siblings"
EVERY_P = (0.001, 0.01, 0.05, 0.1, 0.2)


def compute(settings: Settings) -> pd.DataFrame:
    """A row for every kind of search and p."""
    tree = enumerate_game(load(GAME))
    blueprint, model = _policies(tree)
    found = nested_exactly(
        tree,
        blueprint,
        list(GADGETS.values()),
        opponent=Opponent(model, EVERY_P),
        player=1,
        limit="own",
        value=(0.0, 0.0),
    )
    heads = [row for row, name in enumerate(_row_names(tree, 1)) if name[1] == "Heads"]
    first, second = found.policy.probabilities[1][heads]
    table = found.table[["p", "gain", "exploitability"]]
    searched = np.repeat(list(GADGETS), len(EVERY_P))
    p = table["p"]
    return table.assign(
        searched=searched, heads_first=first, heads_second=second, theorem=p * table["gain"] / (1 - p)
    )


def _row_names(tree: HistoryTree, player: int) -> list[tuple[str, str]]:
    """Infoset and action of every row of a player's policy."""
    infosets, names = tree.infosets[player], tree.infoset_names[player]
    return [
        (names[infoset], tree.game.action_string(player, int(action)))
        for infoset, action in zip(infosets.infoset[1:], infosets.action[1:], strict=True)
    ]


def _policies(tree: HistoryTree) -> tuple[Policy, Policy]:
    """The blueprint, which never guesses Heads, and the model: Heads plays, Tails sells, x is chosen."""
    model = {
        (name, action): float(action == ("x" if "x" in actions else "Play" if "Heads" in name else "Sell"))
        for name, actions in _actions(tree, 0).items()
        for action in actions
    }
    blueprint = {(name, action): float(action == "Tails") for name, action in _row_names(tree, 1)}
    opponent_rows, rows = (
        np.array([chosen[key] for key in _row_names(tree, player)])[:, None]
        for player, chosen in ((0, model), (1, blueprint))
    )
    return Policy(tree, (opponent_rows, rows), ("blueprint",)), Policy(
        tree, (opponent_rows, rows), ("model",)
    )


def _actions(tree: HistoryTree, player: int) -> dict[str, list[str]]:
    """Names of the actions at every infoset."""
    actions: dict[str, list[str]] = {}
    for name, action in _row_names(tree, player):
        actions.setdefault(name, []).append(action)
    return actions


def summarise(frame: pd.DataFrame) -> pd.DataFrame:
    """Gain, exploitability and Theorem 5.3's p·gain/(1−p) in `coin_toss_siblings`, by linear programs.

    `heads`: the probability of guessing Heads in either subgame; their sum must not exceed 1/2.
    """
    columns: dict[str, Any] = {
        "searched": frame["searched"],
        "p": frame["p"],
        "heads": [
            f"{a:.3f}, {b:.3f}" for a, b in zip(frame["heads_first"], frame["heads_second"], strict=True)
        ],
        "gain": frame["gain"],
        "exploitability": frame["exploitability"].clip(lower=0),
        "p·gain/(1−p)": frame["theorem"],
    }
    return pd.DataFrame(columns)
