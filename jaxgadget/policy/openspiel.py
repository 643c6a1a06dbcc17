"""Policies to and from OpenSpiel's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import FloatArray

if TYPE_CHECKING:
    from open_spiel.python.policy import TabularPolicy


def read_row(
    tree: HistoryTree, table: TabularPolicy, player: int, infoset: int, num_actions: int
) -> FloatArray:
    """The probabilities of an infoset's actions in a table; ValueError if it lacks the infoset."""
    name = tree.infostate_strings[player][infoset]
    if name not in table.state_lookup:
        raise ValueError(
            f"OpenSpiel policy has no state {name!r} of player {player}; expected a policy of "
            f"{tree.game.name}"
        )
    first = tree.infosets[player].first_sequence[infoset]
    row = np.asarray(table.action_probability_array[table.state_lookup[name]], np.float64)
    return row[tree.infosets[player].action[first : first + num_actions]]


def write_table(tree: HistoryTree, probabilities: Sequence[FloatArray], lane: int) -> TabularPolicy:
    """A table of the OpenSpiel game of the tree's name; see `Policy.to_openspiel`."""
    table = _load(tree.game.name)
    rows = table.action_probability_array
    taken: set[str] = set()
    for player in (0, 1):
        infosets = tree.infosets[player]
        for infoset, name in enumerate(tree.infostate_strings[player]):
            if name not in table.state_lookup:
                raise ValueError(
                    f"OpenSpiel's {tree.game.name} has no state {name!r} of player {player}; it cannot "
                    "hold this policy"
                )
            if name in taken:
                raise ValueError(
                    f"OpenSpiel's string {name!r} stands for several infosets of {tree.game.name}; its "
                    "table cannot hold this policy, save it with Policy.save instead"
                )
            taken.add(name)
            first, count = infosets.first_sequence[infoset], infosets.num_actions[infoset]
            row = table.state_lookup[name]
            rows[row] = 0
            rows[row, infosets.action[first : first + count]] = probabilities[player][
                first - 1 : first - 1 + count, lane
            ]
    return table


def _load(name: str) -> TabularPolicy:
    try:
        import pyspiel
        from open_spiel.python.policy import TabularPolicy as Table
    except ImportError as error:
        raise ImportError("OpenSpiel is not installed; install it with: pip install open-spiel") from error
    try:
        return Table(pyspiel.load_game(name.removeprefix("openspiel:")))
    except pyspiel.SpielError as error:
        raise ValueError(f"OpenSpiel does not know {name!r}: {error}") from error
