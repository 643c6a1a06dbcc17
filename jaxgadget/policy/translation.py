"""Action translation: a policy of a game with fewer bets, applied to a game with more bets.

A player follows its policy in a *shadow*: a history of the abstraction that represents the current history.
Moves are mapped to the shadow as follows:

* Chance moves are unchanged.
* The other player's action is mapped to the action of the same name, if legal in the shadow. Another bet, of
  x pots (after calling), is mapped to one of its neighbours A ≤ x ≤ B among the shadow's bets, to A with the
  rule's probability; beyond the smallest or the largest bet to that one; without any bet in the shadow to a
  call.
* The policy chooses the player's own action in the shadow, and the player takes the action of the same name.
  If that is not legal, a bet is replaced by the legal bet nearest in size; other actions, and bets if no bet
  is legal, by a check or call.
* An own action that the policy takes in no possible shadow is treated like the other player's.

After the end of the shadow's hand (a bet was mapped to all-in and called), or if another player acts in the
shadow, the player checks or calls until the end.

Random neighbours make the player's strategy a mixture. `translate` returns the equivalent behaviour strategy
(Kuhn 1953): at each infoset the shadows' strategies, weighted by their probabilities given the player's own
actions. `TranslatingPlayer` samples the shadow.

Rules: pseudo-harmonic (Ganzfried and Sandholm 2013), which calls an intermediate bet as often as an
equilibrium of the clairvoyance game does; linear and nearest, in fractions of the pot.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from jaxgadget.gadgets.ranges import sum_rows
from jaxgadget.games.game import ACTOR_BIT, CHANCE, SIMULTANEOUS, bet_fraction, dense_ids
from jaxgadget.policy.player import action_rows
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, check_histories, check_whole
from jaxgadget.tree.matching import first_child, match_histories, same_actions
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

TranslationRule: TypeAlias = Callable[[float, float, float], float]
"""`rule(x, below, above)`: probability that a bet of x pots is mapped to `below` instead of `above`."""

_OVER = -1
"""The shadow after the end of its hand."""

_LARGEST_SEED = 2**63 - 1


def pseudo_harmonic(x: float, below: float, above: float) -> float:
    """Pseudo-harmonic mapping: (B−x)(1+A) / ((B−A)(1+x))."""
    return (above - x) * (1 + below) / ((above - below) * (1 + x))


def linear(x: float, below: float, above: float) -> float:
    """Linear mapping: (B−x) / (B−A)."""
    return (above - x) / (above - below)


def nearest(x: float, below: float, above: float) -> float:
    """Deterministic mapping to the nearer bet; to the smaller one in a tie."""
    return float(x - below <= above - x)


RULES: Mapping[str, TranslationRule] = {
    "pseudo-harmonic": pseudo_harmonic,
    "linear": linear,
    "nearest": nearest,
}


def translate(policy: Policy, tree: HistoryTree, rule: str | TranslationRule = "pseudo-harmonic") -> Policy:
    """Translates a policy of an abstraction to the larger tree, with exact probabilities of shadows.

    Args:
      policy: policy of a game with fewer bets, for example a `MenuAbstraction` of the tree's game; all lanes
        are translated and keep their labels.
      tree: tree of the larger game, which must implement `games.game.BetSizes`.
      rule: `pseudo-harmonic`, `linear` or `nearest`, or a function of x, A and B.

    Raises:
      ValueError: if `policy` is not a policy, the rule is unknown or does not return a probability, the games
        are unrelated, the game does not define a bet's size, an infoset hides the other player's moves, or a
        move is simultaneous.
    """
    _check_policy(policy)
    rows: list[FloatArray] = []
    for player in (0, 1):
        translator = _Translator(policy, tree, player, rule)
        rows.append(translator.rows(np.arange(len(tree.infosets[player]))))
    return Policy(tree, (rows[0], rows[1]), policy.labels)


@dataclasses.dataclass(frozen=True, eq=False)
class TranslatingPlayer:
    """A player of matches that samples the shadow of a bet and plays one lane of a policy in it.

    The infostate and the seed determine a sample, so that results depend on the infoset only: all games of a
    match map a sequence of bets in the same way. The mean over seeds is the strategy of `translate`.

    Attributes:
      policy: policy of a game with fewer bets.
      rule: as in `translate`.
      seed: seed of the samples.
      lane: lane of the policy.
    """

    policy: Policy
    rule: str | TranslationRule = "pseudo-harmonic"
    seed: int = 0
    lane: int = 0

    def __post_init__(self) -> None:
        _check_policy(self.policy)
        self.policy.lane(self.lane)
        check_rule(self.rule)
        check_whole_number("seed", self.seed, 0, _LARGEST_SEED)

    def action_probabilities(self, tree: HistoryTree, player: int, histories: IntArray) -> FloatArray:
        """Action probabilities in the sampled shadows; raises ValueError as `translate`."""
        infoset = tree.infoset[player, histories]
        translator = _Translator(self.policy.lane(self.lane), tree, player, self.rule, self.seed)
        return action_rows(tree.infosets[player], infoset, translator.rows(np.unique(infoset))[:, 0])


def _check_policy(policy: object) -> None:
    """Raises ValueError unless `policy` is a `Policy` of a whole game."""
    if not isinstance(policy, Policy):
        raise ValueError(
            f"policy=a {type(policy).__name__}: expected a Policy of the game with fewer bets, such as "
            "solve(enumerate_game(MenuAbstraction(…))).policy"
        )
    check_whole(policy.tree)


def check_rule(rule: object) -> TranslationRule:
    """Returns the rule with a name, or a function unchanged; raises ValueError for other values."""
    if isinstance(rule, str) and rule in RULES:
        return RULES[rule]
    if isinstance(rule, str) or not callable(rule):
        raise ValueError(
            f"rule={rule!r}: expected one of {', '.join(RULES)}, or a function of x and its neighbours"
        )
    return cast(TranslationRule, rule)


class _Shadows(NamedTuple):
    """P pairs of a history of the larger tree and a shadow.

    Attributes:
      history: `[P]` histories of the larger tree, ascending.
      shadow: `[P]` histories of the abstraction's tree, or `_OVER`.
      weight: `[P, lanes]` probability of the shadow after the history, given the player's own actions.
    """

    history: IntArray
    shadow: IntArray
    weight: FloatArray


class _Translator:
    """The shadows of one player, level by level of the larger tree."""

    def __init__(
        self,
        policy: Policy,
        tree: HistoryTree,
        player: int,
        rule: str | TranslationRule,
        seed: int | None = None,
    ):
        check_histories(tree)
        self.policy, self.tree, self.player = policy, tree, player
        self.shadow_tree = policy.histories
        self.rule = check_rule(rule)
        match_histories(tree, policy.histories)  # raises an error for another game
        _check_seen(tree, player)
        self.uniform = None if seed is None else _uniforms(tree, player, seed)
        small, large = self.shadow_tree.game, tree.game
        self.to_shadow = [same_actions(large, small, p) for p in (0, 1)]
        self.from_shadow = same_actions(small, large, player)
        self.bets, self.shadow_bets = _Bets(tree), _Bets(self.shadow_tree)

    def rows(self, infosets: IntArray) -> FloatArray:
        """`[Q, lanes]` probabilities at the given infosets, 0 at others."""
        tree, own = self.tree, self.tree.infosets[self.player]
        rows = np.zeros((own.num_sequences - 1, self.policy.num_lanes))
        requested = np.zeros(tree.num_histories, np.bool_)
        requested[own.history[infosets]] = True
        levels = list(itertools.pairwise(tree.level_offset.tolist()))
        on_the_way = requested.copy()
        for begin, end in levels[:0:-1]:
            below = np.arange(begin, end)[on_the_way[begin:end]]
            on_the_way[tree.parent[below]] = True
        root = np.zeros(1, np.int64)
        shadows = _Shadows(root, root, np.ones((1, self.policy.num_lanes)))
        for begin, end in [*levels[1:], (tree.num_histories, tree.num_histories)]:
            self._check_turns(shadows.history)
            plays = self._plays(shadows)
            done = requested[tree.parent[plays.history]]
            row = tree.sequence[self.player, plays.history[done]] - 1
            rows += sum_rows(row, plays.weight[done], len(rows))
            children = np.arange(begin, end)[on_the_way[begin:end]]
            if not len(children):
                break
            shadows = self._after(shadows, plays, children)
            if self.uniform is not None:
                shadows = _draw(shadows, self.uniform)
        return rows

    def _check_turns(self, histories: IntArray) -> None:
        together = self.tree.actor[histories] == SIMULTANEOUS
        if together.any():
            raise ValueError(
                f"{self.tree.game.name}: both players act after history "
                f"{self.tree.moves(int(histories[np.argmax(together)]))}; expected "
                "a game in which they take turns, as translation follows one move at a time"
            )

    def _after(self, shadows: _Shadows, plays: _Shadows, children: IntArray) -> _Shadows:
        """The shadows after moves.

        Args:
          shadows: shadows before the moves.
          plays: the player's actions in these, from `_plays`.
          children: the histories after the moves, ascending.
        """
        parent = self.tree.parent[children]
        first = np.searchsorted(shadows.history, parent)
        count = np.searchsorted(shadows.history, parent, side="right") - first
        pair = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        moved = _Shadows(np.repeat(children, count), shadows.shadow[pair], shadows.weight[pair])
        others = _add([self._taken_for(moved)])
        own = _add([_take(plays, np.isin(plays.history, children))])
        row, other_row = (np.searchsorted(children, pairs.history) for pairs in (own, others))
        total = sum_rows(row, own.weight, len(children))
        played = total > 0
        divisor = np.where(played, total, 1.0)
        weight = np.where(played[row], own.weight / divisor[row], 0.0)
        remaining_weight = np.where(played[other_row], 0.0, others.weight)
        return _add([own._replace(weight=weight), others._replace(weight=remaining_weight)])

    def _taken_for(self, moved: _Shadows) -> _Shadows:
        """The shadows after moves that are mapped to the abstraction's, one or two for each pair.

        Args:
          moved: histories after the moves, and the shadows before them.
        """
        history, shadow, weight = moved
        parent = self.tree.parent[history]
        actor, action = self.tree.actor[parent], self.tree.action[:, history]
        is_chance = actor == CHANCE
        same = np.where(
            is_chance,
            action[2],
            np.where(actor == ACTOR_BIT[0], self.to_shadow[0][action[0]], self.to_shadow[1][action[1]]),
        )
        stands = (shadow != _OVER) & (self.shadow_tree.actor[shadow] == actor)
        after = np.where(stands, _find_children(self.shadow_tree, np.where(stands, shadow, 0), same), _OVER)
        share = np.ones(len(history))
        strange = np.flatnonzero(stands & (after < 0) & ~is_chance)
        if len(strange) == 0:
            return _Shadows(history, after, weight)
        bets = self._check_bets(history[strange])
        sizes, targets = self.shadow_bets.of(shadow[strange])
        below = (sizes < bets[:, None]).sum(axis=1)
        count = (targets >= 0).sum(axis=1)
        calls = (bets <= 0) | (count == 0)
        row, end = np.arange(len(strange)), np.minimum(below, count - 1)
        exact = (below == 0) | (below == count) | (sizes[row, end] == bets)
        between = np.flatnonzero(~calls & ~exact)
        after[strange] = np.where(calls, _OVER, targets[row, end])
        after[strange[calls]] = self.shadow_bets.passive(shadow[strange[calls]])
        upper = after[strange[between]]
        after[strange[between]] = targets[between, below[between] - 1]
        share[strange[between]] = self._rule_probabilities(
            bets[between], sizes[between, below[between] - 1], sizes[between, below[between]]
        )
        # The second shadow of a pair follows the first.
        rest = 1 - share[strange[between]]
        at = strange[between] + 1
        weight = weight * share[:, None]
        return _Shadows(
            np.insert(history, at, history[strange[between]]),
            np.insert(after, at, upper),
            np.insert(weight, at, moved.weight[strange[between]] * rest[:, None], axis=0),
        )

    def _check_bets(self, histories: IntArray) -> FloatArray:
        """Sizes of the bets that lead to histories; raises ValueError for other actions."""
        sizes = self.bets.sizes(histories)
        strange = np.isnan(sizes)
        if strange.any():
            history = int(histories[np.argmax(strange)])
            parent = int(self.tree.parent[history])
            mover = 0 if self.tree.actor[parent] == ACTOR_BIT[0] else 1
            name = self.tree.game.action_string(mover, int(self.tree.action[mover, history]))
            raise ValueError(
                f"{self.tree.game.name}: {name!r} after history "
                f"{self.tree.moves(parent)} is neither an action of {self.shadow_tree.game.name} nor a bet; "
                "add it to the menu, define its size in bet_fraction() of the game, or solve the responses "
                "(nested_off_tree, --method inexpensive)"
            )
        return sizes

    def _rule_probabilities(self, bets: FloatArray, below: FloatArray, above: FloatArray) -> FloatArray:
        """The rule's probabilities of bets between two others, evaluated once per distinct triple."""
        cases, case_idx = np.unique(np.stack([bets, below, above], axis=1), axis=0, return_inverse=True)
        probabilities = np.empty(len(cases))
        for case, (x, low, high) in enumerate(cases.tolist()):
            answer: Any = self.rule(x, low, high)  # a user's function may return anything
            try:
                probabilities[case] = float(answer)
            except (OverflowError, TypeError, ValueError):
                probabilities[case] = math.nan
            if not 0 <= probabilities[case] <= 1:
                raise ValueError(
                    f"rule({x}, {low}, {high}) returned {answer!r}: expected a probability, from 0 to 1, of "
                    f"the bet {low}"
                )
        return probabilities[case_idx.reshape(-1)]

    def _plays(self, shadows: _Shadows) -> _Shadows:
        """The player's actions: histories and shadows after them."""
        acts = self.tree.actor[shadows.history] == ACTOR_BIT[self.player]
        history, shadow, weight = _take(shadows, acts)
        stands = (shadow != _OVER) & (self.shadow_tree.actor[shadow] == ACTOR_BIT[self.player])
        first = first_child(self.shadow_tree, np.where(stands, shadow, 0))
        end = first_child(self.shadow_tree, np.where(stands, shadow, 0) + 1)
        count = np.where(stands, end - first, 1)
        pair = np.repeat(np.arange(len(history)), count)
        after = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        stands = stands[pair]
        after = np.where(stands, after, _OVER)
        history, weight = history[pair], weight[pair]
        rows = self.policy.probabilities[self.player]
        sequence = self.shadow_tree.sequence[self.player, after] - 1
        weight[stands] *= rows[sequence[stands]]
        made = np.empty(len(history), np.int64)
        made[stands] = self._made(history[stands], after[stands])
        made[~stands] = self._passive(history[~stands])
        return _Shadows(made, after, weight)

    def _made(self, histories: IntArray, after: IntArray) -> IntArray:
        """The histories after the actions taken for those in the shadow that lead to the shadows `after`."""
        action = self.shadow_tree.action[self.player, after]
        made = _find_children(self.tree, histories, self.from_shadow[action])
        illegal = np.flatnonzero(made < 0)
        if len(illegal) == 0:
            return made
        x = self.shadow_bets.sizes(after[illegal])
        bet = x > 0
        sizes, targets = self.bets.of(histories[illegal[bet]])
        replacement = np.full(len(illegal), -1)
        if sizes.shape[1]:
            nearest = np.abs(sizes - x[bet, None]).argmin(axis=1)  # in a tie the smaller one
            replacement[bet] = targets[np.arange(len(targets)), nearest]
        replacement[replacement < 0] = self._passive(histories[illegal[replacement < 0]])
        made[illegal] = replacement
        return made

    def _passive(self, histories: IntArray) -> IntArray:
        """The histories after a check or call."""
        passive = self.bets.passive(histories)
        if (passive < 0).any():
            moves = self.tree.moves(int(histories[np.argmax(passive < 0)]))
            raise ValueError(
                f"{self.tree.game.name}: no legal action after history {moves} is a "
                "check or call; expected bet_fraction() of the game to be 0 for one action"
            )
        return passive


