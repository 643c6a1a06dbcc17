"""Policies from dictionaries and data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from jaxgadget.tree.public import Tree
from jaxgadget.util.arguments import near_names
from jaxgadget.util.arrays import FloatArray

FRAME_COLUMNS = ("lane", "player", "infostate", "action", "probability")
"""Columns read by `rows_of_frame`; others are ignored."""


def read_actions(tree: Tree, player: int, infoset: int, probabilities: Any) -> FloatArray:
    """Parses the probabilities of an infoset's actions.

    Args:
      tree: the game's histories.
      player: player of the infoset.
      infoset: id of the infoset.
      probabilities: action id → probability, with 0 for omitted actions; or a probability for each legal
        action, in the order of their ids.

    Raises:
      ValueError: if it is neither, or has a probability for an illegal action.
    """
    infosets = tree.infosets[player]
    first = int(infosets.first_sequence[infoset])
    legal = infosets.action[first : first + int(infosets.num_actions[infoset])].tolist()
    where = f"policy of player {player} at {tree.infoset_names[player][infoset]!r} of {tree.game.name}"
    if isinstance(probabilities, Mapping):
        actions: dict[Any, Any] = dict(probabilities)
        strange = [action for action, share in actions.items() if action not in legal and share != 0]
        if strange:
            raise ValueError(f"{where} has probabilities for {strange}; expected legal actions, {legal}")
        probabilities = [actions.get(action, 0.0) for action in legal]
    try:
        row = np.asarray(probabilities, np.float64)
    except (TypeError, ValueError):
        row = np.zeros(0)
    if row.shape != (len(legal),):
        raise ValueError(
            f"{where} is {probabilities!r}; expected a dictionary from action to probability, or a "
            f"probability for each of the legal actions {legal}"
        )
    return row


def rows_of_dict(tree: Tree, rows_by_name: Mapping[Any, Any]) -> tuple[FloatArray, FloatArray]:
    """Both players' `[Q]` probabilities from a dictionary by infostate."""
    pair: list[FloatArray] = []
    used: set[Any] = set()
    for player in (0, 1):
        rows: list[FloatArray] = [np.zeros(0)]
        names, strings = tree.infoset_names[player], tree.infostate_strings[player]
        for infoset, (name, string) in enumerate(zip(names, strings, strict=True)):
            keys = [key for key in ((player, name), (player, string), name, string) if key in rows_by_name]
            if not keys:
                raise ValueError(
                    f"policy lacks infostate {name!r} of player {player}; expected all "
                    f"{sum(map(len, tree.infosets))} infostates of {tree.game.name} "
                    "(`tree.infoset_names` lists them)"
                )
            used.update(keys)
            row, *others = (read_actions(tree, player, infoset, rows_by_name[key]) for key in keys)
            for key, other in zip(keys[1:], others, strict=True):
                if key != keys[0] and not np.array_equal(row, other):
                    raise ValueError(
                        f"policy of player {player} at {name!r} of {tree.game.name} is duplicate, with the "
                        f"keys {keys[0]!r} and {key!r} and different values; remove one, or use the key "
                        "(player, name) if one is for the other player"
                    )
            rows.append(row)
        pair.append(np.concatenate(rows))
    unknown = [key for key in rows_by_name if key not in used]
    if unknown:
        names = (*tree.infoset_names[0], *tree.infoset_names[1])
        raise ValueError(
            f"policy has {len(unknown)} infostates that are not in {tree.game.name}, such as "
            f"{unknown[0]!r}; expected names like {near_names(str(unknown[0]), names)}"
        )
    return pair[0], pair[1]


def rows_of_frame(tree: Tree, frame: pd.DataFrame) -> tuple[tuple[FloatArray, FloatArray], tuple[str, ...]]:
    """Both players' `[Q, lanes]` probabilities from a data frame, and the labels of lanes."""
    missing = [name for name in FRAME_COLUMNS if name not in frame.columns]
    if missing or frame.empty:
        problem = f"lacks the columns {', '.join(missing)}" if missing else "has no rows"
        raise ValueError(f"frame {problem}; expected {', '.join(FRAME_COLUMNS)}, as in Policy.to_frame")
    columns = {name: frame[name].tolist() for name in FRAME_COLUMNS}
    labels = list(dict.fromkeys(map(str, columns["lane"])))
    lane_of = {label: lane for lane, label in enumerate(labels)}
    pair = [np.full((infosets.num_sequences - 1, len(labels)), np.nan) for infosets in tree.infosets]
    row_of = [_places(tree, player) for player in (0, 1)]
    for lane, player, infostate, action, probability in zip(*columns.values(), strict=True):
        where = f"frame: lane {str(lane)!r}, player {player}, infostate {infostate!r}, action {action}"
        if player not in (0, 1) or (str(infostate), action) not in row_of[player]:
            names = [name for p in (0, 1) for name in tree.infoset_names[p]]
            raise ValueError(
                f"{where} is not an action of {tree.game.name}; expected infostates like "
                f"{near_names(str(infostate), names)} with their legal actions' ids"
            )
        row = row_of[player][str(infostate), action]
        if not np.isnan(pair[player][row, lane_of[str(lane)]]):
            raise ValueError(f"{where} is duplicate; expected one row each, and unique labels of lanes")
        pair[player][row, lane_of[str(lane)]] = probability
    for player, rows in enumerate(pair):
        if np.isnan(rows).any():
            row, lane = np.argwhere(np.isnan(rows))[0].tolist()
            names = {row_idx: key for key, row_idx in row_of[player].items()}
            infostate, action = names[row]
            raise ValueError(
                f"frame has no probability for lane {labels[lane]!r}, player {player}, infostate "
                f"{infostate!r}, action {action}; expected a row for every action of {tree.game.name}"
            )
    return (pair[0], pair[1]), tuple(labels)


def _places(tree: Tree, player: int) -> dict[tuple[str, int], int]:
    """(Infostate, action) → row of a player's probabilities."""
    infosets, names = tree.infosets[player], tree.infoset_names[player]
    pairs: Sequence[tuple[int, int]] = list(
        zip(infosets.infoset[1:].tolist(), infosets.action[1:].tolist(), strict=True)
    )
    return {(names[infoset], action): row for row, (infoset, action) in enumerate(pairs)}
