"""Betting rounds of Leduc poker: player to move, legal actions and their effects, also as tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import ACTOR_BIT, CHANCE, TERMINAL
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

FOLD, CALL, RAISE = 0, 1, 2
ANTE = 1


class BettingState(NamedTuple):
    """State of the betting.

    Attributes:
      mover: the player to move.
      paid: chips of both players in the pot.
      raises: number of raises in this round.
      calls: number of calls and checks since the last raise, or in this round.
      last_raise: chips of the last raise in this round, 0 before the first.
    """

    mover: int
    paid: tuple[int, int] = (ANTE, ANTE)
    raises: int = 0
    calls: int = 0
    last_raise: int = 0

    @property
    def is_pressed(self) -> bool:
        """True if the player to move faces a raise."""
        return self.paid[self.mover] < self.paid[1 - self.mover]

    @property
    def round_is_over(self) -> bool:
        """True if both players have acted on the last raise without a fold."""
        return self.calls == (1 if self.raises else 2)

    def after(self, played: int, raise_size: int) -> BettingState:
        """The state after an action with an effect; a fold does not change the chips."""
        mover, paid, raises, calls, last_raise = self
        stakes = max(paid)
        puts = (paid[mover], stakes, stakes + raise_size)[played]
        paid = (puts, paid[1]) if mover == 0 else (paid[0], puts)
        if played == RAISE:
            return BettingState(1 - mover, paid, raises + 1, 0, raise_size)
        return BettingState(1 - mover, paid, raises, calls + 1, last_raise)


class BettingRules(Protocol):
    """Betting rules as used by `BettingLines`."""

    @property
    def starting_player(self) -> int:
        """The player that begins both rounds."""
        ...

    @property
    def max_raises(self) -> int:
        """Maximum number of raises in a round, by both players together."""
        ...

    def start(self) -> BettingState:
        """Only the antes are in the pot."""
        ...

    def second_round(self, state: BettingState) -> BettingState:
        """The state after the public card; the round is already over if a player is all-in."""
        ...

    def legal_actions(self, state: BettingState) -> tuple[int, ...]:
        """Legal actions, ascending."""
        ...

    def played(self, action: int, state: BettingState) -> int:
        """The public effect of an action, as an action."""
        ...

    def after(self, action: int, state: BettingState, is_second: bool) -> BettingState:
        """The state after a legal action in the first or the second round."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Betting:
    """The rules of the betting; parameters as in `leduc.LeducPoker`.

    Attributes:
      starting_player: the player that begins both rounds.
      raise_sizes: chips of a raise in the first and in the second round.
      max_raises: maximum number of raises in a round, by both players together.
      action_mapping: makes all actions legal; a pointless fold or raise is played as a call.
    """

    starting_player: int
    raise_sizes: tuple[int, int]
    max_raises: int
    action_mapping: bool

    def start(self) -> BettingState:
        """Only the antes are in the pot."""
        return BettingState(self.starting_player)

    def second_round(self, state: BettingState) -> BettingState:
        """The state after the public card."""
        return BettingState(self.starting_player, state.paid)

    def sensible(self, state: BettingState) -> tuple[int, ...]:
        """Actions with an effect: no fold unless facing a raise, and at most `max_raises` raises."""
        can_fold = (FOLD,) if state.is_pressed else ()
        can_raise = (RAISE,) if state.raises < self.max_raises else ()
        return (*can_fold, CALL, *can_raise)

    def legal_actions(self, state: BettingState) -> tuple[int, ...]:
        """Legal actions, ascending."""
        return (FOLD, CALL, RAISE) if self.action_mapping else self.sensible(state)

    def played(self, action: int, state: BettingState) -> int:
        """The action's effect: a call for a pointless action with `action_mapping`."""
        return CALL if self.action_mapping and action not in self.sensible(state) else action

    def after(self, action: int, state: BettingState, is_second: bool) -> BettingState:
        """The state after a legal action in the first or the second round."""
        return state.after(self.played(action, state), self.raise_sizes[is_second])


class BettingNode(NamedTuple):
    """The part of a betting sequence on which the rest of the game depends.

    Attributes:
      is_second: True if the public card is dealt.
      position: number of actions in this round.
      state: the state of the betting.
      folder: the player that folded, -1 for none.
    """

    is_second: bool
    position: int
    state: BettingState
    folder: int = -1

    @property
    def is_over(self) -> bool:
        """True after a fold, and at a showdown."""
        return self.folder >= 0 or (self.is_second and self.state.round_is_over)


