"""Abstractions as coarser observations: a game whose infostates are merged by a user-defined function.

Only the infostates change: histories, moves, chance and returns are those of the game. Where a player
acts, its infostate is the bucket that the function returns; elsewhere it is the player's last
(infoset, action), because the function is not defined there. Public states are therefore dropped, and
a cut may have fewer subgames than in the game. Solve the abstraction, lift its policy back
(`jaxgadget.policy.lift.lift`), and re-solve subgames in the game itself.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from jaxgadget.games.game import (
    ACTOR_BIT,
    Budget,
    Game,
    HistoryLevel,
    Move,
    distinct_names,
    move_of,
    moves_to,
)
from jaxgadget.games.wrapped import WrappedGame
from jaxgadget.util.arguments import function_name
from jaxgadget.util.arrays import IntArray

Merge: TypeAlias = Callable[[int, str], Hashable]
"""`merge(player, infostate)` returns a bucket; a player's infostates with equal buckets are merged."""


class Abstraction(WrappedGame):
    """A game with fewer infosets; `jaxgadget.load` cannot load it by name.

    The abstraction must keep perfect recall: all infostates of a bucket have the same sequence of the
    player's own earlier buckets and actions, and the same legal actions. Otherwise `levels`, and with it
    `enumerate_game`, raises a ValueError.

    Attributes:
      game: the game that is abstracted.
      merge: function that maps an infostate to its bucket.
      name: `abstraction(GAME,LABEL)`, or `abstraction(GAME)` without a label.
    """

    def __init__(self, game: Game, merge: Merge, *, name: str | None = None):
        """Wraps a game, without enumeration.

        Args:
          game: the game to abstract, which may be an abstraction itself.
          merge: called once for each infostate of a player where it acts, with the player and the
            infostate's string: the game's own, or where several infosets share one, the name in
            `HistoryTree.infoset_names`. Returns a bucket, anything hashable, such as the string
            with the suits of the cards removed.
          name: label of the abstraction, by default the function's name; a lambda has none.

        Raises:
          ValueError: if `merge` is not callable, or the name is empty.
        """
        if isinstance(game, type) or not hasattr(game, "levels"):
            raise ValueError(f"game={game!r}: expected a game, from load(…)")
        if not callable(merge):
            raise ValueError(f"merge={merge!r}: expected a function merge(player, infostate)")
        label = function_name(merge) if name is None else cast(object, name)
        if not isinstance(label, str) or name == "":
            raise ValueError(f"name={name!r}: expected a short name of the abstraction, such as 'ranks'")
        self.game = game
        self.merge = merge
        self.name = f"abstraction({game.name},{label})" if label else f"abstraction({game.name})"

    def levels(self, budget: Budget) -> Iterator[HistoryLevel]:
        """Yields the game's levels with merged infostates, after enumerating the whole game."""
        histories = _join(list(self.game.levels(budget)))
        infostate = np.empty_like(histories.infostate, np.int64)
        merged: list[_Merged] = []
        for player in (0, 1):
            merged.append(self._merge_player(histories, player))
            last = self._last_sequence(histories, player, merged[player].code)
            self._check_recall(histories, player, merged[player], last)
            code = merged[player].code
            infostate[player] = np.where(code >= 0, 2 * code, 2 * last + 1)
        self._known = _Known(histories.parent, histories.action, (merged[0], merged[1]))
        ends = np.cumsum([len(level.parent) for level in histories.levels]).tolist()
        for level, end in zip(histories.levels, ends, strict=True):
            level_infostate = infostate[:, end - len(level.parent) : end]
            yield dataclasses.replace(level, infostate=level_infostate, public=None)

    def infostate_string(self, player: int, history: Sequence[Move]) -> str:
        """The bucket if it is a string, otherwise its `repr`."""
        index, h = self._known, 0
        for move in history:
            begin, end = (1 + np.searchsorted(index.parent[1:], [h, h + 1])).tolist()
            children = [child for child in range(begin, end) if move_of(index.action, child) == move]
            h = children[0] if children else -1
            if h < 0:
                break
        code = int(index.merged[player].code[h]) if h >= 0 else -1
        if code < 0:
            raise ValueError(
                f"{self.name}: history={tuple(history)!r}: expected a history of the game after which player "
                f"{player} acts; take histories from the game's tree"
            )
        bucket = index.merged[player].buckets[code]
        return bucket if isinstance(bucket, str) else repr(bucket)

    @functools.cached_property
    def _known(self) -> _Known:
        """Buckets of the last enumeration; enumerates the game if there was none."""
        collections.deque(self.levels(Budget(self.name)), maxlen=0)
        return cast(_Known, self.__dict__["_known"])

    def _merge_player(self, histories: _JoinedHistories, player: int) -> _Merged:
        """Calls `merge` for every infostate at which a player acts."""
        acts = np.nonzero(histories.actor & ACTOR_BIT[player])[0]
        _, first, inverse = np.unique(
            histories.infostate[player, acts], return_index=True, return_inverse=True
        )
        order = np.argsort(first)  # in the order of the tree
        names = _names(self.game, histories, player, acts[first[order]].tolist())
        bucket_idx: dict[Hashable, int] = {}
        codes = np.empty(len(first), np.int64)
        for infostate, name in zip(order.tolist(), names, strict=True):
            bucket: Any = self.merge(player, name)
            try:
                codes[infostate] = bucket_idx.setdefault(bucket, len(bucket_idx))
            except TypeError:
                raise ValueError(
                    f"{self.name}: merge({player}, {name!r}) returned {bucket!r}, which is not hashable; "
                    "return a string or a tuple"
                ) from None
        code = np.full(len(histories.actor), -1, np.int64)
        code[acts] = codes[inverse]
        return _Merged(code, list(bucket_idx))

    def _last_sequence(self, histories: _JoinedHistories, player: int, code: IntArray) -> IntArray:
        """`[n]` code of the last action, `1 + bucket * num_actions + action`; 0 before the first action."""
        action = histories.action[player]
        last = np.where(action >= 0, 1 + code[histories.parent] * self.num_actions + action, 0)
        begin = 1
        for level in histories.levels[1:]:
            end = begin + len(level.parent)
            rows = slice(begin, end)
            last[rows] = np.where(action[rows] >= 0, last[rows], last[histories.parent[rows]])
            begin = end
        return last

    def _check_recall(
        self, histories: _JoinedHistories, player: int, merged: _Merged, last: IntArray
    ) -> None:
        acts = np.nonzero(merged.code >= 0)[0]
        _, first, inverse = np.unique(merged.code[acts], return_index=True, return_inverse=True)
        differs = last[acts] != last[acts[first]][inverse]
        if not differs.any():
            return
        row = int(np.argmax(differs))
        pair = int(acts[first[inverse[row]]]), int(acts[row])
        moves = [histories.moves(h) for h in pair]
        names = [self.game.infostate_string(player, past) for past in moves]
        pasts: list[str] = []
        for h in pair:
            bucket, action = divmod(int(last[h]) - 1, self.num_actions)
            taken = "nothing" if bucket < 0 else self.action_string(player, action)
            pasts.append(taken if bucket < 0 else f"{taken} in bucket {merged.buckets[bucket]!r}")
        raise ValueError(
            f"{self.name} does not have perfect recall for player {player}: bucket "
            f"{merged.buckets[int(merged.code[pair[0]])]!r} merges histories with different earlier actions "
            f"or buckets of the player, for example {moves[0]} and {moves[1]}, with infostates {names[0]!r} "
            f"and {names[1]!r}: the player's last decision was {pasts[0]} and {pasts[1]}; merge must return "
            "different buckets for them, or equal buckets for the earlier decisions"
        )


