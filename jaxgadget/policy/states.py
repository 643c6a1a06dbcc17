"""Conversion of functions of states, such as policy networks, to policies of trees."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxgadget.games.machine import StateMachine
from jaxgadget.games.public_state import ENTER, Probabilities, PublicStateGame
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.positions import StatePositions
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.states import states_at
from jaxgadget.util.arrays import FloatArray


def policy_of_states(tree: HistoryTree, probabilities: Probabilities, label: str) -> Policy:
    """Evaluates a strategy of states at all infosets of a tree; returns a policy with one lane.

    Args:
      tree: a tree of a `StateMachine`, whole or truncated, or from `enumerate_from`; in the latter the
        decisions to enter have the public state's reach.
      probabilities: function of states and a player that returns `[A, n]` probabilities of its actions.
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
            table = np.asarray(probabilities(state, player), np.float64)
            chosen[below] = table[action[below], np.cumsum(~is_entry)[owner[below]] - 1]
        rows.append(chosen[:, None])
    return Policy(tree, (rows[0], rows[1]), (label,))


def strategy_of(blueprint: object, machine: StateMachine[Any], *, name: str = "blueprint") -> Probabilities:
    """The strategy of states of a network, or of a function of states and a player.

    Args:
      blueprint: a `StateStrategy`, such as a network, or a function like its method `probabilities`.
      machine: the rules.
      name: the argument's name, for errors.

    Raises:
      ValueError: if it is neither, or of another game.
    """
    given: Any = blueprint
    if not is_strategy(given):
        raise ValueError(
            f"{name}={given!r}: expected a policy network, or a function of states and a player that returns "
            "probabilities [actions, states], as no tree is given"
        )
    own = getattr(given, "machine", machine)
    if own.name != machine.name:
        raise ValueError(f"{name} is for {own.name!r}, not for {machine.name!r}; expected one for this game")
    return getattr(given, "probabilities", given)


def is_strategy(blueprint: object) -> bool:
    """True for a strategy of states: see `strategy_of`."""
    return not isinstance(blueprint, type) and callable(getattr(blueprint, "probabilities", blueprint))


@dataclasses.dataclass(frozen=True, eq=False)
class StrategyPlayer:
    """A strategy of states, such as a network's, as a `StatePlayer`."""

    strategy: Probabilities

    def state_probabilities(self, games: StatePositions, player: int) -> FloatArray:
        """The strategy's probabilities in some games."""
        return np.asarray(self.strategy(games.state, player), np.float64).T
