"""Level-by-level enumeration of games defined one state at a time.

Base class of user-defined `Rules`, OpenSpiel games and Gambit files.
"""

from __future__ import annotations

import abc
import array
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from jaxgadget.games.game import TERMINAL, Budget, HistoryLevel, Move
from jaxgadget.util.arrays import BoolArray

REPORT_EVERY = 1000
"""Number of histories between two progress reports."""


class Branch(NamedTuple):
    """A legal move: the actions of player 0, player 1 and chance, -1 for none."""

    action: tuple[int, int, int]
    chance: float = 1.0

    @property
    def move(self) -> Move:
        """The move in the form used in histories."""
        first, second, _ = self.action
        return (first, second) if first >= 0 and second >= 0 else max(self.action)


class Node(NamedTuple):
    """A history: its fields of `game.HistoryLevel` (`returns`: sum so far) and its state."""

    state: Any
    actor: int
    infostate: tuple[int, int]
    returns: tuple[float, float] = (0.0, 0.0)
    public: int = 0


class PerStateGame(abc.ABC):
    """A game that is enumerated one state at a time, keeping the states of one level only."""

    name: str
    says_public: ClassVar[bool] = False
    """True if `Node.public` is defined."""

    history_bytes: ClassVar[int] = 1000
    """Bytes per history while the game is enumerated: OpenSpiel's states take 640 to 1,000."""

    @abc.abstractmethod
    def root(self) -> Node:
        """The first history."""

    @abc.abstractmethod
    def branches(self, node: Node) -> list[Branch]:
        """Legal moves at a non-terminal history, ascending."""

    @abc.abstractmethod
    def child(self, node: Node, branch: Branch) -> Node:
        """The history after a move."""

    def find_branch(self, node: Node, move: Move) -> Branch | None:
        """The branch of a non-terminal history with the given move, or None."""
        return next((branch for branch in self.branches(node) if branch.move == move), None)

    def levels(self, budget: Budget) -> Generator[HistoryLevel, BoolArray | None, None]:
        """Yields levels as `game.Game.levels`; expands only the histories selected by `send`."""
        budget.claim(1)
        enumerated = 0
        arrivals: Iterable[tuple[int, Branch, Node]] = [(0, Branch((-1, -1, -1)), self.root())]
        while True:
            integers, reals = array.array("q"), array.array("d")
            decisions: list[tuple[int, Node]] = []  # states of terminal histories are not stored
            for row, (parent, branch, node) in enumerate(arrivals):
                is_terminal = node.actor == TERMINAL
                integers.extend((parent, node.actor, *branch.action, *node.infostate, node.public))
                reals.extend((branch.chance, *(node.returns if is_terminal else (0.0, 0.0))))
                if not is_terminal:
                    decisions.append((row, node))
                enumerated += 1
                if enumerated % REPORT_EVERY == 0:
                    budget.report(enumerated)
            expand = yield _level(integers, reals, self.says_public)
            if expand is not None:
                decisions = [(row, node) for row, node in decisions if expand[row]]
            if not decisions:
                return
            branches: list[list[Branch]] = []
            num_below = 0
            for _, node in decisions:
                branches.append(self.branches(node))
                num_below += len(branches[-1])
                budget.foresee(num_below)
            budget.claim(num_below)
            arrivals = (
                (row, branch, self.child(node, branch))
                for (row, node), moves in zip(decisions, branches, strict=True)
                for branch in moves
            )

    def replay(self, history: Sequence[Move]) -> Node:
        """The node after a history; raises ValueError if the game has no such history."""
        node = self.root()
        for length, move in enumerate(history):
            branch = None if node.actor == TERMINAL else self.find_branch(node, move)
            if branch is None:
                raise ValueError(
                    f"{self.name}: history={tuple(history)!r} is not in the game: {move!r} is not a legal "
                    f"move after {tuple(history[:length])!r}; take histories from the game's tree"
                )
            node = self.child(node, branch)
        return node


def _level(integers: array.array[int], reals: array.array[float], says_public: bool) -> HistoryLevel:
    columns = np.ascontiguousarray(np.array(integers, np.int64).reshape(-1, 8).T)
    numbers = np.ascontiguousarray(np.array(reals, np.float64).reshape(-1, 3).T)
    return HistoryLevel(
        parent=columns[0],
        actor=columns[1].astype(np.uint8),
        action=columns[2:5],
        chance=numbers[0],
        returns=numbers[1:],
        infostate=columns[5:7],
        public=columns[7] if says_public else None,
    )
