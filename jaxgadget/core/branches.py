"""Games below public chance events, solved slice by slice together with the game above them.

Below a public chance event, such as the deal of a card, the game has the same public tree after every
outcome. `Branches` hold these games as lanes, one for each class of isomorphic outcomes, and are a term of
the payoff of the game above: given both players' reach of the chance events, they update a player's
strategies in all lanes and return the values of the chance events. Lanes are processed in slices: only
regrets and sums of plans are kept for all of them, and strategies and reaches are recomputed where they are
used. Branches may have branches of their own.

Both players have the same hands, in the same order. A hand that an outcome excludes has reach 0 in its lane.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxgadget.core.cfr import normalise
from jaxgadget.core.devices import HOME
from jaxgadget.core.payoff import Payoff
from jaxgadget.core.regret import ZERO_REGRET, ChoiceRule, RegretMatching, match
from jaxgadget.core.rows import Sums, array_bytes, take_rows
from jaxgadget.core.treeplex import Level, Reduce, Treeplex, reach, sum_blocks, sweep_up, take_blocks
from jaxgadget.util.arrays import IntArray
from jaxgadget.util.machine import num_cores
from jaxgadget.util.native import Kernel, call_kernel
from jaxgadget.util.players import replaced

Roots = tuple[jax.Array, jax.Array]
"""Both players' reach `[lanes above, K, H]` of chance events."""


class SlicedPayoff(Protocol):
    """Payoff at the terminal nodes of branches; a pytree."""

    def of_slice(self, held: jax.Array, lane_data: Any) -> Payoff:
        """The payoff in a slice.

        Args:
          held: `[lanes, H]` True for hands that are possible in each lane.
          lane_data: the data of the slice's lanes, see `Branches.lane_data`.
        """
        ...

    def find_kernels(self, branches: Branches, player: int) -> SliceKernels | None:
        """Kernels for the slices below a slice above; None if there are none.

        Args:
          branches: the games, of which this is the payoff.
          player: the player.
        """
        ...


class SliceKernels(NamedTuple):
    """Kernels for the slices below a slice above, for one player.

    Attributes:
      update: function of both players' reach of the chance events, the state, the index of the slice above,
        and the number of the iteration, from 1. Updates the player's strategies; returns values of the chance
        events, `[lanes above, K, H]`, and the new state.
      values: function of the same arguments without the iteration. Returns values as in `Branches.values`,
        both `[lanes above, K, H]`.
    """

    update: Kernel
    values: Kernel


class Compressed(NamedTuple):
    """Numbers in 16 bits with a factor for each row, which has all hands after an action.

    Attributes:
      integers: `[slices, Q, lanes]`.
      scale: `[slices, Q / H, lanes]` factor of each row's integers.
    """

    integers: jax.Array
    scale: jax.Array


Stored = jax.Array | Compressed
"""Numbers `[slices, Q, lanes]`."""


