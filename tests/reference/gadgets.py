"""Gadget games as explicit trees, by enumeration from the definitions of design §3.

Everything is in the resolving player's utility. The opponent's entry is a tree of its own decisions above
copies of the subgame's nodes: nothing is a constant gradient or a scale here. The resolving player's reach
`P_i(h)` of a root is a `Past` move: a chance weight to the opponent, and left out of the resolving player's
own counterfactual values (so they are defined where it is 0) and of its averages ("root reach 1").
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from tests.reference import efg
from tests.reference.efg import Array, Chance, Decision, Floors, Label, Node, Past, Strategy, Terminal


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of gadget game, without its tree.

    Attributes:
      bound: the bound on the rise of exploitability from the losses of a cut's games: their `sum`, or the
        largest, `max`; None if there is no bound.
      is_joint: one game for all subgames of the cut.
      is_margin: payoffs are divided by the reach `N(s)` of a root.
      has_gifts: alternative values include gifts.
      has_siblings: the value includes those of the other subgames.
    """

    bound: Literal["sum", "max"] | None = None
    is_joint: bool = False
    is_margin: bool = False
    has_gifts: bool = False
    has_siblings: bool = False


KINDS = {
    "unsafe": Kind(),
    "resolving": Kind("sum"),
    "max-margin": Kind("max", is_margin=True),
    "reach-resolving": Kind("sum", has_gifts=True),
    "reach-max-margin": Kind("max", is_margin=True, has_gifts=True),
    "full": Kind(has_siblings=True),
    "optimal-continuation": Kind("max", is_joint=True),
}
"""Kinds by the gadget's name."""
BOUNDED = tuple(name for name, kind in KINDS.items() if kind.bound is not None)
"""Kinds with a bound on exploitability."""
PRIORS = ("none", "uniform", "blueprint", "range")
Prior: TypeAlias = "str | Mapping[Label, float | Array]"
"""One of `PRIORS`, or a user's numbers: probability of following by state (resolving), weights
by state (max-margin), or weights of the actions by the opponent's infosets (full, optimal
continuation)."""
CLIP = 1e-3
"""Least value of `q(s)` in a blueprint prior, and of an action's weight above the cut."""
FOLLOW, TERMINATE = 0, 1
ENTRY = "entry"


def entry_label(state: Label | None = None) -> Label:
    """Label of the opponent's entry infoset: one per `s` (resolving), or a single one (max-margin)."""
    return (ENTRY,) if state is None else (ENTRY, state)