class _Bets:
    """Sizes of a game's bets, identified by the history after the bet; cached."""

    def __init__(self, tree: HistoryTree):
        self.tree = tree
        self._size = np.full(tree.num_histories, np.nan)
        self._known = np.zeros(tree.num_histories, np.bool_)

    def sizes(self, histories: IntArray) -> FloatArray:
        """Sizes in pots, 0 for a check or call, NaN for other actions."""
        for history in np.unique(histories[~self._known[histories]]).tolist():
            *before, action = self.tree.moves(history)
            size = bet_fraction(self.tree.game, tuple(before), cast(int, action))
            self._size[history] = math.nan if size is None else size
        self._known[histories] = True
        return self._size[histories]

    def of(self, histories: IntArray) -> tuple[FloatArray, IntArray]:
        """Bets after histories, ascending: `[H, max_bets]` sizes (padding: infinity) and histories (-1)."""
        unique, history_idx = np.unique(histories, return_inverse=True)
        begin, end = first_child(self.tree, unique), first_child(self.tree, unique + 1)
        slot = np.arange((end - begin).max(initial=0))
        child = np.where(begin[:, None] + slot < end[:, None], begin[:, None] + slot, -1)
        sizes = np.full(child.shape, np.inf)
        sizes[child >= 0] = self.sizes(child[child >= 0])
        is_bet = (child >= 0) & (sizes > 0)
        sizes, child = np.where(is_bet, sizes, np.inf), np.where(is_bet, child, -1)
        order = np.argsort(sizes, axis=1, kind="stable")
        return np.take_along_axis(sizes, order, 1)[history_idx], np.take_along_axis(child, order, 1)[
            history_idx
        ]

    def passive(self, histories: IntArray) -> IntArray:
        """The history after the first check or call; `_OVER` without one."""
        unique, history_idx = np.unique(histories, return_inverse=True)
        begin, end = first_child(self.tree, unique), first_child(self.tree, unique + 1)
        passive = np.full(len(unique), _OVER)
        for slot in range((end - begin).max(initial=0)):
            left = np.flatnonzero((passive == _OVER) & (begin + slot < end))
            calls = left[self.sizes(begin[left] + slot) == 0]
            passive[calls] = begin[calls] + slot
        return passive[history_idx]


