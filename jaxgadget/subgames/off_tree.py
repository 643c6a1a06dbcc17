"""Answers to actions outside the blueprint's abstraction, solved when the opponent takes one.

A blueprint is a strategy for a `MenuAbstraction`. Level k covers the opponent's k-th departure from the menu,
after all public histories at once. It is one forest in the game that allows at most k departures, so that
promised values ignore level k + 1. The solutions are merged into the blueprint, which gives the blueprint of
level k + 1. Source: Brown and Sandholm (2017), §6 and §7.

There are three methods.

* `inexpensive`: subgames begin after the off-tree action. The opponent is promised its value before that
  action with the actions of the previous level (`AbstractValues`). Cannot be combined with unsafe resolving,
  as the blueprint gives no reach there.
* `expensive`: subgames begin where the opponent may leave the menu, before the action; only the answers to
  off-menu actions are taken from the solution. A place is the opponent's number of decisions since its last
  departure; each place has a separate forest, in which the menu can be left only there.
* `safe`: subgames begin after the action, as with `inexpensive`, and the opponent is promised its best
  response to translation. They include the next off-tree action, with the answer locked to the translation
  until the next level. Hence, up to gaps and mistakes, no level guarantees less than the previous one, or
  less than translation.

Deviations and readings:

* The opponent's half of the blueprint leaves the menu with probability 1/2 wherever it may, uniformly over
  off-menu actions and independently of its private information, and plays uniformly afterwards. A blueprint
  prior and the range of unsafe resolving are therefore its reach before the action.
* Where that reach is 0 at all roots of a subgame, unsafe resolving uses a uniform range.
* The paper's final CFR iterations are replaced by best responses (`subgames.abstract`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from jaxgadget.core.regret import Rule
from jaxgadget.core.results import LaneResult
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.alternative import (
    ABSTRACT,
    TO_BEST_RESPONSE,
    AbstractValues,
    BestResponseValues,
    PrecomputedValues,
    spread_name,
)
from jaxgadget.gadgets.capabilities import SOLVERS, Capability, check_capabilities
from jaxgadget.gadgets.entry import EntryTables
from jaxgadget.gadgets.gadget import Gadget, Perturbed, describe, gadget_columns
from jaxgadget.gadgets.prior import BlueprintPrior, NoPrior, UniformPrior
from jaxgadget.gadgets.ranges import Ranges, divide
from jaxgadget.gadgets.root_gadgets import Resolving, Unsafe
from jaxgadget.gadgets.trunk_gadgets import OptimalContinuation
from jaxgadget.games.game import DEFAULT_MAX_HISTORIES, SIMULTANEOUS, TERMINAL, Game, TooLargeError
from jaxgadget.games.menu import MenuAbstraction, check_off_tree
from jaxgadget.games.pruned import PrunedGame
from jaxgadget.policy.evaluate import check_value, evaluate_policy
from jaxgadget.policy.exact import find_value
from jaxgadget.policy.lift import lift
from jaxgadget.policy.policy import Policy, PolicyLike, as_policy
from jaxgadget.policy.translation import TranslationRule, check_rule, translate
from jaxgadget.subgames.abstract import (
    RootValues,
    above_optimum,
    look_up,
    policy_of,
    root_mass,
    scale_to_reach,
)
from jaxgadget.subgames.engine import Subgames, SubgameSolutions, assemble, solve_subgames
from jaxgadget.subgames.prepare import plan_ranges, prepare
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.tree.cut import cut_at
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import HistoryTree, check_whole, enumerate_game
from jaxgadget.util.arguments import check_player, check_whole_number, function_name, moved
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.clock import Stopwatch
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import Bracket
from jaxgadget.util.viewers import Explorable

Method = Literal["inexpensive", "expensive", "safe"]
METHODS: tuple[Method, ...] = get_args(Method)

TRANSLATION = "translation"
"""Prefix of the method name in tables for translation; the rule follows."""


@dataclasses.dataclass(frozen=True)
class Answering:
    """Method by which `nested_off_tree` answers actions off the menu, and the actions that it answers.

    Attributes:
      method: `inexpensive`, `expensive` or `safe`; see the module's docstring.
      off_tree_actions: the opponent's off-menu actions, by name or id; by default all.
      levels: number of departures to answer; by default all that are possible.
      rule: translation rule, for `safe` and for actions that no level answers.
      max_histories: maximum size of an enumerated game. A larger whole game is not enumerated.

    Raises:
      ValueError: if a method or rule is unknown, or a number is out of range.
    """

    method: Method = "inexpensive"
    off_tree_actions: Sequence[int | str] | None = None
    levels: int | None = None
    rule: str | TranslationRule = "pseudo-harmonic"
    max_histories: int = DEFAULT_MAX_HISTORIES

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r}: expected one of {', '.join(METHODS)}")
        if self.levels is not None:
            check_whole_number("levels", self.levels, 0)
        check_rule(self.rule)
        check_whole_number("max_histories", self.max_histories, 1)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OffTreeLevel:
    """Solutions of one level. Lanes run over gadgets, then blueprints.

    Attributes:
      level: k, the number of times that the opponent has left the menu.
      forests: the subgames; for `expensive`, one forest for each place.
      gap: `[S, lanes]` NashConv of each gadget game, concatenated over forests.
      has_decision: `[S, lanes]` False for unreachable subgames, which have no decision.
      certificate: `[lanes]` value guaranteed by the strategy against an opponent that leaves the menu at most
        k times; with `safe`, any number of times.
    """

    level: int
    forests: tuple[Forest, ...]
    gap: FloatArray
    has_decision: BoolArray
    certificate: FloatArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OffTree(LaneResult, Explorable):
    """Blueprints of an abstraction, extended with answers to off-tree actions.

    Lanes run over gadgets, then blueprints. Values are in the answering player's utility, in units of the
    game's payoff, except that brackets of game values are player 0's. In the whole game the defender has all
    actions, and the opponent has its menu and the off-tree actions.

    Attributes:
      player: the answering player.
      method: the method's name, or `translation:` and the rule.
      off_tree: the opponent's off-menu actions if restricted; otherwise None.
      rule: translation rule for actions that no level answers.
      blueprint: the blueprints.
      gadgets: the solved gadgets; none for a translation.
      policy: the assembled strategies, one per lane, in the game in which the defender has its menu; the
        opponent's half is the blueprint's.
      levels: solutions, by level; `certificate` is that of the last level.
      certificate: `[lanes]` value guaranteed by the assembled strategy. It is computed by a sweep of the
        abstraction with the answers' values inserted after off-menu actions, without the whole game. If the
        number of levels was limited, it holds against opponents that leave the menu at most that often.
      exploitability: `[lanes]` the game's value minus the value guaranteed by the strategy in the whole game;
        NaN if that game is too large, or if a level is not answered and bets cannot be translated.
      above_optimum: `[lanes]` upper bound on the exploitability in excess of optimal answers, by Theorem 2
        (see `AbstractValues.error`); NaN where it does not apply, and if several levels were solved.
      game_value: bracket of player 0's value of the whole game; None if that is too large.
      menu_value: bracket of player 0's value of the game in which only the opponent may leave its menu; None
        if that is too large.
      failures: lanes in which a solve failed, with the reason. Their values are NaN.
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
    failures: Mapping[int, str]
    seconds: dict[str, float]

    def __repr__(self) -> str:
        lanes = f"{self.policy.num_lanes} lane(s), player {self.player}, {self.method}"
        return f"<OffTree of {self.blueprint.tree.game.name}, {lanes}: {len(self.levels)} level(s)>"

    @property
    def num_subgames(self) -> int:
        """Number of subgames of all levels."""
        return sum(forest.num_subgames for level in self.levels for forest in level.forests)

    def on(self, tree: HistoryTree, rule: str | TranslationRule | None = None) -> Policy:
        """The strategies in a larger game, such as the whole one, by the names of moves.

        Args:
          tree: tree of the larger game.
          rule: translation rule for unanswered actions if the game has bet sizes; otherwise play is uniform.
            By default the rule with which exploitability was measured.

        Raises:
          ValueError: as `lift` and `translate`.
        """
        game = self.blueprint.tree.game
        assert isinstance(game, MenuAbstraction)
        by = self.rule if rule is None else rule
        elsewhere = translate(self.policy, tree, by) if hasattr(game.game, "bet_fraction") else None
        return lift(self.policy, tree, elsewhere=elsewhere)

    @property
    def message(self) -> str:
        """One-sentence summary of the solved levels and subgames, and of their convergence."""
        if not self.levels:
            return f"{self.method}: no subgame was solved"
        gap = max(float(np.nanmax(level.gap, initial=0.0)) for level in self.levels)
        return f"{len(self.levels)} level(s) with {self.num_subgames} subgame(s); largest gap {gap:.3g}"

    @property
    def lane_columns(self) -> dict[str, Any]:
        """Player, blueprint, method, and gadget with its prior and ε of each lane."""
        lanes = Lanes.product(gadgets=max(len(self.gadgets), 1), blueprints=self.blueprint.num_lanes)
        spreads = [_spread_of(gadget) for gadget in self.gadgets] or [None]
        names = [None if spread is None else spread_name(spread) for spread in spreads]
        return {
            "player": self.player,
            "blueprint": [self.blueprint.labels[blueprint] for blueprint in lanes.blueprint.tolist()],
            "method": self.method,
            **gadget_columns(self.gadgets or (None,), lanes.gadget),
            "spread": [names[gadget] for gadget in lanes.gadget.tolist()],
        }

    @property
    def number_columns(self) -> dict[str, Any]:
        """Exploitability, certificate, gap, effort and the games' values; NaN where unknown."""
        gap = np.zeros(self.policy.num_lanes)
        for level in self.levels:
            gap = np.maximum(gap, level.gap.max(axis=0, initial=0.0))
        gap[list(self.failures)] = np.nan
        game_value, menu_value = (
            np.nan if value is None else Bracket(*value).for_player(self.player).middle
            for value in (self.game_value, self.menu_value)
        )
        return {
            "exploitability": self.exploitability,
            "certificate": self.certificate,
            "gap_max": gap,
            "above_optimum": self.above_optimum,
            "levels": len(self.levels),
            "subgames": self.num_subgames,
            "seconds": sum(self.seconds.values()),
            "off_tree": None if self.off_tree is None else ", ".join(self.off_tree),
            "game_value": game_value,
            "menu_value": menu_value,
        }


