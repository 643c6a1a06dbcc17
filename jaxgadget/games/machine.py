"""Games as state machines over arrays: rules of many states at once, in NumPy or JAX.

The rules of a `StateMachine` serve two purposes: they enumerate a game's tree level by level, and they play
and search games too large for a tree, on the device or the host.
"""

from __future__ import annotations

import abc
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import (
    ACTOR_BIT,
    CHANCE,
    SIMULTANEOUS,
    TERMINAL,
    Budget,
    CutRule,
    HistoryLevel,
    Move,
    Refiner,
    dense_ids,
)
from jaxgadget.games.stepwise import infostate_text, noticed_text
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

Array: TypeAlias = Any
"""An array of NumPy or JAX."""

State = TypeVar("State", bound=tuple[Array, ...])

MOVER_BITS = (*ACTOR_BIT, CHANCE)
"""Bits of player 0, player 1 and chance, in the order of moves."""


class StateMachine(abc.ABC, Generic[State]):
    """Base class of two-player zero- or constant-sum games whose rules take a batch of states.

    A state is a NamedTuple of arrays with n states on the last axis. Methods use the namespace of these
    arrays (`namespace`), so that one definition runs in NumPy and, compiled, in JAX. Values that a method
    returns for states at which it does not apply, such as the legal actions of a player that does not act,
    are ignored.

    Moves are `[3, n]`: the actions of player 0 and player 1 and the outcome of chance, -1 for those that do
    not act. A player's infostate is its previous infostate, its own action and its observations; it does not
    change if the player neither acted nor observed anything.

    Attributes:
      name: the canonical string, which `jaxgadget.load` accepts.
      num_actions: A, number of distinct player actions.
      num_outcomes: C, number of distinct chance outcomes.
      max_moves: maximum length of a history; simultaneous moves count once.
      publics_first: True if infostates of equal length are numbered by the players' moves, then by public
        state, then by the player's first observation; must be False if a player may neither act nor observe
        anything at a move.
    """

    publics_first: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The canonical string."""

    @property
    @abc.abstractmethod
    def num_actions(self) -> int:
        """A, number of distinct player actions."""

    @property
    @abc.abstractmethod
    def num_outcomes(self) -> int:
        """C, number of distinct chance outcomes, 0 without chance."""

    @property
    @abc.abstractmethod
    def max_moves(self) -> int:
        """Maximum length of a history; simultaneous moves count once."""

    @abc.abstractmethod
    def start(self, n: int, xp: Any) -> State:
        """The initial state, n times; `xp` is `numpy` or `jax.numpy`."""

    @abc.abstractmethod
    def actor(self, state: State) -> Array:
        """`[n]` acting players, bits as in `HistoryLevel`; `TERMINAL` at the end."""

    @abc.abstractmethod
    def legal(self, state: State, player: int) -> Array:
        """`[A, n]` mask of the player's legal actions."""

    def chance(self, state: State) -> Array:
        """`[C, n]` probabilities of chance outcomes."""
        raise NotImplementedError(f"{self.name} has chance nodes: implement chance()")

    @abc.abstractmethod
    def step(self, state: State, moves: Array) -> tuple[State, Array]:
        """The states after moves `[3, n]`, and the observations of these states.

        Observations are `[3, n]` codes >= 0, or -1 for none: of player 0, of player 1, and of the public,
        that is, of both. A player's code represents its whole observation, including the public part.
        """

    @abc.abstractmethod
    def returns(self, state: State) -> Array:
        """`[2, n]` both players' returns at terminal states."""

    @abc.abstractmethod
    def features(self, state: State, player: int) -> Array:
        """`[F, n]` numbers or flags that describe a player's infostate, the input of networks."""

    def action_string(self, player: int, action: int) -> str:
        """A short human-readable name of a player's action."""
        return str(action)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """The player's actions and observations, step by step."""
        state, steps = self.start(1, np), list[str]()
        for move in history:
            moves = moves_of(move, self.actor(state))
            state, seen = self.step(state, moves)
            own, code = int(moves[player, 0]), int(seen[player, 0])
            if max(own, code) >= 0:
                action = self.action_string(player, own) if own >= 0 else None
                steps.append(noticed_text(action, str(code) if code >= 0 else None, None))
        return infostate_text(player, steps)

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts, by default none."""
        return {}

    def levels(self, budget: Budget) -> Generator[HistoryLevel, BoolArray | None, None]:
        """Yields levels as `game.Game.levels`; expands only the histories selected by `send`."""
        budget.claim(1)
        state = self.start(1, np)
        level = HistoryLevel(
            parent=np.zeros(1, np.int32),
            actor=np.asarray(self.actor(state), np.uint8),
            action=np.full((3, 1), -1, np.int16),
            chance=np.ones(1),
            returns=np.zeros((2, 1)),
            infostate=np.zeros((2, 1), np.int64),
            public=np.zeros(1, np.int64),
        )
        yield from levels_below(self, level, state, (Refiner(), Refiner(), Refiner()), budget)


class StateStrategy(Protocol):
    """A strategy of both players in a game that need not be enumerated: a policy network, or a function.

    An attribute `machine`, if there is one, holds the rules of its game; in other games it is rejected.
    """

    def __call__(self, state: Any, player: int, /) -> Array:
        """`[A, n]` probabilities of the player's actions at n states, 0 for illegal ones.

        The states are in NumPy, or on the device if the strategy is compiled; they may include some at which
        the player does not act, where results are ignored.
        """
        ...


def levels_below(
    machine: StateMachine[Any],
    level: HistoryLevel,
    state: Any,
    refiners: tuple[Refiner, Refiner, Refiner],
    budget: Budget,
) -> Generator[HistoryLevel, BoolArray | None, None]:
    """Yields a level and those below it, as `game.Game.levels`.

    Args:
      machine: the rules.
      level: the first level.
      state: its states; those of terminal histories are not read.
      refiners: the ids of player 0, player 1 and the public at this level.
      budget: the budget that levels are claimed from.
    """
    line = np.asarray(level.public)  # public states by the players' moves
    while True:
        expand = yield level
        goes_on = level.actor != TERMINAL
        rows = np.flatnonzero(goes_on if expand is None else goes_on & expand)
        if len(rows) == 0:
            return
        moves = find_moves(machine, state, level.actor, rows, budget)
        state, seen = machine.step(take_states(state, moves.parent), moves.action)
        own = (moves.action[0], moves.action[1], np.full(len(moves.parent), -1))
        first, second, public = (
            r.extend(moves.parent, a, s) for r, a, s in zip(refiners, own, seen, strict=True)
        )
        if machine.publics_first:
            by_chance = moves.action[2] >= 0
            line, _ = dense_ids(
                line[moves.parent] * (int(seen[2].max()) + 3) + np.where(by_chance, 0, seen[2] + 2)
            )
            first, second = (_number_by_public(ids, line, public) for ids in (first, second))
        actor, returns = np.asarray(machine.actor(state), np.uint8), np.zeros((2, len(public)))
        if (actor == TERMINAL).any():
            returns = np.where(actor == TERMINAL, np.asarray(machine.returns(state), np.float64), 0.0)
        level = HistoryLevel(
            parent=moves.parent,
            actor=actor,
            action=moves.action,
            chance=moves.chance,
            returns=returns,
            infostate=np.stack([first, second]),
            public=public,
        )


def namespace(array: Array) -> Any:
    """`numpy` or `jax.numpy`, the namespace of an array."""
    return array.__array_namespace__()


def may_hold(mask: Array) -> bool:
    """False if a NumPy mask is False everywhere, so that work can be skipped; always True in JAX."""
    return namespace(mask) is not np or bool(mask.any())


def take_states(state: State, rows: Array) -> State:
    """The states at the given indices."""
    xp = namespace(rows)
    rows = xp.asarray(rows, int)
    return type(state)(*(xp.take(field, rows, axis=-1) for field in state))


def join_states(states: Sequence[State]) -> State:
    """The states of several batches, one after the other."""
    return type(states[0])(*(np.concatenate(fields, axis=-1) for fields in zip(*states, strict=True)))


def sum_of_returns(machine: StateMachine[Any]) -> float:
    """The sum of both players' returns, at the end of one game."""
    state = machine.start(1, np)
    while (actor := np.asarray(machine.actor(state)))[0] != TERMINAL:
        moves = find_moves(machine, state, actor, np.zeros(1, np.int64), Budget(machine.name))
        state, _ = machine.step(state, moves.action[:, :1])
    return float(np.asarray(machine.returns(state)).sum())