def _find_children(tree: HistoryTree, histories: IntArray, moves: IntArray) -> IntArray:
    """The histories after moves of the single acting player, -1 for illegal moves."""
    if "moves after histories" not in tree.cache:
        width = int(tree.action.max(initial=-1)) + 1
        tree.cache["moves after histories"] = width, tree.parent * width + tree.action.max(axis=0)
    width, keys = tree.cache["moves after histories"]
    keys = keys[1:]  # ascending, except for simultaneous moves
    key = np.where((moves >= 0) & (moves < width), histories * width + moves, -1)
    child = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return np.where(keys[child] == key, child + 1, -1)


def _take(shadows: _Shadows, index: IntArray | BoolArray) -> _Shadows:
    return _Shadows(*(column[index] for column in shadows))


def _add(pair_lists: Sequence[_Shadows]) -> _Shadows:
    """Sums weights of equal pairs of history and shadow, and drops pairs with weight 0.

    The pairs of a history keep the order of their first occurrence.
    """
    history, shadow, weight = (np.concatenate(columns) for columns in zip(*pair_lists, strict=True))
    width = int(shadow.max(initial=0)) + 2
    _, first, group = np.unique(
        history.astype(np.int64) * width + shadow + 1, return_index=True, return_inverse=True
    )
    order = np.lexsort((first, history[first]))
    total = sum_rows(group, weight, len(first))[order]
    first = first[order]
    return _take(_Shadows(history[first], shadow[first], total), np.flatnonzero(total.any(axis=1)))


