"""The opponent's entry into the subgames: two levels of decisions, whose numbers are a gadget's tables.

The opponent picks a root infostate of a subgame, then follows into it or terminates. A gadget is a
function from ranges to `EntryTables`: values of the two choices, their legal actions, and least
probabilities. A level in which no gadget of a solve has a choice is omitted:

- unsafe has neither level: the opponent enters with its blueprint's range, and the entry is empty;
- resolving has no pick: at every root the opponent follows or terminates;
- max-margin has only the pick.

Gadgets with different choices can still be lanes of one entry. The opponent of a gadget without a pick then
picks each of the n roots of a subgame with a floor of 1/n, which leaves no choice, and all payoffs below are
multiplied by n. For gadgets without termination, terminating is illegal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from jaxgadget.core.host import HostTreeplex, Rounding, build_treeplex, exact_size, slots_in_groups
from jaxgadget.core.noise import NoisyChoice
from jaxgadget.core.problem import Terms
from jaxgadget.core.regret import ChoiceRule
from jaxgadget.core.rows import on_host, pad_rows
from jaxgadget.gadgets.ranges import sum_rows
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

BoundRule = Literal["sum", "max"]
"""Rule that combines the losses of all games to a bound on the rise of exploitability: `sum` or `max`."""


class Pick(NamedTuple):
    """The choice of a root infostate; R roots, L lanes.

    Attributes:
      legal: `[R, L]` roots that may be picked.
      floor: `[R, L]` least probability of each root.
      earns: `[R, L]` constant payoff of the opponent for picking each root.
    """

    legal: BoolArray
    floor: FloatArray
    earns: FloatArray


class Leave(NamedTuple):
    """The choice to follow into a root infostate or to terminate; R roots, L lanes.

    Attributes:
      follow_floor: `[R, L]` least probability of following.
      terminate_floor: `[R, L]` least probability of terminating.
      earns: `[R, L]` payoff of the opponent for terminating.
      spread: `[R, L]` standard deviation of that payoff, of which the opponent observes a draw before it
        chooses; None if it is deterministic.
    """

    follow_floor: FloatArray
    terminate_floor: FloatArray
    earns: FloatArray
    spread: FloatArray | None = None


class Bound(NamedTuple):
    """Bound on exploitability that follows from a solution's certificate.

    Each game adds at most `[gap + Σ_s weight(s)·(V(s) − V̄(s))]⁺ / (1 − ε)` to the blueprint's
    exploitability.

    Attributes:
      rule: rule that combines the games' losses.
      weight: `[R, L]` weight of each root.
      alternative: `[R, L]` alternative values `V̄(s)`, in the resolving player's utility.
      epsilon: probability of mistakes, ε.
    """

    rule: BoundRule
    weight: FloatArray
    alternative: FloatArray
    epsilon: float


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class EntryTables:
    """A gadget's numbers, with one lane per blueprint; R roots of the opponent, S subgames, L lanes.

    Attributes:
      scale: `[R, L]` factor from the opponent's probability of entering each root to the root's reach.
      has_decision: `[S, L]` True where there is a decision to solve; elsewhere the blueprint is kept.
      pick: the choice among a subgame's roots; None if all are entered.
      leave: the choice at each root; None if every root is followed.
      bound: bound on exploitability; None if there is none.
    """

    scale: FloatArray
    has_decision: BoolArray
    pick: Pick | None = None
    leave: Leave | None = None
    bound: Bound | None = None

    def considering(self, considered: BoolArray) -> EntryTables:
        """The tables of a search that considers only some roots, without a bound on exploitability.

        Args:
          considered: `[R, L]` roots that the opponent can enter. Terminating at the others pays 0.
        """
        return dataclasses.replace(self.restricted(considered), bound=None)

    def restricted(self, possible: BoolArray) -> EntryTables:
        """The tables if only some roots are possible, with bounds that include only these.

        Args:
          possible: `[R, L]` True for roots that the opponent can enter. Terminating at the others pays 0.
        """
        pick, leave, bound = self.pick, self.leave, self.bound
        if pick is not None:
            floor = np.where(possible, pick.floor, 0)
            pick = pick._replace(legal=pick.legal & possible, floor=floor)
        if leave is not None:
            spread = None if leave.spread is None else np.where(possible, leave.spread, 0)
            leave = leave._replace(earns=np.where(possible, leave.earns, 0), spread=spread)
        if bound is not None:
            bound = bound._replace(weight=np.where(possible, bound.weight, 0))
        scale = np.where(possible, self.scale, 0)
        return dataclasses.replace(self, scale=scale, pick=pick, leave=leave, bound=bound)


class Entry(Protocol):
    """The opponent's decisions above its roots, on the host."""

    @property
    def treeplex(self) -> HostTreeplex:
        """The decisions; each root is a separate game."""
        ...

    @property
    def link(self) -> IntArray:
        """`[R]` the sequence above each of the opponent's roots."""
        ...

    @property
    def game(self) -> IntArray:
        """`[S]` the game that each subgame belongs to."""
        ...

    @property
    def num_games(self) -> int:
        """Number of independent games, without padding."""
        ...

    def terms(self, gadget_idx: int, lanes: IntArray) -> Terms:
        """The opponent's terms of one gadget for some blueprints, in float64 on the host.

        Args:
          gadget_idx: index of the gadget.
          lanes: `[L]` indices of blueprints.
        """
        ...

    def has_decision(self, gadget_idx: int) -> BoolArray:
        """`[S, L]` True where a gadget has a decision to solve."""
        ...

    def bound_rule(self, gadget_idx: int) -> BoundRule | None:
        """Rule that combines losses to a bound on exploitability; None if no bound is known."""
        ...

    def entered(self, gadget_idx: int, reach: FloatArray) -> FloatArray:
        """`[R, L]` probability that the opponent's choices in a gadget lead to each root; NaN without any.

        Args:
          gadget_idx: index of the gadget.
          reach: `[R, L]` its reach of the sequence above each root, in this entry.
        """
        ...

    def losses(self, gadget_idx: int, lanes: IntArray, gap: FloatArray, values: FloatArray) -> FloatArray:
        """`[games, L]` bound on each game's contribution to exploitability; NaN if no bound is known.

        Args:
          gadget_idx: index of the gadget.
          lanes: `[L]` indices of blueprints.
          gap: `[games, L]` NashConv of its games, without padding.
          values: `[R, L]` `V(s)` of the refined strategy, in the resolving player's utility.
        """
        ...