def actors_along(machine: StateMachine[Any], history: Sequence[Move]) -> Iterator[IntArray]:
    """Yields the acting players `[1]` after each prefix of a history, from the empty one to the whole."""
    state = machine.start(1, np)
    for move in history:
        actor = np.asarray(machine.actor(state))
        yield actor
        state, _ = machine.step(state, moves_of(move, actor))
    yield np.asarray(machine.actor(state))


def moves_of(move: Move, actor: IntArray) -> IntArray:
    """A move of a history as an array `[3, 1]`, given the acting players."""
    if isinstance(move, tuple):
        return np.array([*move, -1])[:, None]
    return np.array([move if actor[0] & bit else -1 for bit in MOVER_BITS])[:, None]


def _number_by_public(ids: IntArray, line: IntArray, public: IntArray) -> IntArray:
    """Renumbers a level's consecutive infostate ids by the players' moves, then by public state."""
    first = ids.min()
    keys = np.zeros((2, ids.max() - first + 1), np.int64)
    keys[:, ids - first] = public, line
    rank = np.empty_like(keys[0])
    rank[np.lexsort(keys)] = np.arange(len(rank))
    return first + rank[ids - first]


class Moves(NamedTuple):
    """Moves from some states; m moves, sorted by state, then by player 0's, player 1's and chance's move.

    Attributes:
      parent: `[m]` the state before.
      action: `[3, m]` moves.
      chance: `[m]` probability of the chance outcome, 1 where chance does not act.
    """

    parent: IntArray
    action: npt.NDArray[np.int16]
    chance: FloatArray