@dataclasses.dataclass(frozen=True)
class _UnsafeAnyway(Unsafe):
    """Unsafe resolving with a uniform range in subgames that the opponent's blueprint does not reach."""

    def tables(self, ranges: Ranges) -> EntryTables:
        """The gadget as arrays, with scale 1 in subgames that the opponent's blueprint does not reach."""
        entered = (ranges.per_subgame(ranges.opponent) > 0)[ranges.subgame]
        return EntryTables(
            scale=np.where(entered, ranges.opponent, 1.0), has_decision=ranges.per_subgame(ranges.mass) > 0
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _OffTreeSetting:
    """An abstraction, its answering player, and the games between it and the whole game.

    Attributes:
      tree: the abstraction's histories.
      player: the answering player.
      off_tree_actions: ids of the opponent's off-menu actions.
      max_histories: maximal number of histories of each tree.
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
    def menus(self) -> dict[int, Sequence[int | str]]:
        """The menus of the players that have one."""
        return {player: menu for player, menu in enumerate(self.game.menus) if menu is not None}

    @property
    def opponent(self) -> int:
        """The player that leaves the menu."""
        return 1 - self.player

    @property
    def limited_to(self) -> tuple[str, ...] | None:
        """Names of the opponent's off-menu actions; None if all are allowed."""
        free = MenuAbstraction(self.game.game, self.menus, off_tree=1, off_tree_player=self.opponent)
        if set(self.off_tree_actions) == set(free.off_tree_actions):
            return None
        return tuple(free.action_string(self.opponent, action) for action in self.off_tree_actions)

    def level(self, k: int) -> HistoryTree:
        """The game in which the opponent may leave its menu k times."""
        if k == 0:
            return self.tree
        return self.enumerated(
            MenuAbstraction(
                self.game.game,
                self.menus,
                off_tree=k,
                off_tree_player=self.opponent,
                off_tree_actions=self.off_tree_actions,
            )
        )

    def depth(self, most: int | None) -> int:
        """Number of times that the opponent can leave the menu, up to a maximum."""
        k = 0
        while (most is None or k < most) and self.left(self.level(k + 1)).max() > k:
            k += 1
        return k

    def is_last(self, k: int) -> bool:
        """True if the opponent cannot leave its menu more than k times; False if that game does not fit."""
        tree = self.fitting(functools.partial(self.level, k + 1))
        return tree is not None and int(self.left(tree).max()) <= k

    def with_menu(self) -> HistoryTree:
        """The game in which the defender has its menu, and the opponent also has its off-menu actions."""
        return self._freed({player: menu for player, menu in self.menus.items() if player == self.player})

    def whole(self) -> HistoryTree:
        """The game in which the defender has all actions, too."""
        return self._freed({})

    def left(self, tree: HistoryTree) -> IntArray:
        """`[n]` number of times that the opponent has left its menu."""
        leaves = np.isin(tree.action[self.opponent], self.off_tree_actions)
        left = np.zeros(tree.num_histories, np.int64)
        for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
            left[begin:end] = left[tree.parent[begin:end]] + leaves[begin:end]
        return left

    def delay(self, tree: HistoryTree, k: int) -> IntArray:
        """`[n]` number of decisions of the opponent between its last two departures from the menu.

        For histories with fewer than k departures, the number of decisions since the last departure.
        """
        action, left = tree.action[self.opponent], self.left(tree)
        leaves = np.isin(action, self.off_tree_actions)
        delay = np.zeros(tree.num_histories, np.int64)
        for begin, end in itertools.pairwise(tree.level_offset[1:].tolist()):
            above = delay[tree.parent[begin:end]]
            counted = np.where(leaves[begin:end], 0, above + (action[begin:end] >= 0))
            delay[begin:end] = np.where(left[begin:end] >= k, above, counted)
        return delay

    def roots(self, tree: HistoryTree, k: int) -> IntArray:
        """Non-terminal histories immediately after the k-th departure from the menu."""
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
        """A game's tree; cached."""
        trees = self.tree.cache.setdefault("off the tree", {})
        if game.name not in trees:
            trees[game.name] = enumerate_game(game, max_histories=self.max_histories)
        return trees[game.name]

    def fitting(self, make: Callable[[], HistoryTree]) -> HistoryTree | None:
        """The tree that `make` builds, or None if it has too many histories."""
        try:
            return make()
        except TooLargeError:
            return None

    def _freed(self, menus: dict[int, Sequence[int | str]]) -> HistoryTree:
        game, own = self.game.game, self.game.menus[self.opponent]
        actions = {*(own or ()), *self.off_tree_actions}
        if actions != set(range(game.num_actions)):
            menus = {**menus, self.opponent: sorted(actions)}
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
    one_way_off = MenuAbstraction(
        game.game, menus, off_tree=1, off_tree_player=opponent, off_tree_actions=off_tree_actions
    )
    if off_tree_actions is None:
        check_off_tree(one_way_off)
    return _OffTreeSetting(
        tree, player, one_way_off.off_tree_actions, check_whole_number("max_histories", max_histories, 1)
    )


@moved(**{field.name: f"answering=Answering({field.name}=…)" for field in dataclasses.fields(Answering)})
def nested_off_tree(
    tree: HistoryTree,
    blueprint: PolicyLike | Sequence[PolicyLike],
    gadgets: Gadget | Sequence[Gadget] | None = None,
    answering: Answering | None = None,
    *,
    player: int = 1,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> OffTree:
    """Answers each action outside the opponent's menu by solving a subgame.

    Source: Brown and Sandholm (2017), §7.

    Args:
      tree: histories of a `MenuAbstraction` that permits no departures, and in which the opponent has a menu.
      blueprint: profiles of the abstraction, one per lane, as in `refine`.
      gadgets: by default resolving and, except for `inexpensive` and `safe`, unsafe; resolving without prior,
        with a uniform prior and with a blueprint prior, which is the opponent's reach before the action.
        Only these priors are accepted, and of alternative values only `AbstractValues` (not with `safe`).
        With a spread (`Resolving.spread`) values are distributions; `best-response` uses the distance from a
        best response to the translated strategy of the previous level.
      answering: the method, and the actions and levels that are answered; by default `Answering()`.
      player: the answering player, 0 or 1; the other leaves its menu.
      value: bracket of player 0's value of the whole game; computed by default.
      solver: settings; by default 2000 iterations of CFR+ in float32. Its `checkpoint` is a folder with a
        folder for each level and place; as each level depends on the result of the previous one, a checkpoint
        can only be continued with the same number of iterations.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: if the tree has no such abstraction, an off-tree action is unknown or on the menu, both
        players act simultaneously where the menu may be left, a gadget cannot be used, an argument is out of
        range, or the game with its off-tree actions has more than `max_histories` histories.
    """
    answering = Answering() if answering is None else answering
    method, rule = answering.method, answering.rule
    setting = _set_up(tree, player, answering.off_tree_actions, answering.max_histories)
    profiles = as_policy(blueprint, tree, name="blueprint")
    solver = choose_solver(solver, Solver(iterations=2000), iterations=iterations, algorithm=algorithm)
    requested = list_gadgets(
        _default_gadgets(method) if gadgets is None else gadgets, solver.rule is None, (player,)
    )
    for gadget in requested:
        check_gadget(gadget, method, profiles.num_lanes)
    nested = _Answers(setting, profiles, requested, answering, solver)
    with nested.watch.phase("build"):
        answered = setting.depth(answering.levels)
        if method == "safe":
            tree = setting.with_menu()
            nested.start(lift(profiles, tree, elsewhere=translate(profiles, tree, rule)))
    solved = tuple(nested.answer(k) for k in range(1, answered + 1))
    certificate = solved[-1].certificate.copy() if solved else _guaranteed(nested.policy, player)
    above = np.full(nested.policy.num_lanes, np.nan)
    if answered == 1:
        gaps = np.split(solved[0].gap, len(requested), axis=1)
        above = np.concatenate([above_optimum(*pair) for pair in zip(requested, gaps, strict=True)])
    is_complete = method == "safe" or setting.is_last(answered)
    measured = _measure(setting, nested.policy, certificate, None if is_complete else rule, value, solver)
    for numbers in (certificate, measured["exploitability"], above):
        numbers[list(nested.failures)] = np.nan
    return OffTree(
        player=player,
        method=method,
        off_tree=setting.limited_to,
        rule=rule,
        blueprint=profiles,
        gadgets=requested,
        policy=nested.assembled(profiles),
        levels=solved,
        certificate=certificate,
        above_optimum=above,
        failures=nested.failures,
        seconds=nested.watch.seconds,
        **measured,
    )


def translate_off_tree(
    tree: HistoryTree,
    blueprint: PolicyLike | Sequence[PolicyLike],
    rule: str | TranslationRule = "pseudo-harmonic",
    *,
    player: int = 1,
    off_tree_actions: Sequence[int | str] | None = None,
    value: tuple[float, float] | None = None,
    max_histories: int = DEFAULT_MAX_HISTORIES,
    solver: Solver | None = None,
    algorithm: str | Rule | None = None,
) -> OffTree:
    """Values guaranteed by translation alone, in the form of the results of `nested_off_tree`.

    Args:
      tree: histories of a `MenuAbstraction`, as in `nested_off_tree`.
      blueprint: profiles of the abstraction, one per lane.
      rule: as in `translate`.
      player: the answering player.
      off_tree_actions: the opponent's off-menu actions.
      value: bracket of player 0's value of the whole game.
      max_histories: maximum size of an enumerated game.
      solver: settings; with `lp`, values of small games are computed by linear programs within `time_limit`.
        Besides these only `progress` is accepted.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: as `nested_off_tree` and `translate`.
    """
    setting = _set_up(tree, player, off_tree_actions, max_histories)
    profiles = as_policy(blueprint, tree, name="blueprint")
    check_rule(rule)
    without = ("iterations", "target_gap", "check_every", "dtype", "memory_limit", "devices", "checkpoint")
    solver = choose_solver(solver, Solver(), algorithm=algorithm, without=without)
    watch = Stopwatch()
    with watch.phase("build"):
        translated = translate(profiles, setting.with_menu(), rule)
    with watch.phase("run"):
        certificate = _guaranteed(translated, player)
    measured = _measure(setting, translated, certificate, None, value, solver)
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
        **measured,
    )


class _Answers:
    """State of `nested_off_tree`: strategies updated level by level, one lane per gadget and blueprint."""

    def __init__(
        self,
        setting: _OffTreeSetting,
        blueprint: Policy,
        gadgets: tuple[Gadget, ...],
        answering: Answering,
        solver: Solver,
    ):
        self.setting, self.gadgets, self.solver, self.watch = setting, gadgets, solver, Stopwatch()
        self.method, self.rule = answering.method, answering.rule
        self.lanes = Lanes.product(gadgets=len(gadgets), blueprints=blueprint.num_lanes)
        self.labels = self.lanes.labels(blueprint.labels, [describe(gadget) for gadget in gadgets])
        self.failures: dict[int, str] = {}
        self.start(blueprint)

    def start(self, policy: Policy) -> None:
        """Initialises the strategies, given one lane for each blueprint."""
        self._continue_from(policy.take_lanes(self.lanes.blueprint))

    def answer(self, k: int) -> OffTreeLevel:
        """Solves level k and updates the blueprint with the result."""
        setting, before = self.setting, self.policy
        with self.watch.phase("build"):
            tree = before.histories if self.method == "safe" else setting.level(k)
            policy, roots = self._leaving(lift(before, tree)), setting.roots(tree, k)
            after = build_forest(tree, cut_at(tree, f"off-tree action {k}", roots)) if len(roots) else None
        parts: list[tuple[Forest, SubgameSolutions]] = []
        if after is not None and self.method == "expensive":
            delay = setting.delay(tree, k)
            for number in np.unique(delay[roots]).tolist():
                with self.watch.phase("build"):
                    forest, answers = self._before_leaving(tree, k, delay == number)
                    at_forest = lift(policy, forest.histories)
                folder = f"level-{k}-place-{number}"
                parts.append((forest, self._solve_forest(forest, at_forest, before, folder)))
                solved = assemble(self._subgames(forest, at_forest, self.gadgets), parts[-1][1])
                policy = policy.splice(setting.player, answers, lift(solved, tree))
        elif after is not None:
            held = None
            if self.method == "safe":
                later = tree.infoset[setting.player, setting.left(tree) > k]
                held = np.unique(later[later >= 0])
            parts.append((after, self._solve_forest(after, policy, before, f"level-{k}", held)))
            policy = assemble(self._subgames(after, policy, self.gadgets), parts[-1][1])
        self._continue_from(policy)
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
        """The strategies, combined with the opponent's half of the blueprints."""
        opponent = 1 - self.setting.player
        theirs = lift(blueprint.take_lanes(self.lanes.blueprint), self.policy.histories).probabilities[
            opponent
        ]
        return self.policy.with_player(opponent, theirs)

    def _continue_from(self, policy: Policy) -> None:
        self.policy = dataclasses.replace(policy, labels=self.labels)

    def _leaving(self, policy: Policy) -> Policy:
        """The policies with an opponent that leaves its menu with probability 1/2 wherever it may."""
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
        return policy.with_player(opponent, rows)

    def _before_leaving(self, tree: HistoryTree, k: int, at: BoolArray) -> tuple[Forest, IntArray]:
        """Builds the subgames that begin before the k-th departure from the menu at one delay.

        Args:
          tree: tree of level k.
          k: the level.
          at: `[n]` mask of the histories with that delay; see `_OffTreeSetting.delay`.

        Returns:
          The forest, in the game in which the k-th departure is possible only with that delay; and the
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

    def _subgames(
        self, forest: Forest, policy: Policy, gadgets: tuple[Gadget, ...], held: IntArray | None = None
    ) -> Subgames:
        """Gadget games in which each gadget is combined with its own lanes only."""
        lanes = dataclasses.replace(self.lanes, blueprint=np.arange(len(self.lanes)))
        return Subgames(forest, self.setting.player, policy, gadgets, combinations=lanes, held=held)

    def _solve_forest(
        self, forest: Forest, policy: Policy, before: Policy, folder: str, held: IntArray | None = None
    ) -> SubgameSolutions:
        """Solves subgames, with the policies of the previous level as blueprints.

        Args:
          forest: the subgames.
          policy: policies of the forest's tree, one per lane.
          before: the strategies of the previous level, in that level's tree.
          folder: folder of checkpoints.
          held: the tree's infosets at which the defender is locked to the policy.
        """
        with self.watch.phase("build"):
            gadgets = tuple(self._with_numbers(forest, policy, before))
        solver = self.solver
        if solver.checkpoint_path is not None:
            solver = dataclasses.replace(solver, checkpoint=solver.checkpoint_path / folder)
        solutions = solve_subgames(self._subgames(forest, policy, gadgets, held), solver, self.watch)
        for lane, why in solutions.failures.items():
            self.failures.setdefault(lane, why)
        return solutions

    def _with_numbers(self, forest: Forest, policy: Policy, before: Policy) -> Iterator[Gadget]:
        """The gadgets, with promised values and their uncertainty.

        `safe` promises the opponent's best-response value exactly. Other methods promise its values of the
        previous level, or in an abstraction that the gadget names where that is ever reached. A spread of
        `best-response` is the difference between the promised value and the opponent's value with all of its
        actions against the translated strategy of the previous level.
        """
        player, lanes = self.setting.player, self.lanes.blueprint
        if self.method == "safe":
            yield from self.gadgets
            return
        mass = root_mass(forest, player, policy)
        usual = scale_to_reach(look_up(before, forest, player), mass)
        responses: FloatArray | None = None
        for gadget in self.gadgets:
            if gadget.alternative is None:
                yield _UnsafeAnyway()
                continue
            alternative, values = gadget.alternative, usual
            if isinstance(alternative, AbstractValues) and alternative.policy is not None:
                abstraction = policy_of(alternative, int(lanes.max()) + 1)
                abstract, lane = look_up(abstraction, forest, player), lanes * (abstraction.num_lanes > 1)
                values = scale_to_reach(
                    RootValues(abstract.value[:, lane], abstract.mass[:, lane]), mass, usual
                )
            promised: dict[str, Any] = {"alternative": PrecomputedValues(values, ABSTRACT)}
            if _spread_of(gadget) == TO_BEST_RESPONSE:
                if responses is None:
                    translated = translate(before, self.setting.with_menu(), self.rule)
                    responses = scale_to_reach(look_up(translated, forest, player), mass)
                promised["spread"] = PrecomputedValues(np.abs(values - responses), TO_BEST_RESPONSE)
            assert isinstance(gadget, Perturbed)
            yield dataclasses.replace(gadget, **promised)

    def _swept(self, after: Forest) -> FloatArray:
        """`[lanes]` values guaranteed by the strategies, given their values after off-menu actions."""
        at_once = plan_ranges(after, self.solver.placement, self.solver.memory_limit)
        needs_trunk = [OptimalContinuation(NoPrior())]
        ranges = prepare(after, self.setting.player, self.policy, needs_trunk, at_once=at_once).ranges
        return -ranges.above.best_values(ranges.cbv)[2][0]


def _measure(
    setting: _OffTreeSetting,
    policy: Policy,
    certificate: FloatArray,
    rule: str | TranslationRule | None,
    value: tuple[float, float] | None,
    solver: Solver,
) -> dict[str, Any]:
    """Exploitabilities and the values of the games, as fields of `OffTree`.

    Args:
      setting: the abstraction and the answering player.
      policy: the strategies.
      certificate: `[lanes]` values guaranteed by the strategies.
      rule: translation rule for unanswered actions; None if all are answered.
      value: bracket of the whole game's value, if known.
      solver: settings for computing values.
    """
    player, whole = setting.player, setting.fitting(setting.whole)

    def value_of(tree: HistoryTree | None) -> tuple[float, float] | None:
        if tree is None:
            return None
        return find_value(tree, solver.rule is None, solver.progress, time_limit=solver.time_limit)

    guaranteed = np.full_like(certificate, np.nan)
    if whole is not None:
        check_value(value, whole)
        if rule is None:
            guaranteed = _guaranteed(lift(policy, whole), player)
        elif hasattr(setting.game.game, "bet_fraction"):
            guaranteed = _guaranteed(lift(policy, whole, elsewhere=translate(policy, whole, rule)), player)
    elif rule is None:
        guaranteed = certificate
    menu_value = value_of(setting.fitting(setting.with_menu))
    bracket = value_of(whole) if value is None else value
    middle = np.nan if bracket is None else Bracket(*bracket).for_player(player).middle
    return {"exploitability": middle - guaranteed, "game_value": bracket, "menu_value": menu_value}


def _guaranteed(policy: Policy, player: int) -> FloatArray:
    """`[lanes]` value of a player's policies against a best response."""
    return -evaluate_policy(policy).best_response_values[player]


def _spread_of(gadget: Gadget) -> Any:
    return getattr(gadget, "spread", None)


def _default_gadgets(method: str) -> tuple[Gadget, ...]:
    resolving = tuple(Resolving(prior) for prior in (NoPrior(), UniformPrior(), BlueprintPrior()))
    return (Unsafe(), *resolving) if method == "expensive" else resolving


def check_gadget(gadget: Gadget, method: str, num_lanes: int) -> None:
    """Raises ValueError if a gadget cannot be used with a method and `num_lanes` blueprints."""
    provided = SOLVERS | {Capability.TRUNK}
    if method == "expensive":
        provided |= {Capability.RANGE}
    if method != "safe":
        provided |= {Capability.ABSTRACTION}
    check_capabilities(
        [gadget],
        provided,
        f"method={method!r} after an off-tree action",
        "resolving, max-margin or a reach version of them with NoPrior(), UniformPrior() or "
        "BlueprintPrior(), or method='expensive'",
    )
    alternative = gadget.alternative
    if isinstance(alternative, AbstractValues):
        if alternative.policy is not None:
            policy_of(alternative, num_lanes)
    elif not isinstance(alternative, BestResponseValues | None):
        raise ValueError(
            f"gadgets: {gadget.name} with alternative values {alternative.name!r}: method={method!r} finds "
            "its own; leave them out" + ("" if method == "safe" else ", or give AbstractValues")
        )
