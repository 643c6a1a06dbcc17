"""What a player knows at a cut: the subgames of its own infostates, which of them meet, and fair shares.

Zhang and Sandholm, *Subgame solving without common knowledge* (2021). Two root histories are adjacent if
they share an infostate of either player. Of an own infostate I, `I¹` is its root histories; `I²` those of
the opponent's infostates J that meet I; `I³` those of the own infostates that meet I²; and so on to `I^∞`,
the common-knowledge component. Order k (odd) *frees* Iᵏ, whose own decisions are solved for, and *keeps*
Iᵏ⁺¹, where the own infostates outside of Iᵏ play as the blueprint does. Unfrozen, all of Iᵏ⁺¹ is solved for.

One deviation: a frozen cover has Iᵏ alone. What the rest of a J earns against the blueprint is the same
whatever is played in Iᵏ, a constant on the opponent's sequences, which is the caller's to add
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
"""How `shares` finds them."""

PROGRAM_TOLERANCE = 1e-9
"""By how much HiGHS may violate a constraint or a reduced cost; what it oversteps is taken back."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KnowledgeCover:
    """A subgame for each of a player's root infostates, I of them: what it knows, up to an order.

    Infostates whose subgames are equal, in what is kept and what is solved for, share one. Subgames are in
    order of the first infostate that has each (where none is shared, they have its number); at order
    `math.inf` they are the cut's own, as the cut numbers them.

    Attributes:
      cover: the subgames.
      player: whose infostates.
      order: k, odd, or `math.inf` for the common-knowledge components.
      unfrozen: whether all that is kept is solved for; else it is left out, but for what is freed.
      infostate: `[I]` ids of the player's root infostates in the tree, ascending.
      subgame: `[I]` the subgame of each.
      target: `[I]` each one's root in its own subgame, as `find_roots` and a forest's `roots` number the
        player's roots: below it lies the strategy to adopt. Other roots of a subgame are only thought of.
    """

    cover: Cover
    player: int
    order: float
    unfrozen: bool
    infostate: IntArray
    subgame: IntArray
    target: IntArray

    def __repr__(self) -> str:
        what = f"order {self.order}{', unfrozen' if self.unfrozen else ''}"
        count = f"{len(self.infostate)} infostates of player {self.player} in {self.cover.num_subgames}"
        return f"<KnowledgeCover of {self.cut!r}: {what}, {count} subgame(s)>"

    @property
    def cut(self) -> Cut:
        """All root histories."""
        return self.cover.cut


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class InfostateGraph:
    """Which root infostates of the two players share a root history: a bipartite graph.

    Attributes:
      own: `[I]` ids of a player's root infostates, ascending.
      opponent: `[J]` those of the opponent, ascending.
      own_of_root: `[H]` which of the player's infostates each root history is in.
      opponent_of_root: `[H]` which of the opponent's.
      meets: `[I, J]` whether two infostates share a root history; as many entries as there are such pairs.
    """

    own: IntArray
    opponent: IntArray
    own_of_root: IntArray
    opponent_of_root: IntArray
    meets: csr_array

    def conflicts(self) -> csr_array:
        """`[I, I]` which own infostates meet a common infostate of the opponent, each one itself too."""
        return csr_array(self.meets @ self.meets.T)


def infostate_graph(cut: Cut, player: int) -> InfostateGraph:
    """The root infostates at a cut, and which of them meet.

    Args:
      cut: the root histories.
      player: whose infostates are the rows.

    Raises:
      ValueError: if there is no such player.
    """
    states = cut.tree.infostate[:, cut.roots]
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
    """The subgames of a player's root infostates, by what it knows up to an order.

    Args:
      cut: the root histories.
      player: whose infostates.
      order: k: 1, 3, 5, … or `math.inf`. Orders beyond the widest component say the same as `math.inf`.
      unfrozen: solve for everything that is kept, not only for what is freed.
      apart: `[I]` infostates with different numbers share no subgame, however equal, of a finite order.

    Raises:
      ValueError: if there is no such player, the order is another, or `unfrozen` is no truth value.
    """
    order, unfrozen = check_order(order), check_unfrozen(unfrozen)
    graph = infostate_graph(cut, player)
    if order == math.inf:
        first_root = np.unique(graph.own_of_root, return_index=True)[1]
        cover, subgame = cover_of(cut), cut.subgame[first_root]
    else:
        cover, subgame = _limited_cover(cut, player, graph, int(order), unfrozen, apart)
    roots, _ = find_roots(cover, player)
    place = roots.infostate.astype(np.int64) * cover.num_subgames + roots.subgame  # ascending
    return KnowledgeCover(
        cover=cover,
        player=int(player),
        order=order,
        unfrozen=unfrozen,
        infostate=graph.own,
        subgame=subgame,
        target=np.searchsorted(place, graph.own.astype(np.int64) * cover.num_subgames + subgame),
    )


def check_order(order: Any) -> float:
    """An order of knowledge: 1, 3, 5, … or `math.inf`; ValueError otherwise."""
    is_whole = isinstance(order, int | np.integer) and not isinstance(order, bool)
    is_infinite = isinstance(order, float) and order == math.inf
    if not (is_infinite or (is_whole and order >= 1 and order % 2 == 1)):
        raise ValueError(
            f"order={order!r}: expected an odd whole number >= 1, or math.inf for what is common knowledge"
        )
    return math.inf if is_infinite else int(order)


