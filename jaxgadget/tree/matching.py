"""Matching histories of two trees: a game and its abstraction, or one game enumerated to two depths.

Actions are matched by name, chance outcomes by id, so that a game with other bets may use other action ids.
"""

from __future__ import annotations

import itertools
import weakref

import numpy as np

from jaxgadget.games.game import CHANCE, Game, dense_ids, first_positions
from jaxgadget.tree.contract import CONSTANT_SUM_TOLERANCE
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.util.arrays import BoolArray, IntArray


def same_actions(game: Game, other: Game, player: int) -> IntArray:
    """`[num_actions + 1]` id of each action in another game, by name, -2 for none; the last entry is -1.

    Raises:
      ValueError: if an action name that both games have is not unique, and ids differ.
    """
    names, others = (
        [of.action_string(player, action) for action in range(of.num_actions)] for of in (game, other)
    )
    if names == others:
        return np.append(np.arange(len(names)), -1)
    twice = [name for name in set(names) & set(others) if names.count(name) + others.count(name) > 2]
    if twice:
        raise ValueError(
            f"player {player} has several actions named {min(twice)!r} in {game.name} or {other.name}; "
            "expected games with unique action names"
        )
    action_of = {name: action for action, name in enumerate(others)}
    return np.array([*(action_of.get(name, -2) for name in names), -1])


def match_histories(tree: HistoryTree, other: HistoryTree) -> IntArray:
    """`[n]` the histories of another tree with the same moves, -1 for none; cached.

    Raises:
      ValueError: if matched histories differ in acting players, chance or payoffs, or a matched history is a
        leaf of the other tree only: the games may differ only in menus and in players' information.
    """
    cached = tree.cache.setdefault("matching histories", weakref.WeakKeyDictionary())
    if other not in cached:
        match = _match_moves(tree, other)
        _check_abstraction(tree, other, match)
        cached[other] = match
    return cached[other]


def _match_moves(tree: HistoryTree, other: HistoryTree) -> IntArray:
    match = np.full(tree.num_histories, -1, np.int64)
    match[0] = 0
    actions = [same_actions(tree.game, other.game, player) for player in (0, 1)]
    levels, others = (list(itertools.pairwise(t.level_offset[1:].tolist())) for t in (tree, other))
    for (begin, end), (other_begin, other_end) in zip(levels, others, strict=False):
        action, theirs = tree.action[:, begin:end], other.action[:, other_begin:other_end]
        moves = np.stack([actions[0][action[0]], actions[1][action[1]], action[2]])
        first, second, outcome = np.concatenate([moves, theirs], axis=1).astype(np.int64) + 2
        choices, outcomes = tree.game.num_actions + other.game.num_actions, int(outcome.max()) + 1
        move_id, width = dense_ids((first * (choices + 2) + second) * outcomes + outcome)
        parent = match[tree.parent[begin:end]]
        key = np.where(parent >= 0, parent * width + move_id[: end - begin], -1)
        their_key = other.parent[other_begin:other_end].astype(np.int64) * width + move_id[end - begin :]
        order = np.argsort(their_key, kind="stable")  # nearly in order
        index = np.minimum(np.searchsorted(their_key, key, sorter=order), len(order) - 1)
        same = their_key[order[index]] == key
        match[begin:end] = np.where(same, other_begin + order[index], -1)
    return match


def _check_abstraction(tree: HistoryTree, other: HistoryTree, match: IntArray) -> None:
    matched = np.nonzero(match >= 0)[0]
    theirs = match[matched]
    _check_matched(tree, other, "actors", matched, tree.actor[matched] != other.actor[theirs])
    is_chance = tree.actor[matched] == CHANCE
    count, their_count = (np.bincount(t.parent[1:], minlength=t.num_histories) for t in (tree, other))
    fewer = count[matched[is_chance]] != their_count[theirs[is_chance]]
    _check_matched(tree, other, "chance outcomes", matched[is_chance], fewer)
    differs = np.abs(tree.chance[matched] - other.chance[theirs]) > CONSTANT_SUM_TOLERANCE
    _check_matched(tree, other, "chance probabilities", matched, differs)
    rounding = CONSTANT_SUM_TOLERANCE * max(1.0, float(np.abs(tree.payoff).max()))
    differs = np.abs(tree.payoff[matched] - other.payoff[theirs]) > rounding
    _check_matched(tree, other, "payoffs", matched, differs)
    ends = np.isin(theirs, other.leaves) & ~np.isin(matched, tree.leaves)
    _check_matched(tree, other, "depths", matched, ends)


def _check_matched(
    tree: HistoryTree, other: HistoryTree, field: str, histories: IntArray, differs: BoolArray
) -> None:
    """Raises ValueError if `differs` is True at one of these histories."""
    if differs.any():
        moves = tree.moves(int(histories[np.argmax(differs)]))
        raise ValueError(
            f"{tree.game.name!r} and {other.game.name!r} are not one game with different menus or "
            f"infosets: {field} differ at history {moves}; expected trees of a game and its abstraction"
        )


def first_child(tree: HistoryTree, histories: IntArray) -> IntArray:
    """`[H]` the first child of every history, or its insertion position if it has none."""
    parents = np.asarray(histories, tree.parent.dtype)  # with another dtype NumPy would copy tree.parent
    return np.maximum(np.searchsorted(tree.parent, parents), 1)  # 1: the root is its own parent


