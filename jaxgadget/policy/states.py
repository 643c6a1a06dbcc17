"""Conversion of functions of states, such as policy networks, to policies of trees."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeGuard

import numpy as np

from jaxgadget.games.machine import StateMachine, StateStrategy
from jaxgadget.games.public_state import ENTER, PublicStateGame
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.positions import StatePositions
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.states import states_at
from jaxgadget.util.arrays import FloatArray


def policy_of_states(tree: HistoryTree, strategy: StateStrategy, label: str) -> Policy:
    """Evaluates a strategy of states at all infosets of a tree; returns a policy with one lane.

    Args:
      tree: a tree of a `StateMachine`, whole or truncated, or from `enumerate_from`; in the latter the
        decisions to enter have the public state's reach.
      strategy: both players' strategy.
      label: the lane's label.
    """
    rows = list[FloatArray]()
    for player, infosets in enumerate(tree.infosets):
        owner, action = infosets.infoset[1:], infosets.action[1:]
        chosen = np.zeros(len(owner))
        is_entry = np.zeros(len(infosets), np.bool_)
        if isinstance(tree.game, PublicStateGame) and tree.game.num_moves:
            is_entry = tree.num_moves[infosets.history] == 0
            drawn = tree.action[2, infosets.history[is_entry]]
            reach = np.zeros(len(infosets))
            reach[is_entry] = tree.game.public.reach[player, drawn]
            chosen = np.where(action == ENTER, reach[owner], 1 - reach[owner])
        below = ~is_entry[owner]
        if below.any():
            _, state = states_at(tree, infosets.history[~is_entry])
            table = np.asarray(strategy(state, player), np.float64)
            chosen[below] = table[action[below], np.cumsum(~is_entry)[owner[below]] - 1]
        rows.append(chosen[:, None])
    return Policy(tree, (rows[0], rows[1]), (label,))


def check_strategy(strategy: object, machine: StateMachine[Any], *, name: str = "blueprint") -> StateStrategy:
    """Returns a strategy of states, such as a network or a function of states and a player.

    Args:
      strategy: the strategy.
      machine: the rules.
      name: the argument's name, for errors.

    Raises:
      ValueError: if it is no strategy of states, or of another game.
    """
    if not is_strategy(strategy):
        raise ValueError(
            f"{name}={strategy!r}: expected a policy network, or a function of states and a player that "
            "returns probabilities [actions, states], as no tree is given"
        )
    own = getattr(strategy, "machine", machine)
    if own.name != machine.name:
        raise ValueError(f"{name} is for {own.name!r}, not for {machine.name!r}; expected one for this game")
    return strategy


def is_strategy(policy: object) -> TypeGuard[StateStrategy]:
    """True for a `StateStrategy`. Policies of OpenSpiel can be called, too, but with its states."""
    return callable(policy) and not isinstance(policy, type) and not hasattr(policy, "action_probabilities")


@dataclasses.dataclass(frozen=True, eq=False)
class StrategyPlayer:
    """A strategy of states as a `StatePlayer`."""

    strategy: StateStrategy

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """The strategy's probabilities in some games."""
        return np.asarray(self.strategy(games.state, player), np.float64).T
