"""Gadgets whose entry copies the opponent's trunk: full, and the optimal continuation.

The full gadget keeps the opponent's decisions on the path to a subgame and has values where play leaves the
path (Milec, Kubíček and Lisý 2024, §5). The optimal continuation keeps the whole trunk for all subgames at
once, which gives the least exploitability that any change below the cut can achieve.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import jax
import numpy as np

from jaxgadget.core.host import HostTreeplex, exact_size
from jaxgadget.core.problem import Terms
from jaxgadget.core.regret import ChoiceRule
from jaxgadget.core.rows import on_host, pad_rows
from jaxgadget.core.treeplex import Treeplex, sweep_up, to_device
from jaxgadget.gadgets.alternative import AlternativeRefusedError, Values
from jaxgadget.gadgets.capabilities import Capability
from jaxgadget.gadgets.entry import BoundRule, Entry
from jaxgadget.gadgets.gadget import Perturbed
from jaxgadget.gadgets.ranges import Ranges, inverse, sum_rows
from jaxgadget.gadgets.structure import Bodies
from jaxgadget.tree.trunk import build_way
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WayTables:
    """A gadget that copies the trunk, as arrays; the opponent's trunk has Q actions and I infosets.

    Attributes:
      action_values: `[Q, L]` the opponent's best-response values of its actions above the cut, in its own
        utility.
      infoset_values: `[I, L]` its best-response values of infosets.
      root_value: `[1, L]` its best-response value at the root.
      alternative: `[R, L]` alternative values `V̄(s)`, in the resolving player's utility.
      floor: `[Q, L]` ε × the prior's weight of each action, which sums to ε at every infoset.
      has_decision: `[S, L]` True where there is a decision to solve.
      bound: rule that combines losses to a bound on exploitability; None if no bound is known.
    """

    action_values: FloatArray
    infoset_values: FloatArray
    root_value: FloatArray
    alternative: FloatArray
    floor: FloatArray
    has_decision: BoolArray
    bound: BoundRule | None


class WayEntry:
    """An `Entry` with a copy of the opponent's trunk decisions above the roots, for every game.

    Attributes:
      tables: tables of the gadgets in the entry.
      treeplex: the copies, with one root per game.
      link: `[R]` the sequence above each of the opponent's roots.
      game: `[S]` the game that each subgame belongs to.
      source: `[E]` the trunk's sequence of which each sequence is a copy, -1 for padding.
      infoset: `[I]` the trunk's infoset of which each infoset is a copy, -1 for padding.
    """

    def __init__(self, bodies: Bodies, ranges: Ranges, tables: Sequence[WayTables], game: IntArray):
        """Copies the opponent's decisions.

        Args:
          bodies: the subgames.
          ranges: ranges of the blueprints, with the trunk.
          tables: tables of the gadgets.
          game: `[S]` the game of each subgame. If there is only one, its root is never padded.
        """
        rounding = bodies.rounding if game.max(initial=0) else exact_size
        # Impossible hands have no path to copy: they are attached to the root, with value 0.
        possible, self.link = ranges.root >= 0, game[ranges.subgame].astype(np.int64)
        above = ranges.above
        way = build_way(above.treeplex, above.link[possible], self.link[possible], rounding)
        self.link[possible] = way.link
        self.tables, self.game = tuple(tables), game
        self.treeplex: HostTreeplex = way.treeplex
        self.source, self.infoset = way.source, way.infoset
        self._num_padded = bodies.num_roots(1 - bodies.player)

    @property
    def num_games(self) -> int:
        """Number of independent games, without padding."""
        return int(self.game.max(initial=-1)) + 1

    def terms(self, gadget_idx: int, lanes: IntArray) -> Terms:
        """The opponent's terms of one gadget for some blueprints, in float64 on the host."""
        table = self.tables[gadget_idx]
        alternative = table.alternative[:, lanes]
        scale = pad_rows(np.ones_like(alternative), self._num_padded, 0)
        choice = ChoiceRule(floor=on_host(self._floor(table, lanes)))
        constant = on_host(self._constant(table, lanes))
        return Terms(scale=on_host(scale), constant=constant, entry=choice)

    def _constant(self, table: WayTables, lanes: IntArray) -> FloatArray:
        """`[E, L]` constant payoff of each sequence, from play that leaves the copies after the sequence."""
        values = np.concatenate([table.root_value[:, lanes], table.action_values[:, lanes]])
        whole = _copied(values, self.source)
        inside = sum_rows(
            self.treeplex.parent, _copied(table.infoset_values[:, lanes], self.infoset), len(whole)
        )
        return whole - inside + sum_rows(self.link, table.alternative[:, lanes], len(whole))

    def _floor(self, table: WayTables, lanes: IntArray) -> FloatArray:
        """`[Q, L]` floors of the copies' actions."""
        return _copied(table.floor[:, lanes], self.source[self.treeplex.num_roots :] - 1)

    def has_decision(self, gadget_idx: int) -> BoolArray:
        """`[S, L]` True where a gadget has a decision to solve."""
        return self.tables[gadget_idx].has_decision

    def bound_rule(self, gadget_idx: int) -> BoundRule | None:
        """Rule that combines losses to a bound on exploitability; None if no bound is known."""
        return self.tables[gadget_idx].bound

    def entered(self, gadget_idx: int, reach: FloatArray) -> FloatArray:
        """`[R, L]` the opponent's reach of each root in the copied trunk."""
        return reach

    def losses(self, gadget_idx: int, lanes: IntArray, gap: FloatArray, values: FloatArray) -> FloatArray:
        """`[games, L]` gap plus the opponent's gain from ignoring its floors; NaN if no bound is known."""
        table = self.tables[gadget_idx]
        if table.bound is None:
            return np.full_like(gap, np.nan)
        top = self._constant(table, lanes) - sum_rows(self.link, values, self.treeplex.num_sequences)
        with precision(np.float64):
            treeplex = to_device(self.treeplex, np.float64)
            rules = (ChoiceRule(), ChoiceRule(floor=on_host(self._floor(table, lanes))))
            free, floored = (np.asarray(_root_values(treeplex, on_host(top), choice)) for choice in rules)
        return np.maximum(gap + (free - floored)[: self.num_games], 0)


