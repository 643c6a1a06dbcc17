"""Answers to actions that the blueprint does not have, found when the opponent takes one.

A blueprint is a strategy for a `MenuAbstraction`. Level k has all that the opponent does when it leaves the
menu for the k-th time, after all public histories at once: one forest in the game in which it may leave k
times and no more, so that what is promised knows nothing of level k + 1. The solutions are spliced in, and
the result is the blueprint of level k + 1. Source: Brown and Sandholm (2017), §6 and §7.

There are three methods.

* `inexpensive`: subgames begin after the off-tree action. The opponent is promised what it gets before it
  with the actions of the level before (`AbstractValues`). Not with unsafe: no blueprint says how likely the
  opponent is to be there.
* `expensive`: subgames begin where the opponent may leave the menu, before the action; of a solution the
  answers to the actions off the menu are kept. A place is the opponent's number of decisions since it left
  last; each has a forest of its own, in which the menu is left there and nowhere else.
* `safe`: subgames begin after the action, as with `inexpensive`, and the opponent is promised its best
  response to translation. What follows the next off-tree action is there too: the opponent may take it, and
  the answer is held at the translation until the next level. So no level guarantees less than the one
  before, but for gaps and mistakes, and none less than translation.

Deviations and readings:

* The opponent's half of the blueprint leaves the menu with probability 1/2 wherever it may, for all actions
  off it alike and whatever it holds, and plays all actions alike afterwards. So a blueprint prior is its
  reach before the action, and so is unsafe's range.
* Where that reach is 0 at all roots of a subgame, unsafe takes the opponent to be at all of them alike.
* The paper's last iterations of CFR are best responses here (`refining.abstract`).
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.alternative import (
    TO_BEST_RESPONSE,
    AbstractValues,
    ArrayValues,
    BestResponseValues,
    spread_name,
)
from jaxgadget.gadgets.entry import EntryTables
from jaxgadget.gadgets.gadget import Gadget, TwoLevel, describe, prior_name
from jaxgadget.gadgets.prior import BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.gadgets.ranges import Ranges, divide
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.gadgets.two_level import Resolving, Unsafe
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES, SIMULTANEOUS, TERMINAL, Game, TooLargeError
from jaxgadget.games.menu import MenuAbstraction
from jaxgadget.games.pruned import PrunedGame
from jaxgadget.kernels.regret import Rule
from jaxgadget.policy.evaluate import check_value, evaluate_policy
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.lift import lift
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.policy.translation import Rule as TranslationRule
from jaxgadget.policy.translation import check_rule, translate
from jaxgadget.refining.abstract import (
    RootValues,
    above_optimum,
    asks_abstraction,
    look_up,
    policy_of,
    promised_values,
    root_mass,
    with_values,
)
from jaxgadget.refining.gadget_games import GadgetSolutions
from jaxgadget.refining.prepare import prepare
from jaxgadget.refining.refine import list_gadgets
from jaxgadget.refining.subgames import GadgetTask, solve_gadgets, spliced
from jaxgadget.solving.devices import Device
from jaxgadget.solving.memory import plan_ranges
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.tree.cut import cut_at
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, check_whole, enumerate_game
from jaxgadget.util.arguments import check_player, check_whole_number, function_name
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch

Method = Literal["inexpensive", "expensive", "safe"]
METHODS: tuple[Method, ...] = get_args(Method)

TRANSLATION = "translation"
"""What tables call the answer that solves nothing, before the rule."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OffTreeLevel:
    """What was solved for one level. Lanes run over gadgets, then blueprints.

    Attributes:
      level: k, how often the opponent had left the menu.
      forests: the subgames; of `expensive` one for each place.
      gap: `[S, lanes]` NashConv of each gadget game, those of all forests in turn.
      has_decision: `[S, lanes]` False where there was nothing to solve, as nobody gets there.
      certificate: `[lanes]` what the strategy guarantees against an opponent who leaves the menu at most k
        times; with `safe` against one who leaves it as it likes.
    """

    level: int
    forests: tuple[Forest, ...]
    gap: FloatArray
    has_decision: BoolArray
    certificate: FloatArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OffTree:
    """Blueprints of an abstraction with answers to what it does not have.

    Lanes run over gadgets, then blueprints; everything is in the answering player's utility, in units of the
    game's payoff, but brackets of games' values are player 0's. The whole game is that in which the defender
    has all actions, and the opponent its menu and what it may do off it.

    Attributes:
      player: who answers.
      method: how, or `translation:` and the rule.
      off_tree: what the opponent may do off its menu, if that is not everything; else None.
      rule: by which what no level answers is translated.
      blueprint: the blueprints.
      gadgets: what was solved; none for a translation.
      policy: the assembled strategies, a lane each, in the game in which the defender has its menu; the
        opponent's half is the blueprint's.
      levels: what was solved, level by level; the last one's certificate is `certificate`.
      certificate: `[lanes]` what the assembled strategy guarantees, by a sweep of the abstraction with what
        the answers are worth put in after the actions off the menu; the whole game is not needed. If only
        so many levels were answered, against an opponent who leaves the menu no more often.
      exploitability: `[lanes]` the game's value less what the strategy guarantees in the whole game; NaN
        where that is too large, or where a level is not answered and bets cannot be translated.
      above_optimum: `[lanes]` how much more exploitable it is at most than the best answers, where Theorem 2
        says (see `AbstractValues.error`); NaN elsewhere, and if several levels were solved.
      game_value: bracket of player 0's value of the whole game; None if that is too large.
      menu_value: the same of the game in which the defender keeps to its menu and the opponent does not.
      failures: lanes in which a solve came to nothing, and why. Their numbers are NaN.
      seconds: `build`, `compile` and `run`.
    """

    player: int
    method: str
    off_tree: tuple[str, ...] | None
    rule: str | TranslationRule
    blueprint: Policy
    gadgets: tuple[Gadget, ...]
    policy: Policy
    levels: tuple[OffTreeLevel, ...]
    certificate: FloatArray
    exploitability: FloatArray
    above_optimum: FloatArray
    game_value: tuple[float, float] | None
    menu_value: tuple[float, float] | None
    failures: dict[int, str]
    seconds: dict[str, float]

    def __repr__(self) -> str:
        lanes = f"{self.policy.num_lanes} lane(s), player {self.player}, {self.method}"
        return f"<OffTree of {self.blueprint.tree.game.name}, {lanes}: {len(self.levels)} level(s)>"

    @property
    def num_subgames(self) -> int:
        """Of all levels."""
        return sum(forest.num_subgames for level in self.levels for forest in level.forests)

    def on(self, tree: HistoryTree, rule: str | TranslationRule | None = None) -> Policy:
        """The strategies in a larger game, such as the whole one, by the names of moves.

        Args:
          tree: of that game.
          rule: translates what no level answers, where the game says how large bets are; else it is uniform.
            By default that by which exploitability was measured.

        Raises:
          ValueError: as `lift` and `translate`.
        """
        game = self.blueprint.tree.game
        assert isinstance(game, MenuAbstraction)
        by = self.rule if rule is None else rule
        elsewhere = translate(self.policy, tree, by) if hasattr(game.game, "bet_fraction") else None
        return lift(self.policy, tree, elsewhere=elsewhere)

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget and blueprint; NaN where a number is undefined or unknown."""
        sign = 1 if self.player == 0 else -1
        values = [np.nan if v is None else sign * sum(v) / 2 for v in (self.game_value, self.menu_value)]
        count = self.blueprint.num_lanes
        rows: list[dict[str, Any]] = []
        for lane in range(self.policy.num_lanes):
            gadget = self.gadgets[lane // count] if self.gadgets else None
            spread = gadget.spread if isinstance(gadget, Resolving) else None
            gap = [float(level.gap[:, lane].max(initial=0.0)) for level in self.levels]
            rows.append(
                {
                    "player": self.player,
                    "blueprint": self.blueprint.labels[lane % count],
                    "method": self.method,
                    "gadget": None if gadget is None else gadget.name,
                    "prior": None if gadget is None else prior_name(gadget),
                    "epsilon": np.nan if gadget is None else gadget.epsilon,
                    "spread": None if spread is None else spread_name(spread),
                    "exploitability": self.exploitability[lane],
                    "certificate": self.certificate[lane],
                    "gap_max": np.nan if lane in self.failures else max(gap, default=0.0),
                    "above_optimum": self.above_optimum[lane],
                    "levels": len(self.levels),
                    "subgames": self.num_subgames,
                    "seconds": sum(self.seconds.values()),
                    "off_tree": None if self.off_tree is None else ", ".join(self.off_tree),
                    "game_value": values[0],
                    "menu_value": values[1],
                    "failure": self.failures.get(lane),
                }
            )
        return pd.DataFrame(rows)


@dataclasses.dataclass(frozen=True)
class _UnsafeAnyway(Unsafe):
    """Unsafe where the opponent is at all roots of a subgame alike if its blueprint is at none."""

    def tables(self, ranges: Ranges) -> EntryTables:
        """See `Gadget`."""
        entered = (ranges.per_subgame(ranges.opponent) > 0)[ranges.subgame]
        return EntryTables(
            scale=np.where(entered, ranges.opponent, 1.0), has_decision=ranges.per_subgame(ranges.mass) > 0
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _OffTreeSetting:
    """An abstraction, who answers in it, and the games between it and the whole one.

    Attributes:
      tree: of the abstraction.
      player: who answers.
      off_tree_actions: ids of what the opponent may do off its menu.
      max_histories: of every tree.
    """

    tree: HistoryTree
    player: int
    off_tree_actions: tuple[int, ...]
    max_histories: int

    @property
    def game(self) -> MenuAbstraction:
        """The abstraction."""
        assert isinstance(self.tree.game, MenuAbstraction)
        return self.tree.game

    @property
    def opponent(self) -> int:
        """Who leaves the menu."""
        return 1 - self.player

    @property
    def limited_to(self) -> tuple[str, ...] | None:
        """What the opponent may do off its menu, by name; None for everything."""
        menus = {player: menu for player, menu in enumerate(self.game.menus) if menu is not None}
        free = MenuAbstraction(self.game.game, menus, off_tree=1, off_tree_player=self.opponent)
        if set(self.off_tree_actions) == set(free.off_tree_actions):
            return None
        return tuple(free.action_string(self.opponent, action) for action in self.off_tree_actions)

    def level(self, k: int) -> HistoryTree:
        """The game in which the opponent may leave its menu k times."""
        if k == 0:
            return self.tree
        menus = {player: menu for player, menu in enumerate(self.game.menus) if menu is not None}
        return self.enumerated(
            MenuAbstraction(
                self.game.game,
                menus,
                off_tree=k,
                off_tree_player=self.opponent,
                off_tree_actions=self.off_tree_actions,
            )
        )

    def depth(self, most: int | None) -> int:
        """How many times the opponent can leave the menu, at most so many times."""
        k = 0
        while (most is None or k < most) and self.left(self.level(k + 1)).max() > k:
            k += 1
        return k

    def is_last(self, k: int) -> bool:
        """Whether the opponent cannot leave its menu more than k times; False if that game does not fit."""
        tree = self.fitting(lambda: self.level(k + 1))
        return tree is not None and int(self.left(tree).max()) <= k

    def with_menu(self) -> HistoryTree:
        """The game in which the defender keeps its menu, and the opponent has what is off its own, too."""
        menus: dict[int, Sequence[int | str]] = {}
        if (menu := self.game.menus[self.player]) is not None:
            menus[self.player] = menu
        return self._freed(menus)

    def whole(self) -> HistoryTree:
        """The game in which the defender has all actions, too."""
        return self._freed({})

    def left(self, tree: HistoryTree) -> IntArray:
        """`[n]` how often the opponent has left its menu."""
        leaves = np.isin(tree.action[self.opponent], self.off_tree_actions)
        left = np.zeros(tree.num_histories, np.int64)
        for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
            left[begin:end] = left[tree.parent[begin:end]] + leaves[begin:end]
        return left

    def place(self, tree: HistoryTree, k: int) -> IntArray:
        """`[n]` how many decisions the opponent made between its last two ways off the menu.

        Of histories in which it has left the menu k times; before that, since it left the menu last.
        """
        action, left = tree.action[self.opponent], self.left(tree)
        leaves = np.isin(action, self.off_tree_actions)
        place = np.zeros(tree.num_histories, np.int64)
        for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
            above = place[tree.parent[begin:end]]
            counted = np.where(leaves[begin:end], 0, above + (action[begin:end] >= 0))
            place[begin:end] = np.where(left[begin:end] >= k, above, counted)
        return place

    def roots(self, tree: HistoryTree, k: int) -> IntArray:
        """Histories that follow the k-th way off the menu at once, and at which somebody still acts."""
        leaves = np.isin(tree.action[self.opponent], self.off_tree_actions) & (self.left(tree) == k)
        together = leaves & (tree.actor[tree.parent] == SIMULTANEOUS)
        if together.any():
            moves = tree.moves(int(tree.parent[np.argmax(together)]))
            raise ValueError(
                f"{self.game.game.name}: both players act after history {moves}, where player "
                f"{self.opponent} may leave its menu; expected a game in which they take turns there"
            )
        return np.flatnonzero(leaves & (tree.actor != TERMINAL))

    def enumerated(self, game: Game) -> HistoryTree:
        """A game's tree, made once."""
        known = self.tree.cache.setdefault("off the tree", {})
        if game.name not in known:
            known[game.name] = enumerate_game(game, max_histories=self.max_histories)
        return known[game.name]

    def fitting(self, make: Callable[[], HistoryTree]) -> HistoryTree | None:
        """A tree, or None if it has too many histories."""
        try:
            return make()
        except TooLargeError:
            return None

    def _freed(self, menus: dict[int, Sequence[int | str]]) -> HistoryTree:
        game, own = self.game.game, self.game.menus[self.opponent]
        known = {*(own or ()), *self.off_tree_actions}
        if known != set(range(game.num_actions)):
            menus = {**menus, self.opponent: sorted(known)}
        return self.enumerated(MenuAbstraction(game, menus) if menus else game)


