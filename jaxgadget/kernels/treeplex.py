"""The sweeps over one player's decisions: reach down, values up.

Every array has the lanes last. A strategy is `[Q, lanes]`, the probability of every
(infoset, action); a reach or a gradient is `[S, lanes]` over sequences, S = roots + Q.
A level's sequences lie slot by slot (`tree.sequence`), so that sums over the actions of its
infosets, and the way back, are slices: measured on Leduc's numbers of actions, one core,
regret matching takes 0.3 µs with 1 lane and 24 µs with 64; with gathers 6 and 58, with an
infoset's actions side by side 3 and 47.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.kernels.rows import Sums, build_sums, take_rows
from jaxgadget.tree import sequence
from jaxgadget.tree.sequence import Rounding, Run, exact_size, level_infosets, slot_counts

MANY_SLICES = 100
"""Decisions with more sums over slices than that take longer to compile than that gains: where a level has
more than three different numbers of actions, its sums are then over slots padded to the longest.
Liar's Dice 1×6, with 185: 10 s of compiling instead of 16. Liar's Dice 1×4, with 58, one lane: 26 µs an
iteration instead of 21."""


class Level(NamedTuple):
    """Where a level's infosets and actions lie in the arrays of its player.

    Attributes:
      infosets: the level's rows of `[I, …]` arrays.
      actions: the level's rows of `[Q, …]` arrays.
      runs: its infosets, widest first.
      padded: whether sums are over slots padded to the longest, instead of run by run.
    """

    infosets: slice
    actions: slice
    runs: tuple[Run, ...]
    padded: bool = False

    @property
    def widths(self) -> npt.NDArray[np.int64]:
        """`[infosets]` how many actions each has."""
        return np.repeat([run.num_actions for run in self.runs], [run.num_infosets for run in self.runs])

    def sums(self, x: jax.Array) -> jax.Array:
        """Sums over the actions of every infoset, within the level: `[actions, L]` → `[infosets, L]`."""
        return self._fold(x, jax.lax.add, 0)

    def largest(self, x: jax.Array) -> jax.Array:
        """The largest of every infoset's actions, within the level."""
        return self._fold(x, jax.lax.max, -jnp.inf)

    def spread(self, x: jax.Array) -> list[jax.Array]:
        """Infoset rows `[infosets, L]` for the first actions, for the second ones, …."""
        return [_rows(x, 0, count) for count in slot_counts(self.runs)]

    def expand(self, x: jax.Array) -> jax.Array:
        """Repeats infoset rows for their actions: `[infosets, L]` → `[actions, L]`."""
        return jnp.concatenate(self.spread(x))

    def _fold(
        self, x: jax.Array, combine: Callable[[jax.Array, jax.Array], jax.Array], nothing: float
    ) -> jax.Array:
        begin = np.concatenate([[0], np.cumsum(slot_counts(self.runs))]).tolist()
        if self.padded:
            filled: list[jax.Array] = []
            for first, last in itertools.pairwise(begin):
                missing = ((0, begin[1] - (last - first)), (0, 0))
                filled.append(jnp.pad(_rows(x, first, last), missing, constant_values=nothing))
            return functools.reduce(combine, filled)
        parts: list[jax.Array] = []
        first = 0
        for run in self.runs:
            last = first + run.num_infosets
            slots = [_rows(x, at + first, at + last) for at in begin[: run.num_actions]]
            parts.append(functools.reduce(combine, slots))
            first = last
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _rows(x: jax.Array, first: int, last: int) -> jax.Array:
    """`x[first:last]`, which takes twice as long to trace; a game has hundreds of these."""
    return jax.lax.slice_in_dim(x, first, last)


