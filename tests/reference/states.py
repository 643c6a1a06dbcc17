"""Strategies of states from tables: the infostate's row is found by its features."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxgadget.games.machine import StateMachine, StateStrategy
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.states import states_at


def probabilities_of(policy: Policy) -> StateStrategy:
    """The strategy of states that a policy of a whole tree, one lane, describes."""
    tree = policy.histories
    assert isinstance(tree.game, StateMachine)
    game, tables = tree.game, (dict[bytes, Any](), dict[bytes, Any]())
    for player, infosets in enumerate(tree.infosets):
        rows = np.zeros((len(infosets), game.num_actions))
        rows[infosets.infoset[1:], infosets.action[1:]] = policy.probabilities[player][:, 0]
        for row, key in zip(rows, _keys(game, states_at(tree, infosets.history)[1], player), strict=True):
            assert np.array_equal(tables[player].setdefault(key, row), row)  # features identify infosets

    def probabilities(state: Any, player: int) -> Any:
        nothing = np.zeros(game.num_actions)
        return np.stack([tables[player].get(key, nothing) for key in _keys(game, state, player)], axis=1)

    return probabilities


def _keys(game: StateMachine[Any], state: Any, player: int) -> list[bytes]:
    features = np.ascontiguousarray(np.asarray(game.features(state, player)).T)
    return [row.tobytes() for row in features]
