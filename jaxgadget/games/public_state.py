"""Public states of games too large to enumerate: the histories consistent with the public observations.

The game from a public state on is a separate game (`PublicStateGame`), whose tree is enumerated down to a
limit. Its root is a chance node over the consistent histories. Each player's earlier play is represented by
one decision with two actions: `enter`, with a probability equal to the player's reach of its infostate, and
`leave`, which ends the game. With perfect recall this game is equivalent to the whole game without the other
lines of play, up to a common factor of all payoffs: the total probability of chance's moves in the public
state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from jaxgadget.games.equal_histories import HistoryIndex, group_equal
from jaxgadget.games.game import (
    ACTOR_BIT,
    CHANCE,
    HISTORY_BYTES,
    TERMINAL,
    Budget,
    CutRule,
    HistoryLevel,
    Move,
    Refiner,
    dense_ids,
    move_of,
)
from jaxgadget.games.machine import (
    MOVER_BITS,
    Moves,
    StateMachine,
    StateStrategy,
    find_moves,
    join_states,
    levels_below,
    moves_of,
    sum_of_returns,
    take_states,
)
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

SLICE = 1 << 18
"""Maximum number of histories that are expanded at a time; children that contradict the public observations
are dropped before the next ones are expanded.
"""

LEAVE, ENTER = 0, 1
"""Actions of the decision that represents a player's play before a public state."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublicState:
    """The n histories at which a public state begins, of at most L moves each.

    Histories that differ in nothing that follows, as in the order of the same dice, are listed once, with
    their total probability (`equal_histories`).

    Attributes:
      machine: the rules.
      observations: the public observations that lead to the public state.
      state: n states.
      moves: `[L, 3, n]` the moves of each history, padded with -1.
      length: `[n]` number of moves.
      chance: `[n]` chance's reach.
      reach: `[2, n]` both players' reach.
      infostate: `[2, n]` ids of both players' infostates.
      acted: True for players that have acted before.
      merged: True if some history stands for several equal ones.
    """

    machine: StateMachine[Any]
    observations: tuple[int, ...]
    state: Any
    moves: IntArray
    length: IntArray
    chance: FloatArray
    reach: FloatArray
    infostate: IntArray
    acted: tuple[bool, bool]
    merged: bool = False

    def __repr__(self) -> str:
        return f"<PublicState of {self.machine.name} after {self.observations}: {len(self)} histories>"

    def __len__(self) -> int:
        return len(self.chance)

    def history(self, number: int) -> tuple[Move, ...]:
        """The moves of a history."""
        return tuple(move_of(moves, number) for moves in self.moves[: self.length[number]])

    @functools.cached_property
    def finder(self) -> HistoryIndex:
        """Finds the numbers of histories by their moves."""
        return HistoryIndex.of(self.machine, self.moves, merged=self.merged)

    def merge(self) -> tuple[PublicState, IntArray]:
        """Merges equal histories; returns the public state and `[m]` the histories that it lists."""
        first, group = group_equal(self.state, np.stack([*self.infostate, self.length]))
        if len(first) == len(self):
            return self, first
        return dataclasses.replace(
            self,
            state=take_states(self.state, first),
            moves=self.moves[..., first],
            length=self.length[first],
            chance=np.bincount(group, self.chance),
            reach=self.reach[:, first],
            infostate=self.infostate[:, first],
            merged=True,
        ), first


def public_observations(machine: StateMachine[Any], history: Sequence[Move]) -> tuple[int, ...]:
    """The public observations along a history.

    Raises:
      ValueError: if the game has no such history.
    """
    state, codes = machine.start(1, np), list[int]()
    for number, move in enumerate(history):
        actor = np.asarray(machine.actor(state))
        moves = moves_of(move, actor)
        if not _is_possible(machine, state, actor, moves):
            raise ValueError(
                f"{machine.name}: history={tuple(history)!r} is not in the game: {move!r} is not a legal "
                f"move after {tuple(history[:number])!r}"
            )
        state, seen = machine.step(state, moves)
        if seen[2, 0] >= 0:
            codes.append(int(seen[2, 0]))
    return tuple(codes)


