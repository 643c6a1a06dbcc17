"""The opponent's way into the subgames: one entry of two levels, filled in by a gadget's tables.

The opponent picks a root infostate of a subgame, then follows into it or terminates. A gadget is a
function from ranges to `EntryTables`: what the two choices are worth by themselves, which of their
actions exist, and how likely they are at least. A level in which no gadget of a solve has a choice is
left out:

- unsafe has none: its opponent enters as its blueprint does, and the entry is empty;
- resolving does not pick: every root has its own follow or terminate;
- max-margin only picks.

Gadgets with different choices still stand side by side as lanes of one entry. A gadget that does not
pick then picks every root of a subgame with the floor 1/n, which leaves no choice, and all that follows
counts n times; for one that cannot terminate, terminating is illegal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np

from jaxgadget.gadgets.ranges import sum_rows
from jaxgadget.kernels.problem import Terms
from jaxgadget.kernels.regret import Bounds
from jaxgadget.kernels.rows import on_host, pad_rows
from jaxgadget.tree.sequence import HostTreeplex, Rounding, build_treeplex, exact_size, slots_in_groups
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray

BoundRule = Literal["sum", "max"]
"""How the losses of all games bound the rise of exploitability: they add up, or the largest counts."""


class Pick(NamedTuple):
    """The choice of a root infostate; R roots, L lanes.

    Attributes:
      legal: `[R, L]` which ones may be picked.
      floor: `[R, L]` how likely each is at least.
      earns: `[R, L]` what the opponent earns by picking it, besides what follows.
    """

    legal: BoolArray
    floor: FloatArray
    earns: FloatArray


class Leave(NamedTuple):
    """The choice to follow into a root infostate or to terminate; R roots, L lanes.

    Attributes:
      follow_floor: `[R, L]` how likely following is at least.
      terminate_floor: `[R, L]` how likely terminating is at least.
      earns: `[R, L]` what the opponent earns by terminating.
      spread: `[R, L]` the standard deviation of that, where it learns a draw before it chooses; None if it is
        that and nothing else.
    """

    follow_floor: FloatArray
    terminate_floor: FloatArray
    earns: FloatArray
    spread: FloatArray | None = None


class Bound(NamedTuple):
    """What a solution's certificate says of exploitability.

    Each game adds at most `[gap + Σ_s weight(s)·(V(s) − V̄(s))]⁺ / (1 − ε)` to that of the blueprint.

    Attributes:
      rule: how the games' losses go together.
      weight: `[R, L]` of each root.
      alternative: `[R, L]` `V̄(s)`.
      epsilon: ε.
    """

    rule: BoundRule
    weight: FloatArray
    alternative: FloatArray
    epsilon: float


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class EntryTables:
    """A gadget in numbers, a lane for every blueprint; R roots of the opponent, S subgames, L lanes.

    Attributes:
      scale: `[R, L]` a root's reach is this × how likely the opponent enters it.
      has_decision: `[S, L]` whether there is anything to solve; elsewhere the blueprint stays.
      pick: the choice among a subgame's roots; None if there is none and all are entered.
      leave: the choice at each root; None if there is none and it is followed.
      bound: of exploitability; None if none is known.
    """

    scale: FloatArray
    has_decision: BoolArray
    pick: Pick | None = None
    leave: Leave | None = None
    bound: Bound | None = None

    def considering(self, considered: BoolArray) -> EntryTables:
        """The same where the opponent cannot enter all roots; nothing is known of exploitability then.

        Args:
          considered: `[R, L]` which ones it can enter. Terminating at the others earns nothing.
        """
        pick, leave = self.pick, self.leave
        if pick is not None:
            floor = np.where(considered, pick.floor, 0)
            pick = pick._replace(legal=pick.legal & considered, floor=floor)
        if leave is not None:
            spread = None if leave.spread is None else np.where(considered, leave.spread, 0)
            leave = leave._replace(earns=np.where(considered, leave.earns, 0), spread=spread)
        scale = np.where(considered, self.scale, 0)
        return dataclasses.replace(self, scale=scale, pick=pick, leave=leave, bound=None)


class Entry(Protocol):
    """The opponent's decisions above its roots, on the host.

    Attributes:
      treeplex: the decisions; each of its roots is a game of its own.
      link: `[R]` the sequence above each of the opponent's roots.
      game: `[S]` the game that each subgame belongs to.
    """

    @property
    def treeplex(self) -> HostTreeplex:
        """See above."""
        ...

    @property
    def link(self) -> IntArray:
        """See above."""
        ...

    @property
    def game(self) -> IntArray:
        """See above."""
        ...

    @property
    def num_games(self) -> int:
        """Games that are solved by themselves, padding not included."""
        ...

    def terms(self, number: int, lanes: IntArray) -> Terms:
        """The opponent's numbers of one gadget for some blueprints, in float64 on the host.

        Args:
          number: of the gadget.
          lanes: of blueprints.
        """
        ...

    def has_decision(self, number: int) -> BoolArray:
        """`[S, L]` whether a gadget has anything to solve in a subgame."""
        ...

    def bound_rule(self, number: int) -> BoundRule | None:
        """How the losses of a gadget's games bound exploitability; None if no bound is known."""
        ...

    def losses(self, number: int, lanes: IntArray, gap: FloatArray, values: FloatArray) -> FloatArray:
        """`[games, L]` the most that each game's solution may add to exploitability, if a bound is known.

        Args:
          number: of the gadget.
          lanes: `[L]` of blueprints.
          gap: `[games, L]` NashConv of its games, padding not included.
          values: `[R, L]` `V(s)` of the refined strategy, in the resolving player's utility.
        """
        ...


