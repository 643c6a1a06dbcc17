"""Knowledge-limited subgames at a cut: covers by order of knowledge, conflicts, and safe step sizes.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021). Two root histories are adjacent if
they share an infostate of either player. Of an own infostate I, `I¹` is its root histories; `I²` those of
the opponent's infostates J that meet I; `I³` those of the own infostates that meet I²; and so on to `I^∞`,
the common-knowledge component. Order k (odd) *frees* Iᵏ, whose own decisions are solved for, and *keeps*
Iᵏ⁺¹, where own infostates outside of Iᵏ follow the blueprint. Unfrozen, all of Iᵏ⁺¹ is solved for.

Deviation from the paper: a frozen cover has Iᵏ alone. The payoff of the rest of a J against the blueprint
does not depend on the strategy in Iᵏ; it is a constant on the opponent's sequences, added by the caller
(`gadgets/frozen.py`). So at order 1 the subgames of all own infostates together have every root history once.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from jaxgadget.games.game import dense_ids
from jaxgadget.tree.cover import Cover, build_cover, cover_of, find_roots
from jaxgadget.tree.cut import Cut
from jaxgadget.util.arguments import check_player
from jaxgadget.util.arrays import FloatArray, IntArray

SHARES = ("degree", "program")
"""Methods of `shares`."""

PROGRAM_TOLERANCE = 1e-9
"""Feasibility tolerance of HiGHS; the shares are scaled down by their violation."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KnowledgeCover:
    """A subgame for each of a player's I root infostates: its knowledge up to an order.

    Infostates with equal subgames (same kept and same solved infostates) share one. Subgames are sorted by
    their first infostate; at order `math.inf` they are the cut's subgames.

    Attributes:
      cover: the subgames.
      player: the player of the infostates.
      order: k, odd, or `math.inf` for the common-knowledge components.
      unfrozen: True if all kept infostates are solved for; otherwise the cover has only freed infostates.
      infostate: `[I]` ids of the player's root infostates in the tree, ascending.
      subgame: `[I]` the subgame of each.
      target: `[I]` index of each infostate's root in its own subgame, as in `find_roots` and a forest's
        `roots`; only the strategy below it is adopted.
    """

    cover: Cover
    player: int
    order: float
    unfrozen: bool
    infostate: IntArray
    subgame: IntArray
    target: IntArray

    def __repr__(self) -> str:
        description = f"order {self.order}{', unfrozen' if self.unfrozen else ''}"
        count = f"{len(self.infostate)} infostates of player {self.player} in {self.cover.num_subgames}"
        return f"<KnowledgeCover of {self.cut!r}: {description}, {count} subgame(s)>"

    @property
    def cut(self) -> Cut:
        """The cut of all root histories."""
        return self.cover.cut


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class InfostateGraph:
    """Bipartite graph of both players' root infostates; edges are shared root histories.

    Attributes:
      own: `[I]` ids of a player's root infostates, ascending.
      opponent: `[J]` ids of the opponent's, ascending.
      own_of_root: `[H]` index of the player's infostate of each root history.
      opponent_of_root: `[H]` index of the opponent's.
      meets: sparse boolean `[I, J]`, True if two infostates share a root history.
    """

    own: IntArray
    opponent: IntArray
    own_of_root: IntArray
    opponent_of_root: IntArray
    meets: csr_array

    def conflicts(self) -> csr_array:
        """Boolean `[I, I]`: own infostates that meet a common infostate of the opponent."""
        return csr_array(self.meets @ self.meets.T)


def infostate_graph(cut: Cut, player: int) -> InfostateGraph:
    """Builds the graph of root infostates at a cut.

    Args:
      cut: the root histories.
      player: the player of the rows.

    Raises:
      ValueError: if there is no such player.
    """
    states = cut.histories.infostate[:, cut.roots]
    player = check_player(player)
    own, own_of_root = np.unique(states[player], return_inverse=True)
    opponent, opponent_of_root = np.unique(states[1 - player], return_inverse=True)
    return InfostateGraph(
        own=own,
        opponent=opponent,
        own_of_root=own_of_root,
        opponent_of_root=opponent_of_root,
        meets=_relation(own_of_root, opponent_of_root, (len(own), len(opponent))),
    )


