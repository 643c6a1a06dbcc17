"""Nested search in hand form: a player searches again at each own decision, in the public subgame.

The results equal those of `nested_search` to the end of the game where both forms fit. A search is a function
of the public history, so that it is run at every public node where the player decides, one level at a time.
The result is a policy of the whole game in hand form, whose exploitability is exact.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from jaxgadget.core.driver import Report
from jaxgadget.core.regret import Rule
from jaxgadget.core.solver import Solver, choose_solver
from jaxgadget.gadgets.capabilities import check_capabilities
from jaxgadget.gadgets.gadget import Gadget, describe
from jaxgadget.gadgets.root_gadgets import Unsafe
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.games.hands import HandsGame
from jaxgadget.hands.evaluate import evaluate_hands, hands_value
from jaxgadget.hands.policy import HandsPolicy, check_hands_policy
from jaxgadget.hands.ranges import HandsBodies, build_bodies, count_above, find_hands_ranges
from jaxgadget.policy.evaluate import check_bracket
from jaxgadget.policy.solve import check_fits
from jaxgadget.subgames.lookahead import SEARCH, name_lane, solve_lookahead
from jaxgadget.subgames.nested import ITERATIONS, lane_row
from jaxgadget.subgames.refine import list_gadgets
from jaxgadget.util.arguments import check_player, check_whole_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import Bracket, replaced
from jaxgadget.util.progress import progress_bar

SEARCH_ARRAYS = 10.0
"""Memory of policies, in float64 arrays over all sequences: the blueprint, the assembled policy and the plan,
each with a copy during updates, and the strategies of a level."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NestedHands:
    """Blueprints with one player's decisions replaced by nested search; see `Nested`.

    Lanes run over gadgets, then blueprints.

    Attributes:
      player: the searching player.
      blueprint: the blueprints.
      gadgets: gadgets of all searches but the first, unless the opponent acted before it.
      first: the player's first decision to search at, counted from 0.
      policy: the assembled policies, one per lane.
      blueprint_exploitability: `[lanes]` the game's value minus the value that the blueprint guarantees.
      nested_exploitability: `[lanes]` the same for the assembled policy.
      gap_max: `[lanes]` the largest NashConv of a search's game.
      searches: `[lanes]` number of subgames searched.
      game_value: bracket of player 0's value of the game.
      algorithm: the algorithm's name.
      iterations: `[lanes]` maximum over the searches.
      seconds: `[lanes]` a lane's share of the time.
      failures: lanes in which a search overflowed, with the subgame; their exploitability and gap are NaN.
    """

    player: int
    blueprint: HandsPolicy
    gadgets: tuple[Gadget, ...]
    first: int
    policy: HandsPolicy
    blueprint_exploitability: FloatArray
    nested_exploitability: FloatArray
    gap_max: FloatArray
    searches: npt.NDArray[np.int64]
    game_value: tuple[float, float]
    algorithm: str
    iterations: npt.NDArray[np.int64]
    seconds: FloatArray
    failures: Mapping[int, str]

    def __repr__(self) -> str:
        return f"<NestedHands of {self.policy.game.name}: {self.policy.num_lanes} lane(s)>"

    @property
    def table(self) -> pd.DataFrame:
        """A row for every gadget and blueprint, in the columns of `Nested.table`."""
        lanes = Lanes.product(gadgets=len(self.gadgets), blueprints=self.blueprint.num_lanes)
        return pd.DataFrame(
            [
                lane_row(self, lane, self.gadgets[gadget], self.blueprint.labels[blueprint])
                for lane, (gadget, blueprint) in enumerate(zip(lanes.gadget, lanes.blueprint, strict=True))
            ]
        )