class TwoLevelEntry:
    """Pick a root infostate, then follow or terminate: the entry of all gadgets that do not copy the trunk.

    Attributes:
      tables: of the gadgets that stand side by side.
      treeplex: the levels in which one of them has a choice.
      link: `[R]` the sequence above each of the opponent's roots.
      game: `[S]` every subgame is a game.
      picked: `[R]` the sequence that picks each root; None if nobody picks.
      left: `[R]` the sequence that terminates there; None if nobody can.
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
        """Lays the entry out.

        Args:
          subgame: `[R]` of each of the opponent's roots.
          num_subgames: S.
          tables: of the gadgets.
          num_padded: the opponent's roots with padding; R by default.
          rounding: how sizes are rounded up.
        """
        self.tables, self.game, self._subgame = tuple(tables), np.arange(num_subgames), subgame
        self._num_padded = len(subgame) if num_padded is None else num_padded
        num_roots = len(subgame)
        slot, roots_of = slots_in_groups(subgame, num_subgames)
        self._pick_floor = (1 / roots_of)[subgame][:, None]
        picks = any(table.pick is not None for table in tables)
        leaves = any(table.leave is not None for table in tables)
        none = np.zeros(0, np.int64)
        # A pick for every subgame, then follow or terminate for every root, as far as anybody can.
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
        """See `Entry`."""
        return len(self.game)

    def terms(self, number: int, lanes: IntArray) -> Terms:
        """See `Entry`."""
        table, num_sequences = self.tables[number], self.treeplex.num_sequences
        scale = table.scale[:, lanes]
        shape = (num_sequences, scale.shape[1])
        floor, constant, legal = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
        spread = np.full(shape, np.nan)
        times = 1.0  # what follows a forced pick counts for itself
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
        bounds, games = Bounds(), self.treeplex.num_roots
        if self.treeplex.num_infosets:
            masked = self.picked is not None or any(other.leave is None for other in self.tables)
            bounds = Bounds(legal=on_host(legal[games:]) if masked else None, floor=on_host(floor[games:]))
        padded = pad_rows(times * scale, self._num_padded, 0)
        is_drawn = any(other.leave is not None and other.leave.spread is not None for other in self.tables)
        return Terms(
            scale=on_host(padded),
            constant=on_host(constant),
            spread=on_host(spread[games:]) if is_drawn else None,
            entry=bounds,
        )

    def has_decision(self, number: int) -> BoolArray:
        """See `Entry`."""
        return self.tables[number].has_decision

    def bound_rule(self, number: int) -> BoundRule | None:
        """See `Entry`."""
        bound = self.tables[number].bound
        return None if bound is None else bound.rule

    def losses(self, number: int, lanes: IntArray, gap: FloatArray, values: FloatArray) -> FloatArray:
        """See `Entry`."""
        bound = self.tables[number].bound
        if bound is None:
            return np.full_like(gap, np.nan)
        change = bound.weight[:, lanes] * (values - bound.alternative[:, lanes])
        traded = sum_rows(self._subgame, change, self.num_games)
        return np.maximum(gap + traded, 0) / (1 - bound.epsilon)
