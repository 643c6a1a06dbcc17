"""The sweeps over one player's decisions: reach down, values up.

Every array has the lanes last. A strategy is `[Q, lanes]`, the probability of every
(infoset, action); a reach or a gradient is `[S, lanes]` over sequences, S = roots + Q.
Sums over the actions of an infoset are gathers, so that a level is a handful of
operations however many different numbers of actions its infosets have: operations cost
compile time and, with few lanes, run time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.solve.rows import RowSums, build_row_sums
from jaxgadget.tree import sequence
from jaxgadget.tree.sequence import Rounding, Run, exact_size


class Level(NamedTuple):
    """Where a level's infosets and actions lie in the arrays of its player.

    Attributes:
      infosets: the level's rows of `[I, …]` arrays.
      actions: the level's rows of `[Q, …]` arrays.
      sums: sums over the actions of every infoset, within the level.
    """

    infosets: slice
    actions: slice
    sums: RowSums


Reduce = Callable[[Level, jax.Array], jax.Array]
"""What the infosets of a level are worth: `(level, q[actions, lanes]) → [infosets, lanes]`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Treeplex:
    """One player's decisions on the device.

    Attributes:
      num_roots: sequences at the top.
      runs: the runs of every level; with `num_roots`, the static shape.
      parent: for every level, for each of its actions, the row above in the level above.
      below: for every level the sum over infosets into the sequences of the level above.
      sums: for every level the sum over actions into infosets.
      infoset: `[Q]` the infoset of every action.
      share: `[Q]` one over its number of actions.
    """

    num_roots: int = dataclasses.field(metadata={"static": True})
    runs: tuple[tuple[Run, ...], ...] = dataclasses.field(metadata={"static": True})
    parent: tuple[jax.Array, ...]
    below: tuple[RowSums, ...]
    sums: tuple[RowSums, ...]
    infoset: jax.Array
    share: jax.Array

    @property
    def num_infosets(self) -> int:
        """I, padding included."""
        return sum(run.num_infosets for level in self.runs for run in level)

    @property
    def num_actions(self) -> int:
        """Q, (infoset, action) pairs."""
        return self.infoset.shape[0]

    @property
    def num_sequences(self) -> int:
        """S, roots and actions."""
        return self.num_roots + self.num_actions

    def levels(self) -> list[Level]:
        """All levels, top-down."""
        found: list[Level] = []
        infoset = action = 0
        for runs, sums in zip(self.runs, self.sums, strict=True):
            infosets = sum(run.num_infosets for run in runs)
            actions = sum(run.num_infosets * run.num_actions for run in runs)
            found.append(Level(slice(infoset, infoset + infosets), slice(action, action + actions), sums))
            infoset, action = infoset + infosets, action + actions
        return found


def to_device(treeplex: sequence.Treeplex, dtype: DTypeLike, rounding: Rounding = exact_size) -> Treeplex:
    """Copies a treeplex to the device, with weights of the given dtype."""
    parents: list[jax.Array] = []
    below: list[RowSums] = []
    sums: list[RowSums] = []
    infoset, above, num_above = 0, 0, treeplex.num_roots
    for runs in treeplex.levels:
        rows = slice(infoset, infoset + sum(run.num_infosets for run in runs))
        real = treeplex.infoset[rows] >= 0
        parent = np.where(real, treeplex.parent[rows] - above, 0)
        widths = treeplex.num_actions[rows]
        parents.append(jax.device_put(np.repeat(parent, widths).astype(np.int32)))
        children = np.nonzero(real)[0]
        ones = np.ones(len(children))
        below.append(build_row_sums(parent[children], children, ones, num_above, dtype, rounding))
        owner = np.repeat(np.arange(len(widths)), widths)
        sums.append(
            build_row_sums(owner, np.arange(len(owner)), np.ones(len(owner)), len(widths), dtype, rounding)
        )
        above, num_above, infoset = above + num_above, len(owner), rows.stop
    of_action = treeplex.sequence_infoset
    return Treeplex(
        num_roots=treeplex.num_roots,
        runs=treeplex.levels,
        parent=tuple(parents),
        below=tuple(below),
        sums=tuple(sums),
        infoset=jax.device_put(of_action.astype(np.int32)),
        share=jax.device_put((1 / treeplex.num_actions[of_action]).astype(dtype)),
    )


def reach(treeplex: Treeplex, strategy: jax.Array, root: jax.Array) -> jax.Array:
    """Top-down: the probability with which the player itself plays every sequence.

    Args:
      treeplex: the player's decisions.
      strategy: `[Q, lanes]`.
      root: `[num_roots, lanes]` reach of the roots.

    Returns:
      `[S, lanes]`.
    """
    chex.assert_shape(strategy, (treeplex.num_actions, None))
    chex.assert_shape(root, (treeplex.num_roots, None))
    found = [root]
    for parent, level in zip(treeplex.parent, treeplex.levels(), strict=True):
        above = found[-1].at[parent].get(mode="promise_in_bounds")
        found.append(above * strategy[level.actions])
    return jnp.concatenate(found)


def sweep_up(
    treeplex: Treeplex, gradient: jax.Array, reduce: Reduce
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Bottom-up: what every action, infoset and root is worth.

    Args:
      treeplex: the player's decisions.
      gradient: `[S, lanes]` payoff that each sequence earns by itself.
      reduce: turns the action values of a level into infoset values.

    Returns:
      Action values `[Q, lanes]`, infoset values `[I, lanes]` and root values `[num_roots, lanes]`.
    """
    chex.assert_shape(gradient, (treeplex.num_sequences, None))
    nothing = jnp.zeros((0, gradient.shape[-1]), gradient.dtype)
    actions, infosets = [nothing], [nothing]
    carried: jax.Array | None = None  # what the level below adds to this level's sequences
    for level, below in zip(treeplex.levels()[::-1], treeplex.below[::-1], strict=True):
        q = gradient[treeplex.num_roots :][level.actions]
        q = q if carried is None else q + carried
        value = reduce(level, q)
        carried = below(value)
        actions.append(q)
        infosets.append(value)
    root = gradient[: treeplex.num_roots]
    root = root if carried is None else root + carried
    return jnp.concatenate(actions[::-1]), jnp.concatenate(infosets[::-1]), root


def expand_infosets(treeplex: Treeplex, x: jax.Array) -> jax.Array:
    """Repeats infoset rows for their actions: `[I, lanes]` → `[Q, lanes]`."""
    return x.at[treeplex.infoset].get(mode="promise_in_bounds")


def sum_actions(treeplex: Treeplex, x: jax.Array) -> jax.Array:
    """Sums over the actions of every infoset: `[Q, lanes]` → `[I, lanes]`."""
    parts = [level.sums(x[level.actions]) for level in treeplex.levels()]
    return jnp.concatenate(parts) if parts else x
