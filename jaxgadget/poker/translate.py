"""The solution of a spot as a blueprint of the same spot with another menu, as `policy.translation` does it.

A player follows its strategy in *shadows*: nodes of the solved tree that stand for the node that play has
reached. What the other player does is taken for the action of the same name; another bet for one of its two
neighbours, with the probabilities of the rule; and where there is no bet to take it for, for a call or check.
Its own action is made under the same name, else as the bet nearest in size, else as a call or check; one that
it never takes with a hand is with that hand as if the other player did it. Once the shadow's hand is over it
checks or calls. Shadows are weighted, hand by hand, by how likely they are given the player's own actions,
which is the one strategy that does the same (Kuhn 1953).
"""

from __future__ import annotations

import bisect
from collections import defaultdict

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE
from jaxgadget.hands.form import HandsForm
from jaxgadget.hands.policy import HandsPolicy
from jaxgadget.poker.betting import BettingTree
from jaxgadget.poker.solve import SpotSolution
from jaxgadget.poker.spots import Spot
from jaxgadget.policy.translation import Rule, check_rule
from jaxgadget.util.arrays import FloatArray

_Belief = dict[int, FloatArray]
"""For every shadow `[H]` how likely it is and the player's own actions are, by its hand."""

_OVER = -1
"""The shadow whose hand is over."""


def translate_solution(solution: SpotSolution, spot: Spot, rule: str = "pseudo-harmonic") -> HandsPolicy:
    """What a solved spot says in a spot with other menus.

    Args:
      solution: of a spot with the same board, pot and stack; ranges may be others, and with hands that its
        own lack it plays all of its actions alike.
      spot: whose policy is asked for.
      rule: `pseudo-harmonic`, `linear` or `nearest`, as in `translate`.

    Returns:
      A policy of `spot.by_hands()`, one lane.

    Raises:
      ValueError: if board, pot or stack differ, or the rule is unknown.
    """
    for name, one, other in (
        ("board", set(solution.spot.cards), set(spot.cards)),
        ("pot", solution.spot.pot, spot.pot),
        ("stack", solution.spot.stack, spot.stack),
    ):
        if one != other:
            raise ValueError(
                f"solution of a spot with {name}={getattr(solution.spot, name)!r}: the spot has "
                f"{name}={getattr(spot, name)!r}; expected the same, menus and ranges may differ"
            )
    form = HandsForm(spot.by_hands())
    uniform = HandsPolicy.uniform(form).probabilities
    rows = [part[:, :, 0].copy() for part in uniform]
    for player in (0, 1):
        _SpotTranslator(solution, spot, player, check_rule(rule), form, rows[player]).walk()
    first, second = (part[:, :, None] for part in rows)
    return HandsPolicy(form, (first, second), (f"{solution.algorithm}:{solution.iterations}",))


class _SpotTranslator:
    """Fills in the rows of one player, walking down the tree with what may stand for each node."""

    def __init__(
        self, solution: SpotSolution, spot: Spot, player: int, rule: Rule, form: HandsForm, rows: FloatArray
    ):
        self._rule, self._player, self._rows = rule, player, rows
        self._tree, self._shadows = spot.betting, solution.spot.betting
        self._pot, self._num_hands = spot.pot, len(spot.hands)
        self._row_of = {node: row for row, node in enumerate(form.children[player].tolist())}
        shadow_rows = enumerate(solution.form.children[player].tolist())
        self._plays = {node: solution.probabilities[player][row] for row, node in shadow_rows}

    def walk(self) -> None:
        """Over all nodes, without recursion."""
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
        """Fills in the rows of a node where the player acts."""
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
            if never.any():  # what a hand never does is as if the other player did it
                for place, weight in self._taken(child, node, belief).items():
                    below[child][place] = below[child][place] + np.where(never, weight, 0)
        return list(below.items())

    def _taken(self, child: int, node: int, belief: _Belief) -> _Belief:
        """What may stand for a node after a move of chance or of the other player."""
        after: _Belief = defaultdict(lambda: np.zeros(self._num_hands))
        for shadow, weight in belief.items():
            for place, chance in self._taken_for(child, node, shadow):
                after[place] = after[place] + chance * weight
        return after

    def _taken_for(self, child: int, node: int, shadow: int) -> list[tuple[int, float]]:
        if self._is_chance(self._tree, node):
            if shadow == _OVER or not self._is_chance(self._shadows, shadow):
                return [(_OVER, 1.0)]
            card = int(self._tree.card[child])
            return [(c, 1.0) for c in self._shadows.children(shadow) if int(self._shadows.card[c]) == card]
        if not self._acts(shadow, node):
            return [(_OVER, 1.0)]
        names = {self._shadows.action_name(place): place for place in self._shadows.children(shadow)}
        name = self._tree.action_name(child)
        if name in names:
            return [(names[name], 1.0)]
        size, sizes = self._size(self._tree, child), self._sizes(shadow)
        if size is None or not sizes:
            return [(self._passive(self._shadows, shadow), 1.0)]
        place = bisect.bisect_left([x for x, _ in sizes], size)
        if place in (0, len(sizes)):
            return [(sizes[min(place, len(sizes) - 1)][1], 1.0)]
        (below, first), (above, second) = sizes[place - 1], sizes[place]
        if above == size:
            return [(second, 1.0)]
        chance = self._rule(size, below, above)
        return [(first, chance), (second, 1 - chance)]

    def _made(self, children: list[int], node: int, shadow: int, action: int) -> int:
        """The own action that stands for one of the solved tree."""
        names = {self._tree.action_name(child): child for child in children}
        name = self._shadows.action_name(action)
        if name in names:
            return names[name]
        size = self._size(self._shadows, action)
        own = [(self._size(self._tree, child), child) for child in children]
        bets = [(abs(x - size), child) for x, child in own if x is not None and size is not None]
        return min(bets)[1] if bets else self._passive(self._tree, node)

    def _acts(self, shadow: int, node: int) -> bool:
        """Whether the same player acts."""
        return shadow != _OVER and self._shadows.tree.actor[shadow] == self._tree.tree.actor[node]

    def _sizes(self, shadow: int) -> list[tuple[float, int]]:
        """Bets of a node of the solved tree, the smallest first."""
        children = self._shadows.children(shadow)
        sized = [(self._size(self._shadows, child), child) for child in children]
        return sorted((size, child) for size, child in sized if size is not None)

    def _size(self, tree: BettingTree, child: int) -> float | None:
        """Of a bet, in pots after calling; None if it is none."""
        parent = int(tree.tree.parent[child])
        if tree.action_name(child) in ("fold", "check", "call"):
            return None
        player = ACTOR_BIT.index(int(tree.tree.actor[parent]))
        other = float(tree.put_in[parent, 1 - player])
        return (float(tree.put_in[child, player]) - other) / (self._pot + 2 * other)

    @staticmethod
    def _passive(tree: BettingTree, node: int) -> int:
        """The call or check."""
        return next(c for c in tree.children(node) if tree.action_name(c) in ("check", "call"))

    @staticmethod
    def _is_chance(tree: BettingTree, node: int) -> bool:
        return int(tree.tree.actor[node]) == CHANCE
