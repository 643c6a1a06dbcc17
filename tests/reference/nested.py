"""Nested search from own infostates, from the definition: one search at a time, each an explicit game.

An agent at an own infostate I of level n has searched at the own infostates above I only. Its strategy of
both players is at first the blueprint; after each search it takes over the search's strategy at the infosets
that were free, and the opponent's from the search's game. With that strategy as its blueprint it builds the
gadget game of I as `tests/reference/frozen.py` does. If *assembled* instead, its own half comes from the
searches at all own infostates above, each below its own one.

A game that ends at a limit is a separate game: at a leaf both players simultaneously choose an entry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.reference import cfr as reference
from tests.reference import cuts, efg, frozen, gadgets
from tests.reference.depth_limited import level_histories, limit_histories
from tests.reference.efg import Array, Chance, Decision, Label, Node, Strategy, Terminal

ENTRY = "entry"


@dataclasses.dataclass(frozen=True)
class How:
    """One lane of nested search.

    Attributes:
      kind: kind of gadget; unsafe at first where the opponent has not acted.
      prior: its prior.
      epsilon: its ε.
      order: k.
      unfrozen: whether everything that is kept is solved.
      follow: `believed` or `assembled`.
      depth: D; None for searches to the end.
      iterations: iterations of CFR+.
      threshold: sums of positive regrets up to this are rounding errors.
    """

    kind: str
    prior: str = "none"
    epsilon: float = 0.0
    order: int = 1
    unfrozen: bool = False
    follow: str = "believed"
    depth: int | None = None
    iterations: int = 5
    threshold: float = 1e-14


@dataclasses.dataclass(frozen=True, eq=False)
class Searched:
    """State after the search from an own infostate.

    Attributes:
      game: down to its limit.
      strategy: both players', from the search where it has rows.
      found: the player's rows below the infostate.
    """

    game: efg.Game
    strategy: Strategy
    found: Strategy


def nested_policy(
    tree: Any, player: int, blueprint: Strategy, how: How, values: Array | None = None
) -> tuple[dict[Label, Array], float]:
    """The player's rows, and the smallest sum of regrets that determines a strategy.

    Args:
      tree: the production tree, of which only raw arrays are read.
      player: the searching player.
      blueprint: both players' rows.
      how: settings of the lane.
      values: `[histories, K, K]` player 0's payoff at limits.
    """
    whole, policy, least = efg.from_tree(tree), dict(blueprint), 1.0
    before: dict[Label, Searched] = {}
    assembled: dict[Label, Array] = dict(blueprint)
    number, above_roots = 0, set[int]()
    while roots := level_histories(tree, player, "own", number, 1):
        ends = set[int]() if how.depth is None else limit_histories(tree, player, "own", roots, how.depth)
        game = whole if values is None else limited(whole, player, ends, values)
        parts = tuple(map(tuple, cuts.components(whole, sorted(roots))))
        found: dict[Label, Searched] = {}
        reached = dict[Label, float]()
        for part in parts:
            unsafe = number == 0 and not any(tree.sequence[1 - player, h] > 0 for h in part)
            for own in sorted({whole.infostate[player][h] for h in part}):
                members = [h for h in part if whole.infostate[player][h] == own]
                start, alternatives = dict(blueprint), None
                if number > 0:
                    (previous,) = {whole.infostate[player][_root(whole, h, above_roots)] for h in members}
                    last = before[previous]
                    start = dict(last.strategy)
                    if how.follow == "assembled":
                        start |= {k: row for k, row in assembled.items() if _owner(k) == player}
                    whole_j = gadgets.Above(last.game, parts, player, start)
                    subgame = frozen.subgame(whole_j, own, how.order)
                    alternatives = {s: subgame.alternative(s) for s in subgame.states}
                start = _from_entry_zero(game, start)
                above = gadgets.Above(game, parts, player, start, alternatives)
                gadget_how = dataclasses.replace(how, kind="unsafe") if unsafe else how
                found[own], smallest = _search(above, own, gadget_how, blueprint)
                least = min(least, smallest)
                state = frozen.subgame(above, own, 1)
                reached[own] = state.resolver_reach(members[0])
        for own, searched in found.items():
            assembled |= searched.found
            below = _until_next(tree, player, whole, own, roots, number)
            if reached[own] > 0:
                policy |= {label: searched.found[label] for label in below}
        before, above_roots, number = found, roots, number + 1
    return {label: row for label, row in policy.items() if _owner(label) == player}, least


def _owner(label: Any) -> int:
    """The player of an infoset, or of a choice at a limit."""
    return label[1] if label[0] == ENTRY else label[0]


def _root(game: efg.Game, h: int, roots: set[int]) -> int:
    """The root at or above a history."""
    while h not in roots:
        h = game.parent[h]
    return h


def _until_next(
    tree: Any, player: int, whole: efg.Game, own: Label, roots: set[int], number: int
) -> set[Label]:
    """The player's infosets below an own infostate, before its next search."""
    later = level_histories(tree, player, "own", number + 1, 1)
    ends = {whole.nodes[h] for h in later}
    labels = set[Label]()

    def visit(node: Node) -> None:
        if node in ends:
            return
        if isinstance(node, Decision) and node.player == player:
            labels.add(node.infoset)
        for child in efg.children_of(node):
            visit(child)

    for h in roots:
        if whole.infostate[player][h] == own:
            visit(whole.nodes[h])
    return labels


