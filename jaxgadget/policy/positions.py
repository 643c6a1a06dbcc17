"""Games in progress: histories of a tree, or states of a game that is not enumerated."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from jaxgadget.games.game import Budget, Move, move_of
from jaxgadget.games.machine import (
    MOVER_BITS,
    StateMachine,
    find_moves,
    join_states,
    sum_of_returns,
    take_states,
)
from jaxgadget.policy.policy import ROW_TOLERANCE
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.matching import first_child
from jaxgadget.util.arrays import FloatArray, IntArray


class Positions(Protocol):
    """n games, in progress or at their end.

    An option is the index of an action: among the legal actions in a tree, among all actions otherwise.
    """

    @property
    def game(self) -> str:
        """Name of the game."""
        ...

    @property
    def actor(self) -> IntArray:
        """`[n]` acting players, bits as in `HistoryLevel`."""
        ...

    @property
    def payoff(self) -> FloatArray:
        """`[n]` player 0's payoff at the end: its return minus half of `constant`."""
        ...

    @property
    def largest_payoff(self) -> float:
        """Largest known absolute payoff."""
        ...

    @property
    def constant(self) -> float:
        """The sum of both players' returns."""
        ...

    def take(self, rows: IntArray) -> Self:
        """A selection of the games."""
        ...

    def distinct(self) -> tuple[Self, IntArray]:
        """The distinct positions, and `[n]` the index of each game's."""
        ...

    def chance(self) -> FloatArray:
        """`[n, C]` weights of chance's options, where chance acts."""
        ...

    def ask(self, name: str, player: Any, seat: int) -> FloatArray:
        """`[n, A]` validated probabilities of a player's options in games in which its seat acts.

        Raises:
          ValueError: if these are not distributions.
        """
        ...

    def after(self, options: IntArray) -> Self:
        """The games after options `[3, n]` of player 0, player 1 and chance, -1 for none."""
        ...

    def children(self) -> tuple[Self, IntArray, IntArray]:
        """All m successors of these games, none at its end, their predecessors `[m]` and options `[3, m]`."""
        ...

    def moves(self, game: int) -> tuple[Move, ...]:
        """The moves of a game so far."""
        ...

    def join(self, others: Sequence[Self]) -> Self:
        """These games, then those of other batches."""
        ...

    def pack(self) -> dict[str, IntArray]:
        """Arrays by name from which `unpack` restores these games."""
        ...

    def unpack(self, arrays: Mapping[str, IntArray]) -> Self:
        """Restores games from the arrays of `pack`; raises an error if they do not follow the rules."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class TreePositions:
    """Games at histories of a tree.

    Attributes:
      tree: the game's histories, to the end.
      history: `[n]` the histories.
    """

    tree: HistoryTree
    history: IntArray

    @property
    def game(self) -> str:
        """Name of the game."""
        return self.tree.game.name

    @property
    def actor(self) -> IntArray:
        """`[n]` acting players."""
        return self.tree.actor[self.history]

    @property
    def payoff(self) -> FloatArray:
        """`[n]` player 0's payoff at the end."""
        return self.tree.payoff[self.history]

    @property
    def largest_payoff(self) -> float:
        """Largest absolute payoff of the game."""
        return max(map(abs, self.tree.payoff_bounds))

    @property
    def constant(self) -> float:
        """The sum of both players' returns."""
        return self.tree.constant

    def _at(self, history: IntArray) -> Self:
        return dataclasses.replace(self, history=history)

    def take(self, rows: IntArray) -> Self:
        """A selection of the games."""
        return self._at(self.history[rows])

    def distinct(self) -> tuple[Self, IntArray]:
        """The distinct histories, ascending, and `[n]` the index of each game's."""
        histories, index = np.unique(self.history, return_inverse=True)
        return self._at(histories), index

    def chance(self) -> FloatArray:
        """`[n, C]` weights of chance's outcomes, padded with 0."""
        first, count = self._children()
        slot = np.arange(count.max(initial=1))
        child = np.minimum(first[:, None] + slot, self.tree.num_histories - 1)
        return np.where(slot < count[:, None], self.tree.chance[child], 0.0)

    def _children(self) -> tuple[IntArray, IntArray]:
        """First child and number of children of each history."""
        first = first_child(self.tree, self.history)
        return first, first_child(self.tree, self.history + 1) - first

    def ask(self, name: str, player: Any, seat: int) -> FloatArray:
        """`[n, A]` checked probabilities of the legal actions, ascending by id."""
        rows = np.asarray(player.action_probabilities(self.tree, seat, self.history), np.float64)
        count = self._num_actions(seat)
        if rows.ndim != 2 or len(rows) != len(self.history) or rows.shape[1] < count.max():
            raise ValueError(
                f"player {name!r} in seat {seat} returned probabilities of shape {rows.shape}; expected "
                f"({len(self.history)}, {count.max()}), histories and at least the maximum number of actions"
            )
        check_distributions(
            rows, np.arange(rows.shape[1]) < count[:, None], self, f"player {name!r} in seat {seat}"
        )
        return rows

    def _num_actions(self, seat: int) -> IntArray:
        """`[n]` number of legal actions, 1 where the seat does not act."""
        return np.append(self.tree.infosets[seat].num_actions, 1)[self.tree.infoset[seat, self.history]]

    def after(self, options: IntArray) -> Self:
        """The games after indices of legal actions or outcomes."""
        moved = options.max(axis=0) >= 0
        before = self.take(np.flatnonzero(moved))
        first, second, outcome = np.maximum(options[:, moved], 0)
        number = (first * before._num_actions(1) + second) + outcome
        history = self.history.copy()
        history[moved] = first_child(self.tree, before.history) + number
        return self._at(history)

    def children(self) -> tuple[Self, IntArray, IntArray]:
        """All games one move later."""
        first, count = self._children()
        parent = np.repeat(np.arange(len(first)), count)
        number = np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)
        actor, second = self.actor[parent], self._num_actions(1)[parent]
        options = np.stack([number // second, number % second, number])
        for mover, bit in enumerate(MOVER_BITS):
            options[mover, (actor & bit) == 0] = -1
        return self._at(first[parent] + number), parent, options

    def moves(self, game: int) -> tuple[Move, ...]:
        """The moves of a game so far."""
        return self.tree.moves(int(self.history[game]))

    def join(self, others: Sequence[Self]) -> Self:
        """These games, then those of other batches."""
        return self._at(np.concatenate([self.history, *(part.history for part in others)]))

    def pack(self) -> dict[str, IntArray]:
        """The histories."""
        return {"history": self.history}

    def unpack(self, arrays: Mapping[str, IntArray]) -> Self:
        """Restores games; raises IndexError for a history that is not in the tree."""
        return self._at(np.arange(self.tree.num_histories)[arrays["history"]])


@dataclasses.dataclass(frozen=True, eq=False)
class StatePositions:
    """Games at states of a `StateMachine`.

    Attributes:
      machine: the rules.
      state: n states.
      made: `[L, 3, n]` previous moves, padded with -1 at the end.
    """

    machine: StateMachine[Any]
    state: Any
    made: IntArray

    @staticmethod
    def start(machine: StateMachine[Any], n: int) -> StatePositions:
        """`n` games before their first move."""
        return StatePositions(machine, machine.start(n, np), np.zeros((0, 3, n), np.int16))

    @property
    def game(self) -> str:
        """Name of the game."""
        return self.machine.name

    @property
    def actor(self) -> IntArray:
        """`[n]` acting players."""
        return np.asarray(self.machine.actor(self.state))

    @property
    def payoff(self) -> FloatArray:
        """`[n]` player 0's payoff at the end."""
        returns = np.asarray(self.machine.returns(self.state), np.float64)
        return returns[0] - self.constant / 2

    @property
    def largest_payoff(self) -> float:
        """Largest absolute payoff of these games."""
        return float(np.abs(self.payoff).max(initial=0.0))

    @property
    def constant(self) -> float:
        """The sum of both players' returns."""
        return sum_of_returns(self.machine)

    def take(self, rows: IntArray) -> Self:
        """A selection of the games."""
        return self._at(take_states(self.state, rows), self.made[..., rows])

    def distinct(self) -> tuple[Self, IntArray]:
        """The distinct histories, and `[n]` the index of each game's."""
        flat = np.ascontiguousarray(self.made.reshape(-1, self.made.shape[-1]).T)
        if not flat.shape[1]:
            return self.take(np.zeros(1, np.int64)), np.zeros(len(flat), np.int64)
        keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
        _, first, index = np.unique(keys, return_index=True, return_inverse=True)
        return self.take(first), index

    def chance(self) -> FloatArray:
        """`[n, C]` probabilities of chance's outcomes."""
        return np.asarray(self.machine.chance(self.state), np.float64).T

    def ask(self, name: str, player: Any, seat: int) -> FloatArray:
        """`[n, A]` checked probabilities of all actions, 0 for illegal ones."""
        rows = np.asarray(player.state_probabilities(self, seat), np.float64)
        legal = np.asarray(self.machine.legal(self.state, seat)).T
        if rows.shape != legal.shape:
            raise ValueError(
                f"player {name!r} in seat {seat} returned probabilities of shape {rows.shape}; expected "
                f"{legal.shape}, games and actions"
            )
        check_distributions(rows, legal, self, f"player {name!r} in seat {seat}")
        return rows

    def after(self, options: IntArray) -> Self:
        """The games after actions and outcomes."""
        moved = options.max(axis=0) >= 0
        after, _ = self.machine.step(self.state, options)
        state = type(after)(*(np.where(moved, new, old) for new, old in zip(after, self.state, strict=True)))
        return self._at(state, np.concatenate([self.made, options[None].astype(np.int16)]))

    def children(self) -> tuple[Self, IntArray, IntArray]:
        """All games one move later."""
        actor, budget = self.actor.astype(np.uint8), Budget(self.game, sys.maxsize)
        moves = find_moves(self.machine, self.state, actor, np.arange(len(actor)), budget)
        return self.take(moves.parent).after(moves.action), moves.parent, moves.action

    def moves(self, game: int) -> tuple[Move, ...]:
        """The moves of a game so far."""
        made = self.made[..., game]
        return tuple(move_of(move[:, None], 0) for move in made[made.max(axis=1) >= 0])

    def join(self, others: Sequence[Self]) -> Self:
        """These games, then those of other batches."""
        parts = [self, *others]
        longest = max(len(part.made) for part in parts)
        padded = [
            np.pad(part.made, ((0, longest - len(part.made)), (0, 0), (0, 0)), constant_values=-1)
            for part in parts
        ]
        return self._at(join_states([part.state for part in parts]), np.concatenate(padded, axis=-1))

    def pack(self) -> dict[str, IntArray]:
        """The previous moves."""
        return {"made": self.made}

    def unpack(self, arrays: Mapping[str, IntArray]) -> Self:
        """Restores games by replaying their moves."""
        made = np.asarray(arrays["made"], np.int16)
        games = self.start(self.machine, made.shape[-1])
        for options in made:
            games = games.after(options)
        return self._at(games.state, made)

    def _at(self, state: Any, made: IntArray) -> Self:
        return dataclasses.replace(self, state=state, made=made)


def check_distributions(rows: FloatArray, legal: IntArray, positions: Positions, who: str) -> None:
    """Raises ValueError unless rows `[n, A]` are distributions over the legal options `[n, A]`."""
    wrong = ~((rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1) <= ROW_TOLERANCE))
    wrong |= (np.where(legal, 0.0, rows) != 0).any(axis=1)
    if wrong.any():
        game = int(np.argmax(wrong))
        raise ValueError(
            f"{who} returned {rows[game].tolist()} after history {positions.moves(game)}; expected "
            f"{np.count_nonzero(legal[game])} numbers >= 0 that sum to 1 within {ROW_TOLERANCE} at "
            f"{np.flatnonzero(legal[game]).tolist()}, and 0 elsewhere"
        )
