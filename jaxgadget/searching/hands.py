"""Nested search in games by hands: a player searches again at each own decision, in the public subgame.

The same as `nested_search` to the end of the game, and equal to it where both forms fit: a search is a
function of the public history, so it is run at every public node where the player decides, level by level, a
level at once. What comes out is a policy of the whole game by hands, whose exploitability is exact.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from jax.typing import DTypeLike

from jaxgadget.gadgets.gadget import Gadget, describe
from jaxgadget.gadgets.two_level import Unsafe
from jaxgadget.games.game import ACTOR_BIT
from jaxgadget.games.hands import HandsGame
from jaxgadget.hands.evaluate import evaluate_hands, hands_value
from jaxgadget.hands.policy import HandsPolicy, check_hands_policy
from jaxgadget.hands.ranges import HandsBodies, build_bodies, count_above, find_hands_ranges
from jaxgadget.hands.solve import check_fits
from jaxgadget.kernels.regret import Rule
from jaxgadget.policy.evaluate import check_bracket
from jaxgadget.refining.refine import list_gadgets
from jaxgadget.searching.nested import ITERATIONS, lane_row, no_auto
from jaxgadget.searching.solving import check_needs, name_lane, solve_lookahead
from jaxgadget.solving.driver import Report
from jaxgadget.solving.options import SolveOptions, make_options
from jaxgadget.util.arguments import check_player, check_whole_number
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.progress import progress_bar

SEARCH_ARRAYS = 10.0
"""What policies take, in arrays over all sequences in float64: the blueprint, what is assembled and what is
planned, each with a copy while it changes, and the strategies of a level."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NestedHands:
    """Blueprints with one player's decisions replaced by nested search; see `Nested`.

    Lanes run over gadgets, then blueprints.

    Attributes:
      player: who searches.
      blueprint: the blueprints.
      gadgets: at every search but the first, and there too where the opponent has acted before.
      first: the player's decision from which on it searches, counted from 0.
      policy: the assembled policies, a lane each.
      blueprint_exploitability: `[lanes]` the game's value less what the blueprint guarantees.
      nested_exploitability: `[lanes]` the same for the assembled policy.
      gap_max: `[lanes]` the largest NashConv of a search's game.
      searches: `[lanes]` subgames that were searched.
      game_value: bracket of player 0's value of the game.
      algorithm: the rule's name.
      iterations: `[lanes]` the most of a search.
      seconds: `[lanes]` a lane's share of the time.
      failures: lanes in which a search overflowed, and where; their exploitability and gap are NaN.
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
        count = self.blueprint.num_lanes
        return pd.DataFrame(
            [
                lane_row(self, lane, self.gadgets[lane // count], self.blueprint.labels[lane % count])
                for lane in range(self.policy.num_lanes)
            ]
        )


def nested_hands(
    blueprint: HandsPolicy,
    gadgets: Gadget | Sequence[Gadget] | None = None,
    *,
    player: int = 0,
    first: int = 0,
    algorithm: str | Rule = "cfr+",
    iterations: int = ITERATIONS,
    dtype: DTypeLike = "float32",
    value: tuple[float, float] | None = None,
    memory_limit: int | None = None,
    progress: bool | None = None,
) -> NestedHands:
    """Searches at every public decision of a player to the end of the game, and evaluates what comes out.

    Where both forms fit, this is `nested_search` without values: the same searches, gaps and policies. All
    subgames of a level and all lanes are searched at once.

    Args:
      blueprint: profiles of a whole game by hands, a lane each; what search does not reach stays theirs.
      gadgets: see `nested_search`; those that look at their own roots alone.
      player: who searches, 0 or 1.
      first: the player's decision from which on it searches, counted from 0; before it plays the blueprint.
      algorithm: a regret-matching rule, see `solve`.
      iterations: of every search.
      dtype: of the solves; certificates are in float64.
      value: bracket of player 0's value of the game, if known; else `hands_value`.
      memory_limit: bytes that a solve may take.
      progress: a bar, or a line a minute in a log; by default a bar, on a terminal or in a notebook.

    Raises:
      ValueError: for bad arguments, gadgets that look at the trunk, a game that does not say how likely its
        deals are, or a level that does not fit the memory.
    """
    check_hands_policy(blueprint)
    check_player(player)
    options = make_options(
        algorithm=algorithm, iterations=iterations, dtype=dtype, memory_limit=memory_limit, exact=False
    )
    asked = no_auto(list_gadgets(gadgets, False, (player,)))
    check_needs(asked)
    begin = check_whole_number("first", first, 0)
    bracket = None if value is None else check_bracket(value)
    if not blueprint.form.is_whole:
        raise ValueError(f"blueprint of {blueprint.form!r}: expected policies of the whole game")
    check_fits(
        blueprint.game,
        options.dtype,
        memory_limit,
        lanes=len(asked) * blueprint.num_lanes,
        policies=SEARCH_ARRAYS,
    )
    levels = decisions(blueprint.game, player)[begin:]
    if begin and not levels:
        raise ValueError(
            f"first={begin}: player {player} of {blueprint.game.name} decides less often; expected at most "
            f"{max(len(decisions(blueprint.game, player)) - 1, 0)}"
        )
    line = _HandsLine(blueprint, asked, player, options)
    with progress_bar("nested search", len(levels) * options.iterations, progress) as report:
        for number, nodes in enumerate(levels):
            before = number * options.iterations
            line.search_level(nodes, number == 0, lambda done, before=before: report(before + done))
    labels = tuple(f"{label} | {describe(gadget)}" for gadget in asked for label in blueprint.labels)
    kept, rows = line.blueprint.probabilities[1 - player], line.assembled.probabilities[player]
    policy = HandsPolicy(blueprint.form, (rows, kept) if player == 0 else (kept, rows), labels)
    if bracket is None:
        bracket = hands_value(blueprint.form, progress=progress)
    middle = sum(bracket) / 2 * (1 if player == 0 else -1)
    after = middle + evaluate_hands(policy).best_response_values[player]
    for measured in (after, line.gap_max):
        measured[list(line.failures)] = np.nan
    return NestedHands(
        player=player,
        blueprint=blueprint,
        gadgets=asked,
        first=begin,
        policy=policy,
        blueprint_exploitability=np.tile(
            middle + evaluate_hands(blueprint).best_response_values[player], len(asked)
        ),
        nested_exploitability=after,
        gap_max=line.gap_max,
        searches=line.searches,
        game_value=bracket,
        algorithm=options.algorithm,
        iterations=line.iterations,
        seconds=np.full(policy.num_lanes, line.seconds / policy.num_lanes),
        failures=line.failures,
    )


def decisions(game: HandsGame, player: int) -> list[IntArray]:
    """The public nodes of a player's first, second, … decisions on every line of play."""
    acts = game.tree.actor == ACTOR_BIT[player]
    number = count_above(game, acts)
    return [np.flatnonzero(acts & (number == k)) for k in range(1, int(number.max(initial=0)) + 1)]