def knowledge_cover(
    cut: Cut, player: int, order: float, *, unfrozen: bool = False, apart: IntArray | None = None
) -> KnowledgeCover:
    """Builds the subgames of a player's root infostates, by its knowledge up to an order.

    Args:
      cut: the root histories.
      player: the player of the infostates.
      order: k: 1, 3, 5, … or `math.inf`. Orders beyond the widest component are equivalent to `math.inf`.
      unfrozen: solve for all kept infostates, not only freed ones.
      apart: `[I]` group ids: infostates of different groups do not share a subgame of a finite order.

    Raises:
      ValueError: if the player, the order or `unfrozen` is invalid.
    """
    order, unfrozen = check_order(order), check_unfrozen(unfrozen)
    graph = infostate_graph(cut, player)
    if order == math.inf:
        first_root = np.unique(graph.own_of_root, return_index=True)[1]
        cover, subgame = cover_of(cut), cut.subgame[first_root]
    else:
        cover, subgame = _limited_cover(cut, player, graph, int(order), unfrozen, apart)
    roots, _ = find_roots(cover, player)
    own = np.searchsorted(graph.own, roots.infostate)
    root_keys = own * cover.num_subgames + roots.subgame  # ascending
    return KnowledgeCover(
        cover=cover,
        player=int(player),
        order=order,
        unfrozen=unfrozen,
        infostate=graph.own,
        subgame=subgame,
        target=np.searchsorted(root_keys, np.arange(len(graph.own)) * cover.num_subgames + subgame),
    )


def check_order(order: Any) -> float:
    """Returns a valid order of knowledge, 1, 3, 5, … or `math.inf`; raises ValueError otherwise."""
    is_whole = isinstance(order, int | np.integer) and not isinstance(order, bool)
    is_infinite = isinstance(order, float) and order == math.inf
    if not (is_infinite or (is_whole and order >= 1 and order % 2 == 1)):
        raise ValueError(f"order={order!r}: expected an odd integer >= 1, or math.inf for common knowledge")
    return math.inf if is_infinite else int(order)


def check_unfrozen(unfrozen: Any) -> bool:
    """Returns a valid flag `unfrozen`; raises ValueError unless it is a bool."""
    if not isinstance(unfrozen, bool | np.bool_):
        raise ValueError(f"unfrozen={unfrozen!r}: expected True or False")
    return bool(unfrozen)


def _limited_cover(
    cut: Cut, player: int, graph: InfostateGraph, order: int, unfrozen: bool, apart: IntArray | None
) -> tuple[Cover, IntArray]:
    """The cover of a finite order, and `[I]` the subgame of each own infostate."""
    freed = _freed(graph, order)
    kept_opponent = csr_array(freed @ graph.meets)  # `[I, J]`
    subgame, first = _equal_rows(kept_opponent if unfrozen else freed, apart)
    every_root = np.arange(len(cut.roots))
    in_own = _relation(graph.own_of_root, every_root, (len(graph.own), len(every_root)))
    in_opponent = _relation(graph.opponent_of_root, every_root, (len(graph.opponent), len(every_root)))
    roots = csr_array(kept_opponent[first] @ in_opponent if unfrozen else freed[first] @ in_own)  # `[S, H]`
    subgame_of_root, root = roots.nonzero()
    return build_cover(cut, cut.roots[root], subgame_of_root), subgame


