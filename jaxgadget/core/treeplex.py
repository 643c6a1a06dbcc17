"""Sweeps over one player's decisions: reaches top-down, values bottom-up.

Lanes are the last axis of every array. A strategy is `[Q, lanes]`, the probability of every
(infoset, action); a reach or a gradient is `[S, lanes]` over sequences, S = roots + Q.
A level's sequences are ordered slot by slot (`core.host`), so that sums over the actions of its infosets, and
the inverse broadcasts, are slices, or a single reduction where infosets are wide. Measured on one core with
Leduc's numbers of actions, regret matching takes 0.3 µs with 1 lane and 24 µs with 64; with gathers 6 and 58;
with the actions of an infoset adjacent, 3 and 47.

In hand form, where a player holds one of many hands and all else is public, its decisions are the public
ones, repeated for every hand. All hands of a public infoset, or of an action there, are adjacent. Links
between levels therefore exist only for public infosets, and move blocks of hands.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jaxgadget.core.host import HostTreeplex, Rounding, Run, exact_size, level_infosets, slot_counts
from jaxgadget.core.rows import Sums, build_sums, take_rows

MANY_SLICES = 100
"""Maximum number of sums over slices of decisions; with more, compilation costs more than slicing saves, so
that levels with more than three different numbers of actions are summed over slots padded to the longest.
Padded, Liar's Dice 1×6 with 185 sums compiles in 10 s instead of 16; Liar's Dice 1×4 with 58 sums and one
lane would take 26 µs per iteration instead of 21."""

WIDE = 64
"""At least this many adjacent slots of equal size are combined by one reduction instead of one by one.

Max-margin on a river has an infoset of 1,081 actions: its first call takes 3.7 s of processor time instead of
12. Regret matching in one infoset of 128 actions, 64 lanes: 14 µs instead of 3,300; in 32 infosets of 64, one
lane: 8 µs instead of 4, 64 lanes: 0.6 ms both ways. In hundreds of infosets of 32 actions, reductions take
twice as long."""

LIKE_LEVELS = 32
"""Minimum number of consecutive levels of one shape that are swept by a `scan` instead of one by one.