@dataclasses.dataclass(frozen=True, eq=False)
class Above:
    """The game above a cut, for one resolving player and blueprint.

    Attributes:
      game: the whole game.
      components: the root histories of every subgame.
      resolver: player i.
      blueprint: both players' probabilities at every infoset of the game.
      alternatives: replaces `V̄(s)` at every root infostate of the opponent; by default the values
        of its best response to the blueprint.
    """

    game: efg.Game
    components: tuple[tuple[int, ...], ...]
    resolver: int
    blueprint: Strategy
    alternatives: Mapping[Label, float] | None = None

    @property
    def opponent(self) -> int:
        return 1 - self.resolver

    @functools.cached_property
    def reaches(self) -> dict[Node, tuple[float, float, float]]:
        """`(P_0, P_1, P_c)` of every node under the blueprint."""
        return efg.reaches(self.game.root, self.blueprint)

    @functools.cached_property
    def subgames(self) -> list[Subgame]:
        return [Subgame(self, roots) for roots in self.components]

    @functools.cached_property
    def subgame_of(self) -> dict[Node, Subgame]:
        """The subgame of each root node."""
        return {self.game.nodes[h]: subgame for subgame in self.subgames for h in subgame.roots}

    @functools.cached_property
    def mass(self) -> dict[Label, float]:
        """`N(I') = Σ_{h∈I'} P_i(h)·P_c(h)` of every infoset of the opponent."""
        found: dict[Label, float] = {}
        for node, reach in self.reaches.items():
            if isinstance(node, Decision) and node.player == self.opponent:
                found[node.infoset] = found.get(node.infoset, 0.0) + reach[self.resolver] * reach[2]
        return found

    @functools.cached_property
    def cbv(self) -> dict[Label, Array]:
        """`CBV(I', a)` above the cut, weighted by `P_i·P_c`, in the opponent's utility.

        The opponent's best response to the blueprint, with the alternative values at the roots.
        """
        root = self.cut_off(lambda node: None)
        best = efg.best_response(root, self.opponent, {})
        return efg.counterfactual_values(root, self.opponent, best)

    def cut_off(self, stop: Callable[[Node], Node | None]) -> Node:
        """The game above the cut, with the resolving player fixed to its blueprint.

        Args:
          stop: returns a replacement of a node, or None; by default a root pays its normalised
            alternative value, and everything else stays.
        """

        def copy(node: Node) -> Node:
            instead = stop(node)
            if instead is not None:
                return instead
            if node in self.subgame_of:
                return self.subgame_of[node].paid(node)
            if isinstance(node, Terminal):
                return node
            assert not isinstance(node, Past)
            children = tuple(copy(child) for child in node.children)
            if isinstance(node, Decision) and node.player == self.resolver:
                row = self.blueprint[node.infoset]
                past = tuple(
                    Past(self.resolver, float(p), child) for p, child in zip(row, children, strict=True)
                )
                return Chance((1.0,) * len(past), past)
            return dataclasses.replace(node, children=children)

        return copy(self.game.root)

    @functools.cached_property
    def ways(self) -> dict[Node, tuple[tuple[Label, int], ...]]:
        """The opponent's `(infoset, index of the action)` on the path to each root."""
        found: dict[Node, tuple[tuple[Label, int], ...]] = {}

        def visit(node: Node, way: tuple[tuple[Label, int], ...]) -> None:
            if node in self.subgame_of:
                found[node] = way
                return
            for number, child in enumerate(efg.children_of(node)):
                mine = isinstance(node, Decision) and node.player == self.opponent
                visit(child, (*way, (node.infoset, number)) if mine else way)

        visit(self.game.root, ())
        return found

    @functools.cached_property
    def ends(self) -> dict[Label, list[bool]]:
        """The opponent's actions that end the game at once, at any node of their infosets.

        The other player's half of a simultaneous move is no history, and is skipped.
        """
        histories = set(self.game.nodes)

        def ended(node: Node) -> bool:
            if isinstance(node, Terminal):
                return True
            return node not in histories and all(ended(child) for child in efg.children_of(node))

        found: dict[Label, list[bool]] = {}
        for node in efg.walk(self.game.root):
            if isinstance(node, Decision) and node.player == self.opponent:
                here = [ended(child) for child in node.children]
                before = found.get(node.infoset, [True] * len(here))
                found[node.infoset] = [a and b for a, b in zip(before, here, strict=True)]
        return found

    def gift(self, infoset: Label, taken: int, rule: str) -> float:
        """The value that the opponent gave up: `max_a CBV(I', a) − CBV(I', a')`, not normalised.

        Brown and Sandholm 2017, §5: a over the actions that end the game at once and a' itself
        (`lower-bound`), or over all actions (`estimate`).
        """
        q = self.cbv[infoset]
        if rule == "estimate":
            return float(q.max() - q[taken])
        assert rule == "lower-bound"
        others = [value for value, ends in zip(q, self.ends[infoset], strict=True) if ends]
        return float(max([*others, q[taken]]) - q[taken])

    def most_below(self, infoset: Label, taken: int) -> float:
        """The largest `Σ_s N(s)` of subgames that the opponent can reach after an action.

        It chooses its later actions; chance and the resolving player's blueprint are fixed.
        """

        def visit(node: Node, below: bool) -> Node:
            """Pay 1 at every root below the action."""
            if node in self.subgame_of:
                return Terminal(efg.sign(self.opponent) * float(below))
            if isinstance(node, Terminal):
                return Terminal(0.0)
            assert not isinstance(node, Past)
            children = tuple(
                visit(child, below or (isinstance(node, Decision) and (node.infoset, n) == (infoset, taken)))
                for n, child in enumerate(node.children)
            )
            if isinstance(node, Decision) and node.player == self.resolver:
                return Chance(tuple(map(float, self.blueprint[node.infoset])), children)
            return dataclasses.replace(node, children=children)

        root = visit(self.game.root, False)
        best = efg.best_response(root, self.opponent, {})
        return float(efg.counterfactual_values(root, self.opponent, best)[infoset][taken])

    @functools.cached_property
    def _known_gifts(self) -> dict[tuple[str, bool], dict[Label, float]]:
        return {}

    def gifts(self, rule: str = "lower-bound", scaled: bool = False) -> dict[Label, float]:
        """`Σg` of every root infostate of the opponent, normalised.

        Each gift is divided by `N(I')`, or (`scaled`, for a single subgame) by the part of it that can reach
        the subgame after a'.
        """
        if (rule, scaled) in self._known_gifts:
            return self._known_gifts[rule, scaled]
        found: dict[Label, float] = {}
        for subgame in self.subgames:
            for state in subgame.states:
                (way,) = {self.ways[self.game.nodes[h]] for h in subgame.members(state)}
                total = 0.0
                for infoset, taken in way:
                    share = self.most_below(infoset, taken) if scaled else self.mass[infoset]
                    total += self.gift(infoset, taken, rule) / share if share > 0 else 0.0
                found[state] = total
        self._known_gifts[rule, scaled] = found
        return found

    @functools.cached_property
    def known_ways_in(self) -> dict[tuple[int, ...], Node]:
        """Cached trees of `way_in`, by roots."""
        return {}


