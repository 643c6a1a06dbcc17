"""One line of nested searches: a player's decisions searched again one after the other, in parts that fit.

A search needs what the search above it found: reach, range and values at its limit. Its subgames lie inside
of the subgames above, so parts of a level go on by themselves, and what lies above two parts is never joined.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxgadget.gadgets.gadget import Gadget
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.real_way import OptimalContinuation
from jaxgadget.gadgets.structure import Structure, trunk_ranges
from jaxgadget.gadgets.two_level import Unsafe
from jaxgadget.opponents.opponent import Opponents
from jaxgadget.policy.policy import Policy
from jaxgadget.refining.knowledge import Knowledge
from jaxgadget.searching.beliefs import Beliefs, OwnSearches, OwnSpot, is_private
from jaxgadget.searching.limited import spread
from jaxgadget.searching.lookahead import check_room, most_payoffs
from jaxgadget.searching.mixing import earned_outside, opponent_mixtures
from jaxgadget.searching.schedule import Schedule, SearchLevel
from jaxgadget.searching.solving import (
    Profile,
    actions_below,
    find_ranges,
    name_lane,
    prepare_lookahead,
    root_reach,
    solve_lookahead,
    usual_roots,
)
from jaxgadget.solving.driver import Report
from jaxgadget.solving.options import SolveOptions
from jaxgadget.tree.cut import Cut, leaf_above
from jaxgadget.tree.forest import Forest, build_forest
from jaxgadget.tree.trunk import build_trunk
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import drop_programs
from jaxgadget.values.histories import ValueFunction, leaf_values

PART_CELLS = 1 << 24
"""Payoffs (K² a leaf, and one a terminal) that are searched at a time, unless one subgame has more."""

PROGRAM_CELLS = 1 << 23
"""After so many payoffs JAX's compiled programs are dropped. Large parts seldom have equal shapes, and JAX
keeps every program, 45 MB a part in Goofspiel 6, and its memory mappings, of which Linux grants 65,530."""


class Visits(NamedTuple):
    """Where searches end.

    Attributes:
      histories: `[H]` leaves of lookaheads.
      weights: `[H, K, K]` the probability that play under the average strategies gets to each of them and
        chooses each pair of entries there.
    """

    histories: IntArray
    weights: FloatArray


def inside(look: Forest, player: int) -> BoolArray:
    """`[Q]` which of a player's actions in the game lie between the roots and the limit."""
    return np.isin(look.tree.infosets[player].infoset[1:], look.infosets(player))


