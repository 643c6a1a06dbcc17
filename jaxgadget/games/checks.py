"""Checks of state machines, before a game is trained on, searched or played without being enumerated.

`enumerate_game` validates a whole tree (`jaxgadget.tree.contract`). This module lists a few thousand
histories, all of a small game and whole infostates of a large one, and checks them against the contract of
`StateMachine`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from jaxgadget.games.game import (
    ACTOR_BIT,
    CHANCE,
    LARGEST_RETURN,
    PROBABILITY_TOLERANCE,
    SIMULTANEOUS,
    TERMINAL,
    Budget,
    Move,
    Refiner,
    dense_ids,
    first_positions,
    move_of,
)
from jaxgadget.games.machine import StateMachine, find_moves, take_states
from jaxgadget.util.arrays import IntArray

CHECKED_HISTORIES = 20_000
"""Approximate number of histories to check."""

_SUM_TOLERANCE = 1e-9
"""Tolerance on the sum of returns, relative to the largest one."""


def check_machine(machine: StateMachine[Any], histories: int = CHECKED_HISTORIES) -> None:
    """Checks that a state machine fulfils the contract of `StateMachine`.

    In a game with more histories, about equally many of each length are checked: random infostates, each with
    all of its histories that descend from the histories checked at the previous length.

    Args:
      machine: the rules.
      histories: number of histories to check, about.

    Raises:
      ValueError: if returns are not finite or not constant-sum; chance does not sum to 1; a player has no
        legal action; features or legal actions differ within an infostate, or the public observes more than a
        player; shapes, dtypes or batches are not as documented, or histories are longer than `max_moves`.
    """
    _Checker(machine, histories).run()


class _CheckedLevel(NamedTuple):
    """Histories of one length: their parents and last moves, and ids of infostates and public states."""

    parent: IntArray
    action: IntArray
    ids: tuple[IntArray, ...]


class _Checker:
    """One run of the checks.

    Args:
      machine: the rules.
      histories: number of histories to check, about.
    """

    def __init__(self, machine: StateMachine[Any], histories: int):
        self._machine = machine
        self._most = max(1, histories // (machine.max_moves + 1))
        self._left = histories
        self._levels: list[_CheckedLevel] = []
        self._random = np.random.default_rng(0)
        self._sum: tuple[float, str] | None = None
        # For each checked property of an infostate: its first value, as bytes, and the level and row.
        self._known: dict[Hashable, tuple[bytes, int, int]] = {}

    def run(self) -> None:
        """Checks level by level."""
        machine = self._machine
        state, refiners = machine.start(1, np), (Refiner(), Refiner(), Refiner())
        self._check_state(machine.start(3, np), machine.start(1, np), 3)
        zero = np.zeros(1, np.int64)
        self._levels.append(_CheckedLevel(zero, np.full((3, 1), -1), (zero, zero, zero)))
        for length in itertools.count():
            actor = self._check_actor(machine.actor(state))
            self._check_ends(state, actor)
            goes_on = np.flatnonzero(actor != TERMINAL)
            if len(goes_on) == 0:
                return
            if length == machine.max_moves:
                self._refuse(
                    f"a history does not end after max_moves={machine.max_moves} moves",
                    "raise max_moves or correct actor()",
                    int(goes_on[0]),
                )
            self._check_decisions(state, actor, goes_on)
            rows = self._choose(state, actor, goes_on)
            if len(rows) == 0:
                return
            moves = find_moves(machine, state, actor, rows, Budget(machine.name, 100 * self._most + 10**6))
            above = take_states(state, moves.parent)
            after, seen = machine.step(above, moves.action)
            self._check_state(after, state, len(moves.parent))
            seen = self._check_seen(seen, len(moves.parent))
            self._check_alone(above, moves.action, after, seen)
            own = (moves.action[0], moves.action[1], np.full(len(moves.parent), -1))
            ids = tuple(r.extend(moves.parent, a, s) for r, a, s in zip(refiners, own, seen, strict=True))
            self._levels.append(_CheckedLevel(moves.parent, moves.action, ids))
            self._left -= len(moves.parent)
            state = after

    def _choose(self, state: Any, actor: IntArray, rows: IntArray) -> IntArray:
        """Rows to expand: all if the limit allows, otherwise those of random infostates of each player."""
        machine = self._machine
        count = np.ones(len(actor), np.int64)
        for player, bit in enumerate(ACTOR_BIT):
            acts = (actor & bit) > 0
            count[acts] *= np.count_nonzero(np.asarray(machine.legal(state, player))[:, acts], axis=0)
        if (actor == CHANCE).any():
            deals = actor == CHANCE
            count[deals] = np.count_nonzero(np.asarray(machine.chance(state))[:, deals], axis=0)
        if count[rows].sum() <= self._left:
            return rows
        chosen = np.zeros(len(actor), np.bool_)
        for ids in self._levels[-1].ids[:2]:
            group, num_groups = dense_ids(ids[rows])
            order = np.lexsort((self._random.random(len(rows)), self._random.permutation(num_groups)[group]))
            fits = np.cumsum(count[rows[order]]) <= self._most // 2
            fits[0] |= count[rows[order[0]]] <= 10**6
            chosen[rows[order[fits]]] = True
        return np.flatnonzero(chosen)

    def _check_state(self, state: Any, before: Any, n: int) -> None:
        """Checks that types, shapes and dtypes have not changed, and that the last axis has length n."""
        if type(state) is not type(before) or not isinstance(state, tuple):
            self._refuse(
                f"step() returned a {type(state).__name__}", "return the NamedTuple that start() does"
            )
        for name, new, old in zip(before._fields, state, before, strict=True):
            if not isinstance(new, np.ndarray):
                self._refuse(f"{name} of the state is {type(new).__name__}", "make it an array of NumPy")
            if new.shape != (*old.shape[:-1], n) or new.dtype != old.dtype:
                self._refuse(
                    f"{name} of the state is {new.dtype}{list(new.shape)} after a move, expected "
                    f"{old.dtype}{[*old.shape[:-1], n]}",
                    "keep shapes and dtypes, or a compiled loop is not possible",
                )

    def _check_actor(self, actor: Any) -> IntArray:
        values = np.asarray(actor)
        allowed = (TERMINAL, *ACTOR_BIT, SIMULTANEOUS, CHANCE)
        if values.shape != self._levels[-1].parent.shape or not np.isin(values, allowed).all():
            self._refuse(
                f"actor() returned {values.tolist()[:3]}…, shape {list(values.shape)}",
                f"return one of {allowed} for each of {len(self._levels[-1].parent)} states",
            )
        return values.astype(np.uint8)

    def _check_ends(self, state: Any, actor: IntArray) -> None:
        """Checks that returns are finite and their sum is constant."""
        ends = np.flatnonzero(actor == TERMINAL)
        if len(ends) == 0:
            return
        returns = self._shaped("returns()", self._machine.returns(state), 2, len(actor))[:, ends]
        wrong = ~(np.abs(returns) <= LARGEST_RETURN).all(axis=0)
        if wrong.any():
            row = int(np.argmax(wrong))
            self._refuse(
                f"returns {tuple(returns[:, row].tolist())} are not finite numbers of at most "
                f"{LARGEST_RETURN:g}",
                "correct returns()",
                int(ends[row]),
            )
        total = returns.sum(axis=0)
        if self._sum is None:
            self._sum = float(total[0]), self._describe(int(ends[0]))
        wrong = np.abs(total - self._sum[0]) > _SUM_TOLERANCE * max(1.0, float(np.abs(returns).max()))
        if wrong.any():
            row = int(np.argmax(wrong))
            self._refuse(
                f"the game is not constant-sum: returns sum to {self._sum[0]:g} at history {self._sum[1]} "
                f"and to {total[row]:g}",
                "correct returns()",
                int(ends[row]),
            )

    def _check_decisions(self, state: Any, actor: IntArray, goes_on: IntArray) -> None:
        """Checks chance, legal actions and features; the latter two must not differ within an infostate."""
        machine, n = self._machine, len(actor)
        public = self._levels[-1].ids[2]
        deals = np.flatnonzero(actor == CHANCE)
        if len(deals):
            chance = self._shaped("chance()", machine.chance(state), machine.num_outcomes, n)[:, deals]
            wrong = ~((chance >= 0).all(axis=0) & (np.abs(chance.sum(axis=0) - 1) <= PROBABILITY_TOLERANCE))
            if wrong.any():
                row = int(np.argmax(wrong))
                self._refuse(
                    f"chance probabilities {chance[:, row].tolist()} are not >= 0 with sum 1",
                    "correct chance()",
                    int(deals[row]),
                )
        for player, bit in enumerate(ACTOR_BIT):
            ids = self._levels[-1].ids[player]
            features = np.asarray(machine.features(state, player))
            if features.ndim != 2 or features.shape[1] != n:
                self._refuse(
                    f"features() have shape {list(features.shape)} for {n} states",
                    "return [F, n] with states on the last axis",
                )
            if not np.isfinite(features[:, goes_on]).all():
                self._refuse("features() are not finite", "return finite numbers", int(goes_on[0]))
            self._agree(
                ("features", player),
                ids[goes_on],
                features.T[goes_on],
                goes_on,
                f"features differ within an infostate of player {player}",
                "features() may only read what the player observed, or step() must give it a code",
            )
            self._agree(
                ("public", player),
                ids,
                public[:, None],
                np.arange(n),
                f"the public observes what player {player} does not: an infostate lies in two public states",
                "a player's code must represent its whole observation, including the public part",
            )
            acts = np.flatnonzero(actor & bit)
            legal = np.asarray(machine.legal(state, player))
            if legal.shape != (machine.num_actions, n) or legal.dtype != np.bool_:
                self._refuse(
                    f"legal() returned {legal.dtype}{list(legal.shape)}",
                    f"return a mask of booleans of shape {[machine.num_actions, n]}",
                )
            none = ~legal[:, acts].any(axis=0)
            if none.any():
                self._refuse(
                    f"player {player} acts but has no legal action",
                    "correct legal() or actor()",
                    int(acts[np.argmax(none)]),
                )
            self._agree(
                ("legal", player),
                ids[acts],
                legal.T[acts],
                acts,
                f"legal actions differ within an infostate of player {player}",
                "legal() may only read what the player observed, or step() must give it a code",
            )

    def _agree(
        self, what: Hashable, ids: IntArray, values: Any, rows: IntArray, problem: str, remedy: str
    ) -> None:
        """Checks that rows of `values` `[m, …]` with equal ids are equal, also across levels."""
        if len(ids) == 0:
            return
        values = np.ascontiguousarray(values)
        group, count = dense_ids(ids)
        first = first_positions(group, count)
        differs = (values != values[first[group]]).any(axis=1)
        if differs.any():
            row = int(np.argmax(differs))
            self._refuse(problem, remedy, int(rows[row]), self._describe(int(rows[first[group[row]]])))
        for position in first.tolist():
            key = (what, int(ids[position]))
            seen = values[position].tobytes(), len(self._levels) - 1, int(rows[position])
            known, level, row = self._known.setdefault(key, seen)
            if known != seen[0]:
                self._refuse(problem, remedy, int(rows[position]), self._describe(row, level))

    def _check_seen(self, seen: Any, n: int) -> IntArray:
        codes = np.asarray(seen)
        if codes.shape != (3, n) or codes.dtype.kind not in "iu" or (codes < -1).any():
            self._refuse(
                f"step() returned observations {codes.dtype}{list(codes.shape)}, least {codes.min()}",
                f"return integers >= -1 of shape {[3, n]}",
            )
        return codes

    def _check_alone(self, above: Any, moves: IntArray, after: Any, seen: IntArray) -> None:
        """Checks that a move from a single state has the same result as in a batch."""
        row = self._random.integers(moves.shape[1], size=1)
        alone, alone_seen = self._machine.step(take_states(above, row), moves[:, row])
        together = take_states(after, row)
        same = all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
        if not same or not np.array_equal(alone_seen, seen[:, row]):
            self._refuse(
                "a state's next state or observations depend on the other states of the batch",
                "reduce over axes of a state only, never over the last one",
            )

    def _shaped(self, what: str, values: Any, rows: int, n: int) -> Any:
        array = np.asarray(values, np.float64)
        if array.shape != (rows, n):
            self._refuse(f"{what} returned shape {list(array.shape)}", f"return shape {[rows, n]}")
        return array

    def _describe(self, row: int, level: int = -1) -> str:
        """The moves of a history, by default of the last level."""
        moves: list[Move] = []
        for above in range(level % len(self._levels), 0, -1):
            moves.append(move_of(self._levels[above].action, row))
            row = int(self._levels[above].parent[row])
        return str(tuple(reversed(moves)))

    def _refuse(
        self, problem: str, remedy: str, row: int | None = None, other: str | None = None
    ) -> NoReturn:
        where = "" if row is None else f" at history {self._describe(row)}"
        where += "" if other is None else f", unlike at history {other}"
        raise ValueError(f"{self._machine.name} breaks a rule of state machines: {problem}{where}; {remedy}")