@dataclasses.dataclass(frozen=True, eq=False)
class Subgame:
    """One subgame of a game, re-solved by a player against a blueprint of both.

    Attributes:
      above: the cut, and the data that all its subgames share.
      roots: the subgame's root histories.
    """

    above: Above
    roots: tuple[int, ...]

    @property
    def game(self) -> efg.Game:
        return self.above.game

    @property
    def resolver(self) -> int:
        return self.above.resolver

    @property
    def opponent(self) -> int:
        return 1 - self.resolver

    @property
    def blueprint(self) -> Strategy:
        return self.above.blueprint

    def _reach(self, history: int) -> tuple[float, float, float]:
        return self.above.reaches[self.game.nodes[history]]

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

    @functools.cached_property
    def _members(self) -> dict[Label, list[int]]:
        found: dict[Label, list[int]] = {}
        for h in self.roots:
            found.setdefault(self.game.infostate[self.opponent][h], []).append(h)
        return found

    def members(self, state: Label) -> list[int]:
        """Root histories `h ∈ s`."""
        return self._members[state]

    def opponent_reach(self, state: Label) -> float:
        """`P_-i(s)`, equal at every `h ∈ s` by perfect recall."""
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

    @functools.cached_property
    def _alternatives(self) -> Mapping[Label, float]:
        if self.above.alternatives is not None:
            return self.above.alternatives
        return {state: self.worst_value(state, self.blueprint) for state in self.states}

    def alternative(self, state: Label, gifts: Mapping[Label, float] | None = None) -> float:
        """`V̄(s)`, or `V̄(s) - N(s)·Σg` where gifts `s → Σg` are given (reach gadgets)."""
        bar = self._alternatives[state]
        return bar if gifts is None else bar - self.normalizer(state) * gifts[state]

    def paid(self, node: Node) -> Terminal:
        """The replacement of a root's node outside its subgame: `V̄(s)/N(s)`, 0 if `N(s) = 0`."""
        (state,) = {self.game.infostate[self.opponent][h] for h in self.roots if self.game.nodes[h] is node}
        mass = self.normalizer(state)
        return Terminal(efg.sign(self.resolver) * self.alternative(state) / mass if mass > 0 else 0.0)

    def normalized_cbvs(self) -> dict[Label, float]:
        """`V̄(s)/N(s)` of every s with `N(s) > 0`."""
        return {s: self.alternative(s) / self.normalizer(s) for s in self.states if self.normalizer(s) > 0}


def subgames(
    game: efg.Game,
    components: Sequence[Sequence[int]],
    resolver: int,
    blueprint: Strategy,
    alternatives: Mapping[Label, float] | None = None,
) -> list[Subgame]:
    """One `Subgame` for every list of root histories, which together are the cut."""
    parts = tuple(tuple(roots) for roots in components)
    return Above(game, parts, resolver, blueprint, alternatives).subgames