class TwoLevelEntry:
    """Entry of all gadgets that do not copy the trunk: pick a root infostate, then follow or terminate.

    Attributes:
      tables: tables of the gadgets in the entry.
      treeplex: the levels in which at least one of the gadgets has a choice.
      link: `[R]` the sequence above each of the opponent's roots.
      game: `[S]` the game of each subgame: every subgame is a separate game.
      picked: `[R]` the sequence that picks each root; None without a pick.
      left: `[R]` the sequence that terminates at each root; None if terminating is impossible.
    """

    def __init__(
        self,
        subgame: IntArray,
        num_subgames: int,
        tables: Sequence[EntryTables],
        *,
        num_padded: int | None = None,
        rounding: Rounding = exact_size,
    ):
        """Lays out the entry.

        Args:
          subgame: `[R]` subgame of each of the opponent's roots.
          num_subgames: number of subgames, S.
          tables: tables of the gadgets.
          num_padded: number of the opponent's roots including padding; R by default.
          rounding: rounding of sizes.
        """
        self.tables, self.game, self._subgame = tuple(tables), np.arange(num_subgames), subgame
        self._num_padded = len(subgame) if num_padded is None else num_padded
        num_roots = len(subgame)
        slot, roots_of = slots_in_groups(subgame, num_subgames)
        self._pick_floor = (1 / roots_of)[subgame][:, None]
        picks = any(table.pick is not None for table in tables)
        leaves = any(table.leave is not None for table in tables)
        none = np.zeros(0, np.int64)
        # A pick for every subgame, then follow or terminate for every root, if any gadget has these choices.
        above = np.arange(num_subgames) if picks else none
        below = np.arange(num_roots) if leaves else none
        unpicked = np.full(len(below), -1)
        self.treeplex, position = build_treeplex(
            num_roots=num_subgames,
            depth=np.repeat([0, int(picks)], [len(above), len(below)]),
            num_actions=np.concatenate([roots_of[above], np.full(len(below), 2)]),
            parent_infoset=np.concatenate([np.full(len(above), -1), subgame[below] if picks else unpicked]),
            parent_slot=np.concatenate([above, slot[below] if picks else subgame[below]]),
            infoset=np.arange(len(above) + len(below)),
            rounding=rounding,
        )
        self.picked: IntArray | None = None
        self.left: IntArray | None = None
        self.link: IntArray = subgame.astype(np.int64)
        if picks:
            self.link = self.picked = self.treeplex.sequence(position[subgame], slot)
        if leaves:
            stays = position[len(above) :]
            self.link = self.treeplex.sequence(stays, np.zeros(num_roots, np.int64))
            self.left = self.treeplex.sequence(stays, np.ones(num_roots, np.int64))

    @property
    def num_games(self) -> int:
        """Number of independent games, without padding."""
        return len(self.game)

    def terms(self, gadget_idx: int, lanes: IntArray) -> Terms:
        """The opponent's terms of one gadget for some blueprints, in float64 on the host."""
        table, num_sequences = self.tables[gadget_idx], self.treeplex.num_sequences
        scale = table.scale[:, lanes]
        shape = (num_sequences, scale.shape[1])
        floor, constant, legal = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
        spread = np.full(shape, np.nan)
        times = 1.0  # a forced pick of probability 1/n is compensated by a factor n below it
        if self.picked is not None:
            if table.pick is None:
                floor[self.picked], times = self._pick_floor, 1 / self._pick_floor
                legal[self.picked] = True
            else:
                floor[self.picked] = table.pick.floor[:, lanes]
                constant[self.picked] = table.pick.earns[:, lanes]
                legal[self.picked] = table.pick.legal[:, lanes]
        if self.left is not None:
            legal[self.link], legal[self.left] = True, table.leave is not None
            if table.leave is not None:
                floor[self.link] = table.leave.follow_floor[:, lanes]
                floor[self.left] = table.leave.terminate_floor[:, lanes]
                constant[self.left] = times * table.leave.earns[:, lanes]
                if table.leave.spread is not None:
                    spread[self.left] = times * table.leave.spread[:, lanes]
        choice, games = ChoiceRule(), self.treeplex.num_roots
        if self.treeplex.num_infosets:
            masked = self.picked is not None or any(other.leave is None for other in self.tables)
            choice = ChoiceRule(
                legal=on_host(legal[games:]) if masked else None, floor=on_host(floor[games:])
            )
        if any(other.leave is not None and other.leave.spread is not None for other in self.tables):
            noise = on_host(spread[games:])
            choice = NoisyChoice(legal=choice.legal, floor=choice.floor, deviation=noise)
        padded = pad_rows(times * scale, self._num_padded, 0)
        return Terms(scale=on_host(padded), constant=on_host(constant), entry=choice)

    def has_decision(self, gadget_idx: int) -> BoolArray:
        """`[S, L]` True where a gadget has a decision to solve."""
        return self.tables[gadget_idx].has_decision

    def bound_rule(self, gadget_idx: int) -> BoundRule | None:
        """Rule that combines losses to a bound on exploitability; None if no bound is known."""
        bound = self.tables[gadget_idx].bound
        return None if bound is None else bound.rule

    def entered(self, gadget_idx: int, reach: FloatArray) -> FloatArray:
        """`[R, L]` probability of picking, or of following into, each root; NaN without either choice."""
        table = self.tables[gadget_idx]
        if table.pick is None and table.leave is None:
            return np.full_like(reach, np.nan)
        is_forced = self.picked is not None and table.pick is None
        return reach / self._pick_floor if is_forced else reach

    def losses(self, gadget_idx: int, lanes: IntArray, gap: FloatArray, values: FloatArray) -> FloatArray:
        """`[games, L]` bound on each game's contribution to exploitability; NaN if no bound is known."""
        bound = self.tables[gadget_idx].bound
        if bound is None:
            return np.full_like(gap, np.nan)
        change = bound.weight[:, lanes] * (values - bound.alternative[:, lanes])
        traded = sum_rows(self._subgame, change, self.num_games)
        return np.maximum(gap + traded, 0) / (1 - bound.epsilon)
