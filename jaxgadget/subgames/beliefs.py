"""Beliefs about a player's own play outside the infostate from which it searches.

A search from an own infostate I contains the opponent's infostates J that meet I. Each J also meets other own
infostates, and the strategy there enters masses, alternative values and the frozen part of the subgame. At
the first level this strategy is the blueprint. At later levels there are two choices.

- *assembled*: the strategy found by the search from each own infostate. All searches of a level share one
  belief, on the subgames of the cut.
- *believed*: the strategy known to an agent that has searched only from the infostates it visited. The
  blueprint of its search is the blueprint of the previous search, updated wherever that search was free:
  below its own root infostate (order 1, frozen), below all infostates that it freed (order k), or below all
  infostates that it retained (unfrozen). Elsewhere the blueprint is unchanged. All searches that follow the
  same search therefore share a belief, and a forest of beliefs has one subgame for each previous search,
  with everything that it retained.

For the opponent, every search uses the strategy found by the previous search in its own subgame. Beyond the
limit of a lookahead both players follow the blueprint.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from jaxgadget.gadgets.frozen import Frozen, find_frozen, split_ranges
from jaxgadget.gadgets.ranges import Ranges
from jaxgadget.gadgets.structure import build_structure, find_ranges
from jaxgadget.policy.policy import Policy
from jaxgadget.subgames.knowledge import Knowledge
from jaxgadget.subgames.profile import Profile, root_reach
from jaxgadget.tree.cover import Cover, build_cover, cover_of
from jaxgadget.tree.cut import Cut
from jaxgadget.tree.forest import Forest, build_forest, find_copies
from jaxgadget.tree.knowledge import KnowledgeCover, knowledge_cover
from jaxgadget.tree.sequence import find_runs, spread_runs
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.players import pair_for


@dataclasses.dataclass(frozen=True, eq=False)
class Belief:
    """Assumed strategy of the searching player below the roots of a level, L lanes.

    Attributes:
      forest: subgames in which each of the opponent's infostates is whole.
      strategy: `[Q, L]` the player's strategy in each subgame.
      reach: `[R, L]` the player's reach of its roots in the forest.
    """

    forest: Forest
    strategy: FloatArray
    reach: FloatArray

    def plan(self, player: int) -> FloatArray:
        """`[sequences, L]` the strategy as a realisation plan."""
        return self.forest.form.treeplex[player].realise(self.reach, self.strategy)


@dataclasses.dataclass(frozen=True, eq=False)
class OwnSpot:
    """Own infostates of a level from which the player is about to search: I infostates in S subgames.

    Attributes:
      known: the subgames.
      lookahead: their lookahead, with values at its limit.
      within: `[S]` index of the belief's subgame that contains each subgame.
      belief: the belief down to the lookahead's limit.
      ranges: ranges at the roots.
      frozen: contribution of the frozen own infostates outside each subgame.
    """

    known: KnowledgeCover
    lookahead: Forest
    within: IntArray
    belief: Belief
    ranges: Ranges
    frozen: Frozen

    @functools.cached_property
    def adopted(self) -> tuple[BoolArray, BoolArray]:
        """For each player `[R_p]` mask of the roots below which strategies are adopted.

        For the searching player, these are the roots of the infostate from which each search starts.
        """
        player = self.known.player
        own, theirs = (np.zeros(len(self.lookahead.roots[p]), np.bool_) for p in (player, 1 - player))
        own[self.known.target] = True
        return pair_for(player, own, theirs)


@dataclasses.dataclass(frozen=True, eq=False)
class OwnSearches:
    """Results of searches from own infostates.

    Attributes:
      spot: the infostates searched from.
      strategy: both players' strategies `[Q_p, L]` in the lookahead.
    """

    spot: OwnSpot
    strategy: tuple[FloatArray, FloatArray]

    @functools.cached_property
    def plans(self) -> tuple[FloatArray, FloatArray]:
        """Both players' strategies as realisation plans `[sequences, L]`."""
        ranges, player = self.spot.ranges, self.spot.known.player
        reach = pair_for(player, ranges.resolver, ranges.opponent)
        first, second = (
            treeplex.realise(top, rows)
            for treeplex, top, rows in zip(
                self.spot.lookahead.form.treeplex, reach, self.strategy, strict=True
            )
        )
        return first, second