class BranchState(NamedTuple):
    """Regrets and averages in all lanes of branches.

    Attributes:
      regrets: both players' regrets.
      strategy_sum: both players' weighted sums of plans, without the roots.
      below: the state of branches below these; None without any.
    """

    regrets: tuple[Stored, Stored]
    strategy_sum: tuple[Stored, Stored]
    below: BranchState | None

    def without_regrets(self) -> BranchState:
        """The averages alone, which `Branches.values` needs: the regrets may take half of the memory."""
        nothing = jnp.zeros(0)
        below = None if self.below is None else self.below.without_regrets()
        return self._replace(regrets=(nothing, nothing), below=below)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class LaneFloors:
    """Least probabilities of a player's actions in all lanes; lanes with equal ones share a row.

    Attributes:
      rows: `[F, Q]` the distinct floors.
      row: `[slices, lanes]` row of each lane; -1 for lanes without floors.
    """

    rows: jax.Array
    row: jax.Array

    def choice(self, slice_idx: jax.Array) -> ChoiceRule:
        """The choice rule in a slice."""
        row = _get(self.row, slice_idx)
        floor = take_rows(self.rows, jnp.maximum(row, 0))
        return ChoiceRule(floor=jnp.where(row[:, None] >= 0, floor, 0).T)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Branches:
    """Games below K public chance events of a game above, with H hands of each player.

    Attributes:
      hands: number of hands, H.
      compressed: True if the state is kept in 16 bits.
      rule: the regret-matching rule, not predictive; its numbers are arrays.
      bodies: both players' decisions in a branch, with a root for every chance event and hand.
      floors: both players' floors; None for a player without any.
      payoff: the payoff at the terminal nodes of a branch.
      lane_data: data of the payoff by lane, a pytree of arrays `[slices, …]`.
      largest_payoff: for both players the largest absolute payoff of a root within a lane, without the
        probability of its outcomes; rounding of regrets is measured by it.
      held: `[slices, lanes, H]` True for hands that are possible in each lane; all False for padding.
      events: for both players `[K]` the block of sequences above that leads to each chance event.
      sums: for both players the sums over chance events into blocks of sequences above.
      num_slices: number of slices below each slice above; None if it differs.
      first: `[slices above + 1]` first slice below each slice above; the following ones are adjacent.
      above: `[slices]` first lane above, within its slice.
      num_above: number of adjacent lanes above that a slice lies below; its places are divided equally among
        them, in their order.
      chance: `[slices, lanes, M]` probability of each outcome of a lane's class, given a pair of possible
        hands; 0 for padding.
      image: `[slices, lanes, M]` row in `images` for each outcome.
      images: `[P, H]` permutations of hands that map an outcome to its lane's; None if none are merged.
      orbit: `[slices, lanes, H]` the first hand that is isomorphic to each within its lane; None if lanes
        have no symmetries. Gradients are made symmetric, as rounding would make strategies asymmetric.
      below: branches below these; None without any.
    """

    hands: int = dataclasses.field(metadata={"static": True})
    compressed: bool = dataclasses.field(metadata={"static": True})
    rule: RegretMatching
    bodies: tuple[Treeplex, Treeplex]
    floors: tuple[LaneFloors | None, LaneFloors | None]
    payoff: SlicedPayoff
    lane_data: Any
    largest_payoff: tuple[jax.Array, jax.Array]
    held: jax.Array
    events: tuple[jax.Array, jax.Array]
    sums: tuple[Sums, Sums]
    num_slices: int | None = dataclasses.field(metadata={"static": True})
    first: jax.Array
    above: jax.Array
    num_above: int = dataclasses.field(metadata={"static": True})
    chance: jax.Array
    image: jax.Array
    images: jax.Array | None
    orbit: jax.Array | None
    below: Branches | None

    def start(self, dtype: Any) -> BranchState:
        """The state before the first iteration."""
        slices, lanes, _ = self.held.shape

        def nothing(player: int) -> Stored:
            num_actions = self.bodies[player].num_actions
            if not self.compressed:
                return jnp.zeros((slices, num_actions, lanes), dtype)
            return Compressed(
                integers=jnp.zeros((slices, num_actions, lanes), jnp.int16),
                scale=jnp.zeros((slices, num_actions // self.hands, lanes), dtype),
            )

        return BranchState(
            regrets=(nothing(0), nothing(1)),
            strategy_sum=(nothing(0), nothing(1)),
            below=None if self.below is None else self.below.start(dtype),
        )

    def update(
        self,
        player: int,
        reaches: tuple[jax.Array, jax.Array],
        state: BranchState,
        at: int | jax.Array,
        t: jax.Array,
    ) -> tuple[jax.Array, BranchState]:
        """Adds a player's strategies below a slice of the game above to its averages, and updates them.

        Args:
          player: the player.
          reaches: both players' reach `[S, lanes above]` of the sequences above.
          state: the state.
          at: index of the slice above.
          t: number of the iteration, from 1.

        Returns:
          `[K × H, lanes above]` values of the chance events with each of the player's hands, for both
          players' strategies before the update; and the new state.
        """
        kernels = self.payoff.find_kernels(self, player)
        values, state = call_kernel(
            None if kernels is None else kernels.update,
            functools.partial(self._update_slices, player),
            *(self._roots(reaches), state, jnp.asarray(at), t),
        )
        return values.reshape(len(values), -1).T, state

    def _update_slices(
        self, player: int, roots: Roots, state: BranchState, at: jax.Array, t: jax.Array
    ) -> tuple[jax.Array, BranchState]:
        """`SliceKernels.update` by XLA's programs."""
        weight = self.rule.weight(t)
        own = self.bodies[player]

        def visit(slice_idx: jax.Array, roots: tuple[jax.Array, jax.Array], state: BranchState) -> Any:
            regrets = [self._read(x, slice_idx, t.dtype) for x in state.regrets]
            choices = self._choices(slice_idx)
            strategies = [
                match(body, x, self._tolerance(player, x.dtype), choices[player])
                for player, (body, x) in enumerate(zip(self.bodies, regrets, strict=True))
            ]
            below = self._reaches(roots, (strategies[0], strategies[1]))
            gradient, _ = self._payoff(slice_idx).gradient(player, below, None)
            if self.below is not None:
                assert state.below is not None
                events, deeper = self.below.update(player, below, state.below, slice_idx, t)
                gradient, state = gradient + self.below.earned(player, events), state._replace(below=deeper)
            gradient = self._symmetric(slice_idx, gradient)
            choice = choices[player]
            actions, infosets, values = sweep_up(own, gradient, _expected(choice, strategies[player]))
            learned, _ = self.rule.learn(own, choice, regrets[player], (actions, infosets), t)
            total = self._read(state.strategy_sum[player], slice_idx, t.dtype)
            total += weight * below[player][own.num_roots :]
            regrets, sums = (
                replaced(pair, player, self._write(pair[player], slice_idx, new, t))
                for pair, new in ((state.regrets, learned), (state.strategy_sum, total))
            )
            return (values,), state._replace(regrets=regrets, strategy_sum=sums)

        (values,), state = self._each(roots, state, at, visit, 1)
        return values, state

    def values(
        self, player: int, reaches: tuple[jax.Array, jax.Array], state: BranchState, at: int | jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Values of the chance events against the other player's average strategy.

        The first are those of a best response, the second those of the player's own average strategy.
        Arguments and results are as in `update`.
        """
        kernels = self.payoff.find_kernels(self, player)
        best, played = call_kernel(
            None if kernels is None else kernels.values,
            functools.partial(self._values_of_slices, player),
            *(self._roots(reaches), state, jnp.asarray(at)),
        )
        return best.reshape(len(best), -1).T, played.reshape(len(played), -1).T

    def _values_of_slices(
        self, player: int, roots: Roots, state: BranchState, at: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """`SliceKernels.values` by XLA's programs."""

        def visit(slice_idx: jax.Array, roots: tuple[jax.Array, jax.Array], _: None) -> Any:
            choices = self._choices(slice_idx)
            first, second = (
                normalise(body, self._read(total, slice_idx, root.dtype), choice)
                for body, total, root, choice in zip(
                    self.bodies, state.strategy_sum, roots, choices, strict=True
                )
            )
            below = self._reaches(roots, (first, second))
            gradient, _ = self._payoff(slice_idx).gradient(player, below, None)
            best = played = gradient
            if self.below is not None:
                assert state.below is not None
                events = self.below.values(player, below, state.below, slice_idx)
                best, played = (gradient + self.below.earned(player, each) for each in events)
            own, choice, strategy = self.bodies[player], choices[player], (first, second)[player]
            best_values = sweep_up(own, best, choice.best)[2]
            return (best_values, sweep_up(own, played, _expected(choice, strategy))[2]), None

        (best, played), _ = self._each(roots, None, at, visit, 2)
        return best, played

    def earned(self, player: int, events: jax.Array) -> jax.Array:
        """`[S, lanes above]` payoff of the player's sequences above, from the values of the chance events."""
        return sum_blocks(self.sums[player], events, self.hands)

    def num_bytes(self, itemsize: int) -> int:
        """Bytes of the temporary arrays of a slice and those below it, without the state."""
        actions = sum(body.num_actions for body in self.bodies)
        below = 0 if self.below is None else self.below.num_bytes(itemsize)
        arrays = SLICE_ARRAYS + any(floors is not None for floors in self.floors)
        # On a CPU each core has a slice of a single lane.
        at_once = num_cores() if self.held.shape[1] == 1 and HOME.on_cpu else 1
        return below + at_once * arrays * actions * self.held.shape[1] * itemsize

    def _read(self, stored: Stored, slice_idx: jax.Array, dtype: Any) -> jax.Array:
        """The numbers `[Q, lanes]` of a slice."""
        if not isinstance(stored, Compressed):
            return _get(stored, slice_idx).astype(dtype)
        scale = _get(stored.scale, slice_idx).astype(dtype)
        rows = _get(stored.integers, slice_idx).astype(dtype)
        rows = rows.reshape(-1, self.hands, scale.shape[-1])
        return (rows * scale[:, None]).reshape(-1, scale.shape[-1])

    def _write(self, stored: Stored, slice_idx: jax.Array, new: jax.Array, t: jax.Array) -> Stored:
        """Replaces the numbers `[Q, lanes]` of a slice.

        Integers are rounded down or up depending on the hand and the iteration, so that additions of less
        than half a unit are not lost; in the same way for all hands of an orbit.
        """
        if not isinstance(stored, Compressed):
            return _set(stored, slice_idx, new)
        rows = new.reshape(-1, self.hands, new.shape[-1])
        scale = jnp.abs(rows).max(axis=1) / MAX_INTEGER
        hand = jnp.arange(self.hands)[:, None] if self.orbit is None else _get(self.orbit, slice_idx).T
        rounding = find_rounding(hand, jnp.arange(new.shape[-1])[None], t)
        integers = jnp.floor(rows / jnp.where(scale > 0, scale, 1)[:, None] + rounding[None])
        integers = jnp.clip(integers, -MAX_INTEGER, MAX_INTEGER).astype(jnp.int16).reshape(new.shape)
        return Compressed(
            integers=_set(stored.integers, slice_idx, integers), scale=_set(stored.scale, slice_idx, scale)
        )

    def least_regret(self, player: int, dtype: Any) -> jax.Array:
        """Sums of a player's positive regrets up to this count as 0."""
        return (ZERO_REGRET * float(jnp.finfo(dtype).eps) * self.largest_payoff[player]).astype(dtype)

    def _tolerance(self, player: int, dtype: Any) -> jax.Array:
        """`[I, 1]` `least_regret` of every infoset."""
        return jnp.broadcast_to(self.least_regret(player, dtype), (self.bodies[player].num_infosets, 1))

    def _roots(self, reaches: tuple[jax.Array, jax.Array]) -> Roots:
        """Both players' reach of the chance events."""
        lanes_above, num_events = reaches[0].shape[-1], len(self.events[0])
        first, second = (
            take_blocks(x, events, self.hands)
            .reshape(-1, lanes_above)
            .T.reshape(lanes_above, num_events, self.hands)
            for x, events in zip(reaches, self.events, strict=True)
        )
        return first, second

    def _choices(self, slice_idx: jax.Array) -> tuple[ChoiceRule, ChoiceRule]:
        """Both players' choice rules in a slice."""
        first, second = (
            ChoiceRule() if floors is None else floors.choice(slice_idx) for floors in self.floors
        )
        return first, second

    def _payoff(self, slice_idx: jax.Array) -> Payoff:
        """The payoff at terminal nodes in a slice."""
        lane_data = jax.tree.map(lambda x: _get(x, slice_idx), self.lane_data)
        return self.payoff.of_slice(_get(self.held, slice_idx), lane_data)

    def _reaches(
        self, roots: tuple[jax.Array, jax.Array], strategies: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        """Both players' reach `[S, lanes]` of all sequences of a slice."""
        first, second = (
            reach(body, strategy, root)
            for body, strategy, root in zip(self.bodies, strategies, roots, strict=True)
        )
        return first, second

    def _symmetric(self, slice_idx: jax.Array, gradient: jax.Array) -> jax.Array:
        """The gradient `[S, lanes]` of the first hand of each orbit, for all its hands."""
        if self.orbit is None:
            return gradient
        return copy_to_orbits(gradient, _get(self.orbit, slice_idx))

    def _each(
        self,
        roots: Roots,
        state: Any,
        at: jax.Array,
        visit: Callable[[jax.Array, tuple[jax.Array, jax.Array], Any], tuple[tuple[jax.Array, ...], Any]],
        num_values: int,
    ) -> tuple[tuple[jax.Array, ...], Any]:
        """Visits the slices below a slice above.

        Args:
          roots: both players' reach of the chance events.
          state: the state, which `visit` replaces.
          at: index of the slice above.
          visit: function of a slice, both players' reach of its roots and the state; returns values of the
            roots, and the next state.
          num_values: number of arrays of values.

        Returns:
          The values of the chance events, `[lanes above, K, H]`, and the state.
        """
        dtype, nothing = roots[0].dtype, jnp.zeros_like(roots[0])

        def advance(slice_idx: jax.Array, carry: Any) -> Any:
            totals, state = carry
            above = _get(self.above, slice_idx)
            first, second = (self._roots_of_lanes(slice_idx, self._above(x, above)) for x in roots)
            values, state = visit(slice_idx, (first, second), state)
            totals = tuple(
                jax.lax.dynamic_update_slice_in_dim(
                    total,
                    self._above(total, above) + self._sum_outcomes(slice_idx, x).astype(dtype),
                    above,
                    0,
                )
                for total, x in zip(totals, values, strict=True)
            )
            return totals, state

        first, start = self.first[at], ((nothing,) * num_values, state)
        if self.num_slices is None:
            return jax.lax.fori_loop(first, self.first[at + 1], advance, start)
        return jax.lax.fori_loop(0, self.num_slices, lambda nth, carry: advance(first + nth, carry), start)

    def _above(self, x: jax.Array, above: jax.Array) -> jax.Array:
        """Numbers of the lanes above a slice: `[lanes above, K, H]` → `[A, K, H]`."""
        return jax.lax.dynamic_slice_in_dim(x, above, self.num_above)

    def _roots_of_lanes(self, slice_idx: jax.Array, roots: jax.Array) -> jax.Array:
        """Reach of a slice's roots, 0 for impossible hands: `[A, K, H]` → `[K × H, lanes]`."""
        held = _get(self.held, slice_idx).reshape(self.num_above, -1, self.hands).transpose(2, 0, 1)
        by_lane = roots.transpose(1, 2, 0)[..., None] * held[None].astype(roots.dtype)
        return by_lane.reshape(-1, self.held.shape[1])

    def _sum_outcomes(self, slice_idx: jax.Array, values: jax.Array) -> jax.Array:
        """Sum over all outcomes of a slice's lanes: `[K × H, lanes]` → `[A, K, H]`."""
        chance = _get(self.chance, slice_idx).astype(values.dtype)
        by_lane = values.reshape(-1, self.hands, values.shape[-1])
        if self.images is None:
            weighted = by_lane * chance[:, 0][None, None]
            return weighted.reshape(*by_lane.shape[:2], self.num_above, -1).sum(axis=-1).transpose(2, 0, 1)
        image = take_rows(self.images, _get(self.image, slice_idx))  # [lanes, M, H]
        of_lanes = by_lane.transpose(2, 0, 1)[:, None]
        moved = jnp.take_along_axis(of_lanes, image[:, :, None], axis=-1, mode="promise_in_bounds")
        weighted = moved * chance[..., None, None]
        return weighted.reshape(self.num_above, -1, *weighted.shape[-2:]).sum(axis=1)


SLICE_ARRAYS = 8
"""Temporary arrays over the actions of a slice."""

MAX_INTEGER = (1 << 15) - 1
"""Largest integer of `Compressed`."""

GOLDEN, SILVER = (5**0.5 - 1) / 2, 2**0.5 - 1
"""Multiples of these, modulo 1, are spread evenly."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class BranchedPayoff:
    """`NestedPayoff` of a game in hand form with branches below it; a single lane.

    Attributes:
      ends: the payoff at the game's own terminal nodes.
      branches: the games below.
      bounds: a payoff that bounds the absolute payoffs, with the chance events as terminal nodes.
      zero_sum: True if one player's payoff is minus the other's, here and in the branches.
      orbit: as in `Branches`, `[lanes, H]`.
    """

    ends: Payoff
    branches: Branches
    bounds: Payoff
    zero_sum: bool = dataclasses.field(metadata={"static": True})
    orbit: jax.Array | None

    def start(self, dtype: Any) -> tuple[jax.Array, BranchState]:
        """The number of completed updates, two in each iteration, and the state of the branches."""
        return jnp.zeros((), jnp.int32), self.branches.start(dtype)

    def gradient(
        self, player: int, reach: tuple[jax.Array, jax.Array], state: tuple[jax.Array, BranchState]
    ) -> tuple[jax.Array, tuple[jax.Array, BranchState]]:
        """Payoff gradient of a player; the state has the player's updated strategies in the branches."""
        updates, branch_state = state
        t = (updates // 2 + 1).astype(reach[0].dtype)
        earned, _ = self.ends.gradient(player, reach, None)
        events, branch_state = self.branches.update(player, reach, branch_state, 0, t)
        gradient = earned + self.branches.earned(player, events)
        if self.orbit is not None:
            gradient = copy_to_orbits(gradient, self.orbit)
        return gradient, (updates + 1, branch_state)

    def values(
        self, player: int, reach: tuple[jax.Array, jax.Array], state: tuple[jax.Array, BranchState]
    ) -> tuple[jax.Array, jax.Array]:
        """Gradients if the player best-responds in the branches, and if it follows its average there."""
        gradient, _ = self.ends.gradient(player, reach, None)
        best, played = (
            gradient + self.branches.earned(player, events)
            for events in self.branches.values(player, reach, state[1], 0)
        )
        return best, played

    def absolute(self) -> Payoff:
        """The payoff of upper bounds on absolute values."""
        return self.bounds

    def num_bytes(self) -> tuple[int, int]:
        """Bytes of the games, and of temporary arrays; the state is counted by `core.memory`."""
        shared, lane = self.ends.num_bytes()
        itemsize = np.dtype(self.branches.chance.dtype).itemsize
        return shared + array_bytes(self.branches), lane + self.branches.num_bytes(itemsize)

    def take_lanes(self, lanes: IntArray) -> BranchedPayoff:
        """Itself, as there is a single lane."""
        return self


def find_rounding(hand: jax.Array, lane: jax.Array, t: jax.Array) -> jax.Array:
    """Numbers in [0, 1), spread evenly, that are added in iteration `t` before numbers are rounded down."""
    place = hand.astype(t.dtype) + lane.astype(t.dtype)
    return (GOLDEN * place + SILVER * t) % 1


def copy_to_orbits(gradient: jax.Array, orbit: jax.Array) -> jax.Array:
    """Copies the numbers of the first hand of each orbit to all its hands: `[S, lanes]`, by `[lanes, H]`."""
    lanes, hands = orbit.shape
    by_lane = gradient.reshape(-1, hands, lanes)
    return jnp.take_along_axis(by_lane, orbit.T[None], axis=1, mode="promise_in_bounds").reshape(-1, lanes)


def _expected(choice: ChoiceRule, strategy: jax.Array) -> Reduce:
    """Values of infosets under a strategy."""

    def expected(level: Level, q: jax.Array) -> jax.Array:
        return choice.expected(level, level.actions_of(strategy), q)

    return expected


def _get(x: jax.Array, index: jax.Array) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(x, index, keepdims=False)


def _set(x: jax.Array, index: jax.Array, new: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_index_in_dim(x, new, index, 0)