Without a `scan`, compilation takes 0.1 s per level. For a chain of 300 decisions with one lane, 10 iterations
take 2 s including compilation instead of 39, and each further iteration 20 µs instead of 230. For 32 levels
of one infoset with 64 lanes, compilation takes 0.8 s instead of 5.4, but an iteration 95 µs instead of 51."""

LIKE_ACTIONS = 16
"""Maximum number of actions of a level that is swept by a `scan`: over 16 levels of 1500 actions with 64
lanes, a `scan` saves 1.5 s of compilation, but an iteration takes 16 ms instead of 6."""


class Level(NamedTuple):
    """Position of a level, or of a stack of levels of one shape, in the arrays of its player.

    Attributes:
      first_infoset: its first row in arrays `[I, …]`; traced within a scan over the levels of a stack.
      first_action: its first row in arrays `[Q, …]`; traced like `first_infoset`.
      runs: the infosets of one level, widest first.
      repeats: number of levels in the stack; operations on their infosets apply to all levels at once.
      padded: True if sums are over slots padded to the longest, instead of run by run.
    """

    first_infoset: int | jax.Array
    first_action: int | jax.Array
    runs: tuple[Run, ...]
    repeats: int = 1
    padded: bool = False

    @property
    def num_infosets(self) -> int:
        """Number of infosets of all its levels."""
        return self.repeats * level_infosets(self.runs)

    @property
    def num_actions(self) -> int:
        """Number of actions of all its levels."""
        return self.repeats * sum(slot_counts(self.runs))

    @property
    def widths(self) -> npt.NDArray[np.int64]:
        """`[infosets]` number of actions of each infoset."""
        widths = np.repeat([run.num_actions for run in self.runs], [run.num_infosets for run in self.runs])
        return np.tile(widths, self.repeats)

    def num_choices(self, dtype: DTypeLike) -> jax.Array:
        """`[infosets, 1]` `widths` on the device, computed without a table in the compiled program."""
        parts = [jnp.full((run.num_infosets, 1), run.num_actions, dtype) for run in self.runs]
        return jnp.concatenate(parts * self.repeats)

    @property
    def slots(self) -> list[int]:
        """Number of actions of every slot of every run; a single total for a stack."""
        if self.repeats > 1:
            return [self.num_actions]
        widest = self.runs[0].num_actions
        return [run.num_infosets for slot in range(widest) for run in self.runs if run.num_actions > slot]

    def infosets_of(self, x: jax.Array) -> jax.Array:
        """The level's rows of an array over infosets: `[I, L]` → `[infosets, L]`."""
        return _rows_from(x, self.first_infoset, self.num_infosets)

    def actions_of(self, x: jax.Array) -> jax.Array:
        """The level's rows of an array over actions: `[Q, L]` → `[actions, L]`."""
        return _rows_from(x, self.first_action, self.num_actions)

    def nth(self, number: jax.Array) -> Level:
        """One level of a stack, counted from the top."""
        one_level = self._replace(repeats=1)
        return one_level._replace(
            first_infoset=self.first_infoset + number * one_level.num_infosets,
            first_action=self.first_action + number * one_level.num_actions,
        )

    def sums(self, x: jax.Array) -> jax.Array:
        """Sums over the actions of every infoset, within the level: `[actions, L]` → `[infosets, L]`."""
        return self._each(functools.partial(self._fold, reduce=jnp.sum, combine=jax.lax.add, nothing=0), x)

    def largest(self, x: jax.Array) -> jax.Array:
        """Maxima over the actions of every infoset, within the level: `[actions, L]` → `[infosets, L]`."""
        return self._each(
            functools.partial(self._fold, reduce=jnp.max, combine=jax.lax.max, nothing=-jnp.inf), x
        )

    def slot_rows(self, x: jax.Array) -> list[jax.Array]:
        """Slots of `expand(x)`, which concatenate to `[actions, L]`; a single part for a stack."""
        if self.repeats > 1:
            return [self.expand(x)]
        return self._slots(x)

    def expand(self, x: jax.Array) -> jax.Array:
        """Repeats infoset rows for their actions: `[infosets, L]` → `[actions, L]`."""
        return self._each(lambda rows: jnp.concatenate(self._slots(rows)), x)

    def _each(self, function: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
        """Applies a function of one level's rows to the rows of every level."""
        if self.repeats == 1:
            return function(x)
        by_level = jax.vmap(function)(x.reshape(self.repeats, -1, x.shape[-1]))
        return by_level.reshape(-1, x.shape[-1])

    def _slots(self, x: jax.Array) -> list[jax.Array]:
        parts: list[jax.Array] = []
        for slots, count in self._equal_slots():
            if slots < WIDE:
                parts += [_rows(x, 0, count)] * slots
            else:
                rows = jnp.broadcast_to(_rows(x, 0, count), (slots, count, x.shape[-1]))
                parts.append(rows.reshape(slots * count, -1))
        return parts

    def _equal_slots(self) -> list[tuple[int, int]]:
        """For each group of adjacent slots of equal size, the numbers of slots and of their infosets."""
        return [(len(list(slots)), count) for count, slots in itertools.groupby(slot_counts(self.runs))]

    def _fold(
        self,
        x: jax.Array,
        reduce: Callable[..., jax.Array],
        combine: Callable[[jax.Array, jax.Array], jax.Array],
        nothing: float,
    ) -> jax.Array:
        # Terms of the sums: an array, its first row, and its number of rows, which belong to the first
        # infosets.
        terms: list[tuple[jax.Array, int, int]] = []
        begin = 0
        for slots, count in self._equal_slots():
            end = begin + slots * count
            if slots < WIDE:
                terms += [(x, at, count) for at in range(begin, end, count)]
            else:
                rows = _rows(x, begin, end).reshape(slots, count, -1)
                terms.append((reduce(rows, axis=0), 0, count))
            begin = end
        if self.padded:
            # From the last term, which is the shortest, to the first, so that each is read only where it
            # exists.
            parts = [_rows(array, at, at + count) for array, at, count in terms]
            return functools.reduce(lambda rest, part: _add_first(part, rest, combine, nothing), parts[::-1])
        parts = []
        first = 0
        for run in self.runs:
            last = first + run.num_infosets
            rows = [_rows(array, at + first, at + last) for array, at, count in terms if count >= last]
            parts.append(functools.reduce(combine, rows))
            first = last
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _add_first(
    slot: jax.Array, rest: jax.Array, combine: Callable[[jax.Array, jax.Array], jax.Array], nothing: float
) -> jax.Array:
    """A slot combined with the later slots of its first infosets."""
    missing = ((0, len(slot) - len(rest)), (0, 0))
    return combine(slot, jnp.pad(rest, missing, constant_values=nothing))


def _rows(x: jax.Array, first: int, last: int) -> jax.Array:
    """`x[first:last]`, in half the tracing time; a game has hundreds of slices."""
    return jax.lax.slice_in_dim(x, first, last)


def _rows_from(x: jax.Array, first: int | jax.Array, count: int) -> jax.Array:
    """`x[first : first + count]`; `first` may be traced."""
    if isinstance(first, int):
        return _rows(x, first, first + count)
    return jax.lax.dynamic_slice_in_dim(x, first, count)


Reduce = Callable[[Level, jax.Array], jax.Array]
"""Function that reduces action values of a level: `(level, q[actions, lanes]) → [infosets, lanes]`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Treeplex:
    """One player's decisions on the device.

    Many consecutive narrow levels of one shape form a stack, see `LIKE_LEVELS`; other levels are separate.

    Attributes:
      num_roots: number of sequences at the top.
      runs: the runs of every level, or of one level of a stack; with `num_roots`, `repeats` and `hands`, the
        static shape.
      repeats: number of levels of each stack.
      hands: number of adjacent roots, infosets and sequences that differ only in the player's hand.
      parent: for every level `[infosets]`, the sequence above each infoset, as a row of the level above; for
        a stack `[levels, infosets]`. In hand form, one row per block of hands, with indices of blocks.
      below: for every level the sums over infosets into the sequences of the level above, also by block;
        arrays of a stack have a first axis of levels.
      share: `[Q]` 1 / number of actions of each action's infoset.
      real: `[I]` False for padding.
    """

    num_roots: int = dataclasses.field(metadata={"static": True})
    runs: tuple[tuple[Run, ...], ...] = dataclasses.field(metadata={"static": True})
    repeats: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    hands: int = dataclasses.field(default=1, metadata={"static": True})
    parent: tuple[jax.Array, ...]
    below: tuple[Sums, ...]
    share: jax.Array
    real: jax.Array

    @property
    def num_infosets(self) -> int:
        """Number of infosets, I, including padding."""
        return self.real.shape[0]

    @property
    def num_actions(self) -> int:
        """Number of (infoset, action) pairs, Q."""
        return self.share.shape[0]

    @property
    def num_sequences(self) -> int:
        """Number of sequences, S: roots and actions."""
        return self.num_roots + self.num_actions

    @property
    def slots(self) -> list[int]:
        """Number of actions of every level, slot and run: sizes of the pieces that `core.cfr` may use."""
        return [count for level in self.levels() for count in level.slots]

    def levels(self) -> list[Level]:
        """All levels and stacks, top-down."""
        levels: list[Level] = []
        infoset = action = 0
        slices = sum(run.num_actions for runs in self.runs for run in runs)
        for runs, repeats in zip(self.runs, self.repeats, strict=True):
            padded = slices > MANY_SLICES and len(runs) > 3
            level = Level(infoset, action, runs, repeats, padded)
            levels.append(level)
            infoset, action = infoset + level.num_infosets, action + level.num_actions
        return levels


class _Links(NamedTuple):
    """Links of a level to the level above: `parent` and `below` of `Treeplex`."""

    parent: jax.Array
    below: Sums


def to_device(
    treeplex: HostTreeplex,
    dtype: DTypeLike,
    rounding: Rounding = exact_size,
    platform: str | None = None,
) -> Treeplex:
    """Copies a treeplex to the device, with weights of the given dtype.

    Args:
      treeplex: the decisions.
      dtype: floating-point type of the weights.
      rounding: rounding of sizes.
      platform: platform of the devices that will compute; see `build_sums`.
    """
    hands, treeplex = treeplex.hands, treeplex.one_hand
    links: list[_Links] = []
    above = slice(0, treeplex.num_roots)
    for rows, actions in treeplex.level_slices():
        real = treeplex.infoset[rows] != -1
        parent = np.where(real, treeplex.parent[rows] - above.start, 0)
        below = build_sums(parent, real, above.stop - above.start, dtype, rounding, platform)
        links.append(_Links(jax.device_put(parent.astype(np.int32)), below))
        above = actions
    every_runs = [
        tuple(Run(hands * run.num_infosets, run.num_actions) for run in runs) for runs in treeplex.levels
    ]
    stacks = _find_stacks(every_runs, links)
    stacked = [_stack(links[levels]) for levels in stacks]
    share = (1 / treeplex.num_actions[treeplex.sequence_infoset]).astype(dtype)
    return Treeplex(
        num_roots=hands * treeplex.num_roots,
        runs=tuple(every_runs[levels.start] for levels in stacks),
        repeats=tuple(levels.stop - levels.start for levels in stacks),
        hands=hands,
        parent=tuple(level.parent for level in stacked),
        below=tuple(level.below for level in stacked),
        share=jax.device_put(np.repeat(share, hands)),
        real=jax.device_put(np.repeat(treeplex.infoset != -1, hands)),
    )


def _find_stacks(runs: Sequence[tuple[Run, ...]], links: Sequence[_Links]) -> list[slice]:
    """Groups levels into entries of a `Treeplex`: consecutive narrow levels of one shape form a stack."""
    stacks: list[slice] = []

    def shape(level: int) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(links[level])
        return runs[level], structure, [leaf.shape for leaf in leaves]

    for _, alike in itertools.groupby(range(len(runs)), shape):
        levels = list(alike)
        first, last = levels[0], levels[-1] + 1
        if len(levels) >= LIKE_LEVELS and sum(slot_counts(runs[first])) <= LIKE_ACTIONS:
            stacks.append(slice(first, last))
        else:
            stacks += [slice(level, level + 1) for level in levels]
    return stacks


def _stack(links: Sequence[_Links]) -> _Links:
    """Stacks the arrays of levels along a new first axis; a single level is returned unchanged."""
    if len(links) == 1:
        return links[0]
    return jax.tree.map(lambda *leaves: jax.device_put(np.stack(list(map(np.asarray, leaves)))), *links)


def to_host(treeplex: Treeplex) -> HostTreeplex:
    """The same decisions in NumPy, hand by hand; infosets are identified by position, padding by -1."""
    real = np.asarray(treeplex.real)
    parents, firsts, widths = ([np.zeros(0, np.int64)] for _ in range(3))
    runs: list[tuple[Run, ...]] = []
    above = 0
    next_sequence = treeplex.num_roots
    for parent, level in zip(treeplex.parent, treeplex.levels(), strict=True):
        runs += [level.runs] * level.repeats
        for blocks in np.asarray(parent).reshape(level.repeats, -1):
            rows = (treeplex.hands * blocks[:, None] + np.arange(treeplex.hands)).ravel()
            parents.append(above + rows)
            firsts.append(next_sequence + np.arange(len(rows)))
            above = next_sequence
            next_sequence += level.num_actions // level.repeats
        widths.append(level.widths)
    return HostTreeplex(
        num_roots=treeplex.num_roots,
        levels=tuple(runs),
        parent=np.where(real, np.concatenate(parents), 0),
        infoset=np.where(real, np.arange(len(real)), -1),
        num_actions=np.concatenate(widths),
        first_sequence=np.concatenate(firsts),
    )


def reach(treeplex: Treeplex, strategy: jax.Array, root: jax.Array) -> jax.Array:
    """Computes top-down the player's own reach of every sequence.

    Args:
      treeplex: the player's decisions.
      strategy: `[Q, lanes]` probabilities of the actions.
      root: `[num_roots, lanes]` reach of the roots.

    Returns:
      `[S, lanes]` reach of the sequences.
    """
    chex.assert_shape(strategy, (treeplex.num_actions, None))
    chex.assert_shape(root, (treeplex.num_roots, None))
    parts = [root]
    last = root  # reach of the latest level
    for parent, level in zip(treeplex.parent, treeplex.levels(), strict=True):
        if level.repeats == 1:
            last = level.expand(take_blocks(last, parent, treeplex.hands)) * level.actions_of(strategy)
            parts.append(last)
        else:
            last, stack = _reach_stack(treeplex.hands, level, parent, strategy, last)
            parts.append(stack)
    return jnp.concatenate(parts)


def take_blocks(x: jax.Array, block: jax.Array, size: int) -> jax.Array:
    """Gathers blocks of adjacent rows: `[blocks × size, lanes]` → `[len(block) × size, lanes]`."""
    lanes = x.shape[-1]
    if x.shape[0] == size:  # a single block
        return jnp.broadcast_to(x[None], (len(block), size, lanes)).reshape(-1, lanes)
    return take_rows(x.reshape(-1, size * lanes), block).reshape(-1, lanes)


def sum_blocks(sums: Sums, x: jax.Array, size: int) -> jax.Array:
    """Sums blocks of adjacent rows: `[blocks × size, lanes]` → `[num_rows × size, lanes]`."""
    lanes = x.shape[-1]
    return sums(x.reshape(-1, size * lanes)).reshape(-1, lanes)


def _reach_stack(
    hands: int, level: Level, parent: jax.Array, strategy: jax.Array, above: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The reach of a stack's last level, and of all its levels."""

    def down(above: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        number, parent = step
        one_level = level.nth(number)
        reach = one_level.expand(take_blocks(above, parent, hands)) * one_level.actions_of(strategy)
        return reach, reach

    last, stack = jax.lax.scan(down, above, (jnp.arange(level.repeats), parent))
    return last, stack.reshape(level.num_actions, -1)


def sweep_up(
    treeplex: Treeplex, gradient: jax.Array, reduce: Reduce
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Computes bottom-up the values of actions, infosets and roots.

    Args:
      treeplex: the player's decisions.
      gradient: `[S, lanes]` payoff of each sequence, without that of infosets below it.
      reduce: turns the action values of a level into infoset values.

    Returns:
      Action values `[Q, lanes]`, infoset values `[I, lanes]` and root values `[num_roots, lanes]`.
    """
    chex.assert_shape(gradient, (treeplex.num_sequences, None))
    nothing = jnp.zeros((0, gradient.shape[-1]), gradient.dtype)
    actions, infosets = [nothing], [nothing]
    own = gradient[treeplex.num_roots :]
    carried: jax.Array | None = None  # values that the level below adds to this level's sequences
    for level, below in zip(treeplex.levels()[::-1], treeplex.below[::-1], strict=True):
        if level.repeats == 1:
            q = level.actions_of(own)
            q = q if carried is None else q + carried
            value = reduce(level, q)
            carried = sum_blocks(below, value, treeplex.hands)
        else:
            q, value, carried = _sweep_stack_up(treeplex.hands, level, below, own, carried, reduce)
        actions.append(q)
        infosets.append(value)
    root = gradient[: treeplex.num_roots]
    root = root if carried is None else root + carried
    return jnp.concatenate(actions[::-1]), jnp.concatenate(infosets[::-1]), root


def _sweep_stack_up(
    hands: int, level: Level, below: Sums, own: jax.Array, carried: jax.Array | None, reduce: Reduce
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Values of a stack's actions and infosets, and their sums into the sequences of the level above."""

    def up(carried: jax.Array, step: tuple[jax.Array, Sums]) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        number, below = step
        one_level = level.nth(number)
        q = one_level.actions_of(own) + carried
        value = reduce(one_level, q)
        return sum_blocks(below, value, hands), (q, value)

    lanes = own.shape[-1]
    if carried is None:
        carried = jnp.zeros((level.num_actions // level.repeats, lanes), own.dtype)
    steps = jnp.arange(level.repeats), below
    carried, (q, value) = jax.lax.scan(up, carried, steps, reverse=True)
    return q.reshape(-1, lanes), value.reshape(-1, lanes), carried


def expand_infosets(treeplex: Treeplex, x: jax.Array) -> jax.Array:
    """Repeats infoset rows for their actions: `[I, lanes]` → `[Q, lanes]`."""
    parts = [part for level in treeplex.levels() for part in level.slot_rows(level.infosets_of(x))]
    return jnp.concatenate(parts) if parts else x


def sum_actions(treeplex: Treeplex, x: jax.Array) -> jax.Array:
    """Sums over the actions of every infoset: `[Q, lanes]` → `[I, lanes]`."""
    parts = [level.sums(level.actions_of(x)) for level in treeplex.levels()]
    return jnp.concatenate(parts) if parts else x
