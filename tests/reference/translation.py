"""Translation by a loop over histories, with a dictionary of shadows for each."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, bet_fraction
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.translation import RULES
from jaxgadget.tree.history import HistoryTree
from jaxgadget.tree.matching import first_child, same_actions
from jaxgadget.util.arrays import FloatArray, IntArray

OVER = -1
"""The shadow that has ended."""

Belief = dict[int, FloatArray]
"""Shadow → its probability, `[lanes]`."""


def translated_rows(
    policy: Policy, tree: HistoryTree, player: int, rule: str, seed: int | None = None
) -> FloatArray:
    """`[Q, lanes]` the player's rows in all infosets; with a seed, in the single shadow that is drawn."""
    everything = np.arange(len(tree.infosets[player]))
    return _Translator(policy, tree, player, rule, seed).rows(everything)


class _Translator:
    """The shadows of one player, with the probability of each after histories of the larger tree."""

    def __init__(self, policy: Policy, tree: HistoryTree, player: int, rule: str, seed: int | None = None):
        self.policy, self.tree, self.player = policy, tree, player
        self.shadow_tree = policy.tree
        self.rule = RULES[rule]
        self.uniform = None if seed is None else uniforms(tree, player, seed)
        small, large = self.shadow_tree.game, tree.game
        self.to_shadow = [same_actions(large, small, p).tolist() for p in (0, 1)]
        self.from_shadow = same_actions(small, large, player).tolist()
        self._children: dict[int, dict[int, int]] = {}
        self._bets: dict[int, list[tuple[float, int]]] = {}

    def rows(self, infosets: IntArray) -> FloatArray:
        """`[Q, lanes]` probabilities in some infosets, 0 in the others."""
        own = self.tree.infosets[self.player]
        rows = np.zeros((own.num_sequences - 1, self.policy.num_lanes))
        histories = own.history[infosets].tolist()
        beliefs = self._beliefs(histories)
        for infoset, history in zip(infosets.tolist(), histories, strict=True):
            first, legal = int(own.first_sequence[infoset]), self._legal(history)
            for (_, action), share in self._plays(history, beliefs[history]):
                rows[first - 1 + legal.index(action)] += share
        return rows

    def _beliefs(self, histories: Sequence[int]) -> dict[int, Belief]:
        """The probability of every shadow, after some histories and all their ancestors."""
        on_the_way = set[int]()
        for history in histories:
            while history not in on_the_way:
                on_the_way.add(history)
                history = int(self.tree.parent[history])
        beliefs: dict[int, Belief] = {0: {0: np.ones(self.policy.num_lanes)}}
        for history in sorted(on_the_way - {0}):
            parent = int(self.tree.parent[history])
            belief = self._after(parent, history, beliefs[parent])
            beliefs[history] = belief if self.uniform is None else _draw(belief, self.uniform[history])
        return beliefs

    def _after(self, parent: int, history: int, belief: Belief) -> Belief:
        """The shadows after a move."""
        actor = int(self.tree.actor[parent])
        if actor == CHANCE:
            outcome = int(self.tree.action[2, history])
            return _add((self._after_chance(shadow, outcome), weight) for shadow, weight in belief.items())
        mover = 0 if actor == ACTOR_BIT[0] else 1
        action = int(self.tree.action[mover, history])
        others = _add(
            (after, weight * share)
            for shadow, weight in belief.items()
            for after, share in self._taken_for(parent, mover, action, shadow)
        )
        if mover != self.player:
            return others
        own = _add((after, weight) for (after, made), weight in self._plays(parent, belief) if made == action)
        total = np.sum(list(own.values()), axis=0) if own else np.zeros(self.policy.num_lanes)
        played = total > 0
        divisor = np.where(played, total, 1.0)
        return _add(
            [(shadow, np.where(played, weight / divisor, 0.0)) for shadow, weight in own.items()]
            + [(shadow, np.where(played, 0.0, weight)) for shadow, weight in others.items()]
        )

    def _after_chance(self, shadow: int, outcome: int) -> int:
        is_chance = shadow != OVER and self.shadow_tree.actor[shadow] == CHANCE
        return self._children_of(shadow).get(outcome, OVER) if is_chance else OVER

    def _acts(self, shadow: int, player: int) -> bool:
        """Whether a player acts in a shadow too."""
        return shadow != OVER and int(self.shadow_tree.actor[shadow]) == ACTOR_BIT[player]

    def _taken_for(self, history: int, player: int, action: int, shadow: int) -> list[tuple[int, float]]:
        """The abstract actions that an action maps to: the shadow after each, and its probability."""
        if not self._acts(shadow, player):
            return [(OVER, 1.0)]
        children = self._children_of(shadow)
        same = self.to_shadow[player][action]
        if same in children:
            return [(children[same], 1.0)]
        x = self._size(history, action)
        assert x is not None
        bets = self._bets_of(shadow) if x > 0 else []
        if not bets:
            calls = [child for a, child in children.items() if self._shadow_size(shadow, a) == 0]
            return [(calls[0] if calls else OVER, 1.0)]
        above = bisect.bisect_left(bets, (x, -1))
        if above in (0, len(bets)) or bets[above][0] == x:
            return [(bets[min(above, len(bets) - 1)][1], 1.0)]
        (low, first), (high, second) = bets[above - 1], bets[above]
        share = self.rule(x, low, high)
        return [(first, share), (second, 1 - share)]

    def _plays(self, history: int, belief: Belief) -> list[tuple[tuple[int, int], FloatArray]]:
        """The player's moves: the shadow after each, the action made, and `[lanes]` its probability."""
        plays: list[tuple[tuple[int, int], FloatArray]] = []
        for shadow, weight in belief.items():
            if not self._acts(shadow, self.player):
                plays.append(((OVER, self._passive(history)), weight))
                continue
            own = self.shadow_tree.infosets[self.player]
            first = int(own.first_sequence[self.shadow_tree.infoset[self.player, shadow]])
            for slot, (action, child) in enumerate(sorted(self._children_of(shadow).items())):
                share = self.policy.probabilities[self.player][first - 1 + slot]
                plays.append(((child, self._made(history, shadow, action)), weight * share))
        return plays

    def _made(self, history: int, shadow: int, action: int) -> int:
        """The action that implements one of the shadow's actions."""
        legal, same = self._legal(history), self.from_shadow[action]
        if same in legal:
            return same
        x = self._shadow_size(shadow, action)
        sizes = [(self._size(history, bet), bet) for bet in legal] if x else []
        bets = [(abs(size - x), size, bet) for size, bet in sizes if x and size]
        return min(bets)[2] if bets else self._passive(history)

    def _passive(self, history: int) -> int:
        """Check or call."""
        return next(action for action in self._legal(history) if self._size(history, action) == 0)

    def _children_of(self, shadow: int) -> dict[int, int]:
        """The shadow after each of the actor's moves, in ascending order."""
        if shadow not in self._children:
            begin, end = first_child(self.shadow_tree, np.array([shadow, shadow + 1])).tolist()
            moves = self.shadow_tree.action[:, begin:end].max(axis=0).tolist()
            self._children[shadow] = dict(zip(moves, range(begin, end), strict=True))
        return self._children[shadow]

    def _bets_of(self, shadow: int) -> list[tuple[float, int]]:
        """The bets of the actor in the shadow, ascending, and the shadow after each."""
        if shadow not in self._bets:
            sizes = [(self._shadow_size(shadow, a), child) for a, child in self._children_of(shadow).items()]
            self._bets[shadow] = sorted((size, child) for size, child in sizes if size)
        return self._bets[shadow]

    def _shadow_size(self, shadow: int, action: int) -> float | None:
        return bet_fraction(self.shadow_tree.game, self.shadow_tree.moves(shadow), action)

    def _size(self, history: int, action: int) -> float | None:
        return bet_fraction(self.tree.game, self.tree.moves(history), action)

    def _legal(self, history: int) -> list[int]:
        """The player's legal actions after a history, ascending."""
        own = self.tree.infosets[self.player]
        infoset = int(self.tree.infoset[self.player, history])
        first = int(own.first_sequence[infoset])
        return own.action[first : first + int(own.num_actions[infoset])].tolist()


def _add(pairs: Iterable[tuple[int, FloatArray]]) -> Belief:
    """Add up the probabilities of equal shadows, without those of probability 0."""
    belief: Belief = {}
    for shadow, weight in pairs:
        belief[shadow] = belief[shadow] + weight if shadow in belief else weight
    return {shadow: weight for shadow, weight in belief.items() if weight.any()}


def _draw(belief: Belief, uniform: float) -> Belief:
    """One of the shadows in every lane, given a number in [0, 1)."""
    shadows = sorted(belief)
    running = np.cumsum([belief[shadow] for shadow in shadows], axis=0)
    drawn = (running <= uniform * running[-1]).sum(axis=0)
    return _add((shadow, (drawn == k).astype(np.float64)) for k, shadow in enumerate(shadows))


def uniforms(tree: HistoryTree, player: int, seed: int) -> FloatArray:
    """`[n]` a number in [0, 1) for every history, equal within an infostate."""
    names, infostate = np.unique(tree.infostate[player], return_inverse=True)
    generator = np.random.Generator(np.random.Philox(key=np.array([seed, player], np.uint64)))
    return generator.random(len(names))[infostate]
