"""Two enumerations of a game, the one truncated earlier than the other: where the histories of one stand."""

from __future__ import annotations

import itertools
import weakref

import numpy as np

from jaxgadget.games.game import dense_ids
from jaxgadget.tree.contract import CONSTANT_SUM_TOLERANCE
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.util.arrays import BoolArray, IntArray


def first_child(tree: HistoryTree, histories: IntArray) -> IntArray:
    """`[H]` the first child of every history, or where it would stand; the root is its own parent."""
    sought = np.asarray(histories, tree.parent.dtype)  # of another type NumPy would copy all parents
    return np.maximum(np.searchsorted(tree.parent, sought), 1)


def places_in(whole: HistoryTree, tree: HistoryTree, what: str) -> IntArray:
    """`[n]` where the histories of a tree stand in another tree of the game, which goes at least as deep.

    The game is the same if its name, moves, actors, chance and payoffs are, and if each player can tell the
    same histories apart.

    Args:
      whole: where they are looked for.
      tree: whose histories, truncated or not.
      what: what was made for `whole`, for messages.

    Raises:
      ValueError: if the games differ, or `whole` was truncated earlier than `tree`.
    """
    check_tree(tree)
    known = tree.cache.setdefault("places", weakref.WeakKeyDictionary())
    if whole not in known:
        known[whole] = _find_places(whole, tree, what)
    return known[whole]


def _find_places(whole: HistoryTree, tree: HistoryTree, what: str) -> IntArray:
    if tree.game.name != whole.game.name:
        raise ValueError(
            f"{what} is for {whole.game.name!r}, not for {tree.game.name!r}: expected one for this game"
        )
    whole_history = np.zeros(tree.num_histories, whole.parent.dtype)
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above = tree.parent[begin:end]
        nth = np.arange(begin, end) - begin - np.searchsorted(above, above)
        counterpart = np.minimum(first_child(whole, whole_history[above]) + nth, whole.num_histories - 1)
        strange = whole.parent[counterpart] != whole_history[above]
        _refuse_deeper(whole, tree, what, whole_history[above[strange]])
        strange |= (whole.action[:, counterpart] != tree.action[:, begin:end]).any(axis=0)
        _refuse(tree, what, "moves", strange, begin)
        whole_history[begin:end] = counterpart
    _compare(whole, tree, what, whole_history)
    return whole_history


def _compare(whole: HistoryTree, tree: HistoryTree, what: str, whole_history: IntArray) -> None:
    """ValueError unless the histories of a tree are like those at their places, which have the same moves."""
    children = [np.bincount(t.parent[1:], minlength=t.num_histories) for t in (tree, whole)]
    fewer = children[0] != children[1][whole_history]
    fewer[tree.leaves] = False
    _refuse(tree, what, "moves", fewer)
    _refuse(tree, what, "actors", tree.actor != whole.actor[whole_history])
    _refuse(tree, what, "chance probabilities", tree.chance != whole.chance[whole_history])
    rounding = CONSTANT_SUM_TOLERANCE * max(1.0, float(np.abs(whole.payoff).max()))
    _refuse(tree, what, "payoffs", np.abs(tree.payoff - whole.payoff[whole_history]) > rounding)
    for player in (0, 1):
        strange = _told_apart(tree.infostate[player], whole.infostate[player, whole_history])
        _refuse(tree, what, f"infostates of player {player}", strange)


def _told_apart(ids: IntArray, others: IntArray) -> BoolArray:
    """`[n]` where one numbering repeats an id and the other does not have that of the same place."""
    strange = np.zeros(len(ids), np.bool_)
    if np.array_equal(ids, others):
        return strange
    for repeated, other in ((ids, others), (others, ids)):
        number, count = dense_ids(repeated)
        first = np.empty(count, np.int64)
        first[number[::-1]] = np.arange(len(repeated))[::-1]
        strange |= other != other[first[number]]
    return strange


def _refuse_deeper(whole: HistoryTree, tree: HistoryTree, what: str, above: IntArray) -> None:
    """ValueError if one of these histories is where the other tree was truncated."""
    ends = above[np.isin(above, whole.leaves)]
    if len(ends):
        raise ValueError(
            f"{what} is for a tree of {tree.game.name!r} that was truncated at history "
            f"{whole.moves(int(ends[0]))}: expected one for a tree as deep as this"
        )


def _refuse(tree: HistoryTree, what: str, which: str, strange: BoolArray, begin: int = 0) -> None:
    """ValueError if something is not the same at a history; these begin at `begin`."""
    if strange.any():
        moves = tree.moves(begin + int(np.argmax(strange)))
        raise ValueError(
            f"{what} is for another game that is called {tree.game.name!r}: {which} differ at history "
            f"{moves}; expected one for this game"
        )
