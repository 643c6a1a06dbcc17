"""Gadget games as explicit trees, by enumeration from the definitions of design §3.

Everything is in the resolving player's utility. The opponent's way in is a tree of its own
decisions above copies of the subgame's nodes: nothing is a constant gradient or a scale here.
The resolving player's reach `P_i(h)` of a root is a `Past` move: a chance weight to the
opponent, and left out of the resolving player's own counterfactual values (so they are defined
where it is 0) and of its averages ("root reach 1").
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from tests.reference import efg
from tests.reference.efg import Array, Chance, Decision, Floors, Label, Node, Past, Strategy, Terminal

KINDS = ("unsafe", "resolving", "max-margin")
PRIORS = ("none", "uniform", "blueprint")
CLIP = 1e-3
"""Least value of `q(s)` in a blueprint prior."""
FOLLOW, TERMINATE = 0, 1
ENTRY = "entry"


def entry_label(state: Label | None = None) -> Label:
    """Label of the opponent's entry infoset: one at each `s` (resolving), one in all (max-margin)."""
    return (ENTRY,) if state is None else (ENTRY, state)


@dataclasses.dataclass(frozen=True, eq=False)
class Subgame:
    """One subgame of a game, re-solved by `resolver` against a blueprint of both players.

    Attributes:
      game: the whole game.
      roots: the subgame's root histories.
      resolver: player i.
      blueprint: both players' probabilities at every infoset of the game.
    """

    game: efg.Game
    roots: tuple[int, ...]
    resolver: int
    blueprint: Strategy

    @property
    def opponent(self) -> int:
        return 1 - self.resolver

    @functools.cached_property
    def _reaches(self) -> dict[Node, tuple[float, float, float]]:
        return efg.reaches(self.game.root, self.blueprint)

    def _reach(self, history: int) -> tuple[float, float, float]:
        return self._reaches[self.game.nodes[history]]

    def resolver_reach(self, history: int) -> float:
        """`P_i(h)`."""
        return self._reach(history)[self.resolver]

    def chance_reach(self, history: int) -> float:
        """`P_c(h)`."""
        return self._reach(history)[2]

    @functools.cached_property
    def states(self) -> tuple[Label, ...]:
        """The opponent's distinct infostates `s` at the roots."""
        return tuple(dict.fromkeys(self.game.infostate[self.opponent][h] for h in self.roots))

    def members(self, state: Label) -> list[int]:
        """Root histories `h ∈ s`."""
        return [h for h in self.roots if self.game.infostate[self.opponent][h] == state]

    def opponent_reach(self, state: Label) -> float:
        """`P_-i(s)`, which perfect recall makes the same at every `h ∈ s`."""
        reach = [self._reach(h)[self.opponent] for h in self.members(state)]
        if max(reach) - min(reach) > 1e-12:
            raise ValueError(f"infostate {state!r}: the opponent's reach differs within it")
        return reach[0]

    def normalizer(self, state: Label) -> float:
        """`N(s) = Σ_{h∈s} P_i(h)·P_c(h)`."""
        return sum(self.resolver_reach(h) * self.chance_reach(h) for h in self.members(state))

    def below(self, state: Label, scale: float = 1.0) -> Chance:
        """Chance over `h ∈ s` with weights `P_i(h)·P_c(h)·scale`, then the subgame."""
        members = self.members(state)
        weights = tuple(self.chance_reach(h) * scale for h in members)
        children = tuple(Past(self.resolver, self.resolver_reach(h), self.game.nodes[h]) for h in members)
        return Chance(weights, children)

    def value(self, state: Label, strategies: Strategy) -> float:
        """`V(s)` when both players play `strategies` below it."""
        return efg.sign(self.resolver) * efg.value(self.below(state), strategies)

    def worst_value(self, state: Label, strategies: Strategy) -> float:
        """`V(s)` when the opponent minimises below s."""
        return -efg.best_response_value(self.below(state), self.opponent, strategies)

    def alternative(self, state: Label, gifts: Mapping[Label, float] | None = None) -> float:
        """`V̄(s)`, or `V̄(s) - N(s)·Σg` where gifts `s → Σg` are given (reach gadgets)."""
        bar = self.worst_value(state, self.blueprint)
        return bar if gifts is None else bar - self.normalizer(state) * gifts[state]

    def normalized_cbvs(self) -> dict[Label, float]:
        """`V̄(s)/N(s)` wherever `N(s) > 0`."""
        return {s: self.alternative(s) / self.normalizer(s) for s in self.states if self.normalizer(s) > 0}