class _Merged(NamedTuple):
    """A player's buckets, and `[n]` the bucket index of each history, -1 where the player does not act."""

    code: IntArray
    buckets: list[Hashable]


class _Known(NamedTuple):
    """Arrays that map a history, given by its moves, to its bucket."""

    parent: IntArray
    action: IntArray
    merged: tuple[_Merged, _Merged]


class _JoinedHistories(NamedTuple):
    """All levels, and their fields concatenated over histories; `parent` holds indices of histories."""

    levels: list[HistoryLevel]
    parent: IntArray
    actor: IntArray
    action: IntArray
    infostate: IntArray

    def path(self, history: int) -> list[int]:
        """Indices of the histories on the path from the root (excluded) to a history (included)."""
        path: list[int] = []
        while history:
            path.append(history)
            history = int(self.parent[history])
        return path[::-1]

    def moves(self, history: int) -> tuple[Move, ...]:
        """The moves that lead to a history."""
        return moves_to(self.parent, self.action, history)


def _join(levels: list[HistoryLevel]) -> _JoinedHistories:
    sizes = [len(level.parent) for level in levels]
    before = np.repeat(np.cumsum([0, 0, *sizes[:-2]])[: len(sizes)], sizes)
    return _JoinedHistories(
        levels,
        np.concatenate([level.parent for level in levels]) + before,
        np.concatenate([level.actor for level in levels]),
        np.concatenate([level.action for level in levels], axis=1),
        np.concatenate([level.infostate for level in levels], axis=1),
    )


def _names(
    game: Game, histories: _JoinedHistories, player: int, representatives: list[int]
) -> tuple[str, ...]:
    """A player's infoset names as in `HistoryTree.infoset_names`, given one history of each."""

    def own_actions(infoset: int) -> list[int]:
        path = histories.path(representatives[infoset])
        return [a for a in histories.action[player, path].tolist() if a >= 0]

    moves = [histories.moves(h) for h in representatives]
    names = [game.infostate_string(player, past) for past in moves]
    return distinct_names(names, own_actions, moves.__getitem__)
