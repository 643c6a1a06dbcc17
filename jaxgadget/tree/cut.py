"""Cuts: where subgames begin, and which roots belong together.

A subgame is a connected component of the roots under shared infostates of either player
(the common-knowledge closure).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import SIMULTANEOUS, TERMINAL, dense_ids
from jaxgadget.tree.components import connected_components
from jaxgadget.tree.history import HistoryTree, check_tree
from jaxgadget.util.arguments import function_name, read_whole_number
from jaxgadget.util.arrays import BoolArray, IntArray

CutSpec: TypeAlias = "str | Cut | Callable[[HistoryTree], BoolArray | IntArray]"
"""`depth:D`, a name of the game's, a predicate that marks (or lists) root histories, or a cut."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Cut:
    """Root histories and the subgames that they form.

    Attributes:
      tree: the game's histories.
      name: how the cut was asked for.
      roots: `[H]` root histories, ascending; none is an ancestor of another.
      subgame: `[H]` subgame of each root, numbered by first root.
      root: `[n]` the root at or above each history of the tree, -1 if there is none.
    """

    tree: HistoryTree
    name: str
    roots: IntArray
    subgame: IntArray
    root: IntArray

    def __repr__(self) -> str:
        return f"<Cut {self.name} of {self.tree.game.name}: {self.num_subgames} subgame(s)>"

    @property
    def num_subgames(self) -> int:
        """Connected components of the roots."""
        return int(self.subgame.max()) + 1

    def only(self, infostate: str, player: int | None = None) -> Cut:
        """The cut that keeps only the subgame in which an infoset lies.

        Args:
          infostate: one of the tree's `infoset_names`.
          player: whose; needed only where both players have an infoset of that name and the two
            lie in different subgames.

        Raises:
          ValueError: if the infoset is unknown, is of both players, or lies in no subgame.
        """
        owners = [p for p in (0, 1) if infostate in self.tree.infoset_names[p]]
        numbers = [self._subgame_of(infostate, p) for p in owners]
        if player is not None or len(set(numbers)) != 1:
            numbers = [self._subgame_of(infostate, player)]
        return kept_subgames(self.tree, self.name, self.roots[self.subgame == numbers[0]])

    def _subgame_of(self, infostate: str, player: int | None) -> int:
        player, infoset = self.tree.find_infoset(infostate, player)
        root = self.root[self.tree.infosets[player].history[infoset]]
        if root < 0:
            raise ValueError(
                f"infostate {infostate!r} of player {player} lies above the cut {self.name!r} of "
                f"{self.tree.game.name}; expected one at or below it"
            )
        return int(self.subgame[np.searchsorted(self.roots, root)])


def cut(tree: HistoryTree, spec: CutSpec) -> Cut:
    """Finds the subgames below a cut.

    Args:
      tree: the game's histories.
      spec: `depth:D` (roots at the first player decision after D moves of the players, past
        any chance; a simultaneous move is one), a name that the game offers, or a function of
        the tree that returns `[n]` booleans or a list of root histories.

    Raises:
      ValueError: if the spec is unknown, no root is left, one root lies below another, a
        root is terminal, or an infoset lies on both sides of the cut or in two subgames.
    """
    check_tree(tree)
    if isinstance(spec, Cut):
        if spec.tree is not tree:
            raise ValueError("cut: this cut was made for another tree; expected one of cut(tree, …)")
        return spec
    name, roots = _find_roots(tree, spec)
    if len(roots) == 0:
        raise ValueError(
            f"cut {name!r} of {tree.game.name} is empty: no history is a root; expected a depth below "
            f"{int(tree.num_moves.max())} or {_names(tree)}"
        )
    return cut_at(tree, name, roots)