@dataclasses.dataclass(frozen=True, eq=False)
class Gadget:
    """A gadget game as an explicit tree.

    Attributes:
      root: the tree.
      floors: ε·prior on the opponent's entry actions.
      resolver: player i.
      places: the node of each root history of its subgames.
    """

    root: Node
    floors: Floors
    resolver: int
    places: Mapping[int, Node] = dataclasses.field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """The order of CFR updates: the opponent, then the resolving player (design §2)."""
        return 1 - self.resolver, self.resolver

    @functools.cached_property
    def entry(self) -> dict[Label, Decision]:
        """The opponent's decisions above the subgames."""
        below = {id(node) for place in self.places.values() for node in efg.walk(place)}
        found: dict[Label, Decision] = {}
        for node in efg.walk(self.root):
            if isinstance(node, Decision) and id(node) not in below and node.player != self.resolver:
                found.setdefault(node.infoset, node)
        return found


# Priors


def clipped_reaches(subgame: Subgame) -> dict[Label, float] | None:
    """`q(s) = max(P_-i(s) / Σ_s P_-i(s), 1e-3)`; None where the sum is 0."""
    reach = {s: subgame.opponent_reach(s) for s in subgame.states}
    total = sum(reach.values())
    return {s: max(r / total, CLIP) for s, r in reach.items()} if total > 0 else None


def range_shares(subgame: Subgame) -> dict[Label, float]:
    """`P_-i(s)·N(s)` over its sum in the subgame; 0 where that is 0."""
    weight = {s: subgame.opponent_reach(s) * subgame.normalizer(s) for s in subgame.states}
    total = sum(weight.values())
    return {s: w / total if total > 0 else 0.0 for s, w in weight.items()}


def resolving_prior(subgame: Subgame, state: Label, prior: Prior) -> Array:
    """`[p(s, follow), p(s, terminate)]`; uniform also where the blueprint has no reach."""
    if isinstance(prior, Mapping):
        return np.array([prior[state], 1.0 - prior[state]])
    _check(prior)
    if prior == "range":
        share = range_shares(subgame)[state]
        return np.array([share, 1.0 - share])
    q = clipped_reaches(subgame) if prior == "blueprint" else None
    return np.array([0.5, 0.5]) if q is None else np.array([q[state], 1.0 - q[state]])


def max_margin_prior(subgame: Subgame, prior: Prior) -> Array:
    """`p(s)` over the infostates with `N(s) > 0`, in the order of `max_margin_states`; 0 if all are 0."""
    states = max_margin_states(subgame)
    if isinstance(prior, Mapping):
        weights = np.array([float(prior[s]) for s in states])
    elif prior == "range":
        shares = range_shares(subgame)
        weights = np.array([shares[s] for s in states])
    else:
        _check(prior)
        q = clipped_reaches(subgame) if prior == "blueprint" else None
        weights = np.array([1.0 if q is None else q[s] for s in states])
    return weights / weights.sum() if weights.sum() > 0 else weights


def way_prior(above: Above, infoset: Label, prior: Prior) -> Array:
    """Weights of the opponent's actions at an infoset above the cut, as a distribution; 0 if all are 0."""
    row = np.asarray(above.blueprint[infoset])
    if isinstance(prior, Mapping):
        weights = np.asarray(prior[infoset], np.float64)
    else:
        _check(prior)
        weights = {"blueprint": np.maximum(row, CLIP), "range": row}.get(prior, np.ones(len(row)))
    return weights / weights.sum() if weights.sum() > 0 else np.zeros(len(row))


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
    prior: Prior = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> Gadget:
    """A gadget by name in `KINDS`; an optimal continuation covers all subgames of the cut.

    Reach gadgets take lower bounds of gifts if no others are given.
    """
    gifts = _gifts(kind, subgame, gifts)
    if kind == "unsafe":
        return unsafe(subgame)
    if kind in ("resolving", "reach-resolving"):
        return resolving(subgame, prior, epsilon, gifts)
    if kind in ("max-margin", "reach-max-margin"):
        return max_margin(subgame, prior, epsilon, gifts)
    if kind == "full":
        return way_in(subgame.above, subgame.roots, prior, epsilon)
    if kind == "optimal-continuation":
        return way_in(subgame.above, [h for roots in subgame.above.components for h in roots], prior, epsilon)
    raise ValueError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")