@dataclasses.dataclass(frozen=True, eq=False)
class AtLimit:
    """What searches of one level found down to their limits; L lanes.

    Attributes:
      plan: both players' averages; of searches from own infostates the searching player's alone.
      leaves: `[H]` where lookaheads end.
      values: `[H, K, K]` there.
      own: what searches from own infostates found; None if they are from public states.
    """

    plan: Profile
    leaves: IntArray
    values: FloatArray
    own: OwnSearches | None = None

    def joined(self, leaves: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """These leaves and others, ascending, with their values."""
        joined_leaves = np.concatenate([self.leaves, leaves])
        order = np.argsort(joined_leaves, kind="stable")
        return joined_leaves[order], np.concatenate([self.values, values])[order]


_UNSAFE = Unsafe()


class Line:
    """Nested search after one blueprint, all gadgets and opponents side by side: L lanes.

    `lane = gadget * num_opponents + opponent`.

    Attributes:
      assembled: the blueprint with the decisions that were searched so far, and what the opponent was
        found to do between them.
      gap_max: `[L]` the largest NashConv of a search's game.
      searches: `[L]` subgames that were searched.
      iterations: `[L]` the most of a search.
      objectives: `[levels, L]` once all is searched, p × what is earned where models are followed down to
        the limits and values hold there, + (1−p) × what is guaranteed by these values; NaN where the
        subgames of a level do not add up to that (it is known of joint searches, and for p = 1), and at
        levels that nobody reaches.
      value_seconds: spent in the value function.
      visits: where searches ended, a batch each; None if nobody asks.
      failures: lanes in which a search overflowed, and where; there the blueprint stayed.
    """

    def __init__(
        self,
        blueprint: Policy,
        gadgets: Sequence[Gadget],
        values: ValueFunction,
        schedule: Schedule,
        options: SolveOptions,
        *,
        visits: bool,
        opponents: Opponents | None = None,
        knowledge: Knowledge | None = None,
    ):
        """Takes what every search needs.

        Args:
          blueprint: one lane.
          gadgets: of any kinds; the optimal continuation searches a level jointly.
          values: at the limits.
          schedule: when to search.
          options: how to solve.
          visits: whether to count where searches end.
          opponents: M of them; by default one, who adapts.
          knowledge: search from own infostates, by what the player knows there, in place of public states;
            against an opponent who adapts.
        """
        self.tree, self.player, self.schedule = schedule.tree, schedule.player, schedule
        self.options, self.values = options, values
        count = 1 if opponents is None else len(opponents)
        self.gadgets = tuple(gadget for gadget in gadgets for _ in range(count))
        self.opponents = None if opponents is None or opponents.adapt else opponents
        self._opponent = np.tile(np.arange(count), len(gadgets))
        self._names = [
            name_lane(gadget, blueprint.labels[0], "" if opponents is None else opponents.describe(number))
            for gadget, number in zip(self.gadgets, self._opponent.tolist(), strict=True)
        ]
        self.blueprint = spread(blueprint, self.gadgets)
        self.assembled = self.blueprint
        self._beliefs = None
        if knowledge is not None and is_private(knowledge):
            platform = options.placement.platform
            self._beliefs = Beliefs(knowledge, self.player, self.blueprint, values.num_entries, platform)
        self.gap_max = np.zeros(len(self.gadgets))
        self.searches = np.zeros(len(self.gadgets), np.int64)
        self.iterations = np.zeros(len(self.gadgets), np.int64)
        self.objectives = np.full((len(schedule.levels), len(self.gadgets)), np.nan)
        self._worth: dict[int, FloatArray] = {}  # `[L]` of a level, its parts so far together
        self.seconds = self.value_seconds = 0.0
        self.failures: dict[int, str] = {}
        self.visits: list[Visits] | None = [] if visits else None
        self._payoffs = 0  # searched since programs were dropped

    @property
    def _looks_around(self) -> bool:
        """Whether a gadget looks at all subgames of a level, so that they must be searched at once."""
        return any("trunk" in gadget.needs for gadget in self.gadgets)

    def run(self, report: Report) -> None:
        """Searches everywhere, part by part, and below a part before the next one.

        Args:
          report: is told the number of subgames × iterations done.
        """
        begin, done, levels = time.perf_counter(), 0, self.schedule.levels

        def told(subgames: int, iterations: int) -> None:
            report(done + subgames * iterations)

        def descend(number: int, subgames: IntArray, above: AtLimit | None) -> None:
            nonlocal done
            for part in self.parts(levels[number], subgames, above, first=number == 0):
                where = levels[number].cut(self.tree, part)
                at_limit = self.search(number, where, above, functools.partial(told, len(part)))
                done += len(part) * self.options.iterations
                below = subgames[:0]
                if number + 1 < len(levels):
                    below = self._below(levels[number + 1], where)
                del where  # as long as the tree; what is searched below must not wait for it
                if len(below):
                    descend(number + 1, below, at_limit)

        if levels:
            descend(0, np.arange(levels[0].num_subgames), None)
        for number, worth in self._worth.items():
            self.objectives[number] = self._objective(number, worth)
        self.seconds = time.perf_counter() - begin

    def _below(self, level: SearchLevel, where: Cut) -> IntArray:
        """The subgames of the next decisions that lie below some of this one's."""
        inside = where.root[level.roots] >= 0
        subgames = np.unique(level.subgame[inside])
        across = subgames[np.isin(subgames, level.subgame[~inside])]
        if len(across):
            root = int(level.roots[level.subgame == across[0]][0])
            raise ValueError(
                f"{self.tree.game.name}: the subgame at {self.tree.moves(root)} lies below two subgames of "
                f"the decision before, which do not fit together ({self._most_payoffs()} payoffs); "
                "expected a larger memory_limit"
            )
        return subgames

    def parts(
        self, level: SearchLevel, subgames: IntArray, above: AtLimit | None = None, *, first: bool
    ) -> list[IntArray]:
        """Subgames that are searched together: as many as fit, and under the same gadgets.

        Args:
          level: the decisions.
          subgames: some of theirs, ascending.
          above: what the level above found, where searches are from own infostates.
          first: whether these are the first ones, which are unsafe where the opponent has not acted.
        """
        where = level.cut(self.tree, subgames)
        acted = np.ones(where.num_subgames, np.bool_)
        if first and not self._looks_around:
            acted[:] = False
            np.logical_or.at(acted, where.subgame, self.tree.sequence[1 - self.player, where.roots] > 0)
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
                f"of which {most} fit, and a gadget looks at all of them at once; expected a larger "
                "memory_limit, a smaller depth, or gadgets that look at their own roots alone"
            )
        return parts

    def _count_payoffs(self, where: Cut, above: AtLimit | None) -> IntArray:
        """`[S]` payoffs of the subgames' lookaheads, those of own infostates and of beliefs together."""
        tree = self.tree
        leaves = self.schedule.leaves(where)
        ends = tree.terminals[where.root[tree.terminals] >= 0]
        ends = ends[leaf_above(where, leaves)[ends] < 0]
        count = np.zeros(where.num_subgames)
        copies = np.ones(len(where.roots))
        if self._beliefs is not None:
            copies = self._beliefs.copies(None if above is None else above.own, where)
        for histories, payoffs in ((leaves, self.values.num_entries**2), (ends, 1)):
            root = np.searchsorted(where.roots, where.root[histories])
            count += payoffs * np.bincount(where.subgame[root], copies[root], minlength=len(count))
        return count.astype(np.int64)

    def _drop_programs(self) -> None:
        """Makes room once many payoffs were searched."""
        if self._payoffs > PROGRAM_CELLS:
            drop_programs()
            self._payoffs = 0

    def _most_payoffs(self) -> int:
        return max(1, min(PART_CELLS, most_payoffs(self.options.placement, self.options.memory_limit)))

    def search(
        self, number: int, where: Cut, above: AtLimit | None, report: Report, beside: AtLimit | None = None
    ) -> AtLimit:
        """Searches some subgames of one level, all at once.

        Args:
          number: of the level.
          where: at its roots.
          above: what the level above found, None at the first one.
          report: is told the number of iterations done in each group of gadgets.
          beside: what other searches of this level found; the result is theirs too.
        """
        leaves, other = self.schedule.leaves(where), 1 - self.player
        check_room(leaves, self.values.num_entries, self.tree.game.name, self.options.placement)
        values, spot = self._values(leaves), None
        if self._beliefs is None:
            look = build_forest(
                self.tree,
                where,
                limit=leaves,
                num_choices=self.values.num_entries,
                second=None if self.opponents is None or len(leaves) == 0 else (other, leaves),
            )
        else:
            spot = self._find_spot(self._beliefs, where, above, leaves, values)
            look = spot.look
        self._payoffs += values.size + len(look.terminals.value)
        plan = Profile.of_blueprint(look, self.blueprint) if beside is None else beside.plan.extended(look)
        structure = prepare_lookahead(look, values, self.player, self.options.placement.platform)
        ranges = self.find_ranges(structure, above, plan) if spot is None else spot.ranges
        if self._looks_around:
            trunk = build_trunk(look)
            own = self.assembled.reach(self.player)[trunk.sequences(self.player)]
            theirs = self.assembled.probabilities[other][trunk.form.action_sequences(other) - 1]
            known = trunk_ranges(trunk, self.player, own, theirs)
            ranges = dataclasses.replace(ranges, trunk=known)
        gadgets, acted = self.gadgets, self.tree.sequence[other, where.roots] > 0
        if above is None and not acted.any():
            gadgets = tuple(gadget if "trunk" in gadget.needs else _UNSAFE for gadget in gadgets)
        mixtures = None
        if self.opponents is not None:
            mixtures = opponent_mixtures(look, self.player, self.opponents, self.values)
        searched = solve_lookahead(
            structure,
            ranges,
            plan.bodies(look),
            gadgets,
            self.options,
            report,
            mixtures=mixtures,
            frozen=None if spot is None else spot.frozen,
            opponent=None if mixtures is None else self._opponent,
            names=self._names,
        )
        adopted = usual_roots(look) if spot is None else spot.adopted
        plan = plan.with_bodies(look, searched.strategy, adopted)
        self.failures = {**searched.failures, **self.failures}
        if self.visits is not None:
            self.visits.append(self._count_visits(look, ranges, searched.strategy, adopted[self.player]))
        gap = np.where(searched.has_decision, searched.gap, 0)
        self.gap_max = np.maximum(self.gap_max, gap.max(axis=0, initial=0))
        self.searches += searched.has_decision.sum(axis=0)
        self.iterations = np.maximum(self.iterations, searched.iterations)
        with np.errstate(over="ignore", invalid="ignore"):  # where a search overflows all is undefined
            self._worth[number] = self._worth.get(number, 0.0) + searched.value.sum(axis=0)
        self._assemble(number, look, plan.policy, searched.has_decision, adopted[self.player])
        if beside is not None:
            leaves, values = beside.joined(leaves, values)
        self._drop_programs()
        return AtLimit(plan, leaves, values, None if spot is None else OwnSearches(spot, searched.strategy))

    def _find_spot(
        self, beliefs: Beliefs, where: Cut, above: AtLimit | None, leaves: IntArray, values: FloatArray
    ) -> OwnSpot:
        """Own infostates at a level's roots, and what is brought there."""
        if above is None or above.own is None:
            return beliefs.first_spot(where, leaves, values)
        reached = where.root[above.leaves] >= 0
        ends, known = (above.leaves[reached], leaves), (above.values[reached], values)
        return beliefs.next_spot(above.own, where, ends, known)

    def _objective(self, number: int, worth: FloatArray) -> FloatArray:
        """`[L]` what a level is worth, its searches and all around them; see `Line.objectives`.

        What is played around a level is settled when the levels above it are searched in all their parts.
        """
        p = np.zeros(len(self.gadgets)) if self.opponents is None else self.opponents.p[self._opponent]
        joint = np.array([gadget.entry_name == OptimalContinuation.entry_name for gadget in self.gadgets])
        known = joint | (p == 1)
        known[list(self.failures)] = False
        if self.opponents is not None:
            level = self.schedule.levels[number].cut(self.tree)
            models = self.opponents.policy.reach(1 - self.player)[:, self._opponent]
            worth = worth + p * earned_outside(level, self.player, self.assembled, models)
        return np.where(known, worth, np.nan)

    def _values(self, leaves: IntArray) -> FloatArray:
        begin = time.perf_counter()
        values = leaf_values(self.values, self.tree, leaves, self.options.dtype)
        self.value_seconds += time.perf_counter() - begin
        return values

    def find_ranges(self, structure: Structure, above: AtLimit | None, fallback: Profile) -> Ranges:
        """What the search above brings to the roots, or the blueprint if there was none."""
        reach = root_reach(structure.forest, self.assembled)
        if above is None:
            return find_ranges(structure, fallback, reach)
        where = structure.forest.cut
        reached = where.root[above.leaves] >= 0
        inner = build_forest(
            self.tree, where, limit=above.leaves[reached], num_choices=self.values.num_entries
        )
        inner_structure = prepare_lookahead(inner, above.values[reached], self.player)
        return find_ranges(inner_structure, above.plan, reach)

    def _count_visits(
        self, look: Forest, ranges: Ranges, strategy: tuple[FloatArray, FloatArray], adopted: BoolArray
    ) -> Visits:
        """How likely play under the averages gets to each leaf and pair of entries, the mean over lanes.

        Args:
          look: the lookahead.
          ranges: what was brought to its roots.
          strategy: both players' averages there.
          adopted: `[R]` below which of the searching player's roots they count.
        """
        leaves, chosen = look.leaves, list[FloatArray]()
        known = tuple(adopted if p == self.player else usual_roots(look)[p] for p in (0, 1))
        counts = np.ones(len(leaves.leaf), np.bool_)
        for player in (0, 1):
            treeplex = look.form.treeplex[player]
            top = ranges.resolver if player == self.player else ranges.opponent
            below = np.append(
                np.zeros(treeplex.num_roots, np.bool_), actions_below(look, player, known[player])
            )
            counts &= below[leaves.sequence[player]].all(axis=1)
            chosen.append(treeplex.realise(top, strategy[player])[leaves.sequence[player]])
        own, theirs = (plan[counts] for plan in chosen)
        lanes = np.einsum("ckx,clx->ckl", own, theirs, optimize=True) / len(self.gadgets)
        weights = np.zeros((len(leaves), leaves.num_choices, leaves.num_choices))
        weights[leaves.leaf[counts]] = lanes  # each leaf once
        return Visits(leaves.histories, self.tree.chance[leaves.histories, None, None] * weights)

    def _assemble(
        self, number: int, look: Forest, plan: Policy, has_decision: BoolArray, adopted: BoolArray
    ) -> None:
        """Takes over what is played before the next search, and what the opponent was found to do."""
        player, other = self.player, 1 - self.player
        rows = [rows.copy() for rows in self.assembled.probabilities]
        infosets = self.tree.infosets[player]
        roots, root = look.roots[player], np.nonzero(adopted)[0]
        above = look.cut.root[infosets.history]
        infoset = np.nonzero(self.schedule.kept(number) & (above >= 0))[0]
        state = self.tree.infostate[player, above[infoset]]
        first = root[np.searchsorted(roots.infostate[root], state)]
        own = self.assembled.reach(player)[roots.sequence[first]] > 0
        taken = own & has_decision[roots.subgame[first]]
        mask = np.zeros((len(infosets), taken.shape[1]), np.bool_)
        mask[infoset] = taken
        rows[player] = np.where(mask[infosets.infoset[1:]], plan.probabilities[player], rows[player])
        rows[other] = np.where(inside(look, other)[:, None], plan.probabilities[other], rows[other])
        self.assembled = Policy(self.tree, (rows[0], rows[1]), self.assembled.labels)