def _search(above: gadgets.Above, own: Label, how: How, blueprint: Strategy) -> tuple[Searched, float]:
    """CFR+ in the gadget game of an own infostate; infosets without a row keep the blueprint."""
    free = frozen.free_infosets(above, own, how.order, how.unfrozen)
    kept = frozen.subgame(above, own, how.order)
    theirs = {
        node.infoset
        for h in kept.roots
        for node in efg.walk(above.game.nodes[h])
        if isinstance(node, Decision) and node.player != above.resolver
    }
    fallback = _from_entry_zero(above.game, blueprint)
    rows: Strategy = {}
    least = 1.0
    freed = frozen.freed_roots(above, own, how.order, how.unfrozen)
    mass = sum(kept.resolver_reach(h) * kept.chance_reach(h) for h in freed)
    if mass > 0:
        gadget = frozen.build(how.kind, above, own, how.prior, how.epsilon, how.order, how.unfrozen)
        for iterate in reference.run(
            gadget.root,
            "cfr+",
            how.iterations,
            order=gadget.order,
            floors=gadget.floors,
            threshold=how.threshold,
            unreached=fallback,
        ):
            sums = (float(np.maximum(row, 0).sum()) for row in iterate.basis.values())
            least = min([least, *(total for total in sums if total > how.threshold)])
            rows = iterate.average
    found = {label: rows.get(label, fallback[label]) for label in free | theirs}
    alone = frozen.free_infosets(above, own)
    return Searched(above.game, {**above.blueprint, **found}, {k: found[k] for k in alone}), least


def limited(game: efg.Game, player: int, ends: set[int], values: Array) -> efg.Game:
    """The game in which both players choose an entry at some histories, and are paid."""
    number = {node: h for h, node in enumerate(game.nodes)}
    nodes: list[Node] = list(game.nodes)

    def copy(node: Node) -> Node:
        h = number.get(node)
        if h in ends:
            assert h is not None
            made = _choice(game, player, h, values[h])
        elif isinstance(node, Terminal):
            made = node
        else:
            assert isinstance(node, Chance | Decision)
            made = dataclasses.replace(node, children=tuple(copy(child) for child in node.children))
        if h is not None:
            nodes[h] = made
        return made

    copy(game.root)
    return dataclasses.replace(game, nodes=tuple(nodes))


def _choice(game: efg.Game, player: int, h: int, table: Array) -> Node:
    entries = tuple(range(len(table)))
    own, theirs = ((ENTRY, p, game.infostate[p][h]) for p in (player, 1 - player))

    def answered(first: int) -> Node:
        row = table[first] if player == 0 else table[:, first]
        return Decision(1 - player, theirs, entries, tuple(Terminal(float(x)) for x in row))

    return Decision(player, own, entries, tuple(answered(k) for k in entries))


def _from_entry_zero(game: efg.Game, strategy: Mapping[Label, Any]) -> dict[Label, Any]:
    """A strategy that continues with entry 0 at every limit."""
    rows = {label: row for label, row in strategy.items() if label[0] != ENTRY}  # pyright: ignore[reportIndexIssue]
    for label, node in efg.infosets(game.root).items():
        if isinstance(label, tuple) and label[0] == ENTRY:
            rows[label] = np.eye(len(node.actions))[0]
    return rows
