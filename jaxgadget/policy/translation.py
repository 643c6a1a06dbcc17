"""Action translation: a policy of a game with fewer bets, played where there are more of them.

A player follows its policy in a *shadow*: a history of the abstraction that stands for the one that play
has reached. Every move is taken over into the shadow:

* A move of chance as it is.
* A move of the other player as the action of the same name, if the shadow has it there. Another bet, of x
  pots (after calling), becomes one of its neighbours A ≤ x ≤ B among the shadow's bets, A with the
  probability that the rule says; beyond the smallest or the largest bet it becomes that one; where the
  shadow has no bet it becomes a call.
* An own action as what the policy plays in the shadow. The action of the same name is then made, or if
  that is not legal the legal bet nearest in size for a bet, and check or call for all else and where no
  bet is legal.
* An own action that the policy does not play in any shadow that is possible, as if it were the other
  player's.

If the shadow's hand is over (a bet was taken for all-in, and called), or it does not stand where the same
player acts, the player checks or calls until the end.

Randomly chosen neighbours make the player's strategy a mixture. `translate` gives the one strategy that
does the same (Kuhn 1953): in every infoset the shadows' strategies, weighted by how likely they are given
the player's own actions. `TranslatingPlayer` draws the shadow.

Rules: pseudo-harmonic (Ganzfried and Sandholm 2013), with which a bet in between is called as often as an
equilibrium of the clairvoyance game calls it; linear and nearest, in fractions of the pot.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from jaxgadget.games.game import ACTOR_BIT, CHANCE, SIMULTANEOUS, bet_fraction, dense_ids
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, check_tree, check_whole
from jaxgadget.tree.matching import match_histories, same_actions
from jaxgadget.tree.truncated import first_child
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import FloatArray, IntArray

Rule: TypeAlias = Callable[[float, float, float], float]
"""`rule(x, below, above)` is the probability that a bet of x pots is taken for `below`, not for `above`."""

_OVER = -1
"""The shadow whose hand is over."""

_LARGEST_SEED = 2**63 - 1

_Belief: TypeAlias = dict[int, FloatArray]
"""How likely every shadow is, `[lanes]`."""


def pseudo_harmonic(x: float, below: float, above: float) -> float:
    """(B−x)(1+A) / ((B−A)(1+x))."""
    return (above - x) * (1 + below) / ((above - below) * (1 + x))


def linear(x: float, below: float, above: float) -> float:
    """(B−x) / (B−A)."""
    return (above - x) / (above - below)


def nearest(x: float, below: float, above: float) -> float:
    """The nearer one, of two the smaller."""
    return float(x - below <= above - x)


RULES: Mapping[str, Rule] = {"pseudo-harmonic": pseudo_harmonic, "linear": linear, "nearest": nearest}


def translate(policy: Policy, tree: HistoryTree, rule: str | Rule = "pseudo-harmonic") -> Policy:
    """A policy of an abstraction as a policy of the larger tree, randomised exactly; see the top of the file.

    Args:
      policy: of a game with fewer bets, a `MenuAbstraction` of the tree's game for example; all lanes are
        translated and keep their labels.
      tree: of the larger game, which says how large its bets are (`games.game.BetSizes`).
      rule: `pseudo-harmonic`, `linear` or `nearest`, or a function of x, A and B.

    Raises:
      ValueError: if the policy is none, the rule is unknown or gives no probability, the games have nothing
        to do with each other, the game does not say how large a bet is, some infoset does not show the other
        player's moves, or both act at once.
    """
    _check_policy(policy)
    rows: list[FloatArray] = []
    for player in (0, 1):
        translator = _Translator(policy, tree, player, rule)
        rows.append(translator.rows(np.arange(len(tree.infosets[player]))))
    return Policy(tree, (rows[0], rows[1]), policy.labels)


@dataclasses.dataclass(frozen=True, eq=False)
class TranslatingPlayer:
    """A player in matches that draws what a bet is taken for, and plays one lane of a policy in that shadow.

    A draw is for an infostate and a seed, so that answers depend on the infoset only: in all games of a
    match a line of bets is taken for the same. Over seeds it plays what `translate` says.

    Attributes:
      policy: of a game with fewer bets.
      rule: as in `translate`.
      seed: of the draws.
      lane: which lane of the policy.
    """

    policy: Policy
    rule: str | Rule = "pseudo-harmonic"
    seed: int = 0
    lane: int = 0

    def __post_init__(self) -> None:
        _check_policy(self.policy)
        self.policy.lane(self.lane)
        check_rule(self.rule)
        check_whole_number("seed", self.seed, 0, _LARGEST_SEED)

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """As `policy.player.Player` says; ValueError as in `translate`."""
        infosets = tree.infosets[player]
        infoset = tree.infoset[player, histories]
        translator = _Translator(self.policy.lane(self.lane), tree, player, self.rule, self.seed)
        rows = translator.rows(np.unique(infoset))[:, 0]
        count = infosets.num_actions[infoset][:, None]
        slot = np.arange(count.max(initial=1))
        row = infosets.first_sequence[infoset][:, None] - 1 + np.minimum(slot, count - 1)
        return np.where(slot < count, rows[row], 0.0)


def _check_policy(policy: object) -> None:
    """ValueError unless it is a `Policy`, and of a whole game."""
    if not isinstance(policy, Policy):
        raise ValueError(
            f"policy=a {type(policy).__name__}: expected a Policy of the game with fewer bets, such as "
            "solve(enumerate_game(MenuAbstraction(…))).policy"
        )
    check_whole(policy.tree)


def check_rule(rule: object) -> Rule:
    """The rule of a name, or a function; ValueError otherwise."""
    if isinstance(rule, str) and rule in RULES:
        return RULES[rule]
    if isinstance(rule, str) or not callable(rule):
        raise ValueError(
            f"rule={rule!r}: expected one of {', '.join(RULES)}, or a function of x and its neighbours"
        )
    return cast(Rule, rule)


class _Translator:
    """The shadows of one player: how likely each is after histories of the larger tree."""

    def __init__(
        self, policy: Policy, tree: HistoryTree, player: int, rule: str | Rule, seed: int | None = None
    ):
        check_tree(tree)
        self.policy, self.tree, self.player = policy, tree, player
        self.shadow_tree = policy.tree
        self.rule = check_rule(rule)
        match_histories(tree, policy.tree)  # refuses another game
        _check_seen(tree, player)
        self.uniform = None if seed is None else _uniforms(tree, player, seed)
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

    def _beliefs(self, histories: Sequence[int]) -> dict[int, _Belief]:
        """How likely every shadow is, after some histories and all on the way to them."""
        on_the_way = set[int]()
        for history in histories:
            while history not in on_the_way:
                on_the_way.add(history)
                history = int(self.tree.parent[history])
        beliefs: dict[int, _Belief] = {0: {0: np.ones(self.policy.num_lanes)}}
        for history in sorted(on_the_way - {0}):
            parent = int(self.tree.parent[history])
            belief = self._after(parent, history, beliefs[parent])
            beliefs[history] = belief if self.uniform is None else _draw(belief, self.uniform[history])
        return beliefs

    def _after(self, parent: int, history: int, belief: _Belief) -> _Belief:
        """The shadows after a move."""
        actor = int(self.tree.actor[parent])
        if actor == CHANCE:
            outcome = int(self.tree.action[2, history])
            return _add((self._after_chance(shadow, outcome), weight) for shadow, weight in belief.items())
        if actor == SIMULTANEOUS:
            raise ValueError(
                f"{self.tree.game.name}: both players act after history {self.tree.moves(parent)}; expected "
                "a game in which they take turns, as translation follows one move at a time"
            )
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
        is_chance = shadow != _OVER and self.shadow_tree.actor[shadow] == CHANCE
        return self._children_of(shadow).get(outcome, _OVER) if is_chance else _OVER

    def _acts(self, shadow: int, player: int) -> bool:
        """Whether a player acts in a shadow too."""
        return shadow != _OVER and int(self.shadow_tree.actor[shadow]) == ACTOR_BIT[player]

    def _taken_for(self, history: int, player: int, action: int, shadow: int) -> list[tuple[int, float]]:
        """The shadows after an action that is taken for one of the abstraction, and their probabilities."""
        if not self._acts(shadow, player):
            return [(_OVER, 1.0)]
        children = self._children_of(shadow)
        same = self.to_shadow[player][action]
        if same in children:
            return [(children[same], 1.0)]
        x = self._size(history, action)
        if x is None:
            raise ValueError(
                f"{self.tree.game.name}: {self.tree.game.action_string(player, action)!r} after history "
                f"{self.tree.moves(history)} is no action of {self.shadow_tree.game.name} and no bet; "
                "expected a menu that has it, or bet_fraction() of the game to say how large a bet it is"
            )
        bets = self._bets_of(shadow) if x > 0 else []
        if not bets:
            calls = [child for a, child in children.items() if self._shadow_size(shadow, a) == 0]
            return [(calls[0] if calls else _OVER, 1.0)]
        above = bisect.bisect_left(bets, (x, -1))
        if above in (0, len(bets)) or bets[above][0] == x:
            return [(bets[min(above, len(bets) - 1)][1], 1.0)]
        (low, first), (high, second) = bets[above - 1], bets[above]
        share = float(self.rule(x, low, high))
        if not 0 <= share <= 1:
            raise ValueError(
                f"rule({x}, {low}, {high}) returned {share}: expected a probability, from 0 to 1, of the bet "
                f"{low}"
            )
        return [(first, share), (second, 1 - share)]

    def _plays(self, history: int, belief: _Belief) -> list[tuple[tuple[int, int], FloatArray]]:
        """What the player does: the shadow after it and the action made, and `[lanes]` how likely."""
        plays: list[tuple[tuple[int, int], FloatArray]] = []
        for shadow, weight in belief.items():
            if not self._acts(shadow, self.player):
                plays.append(((_OVER, self._passive(history)), weight))
                continue
            own = self.shadow_tree.infosets[self.player]
            first = int(own.first_sequence[self.shadow_tree.infoset[self.player, shadow]])
            for slot, (action, child) in enumerate(sorted(self._children_of(shadow).items())):
                share = self.policy.probabilities[self.player][first - 1 + slot]
                plays.append(((child, self._made(history, shadow, action)), weight * share))
        return plays

    def _made(self, history: int, shadow: int, action: int) -> int:
        """The action that is made for one in the shadow."""
        legal, same = self._legal(history), self.from_shadow[action]
        if same in legal:
            return same
        x = self._shadow_size(shadow, action)
        sizes = [(self._size(history, bet), bet) for bet in legal] if x else []
        bets = [(abs(size - x), size, bet) for size, bet in sizes if x and size]
        return min(bets)[2] if bets else self._passive(history)

    def _passive(self, history: int) -> int:
        """Check or call."""
        for action in self._legal(history):
            if self._size(history, action) == 0:
                return action
        raise ValueError(
            f"{self.tree.game.name}: nothing that is legal after history {self.tree.moves(history)} is a "
            "check or call; expected bet_fraction() of the game to be 0 for one action"
        )

    def _children_of(self, shadow: int) -> dict[int, int]:
        """The shadow after every move of whoever acts, in ascending order."""
        if shadow not in self._children:
            begin, end = first_child(self.shadow_tree, np.array([shadow, shadow + 1])).tolist()
            moves = self.shadow_tree.action[:, begin:end].max(axis=0).tolist()
            self._children[shadow] = dict(zip(moves, range(begin, end), strict=True))
        return self._children[shadow]

    def _bets_of(self, shadow: int) -> list[tuple[float, int]]:
        """The bets of whoever acts in the shadow, ascending, and the shadow after each."""
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


def _add(pairs: Iterable[tuple[int, FloatArray]]) -> _Belief:
    """Sums what stands for the same shadow; shadows without any probability are left out."""
    belief: _Belief = {}
    for shadow, weight in pairs:
        belief[shadow] = belief[shadow] + weight if shadow in belief else weight
    return {shadow: weight for shadow, weight in belief.items() if weight.any()}


def _draw(belief: _Belief, uniform: float) -> _Belief:
    """One of the shadows in every lane, given a number in [0, 1)."""
    shadows = sorted(belief)
    running = np.cumsum([belief[shadow] for shadow in shadows], axis=0)
    drawn = (running <= uniform * running[-1]).sum(axis=0)
    return _add((shadow, (drawn == k).astype(np.float64)) for k, shadow in enumerate(shadows))


def _uniforms(tree: HistoryTree, player: int, seed: int) -> FloatArray:
    """`[n]` a number in [0, 1) for every history, the same for all of an infostate."""
    infostate, count = dense_ids(tree.infostate[player])
    generator = np.random.Generator(np.random.Philox(key=np.array([seed, player], np.uint64)))
    return generator.random(count)[infostate]


def _check_seen(tree: HistoryTree, player: int) -> None:
    """ValueError unless the histories of an infoset differ in moves of chance only."""
    acts = np.nonzero(tree.infoset[player] >= 0)[0]
    infoset, line = tree.infoset[player, acts], _lines(tree)
    first = line[tree.infosets[player].history]
    differs = line[acts] != first[infoset]
    if differs.any():
        name = tree.infoset_names[player][int(infoset[np.argmax(differs)])]
        raise ValueError(
            f"{tree.game.name}: in infoset {name!r} player {player} does not know what was done before; "
            "expected a game whose players see each other's actions, as translation depends on what was bet"
        )


def _lines(tree: HistoryTree) -> IntArray:
    """`[n]` what both players did so far, numbered through each level."""
    if "lines of play" in tree.cache:
        return tree.cache["lines of play"]
    line = tree.cache["lines of play"] = np.zeros(tree.num_histories, np.int64)
    width = tree.game.num_actions + 1
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above, action = line[tree.parent[begin:end]], tree.action[:2, begin:end].astype(np.int64) + 1
        line[begin:end], _ = dense_ids((above * width + action[0]) * width + action[1])
    return line
