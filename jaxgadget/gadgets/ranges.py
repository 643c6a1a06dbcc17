"""Ranges of blueprints at a cut, on the host: reaches, counterfactual values and the opponent's trunk."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from scipy.sparse import csr_array

from jaxgadget.core.treeplex import Level, Treeplex, sweep_up
from jaxgadget.tree import sequence
from jaxgadget.util.arrays import BoolArray, FloatArray, IntArray
from jaxgadget.util.compilation import compiled
from jaxgadget.util.precision import precision


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrunkRanges:
    """The opponent's decisions above the cut, with values against the resolving player's blueprint there.

    E sequences (the empty one first), Q actions, I infosets, R roots of the opponent, L lanes.

    Attributes:
      treeplex: the opponent's decisions above the cut, with one root.
      on_device: `treeplex` on the device.
      link: `[R]` the sequence that leads to each root.
      ancestors: `[R, Q]` 1 where an action of the opponent lies on the path to a root.
      terminates: `[Q]` True where an action ends the game.
      strategy: `[Q, L]` the opponent's blueprint.
      outside: `[E, L]` payoff of each sequence from terminals outside all subgames, in the
        opponent's utility, weighted by the resolving player's and chance's reach.
      mass: `[I, L]` `N(I)`, the resolving player's and chance's reach of each infoset.
    """

    treeplex: sequence.HostTreeplex
    on_device: Treeplex
    link: IntArray
    ancestors: csr_array
    terminates: BoolArray
    strategy: FloatArray
    outside: FloatArray
    mass: FloatArray

    def at_sequences(self, x: FloatArray) -> FloatArray:
        """Sums over roots into the sequences that lead to them: `[R, L]` → `[E, L]`."""
        return sum_rows(self.link, x, self.treeplex.num_sequences)

    def per_action(self, x: FloatArray) -> FloatArray:
        """Repeats an infoset's number for its actions: `[I, L]` → `[Q, L]`."""
        return x[self.treeplex.sequence_infoset]

    def largest_action(self, x: FloatArray) -> FloatArray:
        """Maxima over the actions of every infoset: `[Q, L]` → `[I, L]`."""
        largest = np.full((self.treeplex.num_infosets, x.shape[1]), -np.inf)
        np.maximum.at(largest, self.treeplex.sequence_infoset, x)
        return largest

    def best_values(self, values: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The opponent's counterfactual best-response values above the cut.

        Args:
          values: `[R, L]` `V̄(s)`, in the resolving player's utility.

        Returns:
          Values of the opponent's actions `[Q, L]`, infosets `[I, L]` and root `[1, L]`, in its utility.
        """
        return self.largest_above(self.outside - self.at_sequences(values))

    def largest_above(self, gradient: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Counterpart of `best_values` for payoffs of all sequences, `[E, L]` in the opponent's utility."""
        with precision(np.float64):
            action_values, infoset_values, root = _largest_above(self.on_device, gradient)
        return np.asarray(action_values), np.asarray(infoset_values), np.asarray(root)


def _largest(level: Level, q: jax.Array) -> jax.Array:
    return level.largest(q)


@compiled(quick=True)
def _largest_above(treeplex: Treeplex, gradient: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return sweep_up(treeplex, gradient, _largest)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Ranges:
    """Reaches and values of blueprints at a cut, the input of gadgets. R roots of the opponent, L lanes.

    Attributes:
      num_subgames: number of subgames, S.
      subgame: `[R]` the subgame of each of the opponent's roots.
      root: `[R]` row of each root in users' arrays, -1 for none.
      resolver: `[R_i, L]` the resolving player's reach of its own roots.
      opponent: `[R, L]` the opponent's reach `P_-i(s)` of its roots.
      mass: `[R, L]` `N(s)`, the resolving player's and chance's reach of the opponent's roots.
      cbv: `[R, L]` `V̄(s)`, the counterfactual best-response value, in the resolving player's utility.
      played: `[R, L]` `V(s)` when both players follow their blueprints; None unless required.
      trunk: the opponent's decisions above the cut; None unless required.
      considered: `[R, L]` True for considered roots; None for all. See `considering`.
      possible: `[R, L]` True for roots that are possible with each blueprint; None for all. Other roots have
        reach, mass and values of 0.
    """

    num_subgames: int
    subgame: IntArray
    root: IntArray
    resolver: FloatArray
    opponent: FloatArray
    mass: FloatArray
    cbv: FloatArray
    played: FloatArray | None = None
    trunk: TrunkRanges | None = None
    considered: BoolArray | None = None
    possible: BoolArray | None = None

    @property
    def num_lanes(self) -> int:
        """Number of blueprints, L."""
        return self.cbv.shape[1]

    @property
    def above(self) -> TrunkRanges:
        """The trunk; raises ValueError unless a gadget requires `Capability.TRUNK`."""
        if self.trunk is None:
            raise ValueError("ranges have no trunk: list Capability.TRUNK in the gadget's `requires`")
        return self.trunk

    @property
    def played_values(self) -> FloatArray:
        """`played`; raises ValueError unless a gadget requires `Capability.PLAYED`."""
        if self.played is None:
            raise ValueError("ranges have no 'played' values: list Capability.PLAYED in `requires`")
        return self.played

    def per_subgame(self, x: FloatArray) -> FloatArray:
        """Sums over the opponent's roots of every subgame: `[R, L]` → `[S, L]`."""
        return sum_rows(self.subgame, x, self.num_subgames)

    def share(self, x: FloatArray) -> FloatArray:
        """Normalises weights ≥ 0 `[R, L]` over the roots of every subgame; 0 if all weights are 0."""
        return divide(x, self.per_subgame(x)[self.subgame])

    def considering(self, considered: BoolArray) -> Ranges:
        """The ranges with reach and mass 0 at roots that are not considered.

        Priors are then distributions over the considered roots, and a subgame without any has no decision.

        Args:
          considered: `[R, L]` True for considered roots.
        """
        mass, opponent = (np.where(considered, x, 0) for x in (self.mass, self.opponent))
        return dataclasses.replace(self, mass=mass, opponent=opponent, considered=considered)


def join_lanes(parts: Sequence[Ranges], count: int) -> Ranges:
    """Concatenates ranges along the lanes and keeps the first `count` lanes."""

    def joined(arrays: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(arrays, axis=1)[:, :count]

    first, trunk = parts[0], parts[0].trunk
    if trunk is not None:
        trunks = [part.above for part in parts]
        trunk = dataclasses.replace(
            trunk,
            strategy=joined([part.strategy for part in trunks]),
            outside=joined([part.outside for part in trunks]),
            mass=joined([part.mass for part in trunks]),
        )
    return dataclasses.replace(
        first,
        resolver=joined([part.resolver for part in parts]),
        opponent=joined([part.opponent for part in parts]),
        mass=joined([part.mass for part in parts]),
        cbv=joined([part.cbv for part in parts]),
        played=None if first.played is None else joined([part.played_values for part in parts]),
        trunk=trunk,
    )


def join_roots(
    parts: Sequence[Ranges], numbers: Sequence[tuple[IntArray, IntArray]], subgame: IntArray
) -> Ranges:
    """Merges ranges of disjoint subgames, without a trunk.

    Args:
      parts: ranges of the subgames.
      numbers: for every part the indices of its roots among all roots: the resolving player's, then the
        opponent's.
      subgame: `[R]` the subgame of each of the opponent's roots.
    """
    own_order, other_order = (np.argsort(np.concatenate(rows)) for rows in zip(*numbers, strict=True))

    def joined(arrays: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(arrays)[other_order]

    return Ranges(
        num_subgames=sum(part.num_subgames for part in parts),
        subgame=subgame,
        root=np.arange(len(subgame)),
        resolver=np.concatenate([part.resolver for part in parts])[own_order],
        opponent=joined([part.opponent for part in parts]),
        mass=joined([part.mass for part in parts]),
        cbv=joined([part.cbv for part in parts]),
        played=None if parts[0].played is None else joined([part.played_values for part in parts]),
    )


def inverse(x: FloatArray) -> FloatArray:
    """1 / x, and 0 where x is not positive."""
    return np.where(x > 0, 1 / np.where(x > 0, x, 1), 0)


def divide(x: Any, total: Any, otherwise: Any = 0.0) -> Any:
    """`x / total`, and `otherwise` where the total is 0, for NumPy or JAX arrays.

    Unlike a product with 1 / total, the quotient x / x is exactly 1 and does not overflow for tiny x.
    """
    arrays = x.__array_namespace__()
    return arrays.where(total > 0, x / arrays.where(total > 0, total, 1), otherwise)


def sum_rows(row: IntArray, x: FloatArray, num_rows: int) -> FloatArray:
    """`y[row[i]] += x[i]`: `[n, L]` → `[num_rows, L]`."""
    summation = csr_array((np.ones(len(row)), (row, np.arange(len(row)))), shape=(num_rows, len(row)))
    return np.asarray(summation @ x)


def largest_rows(row: IntArray, x: FloatArray, num_rows: int) -> FloatArray:
    """Maxima of numbers ≥ 0 with equal `row[i]`: `[n, L]` → `[num_rows, L]`, 0 for rows without numbers."""
    largest = np.zeros((num_rows, x.shape[1]))
    np.maximum.at(largest, row, x)
    return largest
