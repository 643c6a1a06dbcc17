"""Explicit extensive-form games, and their definitions written as recursion.

Slow and obvious: everything traverses the nodes of a tree. A strategy of both players is one dict, infoset
label → probabilities over the infoset's actions. Nothing is shared with the production code, which sweeps
over sequences; only the raw arrays of a `HistoryTree` are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jaxgadget.games.game import CHANCE, SIMULTANEOUS, TERMINAL

Array: TypeAlias = npt.NDArray[np.float64]
Label: TypeAlias = Hashable
"""An infoset's name, distinct for the two players: `(player, infoset id)` in a game's tree."""
Strategy: TypeAlias = Mapping[Label, Array]
"""Infoset label → probabilities, in the order of the infoset's actions; either or both players."""
Floors: TypeAlias = Mapping[Label, Array]
"""Infoset label → least probability of each action, ε·prior; infosets not listed have no floor."""


@dataclasses.dataclass(frozen=True, eq=False)
class Terminal:
    """An end of the game, `payoff` to player 0 and minus that to player 1."""

    payoff: float


@dataclasses.dataclass(frozen=True, eq=False)
class Chance:
    """A chance node; the weights of its children need not sum to 1."""

    weights: tuple[float, ...]
    children: tuple[Node, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Past:
    """A move that `player` made before the tree begins, with a fixed probability.

    Counts in every value like a chance weight, except that counterfactual values of the player
    itself leave it out like the player's other moves (they stay defined where it is 0), and so
    does the player's own reach ("resolver's root reach 1", design §2).
    """

    player: int
    reach: float
    child: Node


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """A node where `player` chooses an action without distinguishing the nodes of `infoset`."""

    player: int
    infoset: Label
    actions: tuple[Label, ...]
    children: tuple[Node, ...]


Node: TypeAlias = Terminal | Chance | Past | Decision


@dataclasses.dataclass(frozen=True, eq=False)
class Game:
    """A whole game with its histories, numbered as in the source. Axis: histories.

    Attributes:
      nodes: the node of each history; a simultaneous history is player 0's decision, followed by
        player 1's decisions, which are no histories.
      parent: the parent history, the root's own for the root.
      infostate: each player's information as a label, None if the source does not define it.
    """

    nodes: tuple[Node, ...]
    parent: tuple[int, ...]
    infostate: tuple[tuple[Label, ...], tuple[Label, ...]]

    @property
    def root(self) -> Node:
        return self.nodes[0]


# Conversion from other formats


def from_tree(tree: Any) -> Game:
    """The explicit game of a production `HistoryTree`, from its raw arrays.

    Infosets are labelled `(player, infoset id)`, actions by their ids, ascending. Payoffs are the
    tree's: player 0's return less half of the constant.
    """
    children: list[list[int]] = [[] for _ in tree.parent]
    for h in range(1, len(tree.parent)):
        children[tree.parent[h]].append(h)
    nodes: list[Node | None] = [None] * len(children)

    def done(h: int, player: int) -> int:
        return int(tree.action[player, h])

    def decision(h: int, player: int, by_action: dict[int, Node]) -> Decision:
        actions = tuple(sorted(by_action))
        label = (player, int(tree.infoset[player, h]))
        return Decision(player, label, actions, tuple(by_action[a] for a in actions))

    for h in reversed(range(len(children))):  # breadth-first order: children come after their parents
        below = {c: _present(nodes[c]) for c in children[h]}
        actor = int(tree.actor[h])
        if actor == TERMINAL:
            nodes[h] = Terminal(float(tree.payoff[h]))
        elif actor == CHANCE:
            above = float(tree.chance[h])
            weights = tuple(float(tree.chance[c]) / above if above > 0 else 0.0 for c in below)
            nodes[h] = Chance(weights, tuple(below.values()))
        elif actor == SIMULTANEOUS:
            second = {
                a: decision(h, 1, {done(c, 1): node for c, node in below.items() if done(c, 0) == a})
                for a in sorted({done(c, 0) for c in below})
            }
            nodes[h] = decision(h, 0, dict(second))
        else:
            player = actor - 1
            nodes[h] = decision(h, player, {done(c, player): node for c, node in below.items()})
    states = (tuple(tree.infostate[0].tolist()), tuple(tree.infostate[1].tolist()))
    return Game(tuple(_present(node) for node in nodes), tuple(tree.parent.tolist()), states)


def _present(node: Node | None) -> Node:
    if node is None:
        raise ValueError("a history comes before its parent")
    return node


def from_sequences(tree: Any, values: tuple[Array, Array]) -> dict[Label, Array]:
    """Rows of both players from arrays over the `HistoryTree`'s sequences, `[num_sequences]` each."""
    rows: dict[Label, Array] = {}
    for player in (0, 1):
        infosets = tree.infosets[player]
        for j in range(len(infosets)):
            first, count = int(infosets.first_sequence[j]), int(infosets.num_actions[j])
            rows[player, j] = np.asarray(values[player][first : first + count], np.float64)
    return rows


def to_sequences(tree: Any, strategy: Strategy, player: int) -> Array:
    """A player's rows as an array over the `HistoryTree`'s sequences, 1 at the empty one."""
    rows = [strategy[player, j] for j in range(len(tree.infosets[player]))]
    return np.concatenate([[1.0], *rows])


# Traversal


def walk(node: Node) -> Iterator[Node]:
    """All nodes at and below a node, parents first."""
    yield node
    for child in children_of(node):
        yield from walk(child)


def children_of(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Terminal):
        return ()
    return (node.child,) if isinstance(node, Past) else node.children


def infosets(root: Node) -> dict[Label, Decision]:
    """One node of every infoset, in order of first occurrence.

    Raises:
      ValueError: if two nodes of an infoset differ in player or actions.
    """
    found: dict[Label, Decision] = {}
    for node in walk(root):
        if isinstance(node, Decision):
            first = found.setdefault(node.infoset, node)
            if (first.player, first.actions) != (node.player, node.actions):
                raise ValueError(f"infoset {node.infoset!r}: nodes differ in player or actions")
    return found


def infosets_of(root: Node, player: int) -> list[Label]:
    return [label for label, node in infosets(root).items() if node.player == player]


def uniform(root: Node) -> dict[Label, Array]:
    """Equal probabilities everywhere."""
    return geometric(root, 1.0)


def geometric(root: Node, ratio: float) -> dict[Label, Array]:
    """The k-th action with probability ∝ ratio^k (the policies of `reference/README.md`)."""
    rows: dict[Label, Array] = {}
    for label, node in infosets(root).items():
        weights = float(ratio) ** np.arange(len(node.actions))
        rows[label] = weights / weights.sum()
    return rows


# Values


def value(node: Node, strategies: Strategy) -> float:
    """Expected payoff of player 0 (weighted by the weights of chance) under both strategies."""
    if isinstance(node, Terminal):
        return node.payoff
    if isinstance(node, Chance):
        return sum(w * value(c, strategies) for w, c in zip(node.weights, node.children, strict=True))
    if isinstance(node, Past):
        return node.reach * value(node.child, strategies)
    row = strategies[node.infoset]
    return sum(float(p) * value(c, strategies) for p, c in zip(row, node.children, strict=True))


def sign(player: int) -> int:
    """The factor that converts player 0's payoffs to the player's."""
    return 1 if player == 0 else -1


def reaches(root: Node, strategies: Strategy) -> dict[Node, tuple[float, float, float]]:
    """`(P_0, P_1, P_c)` of every node: the factors of player 0, player 1 and chance in its reach."""
    found: dict[Node, tuple[float, float, float]] = {}

    def visit(node: Node, reach: tuple[float, float, float]) -> None:
        found[node] = reach
        if isinstance(node, Chance):
            for weight, child in zip(node.weights, node.children, strict=True):
                visit(child, _times(reach, 2, weight))
        elif isinstance(node, Past):
            visit(node.child, _times(reach, node.player, node.reach))
        elif isinstance(node, Decision):
            for p, child in zip(strategies[node.infoset], node.children, strict=True):
                visit(child, _times(reach, node.player, float(p)))

    visit(root, (1.0, 1.0, 1.0))
    return found


def _times(reach: tuple[float, float, float], who: int, factor: float) -> tuple[float, float, float]:
    a, b, c = (r * factor if i == who else r for i, r in enumerate(reach))
    return a, b, c


def own_reaches(root: Node, player: int, strategies: Strategy) -> dict[Label, float]:
    """The player's own reach of each of its infosets, without `Past` moves.

    Raises:
      ValueError: if it differs between the nodes of an infoset (no perfect recall).
    """
    found: dict[Label, float] = {}

    def visit(node: Node, own: float) -> None:
        if isinstance(node, Decision) and node.player == player:
            if abs(found.setdefault(node.infoset, own) - own) > 1e-12:
                raise ValueError(f"infoset {node.infoset!r}: own reach differs, imperfect recall")
            for p, child in zip(strategies[node.infoset], node.children, strict=True):
                visit(child, own * float(p))
        else:
            for child in children_of(node):
                visit(child, own)

    visit(root, 1.0)
    return found


def counterfactual_values(root: Node, player: int, strategies: Strategy) -> dict[Label, Array]:
    """`q(I, a)`: sum over the nodes of I of the others' reach times the player's value after a.

    The value of the infoset is `strategies[I] · q(I)`.
    """
    q: dict[Label, Array] = {}

    def visit(node: Node, others: float) -> float:
        """The node's value to the player; `others` is the reach of chance and the other player."""
        if isinstance(node, Terminal):
            return sign(player) * node.payoff
        if isinstance(node, Chance):
            return sum(w * visit(c, others * w) for w, c in zip(node.weights, node.children, strict=True))
        if isinstance(node, Past):
            factor = 1.0 if node.player == player else node.reach
            return node.reach * visit(node.child, others * factor)
        row = strategies[node.infoset]
        if node.player != player:
            return sum(
                float(p) * visit(c, others * float(p)) for p, c in zip(row, node.children, strict=True)
            )
        after = np.array([visit(c, others) for c in node.children])
        q[node.infoset] = q.get(node.infoset, np.zeros(len(after))) + others * after
        return float(row @ after)

    visit(root, 1.0)
    return q


# Best responses


def with_floor(row: Array, floor: Array | None) -> Array:
    """`π' = (1-ε)·π + ε·p` with `floor = ε·p` (design §3, perturbed regret matching)."""
    return row if floor is None else (1.0 - floor.sum()) * row + floor


def best_response(
    root: Node, player: int, strategies: Strategy, floors: Floors | None = None
) -> dict[Label, Array]:
    """The player's best response to the other's strategy, within the floors on its own actions.

    At infosets with reach 0 by the others, the first action (within the floor).
    """
    members: dict[Label, list[tuple[Decision, float]]] = {}

    def collect(node: Node, others: float) -> None:
        if isinstance(node, Decision) and node.player == player:
            members.setdefault(node.infoset, []).append((node, others))
            for child in node.children:
                collect(child, others)
        elif isinstance(node, Decision):
            for p, child in zip(strategies[node.infoset], node.children, strict=True):
                collect(child, others * float(p))
        elif isinstance(node, Chance):
            for weight, child in zip(node.weights, node.children, strict=True):
                collect(child, others * weight)
        elif isinstance(node, Past):
            collect(node.child, others * (1.0 if node.player == player else node.reach))

    rows: dict[Label, Array] = {}

    def row_of(label: Label) -> Array:
        if label not in rows:
            nodes = members[label]
            q = [sum(r * value_of(n.children[a]) for n, r in nodes) for a in range(len(nodes[0][0].actions))]
            pure = np.zeros(len(q))
            pure[int(np.argmax(q))] = 1.0
            rows[label] = with_floor(pure, (floors or {}).get(label))
        return rows[label]

    def value_of(node: Node) -> float:
        if isinstance(node, Terminal):
            return sign(player) * node.payoff
        if isinstance(node, Chance):
            return sum(w * value_of(c) for w, c in zip(node.weights, node.children, strict=True))
        if isinstance(node, Past):
            return node.reach * value_of(node.child)
        row = row_of(node.infoset) if node.player == player else strategies[node.infoset]
        return sum(float(p) * value_of(c) for p, c in zip(row, node.children, strict=True))

    collect(root, 1.0)
    for label in members:
        row_of(label)
    return rows


def best_response_value(root: Node, player: int, strategies: Strategy, floors: Floors | None = None) -> float:
    """The player's best-response value against the other player's strategy, in its own utility."""
    response = best_response(root, player, strategies, floors)
    return sign(player) * value(root, {**strategies, **response})


def guaranteed(root: Node, player: int, strategies: Strategy) -> Array:
    """`[lanes]` the player's value, in its utility, against a best response.

    Minus `best_response_value` of the other player, for many strategies at once: rows are
    `[actions, lanes]`.
    """
    other = 1 - player
    lanes = next(iter(strategies.values())).shape[1]
    members: dict[Label, list[tuple[Decision, Array]]] = {}

    def collect(node: Node, reach: Array) -> None:
        """Collect the other player's decisions, with the reach of everyone else."""
        if isinstance(node, Decision) and node.player == other:
            members.setdefault(node.infoset, []).append((node, reach))
            for child in node.children:
                collect(child, reach)
        elif isinstance(node, Decision):
            for p, child in zip(strategies[node.infoset], node.children, strict=True):
                collect(child, reach * p)
        elif isinstance(node, Chance):
            for weight, child in zip(node.weights, node.children, strict=True):
                collect(child, reach * weight)
        elif isinstance(node, Past):
            collect(node.child, reach if node.player == other else reach * node.reach)

    responses: dict[Label, Array] = {}
    values: dict[Node, Array] = {}

    def response(label: Label) -> Array:
        """`[lanes]` index of the other player's best action."""
        if label not in responses:
            nodes = members[label]
            count = len(nodes[0][0].actions)
            q = [sum(reach * value_of(node.children[a]) for node, reach in nodes) for a in range(count)]
            responses[label] = np.argmin(q, axis=0)
        return responses[label]

    def value_of(node: Node) -> Array:
        if node not in values:
            values[node] = find_value(node)
        return values[node]

    def find_value(node: Node) -> Array:
        if isinstance(node, Terminal):
            return np.full(lanes, sign(player) * node.payoff)
        if isinstance(node, Past):
            return node.reach * value_of(node.child)
        below = np.array([value_of(child) for child in node.children])
        if isinstance(node, Chance):
            return np.array(node.weights) @ below
        if node.player == other:
            return np.take_along_axis(below, response(node.infoset)[None], axis=0)[0]
        return np.sum(strategies[node.infoset] * below, axis=0)

    collect(root, np.ones(lanes))
    return value_of(root)


def nash_conv(root: Node, strategies: Strategy, floors: Floors | None = None) -> float:
    """Sum of both players' best-response values: the improvements, as the game is zero-sum.

    In a gadget game with its floors this is the gap.
    """
    return sum(best_response_value(root, player, strategies, floors) for player in (0, 1))