class BettingTables(NamedTuple):
    """The betting as tables: t nodes on the last axis, the start first; A actions.

    Attributes:
      actor: `[t]` acting player, bits as in `HistoryLevel`; `CHANCE` where the public card is dealt.
      position: `[t]` number of actions so far, counting the first round at its maximum length.
      won: `[t]` player 0's payoff at terminal nodes; at a showdown, if it wins.
      shows: `[t]` True at a showdown.
      legal: `[A, t]` mask of legal actions.
      effect: `[A + 1, t]` the action as which a legal action is played (`BettingRules.played`); the last row
        is the public card.
      after: `[A + 1, t]` the node after each legal action; the last row is the node after the public card.
    """

    actor: npt.NDArray[np.uint8]
    position: IntArray
    won: FloatArray
    shows: BoolArray
    legal: BoolArray
    effect: IntArray
    after: IntArray


class BettingLines:
    """Nodes of the betting, numbered from 0.

    The first `LISTED` nodes are listed on construction, in the same order in every process. Usually these are
    all nodes. Further nodes are listed when they are reached; the rules then cannot be compiled.

    Args:
      betting: the rules.
      num_actions: A, number of actions.

    Attributes:
      round_length: maximum number of actions in a round; an upper bound if not all nodes are listed.
      max_moves: maximum number of actions and public cards; an upper bound, too.
    """

    LISTED = 5_000

    def __init__(self, betting: BettingRules, num_actions: int):
        self._betting, self._card = betting, num_actions  # the public card counts as a move
        self._nodes, self._moves = list[BettingNode](), list[tuple[int, ...]]()
        self._after = list[list[int] | None]()
        self._number: dict[BettingNode, int] = {}
        self._tables: BettingTables | None = None
        self._number_of(BettingNode(False, 0, betting.start()))
        done = 0
        while done < len(self._nodes) <= self.LISTED:
            self._expand([done])
            done += 1
        self._is_complete = done == len(self._nodes)
        self.round_length = betting.max_raises + 2  # a check, all raises, a call
        self.max_moves = 2 * self.round_length + 1
        if self._is_complete:
            self.round_length = max(node.position for node in self._nodes)
            self.max_moves = self._longest()

    def tables(self, reached: IntArray | None) -> BettingTables:
        """The tables with the nodes `reached` and all nodes after one more move; None for all nodes.

        Raises:
          ValueError: if `reached` is None and there are too many nodes.
        """
        if not self._is_complete:
            if reached is None:
                raise ValueError(
                    f"more than {self.LISTED:,} states of the betting, too many for a compiled program; "
                    "choose a smaller stack, fewer bets or fewer raises"
                )
            self._expand(np.unique(reached).tolist())
        if self._tables is None:
            self._tables = self._list_tables()
        return self._tables

    def _expand(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if self._after[number] is None:
                node, moves = self._nodes[number], self._moves[number]
                self._after[number] = [self._number_of(self._step(node, move)) for move in moves]
                self._tables = None

    def _number_of(self, node: BettingNode) -> int:
        number = self._number.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
            self._moves.append(self._moves_at(node))
            self._after.append(None)
        return number

    def _moves_at(self, node: BettingNode) -> tuple[int, ...]:
        if node.is_over:
            return ()
        return (self._card,) if node.state.round_is_over else self._betting.legal_actions(node.state)

    def _step(self, node: BettingNode, move: int) -> BettingNode:
        is_second, position, state, _ = node
        if move == self._card:
            return BettingNode(True, 0, self._betting.second_round(state))
        folds = self._betting.played(move, state) == FOLD
        after = self._betting.after(move, state, is_second)
        return BettingNode(is_second, position + 1, after, state.mover if folds else -1)

    def _longest(self) -> int:
        moves = [0] * len(self._nodes)
        for number in sorted(range(len(moves)), key=lambda k: self._nodes[k][:2]):
            for below in self._after[number] or ():
                moves[below] = max(moves[below], moves[number] + 1)
        return max(moves)

    def _list_tables(self) -> BettingTables:
        shape = self._card + 1, len(self._nodes)
        rows: list[tuple[int, int, int, bool]] = []
        legal = np.zeros(shape, np.bool_)
        effect, after = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        for number, node in enumerate(self._nodes):
            is_second, position, state, folder = node
            moves = list(self._moves[number])
            actor = CHANCE if state.round_is_over else ACTOR_BIT[state.mover]
            won = min(state.paid) * (-1 if folder == 0 else 1)
            action_idx = position + self.round_length * is_second
            rows.append((TERMINAL if node.is_over else actor, action_idx, won, folder < 0))
            legal[moves, number] = True
            after[moves, number] = self._after[number] or 0
            for move in moves:
                effect[move, number] = move if move == self._card else self._betting.played(move, state)
        actor, position, won, shows = np.array(rows, np.int64).T
        return BettingTables(
            actor=actor.astype(np.uint8),
            position=position.astype(np.int32),
            won=won.astype(np.float64),
            shows=shows > 0,
            legal=legal[:-1],
            effect=effect,
            after=after,
        )