@dataclasses.dataclass(frozen=True, eq=False)
class Beliefs:
    """Settings of a player's search from its own infostates.

    Attributes:
      knowledge: the order, and the belief about the player's own play elsewhere.
      player: the searching player.
      blueprint: policies, L lanes.
      num_choices: K, the number of entries at limits.
      platform: platform of the devices that will solve.
    """

    knowledge: Knowledge
    player: int
    blueprint: Policy
    num_choices: int
    platform: str | None

    def first_spot(self, where: Cut, leaves: IntArray, values: FloatArray) -> OwnSpot:
        """Own infostates of the first level, where the blueprint is the belief.

        Args:
          where: the cut at their decisions.
          leaves: `[H]` histories at which lookaheads end.
          values: `[H, K, K]` values of these histories.
        """
        known = self._known(where)
        base = self._lookahead(cover_of(where), leaves, values)
        profile = Profile.of_blueprint(base, self.blueprint)
        belief = Belief(base, profile.body(base, self.player), root_reach(base, self.blueprint)[self.player])
        lookahead = self._lookahead(known.cover, leaves, values)
        reach = root_reach(lookahead, self.blueprint)[1 - self.player]
        return self._spot(known, lookahead, _components(known), belief, belief, reach)

    def next_spot(
        self,
        above: OwnSearches,
        where: Cut,
        leaves: tuple[IntArray, IntArray],
        values: tuple[FloatArray, FloatArray],
    ) -> OwnSpot:
        """Own infostates of a later level.

        Args:
          above: searches of the level above, including at least all that lie above these decisions.
          where: the cut at these decisions.
          leaves: histories at which the lookaheads above end and that lie below the cut, then those at which
            the new lookaheads end.
          values: values at both.
        """
        before = _search_before(above, where)
        known = self._known(where, before)
        first = np.unique(known.subgame, return_index=True)[1]
        if self.knowledge.follow == "assembled":
            cover, within, source = cover_of(where), _components(known), None
        else:
            source, within = np.unique(before[first], return_inverse=True)
            cover = _kept_below(above.spot.lookahead, 1 - self.player, where, source)
        inner = self._belief(above, self._lookahead(cover, leaves[0], values[0]), source)
        outer = inner
        if len(leaves[0]) or len(leaves[1]):
            outer = self._continued(inner, self._lookahead(cover, leaves[1], values[1]))
        lookahead = self._lookahead(known.cover, leaves[1], values[1])
        other, roots = 1 - self.player, lookahead.roots[1 - self.player]
        reach = _reach_below(
            above.spot.lookahead, above.plans[other], lookahead, other, before[first][roots.subgame]
        )
        return self._spot(known, lookahead, within, inner, outer, reach)

    def copies(self, above: OwnSearches | None, where: Cut) -> IntArray:
        """`[H]` number of subgames that contain each root: those of own infostates, or of beliefs if more.

        Args:
          above: the searches of the level above; None at the first one.
          where: the cut at own decisions.
        """
        before = None if above is None else _search_before(above, where)
        covers = [self._known(where, before).cover]
        if above is not None and before is not None and self.knowledge.follow == "believed":
            covers.append(_kept_below(above.spot.lookahead, 1 - self.player, where, np.unique(before)))
        counts = [
            np.bincount(np.searchsorted(where.roots, cover.roots), minlength=len(where.roots))
            for cover in covers
        ]
        return np.max(counts, axis=0)

    def _known(self, where: Cut, before: IntArray | None = None) -> KnowledgeCover:
        order, unfrozen = self.knowledge.order, self.knowledge.unfrozen
        return knowledge_cover(where, self.player, order, unfrozen=unfrozen, apart=before)

    def _lookahead(self, cover: Cover, leaves: IntArray, values: FloatArray) -> Forest:
        lookahead = build_forest(cover.tree, cover, limit=leaves, num_choices=self.num_choices)
        return lookahead.with_values(values)

    def _spot(
        self,
        known: KnowledgeCover,
        lookahead: Forest,
        within: IntArray,
        inner: Belief,
        outer: Belief,
        opponent: FloatArray,
    ) -> OwnSpot:
        """Ranges and frozen contributions of beliefs at own infostates.

        Args:
          known: the subgames.
          lookahead: their lookahead.
          within: index of the belief's subgame that contains each subgame.
          inner: belief down to the limit above, where values are known.
          outer: belief down to the limit of these lookaheads.
          opponent: `[R, L]` the opponent's reach.
        """
        structure = build_structure(inner.forest, self.player, self.platform)
        theirs = inner.forest.form.treeplex[1 - self.player]
        unknown = np.zeros((theirs.num_sequences - theirs.num_roots, self.blueprint.num_lanes))
        no_reach = np.zeros((len(inner.forest.roots[1 - self.player]), self.blueprint.num_lanes))
        strategy, reach = (inner.strategy, unknown), (inner.reach, no_reach)
        if self.player == 1:
            strategy, reach = (unknown, inner.strategy), (no_reach, inner.reach)
        around = find_ranges(structure, strategy, reach)
        return OwnSpot(
            known=known,
            lookahead=lookahead,
            within=within,
            belief=outer,
            ranges=split_ranges(around, inner.forest, lookahead, self.player, within, opponent),
            frozen=find_frozen(outer.forest, lookahead, self.player, outer.plan(self.player), within),
        )

    def _belief(self, above: OwnSearches, base: Forest, source: IntArray | None) -> Belief:
        """Belief below the searches of the level above, down to their limit.

        Args:
          above: the searches of the level above.
          base: the parts retained by these searches, as subgames of the belief.
          source: `[S]` search whose result is the belief in each subgame; None for the search from each own
            infostate.
        """
        player, spot = self.player, above.spot
        lookahead, before, roots = spot.lookahead, spot.belief, base.roots[player]
        state = _state_above(lookahead.cut, base.cut, player, roots.infostate)
        if source is None:
            subgame = spot.known.subgame[np.searchsorted(spot.known.infostate, state)]
        else:
            subgame = source[roots.subgame]
        around = spot.within[subgame]  # the belief that the search assumed
        freed = lookahead.find_root(player, state, subgame) >= 0
        searched = find_copies(lookahead, base, player, np.where(freed, subgame, -1))
        believed = find_copies(before.forest, base, player, np.where(freed, -1, around))
        top = base.form.treeplex[player].num_roots
        strategy = np.zeros((len(searched) - top, self.blueprint.num_lanes))
        for number, forest, rows in (
            (searched[top:], lookahead, above.strategy[player]),
            (believed[top:], before.forest, before.strategy),
        ):
            strategy[number >= 0] = rows[number[number >= 0] - forest.form.treeplex[player].num_roots]
        reach = np.where(
            freed[:, None],
            _reach_below(lookahead, above.plans[player], base, player, subgame),
            _reach_below(before.forest, before.plan(player), base, player, around),
        )
        return Belief(base, strategy, reach)

    def _continued(self, belief: Belief, base: Forest) -> Belief:
        """Extends the belief to another limit with the blueprint, which is entry 0 at that limit."""
        player = self.player
        number = find_copies(belief.forest, base, player, base.roots[player].subgame)
        number = number[base.form.treeplex[player].num_roots :]
        in_tree = base.form.action_sequences(player) < base.tree.infosets[player].num_sequences
        inside = in_tree & (number >= 0)
        strategy = Profile.of_blueprint(base, self.blueprint).body(base, player)
        top = belief.forest.form.treeplex[player].num_roots
        strategy[inside] = belief.strategy[number[inside] - top]
        return Belief(base, strategy, belief.reach)


