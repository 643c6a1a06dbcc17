"""Two trees of which one has fewer moves or infosets: which histories of one are those of the other.

Moves are the same by their names, chance's by the outcome's id, so that a game with other bets may number
them otherwise.
"""

from __future__ import annotations

import itertools
import weakref

import numpy as np

from jaxgadget.games.game import CHANCE, Game, dense_ids
from jaxgadget.tree.contract import CONSTANT_SUM_TOLERANCE
from jaxgadget.tree.history import HistoryTree
from jaxgadget.util.arrays import BoolArray, IntArray


def same_actions(game: Game, other: Game, player: int) -> IntArray:
    """`[num_actions + 1]` the id in another game of the action of the same name, -2 for none; -1 is -1.

    Raises:
      ValueError: if the other game has several actions of a name that both have, and numbers them otherwise.
    """
    names, others = (
        [of.action_string(player, action) for action in range(of.num_actions)] for of in (game, other)
    )
    if names == others:
        return np.append(np.arange(len(names)), -1)
    twice = [name for name in set(names) & set(others) if names.count(name) + others.count(name) > 2]
    if twice:
        raise ValueError(
            f"player {player} has several actions called {min(twice)!r} in {game.name} or {other.name}; "
            "expected games whose actions are told apart by their names"
        )
    number = {name: action for action, name in enumerate(others)}
    return np.array([*(number.get(name, -2) for name in names), -1])


def match_histories(tree: HistoryTree, other: HistoryTree) -> IntArray:
    """`[n]` the histories of another tree that have the same moves, -1 where there is none; found once.

    Raises:
      ValueError: if histories with the same moves differ in who acts, in chance or in payoffs, or the
        other tree was truncated at one after which this one goes on: then the games are not the same but
        for menus and for what players know.
    """
    known = tree.cache.setdefault("matching histories", weakref.WeakKeyDictionary())
    if other not in known:
        match = _match(tree, other)
        _check_same(tree, other, match)
        known[other] = match
    return known[other]


def _match(tree: HistoryTree, other: HistoryTree) -> IntArray:
    match = np.full(tree.num_histories, -1, np.int64)
    match[0] = 0
    actions = [same_actions(tree.game, other.game, player) for player in (0, 1)]
    levels, others = (list(itertools.pairwise(t.level_offset[1:].tolist())) for t in (tree, other))
    for (begin, end), (other_begin, other_end) in zip(levels, others, strict=False):
        action, theirs = tree.action[:, begin:end], other.action[:, other_begin:other_end]
        moves = np.stack([actions[0][action[0]], actions[1][action[1]], action[2]])
        first, second, outcome = np.concatenate([moves, theirs], axis=1).astype(np.int64) + 2
        choices, outcomes = tree.game.num_actions + other.game.num_actions, int(outcome.max()) + 1
        number, width = dense_ids((first * (choices + 2) + second) * outcomes + outcome)
        parent = match[tree.parent[begin:end]]
        key = np.where(parent >= 0, parent * width + number[: end - begin], -1)
        their_key = other.parent[other_begin:other_end].astype(np.int64) * width + number[end - begin :]
        order = np.argsort(their_key, kind="stable")  # nearly in order
        index = np.minimum(np.searchsorted(their_key, key, sorter=order), len(order) - 1)
        same = their_key[order[index]] == key
        match[begin:end] = np.where(same, other_begin + order[index], -1)
    return match


def _check_same(tree: HistoryTree, other: HistoryTree, match: IntArray) -> None:
    both = np.nonzero(match >= 0)[0]
    theirs = match[both]
    _refuse(tree, other, "actors", both, tree.actor[both] != other.actor[theirs])
    is_chance = tree.actor[both] == CHANCE
    count, their_count = (np.bincount(t.parent[1:], minlength=t.num_histories) for t in (tree, other))
    fewer = count[both[is_chance]] != their_count[theirs[is_chance]]
    _refuse(tree, other, "chance outcomes", both[is_chance], fewer)
    differs = np.abs(tree.chance[both] - other.chance[theirs]) > CONSTANT_SUM_TOLERANCE
    _refuse(tree, other, "chance probabilities", both, differs)
    rounding = CONSTANT_SUM_TOLERANCE * max(1.0, float(np.abs(tree.payoff).max()))
    differs = np.abs(tree.payoff[both] - other.payoff[theirs]) > rounding
    _refuse(tree, other, "payoffs", both, differs)
    ends = np.isin(theirs, other.leaves) & ~np.isin(both, tree.leaves)
    _refuse(tree, other, "depths", both, ends)


def _refuse(
    tree: HistoryTree, other: HistoryTree, which: str, histories: IntArray, strange: BoolArray
) -> None:
    """ValueError if something is not the same at one of these histories."""
    if strange.any():
        moves = tree.moves(int(histories[np.argmax(strange)]))
        raise ValueError(
            f"{tree.game.name!r} and {other.game.name!r} are not one game with other menus or other "
            f"infosets: {which} differ at history {moves}; expected trees of a game and its abstraction"
        )
