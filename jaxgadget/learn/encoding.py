"""Encodings of histories as network inputs: the public state and both players' private information.

An encoding determines both players' infostates. Leduc, Goofspiel and Liar's Dice encode all moves and derived
features that a small network would otherwise have to learn: ranks, pairs, remaining cards, points, bids that
hold. OpenSpiel games use their information-state tensors if these distinguish all infostates. A game or
user-defined `Rules` may have a method `encode(tree, histories)` that returns `[H, width]` numbers, with the
same width for every tree of the game. All other games: all moves, step by step. Built-in encodings are zeros
and ones.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import SIMULTANEOUS
from jaxgadget.games.goofspiel import Goofspiel
from jaxgadget.games.leduc.betting import FOLD, RAISE
from jaxgadget.games.leduc.rules import LeducPoker
from jaxgadget.games.liars_dice import LiarsDice
from jaxgadget.games.openspiel import PREFIX
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.util.arrays import IntArray

Float32Array: TypeAlias = npt.NDArray[np.float32]

Sizes: TypeAlias = tuple[tuple[int, int, int], ...]

CHUNK = 16384
"""Number of histories per batch when all histories of a tree are encoded."""

_CARD = 3  # the public card, as a move of Leduc's betting


@dataclasses.dataclass(frozen=True)
class Encoding:
    """Encoding of a game's histories.

    Attributes:
      kind: `built-in`, `own` (the game's method), `tensors` (OpenSpiel) or `moves`.
      width: size of a history's encoding.
      sizes: for `moves`, the numbers of moves of player 0, player 1 and chance at every step.
    """

    kind: str
    width: int
    sizes: Sizes = ()

    def __call__(self, tree: HistoryTree, histories: IntArray) -> Float32Array:
        """`[H, width]` the histories' encodings.

        Raises:
          ValueError: if a history is of another game or too long, or an encoding is not finite.
        """
        histories = np.asarray(histories)
        if self.kind == "built-in":
            values = _built_in(tree, histories)
        elif self.kind == "own":
            values = _own(tree, histories)
        elif self.kind == "tensors":
            values = _tensors(tree, histories)
        else:
            values = _moves(tree, histories, self.sizes)
        if values.shape != (len(histories), self.width):
            raise ValueError(
                f"encode() of {tree.game.name} returned shape {values.shape}, expected "
                f"{(len(histories), self.width)}; all trees of a game must have the same encoding"
            )
        return values


def encode(tree: HistoryTree, histories: IntArray) -> Float32Array:
    """`[H, width]` encodings of histories in the encoding of the tree's game.

    Raises:
      ValueError: if the game's `encode` returns another shape, or numbers that are not finite.
    """
    return find_encoding(tree)(tree, histories)


def encoding_width(tree: HistoryTree) -> int:
    """Size of a history's encoding."""
    return find_encoding(tree).width


def decision_histories(tree: HistoryTree) -> IntArray:
    """`[H]` histories at which a player acts, ascending."""
    return np.nonzero(tree.actor & SIMULTANEOUS)[0]


def find_encoding(tree: HistoryTree) -> Encoding:
    """The encoding of a tree's game.

    Raises:
      ValueError: if the game's `encode` does not return `[H, width]` finite numbers.
    """
    check_histories(tree)
    if "encoding" not in tree.cache:
        tree.cache["encoding"] = _find_encoding(tree)
    return tree.cache["encoding"]


def _find_encoding(tree: HistoryTree) -> Encoding:
    root = np.zeros(1, np.int64)
    if _own_method(tree) is not None:
        return Encoding("own", _own(tree, root).shape[1])
    if type(tree.game) in _BUILT_IN:
        return Encoding("built-in", _built_in(tree, root).shape[1])
    if tree.game.name.startswith(PREFIX):
        width = _tensor_width(tree)
        if width and determines_infostates(tree, _tensors):
            return Encoding("tensors", width)
    low, high = tree.level_offset[1:-1], tree.level_offset[2:]
    ranges = [tree.action[:, a:b].max(axis=1) + 1 for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    sizes = tuple((int(a), int(b), int(c)) for a, b, c in ranges)
    return Encoding("moves", sum(map(sum, sizes)), sizes)


def determines_infostates(
    tree: HistoryTree, encoder: Callable[[HistoryTree, IntArray], Float32Array]
) -> bool:
    """True if decision histories have equal encodings only if both players' infostates are equal.

    Args:
      tree: the game's histories.
      encoder: function of a tree and `[H]` histories that returns `[H, width]`.
    """
    try:
        return _find_confused(tree, encoder) is None
    except _Untold:
        return False


def check_encoding(tree: HistoryTree, encoding: Encoding) -> None:
    """Raises ValueError if a game's `encode` returns equal numbers for different infostates of a player.

    The message names two such histories. Built-in encodings are not checked.
    """
    confused = _find_confused(tree, encoding) if encoding.kind == "own" else None
    if confused is not None:
        first, second = map(tree.moves, confused)
        raise ValueError(
            f"encode() of {tree.game.name} returned the same numbers for histories {first} and {second}, "
            "which differ in a player's infostate; expected numbers that determine both players' infostates"
        )


def _find_confused(
    tree: HistoryTree, encoder: Callable[[HistoryTree, IntArray], Float32Array]
) -> tuple[int, int] | None:
    """Two decision histories with equal encodings and different infostates, or None."""
    histories, seen = decision_histories(tree), dict[bytes, int]()
    for begin in range(0, len(histories), CHUNK):
        rows = histories[begin : begin + CHUNK]
        values = np.ascontiguousarray(encoder(tree, rows) + 0)  # -0 is 0
        for value, history in zip(values, rows.tolist(), strict=True):
            before = seen.setdefault(value.tobytes(), history)
            if (tree.infostate[:, before] != tree.infostate[:, history]).any():
                return before, history
    return None


def steps(tree: HistoryTree, histories: IntArray, length: int) -> IntArray:
    """`[length, 3, H]` moves of player 0, player 1 and chance at every step, -1 for none.

    Raises:
      ValueError: if a history is longer.
    """
    level = np.searchsorted(tree.level_offset, histories, side="right") - 1
    if len(level) and level.max() > length:
        raise ValueError(
            f"histories: one of {tree.game.name} has {level.max()} steps, expected at most {length}; "
            "make the encoding from a deeper tree"
        )
    done, at = np.full((length, 3, len(histories)), -1, np.int16), histories.copy()
    for step in range(length, 0, -1):
        rows = np.nonzero(level >= step)[0]
        done[step - 1][:, rows] = tree.action[:, at[rows]]
        at[rows] = tree.parent[at[rows]]
    return done


def _moves(tree: HistoryTree, histories: IntArray, sizes: Sizes) -> Float32Array:
    done = steps(tree, histories, len(sizes))
    columns = [
        _one_hot(done[step, mover], size)
        for step, counts in enumerate(sizes)
        for mover, size in enumerate(counts)
    ]
    return _join(histories, columns)


def _one_hot(values: IntArray, size: int) -> Float32Array:
    """`[H, size]` one-hot encoding; -1 for none.

    Raises:
      ValueError: if a value is too large.
    """
    if len(values) and values.max() >= size:
        raise ValueError(
            f"histories: a move {values.max()} exceeds the encoding's {size}; make the encoding from the "
            "whole tree"
        )
    return (values[:, None] == np.arange(size)).astype(np.float32)


def _at_least(values: IntArray, low: int, high: int) -> Float32Array:
    """`[H, high - low + 1]`: 1 where the value is at least low, low + 1, …, high."""
    return (values[:, None] >= np.arange(low, high + 1)).astype(np.float32)


def _join(histories: IntArray, columns: list[Float32Array]) -> Float32Array:
    return np.concatenate([*columns, np.zeros((len(histories), 0), np.float32)], axis=1)


# --- a game's own -----------------------------------------------------------------------


def _own_method(tree: HistoryTree) -> Callable[[HistoryTree, IntArray], Any] | None:
    for owner in (tree.game, getattr(tree.game, "rules", None)):
        method = getattr(owner, "encode", None)
        if callable(method):
            return method
    return None


def _own(tree: HistoryTree, histories: IntArray) -> Float32Array:
    method = _own_method(tree)
    values = np.asarray(None if method is None else method(tree, histories))
    if values.dtype.kind not in "biuf" or values.ndim != 2 or not np.isfinite(values).all():
        raise ValueError(
            f"encode() of {tree.game.name} returned {values.dtype} of shape {values.shape}; expected "
            f"({len(histories)}, width) finite numbers"
        )
    return values.astype(np.float32)


# --- OpenSpiel's ------------------------------------------------------------------------


class _Untold(Exception):
    """Raised where OpenSpiel has no tensor for a player at a history."""


def _tensor_width(tree: HistoryTree) -> int:
    """Size of both players' tensors, 0 if the game has none."""
    pyspiel = importlib.import_module("pyspiel")
    game = pyspiel.load_game(tree.game.name.removeprefix(PREFIX))
    has_tensor = game.get_type().provides_information_state_tensor
    return 2 * int(game.information_state_tensor_size()) if has_tensor else 0


def _tensors(tree: HistoryTree, histories: IntArray) -> Float32Array:
    """Both players' information-state tensors; histories with one parent share its state."""
    pyspiel = importlib.import_module("pyspiel")
    game = pyspiel.load_game(tree.game.name.removeprefix(PREFIX))
    values = np.zeros((len(histories), 2 * int(game.information_state_tensor_size())), np.float32)
    above, state = -1, None
    for row, history in enumerate(histories.tolist()):
        if int(tree.parent[history]) != above:
            above, state = int(tree.parent[history]), game.new_initial_state()
            for move in tree.moves(above):
                _apply(state, move)
        assert state is not None
        after = state.clone()
        for move in tree.moves(history)[len(tree.moves(above)) :]:
            _apply(after, move)
        try:
            values[row] = np.concatenate([after.information_state_tensor(player) for player in (0, 1)])
        except pyspiel.SpielError as error:
            raise _Untold from error
    return values


def _apply(state: Any, move: int | tuple[int, int]) -> None:
    if isinstance(move, tuple):
        state.apply_actions(list(move))
    else:
        state.apply_action(move)


# --- built-in games ---------------------------------------------------------------------


def _built_in(tree: HistoryTree, histories: IntArray) -> Float32Array:
    return _join(histories, _BUILT_IN[type(tree.game)](tree.game, tree, histories))


def _goofspiel(game: Goofspiel, tree: HistoryTree, histories: IntArray) -> list[Float32Array]:
    """Bids and point cards step by step, remaining cards, winners of tricks, player 0's lead in points."""
    cards, is_random = game.num_cards, game.points_order == "random"
    done = steps(tree, histories, game.turns * (2 if is_random else 1))
    bids = done[1::2, :2] if is_random else done[:, :2]
    points = done[0::2, 2] if is_random else np.full(bids[:, 0].shape, -1)
    columns = [_one_hot(bid, cards) for trick in bids for bid in trick]
    if is_random:
        columns += [_one_hot(card, cards) for card in points]
        columns.append(np.max(columns[-len(points) :], axis=0))
    columns += [np.max([_one_hot(bid, cards) for bid in bids[:, player]], axis=0) for player in (0, 1)]
    lead = np.zeros(len(histories), np.int64)
    for turn, (first, second) in enumerate(bids):
        columns.append(_one_hot(np.where(first < 0, -1, np.sign(first - second) + 1), 3))
        lead += np.sign(first - second) * (1 + (points[turn] if is_random else game.point_card(turn)))
    total = cards * (cards + 1) // 2
    return [*columns, _at_least(lead, 1 - total, total)]


def _liars_dice(game: LiarsDice, tree: HistoryTree, histories: IntArray) -> list[Float32Array]:
    """Counts of dice by face, each player's bids, the last bid, and the bids that hold."""
    dice, sides, bids = game.numdice, game.dice_sides, game.num_bids
    done = steps(tree, histories, 2 * dice + bids + 1)
    rolled = (done[: 2 * dice, 2, :, None] == np.arange(sides)).reshape(2, dice, len(histories), sides)
    counts = rolled.sum(axis=1)
    columns = [_at_least(count, 1, dice) for player in counts for count in player.T]
    for player in (0, 1):
        columns.append(np.max([_one_hot(bid, bids + 1) for bid in done[2 * dice :, player]], axis=0))
    last = np.where(done[:, :2] < bids, done[:, :2], -1)[2 * dice :].max(axis=(0, 1))
    total = counts.sum(axis=0)
    quantity, face = np.array(game.bids).T
    wild = np.where(face == sides, 0, 1) * total[:, -1:]
    holds = ((total[:, face - 1] + wild) >= quantity) & (counts[0].sum(axis=1) == dice)[:, None]
    is_true = np.take_along_axis(holds, np.maximum(last, 0)[:, None], axis=1) & (last >= 0)[:, None]
    return [*columns, _one_hot(last, bids), holds.astype(np.float32), is_true.astype(np.float32)]


def _leduc(game: LeducPoker, tree: HistoryTree, histories: IntArray) -> list[Float32Array]:
    """Cards and ranks, pairs, the player with the higher card, and the betting by round."""
    copies = game.num_suits if game.suit_isomorphism else 1
    types = game.num_ranks * game.num_suits // copies
    rounds = game.max_raises + 2  # a check, all raises, a call
    done = steps(tree, histories, 3 + 2 * rounds)
    public = done[2:, 2].max(axis=0)
    cards = np.stack([done[0, 2], done[1, 2], public])
    rank = np.where(cards < 0, -1, cards * copies // game.num_suits)
    columns = [
        one_hot
        for card, r in zip(cards, rank, strict=True)
        for one_hot in (_one_hot(card, types), _one_hot(r, game.num_ranks))
    ]
    pairs = (rank[:2] == rank[2]) & (rank[:2] >= 0)
    strength = np.where(pairs, game.num_ranks, rank[:2])
    ahead = np.where((rank[:2] < 0).any(axis=0), 0, np.sign(strength[0] - strength[1]))
    columns += [pairs.T.astype(np.float32), _one_hot(ahead + 1, 3)]
    line = np.where(done[2:, 2] >= 0, _CARD, done[2:, :2].max(axis=1))
    lines, row = np.unique(line, axis=1, return_inverse=True)
    betting_rows = [_betting(game, column.tolist(), rounds) for column in (*lines.T, np.zeros(0, np.int16))]
    return [*columns, np.array(betting_rows, np.float32)[row.reshape(-1)]]


def _betting(game: LeducPoker, line: list[int], rounds: int) -> list[float]:
    """Actions of both rounds by step, raises in each, the player to act, and the player that paid more."""
    betting, state, second = game.betting, game.betting.start(), False
    acted, raises, step, folded = np.zeros((2, rounds, 3)), np.zeros((2, game.max_raises)), 0, False
    for move in line:
        if move == _CARD:
            state, second, step = betting.second_round(state), True, 0
        elif move >= 0:
            played = betting.played(move, state)
            acted[int(second), step, move] = 1
            folded |= played == FOLD
            if played == RAISE:
                raises[int(second), state.raises] = 1
            state, step = state.after(played, betting.raise_sizes[second]), step + 1
    acts = [float(state.mover == player and not folded) for player in (0, 1)]
    paid = [float(state.paid[player] > state.paid[1 - player]) for player in (0, 1)]
    return [*acted.ravel().tolist(), *raises.ravel().tolist(), *acts, *paid, float(second)]


_BuiltIn: TypeAlias = Callable[[Any, HistoryTree, IntArray], list[Float32Array]]

_BUILT_IN: Mapping[type, _BuiltIn] = {Goofspiel: _goofspiel, LiarsDice: _liars_dice, LeducPoker: _leduc}
