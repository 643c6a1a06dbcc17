"""One player's entry and body as a single treeplex, in NumPy, for one lane: input of linear programs.

A body infoset immediately below a root is attached to the entry sequence that leads to the root. The result
is an ordinary treeplex with one root per game, at which every realisation plan is 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from jaxgadget.core.host import HostTreeplex
from jaxgadget.core.lp.highs import ProgramError
from jaxgadget.core.problem import Side, Terms
from jaxgadget.core.regret import ChoiceRule
from jaxgadget.core.treeplex import to_host
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

REACH_TOLERANCE = 1e-9
"""An infoset counts as reached if plan × stake (`JoinedDecisions.stakes`) exceeds this: HiGHS's tolerance of
constraints."""

MIN_FLOOR = 2e-12
"""Smallest positive floor: HiGHS would drop smaller ones from its matrix."""

ROUNDING = 1e-11
"""Weights of a solver's plan up to this count as 0."""


class Behaviour(NamedTuple):
    """One player's behaviour in one lane: entry `[Q_entry]` and body `[Q_body]`, 0 at padding."""

    entry: FloatArray
    body: FloatArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class JoinedDecisions:
    """A player's entry and body, joined.

    Axes: S sequences and I infosets of the joined treeplex, whose G roots are the games; the S_body
    sequences of the body, R of them roots.

    Attributes:
      treeplex: the joined decisions, those of the entry first.
      num_entry: number of sequences of the entry, which come first.
      position: `[S_body]` the joined sequence of each sequence of the body.
      root: `[S_body]` the body's root above each sequence of the body.
      scale: `[S_body]` the scale of that root.
      constant: `[S]` constant payoff of each sequence of the entry.
      body_constant: `[S_body]` constant payoff of each sequence of the body, before the scale.
      game: `[S]` the game of each sequence; padding has one too.
      infoset_game: `[I]` the game of each infoset, -1 where `real` is False.
      real: `[I]` True if an infoset has a legal action and is not padding.
      weight: `[I]` weight of an infoset's value at the sequence above: the scale of the body's root if the
        infoset is immediately below one, 0 where `real` is False, otherwise 1.
      legal: `[S]` True if the sequence's action is legal and not padding.
      floor: `[S]` least probability of each action.
      floored: `[S]` True if an action has a floor, which may be 0.
    """

    treeplex: HostTreeplex
    num_entry: int
    position: IntArray
    root: IntArray
    scale: FloatArray
    constant: FloatArray
    body_constant: FloatArray
    game: IntArray
    infoset_game: IntArray
    real: BoolArray
    weight: FloatArray
    legal: BoolArray
    floor: FloatArray
    floored: BoolArray

    @property
    def num_games(self) -> int:
        """Number of games, G, including padding."""
        return self.treeplex.num_roots

    @property
    def num_body_roots(self) -> int:
        """Number of the body's roots, R, including padding."""
        return len(self.position) - (self.treeplex.num_sequences - self.num_entry)

    @property
    def infoset(self) -> IntArray:
        """`[S - G]` the infoset of every action."""
        return self.treeplex.sequence_infoset

    @property
    def above(self) -> IntArray:
        """`[S - G]` the sequence above the infoset of every action."""
        return self.treeplex.parent[self.infoset]

    def split(self, rows: FloatArray) -> Behaviour:
        """Splits rows `[S - G]` into those of the entry and those of the body."""
        return Behaviour(*np.split(rows, [self.num_entry - self.num_games]))

    def sum_actions(self, rows: FloatArray) -> FloatArray:
        """Sums over the actions of every infoset, `[S - G]` → `[I]`."""
        return sum_by(self.infoset, rows, self.treeplex.num_infosets)

    def sum_games(self, values: FloatArray) -> FloatArray:
        """Sums over the sequences of every game, `[S]` → `[G]`."""
        return sum_by(self.game, values, self.num_games)

    def constants(self) -> FloatArray:
        """`[S]` constant payoff of each sequence of a realisation plan."""
        return self.constant + self.sum_body(self.scale * self.body_constant)

    def sum_body(self, values: FloatArray) -> FloatArray:
        """Sums over the body's sequences, `[S_body]` → `[S]`."""
        return sum_by(self.position, values, self.treeplex.num_sequences)

    def payoff_reach(self, plan: FloatArray) -> FloatArray:
        """`[S_body]` reach of the payoff's sequences under a plan `[S]`."""
        return plan[self.position] * self.scale

    def values(self, gradient: FloatArray, games: FloatArray) -> FloatArray:
        """`[S]` payoff of each sequence, including constants, before the scale of the root above.

        Args:
          gradient: `[S_body]` payoff of each sequence of the body, without constants.
          games: `[G]` weight of the other player's plan in each game, by which the constants are multiplied.
        """
        weight = games[self.game]
        body = gradient + weight[self.position] * self.body_constant
        body[: self.num_body_roots] *= self.scale[: self.num_body_roots]
        return weight * self.constant + self.sum_body(body)

    def flow(self) -> csr_array:
        """`[I, S]` sum over an infoset's actions minus the sequence above it: 0 for a realisation plan."""
        infosets, count = np.arange(self.treeplex.num_infosets), len(self.infoset)
        rows = np.concatenate([self.infoset, infosets])
        columns = np.concatenate([self.num_games + np.arange(count), self.treeplex.parent])
        values = np.repeat([1.0, -1.0], [count, len(infosets)])
        return csr_array((values, (rows, columns)), (len(infosets), self.treeplex.num_sequences))

    def above_floor(self) -> csr_array:
        """`[S, S]` each sequence minus its floor × the sequence above its infoset."""
        sequences = np.arange(self.treeplex.num_sequences)
        actions = sequences[self.num_games :]
        rows, columns = np.concatenate([sequences, actions]), np.concatenate([sequences, self.above])
        values = np.concatenate([np.ones(len(sequences)), -self.floor[self.num_games :]])
        return csr_array((values, (rows, columns)), (len(sequences), len(sequences)))

    def stakes(self, root: IntArray, payoff: FloatArray, unit: FloatArray) -> FloatArray:
        """`[I]` largest payoff or constant below each infoset's root, in the game's unit; 1 in the entry.

        Args:
          root: `[m]` the body's root above each payoff.
          payoff: `[m]` the payoffs, including both players' scales.
          unit: `[G]` largest payoff of each game.
        """
        largest = np.zeros(self.num_body_roots)
        np.maximum.at(largest, root, np.abs(payoff))
        np.maximum.at(largest, self.root, np.abs(self.scale * self.body_constant))
        in_body = self.treeplex.first_sequence >= self.num_entry
        first = self.treeplex.first_sequence - self.num_entry + self.num_body_roots
        game = self.game[self.treeplex.parent]
        return np.where(in_body, largest[self.root[np.where(in_body, first, 0)]] / unit[game], 1.0)

    def plan(self, rows: FloatArray) -> FloatArray:
        """`[S]` realisation plan of a behaviour `[S - G]`, 1 at the games' roots."""
        return self.treeplex.realise(np.ones((self.num_games, 1)), rows[:, None])[:, 0]

    def behaviour(self, plan: FloatArray, stakes: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Behaviour strategy of a solver's realisation plan, corrected for rounding.

        Args:
          plan: `[S]` realisation plan.
          stakes: `[I]` result of `stakes`.

        Returns:
          `[S - G]` rows that sum to 1 and respect floors and legality (0 at padding and where no
          action is legal), and `[I]` True if the player reaches the infoset, see `REACH_TOLERANCE`.
        """
        games, above = self.num_games, plan[self.treeplex.parent]
        free = plan[games:] - self.floor[games:] * above[self.infoset]
        free = np.where(self.legal[games:] & (free > ROUNDING), free, 0.0)
        has_mass = self.sum_actions(free) > 0
        rows = self._with_floor(np.where(has_mass[self.infoset], free, self.legal[games:]))
        return rows, (above * stakes > REACH_TOLERANCE) & has_mass & self.real

    def best_response(self, values: FloatArray) -> FloatArray:
        """`[G]` value of a best response within the bounds.

        Args:
          values: `[S]` payoff of every sequence, from `values`.
        """
        no_rows = np.zeros(len(self.infoset))
        return self.respond((values,), no_rows, np.zeros(len(self.real), np.bool_), no_rows)[1]

    def respond(
        self, values: tuple[FloatArray, ...], rows: FloatArray, reached: BoolArray, fallback: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Completes a behaviour strategy by counterfactual best responses, from the bottom up.

        Source: *Solving games using decomposition*, "Generating a trunk strategy using CFR-D": a
        best response by counterfactual values wherever the player's own reach is 0.

        Args:
          values: arrays `[S]`, each the payoff of every sequence (from `values`) against one plan of the
            other player; at an infoset the first array whose payoffs below it are not all 0 determines the
            response.
          rows: `[S - G]` the behaviour strategy.
          reached: `[I]` True for infosets whose rows are kept.
          fallback: `[S - G]` rows for infosets where all values are 0.

        Returns:
          The completed rows, and `[G]` their value according to the first of `values`.
        """
        completed = rows.copy()
        q, size = np.stack(values), np.abs(np.stack(values))
        for infosets, actions in reversed(self.treeplex.level_slices()):
            action_rows = self._rows(actions)
            owner, count = self.infoset[action_rows] - infosets.start, infosets.stop - infosets.start
            sizes = np.stack([np.bincount(owner, x[actions], count) for x in size])
            chosen = fallback[action_rows]
            for k in reversed(range(len(q))):
                best = self._best_rows(q[k, actions], owner, actions, count)
                chosen = np.where((sizes[k] > 0)[owner], best, chosen)
            chosen = np.where(reached[infosets][owner], completed[action_rows], chosen)
            completed[action_rows] = np.where(self.real[infosets][owner], chosen, 0.0)
            for k in range(len(q)):
                earned = np.bincount(owner, completed[action_rows] * q[k, actions], count)
                np.add.at(q[k], self.treeplex.parent[infosets], self.weight[infosets] * earned)
                np.add.at(size[k], self.treeplex.parent[infosets], self.weight[infosets] * sizes[k])
        return completed, q[0, : self.num_games]

    def fallback(self, body_rows: FloatArray | None) -> FloatArray:
        """`[S - G]` rows for infosets where all actions are equally good: the fallback, otherwise uniform.

        Args:
          body_rows: `[Q_body]` the fallback, ignored at infosets where it does not sum to 1; floors are mixed
            in where a probability lies below its floor.

        Raises:
          ValueError: if the number of rows is not the body's number of actions.
        """
        games, infoset = self.num_games, self.infoset
        uniform = self._with_floor(self.legal[games:].astype(np.float64))
        if body_rows is None:
            return uniform
        expected = self.treeplex.num_sequences - self.num_entry
        if body_rows.shape != (expected,):
            raise ValueError(
                f"fallback has shape {body_rows.shape}: expected ({expected},), one lane of a body"
            )
        rows = np.concatenate([np.zeros(self.num_entry - games), body_rows])
        total = self.sum_actions(rows)
        is_distribution = np.abs(total - 1) < 1e-6
        is_below = self.sum_actions(np.where(rows < self.floor[games:], 1.0, 0.0)) > 0
        exact = rows / np.where(is_distribution, total, 1.0)[infoset]
        mixed = self._with_floor(np.where(self.legal[games:], rows, 0.0))
        return np.where(is_distribution[infoset], np.where(is_below[infoset], mixed, exact), uniform)

    def _rows(self, actions: slice) -> slice:
        """Slice of a level's sequences in arrays over actions."""
        return slice(actions.start - self.num_games, actions.stop - self.num_games)

    def _with_floor(self, free: FloatArray) -> FloatArray:
        """Normalises rows `[S - G]`, then mixes floors in; 0 at padding."""
        total, floor = self.sum_actions(free), self.floor[self.num_games :]
        rest = np.maximum(1.0 - self.sum_actions(floor), 0.0)
        rows = floor + (rest / np.where(total > 0, total, 1.0))[self.infoset] * free
        return np.where(self.real[self.infoset], rows, 0.0)

    def _best_rows(self, q: FloatArray, owner: IntArray, actions: slice, count: int) -> FloatArray:
        """The first of the best legal actions of each infoset of a level, floors mixed in."""
        allowed = np.where(self.legal[actions], q, -np.inf)
        best = np.full(count, -np.inf)
        np.maximum.at(best, owner, allowed)
        candidates = np.flatnonzero(allowed == best[owner])[::-1]
        first = np.zeros(count, np.int64)
        first[owner[candidates]] = candidates  # the last one written is the first of all
        floor = self.floor[actions]
        rest = np.maximum(1.0 - np.bincount(owner, floor, count), 0.0)
        return floor + rest[owner] * (np.arange(len(q)) == first[owner])


def join(side: Side, terms: Terms, lane: int, name: str = "player") -> JoinedDecisions:
    """Joins a player's entry and body.

    No decision follows an action of the entry that leads nowhere, such as terminating. Its floor therefore
    selects no equilibrium, and a floor below `MIN_FLOOR` counts as 0, which is within rounding.

    Args:
      side: the player's structure.
      terms: the player's numbers.
      lane: index of the lane.
      name: name of the player, for errors.

    Raises:
      ValueError: if floors are negative or sum to more than 1, or values are not linear in the strategy.
      ProgramError: if floors are too small for HiGHS.
    """
    if not terms.entry.linear:
        raise ValueError(
            f"the values of {name} are not linear in its strategy, because it observes noisy values before "
            "it chooses; expected algorithm='cfr+', for example, or values without a spread"
        )
    entry, body, link = to_host(side.entry), to_host(side.body), np.asarray(side.link, np.int64)
    num_entry, games = entry.num_sequences, entry.num_roots
    shift = num_entry - body.num_roots
    below_root = body.parent < body.num_roots
    body_parent = np.where(below_root, link[np.where(below_root, body.parent, 0)], body.parent + shift)
    treeplex = HostTreeplex(
        num_roots=games,
        levels=(*entry.levels, *body.levels),
        parent=np.concatenate([entry.parent, body_parent]),
        infoset=np.concatenate([entry.infoset, body.infoset]),
        num_actions=np.concatenate([entry.num_actions, body.num_actions]),
        first_sequence=np.concatenate([entry.first_sequence, body.first_sequence + shift]),
    )
    infoset = treeplex.sequence_infoset
    entry_bounds, body_bounds = _bounds(terms.entry, entry, lane), _bounds(terms.body, body, lane)
    legal, floor, floored = (
        np.concatenate([np.full(games, at_root), *parts])
        for at_root, *parts in zip((True, 0.0, False), entry_bounds, body_bounds, strict=True)
    )
    leads = np.zeros(treeplex.num_sequences, np.bool_)
    leads[num_entry:] = leads[link] = leads[treeplex.parent] = True
    floor = np.where(leads | (floor < 0) | (floor >= MIN_FLOOR), floor, 0.0)
    _check_floors(floor[games:], infoset, name)
    game, exists = treeplex.root_of(), treeplex.infoset >= 0
    legal[games:] &= exists[infoset]
    real = exists & (np.bincount(infoset, legal[games:], treeplex.num_infosets) > 0)
    root = body.root_of()
    scale = np.ones(body.num_roots) if terms.scale is None else _lane(terms.scale, lane)
    weight = np.where(below_root, scale[root[body.parent]], 1.0)
    constant = terms.body_constant
    return JoinedDecisions(
        treeplex=treeplex,
        num_entry=num_entry,
        position=np.concatenate([link, np.arange(num_entry, treeplex.num_sequences)]),
        root=root,
        scale=scale[root],
        constant=np.pad(_lane(terms.constant, lane), (0, treeplex.num_sequences - num_entry)),
        body_constant=np.zeros(len(root)) if constant is None else _lane(constant, lane),
        game=game,
        infoset_game=np.where(real, game[treeplex.parent], -1),
        real=real,
        weight=np.where(real, np.concatenate([np.ones(entry.num_infosets), weight]), 0.0),
        legal=legal,
        floor=floor,
        floored=floored,
    )


def sum_by(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """`[size]` sums of the values with each index."""
    return np.asarray(np.bincount(index, values, size), np.float64)


def _lane(values: Any, lane: int) -> FloatArray:
    return np.asarray(values, np.float64)[:, lane]


def _bounds(choice: ChoiceRule, treeplex: HostTreeplex, lane: int) -> tuple[BoolArray, FloatArray, BoolArray]:
    """Legal actions, floors, and which actions have one, `[Q]` each."""
    count = treeplex.num_sequences - treeplex.num_roots
    legal = np.ones(count, np.bool_) if choice.legal is None else _lane(choice.legal, lane) > 0
    floor = np.zeros(count) if choice.floor is None else _lane(choice.floor, lane)
    return legal, floor, np.full(count, choice.floor is not None)


def _check_floors(floor: FloatArray, infoset: IntArray, name: str) -> None:
    total = np.bincount(infoset, floor, 1)
    if (floor < 0).any() or (total > 1 + 1e-12).any() or not np.isfinite(floor).all():
        raise ValueError(
            f"floors of {name} have minimum {floor.min():.3g} and sum to up to {total.max():.3g} in an "
            "infoset: expected numbers >= 0 that sum to at most 1"
        )
    small = floor[(floor > 0) & (floor < MIN_FLOOR)]
    if len(small):
        raise ProgramError(
            f"floors of {name} are as small as {small.min():.1e}: HiGHS drops coefficients below "
            f"{MIN_FLOOR:.0e}; a floor is ε × the prior's probability, or p × the model's probability in a "
            "data-biased response: set these products to 0 or increase them, or use CFR"
        )
