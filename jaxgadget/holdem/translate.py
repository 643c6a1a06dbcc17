"""Translates the solution of a spot to the same spot with another menu, as in `policy.translation`.

A player follows its strategy in *shadows*: nodes of the solved tree that represent the current node. The
other player's action is mapped to the action of the same name; a bet without such an action is mapped to one
of its two neighbours, with the rule's probabilities, or to a call or check if there is no bet. The player's
own action is mapped to the action of the same name, otherwise to the nearest bet, otherwise to a call or
check; an action that the player never takes with a hand is treated, for that hand, like one of the other
player. Once the hand is over in the shadow, the player checks or calls. Shadows are weighted, hand by hand,
by their probabilities given the player's own actions, which gives the equivalent behaviour strategy (Kuhn
1953).
"""

from __future__ import annotations

import bisect
from collections import defaultdict

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.holdem.betting import BettingTree
from jaxgadget.holdem.solution import SpotSolution
from jaxgadget.holdem.spots import Spot
from jaxgadget.holdem.strategies import action_nodes, rows_to_policy, uniform_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.policy.translation import TranslationRule, check_rule
from jaxgadget.tree.public import public_tree
from jaxgadget.util.arrays import FloatArray

_Belief = dict[int, FloatArray]
"""For every shadow `[H]` its probability with each hand × that of the player's own actions."""

_OVER = -1
"""The shadow once the hand is over in the solved tree."""


def translate_solution(solution: SpotSolution, spot: Spot, rule: str = "pseudo-harmonic") -> Policy:
    """Translates a solution to a spot with other menus.

    Args:
      solution: solution of a spot with the same board, dead cards, pot and stack; ranges may differ, and
        hands that the solution's ranges lack play uniformly.
      spot: the target spot.
      rule: `pseudo-harmonic`, `linear` or `nearest`, as in `translate`.

    Returns:
      A policy of `public_tree(spot)`, one lane.

    Raises:
      ValueError: if board, dead cards, pot or stack differ, the spots are flops, or the rule is unknown.
    """
    for name, solved_value, requested in (
        ("board", set(solution.spot.cards), set(spot.cards)),
        ("dead", set(solution.spot.dead_cards), set(spot.dead_cards)),
        ("pot", solution.spot.pot, spot.pot),
        ("stack", solution.spot.effective_stack, spot.effective_stack),
    ):
        if solved_value != requested:
            raise ValueError(
                f"solution of a spot with {name}={getattr(solution.spot, name)!r}: the spot has "
                f"{name}={getattr(spot, name)!r}; expected equal values; menus and ranges may differ"
            )
    spot.check_listed()
    rows = [
        np.repeat(uniform_rows(spot.betting.tree, player)[:, None], len(spot.hands), axis=1)
        for player in (0, 1)
    ]
    for player in (0, 1):
        _SpotTranslator(solution, spot, player, check_rule(rule), rows[player]).walk()
    label = f"{solution.algorithm}:{solution.iterations}"
    return rows_to_policy(public_tree(spot), (rows[0], rows[1]), label)