def nested_hands(
    blueprint: HandsPolicy,
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    player: int = 0,
    first: int = 0,
    value: tuple[float, float] | None = None,
    solver: Solver | None = None,
    iterations: int | None = None,
    algorithm: str | Rule | None = None,
) -> NestedHands:
    """Searches at every public decision of a player to the end of the game, and evaluates the policy.

    Where both forms fit, this is `nested_search` without values: the same searches, gaps and policies. All
    subgames of a level and all lanes are searched at once.

    Args:
      blueprint: profiles of a whole game in hand form, one per lane; infosets not reached by search are
        unchanged.
      gadgets: see `nested_search`; only gadgets that depend on their own roots alone.
      player: the searching player, 0 or 1.
      first: the player's first decision to search at, counted from 0; before it the blueprint is played.
      value: bracket of player 0's value of the game, if known; else `hands_value`.
      solver: settings of every search; by default 3000 iterations of CFR+ in float32. Takes no `target_gap`,
        `check_every`, `checkpoint` or `time_limit`.
      iterations: short for `Solver(iterations=…)`.
      algorithm: short for `Solver(algorithm=…)`.

    Raises:
      ValueError: for bad arguments, gadgets that look at the trunk, a game without deal probabilities, or a
        level that does not fit in memory.
    """
    check_hands_policy(blueprint)
    check_player(player)
    without = ("target_gap", "check_every", "checkpoint", "time_limit")
    default = Solver(iterations=ITERATIONS)
    solver = choose_solver(
        solver, default, iterations=iterations, algorithm=algorithm, without=without
    ).iterative()
    asked = list_gadgets(gadgets, False, (player,))
    check_capabilities(asked, SEARCH, "nested_hands", "Unsafe(), Resolving() or MaxMargin()")
    begin = check_whole_number("first", first, 0)
    bracket = None if value is None else check_bracket(value)
    if not blueprint.form.is_whole:
        raise ValueError(f"blueprint of {blueprint.form!r}: expected policies of the whole game")
    check_fits(
        blueprint.game,
        solver.precision,
        solver.memory_limit,
        lanes=len(asked) * blueprint.num_lanes,
        policies=SEARCH_ARRAYS,
    )
    levels = decisions(blueprint.game, player)[begin:]
    if begin and not levels:
        raise ValueError(
            f"first={begin}: player {player} of {blueprint.game.name} decides less often; expected at most "
            f"{max(len(decisions(blueprint.game, player)) - 1, 0)}"
        )
    line = _HandsLine(blueprint, asked, player, solver)
    with progress_bar("nested search", len(levels) * solver.num_iterations, solver.progress) as report:
        for number, nodes in enumerate(levels):
            before = number * solver.num_iterations
            line.search_level(nodes, number == 0, lambda done, before=before: report(before + done))
    labels = line.lanes.labels(blueprint.labels, [describe(gadget) for gadget in asked])
    pair = replaced(line.blueprint.probabilities, player, line.assembled.probabilities[player])
    policy = HandsPolicy(blueprint.form, pair, labels)
    if bracket is None:
        bracket = hands_value(blueprint.form, progress=solver.progress)
    middle = Bracket(*bracket).for_player(player).middle
    after = middle + evaluate_hands(policy).best_response_values[player]
    for measured in (after, line.gap_max):
        measured[list(line.failures)] = np.nan
    return NestedHands(
        player=player,
        blueprint=blueprint,
        gadgets=asked,
        first=begin,
        policy=policy,
        blueprint_exploitability=middle
        + evaluate_hands(blueprint).best_response_values[player][line.lanes.blueprint],
        nested_exploitability=after,
        gap_max=line.gap_max,
        searches=line.searches,
        game_value=bracket,
        algorithm=solver.name,
        iterations=line.iterations,
        seconds=np.full(policy.num_lanes, line.seconds / policy.num_lanes),
        failures=line.failures,
    )


def decisions(game: HandsGame, player: int) -> list[IntArray]:
    """The public nodes of a player's first, second, … decisions on every line of play."""
    acts = game.nodes.actor == ACTOR_BIT[player]
    number = count_above(game, acts)
    return [np.flatnonzero(acts & (number == k)) for k in range(1, int(number.max(initial=0)) + 1)]


