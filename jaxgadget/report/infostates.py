"""The infostates of a game as records and as a printed table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from jaxgadget.report.layout import Column, Row, count, rows_to_table
from jaxgadget.report.names import break_lines

if TYPE_CHECKING:
    from jaxgadget.tree.forest import Forest
    from jaxgadget.tree.history import HistoryTree

ACTIONS_WIDTH = 30
"""Maximum number of characters per line in the list of an infostate's actions."""


def list_infostates(
    tree: HistoryTree,
    *,
    player: int | None = None,
    texts: Sequence[str] = (),
    forest: Forest | None = None,
    subgame: int | None = None,
) -> list[dict[str, Any]]:
    """One row for each infostate where a player acts, in the order of `tree.infosets`.

    Args:
      tree: the game's histories.
      player: list only infostates of this player.
      texts: list only infostates whose name contains all of these texts.
      forest: list only infostates in the subgames of this forest.
      subgame: list only infostates in this subgame of the forest.

    Returns:
      `player`, `infoset` (index in the tree), `infostate`, `decisions` (number of own decisions
      before it), `histories`, `actions` (ids) and `action_names`; with a forest `subgame`.
    """
    rows: list[dict[str, Any]] = []
    for who in (0, 1) if player is None else (player,):
        infosets, names = tree.infosets[who], tree.infoset_names[who]
        acts = tree.infoset[who]
        histories = np.bincount(acts[acts >= 0], minlength=len(infosets))
        inside = None if forest is None else forest.infoset_subgame(who)
        for infoset, name in enumerate(names):
            number = None if inside is None else int(inside[infoset])
            if number == -1 or (subgame is not None and number != subgame):
                continue
            if not all(text in name for text in texts):
                continue
            first = int(infosets.first_sequence[infoset])
            actions = infosets.action[first : first + int(infosets.num_actions[infoset])].tolist()
            row: dict[str, Any] = {"player": who, "infoset": infoset, "infostate": name}
            row |= {} if number is None else {"subgame": number}
            row |= {"decisions": int(infosets.depth[infoset]), "histories": int(histories[infoset])}
            row |= {"actions": actions, "action_names": [tree.game.action_string(who, a) for a in actions]}
            rows.append(row)
    return rows


def infostates_table(rows: Sequence[dict[str, Any]]) -> Table:
    """One row for each infostate."""
    columns = [
        Column("infostate", lambda row: Text(" ".join(row["infostate"].split()), overflow="fold")),
        count("player"),
        *([count("subgame")] if any("subgame" in row for row in rows) else []),
        count("decisions\nbefore", "decisions"),
        count("histories"),
        Column("actions", _list_actions),
    ]
    return rows_to_table(rows, columns, fold="infostate")


def _list_actions(row: Row) -> Text:
    pairs = zip(row["actions"], row["action_names"], strict=True)
    return Text(
        "\n".join(break_lines(", ".join(f"{action} {name}" for action, name in pairs), ACTIONS_WIDTH))
    )