class _SpotTranslator:
    """Computes the rows of one player top-down, with the shadows of each node."""

    def __init__(
        self,
        solution: SpotSolution,
        spot: Spot,
        player: int,
        rule: TranslationRule,
        rows: FloatArray,
    ):
        self._rule, self._player, self._rows = rule, player, rows
        self._tree, self._shadows = spot.betting, solution.spot.betting
        self._num_hands = len(spot.hands)
        nodes = action_nodes(spot.betting.tree, player).tolist()
        self._row_of = {node: row for row, node in enumerate(nodes)}
        shadows = action_nodes(solution.spot.betting.tree, player).tolist()
        self._plays = dict(zip(shadows, solution.held[player].whole(), strict=True))

    def walk(self) -> None:
        """Visits all nodes, without recursion."""
        left: list[tuple[int, _Belief]] = [(0, {0: np.ones(self._num_hands)})]
        while left:
            node, belief = left.pop()
            children = self._tree.children(node)
            if not children:
                continue
            if int(self._tree.tree.actor[node]) == ACTOR_BIT[self._player]:
                left += self._own(children, node, belief)
            else:
                left += [(child, self._taken(child, node, belief)) for child in children]

    def _own(self, children: list[int], node: int, belief: _Belief) -> list[tuple[int, _Belief]]:
        """Computes the rows of a node at which the player acts."""
        played = {child: np.zeros(self._num_hands) for child in children}
        below: dict[int, _Belief] = {
            child: defaultdict(lambda: np.zeros(self._num_hands)) for child in children
        }
        for shadow, weight in belief.items():
            if not self._acts(shadow, node):
                made = self._passive(self._tree, node)
                played[made] += weight
                below[made][_OVER] = below[made][_OVER] + weight
                continue
            for action in self._shadows.children(shadow):
                made = self._made(children, node, shadow, action)
                share = weight * self._plays[action]
                played[made] += share
                below[made][action] = below[made][action] + share
        total = sum(played.values())
        for child in children:
            row = self._rows[self._row_of[child]]
            np.divide(played[child], total, out=row, where=total > 0)
            never = played[child] == 0
            if never.any():  # actions that a hand never takes are treated like the other player's
                for parent_shadow, weight in self._taken(child, node, belief).items():
                    below[child][parent_shadow] = below[child][parent_shadow] + np.where(never, weight, 0)
        return list(below.items())

    def _taken(self, child: int, node: int, belief: _Belief) -> _Belief:
        """Shadows of a node after a move of chance or of the other player."""
        after: _Belief = defaultdict(lambda: np.zeros(self._num_hands))
        for shadow, weight in belief.items():
            for next_shadow, probability in self._taken_for(child, node, shadow):
                after[next_shadow] = after[next_shadow] + probability * weight
        return after

    def _taken_for(self, child: int, node: int, shadow: int) -> list[tuple[int, float]]:
        if self._is_chance(self._tree, node):
            if shadow == _OVER or not self._is_chance(self._shadows, shadow):
                return [(_OVER, 1.0)]
            card = int(self._tree.card[child])
            return [(c, 1.0) for c in self._shadows.children(shadow) if int(self._shadows.card[c]) == card]
        if not self._acts(shadow, node):
            return [(_OVER, 1.0)]
        names = {self._shadows.action_name(c): c for c in self._shadows.children(shadow)}
        name = self._tree.action_name(child)
        if name in names:
            return [(names[name], 1.0)]
        size, sizes = self._tree.bet_size(child), self._sizes(shadow)
        if size is None or not sizes:
            return [(self._passive(self._shadows, shadow), 1.0)]
        larger = bisect.bisect_left([x for x, _ in sizes], size)
        if larger in (0, len(sizes)):
            return [(sizes[min(larger, len(sizes) - 1)][1], 1.0)]
        (below, first), (above, second) = sizes[larger - 1], sizes[larger]
        if above == size:
            return [(second, 1.0)]
        chance = self._rule(size, below, above)
        return [(first, chance), (second, 1 - chance)]

    def _made(self, children: list[int], node: int, shadow: int, action: int) -> int:
        """The player's action that represents an action of the solved tree."""
        names = {self._tree.action_name(child): child for child in children}
        name = self._shadows.action_name(action)
        if name in names:
            return names[name]
        size = self._shadows.bet_size(action)
        own = [(self._tree.bet_size(child), child) for child in children]
        bets = [(abs(x - size), child) for x, child in own if x is not None and size is not None]
        return min(bets)[1] if bets else self._passive(self._tree, node)

    def _acts(self, shadow: int, node: int) -> bool:
        """True if the same player acts."""
        return shadow != _OVER and self._shadows.tree.actor[shadow] == self._tree.tree.actor[node]

    def _sizes(self, shadow: int) -> list[tuple[float, int]]:
        """Bets at a node of the solved tree, ascending."""
        children = self._shadows.children(shadow)
        sized = [(self._shadows.bet_size(child), child) for child in children]
        return sorted((size, child) for size, child in sized if size is not None)

    @staticmethod
    def _passive(tree: BettingTree, node: int) -> int:
        """The child after a call or check; if it was removed, after the smallest bet, otherwise a fold."""
        children = tree.children(node)
        return next((c for c in children if tree.action_name(c) != "fold"), children[0])

    @staticmethod
    def _is_chance(tree: BettingTree, node: int) -> bool:
        return int(tree.tree.actor[node]) == CHANCE
