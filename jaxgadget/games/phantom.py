"""Board games in which players do not see each other's stones: Dark Hex and phantom tic-tac-toe.

A player that attempts an occupied cell learns that the other player has it. It then attempts another cell
(classical version), or its turn is over (abrupt version).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from jaxgadget.games.game import PLAYER_0, PLAYER_1, TERMINAL, Move
from jaxgadget.games.machine import Array, StateMachine, namespace
from jaxgadget.games.parameters import canonical_name, check_choice, check_integer
from jaxgadget.util.arrays import IntArray

_OBSTYPES = ("reveal-nothing", "reveal-numturns")
_STONES = "xo"
_LARGEST_BOARD = 26  # columns are letters


class PhantomState(NamedTuple):
    """States of a board with C cells.

    Attributes:
      mover: `[n]` the player to move.
      owner: `[C, n]` the player whose stone is in each cell, -1 for none.
      attempt: `[2, C, n]` number of the move at which each player attempted a cell, from 1; 0 for never.
        Moves of both players are counted if players know the number of moves, otherwise only the player's
        own.
      turn: `[n]` number of moves.
      winner: `[n]` the player that has won, -1 for none.
      group: `[G, n]` connected group of every cell and edge of the board, if groups matter.
    """

    mover: Array
    owner: Array
    attempt: Array
    turn: Array
    winner: Array
    group: Array


class PhantomMachine(StateMachine[PhantomState]):
    """Base class of games with hidden stones; action `a` attempts cell `a`, counted row by row."""

    @property
    @abc.abstractmethod
    def num_cells(self) -> int:
        """C, number of cells."""

    @property
    @abc.abstractmethod
    def is_abrupt(self) -> bool:
        """True if a failed attempt ends a turn."""

    @property
    @abc.abstractmethod
    def knows_turn(self) -> bool:
        """True if players know the number of moves."""

    @abc.abstractmethod
    def connect(self, state: PhantomState, cell: Array) -> tuple[Array, Array]:
        """The groups after the mover's stone in `cell`, and whether it wins.

        Args:
          state: the states with that stone.
          cell: `[n]` its cell.
        """

    @property
    def num_groups(self) -> int:
        """G, number of cells and edges that are grouped."""
        return 0

    @property
    def num_actions(self) -> int:
        """Number of cells."""
        return self.num_cells

    @property
    def num_outcomes(self) -> int:
        """0: there are no chance moves."""
        return 0

    @property
    def max_moves(self) -> int:
        """One stone in each cell, and one failed attempt at each cell but the last."""
        return 2 * self.num_cells - 1

    def start(self, n: int, xp: Any) -> PhantomState:
        """The states with an empty board."""
        none, cells = xp.full(n, -1, xp.int8), self.num_cells
        groups = xp.arange(self.num_groups, dtype=xp.int16)[:, None]
        return PhantomState(
            mover=none + xp.int8(1),
            owner=xp.full((cells, n), -1, xp.int8),
            attempt=xp.zeros((2, cells, n), xp.int8 if 2 * cells < 128 else xp.int16),
            turn=xp.zeros(n, xp.int16),
            winner=none,
            group=groups + xp.zeros(n, xp.int16),
        )

    def actor(self, state: PhantomState) -> Array:
        """The mover, until a player has won or the board is full."""
        xp = namespace(state.mover)
        is_over = (state.winner >= 0) | (state.owner >= 0).all(axis=0)
        acting = xp.where(state.mover == 0, xp.uint8(PLAYER_0), xp.uint8(PLAYER_1))
        return xp.where(is_over, xp.uint8(TERMINAL), acting)

    def legal(self, state: PhantomState, player: int) -> Array:
        """Cells that the player has not attempted."""
        return state.attempt[player] == 0

    def step(self, state: PhantomState, moves: Array) -> tuple[PhantomState, Array]:
        """Puts a stone into a cell if it is empty; the mover learns whether it was."""
        xp = namespace(state.mover)
        cell = xp.maximum(moves[0], moves[1])
        is_cell = xp.arange(self.num_cells)[:, None] == cell
        succeeds = (is_cell & (state.owner < 0)).any(axis=0)
        is_mover = xp.arange(2)[:, None] == state.mover
        turn = state.turn + xp.int16(1)
        number = turn if self.knows_turn else 1 + xp.count_nonzero(state.attempt, axis=1)[:, None]
        placed = state._replace(
            owner=xp.where(is_cell & succeeds, state.mover, state.owner),
            attempt=xp.asarray(
                xp.where(is_mover[:, None] & is_cell, number, state.attempt), state.attempt.dtype
            ),
            turn=turn,
        )
        group, wins = self.connect(placed, cell)
        passes = xp.asarray(succeeds | self.is_abrupt, xp.int8)
        after = placed._replace(
            mover=xp.where(passes, xp.int8(1) - state.mover, state.mover),
            winner=xp.where(succeeds & wins, state.mover, state.winner),
            group=xp.where(succeeds, group, state.group),
        )
        public = xp.full(cell.shape, 0 if self.knows_turn else -1, xp.int16)
        seen = xp.where(is_mover, xp.asarray(1 + succeeds, xp.int16), public)
        return after, xp.concatenate([seen, public[None]])

    def returns(self, state: PhantomState) -> Array:
        """1 for the winner and -1 for the loser, 0 for a draw."""
        xp = namespace(state.winner)
        won = xp.where(state.winner < 0, 0.0, xp.where(state.winner == 0, 1.0, -1.0))
        return xp.stack([won, 0 - won])

    def features(self, state: PhantomState, player: int) -> Array:
        """One-hot: own stones, those found of the other player, and when each cell was attempted."""
        xp = namespace(state.mover)
        attempt, n = state.attempt[player], state.mover.shape[0]
        is_known, is_own = attempt > 0, state.owner == player
        numbers = xp.arange(1, 1 + (self.max_moves if self.knows_turn else self.num_cells))[:, None]
        when = (attempt[:, None] == numbers).reshape(len(attempt) * len(numbers), n)
        parts = [is_known & is_own, is_known & ~is_own, when]
        if self.knows_turn:
            parts.append(numbers == state.turn)
        return xp.concatenate([*parts, xp.full((1, n), player == 1)])

    def _shown(self, player: int, history: Sequence[Move], width: int, shows_others: bool) -> tuple[str, str]:
        """A player's view of the board, and its attempts, as in OpenSpiel's strings."""
        cells = cast(Sequence[int], history)  # no simultaneous moves
        mover, owner, attempts = 0, dict[int, int](), list[str]()
        known = ["."] * self.num_cells
        for cell in cells:
            succeeds = cell not in owner
            owner.setdefault(cell, mover)
            if mover == player:
                known[cell] = _STONES[owner[cell]]
                attempts.append(f"{mover},{cell} ")
            elif shows_others:
                attempts.append(f"{mover},? ")
            if succeeds or self.is_abrupt:
                mover = 1 - mover
        rows = ("".join(known[first : first + width]) for first in range(0, self.num_cells, width))
        return "\n".join(rows), "".join(attempts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DarkHex(PhantomMachine):
    """Dark Hex: player 0 connects the first and the last row, player 1 the first and the last column.

    Players know the number of moves, as in OpenSpiel, so they also know when their own attempts failed.
    OpenSpiel's strings omit that with `reveal-nothing`; then several infostates may share a string.

    Attributes:
      board_size: rows and columns.
      num_rows: rows, 0 for `board_size`.
      num_cols: columns, 0 for `board_size`.
      gameversion: after a failed attempt, `cdh` (classical) continues with another attempt of the same
        player, and `adh` (abrupt) with the other player.
      obstype: infostate strings list both players' moves (`reveal-numturns`) or own ones (`reveal-nothing`).
    """

    short_name: ClassVar[str] = "dark_hex"

    board_size: int = 3
    num_rows: int = 0
    num_cols: int = 0
    gameversion: str = "cdh"
    obstype: str = "reveal-nothing"

    def __post_init__(self) -> None:
        check_integer(self.short_name, "board_size", self.board_size, 2, _LARGEST_BOARD)
        for key in ("num_rows", "num_cols"):
            value = getattr(self, key)
            if value != 0:
                check_integer(self.short_name, key, value, 2, _LARGEST_BOARD)
        check_choice(self.short_name, "gameversion", self.gameversion, ("cdh", "adh"))
        check_choice(self.short_name, "obstype", self.obstype, _OBSTYPES)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.num_rows or self.board_size

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.num_cols or self.board_size

    @property
    def num_cells(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    @property
    def num_groups(self) -> int:
        """Cells, and the four edges: first and last row, first and last column."""
        return self.num_cells + 4

    @property
    def is_abrupt(self) -> bool:
        """True if a failed attempt ends a turn."""
        return self.gameversion == "adh"

    @property
    def knows_turn(self) -> bool:
        """True: players know the number of moves, even if `obstype` omits it from the strings."""
        return True

    @functools.cached_property
    def _near(self) -> IntArray:
        """`[K, C]` neighbours of every cell, edges included, padded with the cell itself."""
        rows, columns, cells = self.rows, self.columns, self.num_cells
        near: list[list[int]] = []
        for cell in range(cells):
            row, column = divmod(cell, columns)
            steps = ((-1, 0), (-1, 1), (0, 1), (1, 0), (1, -1), (0, -1))
            places = [(row + down, column + right) for down, right in steps]
            inside = [r * columns + c for r, c in places if 0 <= r < rows and 0 <= c < columns]
            edges = (row == 0, row == rows - 1, column == 0, column == columns - 1)
            near.append(inside + [cells + edge for edge, touches in enumerate(edges) if touches])
        most = max(map(len, near))
        return np.array(
            [[*cell_near, *[cell] * (most - len(cell_near))] for cell, cell_near in enumerate(near)]
        ).T

    def connect(self, state: PhantomState, cell: Array) -> tuple[Array, Array]:
        """Joins the stone with the groups of the mover around it; a group with both edges wins."""
        xp, cells = namespace(cell), self.num_cells
        edges = xp.broadcast_to(xp.asarray(np.array([0, 0, 1, 1], np.int8))[:, None], (4, cell.shape[0]))
        near = xp.asarray(self._near)[:, cell]
        is_own = xp.take_along_axis(xp.concatenate([state.owner, edges]), near, axis=0) == state.mover
        groups = xp.where(is_own, xp.take_along_axis(state.group, near, axis=0), -1)
        joined = (state.group == groups[:, None]).any(axis=0)
        group = xp.where(joined | (xp.arange(cells + 4)[:, None] == cell), cell, state.group)
        group = xp.asarray(group, state.group.dtype)
        return group, (group[cells] == group[cells + 1]) | (group[cells + 2] == group[cells + 3])

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string: the known board, the number of moves, the attempts."""
        board, attempts = self._shown(player, history, self.columns, self.obstype == "reveal-numturns")
        return f"{board}\n{len(history)}\n{attempts}"

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's action string: the column's letter and the row's number."""
        row, column = divmod(action, self.columns)
        return f"{chr(ord('a') + column)}{row + 1}"


_LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhantomTicTacToe(PhantomMachine):
    """Phantom tic-tac-toe; player 0 has crosses, and three in a line win.

    Attributes:
      gameversion: after a failed attempt, `classical` continues with another attempt of the same player, and
        `abrupt` with the other player.
      obstype: players do (`reveal-numturns`) or do not (`reveal-nothing`) know the number of moves.
    """

    short_name: ClassVar[str] = "phantom_ttt"

    gameversion: str = "classical"
    obstype: str = "reveal-nothing"

    def __post_init__(self) -> None:
        check_choice(self.short_name, "gameversion", self.gameversion, ("classical", "abrupt"))
        check_choice(self.short_name, "obstype", self.obstype, _OBSTYPES)

    @property
    def name(self) -> str:
        """The canonical game string."""
        return canonical_name(self.short_name, self)

    @property
    def num_cells(self) -> int:
        """9: three rows of three cells."""
        return 9

    @property
    def is_abrupt(self) -> bool:
        """True if a failed attempt ends a turn."""
        return self.gameversion == "abrupt"

    @property
    def knows_turn(self) -> bool:
        """True if players know the number of moves."""
        return self.obstype == "reveal-numturns"

    def connect(self, state: PhantomState, cell: Array) -> tuple[Array, Array]:
        """Three stones of the mover in a line win."""
        is_own = state.owner == state.mover
        return state.group, is_own[_LINES].all(axis=1).any(axis=0)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """OpenSpiel's string: the known board, the number of moves if it is known, the attempts."""
        board, attempts = self._shown(player, history, 3, self.knows_turn)
        return f"{board}\n{len(history)}\n{attempts}" if self.knows_turn else f"{board}\n{attempts}"

    def action_string(self, player: int, action: int) -> str:
        """OpenSpiel's action string, such as `x(0,2)`."""
        row, column = divmod(action, 3)
        return f"{_STONES[player]}({row},{column})"