Reduce = Callable[[Level, jax.Array], jax.Array]
"""What the infosets of a level are worth: `(level, q[actions, lanes]) → [infosets, lanes]`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Treeplex:
    """One player's decisions on the device.

    Attributes:
      num_roots: sequences at the top.
      runs: the runs of every level; with `num_roots`, the static shape.
      parent: for every level, for each of its infosets, the row above in the level above.
      below: for every level the sum over infosets into the sequences of the level above.
      share: `[Q]` for every action one over the number of its infoset's.
      real: `[I]` which infosets are no padding.
    """

    num_roots: int = dataclasses.field(metadata={"static": True})
    runs: tuple[tuple[Run, ...], ...] = dataclasses.field(metadata={"static": True})
    parent: tuple[jax.Array, ...]
    below: tuple[Sums, ...]
    share: jax.Array
    real: jax.Array

    @property
    def num_infosets(self) -> int:
        """I, padding included."""
        return sum(map(level_infosets, self.runs))

    @property
    def num_actions(self) -> int:
        """Q, (infoset, action) pairs."""
        return self.share.shape[0]

    @property
    def num_sequences(self) -> int:
        """S, roots and actions."""
        return self.num_roots + self.num_actions

    def levels(self) -> list[Level]:
        """All levels, top-down."""
        found: list[Level] = []
        infoset = action = 0
        slices = sum(run.num_actions for runs in self.runs for run in runs)
        for runs in self.runs:
            infosets, actions = level_infosets(runs), sum(slot_counts(runs))
            padded = slices > MANY_SLICES and len(runs) > 3
            rows = slice(infoset, infoset + infosets), slice(action, action + actions)
            found.append(Level(*rows, runs, padded))
            infoset, action = infoset + infosets, action + actions
        return found


def to_device(treeplex: sequence.HostTreeplex, dtype: DTypeLike, rounding: Rounding = exact_size) -> Treeplex:
    """Copies a treeplex to the device, with weights of the given dtype."""
    parents: list[jax.Array] = []
    below: list[Sums] = []
    above = slice(0, treeplex.num_roots)
    for rows, actions in treeplex.level_slices():
        real = treeplex.infoset[rows] != -1
        parent = np.where(real, treeplex.parent[rows] - above.start, 0)
        parents.append(jax.device_put(parent.astype(np.int32)))
        below.append(build_sums(parent, real, above.stop - above.start, dtype, rounding))
        above = actions
    return Treeplex(
        num_roots=treeplex.num_roots,
        runs=treeplex.levels,
        parent=tuple(parents),
        below=tuple(below),
        share=jax.device_put((1 / treeplex.num_actions[treeplex.sequence_infoset]).astype(dtype)),
        real=jax.device_put(treeplex.infoset != -1),
    )


def to_host(treeplex: Treeplex) -> sequence.HostTreeplex:
    """The same decisions in NumPy; an infoset is named by its position, padding by -1."""
    real = np.asarray(treeplex.real)
    parents, firsts, widths = ([np.zeros(0, np.int64)] for _ in range(3))
    above = 0
    for parent, level in zip(treeplex.parent, treeplex.levels(), strict=True):
        parents.append(above + np.asarray(parent))
        above = treeplex.num_roots + level.actions.start
        firsts.append(above + np.arange(len(parent)))
        widths.append(level.widths)
    return sequence.HostTreeplex(
        num_roots=treeplex.num_roots,
        levels=treeplex.runs,
        parent=np.where(real, np.concatenate(parents), 0),
        infoset=np.where(real, np.arange(len(real)), -1),
        num_actions=np.concatenate(widths),
        first_sequence=np.concatenate(firsts),
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
        above = take_rows(found[-1], parent)
        found.append(level.expand(above) * strategy[level.actions])
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
    parts = [level.expand(x[level.infosets]) for level in treeplex.levels()]
    return jnp.concatenate(parts) if parts else x


def sum_actions(treeplex: Treeplex, x: jax.Array) -> jax.Array:
    """Sums over the actions of every infoset: `[Q, lanes]` → `[I, lanes]`."""
    parts = [level.sums(x[level.actions]) for level in treeplex.levels()]
    return jnp.concatenate(parts) if parts else x