def build_all(
    kind: str,
    above: Above,
    prior: Prior = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> list[Gadget]:
    """All gadget games of a cut: one for every subgame, or a single optimal continuation."""
    subgames = above.subgames[:1] if KINDS[kind].is_joint else above.subgames
    gifts = _gifts(kind, above.subgames[0], gifts)
    return [build(kind, subgame, prior, epsilon, gifts) for subgame in subgames]


def _gifts(kind: str, subgame: Subgame, gifts: Mapping[Label, float] | None) -> Mapping[Label, float] | None:
    return subgame.above.gifts() if gifts is None and KINDS[kind].has_gifts else gifts


def unsafe(subgame: Subgame) -> Gadget:
    """Chance over the roots with weights `P_i·P_c·P_-i`: the opponent has no entry decision.

    If every `P_-i(s) = 0`, the game ends at once with value 0 (the blueprint is kept).
    """
    if all(subgame.opponent_reach(s) == 0 for s in subgame.states):
        return Gadget(Terminal(0.0), {}, subgame.resolver)
    parts = tuple(Past(subgame.opponent, subgame.opponent_reach(s), subgame.below(s)) for s in subgame.states)
    places = {h: subgame.game.nodes[h] for h in subgame.roots}
    return Gadget(Chance((1.0,) * len(parts), parts), {}, subgame.resolver, places)


def resolving(
    subgame: Subgame,
    prior: Prior = "none",
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
    places = {h: subgame.game.nodes[h] for h in subgame.roots}
    return Gadget(Chance((1.0,) * len(entries), tuple(entries)), floors, subgame.resolver, places)


def max_margin(
    subgame: Subgame,
    prior: Prior = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> Gadget:
    """The opponent picks an `s` with `N(s) > 0`; the subgame below pays its value less `V̄(s)/N(s)`.

    If every `N(s) = 0`, the simplex is empty and the game ends at once, with value 0 (the
    blueprint stays). Where some are 0, their subgames hang beside the entry with weight 0, so that
    every infoset exists; nothing there counts, and averages there mean nothing.
    """
    states = max_margin_states(subgame)
    if not states:
        return Gadget(Terminal(0.0), {}, subgame.resolver)
    parts: list[Chance] = []
    places: dict[int, Node] = {}
    for state in states:
        scale = 1.0 / subgame.normalizer(state)
        margin = efg.sign(subgame.resolver) * subgame.alternative(state, gifts) * scale
        part = shifted(subgame.below(state, scale), -margin)
        assert isinstance(part, Chance)
        parts.append(part)
        for h, child in zip(subgame.members(state), part.children, strict=True):
            assert isinstance(child, Past)
            places[h] = child.child
    entry = Decision(subgame.opponent, entry_label(), states, tuple(parts))
    outside = tuple(subgame.below(s) for s in subgame.states if s not in states)
    places |= {
        h: subgame.game.nodes[h] for s in subgame.states if s not in states for h in subgame.members(s)
    }
    root = Chance((1.0,) + (0.0,) * len(outside), (entry, *outside))
    floors = {} if prior == "none" else {entry_label(): epsilon * max_margin_prior(subgame, prior)}
    return Gadget(root, floors, subgame.resolver, places)


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


def way_in(above: Above, roots: Sequence[int], prior: Prior = "none", epsilon: float = 0.0) -> Gadget:
    """The game above the cut, with the resolving player fixed, leading into the subgames at `roots`.

    The opponent is free at its infosets on the path to these roots. Play ends where it leaves the path:
    another subgame's root pays `V̄(s)/N(s)`, an infoset I' of the opponent that leads to none of these roots
    its best-response value `CBV(I')/N(I')` (0 where `N` is 0). The floors are at the infosets on the path.
    """
    inside = {above.game.nodes[h] for h in roots}
    on_way = {infoset for node in inside for infoset, _ in above.ways[node]}

    def stop(node: Node) -> Node | None:
        if node in inside:
            return node
        if isinstance(node, Decision) and node.player == above.opponent and node not in above.subgame_of:
            if node.infoset not in on_way:
                mass = above.mass[node.infoset]
                value = above.cbv[node.infoset].max() / mass if mass > 0 else 0.0
                return Terminal(efg.sign(above.opponent) * float(value))
        return None

    floors = {} if prior == "none" else {label: epsilon * way_prior(above, label, prior) for label in on_way}
    key = tuple(roots)
    if key not in above.known_ways_in:
        above.known_ways_in[key] = above.cut_off(stop)
    places = {h: above.game.nodes[h] for h in roots}
    return Gadget(above.known_ways_in[key], floors, above.resolver, places)


def optimal_continuation(game: efg.Game, roots: Sequence[int], resolver: int, blueprint: Strategy) -> Gadget:
    """The whole game with player i fixed to the blueprint everywhere except below the roots of a cut.

    The opponent decides everywhere, also where no subgame can follow.
    """
    above = Above(game, (tuple(roots),), resolver, blueprint)
    inside = {game.nodes[h] for h in roots}
    root = above.cut_off(lambda node: node if node in inside else None)
    return Gadget(root, {}, resolver, {h: game.nodes[h] for h in roots})


# Objectives of the linear programs, and certificates


def objective(
    kind: str,
    subgame: Subgame,
    strategies: Strategy,
    prior: Prior = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> float:
    """The objective of design §3, "What the LPs maximise", for the resolving player's strategy."""
    worst = {s: subgame.worst_value(s, strategies) for s in subgame.states}
    if kind == "unsafe":
        return sum(subgame.opponent_reach(s) * worst[s] for s in subgame.states)
    eps = 0.0 if prior == "none" else epsilon
    if kind in ("full", "optimal-continuation"):
        gadget = build(kind, subgame, prior, eps)
        return -efg.best_response_value(gadget.root, subgame.opponent, strategies, gadget.floors)
    bar = {s: subgame.alternative(s, _gifts(kind, subgame, gifts)) for s in subgame.states}
    if kind in ("resolving", "reach-resolving"):
        total = 0.0
        for s in subgame.states:
            p = resolving_prior(subgame, s, prior)
            total += (1 - eps) * min(worst[s], bar[s]) + eps * float(p @ [worst[s], bar[s]])
        return total
    assert kind in ("max-margin", "reach-max-margin")
    states = max_margin_states(subgame)
    if not states:
        return 0.0
    margins = np.array([(worst[s] - bar[s]) / subgame.normalizer(s) for s in states])
    p = max_margin_prior(subgame, prior)
    eps = eps * p.sum()  # 0 without weights to perturb towards
    return float((1 - eps) * margins.min() + eps * p @ margins)


def rise_bound(
    kind: str,
    subgame: Subgame,
    strategies: Strategy,
    gap: float,
    prior: Prior = "none",
    epsilon: float = 0.0,
    gifts: Mapping[Label, float] | None = None,
) -> float:
    """One gadget game's term in `exploitability_bound` (design §3).

    Resolving sums the terms of all subgames, max-margin takes the largest; an optimal continuation is one
    game.
    """
    eps = 0.0 if prior == "none" else epsilon
    if kind == "optimal-continuation":
        gadget = build(kind, subgame, prior, eps)
        free, bound = (
            efg.best_response_value(gadget.root, subgame.opponent, strategies, floors)
            for floors in (None, gadget.floors)
        )
        return max(gap + free - bound, 0.0)
    gifts = _gifts(kind, subgame, gifts)
    change = {s: subgame.worst_value(s, strategies) - subgame.alternative(s, gifts) for s in subgame.states}
    if kind in ("resolving", "reach-resolving"):
        extra = sum(resolving_prior(subgame, s, prior)[FOLLOW] * change[s] for s in subgame.states)
    elif kind in ("max-margin", "reach-max-margin"):
        states = max_margin_states(subgame)
        if not states:
            return 0.0
        margins = np.array([change[s] / subgame.normalizer(s) for s in states])
        extra = float(max_margin_prior(subgame, prior) @ margins)
    else:
        raise ValueError(f"kind={kind!r}: only {', '.join(BOUNDED)} have a bound")
    return max(gap + eps * extra, 0.0) / (1 - eps)
