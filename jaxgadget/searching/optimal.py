"""Nested search with optimal values below the limit: whatever lies below is solved for the ranges that arise.

Every search goes on to the end of the game. An opponent who follows a model is locked to it down to the limit
and plays on rationally below, as values of an equilibrium there would have it (Milec, Kubíček and Lisý 2024:
continual depth-limited best and restricted Nash responses). A player keeps what it found between the roots of
a search and those of the next one. What it found further down is its blueprint for the next search, so that
alternative values are best responses to a strategy that exists.

How the subgames of a level go together is the gadget's matter:

- the optimal continuation solves a level *jointly*: one program, in which the free opponent comes from the
  game's root. What comes out is as safe as a restricted Nash response of the whole game;
- the full gadget solves every subgame *by itself*, after the searches on the way to it alone, as a player in
  a match must. Its siblings are worth what these searches took them to be. Assembled that is not safe;
- all others look at the values at their own roots alone, so that it does not matter.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.real_way import Full, OptimalContinuation
from jaxgadget.gadgets.two_level import Unsafe
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import best_response, evaluate_policy
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.prepare import prepare
from jaxgadget.searching.mixing import opponent_mixtures
from jaxgadget.searching.schedule import Schedule
from jaxgadget.searching.solving import Profile, Searched, name_lane, solve_lookahead
from jaxgadget.solving.options import SolveOptions
from jaxgadget.tree.cut import Cut, leaf_above
from jaxgadget.tree.forest import build_forest
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray


@dataclasses.dataclass(frozen=True)
class OptimalValues:
    """Values at a limit that are solved with the search: both play on rationally below it.

    They depend on the ranges that arise, and need no network and no portfolio; a search takes as long as
    solving all that lies below its roots. An opponent who follows a model beyond the limit, too
    (`Opponent.beyond`), is locked to it to the end.
    """

    name: ClassVar[str] = "optimal"


@dataclasses.dataclass(frozen=True, eq=False)
class _SearchState:
    """What a player knows before a search; L lanes.

    Attributes:
      policy: of both players for the whole game: what was found so far, the blueprint elsewhere.
      followed: `[I]` at which of the opponent's infosets a model was followed in what was found.
    """

    policy: Policy
    followed: BoolArray


class OptimalLine:
    """Nested searches of gadgets of one kind, against all opponents and after all blueprints: L lanes.

    `lane = (gadget * num_opponents + opponent) * num_blueprints + blueprint`.

    Attributes:
      assembled: the blueprints with what was searched so far.
      gap_max: `[L]` the largest NashConv of a game.
      gap_sum: `[L]` of all games together.
      searches: `[L]` subgames that were searched.
      iterations: `[L]` the most of a search; of the simplex method if these are linear programs.
      objectives: `[levels, L]` of what was found at each level: p × what it earns where the model is followed
        down to the limits and rational below, + (1−p) × what it guarantees. Where subgames are searched by
        themselves the least over all of them; NaN at levels that nobody reaches.
      failures: lanes in which a search came to nothing, and why; there the blueprint stayed.
      seconds: that all took.
    """

    def __init__(
        self,
        profiles: Policy,
        gadgets: Sequence[Gadget],
        opponents: Opponents,
        schedule: Schedule,
        options: SolveOptions,
    ):
        """Takes what every search needs.

        Args:
          profiles: blueprints, B lanes.
          gadgets: of one `entry_name`.
          opponents: M of them.
          schedule: when to search.
          options: how to solve.
        """
        self.schedule, self.options, self.opponents = schedule, options, opponents
        self.tree, self.player = schedule.tree, schedule.player
        grid = np.indices((len(gadgets), len(opponents), profiles.num_lanes)).reshape(3, -1)
        self.opponent, blueprint = grid[1], grid[2]
        self.gadgets = tuple(gadgets[number] for number in grid[0].tolist())
        first, second = (rows[:, blueprint] for rows in profiles.probabilities)
        labels = tuple(profiles.labels[number] for number in blueprint.tolist())
        self.assembled = Policy(self.tree, (first, second), labels)
        self._names = [
            name_lane(gadget, label, opponents.describe(number))
            for gadget, label, number in zip(self.gadgets, labels, self.opponent.tolist(), strict=True)
        ]
        lanes = len(self.gadgets)
        self.gap_max, self.gap_sum = np.zeros(lanes), np.zeros(lanes)
        self.searches, self.iterations = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
        self.objectives = np.full((len(schedule.levels), lanes), np.nan)
        self.failures: dict[int, str] = {}
        self.seconds = 0.0

    @property
    def is_joint(self) -> bool:
        """Whether a level is one program."""
        return self.gadgets[0].entry_name == OptimalContinuation.entry_name

    @property
    def is_apart(self) -> bool:
        """Whether a search sees nothing but those on the way to it."""
        return self.gadgets[0].entry_name == Full.entry_name

    def run(self, report: Callable[[int], None]) -> None:
        """Searches everywhere.

        Args:
          report: is told the number of levels × iterations done, of those that are searched at once.
        """
        begin = time.perf_counter()
        other = self.tree.infosets[1 - self.player]
        state = _SearchState(self.assembled, np.ones(len(other), np.bool_))
        if self.schedule.levels:
            self._descend(0, np.arange(self.schedule.levels[0].num_subgames), state, report)
        self.seconds = time.perf_counter() - begin

    def _descend(
        self, number: int, subgames: IntArray, state: _SearchState, report: Callable[[int], None]
    ) -> None:
        """Searches some subgames of a level, then what lies below them."""
        level, rows = self.schedule.levels[number], self.schedule.kept(number)
        found = state.policy
        for part in self._parts(number, subgames):
            found = self._search(number, level.cut(self.tree, part), found, state.policy)
        report((number + 1) * self.options.iterations)
        branches = [subgames[k : k + 1] for k in range(len(subgames))] if self.is_apart else [subgames]
        for branch in branches:
            where = level.cut(self.tree, branch)
            below = self._state_below(where, state, found)
            objective = self._objective(below)
            self.objectives[number] = np.fmin(self.objectives[number], objective)
            history = self.tree.infosets[self.player].history
            kept = np.nonzero(rows & (where.root[history] >= 0))[0]
            self.assembled = self.assembled.splice(self.player, kept, below.policy)
            if number + 1 < len(self.schedule.levels):
                following = self._below(number + 1, where)
                if len(following):
                    self._descend(number + 1, following, below, report)

    def _parts(self, number: int, subgames: IntArray) -> Iterator[IntArray]:
        """Subgames that are searched at once: the first ones by themselves where the opponent has not acted.

        There its range is 1, and an unsafe search is exact; entries that are the opponent's real way need not
        be told.
        """
        if number > 0 or self.is_joint or self.is_apart:
            yield subgames
            return
        acted = self._acted(self.schedule.levels[number].cut(self.tree, subgames))
        yield from (part for part in (subgames[~acted], subgames[acted]) if len(part))

    def _acted(self, where: Cut) -> BoolArray:
        """`[S]` whether the opponent has acted before a subgame."""
        acted = np.zeros(where.num_subgames, np.bool_)
        np.logical_or.at(acted, where.subgame, self.tree.sequence[1 - self.player, where.roots] > 0)
        return acted

    def _below(self, number: int, where: Cut) -> IntArray:
        """The subgames of the next level that lie below some of this one's."""
        level = self.schedule.levels[number]
        inside = where.root[level.roots] >= 0
        subgames = np.unique(level.subgame[inside])
        across = subgames[np.isin(subgames, level.subgame[~inside])]
        if len(across) and self.is_apart:
            root = int(level.roots[level.subgame == across[0]][0])
            raise ValueError(
                f"{self.tree.game.name}: the subgame at {self.tree.moves(root)} lies below two subgames of "
                "the search before, which the full gadget searches by themselves; expected "
                "OptimalContinuation(), or another step"
            )
        return subgames

    def _search(self, number: int, where: Cut, found: Policy, before: Policy) -> Policy:
        """Searches subgames of one level at once.

        Args:
          number: of the level.
          where: the cut at their roots.
          found: what other searches of this level found.
          before: what was known before all of them.

        Returns:
          `found`, with both players' strategies below the roots.
        """
        player, leaves = self.player, self.schedule.leaves(where)
        adapt = self.opponents.adapt
        second = None if adapt or len(leaves) == 0 else (1 - player, leaves)
        forest = build_forest(self.tree, where, second=second)
        gadgets = self.gadgets
        if number == 0 and not self.is_joint and not self.is_apart and not self._acted(where).any():
            gadgets = (Unsafe(),) * len(gadgets)
        platform = self.options.placement.platform
        prepared = prepare(forest, player, before, gadgets, platform=platform)
        searched = solve_lookahead(
            prepared.structure,
            prepared.ranges,
            Profile.of_blueprint(forest, before).bodies(forest),
            gadgets,
            self.options,
            lambda done: None,
            mixtures=None if adapt else opponent_mixtures(forest, player, self.opponents),
            opponent=None if adapt else self.opponent,
            names=self._names,
        )
        self.failures = {**searched.failures, **self.failures}
        self._count(searched)
        plan = Profile.of_blueprint(forest, before).with_bodies(forest, searched.strategy).policy
        return _taken(found, plan, where, player, before.reach(player) > 0)

    def _count(self, searched: Searched) -> None:
        gap = searched.gap if self.is_joint else np.where(searched.has_decision, searched.gap, 0)
        self.gap_max = np.maximum(self.gap_max, gap.max(axis=0, initial=0))
        self.gap_sum = self.gap_sum + gap.sum(axis=0)
        self.searches += searched.has_decision.sum(axis=0)
        self.iterations = np.maximum(self.iterations, searched.iterations)

    def _state_below(self, where: Cut, before: _SearchState, found: Policy) -> _SearchState:
        """What is known below some of the subgames that were searched."""
        tree, ends = self.tree, leaf_above(where, self.schedule.leaves(where))
        policy = before.policy
        for player in (0, 1):
            inside = np.nonzero(where.root[tree.infosets[player].history] >= 0)[0]
            policy = policy.splice(player, inside, found)
        history = tree.infosets[1 - self.player].history
        inside = where.root[history] >= 0
        return _SearchState(policy, np.where(inside, ends[history] < 0, before.followed))

    def _objective(self, state: _SearchState) -> FloatArray:
        """`[L]` what was found is worth against the mixtures; see `OptimalLine.objectives`."""
        player, other = self.player, 1 - self.player
        p = self.opponents.p[self.opponent]
        answer = best_response(state.policy, other)
        earned = np.zeros_like(p)
        if not self.opponents.adapt:
            models = self.opponents.policy.probabilities[other][:, self.opponent]
            beyond = np.array([beyond == "model" for beyond in self.opponents.beyond])[self.opponent]
            followed = state.followed[self.tree.infosets[other].infoset[1:]]
            rows = np.where(followed[:, None] | beyond, models, answer.policy.probabilities[other])
            ours = state.policy.probabilities[player]
            pair = (ours, rows) if player == 0 else (rows, ours)
            value = evaluate_policy(Policy(self.tree, pair, state.policy.labels)).value
            earned = value if player == 0 else -value
        return p * earned - (1 - p) * answer.value


def _taken(found: Policy, plan: Policy, where: Cut, player: int, reached: BoolArray) -> Policy:
    """A policy with another one's decisions below a cut, the player's only where its own play leads.

    Args:
      found: the policy.
      plan: the other one.
      where: the cut.
      player: who searches.
      reached: `[sequences, L]` which of its sequences the player plays.
    """
    pair = list[FloatArray]()
    for number in (0, 1):
        infosets = where.tree.infosets[number]
        root = where.root[infosets.history]
        taken = (root >= 0)[:, None] & np.ones(found.num_lanes, np.bool_)
        if number == player:
            taken = taken & reached[where.tree.sequence[player, np.maximum(root, 0)]]
        rows = taken[infosets.infoset[1:]]
        pair.append(np.where(rows, plan.probabilities[number], found.probabilities[number]))
    return Policy(where.tree, (pair[0], pair[1]), found.labels)