class _HandsLine:
    """Nested search, all gadgets and blueprints side by side: L lanes, `lane = gadget × B + blueprint`.

    Attributes:
      blueprint: L lanes.
      assembled: the blueprint with the decisions that were searched so far, and what the opponent was found
        to do between them.
      plan: results of the searches so far, down to the end of the game.
      gap_max: `[L]` the largest NashConv of a search's game.
      searches: `[L]` subgames that were searched.
      iterations: `[L]` the most of a search.
      seconds: spent.
      failures: lanes in which a search overflowed, and where; there the blueprint stayed.
    """

    def __init__(self, blueprint: HandsPolicy, gadgets: Sequence[Gadget], player: int, solver: Solver):
        """Stores the settings of the searches; see `nested_hands`."""
        self.lanes = Lanes.product(gadgets=len(gadgets), blueprints=blueprint.num_lanes)
        self.player, self.solver = player, solver
        self.gadgets = [gadgets[number] for number in self.lanes.gadget.tolist()]
        self.blueprint = blueprint.lanes(self.lanes.blueprint.tolist())
        self.assembled = self.plan = self.blueprint
        self.gap_max = np.zeros(len(self.gadgets))
        self.searches = np.zeros(len(self.gadgets), np.int64)
        self.iterations = np.zeros(len(self.gadgets), np.int64)
        self.seconds = 0.0
        self.failures: dict[int, str] = {}
        self._names = [
            name_lane(gadget, label)
            for gadget, label in zip(self.gadgets, self.blueprint.labels, strict=True)
        ]

    def search_level(self, nodes: IntArray, is_first: bool, report: Report) -> None:
        """Searches at all public nodes of a level, the first one unsafe where the opponent has not acted."""
        begin, tree = time.perf_counter(), self.blueprint.game.nodes
        if is_first:
            acts = tree.actor == ACTOR_BIT[1 - self.player]
            acted = count_above(self.blueprint.game, acts)[nodes] > 0
            unsafe: list[Gadget] = [Unsafe()] * len(self.gadgets)
            searches = [(nodes[~acted], unsafe), (nodes[acted], self.gadgets)]
        else:
            searches = [(nodes, self.gadgets)]
        for part, gadgets in searches:
            if len(part):
                self._search(part, gadgets, report)
        self.seconds += time.perf_counter() - begin

    def _search(self, nodes: IntArray, gadgets: Sequence[Gadget], report: Report) -> None:
        """Searches below selected public nodes, and adopts the strategies found."""
        bodies = build_bodies(self.blueprint.game, nodes, self.player)
        for gadget in gadgets:
            gadget.check(int(bodies.named_roots.max(initial=-1)) + 1, self.blueprint.num_lanes)
        ranges = find_hands_ranges(bodies, self.assembled, self.plan)
        rows = bodies.rows(self.plan, 0), bodies.rows(self.plan, 1)
        searched = solve_lookahead(
            bodies,
            ranges,
            rows,
            gadgets,
            Lanes.product(gadgets=len(gadgets)),
            self.solver,
            report,
            names=self._names,
        )
        self.failures = {**searched.failures, **self.failures}
        gap = np.where(searched.has_decision, searched.gap, 0)
        self.gap_max = np.maximum(self.gap_max, gap.max(axis=0, initial=0))
        self.searches += searched.has_decision.sum(axis=0)
        self.iterations = np.maximum(self.iterations, searched.iterations)
        self.plan = self.plan.with_bodies(bodies.form, searched.strategy)
        self._assemble(bodies, searched.has_decision)

    def _assemble(self, bodies: HandsBodies, has_decision: BoolArray) -> None:
        """Adopts the player's strategy at the roots, and the opponent's strategy below them."""
        form, player, other = bodies.form, self.player, 1 - self.player
        tree = form.game.nodes
        rows = [rows.copy() for rows in self.assembled.probabilities]
        taken = (self.assembled.reach(player, form.roots) > 0) & has_decision[:, None, :]
        row = np.flatnonzero(np.isin(tree.parent[form.children[player]], form.roots))
        subgame = form.root_of[tree.parent[form.children[player][row]]]
        plan = self.plan.probabilities[player][row]
        rows[player][row] = np.where(taken[subgame], plan, rows[player][row])
        inside = form.rows[other]
        rows[other][inside] = self.plan.probabilities[other][inside]
        self.assembled = HandsPolicy(self.assembled.form, (rows[0], rows[1]), self.assembled.labels)