def _set_up(
    tree: HistoryTree, player: int, off_tree_actions: Sequence[int | str] | None, max_histories: int
) -> _OffTreeSetting:
    check_whole(tree)
    opponent, game = 1 - check_player(player), tree.game
    if not isinstance(game, MenuAbstraction) or game.off_tree:
        raise ValueError(
            f"tree={tree!r}: expected one of a MenuAbstraction with off_tree=0, the game that the blueprint "
            "is for; enumerate_game(MenuAbstraction(game, menus))"
        )
    menus = {p: menu for p, menu in enumerate(game.menus) if menu is not None}
    asked = MenuAbstraction(
        game.game, menus, off_tree=1, off_tree_player=opponent, off_tree_actions=off_tree_actions
    )
    return _OffTreeSetting(
        tree, player, asked.off_tree_actions, check_whole_number("max_histories", max_histories, 1)
    )


def nested_off_tree(
    tree: HistoryTree,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    player: int = 1,
    method: Method = "inexpensive",
    off_tree_actions: Sequence[int | str] | None = None,
    levels: int | None = None,
    rule: str | TranslationRule = "pseudo-harmonic",
    algorithm: str | Rule = "cfr+",
    iterations: int = 2000,
    target_gap: float | None = None,
    check_every: int = 100,
    dtype: DTypeLike = "float32",
    value: tuple[float, float] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    devices: Sequence[Device] | None = None,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    progress: bool | None = None,
) -> OffTree:
    """Answers every action that the opponent's menu lacks by a subgame of its own; see the top of the file.

    Source: Brown and Sandholm (2017), §7.

    Args:
      tree: of a `MenuAbstraction` that nobody may leave; the opponent has a menu.
      blueprint: profiles of it, a lane each, as in `refine`.
      gadgets: by default resolving and, but for `inexpensive` and `safe`, unsafe; resolving without, with a
        uniform and with a blueprint prior, which is the opponent's reach before the action. Other priors and
        alternative values than these and `AbstractValues` (not with `safe`) are refused. With a spread
        (`Resolving.spread`) values are distributions; `best-response` takes how far they are from a best
        response to the strategy of the level before, translated.
      player: who answers, 0 or 1; the other leaves its menu.
      method: `inexpensive`, `expensive` or `safe`.
      off_tree_actions: what the opponent may do off its menu, by name or id; by default all.
      levels: how many times it may; by default as often as it can.
      rule: of the translation, for `safe` and for what no level answers.
      algorithm: as in `refine`.
      iterations: as in `refine`.
      target_gap: as in `refine`.
      check_every: iterations between two looks at the gap.
      dtype: of the solve, `float32` or `float64`; certificates are in float64.
      value: bracket of player 0's value of the whole game, if known; else it is found.
      checkpoint: a folder to resume from and to save to, with a folder for each level and place. A level
        rests on what the one before came to, so what is left of it is good for the same iterations alone.
      time_limit: of linear programs, in seconds.
      memory_limit: bytes that a solve may take on each device.
      devices: over which lanes are spread.
      max_histories: of every game that is enumerated. The whole game is left alone where it has more.
      progress: see `refine`.

    Raises:
      ValueError: if the tree is of no such abstraction, an off-tree action is unknown or on the menu, both
        players act at once where the menu may be left, a gadget cannot be used, a number is out of range, or
        the game with its off-tree actions has more than `max_histories` histories.
    """
    setting = _set_up(tree, player, off_tree_actions, max_histories)
    profiles = as_policy(blueprint, tree, name="blueprint")
    if method not in METHODS:
        raise ValueError(f"method={method!r}: expected one of {', '.join(METHODS)}")
    if levels is not None:
        check_whole_number("levels", levels, 0)
    check_rule(rule)
    options = make_options(
        algorithm=algorithm,
        iterations=iterations,
        target_gap=target_gap,
        check_every=check_every,
        dtype=dtype,
        checkpoint=checkpoint,
        time_limit=time_limit,
        memory_limit=memory_limit,
        devices=devices,
    )
    asked = list_gadgets(
        _default_gadgets(method) if gadgets is None else gadgets, options.rule is None, (player,)
    )
    for gadget in asked:
        check_gadget(gadget, method, profiles.num_lanes)
    nested = _Answering(setting, profiles, asked, method, options, rule, progress)
    with nested.watch.phase("build"):
        answered = setting.depth(levels)
        if method == "safe":
            tree = setting.with_menu()
            nested.start(lift(profiles, tree, elsewhere=translate(profiles, tree, rule)))
    solved = tuple(nested.answer(k) for k in range(1, answered + 1))
    certificate = solved[-1].certificate.copy() if solved else _guaranteed(nested.policy, player)
    above = np.full(nested.policy.num_lanes, np.nan)
    if answered == 1:
        gaps = np.split(solved[0].gap, len(asked), axis=1)
        above = np.concatenate([above_optimum(*pair) for pair in zip(asked, gaps, strict=True)])
    is_complete = method == "safe" or setting.is_last(answered)
    measured = _measure(
        setting, nested.policy, certificate, None if is_complete else rule, value, options, progress
    )
    for numbers in (certificate, measured.exploitability, above):
        numbers[list(nested.failures)] = np.nan
    return OffTree(
        player=player,
        method=method,
        off_tree=setting.limited_to,
        rule=rule,
        blueprint=profiles,
        gadgets=asked,
        policy=nested.assembled(profiles),
        levels=solved,
        certificate=certificate,
        above_optimum=above,
        failures=nested.failures,
        seconds=nested.watch.seconds,
        **measured._asdict(),
    )