def find_moves(
    machine: StateMachine[Any], state: Any, actor: IntArray, rows: IntArray, budget: Budget
) -> Moves:
    """All moves from the given states.

    Args:
      machine: the rules.
      state: n states, in NumPy.
      actor: `[n]` acting players.
      rows: the states to expand, none terminal.
      budget: the budget that the states after these moves are claimed from.
    """
    count, options = np.ones((3, len(rows)), np.int32), dict[int, tuple[BoolArray, IntArray, IntArray]]()
    probability = np.zeros(0)
    for mover, bit in enumerate(MOVER_BITS):
        acts = (actor[rows] & bit) > 0
        if acts.any():
            if mover < 2:
                possible = np.asarray(machine.legal(state, mover))
            else:
                probability = np.asarray(machine.chance(state), np.float64)
                possible = probability > 0
            option, first, count[mover, acts] = _list_options(np.take(possible, rows[acts], axis=1))
            begin = np.zeros(len(rows), np.int64)
            begin[acts] = first
            options[mover] = acts, option, begin
    total = count.prod(axis=0)
    budget.claim(int(total.sum()))
    above = np.repeat(np.arange(len(rows), dtype=np.int32), total)
    action = np.full((3, len(above)), -1, np.int16)
    if np.any(actor[rows] == SIMULTANEOUS):
        number = np.arange(len(above)) - np.repeat(np.cumsum(total) - total, total)
        for mover in sorted(options, reverse=True):  # the last mover's option changes fastest
            acts, option, begin = options[mover]
            number, within = np.divmod(number, count[mover, above])
            chosen = option[begin[above] + within]
            action[mover] = chosen if acts.all() else np.where(acts[above], chosen, -1)
    else:
        for mover, (acts, option, _) in options.items():
            action[mover, slice(None) if acts.all() else acts[above]] = option
    parent = rows[above].astype(np.int32)
    chance = np.ones(len(parent))
    if 2 in options:
        by_chance = np.flatnonzero(action[2] >= 0)
        chance[by_chance] = probability[action[2, by_chance], parent[by_chance]]
    return Moves(parent, action, chance)


def _list_options(possible: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """Options in a mask `[A, n]`, state by state; the position of each state's first option; their number."""
    count = np.count_nonzero(possible, axis=0)
    option = np.flatnonzero(possible.T) % len(possible)
    return option.astype(np.int16), np.cumsum(count) - count, count