def cut_at(tree: HistoryTree, name: str, roots: IntArray, *, inside: Cut | None = None) -> Cut:
    """The cut at some histories.

    Args:
      tree: the game's histories.
      name: how errors call it.
      roots: `[H]` histories, ascending.
      inside: another cut, at or below whose roots these lie (not checked); only there infosets can cross.

    Raises:
      ValueError: if a root is terminal, one lies below another, or an infoset crosses the cut.
    """
    result = _close(tree, name, roots)
    _check_crossing(result, inside)
    return result


def whole_cut(tree: HistoryTree) -> Cut:
    """The cut at the root of the game."""
    root = np.broadcast_to(np.int64(0), tree.num_histories)
    first = np.zeros(1, np.int64)
    return Cut(tree=tree, name="whole game", roots=first, subgame=first, root=root)


def leaf_above(where: Cut, leaves: IntArray) -> IntArray:
    """`[n]` the leaf, of some below a cut, at or above each history, -1 if there is none."""
    if len(leaves) == 0:
        return np.full(where.tree.num_histories, -1, np.int64)
    return cut_at(where.tree, "limit", leaves, inside=where).root


def kept_subgames(tree: HistoryTree, name: str, roots: IntArray) -> Cut:
    """The cut at the roots, ascending, of some whole subgames of another cut (not checked).

    Infosets are not looked at: where none crosses the other cut, none crosses this one.
    """
    return _close(tree, name, roots)


def _names(tree: HistoryTree) -> str:
    names = ", ".join(repr(name) for name in tree.game.cuts())
    return f"one of the game's cuts ({names})" if names else "a predicate (the game names no cuts)"


def _find_roots(tree: HistoryTree, spec: CutSpec) -> tuple[str, IntArray]:
    if isinstance(spec, str):
        depth = read_whole_number(spec.removeprefix("depth:")) if spec.startswith("depth:") else None
        named = tree.game.cuts()
        if depth is not None and depth >= 0:
            return spec, _depth_roots(tree, depth)
        if spec not in named:
            raise ValueError(
                f"cut={spec!r} is unknown for {tree.game.name}; expected 'depth:D' with a whole number D "
                f">= 0, or {_names(tree)}"
            )
        return spec, _listed(tree, spec, np.asarray(named[spec](tree)))
    if not callable(spec):
        raise ValueError(f"cut={spec!r}: expected 'depth:D', a name, a function of the tree, or a Cut")
    name = function_name(spec) or "own cut"
    return name, _listed(tree, name, np.asarray(spec(tree)))


def _listed(tree: HistoryTree, name: str, roots: npt.NDArray[Any]) -> IntArray:
    """What a predicate returned, booleans or histories, as ascending histories."""
    if roots.dtype == np.bool_:
        if roots.shape != (tree.num_histories,):
            raise ValueError(f"cut {name!r} returned shape {roots.shape}, expected ({tree.num_histories},)")
        return np.nonzero(roots)[0]
    if roots.ndim != 1 or (roots.size and not np.issubdtype(roots.dtype, np.integer)):
        raise ValueError(f"cut {name!r} returned {roots.dtype} {roots.shape}; expected booleans or histories")
    if roots.size and not (0 <= roots.min() and roots.max() < tree.num_histories):
        raise ValueError(f"cut {name!r} returned histories outside 0 … {tree.num_histories - 1}")
    return np.unique(roots.astype(np.int64))


def _depth_roots(tree: HistoryTree, depth: int) -> IntArray:
    """Player decisions with `depth` moves behind them; their own move is the next, so none nest."""
    return np.nonzero(((tree.actor & SIMULTANEOUS) > 0) & (tree.num_moves == depth))[0]