def _components(known: KnowledgeCover) -> IntArray:
    """`[S]` index of the cut's own subgame that contains each subgame."""
    pair = np.unique(known.cover.subgame, return_index=True)[1]
    return known.cut.subgame[np.searchsorted(known.cut.roots, known.cover.roots[pair])]


def _state_above(above: Cut, where: Cut, player: int, infostate: IntArray) -> IntArray:
    """`[m]` a player's infostate of the level above, for each of the given root infostates."""
    states, first = np.unique(where.histories.infostate[player, where.roots], return_index=True)
    root = where.roots[first[np.searchsorted(states, infostate)]]
    return where.histories.infostate[player, above.root[root]]


def _search_before(above: OwnSearches, where: Cut) -> IntArray:
    """`[I]` subgame of the previous search, for each own infostate in ascending order of ids."""
    known = above.spot.known
    own = np.unique(where.histories.infostate[known.player, where.roots])
    state = _state_above(known.cut, where, known.player, own)
    return known.subgame[np.searchsorted(known.infostate, state)]


def _kept_below(lookahead: Forest, opponent: int, where: Cut, searches: IntArray) -> Cover:
    """A cover with one subgame for each search: the next level's roots below everything that it retained.

    Args:
      lookahead: lookahead of the searches.
      opponent: the player whose root infostates are kept whole.
      where: the cut of the next level.
      searches: indices of subgames, ascending.
    """
    roots = lookahead.roots[opponent]
    theirs = where.histories.infostate[opponent, lookahead.cut.root[where.roots]]
    below, root = spread_runs(*find_runs(roots.infostate, theirs), np.arange(len(theirs)))
    subgame = roots.subgame[root]
    searched = np.isin(subgame, searches)
    return build_cover(where, where.roots[below[searched]], np.searchsorted(searches, subgame[searched]))


def _reach_below(
    forest: Forest, plan: FloatArray, below: Forest, player: int, subgame: IntArray
) -> FloatArray:
    """`[R, L]` a player's reach of the roots of a lower level, 0 for unreachable roots.

    Args:
      forest: forest of the level above.
      plan: `[sequences, L]` the player's realisation plan in it.
      below: forest of the lower level.
      player: the player.
      subgame: `[R]` subgame of `forest` in which each root is looked up.
    """
    roots = below.roots[player]
    state = _state_above(forest.cut, below.cut, player, roots.infostate)
    root = forest.find_root(player, state, subgame)
    copy = forest.roots[player].copy()
    sequence = forest.form.below_roots(player, copy, np.maximum(root, 0), roots.sequence)
    return np.where(root[:, None] >= 0, plan[sequence], 0)


def is_private(knowledge: Knowledge | None) -> bool:
    """True if searches start from own infostates; at order ∞ they start from public states."""
    return knowledge is not None and knowledge.order < math.inf
