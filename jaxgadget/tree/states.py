"""Trees of state machines: the game from a public state, and the states of a tree's histories."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxgadget.games.game import DEFAULT_MAX_HISTORIES, HISTORY_BYTES
from jaxgadget.games.machine import StateMachine, take_states
from jaxgadget.games.public_state import PublicState, PublicStateGame
from jaxgadget.tree.history import HistoryTree, enumerate_game
from jaxgadget.util.arrays import IntArray


def enumerate_from(
    public: PublicState,
    *,
    depth: int | None = None,
    player: int | None = None,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    history_bytes: int = HISTORY_BYTES,
    memory_limit: int | None = None,
    progress: bool | None = None,
) -> HistoryTree:
    """Enumerates the game from a public state.

    Args:
      public: the public state.
      depth: number of the players' moves from its histories to the leaves; None for the whole game.
      player: leaves are decisions of this player, at least `depth` moves down; by default of either.
      max_histories: maximum number of histories.
      history_bytes: bytes per history, including the memory of a search.
      memory_limit: maximum number of bytes of the histories; by default the host's available memory.
      progress: as in `enumerate_game`.

    Returns:
      The tree of a `PublicStateGame`, in which decisions to enter replace all play before the public state;
      the roots of its cut at the public state are `public_roots(tree)`.

    Raises:
      TooLargeError: if there are more histories than `max_histories`, or than fit in memory.
    """
    game = PublicStateGame(public, history_bytes)
    depth = None if depth is None else game.num_moves + depth
    return enumerate_game(
        game,
        max_histories=max_histories,
        depth=depth,
        leaves_of=player,
        memory_limit=memory_limit,
        progress=progress,
    )


def public_roots(tree: HistoryTree) -> IntArray:
    """The histories at which the public state of a tree from `enumerate_from` begins, ascending."""
    game = game_from(tree)
    level = 1 + game.num_moves
    begin, end = tree.level_offset[level : level + 2].tolist()
    return np.arange(begin + game.num_choices - 1, end, game.num_choices)


def is_from_public_state(tree: object) -> bool:
    """True for a tree from `enumerate_from`, which lacks the decisions above the public state."""
    return isinstance(tree, HistoryTree) and isinstance(tree.game, PublicStateGame)


def game_from(tree: HistoryTree) -> PublicStateGame:
    """The game of a tree from `enumerate_from`; raises ValueError for another tree."""
    if not isinstance(tree.game, PublicStateGame):
        raise ValueError(f"tree={tree!r}: expected one from enumerate_from(…)")
    return tree.game


def rules_of(tree: HistoryTree) -> StateMachine[Any]:
    """The rules of a tree of a `StateMachine`, whole, truncated, or from a public state.

    Raises:
      ValueError: if the game is not a `StateMachine`.
    """
    game = tree.game.public.machine if isinstance(tree.game, PublicStateGame) else tree.game
    if not isinstance(game, StateMachine):
        raise ValueError(
            f"tree={tree!r}: expected a tree of a StateMachine, such as Goofspiel; {game.name} has no rules "
            "over arrays"
        )
    return game


def states_at(tree: HistoryTree, histories: IntArray) -> tuple[StateMachine[Any], Any]:
    """The rules of a tree, and the states at some of its histories.

    Args:
      tree: a tree of a `StateMachine`, whole or truncated, or from `enumerate_from`.
      histories: `[H]` histories; from a public state, at it or below.

    Raises:
      ValueError: if the game is not a `StateMachine`.
    """
    machine, game, path = rules_of(tree), tree.game, [np.asarray(histories)]
    level = 1 + game.num_moves if isinstance(game, PublicStateGame) else 0
    begin, end = tree.level_offset[level : level + 2].tolist()
    if path[0].min(initial=begin) < begin:
        raise ValueError("histories: expected histories at or below the public state")
    while (path[-1] >= end).any():
        path.append(np.where(path[-1] >= end, tree.parent[path[-1]], path[-1]))
    root = path[-1] - begin
    if isinstance(game, PublicStateGame):
        state = take_states(game.public.state, root // game.num_choices)
    else:
        state = machine.start(len(root), np)
    for above, below in zip(path[:0:-1], path[-2::-1], strict=True):
        moved = above != below
        after, _ = machine.step(state, tree.action[:, below])
        state = type(state)(*(np.where(moved, new, old) for new, old in zip(after, state, strict=True)))
    return machine, state


def paths_to(tree: HistoryTree, histories: IntArray) -> tuple[IntArray, IntArray]:
    """Moves to histories from the game's root, or from the public state at which the tree begins.

    Args:
      tree: the tree, whole, truncated, or from `enumerate_from`.
      histories: `[H]` histories; from a public state, at it or below.

    Returns:
      `[D, 3, H]` the moves, preceded by -1 for shorter paths; and `[H]` the histories where the paths begin.
    """
    begins = public_roots(tree) if is_from_public_state(tree) else np.zeros(1, np.int64)
    nodes, moves = np.asarray(histories), list[IntArray]()
    while (below := nodes > begins[-1]).any():
        moves.append(np.where(below, tree.action[:, nodes], -1))
        nodes = np.where(below, tree.parent[nodes], nodes)
    stacked = np.stack(moves[::-1]) if moves else np.zeros((0, 3, len(nodes)), np.int16)
    return stacked.astype(np.int16), nodes