def translate_off_tree(
    tree: HistoryTree,
    blueprint: PolicyLike | Sequence[PolicyLike],
    rule: str | TranslationRule = "pseudo-harmonic",
    *,
    player: int = 1,
    off_tree_actions: Sequence[int | str] | None = None,
    algorithm: str | Rule = "cfr+",
    value: tuple[float, float] | None = None,
    time_limit: float | None = None,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    progress: bool | None = None,
) -> OffTree:
    """What translation guarantees in place of solving anything, as `nested_off_tree` says of its methods.

    Args:
      tree: as in `nested_off_tree`; this and what follows.
      blueprint: profiles of it, a lane each.
      rule: as in `translate`.
      player: who answers.
      off_tree_actions: what the opponent may do off its menu.
      algorithm: with `lp` values of games come from linear programs, where these are small.
      value: bracket of player 0's value of the whole game.
      time_limit: of such a program, in seconds.
      max_histories: of every game that is enumerated.
      progress: see `refine`.

    Raises:
      ValueError: as `nested_off_tree` and `translate`.
    """
    setting = _set_up(tree, player, off_tree_actions, max_histories)
    profiles = as_policy(blueprint, tree, name="blueprint")
    check_rule(rule)
    options, watch = make_options(algorithm=algorithm, iterations=1, time_limit=time_limit), Stopwatch()
    with watch.phase("build"):
        translated = translate(profiles, setting.with_menu(), rule)
    with watch.phase("run"):
        certificate = _guaranteed(translated, player)
    measured = _measure(setting, translated, certificate, None, value, options, progress)
    return OffTree(
        player=player,
        method=f"{TRANSLATION}:{rule if isinstance(rule, str) else function_name(rule) or 'own'}",
        off_tree=setting.limited_to,
        rule=rule,
        blueprint=profiles,
        gadgets=(),
        policy=translated,
        levels=(),
        certificate=certificate,
        above_optimum=np.full(profiles.num_lanes, np.nan),
        failures={},
        seconds=watch.seconds,
        **measured._asdict(),
    )