def _draw(shadows: _Shadows, uniform: FloatArray) -> _Shadows:
    """Samples a shadow of every history in every lane, given a uniform number in [0, 1) per history."""
    history, shadow, weight = _take(shadows, np.lexsort((shadows.shadow, shadows.history)))
    _, first, group, count = np.unique(history, return_index=True, return_inverse=True, return_counts=True)
    slot = np.arange(len(history)) - first[group]
    running = np.zeros((len(first), count.max(initial=0), weight.shape[1]))
    running[group, slot] = weight
    running = running.cumsum(axis=1)
    reached = running <= uniform[history[first], None, None] * running[:, -1:]
    drawn = (reached & (np.arange(reached.shape[1]) < count[:, None])[..., None]).sum(axis=1)
    return _add([_Shadows(history, shadow, (drawn[group] == slot[:, None]).astype(np.float64))])


def _uniforms(tree: HistoryTree, player: int, seed: int) -> FloatArray:
    """`[n]` a uniform number in [0, 1) for every history, equal for histories of an infostate."""
    infostate, count = dense_ids(tree.infostate[player])
    generator = np.random.Generator(np.random.Philox(key=np.array([seed, player], np.uint64)))
    return generator.random(count)[infostate]


def _check_seen(tree: HistoryTree, player: int) -> None:
    """Raises ValueError unless the histories of an infoset differ in chance moves only."""
    acts = np.nonzero(tree.infoset[player] >= 0)[0]
    infoset, line = tree.infoset[player, acts], _lines(tree)
    first = line[tree.infosets[player].history]
    differs = line[acts] != first[infoset]
    if differs.any():
        name = tree.infoset_names[player][int(infoset[np.argmax(differs)])]
        raise ValueError(
            f"{tree.game.name}: in infoset {name!r} player {player} does not observe earlier actions; "
            "expected a game with public actions, which translation requires"
        )


def _lines(tree: HistoryTree) -> IntArray:
    """`[n]` id of both players' actions so far, unique within a level."""
    if "lines of play" in tree.cache:
        return tree.cache["lines of play"]
    line = tree.cache["lines of play"] = np.zeros(tree.num_histories, np.int64)
    width = tree.game.num_actions + 1
    for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
        above, action = line[tree.parent[begin:end]], tree.action[:2, begin:end].astype(np.int64) + 1
        line[begin:end], _ = dense_ids((above * width + action[0]) * width + action[1])
    return line