def child_after(tree: HistoryTree, histories: IntArray, moves: IntArray) -> IntArray:
    """`[H]` the histories after moves `[3, H]`; those without a move stay.

    Raises:
      ValueError: if the tree has no such history.
    """
    moved = moves.max(axis=0) >= 0
    first = first_child(tree, histories)
    count = first_child(tree, histories + 1) - first
    child = np.where(moved, -1, histories)
    for number in range(int(count[moved].max(initial=0))):
        candidate = np.minimum(first + number, tree.num_histories - 1)
        fits = moved & (number < count) & (tree.action[:, candidate] == moves).all(axis=0)
        child = np.where(fits, candidate, child)
    if (child < 0).any():
        wrong = int(np.argmin(child))
        raise ValueError(
            f"{tree.game.name} has no move {moves[:, wrong].tolist()} after "
            f"{tree.moves(int(histories[wrong]))}"
        )
    return child


def places_in(whole: HistoryTree, tree: HistoryTree, argument: str) -> IntArray:
    """`[n]` index in `whole` of each history of another tree of the same game; cached.

    Games are equal if their names, moves, actors, chance probabilities and payoffs are, and if players'
    infostates partition histories equally.

    Args:
      whole: a tree at least as deep as `tree`.
      tree: the tree of the histories, truncated or not.
      argument: description of the object that was made for `whole`, for errors.

    Raises:
      ValueError: if the games differ, or `whole` was truncated earlier than `tree`.
    """
    check_histories(tree)
    cached = tree.cache.setdefault("places", weakref.WeakKeyDictionary())
    if whole not in cached:
        cached[whole] = _match_depths(whole, tree, argument)
    return cached[whole]


def _match_depths(whole: HistoryTree, tree: HistoryTree, argument: str) -> IntArray:
    if tree.game.name != whole.game.name:
        raise ValueError(
            f"{argument} is for {whole.game.name!r}, not for {tree.game.name!r}: expected one for this game"
        )
    whole_history = np.zeros(tree.num_histories, whole.parent.dtype)
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above = tree.parent[begin:end]
        nth = np.arange(begin, end) - begin - np.searchsorted(above, above)
        counterpart = np.minimum(first_child(whole, whole_history[above]) + nth, whole.num_histories - 1)
        strange = whole.parent[counterpart] != whole_history[above]
        _check_depth(whole, tree, argument, whole_history[above[strange]])
        strange |= (whole.action[:, counterpart] != tree.action[:, begin:end]).any(axis=0)
        _check_equal(tree, argument, "moves", strange, begin)
        whole_history[begin:end] = counterpart
    _check_same_game(whole, tree, argument, whole_history)
    return whole_history


def _check_same_game(whole: HistoryTree, tree: HistoryTree, argument: str, whole_history: IntArray) -> None:
    """Raises ValueError unless matched histories, which have the same moves, agree in all else."""
    children = [np.bincount(t.parent[1:], minlength=t.num_histories) for t in (tree, whole)]
    fewer = children[0] != children[1][whole_history]
    fewer[tree.leaves] = False
    _check_equal(tree, argument, "moves", fewer)
    _check_equal(tree, argument, "actors", tree.actor != whole.actor[whole_history])
    _check_equal(tree, argument, "chance probabilities", tree.chance != whole.chance[whole_history])
    rounding = CONSTANT_SUM_TOLERANCE * max(1.0, float(np.abs(whole.payoff).max()))
    _check_equal(tree, argument, "payoffs", np.abs(tree.payoff - whole.payoff[whole_history]) > rounding)
    for player in (0, 1):
        strange = _differently_numbered(tree.infostate[player], whole.infostate[player, whole_history])
        _check_equal(tree, argument, f"infostates of player {player}", strange)


def _differently_numbered(ids: IntArray, others: IntArray) -> BoolArray:
    """Mask `[n]` of entries at which two numberings define different partitions."""
    strange = np.zeros(len(ids), np.bool_)
    if np.array_equal(ids, others):
        return strange
    for repeated, other in ((ids, others), (others, ids)):
        group, count = dense_ids(repeated)
        first = first_positions(group, count)
        strange |= other != other[first[group]]
    return strange


def _check_depth(whole: HistoryTree, tree: HistoryTree, argument: str, above: IntArray) -> None:
    """Raises ValueError if one of these histories is a leaf of `whole`."""
    ends = above[np.isin(above, whole.leaves)]
    if len(ends):
        raise ValueError(
            f"{argument} is for a tree of {tree.game.name!r} that was truncated at history "
            f"{whole.moves(int(ends[0]))}: expected one for a tree as deep as this"
        )


def _check_equal(tree: HistoryTree, argument: str, field: str, differs: BoolArray, begin: int = 0) -> None:
    """Raises ValueError if `differs` is True at a history; the first entry is history `begin`."""
    if differs.any():
        moves = tree.moves(begin + int(np.argmax(differs)))
        raise ValueError(
            f"{argument} is for a different game named {tree.game.name!r}: {field} differ at history "
            f"{moves}; expected one for this game"
        )