class _Answering:
    """Strategies on their way through the levels, a lane for each gadget and blueprint."""

    def __init__(
        self,
        setting: _OffTreeSetting,
        blueprint: Policy,
        gadgets: tuple[Gadget, ...],
        method: Method,
        options: SolveOptions,
        rule: str | TranslationRule,
        progress: bool | None,
    ):
        self.setting, self.gadgets, self.method, self.options = setting, gadgets, method, options
        self.watch, self.rule, self.progress = Stopwatch(), rule, progress
        self.taken = np.tile(np.arange(blueprint.num_lanes), len(gadgets))
        self.labels = tuple(f"{label} | {describe(g)}" for g in gadgets for label in blueprint.labels)
        self.failures: dict[int, str] = {}
        self.start(blueprint)

    def start(self, policy: Policy) -> None:
        """Begins with strategies, a lane a blueprint."""
        self._go_on(policy.take_lanes(self.taken))

    def answer(self, k: int) -> OffTreeLevel:
        """Solves level k and goes on with what comes out."""
        setting, before = self.setting, self.policy
        with self.watch.phase("build"):
            tree = before.tree if self.method == "safe" else setting.level(k)
            policy, roots = self._leaving(lift(before, tree)), setting.roots(tree, k)
            after = build_forest(tree, cut_at(tree, f"off-tree action {k}", roots)) if len(roots) else None
        parts: list[tuple[Forest, GadgetSolutions]] = []
        if after is not None and self.method == "expensive":
            place = setting.place(tree, k)
            for number in np.unique(place[roots]).tolist():
                with self.watch.phase("build"):
                    forest, answers = self._before_leaving(tree, k, place == number)
                    at_forest = lift(policy, forest.tree)
                folder = f"level-{k}-place-{number}"
                parts.append((forest, self._solve(forest, at_forest, before, folder)))
                solved = spliced(self._task(forest, at_forest, self.gadgets), parts[-1][1])
                policy = policy.splice(setting.player, answers, lift(solved, tree))
        elif after is not None:
            held = None
            if self.method == "safe":
                later = tree.infoset[setting.player, setting.left(tree) > k]
                held = np.unique(later[later >= 0])
            parts.append((after, self._solve(after, policy, before, f"level-{k}", held)))
            policy = spliced(self._task(after, policy, self.gadgets), parts[-1][1])
        self._go_on(policy)
        with self.watch.phase("run"):
            certificate = _guaranteed(policy, setting.player) if after is None else self._swept(after)
        nothing = np.zeros((0, policy.num_lanes))
        return OffTreeLevel(
            level=k,
            forests=tuple(forest for forest, _ in parts),
            gap=np.concatenate([nothing, *(solutions.gap for _, solutions in parts)]),
            has_decision=np.concatenate([nothing > 0, *(solutions.has_decision for _, solutions in parts)]),
            certificate=certificate,
        )

    def assembled(self, blueprint: Policy) -> Policy:
        """The strategies, with the opponent's half of the blueprints."""
        theirs = lift(blueprint.take_lanes(self.taken), self.policy.tree).probabilities
        pair = [theirs[0], theirs[1]]
        pair[self.setting.player] = self.policy.probabilities[self.setting.player]
        return Policy(self.policy.tree, (pair[0], pair[1]), self.labels)

    def _go_on(self, policy: Policy) -> None:
        self.policy = Policy(policy.tree, policy.probabilities, self.labels)

    def _leaving(self, policy: Policy) -> Policy:
        """The same policies, whose opponent leaves its menu half of the time wherever it may."""
        opponent, tree = self.setting.opponent, policy.tree
        infosets = tree.infosets[opponent]
        infoset, first = infosets.infoset[1:], infosets.first_sequence - 1
        if len(infoset) == 0:
            return policy
        off = np.isin(infosets.action[1:], self.setting.off_tree_actions)
        count = np.add.reduceat(off.astype(np.int64), first)[infoset]
        on_tree = np.where(off[:, None], 0.0, policy.probabilities[opponent])
        off_tree = np.broadcast_to((off / np.maximum(count, 1))[:, None], on_tree.shape)
        leaving = (divide(on_tree, np.add.reduceat(on_tree, first, axis=0)[infoset], off_tree) + off_tree) / 2
        rows = np.where(
            ((count > 0) & (count < infosets.num_actions[infoset]))[:, None],
            leaving,
            policy.probabilities[opponent],
        )
        pair = [*policy.probabilities]
        pair[opponent] = rows
        return Policy(tree, (pair[0], pair[1]), policy.labels)

    def _before_leaving(self, tree: HistoryTree, k: int, at: BoolArray) -> tuple[Forest, IntArray]:
        """Subgames that begin before the k-th way off the menu at one place.

        Args:
          tree: of level k.
          k: the level.
          at: `[n]` which histories are at that place; see `_OffTreeSetting.place`.

        Returns:
          The forest, in the game in which the menu is left for the k-th time there and nowhere else; and the
          tree's infosets of the defender that follow.
        """
        setting, left = self.setting, self.setting.left(tree)
        kept = at | (left < k)
        pruned = setting.enumerated(
            PrunedGame(tree.game, kept, f"left at {np.flatnonzero(at & (left == k))[0]}")
        )
        leaving = np.unique(pruned.parent[setting.roots(pruned, k)])
        answers = tree.infoset[setting.player, at & (left == k)]
        forest = build_forest(pruned, cut_at(pruned, f"before off-tree action {k}", leaving))
        return forest, np.unique(answers[answers >= 0])

    def _task(
        self,
        forest: Forest,
        policy: Policy,
        gadgets: tuple[Gadget, ...],
        folder: str = "",
        held: IntArray | None = None,
    ) -> GadgetTask:
        """Every gadget takes the lanes that are its own; checkpoints are in a folder inside the options'."""
        lanes, options = np.arange(policy.num_lanes).reshape(len(gadgets), -1), self.options
        if options.checkpoint is not None:
            options = dataclasses.replace(options, checkpoint=options.checkpoint / folder)
        return GadgetTask(
            forest, self.setting.player, policy, gadgets, options, blueprints_of=lanes, held=held
        )

    def _solve(
        self, forest: Forest, policy: Policy, before: Policy, folder: str, held: IntArray | None = None
    ) -> GadgetSolutions:
        """Solves subgames, where the policies are those of the level before.

        Args:
          forest: the subgames.
          policy: of the forest's tree, a lane each.
          before: the strategies of the level before, in its own tree.
          folder: of checkpoints.
          held: the tree's infosets at which the defender keeps to the policy.
        """
        with self.watch.phase("build"):
            gadgets = tuple(self._with_numbers(forest, policy, before))
        task = self._task(forest, policy, gadgets, folder, held)
        solutions = solve_gadgets(task, self.watch, self.progress)
        for lane, why in solutions.failures.items():
            self.failures.setdefault(lane, why)
        return solutions

    def _with_numbers(self, forest: Forest, policy: Policy, before: Policy) -> Iterator[Gadget]:
        """The gadgets, with what the opponent is promised, and how uncertain that is.

        `safe` promises the opponent's best response as it is. A spread of `best-response` is how far what is
        promised is from what the opponent gets with all of its actions from the level before, translated.
        """
        player = self.setting.player
        if self.method == "safe":
            yield from self.gadgets
            return
        mass = root_mass(forest, player, policy)
        usual = promised_values(look_up(before, forest, player), mass)
        responses: FloatArray | None = None
        if any(_spread_of(gadget) == TO_BEST_RESPONSE for gadget in self.gadgets):
            translated = translate(before, self.setting.with_menu(), self.rule)
            responses = promised_values(look_up(translated, forest, player), mass)
        for gadget in self._with_values(forest, policy, mass, usual):
            if responses is not None and _spread_of(gadget) == TO_BEST_RESPONSE:
                assert isinstance(gadget, Resolving) and isinstance(gadget.alternative, ArrayValues)
                error = np.abs(gadget.alternative.array - responses)
                gadget = dataclasses.replace(gadget, spread=ArrayValues(error, TO_BEST_RESPONSE))
            yield gadget

    def _with_values(
        self, forest: Forest, policy: Policy, mass: FloatArray, usual: FloatArray
    ) -> Iterator[Gadget]:
        """The gadgets with values that are promised; `usual` are those of the level before."""
        player = self.setting.player
        for gadget in self.gadgets:
            if isinstance(gadget, Unsafe):
                yield _UnsafeAnyway()
                continue
            asked = asks_abstraction(gadget)
            if asked is None or asked.policy is None:
                yield with_values(gadget, usual)
                continue
            known = look_up(policy_of(asked, policy.num_lanes // len(self.gadgets)), forest, player)
            copies = policy.num_lanes // known.value.shape[1]
            tiled = RootValues(np.tile(known.value, copies), np.tile(known.mass, copies))
            yield with_values(gadget, promised_values(tiled, mass, usual))

    def _swept(self, after: Forest) -> FloatArray:
        """`[lanes]` what the strategies guarantee, given what they are worth after actions off the menu."""
        at_once = plan_ranges(after, self.options.placement, self.options.memory_limit)
        needs_trunk = [OptimalContinuation(NoPrior())]
        ranges = prepare(after, self.setting.player, self.policy, needs_trunk, at_once=at_once).ranges
        return -ranges.above.best_values(ranges.cbv)[2][0]


class _Measured(NamedTuple):
    """See `OffTree`."""

    exploitability: FloatArray
    game_value: tuple[float, float] | None
    menu_value: tuple[float, float] | None


def _measure(
    setting: _OffTreeSetting,
    policy: Policy,
    certificate: FloatArray,
    rule: str | TranslationRule | None,
    value: tuple[float, float] | None,
    options: SolveOptions,
    progress: bool | None,
) -> _Measured:
    """Values of games, and what strategies are worth in the whole one.

    Args:
      setting: what is answered, by whom.
      policy: the strategies.
      certificate: `[lanes]` what they guarantee.
      rule: translates what they do not answer; None where they answer everything.
      value: bracket of the whole game's value, if known.
      options: how values are found.
      progress: see `refine`.
    """
    player = setting.player

    def value_of(tree: HistoryTree | None) -> tuple[float, float] | None:
        if tree is None:
            return None
        return find_value(tree, options.rule is None, progress, time_limit=options.time_limit)

    menu_value, whole = value_of(setting.fitting(setting.with_menu)), setting.fitting(setting.whole)
    if whole is None:
        guaranteed = certificate if rule is None else np.full_like(certificate, np.nan)
    else:
        check_value(value, whole)
        guaranteed = np.full_like(certificate, np.nan)
        if rule is None:
            guaranteed = _guaranteed(lift(policy, whole), player)
        elif hasattr(setting.game.game, "bet_fraction"):
            guaranteed = _guaranteed(lift(policy, whole, elsewhere=translate(policy, whole, rule)), player)
    bracket = value_of(whole) if value is None else value
    middle = np.nan if bracket is None else sum(bracket) / 2 * (1 if player == 0 else -1)
    return _Measured(middle - guaranteed, bracket, menu_value)


def _guaranteed(policy: Policy, player: int) -> FloatArray:
    """`[lanes]` what a player gets against a best response."""
    return -evaluate_policy(policy).best_response_values[player]


def _spread_of(gadget: Gadget) -> object:
    return getattr(gadget, "spread", None)


def _default_gadgets(method: str) -> tuple[Gadget, ...]:
    resolving = tuple(Resolving(prior) for prior in (NoPrior(), UniformPrior(), BlueprintPrior()))
    return (Unsafe(), *resolving) if method == "expensive" else resolving


def check_gadget(gadget: Gadget, method: str, num_lanes: int) -> None:
    """ValueError for a gadget that a method has no use for; `num_lanes` of blueprints."""
    if not isinstance(gadget, TwoLevel):
        raise ValueError(
            f"gadgets: {gadget.name} looks at the opponent's real way in, which does not have its off-tree "
            "actions; expected resolving, max-margin, a reach version of them, or unsafe"
        )
    if isinstance(gadget, Unsafe) and method != "expensive":
        raise ValueError(
            f"gadgets: unsafe with method={method!r}: no blueprint says how likely the opponent is to take "
            "an action that it does not have; expected another gadget, or method='expensive'"
        )
    if not isinstance(gadget.prior, NoPrior | UniformPrior | BlueprintPrior):
        raise ValueError(
            f"gadgets: {gadget.name} with prior {prior_name(gadget)!r}: expected NoPrior(), UniformPrior() "
            "or BlueprintPrior(), the opponent's reach before its off-tree action"
        )
    if isinstance(_spread_of(gadget), ArrayValues):
        raise ValueError(
            f"gadgets: {gadget.name} with a spread for each root: every level has roots of its own; expected "
            f"a number for all, or {TO_BEST_RESPONSE!r}"
        )
    alternative = getattr(gadget, "alternative", BestResponseValues())
    if isinstance(alternative, AbstractValues) and method != "safe":
        if alternative.policy is not None:
            policy_of(alternative, num_lanes)
    elif not isinstance(alternative, BestResponseValues):
        raise ValueError(
            f"gadgets: {gadget.name} with alternative values {alternative.name!r}: method={method!r} finds "
            "its own; leave them out" + ("" if method == "safe" else ", or give AbstractValues")
        )