def _is_possible(machine: StateMachine[Any], state: Any, actor: IntArray, moves: IntArray) -> bool:
    """True if the acting players, and they alone, have legal moves."""
    for mover, bit in enumerate(MOVER_BITS):
        move = int(moves[mover, 0])
        if not actor[0] & bit:
            if move >= 0:
                return False
            continue
        possible = np.asarray(machine.legal(state, mover) if mover < 2 else machine.chance(state) > 0)
        if not (0 <= move < len(possible) and possible[move, 0]):
            return False
    return bool(actor[0] != TERMINAL)


def find_public_state(
    machine: StateMachine[Any],
    observations: Sequence[int],
    strategy: StateStrategy | None = None,
    *,
    budget: Budget | None = None,
) -> PublicState:
    """Finds all histories at which the last of a sequence of public observations is made.

    Equal histories are merged as soon as they are, so that memory grows with their number only.

    Args:
      machine: the rules.
      observations: codes of the public observations; `public_observations` lists those of a history.
      strategy: both players' strategy, which determines their reach; by default their reach is 1.
      budget: limits the number of histories and their memory.

    Raises:
      ValueError: if no history has these observations.
      TooLargeError: if the budget does not suffice.
    """
    budget = Budget(machine.name) if budget is None else budget
    budget.claim(1)
    line, refiners, arrived = (
        np.asarray([*observations, -1]),
        (Refiner(), Refiner()),
        list[_ConsistentHistories](),
    )
    rows = _ConsistentHistories(
        state=machine.start(1, np),
        moves=np.zeros((0, 3, 1), np.int16),
        observed=np.zeros(1, np.int64),
        chance=np.ones(1),
        reach=np.ones((2, 1)),
        infostate=np.zeros((2, 1), np.int64),
        acted=np.zeros((2, 1), np.bool_),
    )
    merged = False
    while len(rows.chance):
        is_here = rows.observed == len(observations)
        arrived.append(rows.take(np.flatnonzero(is_here)))
        actor = np.asarray(machine.actor(rows.state))
        expanded = np.flatnonzero(~is_here & (actor != TERMINAL))
        if not len(expanded):
            break
        moves, state, seen = _consistent_moves(machine, rows, actor, expanded, line, budget)
        infostate = [
            r.extend(moves.parent, a, s) for r, a, s in zip(refiners, moves.action, seen, strict=False)
        ]
        reach = rows.reach[:, moves.parent]
        for player in (0, 1):
            if strategy is not None and (actor & ACTOR_BIT[player]).any():
                action = moves.action[player]
                chosen = np.asarray(strategy(rows.state, player))[action, moves.parent]
                reach[player] *= np.where(action >= 0, chosen, 1.0)
        rows = _ConsistentHistories(
            state=state,
            moves=np.concatenate([rows.moves[..., moves.parent], moves.action[None]]),
            observed=rows.observed[moves.parent] + (seen[2] >= 0),
            chance=rows.chance[moves.parent] * moves.chance,
            reach=reach,
            infostate=np.stack(infostate),
            acted=rows.acted[:, moves.parent] | (moves.action[:2] >= 0),
        )
        first, group = group_equal(rows.state, np.stack([*rows.infostate, rows.observed]))
        if len(first) < len(group):
            merged = True
            rows = dataclasses.replace(rows.take(first), chance=np.bincount(group, rows.chance))
            budget.release(len(group) - len(first))
            for refiner in refiners:
                refiner.keep(first)
    return _join(machine, tuple(map(int, observations)), arrived, merged=merged)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _ConsistentHistories:
    """Histories of one length; fields as in `PublicState`, `observed` counts public observations."""

    state: Any
    moves: IntArray
    observed: IntArray
    chance: FloatArray
    reach: FloatArray
    infostate: IntArray
    acted: BoolArray

    def take(self, rows: IntArray) -> _ConsistentHistories:
        """The rows at the given indices."""
        return _ConsistentHistories(
            state=take_states(self.state, rows),
            moves=self.moves[..., rows],
            observed=self.observed[rows],
            chance=self.chance[rows],
            reach=self.reach[:, rows],
            infostate=self.infostate[:, rows],
            acted=self.acted[:, rows],
        )


