"""What a game is: all histories of one length at a time, as arrays.

A game hands out its levels in breadth-first order. Built-in games compute whole
levels with NumPy; `stepwise.py` lifts per-state rules to the same form. Nothing
here knows about trees, sequences or solvers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

Move: TypeAlias = int | tuple[int, int]
"""One step of a history: an action or a chance outcome, or both players' actions at once."""

DEFAULT_MAX_HISTORIES = 5_000_000

MAX_LEVELS = 2_000
"""A game with longer histories than that most likely never ends."""

PROBABILITY_TOLERANCE = 1e-9
"""How far the probabilities of a chance node may be from summing to 1."""

LARGEST_RETURN = 1e30
"""The largest return in size: regrets are sums of differences of returns, in float32 too."""

TERMINAL = 0
PLAYER_0 = 1
PLAYER_1 = 2
SIMULTANEOUS = PLAYER_0 | PLAYER_1
CHANCE = 4
ACTOR_BIT = (PLAYER_0, PLAYER_1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistoryLevel:
    """All histories of one length. `n` histories on the last axis of every field.

    They are in the order of their parents, then of player 0's, player 1's and chance's moves.

    Attributes:
      parent: `[n]` row of the parent in the previous level; the first level has one row, parent 0.
      actor: `[n]` who acts here, bits `PLAYER_0`, `PLAYER_1` (both: simultaneous) or
        `CHANCE`; `TERMINAL` is 0.
      action: `[3, n]` what player 0, player 1 and chance did at the parent; -1 where they did not act.
      chance: `[n]` probability of the chance outcome that led here, 1 where chance did not act.
      returns: `[2, n]` both players' returns at terminal histories, 0 elsewhere.
      infostate: `[2, n]` for both players, whether they act or not, an id of everything
        that the player has observed and done so far. Ids are any integers >= 0, equal for
        equal infostates in the whole game, also across levels.
      public: `[n]` an id of everything that both players are known to have observed, or
        None if the game does not say. No infostate may lie in two public states.
    """

    parent: IntArray
    actor: npt.NDArray[np.uint8]
    action: IntArray
    chance: FloatArray
    returns: FloatArray
    infostate: IntArray
    public: IntArray | None = None

    def take(self, inside: BoolArray, new_row: IntArray) -> HistoryLevel:
        """Some of the histories, `[n]`, given the new rows of their parents, which ascend one by one."""
        if inside.all() and new_row[-1] == len(new_row) - 1:  # nothing is left out, here or above
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
    """What a cut rule may look at (a `HistoryTree` provides it). Axis: histories."""

    @property
    def parent(self) -> IntArray:
        """`[n]` the parent history."""
        ...

    @property
    def actor(self) -> npt.NDArray[np.uint8]:
        """`[n]` who acts."""
        ...

    @property
    def action(self) -> IntArray:
        """`[3, n]` what player 0, player 1 and chance did at the parent, -1 for nothing."""
        ...

    @property
    def num_moves(self) -> IntArray:
        """`[n]` moves of the players so far."""
        ...


class Game(Protocol):
    """A two-player zero- or constant-sum game with perfect recall.

    `name` is the canonical string that `jaxgadget.load` turns back into this game and
    that policies are saved under. `num_actions` is the number of distinct player
    actions; legal actions are always listed in ascending id.
    """

    @property
    def name(self) -> str:
        """The canonical string."""
        ...

    @property
    def num_actions(self) -> int:
        """Distinct player actions."""
        ...

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        """Yields levels 0, 1, … until every history of a level is terminal.

        Calls `budget.claim(n)` before it allocates a level of `n` histories. Who enumerates to a
        limit stops early, and sends a generator `[n]` booleans, which histories of the level just
        yielded to expand: `expand = yield level`, None for all. Children of the others may then be
        left out; where they come all the same, they count against the budget and are dropped.
        """
        ...

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """Names the player's infostate after `history`, where it acts; OpenSpiel's string if it has one.

        Several infosets may share a string, as OpenSpiel's do where they forget own actions.
        """
        ...

    def action_string(self, player: int, action: int) -> str:
        """A short human-readable name of a player's action."""
        ...

    def cuts(self) -> Mapping[str, CutRule]:
        """Cuts that the game names, for example Leduc's `flop`."""
        ...


class BetSizes(Protocol):
    """What a game of bets may answer besides `Game`; translation asks (`jaxgadget.policy.translation`)."""

    def bet_fraction(self, history: Sequence[Move], action: int) -> float | None:
        """How large a bet is, as a fraction of the pot after calling.

        Args:
          history: what was done so far, after which a player acts.
          action: one of its legal actions.

        Returns:
          A number > 0 for a bet or raise, 0 for a check or call, None for what is no bet, such as a fold.
        """
        ...


def bet_fraction(game: Game, history: Sequence[Move], action: int) -> float | None:
    """As `BetSizes` says; None where the game does not answer."""
    answer: Any = getattr(game, "bet_fraction", None)
    return None if answer is None else answer(history, action)


def next_level(generated: Iterator[HistoryLevel], expand: BoolArray) -> HistoryLevel | None:
    """The next of a game's levels, if it takes what it is sent only below the histories to expand."""
    try:
        return generated.send(expand) if _listens(generated) else next(generated)
    except StopIteration:
        return None


def _listens(generated: object) -> TypeGuard[GeneratorType[HistoryLevel, Any, Any]]:
    """Whether something can be sent: not to an iterator that is none, or that a generator yields from."""
    if not isinstance(generated, GeneratorType):
        return False
    return generated.gi_yieldfrom is None or _listens(generated.gi_yieldfrom)


class TooLargeError(ValueError):
    """A game has more histories than may be enumerated."""


class Budget:
    """Stops an enumeration before it fills the memory."""

    def __init__(self, game: str, max_histories: int = DEFAULT_MAX_HISTORIES):
        self.game = game
        self.max_histories = check_whole_number("max_histories", max_histories, 1)
        self.num_histories = 0
        self.num_levels = 0

    def claim(self, count: int) -> None:
        """Counts one more level of `count` histories.

        Raises:
          TooLargeError: if the game has more than `max_histories` histories so far.
          ValueError: if it seems never to end.
        """
        self.num_histories += int(count)
        self.num_levels += 1
        if self.num_levels > MAX_LEVELS:
            raise ValueError(
                f"{self.game} has histories of more than {MAX_LEVELS:,} steps: it may never end; let every "
                "line of play come to a terminal history"
            )
        if self.num_histories > self.max_histories:
            raise TooLargeError(
                f"{self.game} has at least {self.num_histories:,} histories (reached at level "
                f"{self.num_levels - 1}), more than max_histories={self.max_histories:,}: raise "
                "max_histories (--max-histories on the command line) if the memory allows, about "
                "150 bytes a history, or choose smaller game parameters"
            )

    def release(self, count: int) -> None:
        """Counts `count` histories fewer, which were claimed and are then left out."""
        self.num_histories -= count


class Refiner:
    """Infostate ids from observations, level by level.

    An infostate is what the player knew before, what the player did, and what the player
    saw next. `observation` -1 without an own action means that nothing was seen: the
    infostate stays, so it may span histories of different length.
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
        """Moves on to the next level and returns its ids, `[n]`.

        Args:
          parent: `[n]` row of the parent in the previous level.
          action: `[n]` the player's own action at the parent, -1 for none.
          observation: `[n]` a code >= 0 of what the player sees on arrival, -1 for nothing.
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

    def _across_levels(
        self,
        before: IntArray,
        action: IntArray,
        observation: IntArray,
        moved: BoolArray,
        ids: IntArray,
    ) -> IntArray:
        """Reuses ids where an infostate spans levels, so that its descendants may too."""
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
    """Where the histories of each level begin and end, the root's left out, given all parents `[n]`."""
    end = 1
    while end < len(parent):
        begin, end = end, 1 + int(np.searchsorted(parent[1:], end))
        yield begin, end


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
        number = np.empty(size, np.int64)
        number[values] = np.arange(len(values))
        return number[key], len(values)
    bits = len(key).bit_length()
    if size.bit_length() + bits >= 64:
        values, inverse = np.unique(key, return_inverse=True)
        return inverse.astype(np.int64), len(values)
    # Key and position in one integer: sorting these is faster than finding the order of the keys.
    packed = (key << bits) | np.arange(len(key))
    packed.sort()
    position, values = packed & ((1 << bits) - 1), packed >> bits
    ids = np.empty(len(key), np.int64)
    ids[position] = np.cumsum(np.append(False, values[1:] != values[:-1]))
    return ids, int(ids[position[-1]]) + 1