def check_unfrozen(unfrozen: Any) -> bool:
    """Whether all that is kept is to be solved for; ValueError unless it is a truth value."""
    if not isinstance(unfrozen, bool | np.bool_):
        raise ValueError(f"unfrozen={unfrozen!r}: expected True or False")
    return bool(unfrozen)


def _limited_cover(
    cut: Cut, player: int, graph: InfostateGraph, order: int, unfrozen: bool, apart: IntArray | None
) -> tuple[Cover, IntArray]:
    """The cover of a finite order, and `[I]` the subgame of each own infostate."""
    freed = _freed(graph, order)
    kept = csr_array(freed @ graph.meets)  # `[I, J]`
    subgame, first = _equal_rows(kept if unfrozen else freed, apart)
    every_root = np.arange(len(cut.roots))
    in_own = _relation(graph.own_of_root, every_root, (len(graph.own), len(every_root)))
    in_opponent = _relation(graph.opponent_of_root, every_root, (len(graph.opponent), len(every_root)))
    roots = csr_array(kept[first] @ in_opponent if unfrozen else freed[first] @ in_own)  # `[S, H]`
    number, root = roots.nonzero()
    return build_cover(cut, cut.roots[root], number), subgame


def _freed(graph: InfostateGraph, order: int) -> csr_array:
    """`[I, I]` whose infostates are in Iᵏ, for each own infostate I."""
    conflicts = graph.conflicts()
    alone = np.arange(len(graph.own))
    freed = _relation(alone, alone, (len(alone), len(alone)))
    for _ in range(order // 2):
        further = csr_array(freed @ conflicts)
        if further.nnz == freed.nnz:
            break  # all components are filled
        freed = further
    return freed


def _relation(row: IntArray, column: IntArray, shape: tuple[int, int]) -> csr_array:
    """A matrix of truth values, true at some places, of which some may come twice."""
    return csr_array((np.ones(len(row), np.bool_), (row, column)), shape=shape)


def _equal_rows(relation: csr_array, apart: IntArray | None) -> tuple[IntArray, IntArray]:
    """`[n]` a number for each row, the same where rows are equal and not apart, and the first row of each."""
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
    """Parts a player's root infostates into classes in which no two meet a common infostate of the opponent.

    A greedy colouring, infostates with the most others in their way first (Welsh and Powell 1967), so at
    most one class more than the most that are in the way of one. The same cut always has the same classes.

    Args:
      cut: the root histories.
      player: whose infostates.

    Returns:
      `[I]` the class of each infostate, in order of their ids; numbers 0, 1, … without a gap.

    Raises:
      ValueError: if there is no such player.
    """
    graph = infostate_graph(cut, player)
    degree = np.diff(graph.conflicts().indptr) - 1
    met_by = np.split(graph.meets.indices, graph.meets.indptr[1:-1])
    taken: list[set[int]] = [set() for _ in graph.opponent]  # classes with an infostate that meets it
    colour = np.empty(len(graph.own), np.int64)
    for own in np.argsort(-degree, kind="stable").tolist():
        met = met_by[own].tolist()
        colour[own] = next(number for number in itertools.count() if all(number not in taken[j] for j in met))
        for j in met:
            taken[j].add(int(colour[own]))
    return colour


def shares(cut: Cut, player: int, how: str = "degree") -> FloatArray:
    """How far each root infostate of a player may go towards its new strategy while all others do too.

    Shares λ in [0, 1] sum to at most 1 over the own infostates that meet one of the opponent's. Then
    `x̄ + Σ λ_I (x_I − x̄)`, of realisation plans, is safe where every x_I is: what each of the opponent's
    infostates is worth is concave in the plan.

    Args:
      cut: the root histories.
      player: whose infostates.
      how: `degree`: 1 / the most own infostates that meet any one of those that I meets. `program`: the
        largest sum of shares, a linear program, whose vertices may leave most infostates with a share of 0.

    Returns:
      `[I]` the share of each infostate, in order of their ids.

    Raises:
      ValueError: if there is no such player, or `how` is another.
      RuntimeError: if HiGHS does not solve the program.
    """
    if how not in SHARES:
        raise ValueError(f"how={how!r}: expected one of {', '.join(SHARES)}")
    graph = infostate_graph(cut, player)
    meets, num_opponent = graph.meets, len(graph.opponent)
    if how == "degree":
        return 1 / _most_met(meets, np.bincount(meets.indices, minlength=num_opponent))
    from scipy.optimize import linprog  # with linear algebra, which takes 0.1 s to import

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
        raise RuntimeError(f"the program of the shares at {cut!r} was not solved: {solution.message}")
    share = np.clip(solution.x, 0, 1) + 0.0  # not -0
    return share / np.maximum(1, _most_met(meets, meets.T @ share))


def _most_met(meets: csr_array, value: FloatArray | IntArray) -> FloatArray:
    """`[I]` the largest value, of those that the opponent's infostates have, that an own infostate meets."""
    return np.maximum.reduceat(value[meets.indices], meets.indptr[:-1]).astype(np.float64)