class _HandsLine:
    """Nested search, all gadgets and blueprints side by side: L lanes, `lane = gadget × B + blueprint`.

    Attributes:
      blueprint: L lanes.
      assembled: the blueprint with the decisions that were searched so far, and what the opponent was found
        to do between them.
      plan: what the searches so far found, down to the end of the game.
      gap_max: `[L]` the largest NashConv of a search's game.
      searches: `[L]` subgames that were searched.
      iterations: `[L]` the most of a search.
      seconds: spent.
      failures: lanes in which a search overflowed, and where; there the blueprint stayed.
    """

    def __init__(self, blueprint: HandsPolicy, gadgets: Sequence[Gadget], player: int, options: SolveOptions):
        """Takes what every search needs; see `nested_hands`."""
        count = blueprint.num_lanes
        self.player, self.options = player, options
        self.gadgets = [gadget for gadget in gadgets for _ in range(count)]
        self.blueprint = blueprint.lanes(list(range(count)) * len(gadgets))
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
        begin, tree = time.perf_counter(), self.blueprint.game.tree
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
        """Searches below some public nodes, and takes over what is played there."""
        bodies = build_bodies(self.blueprint.game, nodes, self.player)
        for gadget in gadgets:
            gadget.check(int(bodies.named_roots.max(initial=-1)) + 1, self.blueprint.num_lanes)
        ranges = find_hands_ranges(bodies, self.assembled, self.plan)
        rows = bodies.rows(self.plan, 0), bodies.rows(self.plan, 1)
        searched = solve_lookahead(bodies, ranges, rows, gadgets, self.options, report, names=self._names)
        self.failures = {**searched.failures, **self.failures}
        gap = np.where(searched.has_decision, searched.gap, 0)
        self.gap_max = np.maximum(self.gap_max, gap.max(axis=0, initial=0))
        self.searches += searched.has_decision.sum(axis=0)
        self.iterations = np.maximum(self.iterations, searched.iterations)
        self.plan = self.plan.with_bodies(bodies.form, searched.strategy)
        self._assemble(bodies, searched.has_decision)

    def _assemble(self, bodies: HandsBodies, has_decision: BoolArray) -> None:
        """Takes over what is played at the roots, and what the opponent was found to do below them."""
        form, player, other = bodies.form, self.player, 1 - self.player
        tree = form.game.tree
        rows = [rows.copy() for rows in self.assembled.probabilities]
        taken = (self.assembled.reach(player, form.roots) > 0) & has_decision[:, None, :]
        row = np.flatnonzero(np.isin(tree.parent[form.children[player]], form.roots))
        subgame = form.root_of[tree.parent[form.children[player][row]]]
        plan = self.plan.probabilities[player][row]
        rows[player][row] = np.where(taken[subgame], plan, rows[player][row])
        inside = form.rows[other]
        rows[other][inside] = self.plan.probabilities[other][inside]
        self.assembled = HandsPolicy(self.assembled.form, (rows[0], rows[1]), self.assembled.labels)
