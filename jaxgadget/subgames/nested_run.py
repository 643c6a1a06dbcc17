"""Nested searches of one player: levels of subgames, each searched with the results of the level above.

A search takes reach, range and alternative values from the search above it. Its subgames lie within those
of the search above, so that the parts of a level continue independently and are never joined.

If the leaf is continued (`OptimalValues`), every search extends to the end of the game, and its plan below
the limit is the blueprint of the next one, so that alternative values are best responses to an actual
strategy (Milec, Kubíček and Lisý 2024). The gadget then determines how the subgames of a level are combined:

- the optimal continuation solves a level *jointly*, as one program in which the free opponent starts at the
  game's root. It is as safe as a restricted Nash response of the whole game;
- the full gadget solves every subgame *separately*, using only the searches on its path, as a player in a
  match must. Its siblings have the values assumed by these searches. The assembled policy is not safe;
- all other gadgets depend only on the values at their own roots, so that both methods agree.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxgadget.core.driver import Report
from jaxgadget.core.payoff import multiply
from jaxgadget.core.rows import pad_rows
from jaxgadget.core.solver import Solver
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.gadget import Gadget, describe
from jaxgadget.gadgets.games import Prepared
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.root_gadgets import Unsafe
from jaxgadget.gadgets.structure import Structure, build_structure, find_ranges, trunk_ranges
from jaxgadget.opponents.gains import mixture_value
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.evaluate import best_response
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.beliefs import Beliefs, OwnSearches, OwnSpot, is_private
from jaxgadget.subgames.engine import name_lane
from jaxgadget.subgames.knowledge import Knowledge
from jaxgadget.subgames.leaves import Leaf, opponent_mixtures
from jaxgadget.subgames.limits import check_room, most_payoffs
from jaxgadget.subgames.lookahead import SolvedLookahead, solve_lookahead
from jaxgadget.subgames.profile import Profile, actions_below, root_reach, usual_roots
from jaxgadget.subgames.schedule import Schedule, SearchLevel, decisions_before
from jaxgadget.tree.cut import Cut, leaf_above
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.history import check_histories
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import drop_programs
from jaxgadget.util.lanes import Lanes
from jaxgadget.util.players import sign_of

PART_CELLS = 1 << 24
"""Maximum number of payoffs searched at a time (K² for each leaf and one for each terminal), unless one
subgame has more."""

PROGRAM_CELLS = 1 << 23
"""Number of payoffs after which JAX's compiled programs are dropped. Large parts seldom have equal shapes,
and JAX keeps every program (45 MB for each part in Goofspiel 6) and its memory mappings, of which Linux
allows 65,530."""


class Visits(NamedTuple):
    """Visits of the leaves of searches.

    Attributes:
      histories: `[H]` leaves of lookaheads.
      weights: `[H, K, K]` probability under the average strategies of reaching each leaf and choosing each
        pair of entries there.
    """

    histories: IntArray
    weights: FloatArray


@dataclasses.dataclass(frozen=True, eq=False)
class Handover:
    """Data passed from the searches of one level to those below; L lanes.

    Attributes:
      policy: both players' strategies in the game, which determine the reach of the next searches.
      plan: both players' average strategies below the roots of the level, and at its limits; for searches
        from own infostates, only the searching player's.
      leaves: `[H]` histories at the lookaheads' limits; empty if they extend to the end of the game.
      payoffs: `[H, K, K]` payoffs at these leaves.
      lookahead: the lookahead of the searches.
      solved: their solutions.
      followed: `[I]` mask of the opponent's infosets at which plans follow a model, if the leaf is continued.
      own: searches from own infostates; None if they are from public states.
    """

    policy: Policy
    plan: Profile
    leaves: IntArray
    payoffs: FloatArray
    lookahead: Forest
    solved: SolvedLookahead
    followed: BoolArray | None = None
    own: OwnSearches | None = None

    def joined(self, leaves: IntArray, payoffs: FloatArray) -> tuple[IntArray, FloatArray]:
        """Merges these leaves with others, ascending; returns the leaves and their payoffs."""
        joined_leaves = np.concatenate([self.leaves, leaves])
        order = np.argsort(joined_leaves, kind="stable")
        return joined_leaves[order], np.concatenate([self.payoffs, payoffs])[order]


_UNSAFE = Unsafe()


class NestedRun:
    """Nested searches of one player, with L lanes.

    Attributes:
      assembled: the blueprints with the rows of all finished searches, and the opponent's strategies
        between these decisions.
      gap_max: `[L]` the largest NashConv of a search's game.
      gap_sum: `[L]` sum of the gaps of all games.
      searches: `[L]` number of subgames searched.
      iterations: `[L]` maximum over the searches; iterations of the simplex method for linear programs.
      objectives: `[levels, L]` after all searches, p × the value against models followed down to the limits,
        with the payoffs there, + (1−p) × the value guaranteed with these payoffs; NaN at unreachable levels.
        If subgames are searched separately: with a continued leaf the minimum over them, otherwise NaN,
        unless p = 1.
      value_seconds: seconds spent computing the leaf's payoffs.
      visits: visits of the leaves, one entry per batch; None if they are not counted.
      failures: lanes in which a search failed, with the reason; they keep the blueprint.
      seconds: total time.
    """

    def __init__(
        self,
        schedule: Schedule,
        leaf: Leaf,
        profiles: Policy,
        gadgets: Sequence[Gadget],
        opponents: Opponents | None = None,
        *,
        solver: Solver,
        lanes: Lanes | None = None,
        visits: bool = False,
        knowledge: Knowledge | None = None,
    ):
        """Prepares the searches, without solving.

        Args:
          schedule: schedule of the searches.
          leaf: evaluation at the end of lookaheads.
          profiles: blueprints.
          gadgets: gadgets of any kind; the optimal continuation searches a level jointly. Those of a
            continued leaf share an entry.
          opponents: the opponents; by default one that adapts.
          solver: settings of every search.
          lanes: combinations to search, by default all of gadgets, opponents and blueprints.
          visits: count visits of the leaves.
          knowledge: search from own infostates, based on the player's knowledge, in place of public states;
            requires an opponent that adapts.
        """
        self.tree, self.player, self.schedule = schedule.tree, schedule.player, schedule
        self.solver, self.leaf, self.gadgets = solver, leaf, tuple(gadgets)
        count = 1 if opponents is None else len(opponents)
        if lanes is None:
            lanes = Lanes.product(gadgets=len(gadgets), opponents=count, blueprints=profiles.num_lanes)
        self.lanes = lanes
        self.opponents = None if opponents is None or opponents.adapt else opponents
        against = [""] if opponents is None else [opponents.describe(opponent) for opponent in range(count)]
        labels = lanes.labels(profiles.labels, [describe(gadget) for gadget in gadgets], against)
        self._names = [
            name_lane(gadgets[gadget], profiles.labels[blueprint], against[opponent])
            for gadget, opponent, blueprint in zip(
                lanes.gadget.tolist(), lanes.opponent.tolist(), lanes.blueprint.tolist(), strict=True
            )
        ]
        self.blueprint = dataclasses.replace(profiles.take_lanes(lanes.blueprint), labels=labels)
        self.assembled = self.blueprint
        self._beliefs = None
        if knowledge is not None and is_private(knowledge):
            platform = solver.placement.platform
            self._beliefs = Beliefs(knowledge, self.player, self.blueprint, leaf.num_entries, platform)
        self.gap_max, self.gap_sum = np.zeros(len(lanes)), np.zeros(len(lanes))
        self.searches, self.iterations = np.zeros(len(lanes), np.int64), np.zeros(len(lanes), np.int64)
        self.objectives = np.full((len(schedule.levels), len(lanes)), np.nan)
        self._worth: dict[int, FloatArray] = {}  # `[L]` per level, summed over the finished parts
        self.seconds = self.value_seconds = 0.0
        self.failures: dict[int, str] = {}
        self.visits: list[Visits] | None = [] if visits else None
        self._payoffs = 0  # number searched since programs were dropped
        self._completed = 0  # subgames × iterations

    @property
    def joint(self) -> BoolArray:
        """`[L]` True if a level is solved jointly, as one program."""
        return np.array([gadget.joint for gadget in self.gadgets])[self.lanes.gadget]

    @property
    def gaps(self) -> FloatArray:
        """`[L]` sum of the gaps of all games where it bounds exploitability, NaN otherwise.

        It is a bound for joint searches with optimal values, unless the opponent must make mistakes.
        """
        exact = np.array([gadget.epsilon == 0 for gadget in self.gadgets])[self.lanes.gadget]
        return np.where(self.joint & exact & self.leaf.is_continued, self.gap_sum, np.nan)

    @property
    def p(self) -> FloatArray:
        """`[L]` the probability with which each lane's opponent follows its model."""
        none = np.zeros(len(self.lanes))
        return none if self.opponents is None else self.opponents.p[self.lanes.opponent]

    @property
    def _looks_around(self) -> bool:
        """True if a gadget couples all subgames of a level, so that they must be searched jointly."""
        return any(Capability.TRUNK in gadget.requires for gadget in self.gadgets)

    @property
    def _is_apart(self) -> bool:
        """True if a search depends only on the searches on its path, and not on its siblings."""
        return self.leaf.is_continued and self.gadgets[0].apart

    def run(self, report: Report) -> None:
        """Runs all searches depth-first: each part, then everything below it, then the next part.

        Args:
          report: progress callback; receives the number of subgames × iterations completed.
        """
        begin, levels = time.perf_counter(), self.schedule.levels
        if levels:
            self._descend(0, np.arange(levels[0].num_subgames), None, report)
        for level_idx, worth in self._worth.items():
            self.objectives[level_idx] = self._objective(level_idx, worth)
        self.seconds = time.perf_counter() - begin

    def _descend(self, level_idx: int, subgames: IntArray, above: Handover | None, report: Report) -> None:
        """Searches the given subgames of a level, and everything below them."""
        for group, handover in self._search_level(level_idx, subgames, above, report):
            below = self._below(level_idx, group)
            if len(below):
                self._descend(level_idx + 1, below, handover, report)

    def _search_level(
        self, level_idx: int, subgames: IntArray, above: Handover | None, report: Report
    ) -> Iterator[tuple[IntArray, Handover]]:
        """Searches the given subgames of a level.

        Yields groups of them that share all later searches, each with the data passed to these.
        """
        is_continued, handover = self.leaf.is_continued, None
        for part in self.parts(self.schedule.levels[level_idx], subgames, above, first=level_idx == 0):
            beside = handover if is_continued else None
            handover = self._search_part(level_idx, part, above, beside, report)
            if not is_continued:
                yield part, handover
        if is_continued and handover is not None:
            size = 1 if self._is_apart else len(subgames)
            for first in range(0, len(subgames), size):
                group = subgames[first : first + size]
                yield group, self._continued(level_idx, group, above, handover)

    def _search_part(
        self, level_idx: int, part: IntArray, above: Handover | None, beside: Handover | None, report: Report
    ) -> Handover:
        """Searches a part of a level, see `search`; reports its progress after that of previous parts."""
        completed = self._completed
        handover = self.search(
            level_idx,
            self.schedule.levels[level_idx].cut(self.tree, part),
            above,
            lambda iterations: report(completed + len(part) * iterations),
            beside,
        )
        self._completed += len(part) * self.solver.num_iterations
        return handover

    def _below(self, level_idx: int, subgames: IntArray) -> IntArray:
        """The subgames of the next level, if any, that lie below the given subgames of a level."""
        levels = self.schedule.levels
        if level_idx + 1 == len(levels):
            return subgames[:0]
        level, where = levels[level_idx + 1], levels[level_idx].cut(self.tree, subgames)
        inside = where.root[level.roots] >= 0
        subgames = np.unique(level.subgame[inside])
        across = subgames[np.isin(subgames, level.subgame[~inside])]
        if len(across):
            root = int(level.roots[level.subgame == across[0]][0])
            why = f"do not fit together ({self._most_payoffs()} payoffs); expected a larger memory_limit"
            if self._is_apart:
                why = "the full gadget searches separately; expected OptimalContinuation(), or another step"
            raise ValueError(
                f"{self.tree.game.name}: the subgame at {self.tree.moves(root)} lies below two subgames of "
                f"the search before, which {why}"
            )
        return subgames

    def parts(
        self, level: SearchLevel, subgames: IntArray, above: Handover | None = None, *, first: bool
    ) -> list[IntArray]:
        """Groups of subgames that are searched together: as many as fit in memory, with the same gadgets.

        Args:
          level: the level.
          subgames: some of its subgames, ascending.
          above: results of the level above, for searches from own infostates.
          first: True for the first searches, which are unsafe if the opponent has not acted.
        """
        where = level.cut(self.tree, subgames)
        acted = np.ones(where.num_subgames, np.bool_)
        if first and not self._looks_around:
            acted[:] = False
            np.logical_or.at(acted, where.subgame, self._has_acted(where.roots))
        size, most = self._count_payoffs(where, above).tolist(), self._most_payoffs()
        parts: list[IntArray] = []
        for group in (np.nonzero(~acted)[0].tolist(), np.nonzero(acted)[0].tolist()):
            part, total = list[int](), 0
            for subgame in group:
                if part and total + size[subgame] > most:
                    parts.append(subgames[part])
                    part, total = [], 0
                part.append(subgame)
                total += size[subgame]
            if part:
                parts.append(subgames[part])
        if len(parts) > 1 and self._looks_around:
            raise ValueError(
                f"{self.tree.game.name}: the {len(subgames)} subgames of a level have {sum(size)} payoffs, "
                f"of which {most} fit, and a gadget needs all of them at once; expected a larger "
                "memory_limit, a smaller depth, or gadgets that depend only on their own roots"
            )
        return parts

    def _has_acted(self, roots: IntArray) -> BoolArray:
        """`[H]` True for roots before which the opponent has acted."""
        return decisions_before(self.tree, 1 - self.player, roots) > 0

    def _count_payoffs(self, where: Cut, above: Handover | None) -> IntArray:
        """`[S]` number of payoffs of the subgames' lookaheads, of own infostates and beliefs together."""
        tree = self.tree
        leaves = self._limit(self.schedule.leaves(where))
        ends = tree.terminals[where.root[tree.terminals] >= 0]
        ends = ends[leaf_above(where, leaves)[ends] < 0]
        count = np.zeros(where.num_subgames)
        copies = np.ones(len(where.roots))
        if self._beliefs is not None:
            copies = self._beliefs.copies(None if above is None else above.own, where)
        for nodes, payoffs in ((leaves, self.leaf.num_entries**2), (ends, max(tree.num_hands))):
            root = np.searchsorted(where.roots, where.root[nodes])
            count += payoffs * np.bincount(where.subgame[root], copies[root], minlength=len(count))
        return count.astype(np.int64)

    def _drop_programs(self) -> None:
        """Drops compiled programs after many payoffs have been searched."""
        if self._payoffs > PROGRAM_CELLS:
            drop_programs()
            self._payoffs = 0

    def _most_payoffs(self) -> int:
        return max(1, min(PART_CELLS, most_payoffs(self.solver.placement, self.solver.memory_limit)))

    def search(
        self,
        level_idx: int,
        where: Cut,
        above: Handover | None,
        report: Report,
        beside: Handover | None = None,
        *,
        unsafe_first: bool = True,
    ) -> Handover:
        """Searches the given subgames of one level in one batch.

        Args:
          level_idx: index of the level.
          where: cut at its roots.
          above: data from the level above; None at the first one.
          report: progress callback; receives the number of completed iterations in each group of gadgets.
          beside: data from other searches of this level, into which the result is merged.
          unsafe_first: use unsafe search, which is exact, at the first level if the opponent has not
            acted before it.
        """
        ends, player, other = self.schedule.leaves(where), self.player, 1 - self.player
        leaves = self._limit(ends)
        check_room(leaves, self.leaf.num_entries, self.tree.game.name, self.solver.placement)
        payoffs, spot = self._leaf_payoffs(leaves), None
        if self._beliefs is None:
            lookahead = build_forest(
                self.tree,
                where,
                limit=leaves if len(leaves) else None,
                num_choices=self.leaf.num_entries,
                second=None if self.opponents is None or len(ends) == 0 else (other, ends),
            )
        else:
            spot = self._find_spot(self._beliefs, where, above, leaves, payoffs)
            lookahead = spot.lookahead
        self._payoffs += payoffs.size + lookahead.terminals.num_entries
        if beside is not None:
            plan = beside.plan.extended(lookahead)
        else:
            plan = Profile.of_blueprint(lookahead, self._policy_above(above, self.blueprint))
        structure = build_structure(lookahead.with_values(payoffs), player, self.solver.placement.platform)
        ranges = self.find_ranges(structure, above, plan) if spot is None else spot.ranges
        gadgets = self.gadgets
        if unsafe_first and above is None and not self._has_acted(where.roots).any():
            gadgets = tuple(gadget if Capability.TRUNK in gadget.requires else _UNSAFE for gadget in gadgets)
        mixtures = None
        if self.opponents is not None:
            mixtures = opponent_mixtures(lookahead, player, self.opponents, self.leaf)
        prepared = Prepared(
            structure=structure,
            ranges=ranges,
            rows=plan.bodies(lookahead),
            mixtures=mixtures,
            frozen=None if spot is None else spot.frozen,
        )
        solved = solve_lookahead(prepared, gadgets, self.lanes, self._names, self.solver, report)
        adopted = usual_roots(lookahead) if spot is None else spot.adopted
        plan = plan.with_bodies(lookahead, solved.strategy, adopted)
        if self.visits is not None and len(leaves):
            self.visits.append(self._count_visits(lookahead, ranges, solved.strategy, adopted[player]))
        self._count(level_idx, solved)
        self._assemble(level_idx, lookahead, plan.policy, adopted[player])
        if beside is not None:
            leaves, payoffs = beside.joined(leaves, payoffs)
        self._drop_programs()
        own = None if spot is None else OwnSearches(spot, solved.strategy)
        return Handover(self.assembled, plan, leaves, payoffs, lookahead, solved, own=own)

    def _limit(self, ends: IntArray) -> IntArray:
        """`[H]` the histories at the schedule's limit that need payoffs."""
        return ends if self.leaf.ends_lookahead else ends[:0]

    def _leaf_payoffs(self, leaves: IntArray) -> FloatArray:
        if not len(leaves):
            return np.zeros((0, self.leaf.num_entries, self.leaf.num_entries))
        begin = time.perf_counter()
        payoffs = self.leaf.payoffs(check_histories(self.tree), leaves, self.solver.precision)
        self.value_seconds += time.perf_counter() - begin
        return payoffs

    def _policy_above(self, above: Handover | None, otherwise: Policy) -> Policy:
        """The policy of the searches above if the leaf is continued, otherwise `otherwise`."""
        return above.policy if above is not None and self.leaf.is_continued else otherwise

    def _find_spot(
        self, beliefs: Beliefs, where: Cut, above: Handover | None, leaves: IntArray, payoffs: FloatArray
    ) -> OwnSpot:
        """Own infostates at a level's roots, and the ranges there."""
        if above is None or above.own is None:
            return beliefs.first_spot(where, leaves, payoffs)
        reached = where.root[above.leaves] >= 0
        ends, at_ends = (above.leaves[reached], leaves), (above.payoffs[reached], payoffs)
        return beliefs.next_spot(above.own, where, ends, at_ends)

    def find_ranges(self, structure: Structure, above: Handover | None, fallback: Profile) -> Ranges:
        """The ranges at the roots: those of the searches above, or the blueprint's if there are none.

        Args:
          structure: the lookahead.
          above: data from the level above; None at the first one.
          fallback: the blueprint.
        """
        lookahead, policy = structure.forest, self._policy_above(above, self.assembled)
        reach, inner, plan = root_reach(lookahead, policy), structure, fallback
        if above is not None:
            plan, reached = above.plan, lookahead.cut.root[above.leaves] >= 0
            if len(lookahead.leaves) or reached.any():  # otherwise both extend to the end
                limit, size = above.leaves[reached], self.leaf.num_entries
                forest = build_forest(self.tree, lookahead.cut, limit=limit, num_choices=size)
                inner = build_structure(forest.with_values(above.payoffs[reached]), self.player)
        ranges = find_ranges(inner, plan.bodies(inner.forest), reach)
        if not self._looks_around:
            return ranges
        trunk, other = build_trunk(lookahead), 1 - self.player
        own = policy.reach(self.player)[trunk.sequences(self.player)]
        theirs = policy.probabilities[other][trunk.form.action_sequences(other) - 1]
        return dataclasses.replace(ranges, trunk=trunk_ranges(trunk, self.player, own, theirs))

    def _count(self, level_idx: int, solved: SolvedLookahead) -> None:
        """Accumulates the statistics of the given searches of a level."""
        self.failures = {**solved.failures, **self.failures}
        gap = np.where(solved.has_decision | self.joint, solved.gap, 0)
        self.gap_max = np.maximum(self.gap_max, gap.max(axis=0, initial=0))
        self.gap_sum = self.gap_sum + gap.sum(axis=0)
        self.searches += solved.has_decision.sum(axis=0)
        self.iterations = np.maximum(self.iterations, solved.iterations)
        if not self.leaf.is_continued:
            with np.errstate(over="ignore", invalid="ignore"):  # overflowed results are undefined
                self._worth[level_idx] = self._worth.get(level_idx, 0.0) + solved.value.sum(axis=0)

    def _objective(self, level_idx: int, worth: FloatArray) -> FloatArray:
        """`[L]` value of a level: its searches and the play around them; see `NestedRun.objectives`.

        The play around a level is determined when all searches above it are complete.
        """
        is_sum = self.joint | (self.p == 1)
        is_sum[list(self.failures)] = False
        if self.opponents is not None:
            level = self.schedule.levels[level_idx].cut(self.tree)
            models = self.opponents.policy.reach(1 - self.player)[:, self.lanes.opponent]
            worth = worth + self.p * _earned_outside(level, self.player, self.assembled, models)
        return np.where(is_sum, worth, np.nan)

    def _continued(
        self, level_idx: int, subgames: IntArray, above: Handover | None, handover: Handover
    ) -> Handover:
        """The handover of the given subgames alone, whose plans continue to the end of the game."""
        tree, where = self.tree, self.schedule.levels[level_idx].cut(self.tree, subgames)
        ends, policy = (
            leaf_above(where, self.schedule.leaves(where)),
            self._policy_above(above, self.blueprint),
        )
        for player in (0, 1):
            inside = np.nonzero(where.root[tree.infosets[player].history] >= 0)[0]
            policy = policy.splice(player, inside, handover.plan.policy)
        history = tree.infosets[1 - self.player].history
        before = True if above is None or above.followed is None else above.followed
        followed = np.where(where.root[history] >= 0, ends[history] < 0, before)
        self.objectives[level_idx] = np.fmin(self.objectives[level_idx], self._earned(policy, followed))
        plan = dataclasses.replace(handover.plan, policy=policy)
        return dataclasses.replace(handover, policy=policy, plan=plan, followed=followed)

    def _earned(self, policy: Policy, followed: BoolArray) -> FloatArray:
        """`[L]` value of a policy against the opponents, which are rational where no model is followed."""
        if self.opponents is None:
            return -best_response(policy, 1 - self.player).value
        return mixture_value(policy, self.opponents, self.lanes.opponent, self.player, followed)

    def _count_visits(
        self, lookahead: Forest, ranges: Ranges, strategy: tuple[FloatArray, FloatArray], adopted: BoolArray
    ) -> Visits:
        """Counts visits of each leaf and pair of entries under the average strategies, as a mean over lanes.

        Args:
          lookahead: the lookahead.
          ranges: ranges at its roots.
          strategy: both players' average strategies in the lookahead.
          adopted: `[R]` mask of the searching player's roots below which strategies are adopted.
        """
        leaves, chosen = lookahead.leaves, list[FloatArray]()
        adopted_roots = tuple(adopted if p == self.player else usual_roots(lookahead)[p] for p in (0, 1))
        counts = np.ones(len(leaves.leaf), np.bool_)
        for player in (0, 1):
            treeplex = lookahead.form.treeplex[player]
            top = ranges.resolver if player == self.player else ranges.opponent
            below = np.append(
                np.zeros(treeplex.num_roots, np.bool_),
                actions_below(lookahead, player, adopted_roots[player]),
            )
            counts &= below[leaves.sequence[player]].all(axis=1)
            chosen.append(treeplex.realise(top, strategy[player])[leaves.sequence[player]])
        own, theirs = (plan[counts] for plan in chosen)
        lanes = np.einsum("ckx,clx->ckl", own, theirs, optimize=True) / len(self.lanes)
        weights = np.zeros((len(leaves), leaves.num_choices, leaves.num_choices))
        weights[leaves.leaf[counts]] = lanes  # each leaf is counted once
        return Visits(leaves.histories, lookahead.histories.chance[leaves.histories, None, None] * weights)

    def _assemble(self, level_idx: int, lookahead: Forest, plan: Policy, adopted: BoolArray) -> None:
        """Adopts the strategy until the next search, and the opponent's strategy down to the limit."""
        player, other = self.player, 1 - self.player
        rows = [rows.copy() for rows in self.assembled.probabilities]
        infosets, body = self.tree.infosets[player], lookahead.form.treeplex[player].infoset
        root = lookahead.root_of_infoset(player)
        inside = np.flatnonzero(
            (body >= 0) & pad_rows(adopted, lookahead.form.treeplex[player].num_roots, 0)[root]
        )
        inside = inside[self.schedule.kept(level_idx)[body[inside]]]
        reach = lookahead.roots[player].reach(self.assembled.reach(player))
        searched = np.zeros((len(infosets), reach.shape[1]), np.bool_)
        searched[body[inside]] = reach[root[inside]] > 0
        rows[player] = np.where(searched[infosets.infoset[1:]], plan.probabilities[player], rows[player])
        between = np.isin(self.tree.infosets[other].infoset[1:], lookahead.infosets(other))
        rows[other] = np.where(between[:, None], plan.probabilities[other], rows[other])
        self.assembled = Policy(self.tree, (rows[0], rows[1]), self.assembled.labels)


def _earned_outside(where: Cut, player: int, policy: Policy, reach: FloatArray) -> FloatArray:
    """`[L]` a player's value against models, over play that does not pass through a cut.

    Args:
      where: the cut.
      player: the player, in whose utility the value is.
      policy: its policies, L lanes.
      reach: `[sequences, L]` the models' reach of the opponent's sequences.
    """
    tree = where.tree
    ends = tree.terminals[where.root[tree.terminals] < 0]
    rows = [np.maximum(tree.sequences_by_hand(p, tree.sequence[p, ends]), 0) for p in (0, 1)]
    num_rows = tree.infosets[0].num_sequences, tree.infosets[1].num_sequences
    earned = multiply(tree.payoff_entries(ends, (rows[0], rows[1]), num_rows), player, reach)
    return sign_of(player) * np.einsum("sl,sl->l", policy.reach(player), earned)