def _close(tree: HistoryTree, name: str, roots: IntArray) -> Cut:
    """The cut at some histories, ascending, whatever infosets do."""
    terminal = roots[tree.actor[roots] == TERMINAL]
    if len(terminal):
        raise ValueError(
            f"cut {name!r} of {tree.game.name}: root {tree.moves(int(terminal[0]))} is a terminal history; "
            "expected histories after which somebody still acts"
        )
    root = np.full(tree.num_histories, -1, np.int32 if tree.num_histories < 2**31 else np.int64)
    root[roots] = roots
    offset = tree.level_offset.tolist()
    for begin, end in itertools.pairwise(offset[1:]):
        above = root[tree.parent[begin:end]]
        nested = (root[begin:end] >= 0) & (above >= 0)
        if nested.any():
            h = begin + int(np.argmax(nested))
            raise ValueError(
                f"cut {name!r} of {tree.game.name}: root {tree.moves(h)} lies below root "
                f"{tree.moves(int(root[tree.parent[h]]))}; expected roots of which none follows another"
            )
        root[begin:end] = np.maximum(root[begin:end], above)
    return Cut(tree=tree, name=name, roots=roots, subgame=_components(tree, roots), root=root)


def _components(tree: HistoryTree, roots: IntArray) -> IntArray:
    """`[H]` connected components of roots under shared infostates, numbered by first root."""
    (first, num_first), (second, num_second) = (dense_ids(tree.infostate[player, roots]) for player in (0, 1))
    component = connected_components(first, second + num_first, num_first + num_second)[first]
    _, root, inverse = np.unique(component, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(root))[inverse]


def _check_crossing(cut: Cut, inside: Cut | None) -> None:
    """No infoset lies on both sides of the cut, in two subgames, or below two infostates of its player."""
    tree = cut.tree
    for player in (0, 1):
        acts = tree.infoset[player] >= 0
        acts = np.nonzero(acts if inside is None else acts & (inside.root >= 0))[0]
        infoset = tree.infoset[player, acts]
        first = tree.infosets[player].history
        for label, what in (
            (_is_below, "on both sides of the cut"),
            (_subgame_above, "in two subgames"),
            (_state_above, "below two root infostates of its own player"),
        ):
            differs = label(cut, acts, player) != label(cut, first, player)[infoset]
            if differs.any():
                row = int(np.argmax(differs))
                one, other = int(first[infoset[row]]), int(acts[row])
                remedy = "move the cut"
                if tree.num_moves[one] != tree.num_moves[other]:
                    remedy += (
                        ", by a function of the tree that keeps these histories of different length together"
                    )
                raise ValueError(
                    f"cut {cut.name!r} of {tree.game.name} crosses an infoset: "
                    f"{tree.infoset_names[player][infoset[row]]!r} of player {player} lies {what} (histories "
                    f"{tree.moves(one)} and {tree.moves(other)}); {remedy}"
                )


def _is_below(cut: Cut, histories: IntArray, player: int) -> BoolArray:
    return cut.root[histories] >= 0


def _subgame_above(cut: Cut, histories: IntArray, player: int) -> IntArray:
    root = cut.root[histories]
    root_row = np.searchsorted(cut.roots, np.maximum(root, cut.roots[0]))
    return np.where(root >= 0, cut.subgame[root_row], -1)


def _state_above(cut: Cut, histories: IntArray, player: int) -> IntArray:
    root = cut.root[histories]
    return np.where(root >= 0, cut.tree.infostate[player, root], -1)


def first_below(tree: HistoryTree, where: Cut, marked: BoolArray) -> IntArray:
    """The first marked histories at or below the roots, on every path.

    Raises:
      ValueError: if the tree is truncated before them.
    """
    passed = np.zeros(tree.num_histories, np.bool_)  # whether a marked one lies above
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above = tree.parent[begin:end]
        passed[begin:end] = passed[above] | (marked[above] & (where.root[above] >= 0))
    leaves = np.nonzero(marked & ~passed & (where.root >= 0))[0]
    short = np.setdiff1d(tree.leaves[where.root[tree.leaves] >= 0], leaves)
    if len(short):
        raise ValueError(
            f"the limit lies below history {tree.moves(int(short[0]))}, where the tree of "
            f"{tree.game.name} was truncated; enumerate it deeper, by enumerate_game(game, depth=…)"
        )
    return leaves