def subgames(
    game: efg.Game, components: Sequence[Sequence[int]], resolver: int, blueprint: Strategy
) -> list[Subgame]:
    """One `Subgame` for every list of root histories."""
    return [Subgame(game, tuple(roots), resolver, blueprint) for roots in components]


@dataclasses.dataclass(frozen=True, eq=False)
class Gadget:
    """A gadget game: an explicit tree, and the floors ε·prior on the opponent's entry actions."""

    root: Node
    floors: Floors
    resolver: int

    @property
    def order(self) -> tuple[int, int]:
        """Who updates first in CFR: the opponent, then the resolving player (design §2)."""
        return 1 - self.resolver, self.resolver


# Priors


def clipped_reaches(subgame: Subgame) -> dict[Label, float] | None:
    """`q(s) = max(P_-i(s) / Σ_s P_-i(s), 1e-3)`; None where the sum is 0."""
    reach = {s: subgame.opponent_reach(s) for s in subgame.states}
    total = sum(reach.values())
    return {s: max(r / total, CLIP) for s, r in reach.items()} if total > 0 else None


def resolving_prior(subgame: Subgame, state: Label, prior: str) -> Array:
    """`[p(s, follow), p(s, terminate)]`; uniform also where the blueprint never gets there."""
    _check(prior)
    q = clipped_reaches(subgame) if prior == "blueprint" else None
    return np.array([0.5, 0.5]) if q is None else np.array([q[state], 1.0 - q[state]])


def max_margin_prior(subgame: Subgame, prior: str) -> Array:
    """`p(s)` over the infostates with `N(s) > 0`, in the order of `max_margin_states`."""
    _check(prior)
    states = max_margin_states(subgame)
    q = clipped_reaches(subgame) if prior == "blueprint" else None
    weights = np.array([1.0 if q is None else q[s] for s in states])
    return weights / weights.sum()


def max_margin_states(subgame: Subgame) -> tuple[Label, ...]:
    """The actions of the max-margin entry: every `s` with `N(s) > 0`."""
    return tuple(s for s in subgame.states if subgame.normalizer(s) > 0)


def _check(prior: str) -> None:
    if prior not in PRIORS:
        raise ValueError(f"prior={prior!r}: expected one of {PRIORS}")


# Gadgets


