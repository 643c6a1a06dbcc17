"""The game protocol: levels of histories of equal length, as arrays.

A game yields its levels in breadth-first order. Those of `StateMachine`s are computed whole, with NumPy;
`stepwise.py` converts per-state rules to the same form. This module is independent of trees, sequences and
solvers.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.memory import host_memory, megabytes

Move: TypeAlias = int | tuple[int, int]
"""One step of a history: an action or a chance outcome, or both players' simultaneous actions."""

DEFAULT_MAX_HISTORIES = 5_000_000

MAX_LEVELS = 2_000
"""Maximum number of levels; a game with longer histories most likely never ends."""

PROBABILITY_TOLERANCE = 1e-9
"""Tolerance on the sum of a chance node's probabilities."""

LARGEST_RETURN = 1e30
"""Largest absolute return: regrets are sums of differences of returns, also in float32."""

TERMINAL = 0
PLAYER_0 = 1
PLAYER_1 = 2
SIMULTANEOUS = PLAYER_0 | PLAYER_1
CHANCE = 4
ACTOR_BIT = (PLAYER_0, PLAYER_1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistoryLevel:
    """All histories of one length. `n` histories on the last axis of every field.

    Histories are sorted by parent, then by player 0's, player 1's and chance's moves.

    Attributes:
      parent: `[n]` row of the parent in the previous level; the first level has one row, parent 0.
      actor: `[n]` acting player, bits `PLAYER_0`, `PLAYER_1` (both bits set: simultaneous) or
        `CHANCE`; `TERMINAL` is 0.
      action: `[3, n]` moves of player 0, player 1 and chance at the parent; -1 where they did not act.
      chance: `[n]` probability of the last chance outcome, 1 where chance did not act at the parent.
      returns: `[2, n]` both players' returns at terminal histories, 0 elsewhere.
      infostate: `[2, n]` for each player, whether it acts or not, an id of everything that the player has
        observed and done so far. Ids are any integers >= 0, equal for equal infostates in the whole game,
        also across levels.
      public: `[n]` an id of the public state: everything that is common knowledge of the players;
        None if the game does not define it. An infostate must not span two public states.
    """

    parent: IntArray
    actor: npt.NDArray[np.uint8]
    action: IntArray
    chance: FloatArray
    returns: FloatArray
    infostate: IntArray
    public: IntArray | None = None

    def take(self, inside: BoolArray, new_row: IntArray) -> HistoryLevel:
        """Selects histories by the mask `inside[n]`; `new_row` maps rows of the level above to new rows."""
        if inside.all() and new_row[-1] == len(new_row) - 1:  # all histories are selected, here and above
            return self
        return HistoryLevel(
            parent=new_row[self.parent[inside]],
            actor=self.actor[inside],
            action=self.action[:, inside],
            chance=self.chance[inside],
            returns=self.returns[:, inside],
            infostate=self.infostate[:, inside],
            public=None if self.public is None else self.public[inside],
        )


CutRule: TypeAlias = Callable[["CutView"], BoolArray]
"""Marks the root histories of a named cut: `[num_histories]` booleans."""


class CutView(Protocol):
    """Input of a cut rule, provided by `HistoryTree`. Axis n: histories."""

    @property
    def parent(self) -> IntArray:
        """`[n]` the parent history."""
        ...

    @property
    def actor(self) -> npt.NDArray[np.uint8]:
        """`[n]` acting player, as in `HistoryLevel`."""
        ...

    @property
    def action(self) -> IntArray:
        """`[3, n]` moves of player 0, player 1 and chance at the parent, -1 for none."""
        ...

    @property
    def num_moves(self) -> IntArray:
        """`[n]` number of the players' previous moves."""
        ...


class Game(Protocol):
    """Protocol of a two-player zero- or constant-sum game with perfect recall.

    `name` is the canonical string: `jaxgadget.load` accepts it, and policy files record it. `num_actions` is
    the number of distinct player actions; legal actions are listed in ascending id.
    """

    @property
    def name(self) -> str:
        """The canonical string."""
        ...

    @property
    def num_actions(self) -> int:
        """Number of distinct player actions."""
        ...

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        """Yields levels 0, 1, … until every history of a level is terminal.

        Calls `budget.claim(n)` before it allocates a level of `n` histories. A caller that enumerates part of
        the game sends the generator a mask `[n]` of the histories of the last level to expand
        (`expand = yield level`, None for all). Children of other histories may then be omitted; if yielded,
        they count against the budget and are dropped.
        """
        ...

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """Name of the infostate of a player that acts after `history`; OpenSpiel's string if it has one.

        Several infosets may share a string, as in OpenSpiel, whose strings may omit a player's own actions.
        """
        ...

    def action_string(self, player: int, action: int) -> str:
        """A short human-readable name of a player's action."""
        ...

    def cuts(self) -> Mapping[str, CutRule]:
        """Named cuts, for example Leduc's `flop`."""
        ...


class BetSizes(Protocol):
    """Optional protocol of games with bets, for action translation (`jaxgadget.policy.translation`)."""

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """Size of a bet as a fraction of the pot after calling.

        Args:
          history: previous moves; a player acts after them.
          action: one of its legal actions.

        Returns:
          A number > 0 for a bet or raise, 0 for a check or call, None for any other action, such as a fold.
        """
        ...


def bet_fraction(game: Game, history: Sequence[Move], action: int) -> float | None:
    """`game.bet_fraction(history, action)`; None if the game does not implement `BetSizes`."""
    answer: Any = getattr(game, "bet_fraction", None)
    return None if answer is None else answer(history, action)


def next_level(generated: Iterator[HistoryLevel], expand: BoolArray) -> HistoryLevel | None:
    """The next level; only the children of histories in the mask `expand[n]`, if the game supports this."""
    try:
        return generated.send(expand) if _listens(generated) else next(generated)
    except StopIteration:
        return None


def _listens(generated: object) -> TypeGuard[GeneratorType[HistoryLevel, Any, Any]]:
    """True if `send` works: `generated` is a generator that does not delegate to another iterator."""
    if not isinstance(generated, GeneratorType):
        return False
    return generated.gi_yieldfrom is None or _listens(generated.gi_yieldfrom)


HISTORY_BYTES = 230
"""Bytes per history while a game is enumerated level by level in NumPy; measured."""


class TooLargeError(ValueError):
    """A game has more histories than allowed, or than fit in memory."""


class Budget:
    """Limits the number of histories of an enumeration, and their memory.

    Args:
      game: the game's name.
      max_histories: maximum number of histories.
      history_bytes: memory of a history in bytes.
      memory: available memory in bytes; by default `host_memory()`.
      report: progress callback; receives the number of enumerated histories.
    """

    def __init__(
        self,
        game: str,
        max_histories: int = DEFAULT_MAX_HISTORIES,
        *,
        history_bytes: int = HISTORY_BYTES,
        memory: int | None = None,
        report: Callable[[int], None] | None = None,
    ):
        self.game = game
        self.max_histories = check_whole_number("max_histories", max_histories, 1)
        self.history_bytes = history_bytes
        self.memory = host_memory() if memory is None else memory
        self.report = (lambda done: None) if report is None else report
        self.num_histories = 0
        self.num_levels = 0

    def claim(self, count: int) -> None:
        """Counts one more level of `count` histories.

        Raises:
          TooLargeError: if the game has more than `max_histories` histories so far.
          ValueError: if the histories are too long.
        """
        self.report(self.num_histories)
        self.num_levels += 1
        if self.num_levels > MAX_LEVELS:
            raise ValueError(
                f"{self.game} has histories of more than {MAX_LEVELS:,} steps and may never end; make every "
                "sequence of moves reach a terminal history"
            )
        self.foresee(count, self.num_levels - 1)
        self.num_histories += int(count)

    def foresee(self, count: int, level: int | None = None) -> None:
        """Checks the limits for a level of which at least `count` histories have been counted.

        Args:
          count: number of histories counted so far.
          level: index of the level; by default the one after the last claimed level.

        Raises:
          TooLargeError: if the game has more histories than allowed, or than fit in memory.
        """
        total = self.num_histories + int(count)
        needed = total * self.history_bytes
        if total > self.max_histories:
            problem = (
                f"more than max_histories={self.max_histories:,}: raise max_histories (--max-histories on "
                f"the command line) if the memory allows, about {self.history_bytes} bytes per history, or "
                "choose smaller game parameters"
            )
        elif self.memory is not None and needed > self.memory:
            problem = (
                f"which take {megabytes(needed)} of memory, but {megabytes(self.memory)} is available: "
                "choose smaller game parameters, or a machine with more memory"
            )
        else:
            return
        reached = self.num_levels if level is None else level
        raise TooLargeError(
            f"{self.game} has at least {total:,} histories (reached at level {reached}), {problem}"
        )

    def release(self, count: int) -> None:
        """Subtracts `count` histories that were claimed and then dropped."""
        self.num_histories -= count


class Refiner:
    """Infostate ids from observations, level by level.

    An infostate is the previous infostate, the player's own action and its next observation. Without an own
    action and with `observation` -1 the infostate does not change, so it may span histories of different
    length.
    """

    def __init__(self) -> None:
        self._ids: IntArray = np.zeros(1, np.int64)
        self._count = 1
        self._spanning: set[int] = set()
        self._known: dict[tuple[int, int, int], int] = {}

    @property
    def ids(self) -> IntArray:
        """Ids of the current level, `[n]`; the first level is a single history with id 0."""
        return self._ids

    def extend(self, parent: IntArray, action: IntArray, observation: IntArray) -> IntArray:
        """Advances to the next level and returns its ids, `[n]`.

        Args:
          parent: `[n]` row of the parent in the previous level.
          action: `[n]` the player's own action at the parent, -1 for none.
          observation: `[n]` code >= 0 of the player's observation on arrival, -1 for none.
        """
        before = self._ids[parent]
        if len(parent) == 0:
            self._ids = before
            return before
        num_observations = int(observation.max()) + 2
        num_actions = int(action.max()) + 2
        width = num_observations * num_actions
        base = int(before.min())
        key = (before - base) * width + (action + 1).astype(np.int64) * num_observations
        key += observation + 1
        ids, num_new = dense_ids(key)
        ids = ids + self._count
        moved = (action >= 0) | (observation >= 0)
        if self._spanning or not moved.all():
            ids = self._across_levels(before, action, observation, moved, ids)
        self._count += num_new
        self._ids = ids
        return ids

    def keep(self, rows: IntArray) -> None:
        """Restricts the current level to the given rows, `[m]`."""
        self._ids = self._ids[rows]

    def _across_levels(
        self,
        before: IntArray,
        action: IntArray,
        observation: IntArray,
        moved: BoolArray,
        ids: IntArray,
    ) -> IntArray:
        """Reuses the ids of infostates that span levels, so that their descendants may, too."""
        self._spanning.update(np.unique(before[~moved]).tolist())
        ids = np.where(moved, ids, before)
        spans = moved & np.isin(before, np.fromiter(self._spanning, np.int64))
        rows = np.nonzero(spans)[0]
        _, first, inverse = np.unique(ids[rows], return_index=True, return_inverse=True)
        reused = np.empty(len(first), np.int64)
        for i, row in enumerate(rows[first].tolist()):
            key = (int(before[row]), int(action[row]), int(observation[row]))
            reused[i] = self._known.setdefault(key, int(ids[row]))
        ids[rows] = reused[inverse]
        self._spanning.update(reused.tolist())
        return ids


def level_slices(parent: IntArray) -> Iterator[tuple[int, int]]:
    """First and last + 1 history of each level below the root, given all parents `[n]`."""
    end = 1
    while end < len(parent):
        begin, end = end, 1 + int(np.searchsorted(parent[1:], end))
        yield begin, end


def move_of(action: IntArray, history: int) -> Move:
    """The last move of a history, given actions and chance outcomes `[3, n]`."""
    first, second, outcome = action[:, history].tolist()
    return (first, second) if first >= 0 and second >= 0 else max(first, second, outcome)


def moves_to(parent: IntArray, action: IntArray, history: int) -> tuple[Move, ...]:
    """The moves that lead to a history, given all parents `[n]` and actions `[3, n]`."""
    moves: list[Move] = []
    while history:
        moves.append(move_of(action, history))
        history = int(parent[history])
    return tuple(reversed(moves))


def moves_to_each(parent: IntArray, action: IntArray, histories: IntArray) -> Iterator[tuple[Move, ...]]:
    """The moves that lead to each of several histories, as `moves_to`; much faster for many of them."""
    steps: list[list[Move | None]] = []
    while (histories > 0).any():
        first, second, outcome = action[:, histories].tolist()
        moves = [
            (one, two) if one >= 0 and two >= 0 else max(one, two, dealt)
            for one, two, dealt in zip(first, second, outcome, strict=True)
        ]
        steps.append([move if below else None for move, below in zip(moves, histories.tolist(), strict=True)])
        histories = np.where(histories > 0, parent[histories], 0)
    rows = zip(*reversed(steps), strict=True) if steps else [()] * len(histories)
    return (tuple(move for move in row if move is not None) for row in rows)


def distinct_names(
    names: Sequence[str],
    own_actions: Callable[[int], Sequence[int]],
    moves: Callable[[int], tuple[Move, ...]],
) -> tuple[str, ...]:
    """`[I]` unique names of a player's infosets.

    Shared names get the suffix ` | own actions 0 2 1`, the player's earlier action ids; if these are equal,
    too, ` | history …` with the moves of the infoset's first history.

    Args:
      names: `[I]` the game's infostate strings.
      own_actions: returns the player's actions that lead to an infoset.
      moves: returns the moves of an infoset's first history.
    """
    distinct = list(names)
    for infoset in _shared(distinct):
        distinct[infoset] += f" | own actions {' '.join(map(str, own_actions(infoset))) or 'none'}"
    for infoset in _shared(distinct):
        distinct[infoset] += f" | history {moves(infoset)}"
    return tuple(distinct)


def _shared(names: Sequence[str]) -> list[int]:
    """Indices of names that occur more than once."""
    count = collections.Counter(names)
    return [k for k, name in enumerate(names) if count[name] > 1]


def dense_ids(key: IntArray) -> tuple[IntArray, int]:
    """Numbers the distinct values of `key[n]` 0, 1, … in ascending order: `(ids[n], count)`."""
    if len(key) == 0:
        return key.astype(np.int64), 0
    low = int(key.min())
    size = int(key.max()) - low + 1
    key = np.subtract(key, low, dtype=np.int64)
    if size <= 8 * len(key) + 1024:  # a table is faster than a sort
        present = np.zeros(size, np.bool_)
        present[key] = True
        values = np.nonzero(present)[0]
        dense_id = np.empty(size, np.int64)
        dense_id[values] = np.arange(len(values))
        return dense_id[key], len(values)
    bits = len(key).bit_length()
    if size.bit_length() + bits >= 64:
        values, inverse = np.unique(key, return_inverse=True)
        return inverse.astype(np.int64), len(values)
    # Key and position in one integer: sorting these is faster than an argsort of the keys.
    packed = (key << bits) | np.arange(len(key))
    packed.sort()
    position, values = packed & ((1 << bits) - 1), packed >> bits
    ids = np.empty(len(key), np.int64)
    ids[position] = np.cumsum(np.append(False, values[1:] != values[:-1]))
    return ids, int(ids[position[-1]]) + 1


def first_positions(ids: IntArray, count: int) -> IntArray:
    """`[count]` first position of each id in `ids[n]`, which are 0, 1, …, as from `dense_ids`."""
    first = np.empty(count, np.int64)
    first[ids[::-1]] = np.arange(len(ids))[::-1]
    return first
