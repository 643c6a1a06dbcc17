"""Cuts: roots of subgames, and their partition into subgames.

A subgame is a connected component of the roots under shared infostates of either player
(the common-knowledge closure).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jaxgadget.core.components import connected_components
from jaxgadget.games.cuts import cut_rule, name_cuts
from jaxgadget.games.game import TERMINAL, dense_ids
from jaxgadget.tree.history import HistoryTree, check_histories
from jaxgadget.tree.public import check_tree
from jaxgadget.tree.tree import Tree
from jaxgadget.util.arguments import function_name
from jaxgadget.util.arrays import BoolArray, IntArray

CutSpec: TypeAlias = "str | Cut | Sequence[int] | IntArray | Callable[[Any], BoolArray | IntArray]"
"""Specification of a cut: `depth:D`, `chance`, a named cut of the game, nodes of the tree, a function of the
tree that marks or lists nodes, or a `Cut`."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Cut:
    """Root histories and their partition into subgames; in hand form, one public node for each subgame.

    Attributes:
      tree: the game, in history or hand form.
      name: the specification of the cut.
      roots: `[H]` root histories, ascending; none is an ancestor of another.
      subgame: `[H]` subgame of each root, numbered by first root.
      root: `[n]` the root at or above each history of the tree, -1 if there is none.
      part_of: the cut of which this one has some of the subgames (`only`); None for a cut with all of them.
    """

    tree: Tree
    name: str
    roots: IntArray
    subgame: IntArray
    root: IntArray
    part_of: Cut | None = None

    def __repr__(self) -> str:
        return f"<Cut {self.name} of {self.tree.game.name}: {self.num_subgames} subgame(s)>"

    @property
    def histories(self) -> HistoryTree:
        """The tree; raises ValueError if it is in hand form."""
        return check_histories(self.tree)

    @property
    def whole(self) -> Cut:
        """The cut with all its subgames: this one, or the one of which it is a part."""
        return self if self.part_of is None else self.part_of

    @property
    def num_subgames(self) -> int:
        """Number of connected components of the roots."""
        return int(self.subgame.max()) + 1

    def only(self, infostate: str, player: int | None = None) -> Cut:
        """The cut restricted to the subgame that contains an infoset, for functions that take a cut.

        Args:
          infostate: one of the tree's `infoset_names`.
          player: its player; required only if both players have an infoset of that name, in different
            subgames.

        Raises:
          ValueError: if the infoset is unknown, ambiguous, or not in a subgame.
        """
        owners = [p for p in (0, 1) if infostate in self.tree.infoset_names[p]]
        numbers = [self._subgame_of(infostate, p) for p in owners]
        if player is not None or len(set(numbers)) != 1:
            numbers = [self._subgame_of(infostate, player)]
        alone = kept_subgames(self.tree, self.name, self.roots[self.subgame == numbers[0]])
        return dataclasses.replace(alone, part_of=self.whole)

    def _subgame_of(self, infostate: str, player: int | None) -> int:
        player, infoset = self.tree.find_infoset(infostate, player)
        root = self.root[self.tree.infosets[player].history[infoset]]
        if root < 0:
            raise ValueError(
                f"infostate {infostate!r} of player {player} lies above the cut {self.name!r} of "
                f"{self.tree.game.name}; expected one at or below it"
            )
        return int(self.subgame[np.searchsorted(self.roots, root)])


def cut(tree: Tree, spec: CutSpec) -> Cut:
    """Finds the subgames below a cut.

    Args:
      tree: the game, in history or hand form.
      spec: `depth:D` (roots at the first player decision after D moves of the players, past
        any chance; a simultaneous move counts once), `chance` (decisions right after a chance outcome that
        follows a move of a player), a named cut of the game, nodes of the tree (histories or public nodes),
        or a function of the tree that returns `[n]` booleans or such nodes.

    Raises:
      ValueError: if the spec is unknown, there is no root, one root lies below another, a
        root is terminal, or an infoset lies on both sides of the cut or in two subgames.
    """
    check_tree(tree)
    if isinstance(spec, Cut):
        if spec.tree is not tree:
            raise ValueError(
                "cut: the cut is of another tree; expected a cut of this tree, from cut(tree, …)"
            )
        return spec
    name, roots = _find_roots(tree, spec)
    if len(roots) == 0:
        raise ValueError(
            f"cut {name!r} of {tree.game.name} has no roots; expected a depth below "
            f"{int(tree.num_moves.max())}, which counts players' moves and not chance's, or "
            f"{name_cuts(tree.game)}"
        )
    return cut_at(tree, name, roots)


def cut_at(tree: Tree, name: str, roots: IntArray, *, inside: Cut | None = None) -> Cut:
    """The cut at given histories.

    Args:
      tree: the game's histories.
      name: name of the cut, for errors.
      roots: `[H]` histories, ascending.
      inside: a cut at or above all roots (not checked); only infosets below it can cross.

    Raises:
      ValueError: if a root is terminal, one lies below another, or an infoset crosses the cut.
    """
    result = _close(tree, name, roots)
    _check_crossing(result, inside)
    return result


def whole_cut(tree: Tree) -> Cut:
    """The cut at the root of the game."""
    root = np.broadcast_to(np.int64(0), len(tree.parent))
    first = np.zeros(1, np.int64)
    return Cut(tree=tree, name="whole game", roots=first, subgame=first, root=root)


def leaf_above(where: Cut, leaves: IntArray) -> IntArray:
    """`[n]` the leaf, among leaves below a cut, at or above each history, -1 for none."""
    if len(leaves) == 0:
        return np.full(len(where.tree.parent), -1, np.int64)
    return cut_at(where.tree, "limit", leaves, inside=where).root