def build(
    kind: str,
    subgame: Subgame,
    prior: str = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> Gadget:
    """A gadget by name: `unsafe` (takes no prior), `resolving` or `max-margin`."""
    if kind == "unsafe":
        return unsafe(subgame)
    if kind == "resolving":
        return resolving(subgame, prior, epsilon, gifts)
    if kind == "max-margin":
        return max_margin(subgame, prior, epsilon, gifts)
    raise ValueError(f"kind={kind!r}: expected one of {KINDS}")


def unsafe(subgame: Subgame) -> Gadget:
    """Chance over the roots with weights `P_i·P_c·P_-i`: the opponent has no way in of its own.

    With every `P_-i(s) = 0` the game ends at once, with value 0 (the blueprint stays).
    """
    if all(subgame.opponent_reach(s) == 0 for s in subgame.states):
        return Gadget(Terminal(0.0), {}, subgame.resolver)
    parts = tuple(Past(subgame.opponent, subgame.opponent_reach(s), subgame.below(s)) for s in subgame.states)
    return Gadget(Chance((1.0,) * len(parts), parts), {}, subgame.resolver)


def resolving(
    subgame: Subgame,
    prior: str = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> Gadget:
    """At every `s` the opponent follows into the subgame, or terminates and gains `-V̄(s)`."""
    entries: list[Node] = []
    floors: dict[Label, Array] = {}
    for state in subgame.states:
        terminate = Terminal(efg.sign(subgame.resolver) * subgame.alternative(state, gifts))
        entry = Decision(
            subgame.opponent,
            entry_label(state),
            ("follow", "terminate"),
            (subgame.below(state), terminate),
        )
        entries.append(entry)
        if prior != "none":
            floors[entry_label(state)] = epsilon * resolving_prior(subgame, state, prior)
    return Gadget(Chance((1.0,) * len(entries), tuple(entries)), floors, subgame.resolver)


def max_margin(
    subgame: Subgame,
    prior: str = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> Gadget:
    """The opponent picks an `s` with `N(s) > 0`; the subgame below pays its value less `V̄(s)/N(s)`.

    With every `N(s) = 0` the simplex is empty and the game ends at once, with value 0 (the
    blueprint stays). Where some are 0, their subgames hang beside the entry with weight 0, so that
    every infoset exists; nothing there counts, and averages there mean nothing.
    """
    states = max_margin_states(subgame)
    if not states:
        return Gadget(Terminal(0.0), {}, subgame.resolver)
    parts: list[Node] = []
    for state in states:
        scale = 1.0 / subgame.normalizer(state)
        margin = efg.sign(subgame.resolver) * subgame.alternative(state, gifts) * scale
        parts.append(shifted(subgame.below(state, scale), -margin))
    entry = Decision(subgame.opponent, entry_label(), states, tuple(parts))
    outside = tuple(subgame.below(s) for s in subgame.states if s not in states)
    root = Chance((1.0,) + (0.0,) * len(outside), (entry, *outside))
    floors = {} if prior == "none" else {entry_label(): epsilon * max_margin_prior(subgame, prior)}
    return Gadget(root, floors, subgame.resolver)


def shifted(node: Node, amount: float) -> Node:
    """A copy with `amount` added to every terminal's payoff.

    Adds `amount` to the node's value if the weights below it sum to 1 (`P_i·P_c/N` and chance do).
    """
    if isinstance(node, Terminal):
        return Terminal(node.payoff + amount)
    if isinstance(node, Past):
        return Past(node.player, node.reach, shifted(node.child, amount))
    children = tuple(shifted(child, amount) for child in node.children)
    return dataclasses.replace(node, children=children)


def optimal_continuation(game: efg.Game, roots: Sequence[int], resolver: int, blueprint: Strategy) -> Gadget:
    """The whole game with player i fixed to the blueprint everywhere but below the roots of a cut."""
    stop = {game.nodes[h] for h in roots}

    def fixed(node: Node) -> Node:
        if node in stop or isinstance(node, Terminal):
            return node
        if isinstance(node, Past):
            return Past(node.player, node.reach, fixed(node.child))
        children = tuple(fixed(child) for child in node.children)
        if isinstance(node, Decision) and node.player == resolver:
            row = blueprint[node.infoset]
            past = tuple(Past(resolver, float(p), child) for p, child in zip(row, children, strict=True))
            return Chance((1.0,) * len(past), past)
        return dataclasses.replace(node, children=children)

    return Gadget(fixed(game.root), {}, resolver)


# What the LPs maximise, and certificates


def objective(
    kind: str,
    subgame: Subgame,
    strategies: Strategy,
    prior: str = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> float:
    """Design §3, "What the LPs maximise", at the resolving player's strategy below the roots."""
    worst = {s: subgame.worst_value(s, strategies) for s in subgame.states}
    if kind == "unsafe":
        return sum(subgame.opponent_reach(s) * worst[s] for s in subgame.states)
    eps = 0.0 if prior == "none" else epsilon
    bar = {s: subgame.alternative(s, gifts) for s in subgame.states}
    if kind == "resolving":
        total = 0.0
        for s in subgame.states:
            p = resolving_prior(subgame, s, prior)
            total += (1 - eps) * min(worst[s], bar[s]) + eps * float(p @ [worst[s], bar[s]])
        return total
    states = max_margin_states(subgame)
    if not states:
        return 0.0
    margins = np.array([(worst[s] - bar[s]) / subgame.normalizer(s) for s in states])
    return float((1 - eps) * margins.min() + eps * max_margin_prior(subgame, prior) @ margins)


def rise_bound(
    kind: str,
    subgame: Subgame,
    strategies: Strategy,
    gap: float,
    prior: str = "none",
    epsilon: float = 0.0,
) -> float:
    """One subgame's term in `exploitability_bound` (design §3).

    Resolving adds the terms of all subgames, max-margin takes the largest.
    """
    eps = 0.0 if prior == "none" else epsilon
    change = {s: subgame.worst_value(s, strategies) - subgame.alternative(s) for s in subgame.states}
    if kind == "resolving":
        extra = sum(resolving_prior(subgame, s, prior)[FOLLOW] * change[s] for s in subgame.states)
    elif kind == "max-margin":
        states = max_margin_states(subgame)
        if not states:
            return 0.0
        margins = np.array([change[s] / subgame.normalizer(s) for s in states])
        extra = float(max_margin_prior(subgame, prior) @ margins)
    else:
        raise ValueError(f"kind={kind!r}: only 'resolving' and 'max-margin' have a bound")
    return max(gap + eps * extra, 0.0) / (1 - eps)