@compiled(quick=True)
def _root_values(treeplex: Treeplex, constant: jax.Array, choice: ChoiceRule) -> jax.Array:
    """`[R, L]` best-response value of each root for a player with these constants and this choice rule."""
    return sweep_up(treeplex, constant, choice.best)[2]


def _copied(x: FloatArray, source: IntArray) -> FloatArray:
    """`x[source]`, and 0 where the source is negative."""
    return np.where(source[:, None] >= 0, x[source], 0)


class _RealWay(Perturbed):
    """Base of both gadgets, whose entry copies the opponent's trunk.

    The prior applies to the opponent's decisions above the cut: the floor of an action is ε × its weight in
    the prior. Where play leaves the copied part, the opponent receives its best-response value against the
    resolving player's blueprint, with the alternative values at other subgames.
    """

    bound: ClassVar[BoundRule | None] = None

    @property
    def requires(self) -> frozenset[Capability]:
        """Required capabilities of the front end, including those of the prior and alternative values."""
        return super().requires | {Capability.TRUNK, Capability.WAY}

    def check_prior(self, num_roots: int, num_lanes: int) -> None:
        """Does nothing: the prior is over actions above the cut and checks its own shape."""

    def tables(self, ranges: Ranges) -> WayTables:
        """The gadget as arrays."""
        trunk, alternative = ranges.above, self.offer.values(ranges)
        action_values, infoset_values, root_value = trunk.best_values(alternative)
        weight = self.mistakes.choose(ranges)
        total = sum_rows(trunk.treeplex.sequence_infoset, weight, trunk.treeplex.num_infosets)
        return WayTables(
            action_values=action_values,
            infoset_values=infoset_values,
            root_value=root_value,
            alternative=alternative,
            floor=self.number * weight * trunk.per_action(inverse(total)),
            has_decision=ranges.per_subgame(ranges.mass) > 0,
            bound=self.bound,
        )


@dataclasses.dataclass(frozen=True)
class Full(_RealWay):
    """A copy of the opponent's decisions on its path to each subgame, with values where play leaves the path.

    For a single subgame and best-response values, this is the optimal continuation of that
    subgame. If several subgames are solved, each solution may rely on the alternative values of the others,
    and there is no guarantee.
    """

    name: ClassVar[str] = "full"
    entry_name: ClassVar[str] = "full"
    joint: ClassVar[bool] = False
    apart: ClassVar[bool] = True

    @staticmethod
    def build_entry(bodies: Bodies, ranges: Ranges, tables: Sequence[WayTables]) -> Entry:
        """An entry with a copy of the trunk for every subgame."""
        return WayEntry(bodies, ranges, tables, np.arange(ranges.num_subgames))


@dataclasses.dataclass(frozen=True)
class OptimalContinuation(_RealWay):
    """The whole game with the resolving player fixed above the cut; all subgames are solved jointly.

    Its value is the value that the best continuation guarantees in the whole game, so that no gadget's
    solution is less exploitable.
    """

    name: ClassVar[str] = "optimal-continuation"
    entry_name: ClassVar[str] = "optimal-continuation"
    joint: ClassVar[bool] = True
    apart: ClassVar[bool] = False
    bound: ClassVar[BoundRule | None] = "max"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.alternative, Values) and self.alternative.exact):
            raise AlternativeRefusedError(
                f"alternative={self.alternative!r} has no effect with the optimal continuation, which "
                "contains all subgames; leave it out"
            )

    @staticmethod
    def build_entry(bodies: Bodies, ranges: Ranges, tables: Sequence[WayTables]) -> Entry:
        """An entry with a single copy of the trunk for all subgames."""
        return WayEntry(bodies, ranges, tables, np.zeros(ranges.num_subgames, np.int64))
