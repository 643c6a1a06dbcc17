"""The sweeps over one player's decisions: reach down, values up.

Every array has the lanes last. A strategy is `[num_actions, lanes]`, the probability of
every (infoset, action); a reach or a gradient is `[num_sequences, lanes]`, roots first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jaxgadget.solve.rows import RowSums, build_row_sums
from jaxgadget.tree import sequence
from jaxgadget.tree.sequence import Rounding, Run, exact_size

Reduce = Callable[["Slice", jax.Array], jax.Array]
"""What an infoset is worth: `(slice, q[num_infosets, num_actions, lanes]) → [num_infosets, lanes]`."""


class Slice(NamedTuple):
    """Where a run's infosets and actions lie in the arrays of its player."""

    run: Run
    first_infoset: int
    first_action: int

    def infosets(self, x: jax.Array) -> jax.Array:
        """`[I, …]` → `[num_infosets, …]`, the rows of this run."""
        return x[self.first_infoset : self.first_infoset + self.run.num_infosets]

    def actions(self, x: jax.Array) -> jax.Array:
        """`[Q, lanes]` → `[num_infosets, num_actions, lanes]`, the rows of this run."""
        n, k = self.run
        return x[self.first_action : self.first_action + n * k].reshape(n, k, x.shape[-1])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Treeplex:
    """One player's decisions on the device.

    Attributes:
      num_roots: sequences at the top.
      levels: the runs of every level; with `num_roots`, the static shape.
      parent: for every level `[n]` the row of the sequence above, in the level above.
      below: for every level the sum over infosets `[n]` into the sequences of the level above.
    """

    num_roots: int = dataclasses.field(metadata={"static": True})
    levels: tuple[tuple[Run, ...], ...] = dataclasses.field(metadata={"static": True})
    parent: tuple[jax.Array, ...]
    below: tuple[RowSums, ...]

    @property
    def num_infosets(self) -> int:
        return sum(run.num_infosets for runs in self.levels for run in runs)

    @property
    def num_actions(self) -> int:
        """(Infoset, action) pairs."""
        return sum(run.num_infosets * run.num_actions for runs in self.levels for run in runs)

    @property
    def num_sequences(self) -> int:
        return self.num_roots + self.num_actions

    def slices(self) -> Iterator[Slice]:
        """All runs, top-down."""
        for level in self.level_slices():
            yield from level

    def level_slices(self) -> list[list[Slice]]:
        """The runs of every level, top-down."""
        levels: list[list[Slice]] = []
        infoset = action = 0
        for runs in self.levels:
            level: list[Slice] = []
            for run in runs:
                level.append(Slice(run, infoset, action))
                infoset += run.num_infosets
                action += run.num_infosets * run.num_actions
            levels.append(level)
        return levels


def to_device(treeplex: sequence.Treeplex, dtype: npt.DTypeLike, rounding: Rounding = exact_size) -> Treeplex:
    """Copies a treeplex to the device, with weights of the given dtype."""
    parents: list[jax.Array] = []
    below: list[RowSums] = []
    infoset, above, width_above = 0, 0, treeplex.num_roots
    for runs in treeplex.levels:
        size = sum(run.num_infosets for run in runs)
        rows = slice(infoset, infoset + size)
        parent = treeplex.parent[rows] - above
        real = treeplex.infoset[rows] >= 0
        parents.append(jnp.asarray(np.where(real, parent, 0), jnp.int32))
        children = np.nonzero(real)[0]
        below.append(
            build_row_sums(parent[real], children, np.ones(len(children)), width_above, dtype, rounding)
        )
        above += width_above
        width_above = sum(run.num_infosets * run.num_actions for run in runs)
        infoset += size
    return Treeplex(
        num_roots=treeplex.num_roots, levels=treeplex.levels, parent=tuple(parents), below=tuple(below)
    )


def reach(treeplex: Treeplex, strategy: jax.Array, root: jax.Array) -> jax.Array:
    """Top-down: the probability with which the player itself plays every sequence.

    Args:
      treeplex: the player's decisions.
      strategy: `[num_actions, lanes]`.
      root: `[num_roots, lanes]` reach of the roots.

    Returns:
      `[num_sequences, lanes]`.
    """
    levels = [root]
    for parent, slices in zip(treeplex.parent, treeplex.level_slices(), strict=True):
        first = slices[0].first_infoset
        parts: list[jax.Array] = []
        for part in slices:
            begin = part.first_infoset - first
            rows = parent[begin : begin + part.run.num_infosets]
            above = levels[-1].at[rows].get(mode="promise_in_bounds")
            parts.append((above[:, None, :] * part.actions(strategy)).reshape(-1, root.shape[-1]))
        levels.append(parts[0] if len(parts) == 1 else jnp.concatenate(parts))
    return jnp.concatenate(levels)


def sweep_up(
    treeplex: Treeplex, gradient: jax.Array, reduce: Reduce
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Bottom-up: what every action, infoset and root is worth.

    Args:
      treeplex: the player's decisions.
      gradient: `[num_sequences, lanes]` payoff that each sequence earns by itself.
      reduce: turns the action values of a run into infoset values.

    Returns:
      Action values `[num_actions, lanes]`, infoset values `[num_infosets, lanes]` and root
      values `[num_roots, lanes]`.
    """
    lanes = gradient.shape[-1]
    actions: list[jax.Array] = []
    infosets: list[jax.Array] = []
    levels = treeplex.level_slices()
    carried: Any = None  # what the level below adds to this level's sequences
    for depth in range(len(levels) - 1, -1, -1):
        first = treeplex.num_roots + levels[depth][0].first_action
        size = sum(part.run.num_infosets * part.run.num_actions for part in levels[depth])
        q = gradient[first : first + size]
        if carried is not None:
            q = q + carried
        values = [
            reduce(
                part,
                q[part.first_action + treeplex.num_roots - first :][
                    : part.run.num_infosets * part.run.num_actions
                ].reshape(*part.run, lanes),
            )
            for part in levels[depth]
        ]
        value = values[0] if len(values) == 1 else jnp.concatenate(values)
        carried = treeplex.below[depth](value)
        actions.append(q)
        infosets.append(value)
    root = gradient[: treeplex.num_roots]
    if carried is None:
        nothing = jnp.zeros((0, lanes), gradient.dtype)
        return nothing, nothing, root
    return jnp.concatenate(actions[::-1]), jnp.concatenate(infosets[::-1]), root + carried


def expand_infosets(treeplex: Treeplex, x: jax.Array) -> jax.Array:
    """Repeats infoset rows for their actions: `[num_infosets, lanes]` → `[num_actions, lanes]`."""
    parts = [jnp.repeat(part.infosets(x), part.run.num_actions, axis=0) for part in treeplex.slices()]
    return jnp.concatenate(parts) if parts else x


def sum_actions(treeplex: Treeplex, x: jax.Array) -> jax.Array:
    """Sums over the actions of every infoset: `[num_actions, lanes]` → `[num_infosets, lanes]`."""
    parts = [part.actions(x).sum(axis=1) for part in treeplex.slices()]
    return jnp.concatenate(parts) if parts else x