def _consistent_moves(
    machine: StateMachine[Any],
    rows: _ConsistentHistories,
    actor: IntArray,
    expanded: IntArray,
    line: IntArray,
    budget: Budget,
) -> tuple[Moves, Any, IntArray]:
    """Moves that do not contradict the public observations, the next states, and the observations."""
    parts: list[tuple[Moves, Any, IntArray]] = []
    for begin in range(0, len(expanded), SLICE):
        moves = find_moves(machine, rows.state, actor, expanded[begin : begin + SLICE], budget)
        state, seen = machine.step(take_states(rows.state, moves.parent), moves.action)
        seen = np.asarray(seen)
        is_kept = (seen[2] < 0) | (seen[2] == line[rows.observed[moves.parent]])
        kept = np.flatnonzero(is_kept)
        budget.release(len(is_kept) - len(kept))
        moves = Moves(moves.parent[kept], moves.action[:, kept], moves.chance[kept])
        parts.append((moves, take_states(state, kept), seen[:, kept]))
    if len(parts) == 1:
        return parts[0]
    moves, states, seen = zip(*parts, strict=True)
    return (
        Moves(*(np.concatenate(field, axis=-1) for field in zip(*moves, strict=True))),
        join_states(states),
        np.concatenate(seen, axis=1),
    )