def _freed(graph: InfostateGraph, order: int) -> csr_array:
    """Boolean `[I, I]`: own infostates in Iᵏ, for each own infostate I."""
    conflicts = graph.conflicts()
    alone = np.arange(len(graph.own))
    freed = _relation(alone, alone, (len(alone), len(alone)))
    for _ in range(order // 2):
        further = csr_array(freed @ conflicts)
        if further.nnz == freed.nnz:
            break  # all components are complete
        freed = further
    return freed


def _relation(row: IntArray, column: IntArray, shape: tuple[int, int]) -> csr_array:
    """A sparse boolean matrix, True at the given positions, which may be duplicate."""
    return csr_array((np.ones(len(row), np.bool_), (row, column)), shape=shape)


def _equal_rows(relation: csr_array, apart: IntArray | None) -> tuple[IntArray, IntArray]:
    """`[n]` a class for each row, equal for equal rows of one group, and the first row of each class."""
    relation.sort_indices()
    size = np.diff(relation.indptr)
    row = np.repeat(np.arange(len(size)), size)
    columns = np.full((len(size), int(size.max())), -1, relation.indices.dtype)
    columns[row, np.arange(len(row)) - relation.indptr[row]] = relation.indices
    if apart is not None:
        columns = np.concatenate([columns, apart[:, None]], axis=1)
    _, first, same = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return dense_ids(first[same])[0], np.sort(first)


def colour_classes(cut: Cut, player: int) -> IntArray:
    """Partitions a player's root infostates; no two of a class meet a common infostate of the opponent.

    Greedy colouring by descending number of conflicts (Welsh and Powell 1967), which needs at most one class
    more than the largest number of conflicts. Deterministic.

    Args:
      cut: the root histories.
      player: the player of the infostates.

    Returns:
      `[I]` the class of each infostate, in order of their ids; 0, 1, … without gaps.

    Raises:
      ValueError: if there is no such player.
    """
    graph = infostate_graph(cut, player)
    degree = np.diff(graph.conflicts().indptr) - 1
    met_by = np.split(graph.meets.indices, graph.meets.indptr[1:-1])
    taken: list[set[int]] = [set() for _ in graph.opponent]  # classes used at each infostate of the opponent
    colour = np.empty(len(graph.own), np.int64)
    for own in np.argsort(-degree, kind="stable").tolist():
        met = met_by[own].tolist()
        colour[own] = next(
            class_idx for class_idx in itertools.count() if all(class_idx not in taken[j] for j in met)
        )
        for j in met:
            taken[j].add(int(colour[own]))
    return colour


def shares(cut: Cut, player: int, method: str = "degree") -> FloatArray:
    """Step sizes with which all of a player's root infostates may move to their new strategies at once.

    Shares λ in [0, 1] sum to at most 1 over the own infostates that meet any one of the opponent's. Then
    `x̄ + Σ λ_I (x_I − x̄)`, in realisation plans, is safe if every x_I is, because the value of each of the
    opponent's infostates is concave in the plan.

    Args:
      cut: the root histories.
      player: the player of the infostates.
      method: `degree`: the reciprocal of the largest number of own infostates that meet an opponent's
        infostate which I meets. `program`: a linear program that maximises the sum of shares, whose vertices
        may give most infostates a share of 0.

    Returns:
      `[I]` the share of each infostate, in order of their ids.

    Raises:
      ValueError: if the player or the method is unknown.
      RuntimeError: if HiGHS does not solve the program.
    """
    if method not in SHARES:
        raise ValueError(f"method={method!r}: expected one of {', '.join(SHARES)}")
    graph = infostate_graph(cut, player)
    meets, num_opponent = graph.meets, len(graph.opponent)
    if method == "degree":
        return 1 / _most_met(meets, np.bincount(meets.indices, minlength=num_opponent))
    from scipy.optimize import linprog  # its import takes 0.1 s

    solution = linprog(
        -np.ones(len(graph.own)),
        A_ub=meets.T.astype(np.float64),
        b_ub=np.ones(num_opponent),
        bounds=(0, 1),
        method="highs",
        options={
            "primal_feasibility_tolerance": PROGRAM_TOLERANCE,
            "dual_feasibility_tolerance": PROGRAM_TOLERANCE,
        },
    )
    if not solution.success:
        raise RuntimeError(f"the linear program of the shares at {cut!r} was not solved: {solution.message}")
    share = np.clip(solution.x, 0, 1) + 0.0  # not -0
    return share / np.maximum(1, _most_met(meets, meets.T @ share))


def _most_met(meets: csr_array, value: FloatArray | IntArray) -> FloatArray:
    """`[I]` maximum of `value` over the opponent's infostates that an own infostate meets."""
    return np.maximum.reduceat(value[meets.indices], meets.indptr[:-1]).astype(np.float64)
