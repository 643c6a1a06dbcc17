"""What a blueprint brings to a cut: reaches, counterfactual values, and the opponent's trunk."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxgadget.kernels.rows import RowSums
from jaxgadget.kernels.treeplex import Level, Treeplex, sweep_up


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TrunkRanges:
    """The opponent's decisions above the cut, against the resolving player's blueprint there.

    E sequences (the empty one first), Q actions, I infosets, R roots of the opponent, L lanes.

    Attributes:
      treeplex: the opponent's decisions above the cut, one root.
      link: `[R]` the sequence that leads to each root, E for padding.
      linked: sums over roots into sequences.
      ancestors: sums over the opponent's actions on the way to each root.
      terminates: `[Q, 1]` whether an action ends the game at once.
      strategy: `[Q, L]` the opponent's blueprint.
      outside: `[E, L]` what each sequence earns by terminals outside all subgames, in the
        opponent's utility, weighted by the resolving player's and chance's reach.
      mass: `[I, L]` `N(I)`, the resolving player's and chance's reach of each infoset.
    """

    treeplex: Treeplex
    link: jax.Array
    linked: RowSums
    ancestors: RowSums
    terminates: jax.Array
    strategy: jax.Array
    outside: jax.Array
    mass: jax.Array

    def best(self, values: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The opponent's counterfactual best-response values above the cut.

        Args:
          values: `[R, L]` `V̄(s)`, in the resolving player's utility.

        Returns:
          In the opponent's utility: of its actions `[Q, L]`, infosets `[I, L]` and root `[1, L]`.
        """
        return sweep_up(self.treeplex, self.outside - self.linked(values), _largest)


def _largest(level: Level, q: jax.Array) -> jax.Array:
    return level.largest(q)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranges:
    """What a blueprint brings to a cut; everything a gadget may use. `L` lanes, traced.

    Attributes:
      num_subgames: S, padding included.
      subgame: `[R]` the subgame of each of the opponent's roots, S for padding.
      resolver: `[R_i, L]` the resolving player's reach of its own roots.
      opponent: `[R, L]` the opponent's reach `P_-i(s)` of its roots.
      mass: `[R, L]` `N(s)`, the resolving player's and chance's reach of the opponent's roots.
      cbv: `[R, L]` `V̄(s)`, in the resolving player's utility; what stands in for it where a
        gadget's numbers are made.
      played: `[R, L]` `V(s)` when both players follow their blueprints; None if nobody asked.
      trunk: the opponent's decisions above the cut; None if nobody asked.
    """

    num_subgames: int = dataclasses.field(metadata={"static": True})
    subgame: jax.Array
    resolver: jax.Array
    opponent: jax.Array
    mass: jax.Array
    cbv: jax.Array
    played: jax.Array | None = None
    trunk: TrunkRanges | None = None

    @property
    def above(self) -> TrunkRanges:
        """The trunk, which whoever asks must have declared as needed."""
        if self.trunk is None:
            raise ValueError("ranges have no trunk: a gadget that uses it must list 'trunk' in `needs`")
        return self.trunk

    def per_subgame(self, x: jax.Array) -> jax.Array:
        """Sums over the opponent's roots of every subgame: `[R, L]` → `[S, L]`."""
        return jax.ops.segment_sum(x, self.subgame, num_segments=self.num_subgames)

    def spread(self, x: jax.Array) -> jax.Array:
        """Repeats a subgame's number for its roots: `[S, L]` → `[R, L]`, 0 for padding."""
        return x.at[self.subgame].get(mode="fill", fill_value=0)


def inverse(x: jax.Array) -> jax.Array:
    """1 / x, and 0 where x is 0."""
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)