def kept_subgames(tree: Tree, name: str, roots: IntArray) -> Cut:
    """The cut at the roots, ascending, of complete subgames of another cut (not checked).

    Crossing infosets are not checked, since an infoset that crosses this cut also crosses the other one.
    """
    return _close(tree, name, roots)


def _find_roots(tree: Tree, spec: CutSpec) -> tuple[str, IntArray]:
    if isinstance(spec, str):
        return spec, _listed(tree, spec, np.asarray(cut_rule(tree.game, spec)(tree)))
    if isinstance(spec, Sequence | np.ndarray):
        return "nodes", _listed(tree, "nodes", np.asarray(spec))
    if not callable(spec):
        raise ValueError(f"cut={spec!r}: expected 'depth:D', a name, nodes, a function of the tree, or a Cut")
    name = function_name(spec) or "own cut"
    return name, _listed(tree, name, np.asarray(spec(tree)))


def _listed(tree: Tree, name: str, roots: npt.NDArray[Any]) -> IntArray:
    """Converts the result of a predicate, booleans or histories, to ascending histories."""
    if roots.dtype == np.bool_:
        if roots.shape != (len(tree.parent),):
            raise ValueError(f"cut {name!r} returned shape {roots.shape}, expected ({len(tree.parent)},)")
        return np.nonzero(roots)[0]
    if roots.ndim != 1 or (roots.size and not np.issubdtype(roots.dtype, np.integer)):
        raise ValueError(f"cut {name!r} returned {roots.dtype} {roots.shape}; expected booleans or histories")
    if roots.size and not (0 <= roots.min() and roots.max() < len(tree.parent)):
        raise ValueError(f"cut {name!r} returned histories or nodes outside 0 … {len(tree.parent) - 1}")
    return np.unique(roots.astype(np.int64))


def _close(tree: Tree, name: str, roots: IntArray) -> Cut:
    """The cut at given histories, ascending, without checking infosets."""
    terminal = roots[tree.actor[roots] == TERMINAL]
    if len(terminal):
        raise ValueError(
            f"cut {name!r} of {tree.game.name}: root {tree.moves(int(terminal[0]))} is a terminal history; "
            "expected non-terminal histories"
        )
    size = len(tree.parent)
    root = np.full(size, -1, np.int32 if size < 2**31 else np.int64)
    root[roots] = roots
    offset = tree.level_offset.tolist()
    for begin, end in itertools.pairwise(offset[1:]):
        above = root[tree.parent[begin:end]]
        nested = (root[begin:end] >= 0) & (above >= 0)
        if nested.any():
            h = begin + int(np.argmax(nested))
            raise ValueError(
                f"cut {name!r} of {tree.game.name}: root {tree.moves(h)} lies below root "
                f"{tree.moves(int(root[tree.parent[h]]))}; expected roots none of which is an ancestor of "
                "another"
            )
        root[begin:end] = np.maximum(root[begin:end], above)
    return Cut(tree=tree, name=name, roots=roots, subgame=find_components(tree, roots), root=root)


def find_components(tree: Tree, roots: IntArray) -> IntArray:
    """`[H]` connected components of roots under shared infostates, numbered by first root."""
    (first, num_first), (second, num_second) = (dense_ids(tree.infostate[player, roots]) for player in (0, 1))
    component = connected_components(first, second + num_first, num_first + num_second)[first]
    _, root, inverse = np.unique(component, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(root))[inverse]


def _check_crossing(cut: Cut, inside: Cut | None) -> None:
    """Checks that no infoset is on both sides of the cut, in two subgames, or below two root infostates."""
    tree = cut.tree
    for player in (0, 1):
        acts = tree.infoset[player] >= 0
        acts = np.nonzero(acts if inside is None else acts & (inside.root >= 0))[0]
        infoset = tree.infoset[player, acts]
        first = tree.decisions[player].history
        for label, position in (
            (_is_below, "on both sides of the cut"),
            (_subgame_above, "in two subgames"),
            (_state_above, "below two root infostates of its own player"),
        ):
            differs = label(cut, acts, player) != label(cut, first, player)[infoset]
            if differs.any():
                row = int(np.argmax(differs))
                history, other = int(first[infoset[row]]), int(acts[row])
                remedy = "move the cut"
                if tree.num_moves[history] != tree.num_moves[other]:
                    remedy += ", with a function of the tree that puts both histories on one side"
                raise ValueError(
                    f"cut {cut.name!r} of {tree.game.name} crosses an infoset: "
                    f"{tree.infoset_names[player][infoset[row]]!r} of player {player} lies {position} "
                    f"(histories {tree.moves(history)} and {tree.moves(other)}); {remedy}"
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


def first_below(tree: Tree, where: Cut, marked: BoolArray) -> IntArray:
    """The first marked node at or below the roots on every path.

    Raises:
      ValueError: if the tree is truncated before them.
    """
    passed = np.zeros(len(tree.parent), np.bool_)  # True if an ancestor is marked
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above = tree.parent[begin:end]
        passed[begin:end] = passed[above] | (marked[above] & (where.root[above] >= 0))
    leaves = np.nonzero(marked & ~passed & (where.root >= 0))[0]
    # Truncated leaves below the limit do not matter.
    truncated = tree.leaves[(where.root[tree.leaves] >= 0) & ~passed[tree.leaves]]
    short = np.setdiff1d(truncated, leaves)
    if len(short):
        raise ValueError(
            f"the depth limit lies below history {tree.moves(int(short[0]))}, where the tree of "
            f"{tree.game.name} was truncated; enumerate it deeper, with enumerate_game(game, depth=…)"
        )
    return leaves
