"""All decisions of a tree as inputs of a policy network."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxgadget.policy.evaluate import normalise_rows
from jaxgadget.policy.network import with_seat
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.states import states_at
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Decisions:
    """The I infosets of a tree, player 0's first, as inputs of a policy network with A outputs.

    Attributes:
      tree: the tree.
      inputs: `[I, F + 2]` float32.
      legal: `[I, A]` mask of legal actions.
      cells: for both players `[Q]` index of each row of a policy in the flattened `[I, A]` arrays.
    """

    tree: HistoryTree
    inputs: FloatArray
    legal: BoolArray
    cells: tuple[IntArray, IntArray]

    @staticmethod
    def of(tree: HistoryTree) -> Decisions:
        """The decisions of a tree; raises ValueError unless its game is a `StateMachine`."""
        inputs, cells, before = list[FloatArray](), list[IntArray](), 0
        num_actions = tree.game.num_actions
        for player, infosets in enumerate(tree.infosets):
            machine, state = states_at(tree, infosets.history)
            inputs.append(with_seat(np.asarray(machine.features(state, player)).T, player))
            cells.append((before + infosets.infoset[1:]) * num_actions + infosets.action[1:])
            before += len(infosets)
        legal = np.zeros(before * num_actions, np.bool_)
        legal[np.concatenate(cells)] = True
        return Decisions(
            tree=tree,
            inputs=np.concatenate(inputs),
            legal=legal.reshape(before, num_actions),
            cells=(cells[0], cells[1]),
        )

    def table(self, policy: Policy) -> FloatArray:
        """`[I, A]` probabilities of a policy of one lane, 0 for illegal actions."""
        table = np.zeros(self.legal.size)
        for cells, rows in zip(self.cells, policy.probabilities, strict=True):
            table[cells] = rows[:, 0]
        return table.reshape(self.legal.shape)

    def policy(self, table: FloatArray, label: str) -> Policy:
        """The policy with the given probabilities `[I, A]`, normalised."""
        first, second = (
            normalise_rows(table.reshape(-1)[cells][:, None], infosets.infoset[1:])
            for cells, infosets in zip(self.cells, self.tree.infosets, strict=True)
        )
        return Policy(self.tree, (first, second), (label,))
