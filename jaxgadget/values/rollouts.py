"""Values of histories by rollouts: the mean return of games that are played to the end, in NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jaxgadget.games.game import TERMINAL
from jaxgadget.games.machine import MOVER_BITS, StateMachine, StateStrategy, sum_of_returns, take_states
from jaxgadget.policy.player import draw_options
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.states import states_at
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray

STATES = 1 << 16
"""Maximum number of games that are played at a time."""


@dataclasses.dataclass(frozen=True, eq=False)
class RolloutValues:
    """A value function for trees of a `StateMachine`: both players follow one strategy to the end.

    Unbiased, with the noise of the rollouts. Equal calls have equal results.

    Attributes:
      strategy: both players' strategy.
      rollouts: number of games from each history.
      seed: seed of all draws.
      name: name in tables.
    """

    strategy: StateStrategy
    rollouts: int = 32
    seed: int = 0
    name: str = "rollouts"

    def __post_init__(self) -> None:
        check_whole_number("rollouts", self.rollouts, 1)
        check_whole_number("seed", self.seed, 0)

    @property
    def num_entries(self) -> int:
        """1, as both players have one strategy."""
        return 1

    def __call__(self, tree: HistoryTree, histories: IntArray) -> FloatArray:
        """Estimates for player 0, `[H, 1, 1]`; ValueError unless the tree is of a `StateMachine`."""
        machine, state = states_at(tree, histories)
        rng = np.random.Generator(np.random.PCG64(self.seed))
        half, size = sum_of_returns(machine) / 2, max(1, STATES // self.rollouts)
        values = np.zeros(len(histories))
        for begin in range(0, len(histories), size):
            rows = np.repeat(np.arange(begin, min(begin + size, len(histories))), self.rollouts)
            ends = self._play(machine, take_states(state, rows), rng)
            returns = np.asarray(machine.returns(ends), np.float64)[0] - half
            values[begin : begin + size] = returns.reshape(-1, self.rollouts).mean(axis=1)
        return values[:, None, None]

    def _play(self, machine: StateMachine[Any], state: Any, rng: np.random.Generator) -> Any:
        """The states at the ends of games."""
        while ((actor := np.asarray(machine.actor(state))) != TERMINAL).any():
            moves = np.full((3, len(actor)), -1)
            for mover, bit in enumerate(MOVER_BITS):
                acting = np.flatnonzero(actor & bit)
                if not len(acting):
                    continue
                acting_states = take_states(state, acting)
                weights = machine.chance(acting_states) if mover == 2 else self.strategy(acting_states, mover)
                table = np.asarray(weights, np.float64).T
                moves[mover, acting] = draw_options(table, np.arange(len(acting)), rng.random(len(acting)))
            after, _ = machine.step(state, moves)
            is_over = actor == TERMINAL
            state = type(state)(*(np.where(is_over, old, new) for new, old in zip(after, state, strict=True)))
        return state
