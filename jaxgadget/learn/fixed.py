"""Fixed opponents: given policies of one seat in the games of a training, on the device."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.games.machine import Array, StateMachine, StateStrategy, namespace
from jaxgadget.games.wrapped import WrappedMachine
from jaxgadget.networks.perceptron import PerceptronShape, Weights
from jaxgadget.policy.network import NetworkPolicy, state_policy
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.matching import first_child
from jaxgadget.util.digest import digest
from jaxgadget.util.precision import numpy_promotion


class FixedOpponent(Protocol):
    """A policy for games on the device; a pytree of its parameters."""

    def rules(self, machine: StateMachine[Any]) -> StateMachine[Any]:
        """The rules, with states that include everything the policy depends on, for use inside `jit`."""
        ...

    def policy(self, machine: StateMachine[Any]) -> StateStrategy:
        """The policy as a strategy of states of these rules, for use inside `jit`."""
        ...

    def describe(self) -> str:
        """Digest of everything that determines the policy."""
        ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class NetworkOpponent:
    """A policy network.

    Attributes:
      weights: its parameters.
      shape: its architecture.
    """

    weights: Weights
    shape: PerceptronShape = dataclasses.field(metadata={"static": True})

    @staticmethod
    def of(network: NetworkPolicy) -> NetworkOpponent:
        """The opponent of a network."""
        return NetworkOpponent(weights=network.weights, shape=network.shape)

    def rules(self, machine: StateMachine[Any]) -> StateMachine[Any]:
        """The same rules."""
        return machine

    def policy(self, machine: StateMachine[Any]) -> StateStrategy:
        """The network."""
        return state_policy(machine, self.shape, self.weights)

    def describe(self) -> str:
        """Digest of the weights."""
        return digest(*map(np.asarray, jax.tree.leaves(self.weights)))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOpponent:
    """A policy of a tree with H histories and I infosets of both players, player 0's first.

    Attributes:
      child: `[H]` first child of each history.
      row: `[2, H]` index in `table` of each player's infoset; arbitrary where the player does not act.
      table: `[I, A]` probabilities of actions.
    """

    child: jax.Array
    row: jax.Array
    table: jax.Array

    @staticmethod
    def of(policy: Policy) -> TableOpponent:
        """The opponent of a policy with one lane, of a tree of the whole game."""
        tree = policy.histories
        first = len(tree.infosets[0])
        table = np.zeros((first + len(tree.infosets[1]), tree.game.num_actions), np.float32)
        for player, infosets in enumerate(tree.infosets):
            rows = infosets.infoset[1:] + player * first
            table[rows, infosets.action[1:]] = policy.probabilities[player][:, 0]
        row = np.maximum(tree.infoset, 0) + np.array([[0], [first]])
        child = first_child(tree, np.arange(tree.num_histories))
        return TableOpponent(
            child=jnp.asarray(child, jnp.int32), row=jnp.asarray(row, jnp.int32), table=jnp.asarray(table)
        )

    def rules(self, machine: StateMachine[Any]) -> StateMachine[Any]:
        """The rules, with the index of the history in each state."""
        return _Numbered(machine, self.child)

    def policy(self, machine: StateMachine[Any]) -> StateStrategy:
        """The rows of the table."""
        return lambda state, player: self.table[self.row[player, state.history]].T

    def describe(self) -> str:
        """Digest of the table."""
        return digest(np.asarray(self.table))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionOpponent:
    """A policy given by a strategy of states that can be compiled by `jit`.

    Attributes:
      function: the strategy.
    """

    function: StateStrategy = dataclasses.field(metadata={"static": True})

    def rules(self, machine: StateMachine[Any]) -> StateMachine[Any]:
        """The same rules."""
        return machine

    def policy(self, machine: StateMachine[Any]) -> StateStrategy:
        """The function."""

        def probabilities(state: Any, player: int) -> jax.Array:
            with numpy_promotion():
                return jnp.asarray(self.function(state, player), jnp.float32)

        return probabilities

    def describe(self) -> str:
        """The function's name."""
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"{self.function.__module__}.{name}"


class _NumberedState(NamedTuple):
    """States and the indices of their histories."""

    inner: Any
    history: Array


class _Numbered(WrappedMachine[_NumberedState]):
    """Rules whose states include the index of their history in a tree; for use on the device.

    Args:
      machine: the rules.
      child: `[H]` first child of each history.
    """

    def __init__(self, machine: StateMachine[Any], child: jax.Array):
        super().__init__(machine)
        self._child = child

    def start(self, n: int, xp: Any) -> _NumberedState:
        """The initial state, history 0."""
        return _NumberedState(self.game.start(n, xp), xp.zeros(n, np.int32))

    def actor(self, state: _NumberedState) -> Array:
        """Acting players."""
        return self.game.actor(state.inner)

    def legal(self, state: _NumberedState, player: int) -> Array:
        """Legal actions."""
        return self.game.legal(state.inner, player)

    def chance(self, state: _NumberedState) -> Array:
        """Probabilities of outcomes."""
        return self.game.chance(state.inner)

    def step(self, state: _NumberedState, moves: Array) -> tuple[_NumberedState, Array]:
        """The next states; children are ordered by player 0's move, then player 1's, then chance's."""
        xp, actor = namespace(moves), self.game.actor(state.inner)
        options = [self.game.legal(state.inner, player) for player in (0, 1)]
        if self.num_outcomes:
            options.append(self.game.chance(state.inner) > 0)
        number = xp.zeros_like(state.history)
        for mover, possible in enumerate(options):
            acts = (actor & (*ACTOR_BIT, CHANCE)[mover]) > 0
            rank = xp.cumsum(possible, axis=0) - 1
            index = xp.take_along_axis(rank, xp.maximum(moves[mover], 0)[None], axis=0)[0]
            count = xp.where(acts, xp.sum(possible, axis=0), 1)
            number = number * count + xp.where(acts, index, 0)
        after, seen = self.game.step(state.inner, moves)
        history = self._child[state.history] + number
        return _NumberedState(after, xp.minimum(history, len(self._child) - 1).astype(np.int32)), seen

    def returns(self, state: _NumberedState) -> Array:
        """Returns."""
        return self.game.returns(state.inner)

    def features(self, state: _NumberedState, player: int) -> Array:
        """Features of the rules' states."""
        return self.game.features(state.inner, player)


def seated(policy: StateStrategy, opponent: StateStrategy, seat: int) -> StateStrategy:
    """The policy of both players with `policy` in one seat and `opponent` in the other."""
    return lambda state, player: (policy if player == seat else opponent)(state, player)
