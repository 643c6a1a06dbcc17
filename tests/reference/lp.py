"""The sequence-form linear program of an explicit tree (von Stengel 1996), through HiGHS.

For the maximising player, variables are the realisation weights of its sequences. For the other player, `q(I,
a)` is the value (to the maximiser) below a sequence, weighted by the others' reach, and at an infoset with
floors `f = ε·p` (perturbed as in Farina, Kroer and Sandholm 2017)

    v(I) = (1-ε)·m(I) + Σ_a f_a·q(I, a),   m(I) ≤ q(I, a) for every a.

The maximiser's own floors bound its sequences from below: x(I, a) ≥ f_a·x(parent of I).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from tests.reference import efg
from tests.reference.efg import Array, Chance, Decision, Floors, Label, Node, Past, Terminal

Sequence = Hashable
"""None (the empty sequence) or `(infoset label, action index)`."""


@dataclasses.dataclass(frozen=True, eq=False)
class Solution:
    """The value that `player` can guarantee (in its utility), and a strategy that guarantees it.

    The value is unique. At infosets that the player itself does not reach, the strategy is uniform.
    """

    value: float
    strategy: dict[Label, Array]


def solve(root: Node, player: int, floors: Floors | None = None) -> Solution:
    """Maximise the guaranteed value of `player`; both players respect the floors."""
    floors = floors or {}
    decisions = efg.infosets(root)
    mine = [label for label, node in decisions.items() if node.player == player]
    theirs = [label for label, node in decisions.items() if node.player != player]
    payoff, last = _sequences(root, player)

    number: dict[tuple[str, Hashable], int] = {}

    def variable(kind: str, name: Hashable) -> int:
        return number.setdefault((kind, name), len(number))

    for kind, labels in (("x", mine), ("q", theirs)):
        variable(kind, None)
        for label in labels:
            for a in range(len(decisions[label].actions)):
                variable(kind, (label, a))
    for label in theirs:
        variable("m", label)
        variable("v", label)

    equal = _Rows()
    at_most = _Rows()
    equal.add({variable("x", None): 1.0}, 1.0)
    for label in mine:  # Σ_a x(I, a) = x(parent of I), and floors
        above = variable("x", last[label])
        count = len(decisions[label].actions)
        equal.add({**{variable("x", (label, a)): 1.0 for a in range(count)}, above: -1.0}, 0.0)
        for a, floor in enumerate(floors.get(label, np.zeros(0))):
            at_most.add({above: float(floor), variable("x", (label, a)): -1.0}, 0.0)
    for sequence in [None, *((label, a) for label in theirs for a in range(len(decisions[label].actions)))]:
        # q(sequence) = payoff against x + Σ v(child infosets)
        row = {variable("q", sequence): 1.0}
        for own, amount in payoff.get(sequence, {}).items():
            row[variable("x", own)] = -amount
        for label in theirs:
            if last[label] == sequence:
                row[variable("v", label)] = -1.0
        equal.add(row, 0.0)
    for label in theirs:
        count = len(decisions[label].actions)
        floor = floors.get(label, np.zeros(count))
        row = {variable("v", label): 1.0, variable("m", label): -(1.0 - float(floor.sum()))}
        equal.add({**row, **{variable("q", (label, a)): -float(floor[a]) for a in range(count)}}, 0.0)
        for a in range(count):
            at_most.add({variable("m", label): 1.0, variable("q", (label, a)): -1.0}, 0.0)

    objective = np.zeros(len(number))
    objective[variable("q", None)] = -1.0
    bounds = [(0, None) if kind == "x" else (None, None) for kind, _ in number]
    result = linprog(
        objective,
        A_ub=at_most.matrix(len(number)),
        b_ub=at_most.right,
        A_eq=equal.matrix(len(number)),
        b_eq=equal.right,
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise RuntimeError(f"linear program failed: {result.message}")
    strategy: dict[Label, Array] = {}
    for label in mine:
        count = len(decisions[label].actions)
        x = np.maximum([result.x[variable("x", (label, a))] for a in range(count)], 0.0)
        strategy[label] = x / x.sum() if x.sum() > 1e-9 else np.full(count, 1.0 / count)
    return Solution(-float(result.fun), strategy)


class _Rows:
    """Rows of a sparse matrix and their right-hand sides."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.right: list[float] = []

    def add(self, row: dict[int, float], right: float) -> None:
        self.entries.extend((len(self.right), column, amount) for column, amount in row.items())
        self.right.append(right)

    def matrix(self, num_columns: int) -> coo_array:
        rows, columns, amounts = zip(*self.entries, strict=True) if self.entries else ((), (), ())
        return coo_array((amounts, (rows, columns)), shape=(len(self.right), num_columns), dtype=np.float64)


def _sequences(
    root: Node, player: int
) -> tuple[dict[Sequence, dict[Sequence, float]], dict[Label, Sequence]]:
    """`payoff[opponent's sequence][player's sequence]`, to the player, and each infoset's parent sequence."""
    payoff: dict[Sequence, dict[Sequence, float]] = {}
    last: dict[Label, Sequence] = {}

    def visit(node: Node, weight: float, own: Sequence, other: Sequence) -> None:
        if isinstance(node, Terminal):
            row = payoff.setdefault(other, {})
            row[own] = row.get(own, 0.0) + efg.sign(player) * weight * node.payoff
        elif isinstance(node, Chance):
            for w, child in zip(node.weights, node.children, strict=True):
                visit(child, weight * w, own, other)
        elif isinstance(node, Past):
            visit(node.child, weight * node.reach, own, other)
        else:
            _visit_decision(node, weight, own, other)

    def _visit_decision(node: Decision, weight: float, own: Sequence, other: Sequence) -> None:
        before = own if node.player == player else other
        if last.setdefault(node.infoset, before) != before:
            raise ValueError(f"infoset {node.infoset!r} follows two sequences: imperfect recall")
        for a, child in enumerate(node.children):
            done = (node.infoset, a)
            if node.player == player:
                visit(child, weight, done, other)
            else:
                visit(child, weight, own, done)

    visit(root, 1.0, None, None)
    return payoff, last
