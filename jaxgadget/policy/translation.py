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

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from jaxgadget.gadgets.ranges import sum_rows
from jaxgadget.games.game import ACTOR_BIT, CHANCE, SIMULTANEOUS, bet_fraction, dense_ids
from jaxgadget.policy.policy import Policy
from jaxgadget.tree.history import HistoryTree, check_tree, check_whole
from jaxgadget.tree.matching import match_histories, same_actions
from jaxgadget.tree.truncated import first_child
from jaxgadget.util.arguments import check_whole_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

Rule: TypeAlias = Callable[[float, float, float], float]
"""`rule(x, below, above)` is the probability that a bet of x pots is taken for `below`, not for `above`."""

_OVER = -1
"""The shadow whose hand is over."""

_LARGEST_SEED = 2**63 - 1


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


class _Shadows(NamedTuple):
    """The shadows that stand for some histories of the larger tree; P pairs.

    Attributes:
      history: `[P]` of the larger tree, ascending.
      shadow: `[P]` of the abstraction's tree, or `_OVER`.
      weight: `[P, lanes]` how likely the shadow is after the history, given the player's own actions.
    """

    history: IntArray
    shadow: IntArray
    weight: FloatArray


class _Translator:
    """The shadows of one player, level by level of the larger tree."""

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
        self.to_shadow = [same_actions(large, small, p) for p in (0, 1)]
        self.from_shadow = same_actions(small, large, player)
        self.bets, self.shadow_bets = _Bets(tree), _Bets(self.shadow_tree)

    def rows(self, infosets: IntArray) -> FloatArray:
        """`[Q, lanes]` probabilities in some infosets, 0 in the others."""
        tree, own = self.tree, self.tree.infosets[self.player]
        rows = np.zeros((own.num_sequences - 1, self.policy.num_lanes))
        asked = np.zeros(tree.num_histories, np.bool_)
        asked[own.history[infosets]] = True
        levels = list(itertools.pairwise(tree.level_offset.tolist()))
        on_the_way = asked.copy()
        for begin, end in levels[:0:-1]:
            below = np.arange(begin, end)[on_the_way[begin:end]]
            on_the_way[tree.parent[below]] = True
        root = np.zeros(1, np.int64)
        shadows = _Shadows(root, root, np.ones((1, self.policy.num_lanes)))
        for begin, end in [*levels[1:], (tree.num_histories, tree.num_histories)]:
            self._check_turns(shadows.history)
            plays = self._plays(shadows)
            done = asked[tree.parent[plays.history]]
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
          shadows: before them.
          plays: what the player does in these, see `_plays`.
          children: the histories after the moves, ascending.
        """
        parent = self.tree.parent[children]
        first = np.searchsorted(shadows.history, parent)
        count = np.searchsorted(shadows.history, parent, side="right") - first
        pair = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        moved = _Shadows(np.repeat(children, count), shadows.shadow[pair], shadows.weight[pair])
        others = _add([self._taken_for(moved)])
        own = _add([_take(plays, np.isin(plays.history, children))])
        row, other_row = (np.searchsorted(children, part.history) for part in (own, others))
        total = sum_rows(row, own.weight, len(children))
        played = total > 0
        divisor = np.where(played, total, 1.0)
        weight = np.where(played[row], own.weight / divisor[row], 0.0)
        kept = np.where(played[other_row], 0.0, others.weight)
        return _add([own._replace(weight=weight), others._replace(weight=kept)])

    def _taken_for(self, moved: _Shadows) -> _Shadows:
        """The shadows after moves that are taken for some of the abstraction, one or two for each pair.

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
        share[strange[between]] = self._shares(
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
        """How large the bets are that led to histories; ValueError for what is none."""
        sizes = self.bets.sizes(histories)
        strange = np.isnan(sizes)
        if strange.any():
            history = int(histories[np.argmax(strange)])
            parent = int(self.tree.parent[history])
            mover = 0 if self.tree.actor[parent] == ACTOR_BIT[0] else 1
            name = self.tree.game.action_string(mover, int(self.tree.action[mover, history]))
            raise ValueError(
                f"{self.tree.game.name}: {name!r} after history "
                f"{self.tree.moves(parent)} is no action of {self.shadow_tree.game.name} and no bet; "
                "expected a menu that has it, bet_fraction() of the game to say how large a bet it is, or "
                "answers that are solved (nested_off_tree, --method inexpensive)"
            )
        return sizes

    def _shares(self, bets: FloatArray, below: FloatArray, above: FloatArray) -> FloatArray:
        """What the rule says of bets between two others, asked once for each three numbers."""
        cases, number = np.unique(np.stack([bets, below, above], axis=1), axis=0, return_inverse=True)
        shares = np.empty(len(cases))
        for case, (x, low, high) in enumerate(cases.tolist()):
            answer: Any = self.rule(x, low, high)  # a function of the user's may return anything
            try:
                shares[case] = float(answer)
            except (TypeError, ValueError):
                shares[case] = math.nan
            if not 0 <= shares[case] <= 1:
                raise ValueError(
                    f"rule({x}, {low}, {high}) returned {answer!r}: expected a probability, from 0 to 1, of "
                    f"the bet {low}"
                )
        return shares[number.reshape(-1)]

    def _plays(self, shadows: _Shadows) -> _Shadows:
        """What the player does: histories and shadows after its actions, where it acts."""
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
        """The histories after what is made for actions in the shadow, which lead to the shadows `after`."""
        action = self.shadow_tree.action[self.player, after]
        made = _find_children(self.tree, histories, self.from_shadow[action])
        illegal = np.flatnonzero(made < 0)
        if len(illegal) == 0:
            return made
        x = self.shadow_bets.sizes(after[illegal])
        bet = x > 0
        sizes, targets = self.bets.of(histories[illegal[bet]])
        found = np.full(len(illegal), -1)
        if sizes.shape[1]:
            nearest = np.abs(sizes - x[bet, None]).argmin(axis=1)  # of two that are as near the smaller
            found[bet] = targets[np.arange(len(targets)), nearest]
        found[found < 0] = self._passive(histories[illegal[found < 0]])
        made[illegal] = found
        return made

    def _passive(self, histories: IntArray) -> IntArray:
        """The histories after a check or call."""
        passive = self.bets.passive(histories)
        if (passive < 0).any():
            moves = self.tree.moves(int(histories[np.argmax(passive < 0)]))
            raise ValueError(
                f"{self.tree.game.name}: nothing that is legal after history {moves} is a "
                "check or call; expected bet_fraction() of the game to be 0 for one action"
            )
        return passive


class _Bets:
    """How large the bets of a game are; a bet is named by the history after it, and asked for once."""

    def __init__(self, tree: HistoryTree):
        self.tree = tree
        self._size = np.full(tree.num_histories, np.nan)
        self._known = np.zeros(tree.num_histories, np.bool_)

    def sizes(self, histories: IntArray) -> FloatArray:
        """In pots, 0 for a check or call, NaN for what is no bet."""
        for history in np.unique(histories[~self._known[histories]]).tolist():
            *before, action = self.tree.moves(history)
            size = bet_fraction(self.tree.game, tuple(before), cast(int, action))
            self._size[history] = math.nan if size is None else size
        self._known[histories] = True
        return self._size[histories]

    def of(self, histories: IntArray) -> tuple[FloatArray, IntArray]:
        """The bets after histories, ascending: `[H, most]` sizes, then infinite, and histories, then -1."""
        unique, number = np.unique(histories, return_inverse=True)
        begin, end = first_child(self.tree, unique), first_child(self.tree, unique + 1)
        slot = np.arange((end - begin).max(initial=0))
        child = np.where(begin[:, None] + slot < end[:, None], begin[:, None] + slot, -1)
        sizes = np.full(child.shape, np.inf)
        sizes[child >= 0] = self.sizes(child[child >= 0])
        is_bet = (child >= 0) & (sizes > 0)
        sizes, child = np.where(is_bet, sizes, np.inf), np.where(is_bet, child, -1)
        order = np.argsort(sizes, axis=1, kind="stable")
        return np.take_along_axis(sizes, order, 1)[number], np.take_along_axis(child, order, 1)[number]

    def passive(self, histories: IntArray) -> IntArray:
        """The history after the first action that is a check or call; `_OVER` where there is none."""
        unique, number = np.unique(histories, return_inverse=True)
        begin, end = first_child(self.tree, unique), first_child(self.tree, unique + 1)
        passive = np.full(len(unique), _OVER)
        for slot in range((end - begin).max(initial=0)):
            left = np.flatnonzero((passive == _OVER) & (begin + slot < end))
            calls = left[self.sizes(begin[left] + slot) == 0]
            passive[calls] = begin[calls] + slot
        return passive[number]


def _find_children(tree: HistoryTree, histories: IntArray, moves: IntArray) -> IntArray:
    """The histories after moves of whoever acts alone, -1 where such a move is not possible."""
    if "moves after histories" not in tree.cache:
        width = int(tree.action.max(initial=-1)) + 1
        tree.cache["moves after histories"] = width, tree.parent * width + tree.action.max(axis=0)
    width, known = tree.cache["moves after histories"]
    known = known[1:]  # ascending, but for moves that are made at once
    key = np.where((moves >= 0) & (moves < width), histories * width + moves, -1)
    child = np.minimum(np.searchsorted(known, key), len(known) - 1)
    return np.where(known[child] == key, child + 1, -1)


def _take(shadows: _Shadows, which: IntArray | BoolArray) -> _Shadows:
    return _Shadows(*(part[which] for part in shadows))


def _add(parts: Sequence[_Shadows]) -> _Shadows:
    """Sums what stands for the same history by the same shadow; those without any probability are left out.

    Those of a history stay in the order in which they first came.
    """
    history, shadow, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    width = int(shadow.max(initial=0)) + 2
    _, first, number = np.unique(
        history.astype(np.int64) * width + shadow + 1, return_index=True, return_inverse=True
    )
    order = np.lexsort((first, history[first]))
    total = sum_rows(number, weight, len(first))[order]
    first = first[order]
    return _take(_Shadows(history[first], shadow[first], total), np.flatnonzero(total.any(axis=1)))


def _draw(shadows: _Shadows, uniform: FloatArray) -> _Shadows:
    """One of the shadows of every history in every lane, given a number in [0, 1) for each history."""
    history, shadow, weight = _take(shadows, np.lexsort((shadows.shadow, shadows.history)))
    _, first, number, count = np.unique(history, return_index=True, return_inverse=True, return_counts=True)
    slot = np.arange(len(history)) - first[number]
    running = np.zeros((len(first), count.max(initial=0), weight.shape[1]))
    running[number, slot] = weight
    running = running.cumsum(axis=1)
    reached = running <= uniform[history[first], None, None] * running[:, -1:]
    drawn = (reached & (np.arange(reached.shape[1]) < count[:, None])[..., None]).sum(axis=1)
    return _add([_Shadows(history, shadow, (drawn[number] == slot[:, None]).astype(np.float64))])


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