def _join(
    machine: StateMachine[Any],
    observations: tuple[int, ...],
    arrived: Sequence[_ConsistentHistories],
    *,
    merged: bool,
) -> PublicState:
    """Joins rows of all lengths into a public state."""
    arrived = [rows for rows in arrived if len(rows.chance)]
    if not arrived:
        raise ValueError(
            f"{machine.name}: no history has the public observations {observations}; expected those of a "
            "history, from public_observations(machine, history)"
        )
    longest = max(len(rows.moves) for rows in arrived)
    moves = np.full((longest, 3, sum(len(rows.chance) for rows in arrived)), -1, np.int16)
    length = np.concatenate([np.full(len(rows.chance), len(rows.moves)) for rows in arrived])
    for rows in arrived:
        moves[: len(rows.moves), :, length == len(rows.moves)] = rows.moves
    acted = [any(rows.acted[player].any() for rows in arrived) for player in (0, 1)]
    return PublicState(
        machine=machine,
        observations=observations,
        state=join_states([rows.state for rows in arrived]),
        moves=moves,
        length=length,
        chance=np.concatenate([rows.chance for rows in arrived]),
        reach=np.concatenate([rows.reach for rows in arrived], axis=1),
        infostate=np.concatenate([rows.infostate for rows in arrived], axis=1),
        acted=(acted[0], acted[1]),
        merged=merged,
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PublicStateGame:
    """The game from a public state on, as a `Game`; the module's docstring explains the construction.

    At the root, chance draws a history of the public state. Players that have acted before then decide
    simultaneously whether to `enter`.

    Attributes:
      public: the public state.
      history_bytes: memory of a history while the game is enumerated.
    """

    public: PublicState
    history_bytes: int = HISTORY_BYTES

    @property
    def name(self) -> str:
        """The game's name, and the public observations."""
        return f"{self.public.machine.name} after {list(self.public.observations)}"

    @property
    def num_actions(self) -> int:
        """Number of distinct actions of the whole game, at least two."""
        return max(self.public.machine.num_actions, 2)

    @property
    def num_moves(self) -> int:
        """Number of the players' moves above the public state: 1 if a player has acted, otherwise 0."""
        return int(any(self.public.acted))

    def levels(self, budget: Budget) -> Generator[HistoryLevel, BoolArray | None, None]:
        """Yields the drawn histories, the decisions to enter, and the levels below."""
        public, n = self.public, len(self.public)
        refiners = (Refiner(), Refiner(), Refiner())
        budget.claim(1)
        root = np.zeros(1, np.int32)
        yield _level(root, CHANCE, np.full((3, 1), -1, np.int32), np.zeros((3, 1), np.int64))
        budget.claim(n)
        parent, drawn = np.zeros(n, np.int32), np.full((3, n), -1, np.int32)
        drawn[2] = np.arange(n)
        seen = (*(dense_ids(public.infostate[player])[0] for player in (0, 1)), np.zeros(n, np.int64))
        level = _level(parent, TERMINAL, drawn, _extend(refiners, parent, drawn, seen))
        level = dataclasses.replace(level, chance=public.chance / public.chance.sum())
        machine, state = public.machine, public.state
        actor = np.asarray(machine.actor(state), np.uint8)
        returns = np.where(actor == TERMINAL, np.asarray(machine.returns(state), np.float64), 0.0)
        if self.num_moves:
            bits = sum(bit for bit, acted in zip(ACTOR_BIT, public.acted, strict=True) if acted)
            yield dataclasses.replace(level, actor=np.full(n, bits, np.uint8))
            choices = self.num_choices
            budget.claim(choices * n)
            parent, choice = np.divmod(np.arange(choices * n, dtype=np.int32), choices)
            action = np.full((3, choices * n), -1, np.int32)
            if all(public.acted):
                action[0], action[1] = np.divmod(choice, 2)
            else:
                action[public.acted.index(True)] = choice
            enters = choice == choices - 1
            seen = (enters.astype(np.int64),) * 3
            level = _level(parent, TERMINAL, action, _extend(refiners, parent, action, seen))
            state = take_states(state, parent)
            actor = np.where(enters, actor[parent], np.uint8(TERMINAL))
            returns = np.where(enters, returns[:, parent], sum_of_returns(machine) / 2)
        level = dataclasses.replace(level, actor=actor, returns=returns)
        yield from levels_below(machine, level, state, refiners, budget)

    @property
    def num_choices(self) -> int:
        """Number of joint decisions to enter or leave, the last of which is to enter; 1 if there are none."""
        return 2 ** sum(self.public.acted)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """The whole game's string; for a decision to enter, the number of the player's infostate."""
        number, below = cast(int, history[0]), history[1 + self.num_moves :]
        if len(history) <= self.num_moves:
            return f"before infostate {int(self.public.infostate[player, number])}"
        return self.public.machine.infostate_string(player, (*self.public.history(number), *below))

    def action_string(self, player: int, action: int) -> str:
        """The whole game's name of an action."""
        machine = self.public.machine
        return machine.action_string(player, action) if action < machine.num_actions else str(action)

    def cuts(self) -> Mapping[str, CutRule]:
        """No named cuts."""
        return {}


def _level(parent: IntArray, actor: int, action: IntArray, infostate: IntArray) -> HistoryLevel:
    """A level without chance and returns."""
    n = len(parent)
    return HistoryLevel(
        parent=parent,
        actor=np.full(n, actor, np.uint8),
        action=action,
        chance=np.ones(n),
        returns=np.zeros((2, n)),
        infostate=infostate[:2],
        public=infostate[2],
    )


def _extend(
    refiners: Sequence[Refiner], parent: IntArray, action: IntArray, seen: Sequence[IntArray]
) -> IntArray:
    """`[3, n]` ids of infostates and public states of the next level."""
    own = (action[0], action[1], np.full(len(parent), -1))
    return np.stack([r.extend(parent, a, s) for r, a, s in zip(refiners, own, seen, strict=True)])
