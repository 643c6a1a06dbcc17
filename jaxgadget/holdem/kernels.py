"""Kernels of hold'em spots for CPUs, which XLA's programs call.

XLA compares hands at a showdown by products of matrices, and passes over all numbers of a game once for each
operation. The kernels compare hands in one pass in the order of strength, and update a game while it is in a
core's cache: on one core an iteration takes a quarter to a third of the time. `pay` serves all loops over
rivers, `iterate` a single river, `RiversBelow` those of a turn or flop. Where they do not apply
(predictive rules and several rivers beyond `pay`, merged hands, whole trees of turns, other devices), XLA's
programs compute the same.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxgadget.core.branches import Branches, BranchState, LaneFloors, Roots, find_rounding
from jaxgadget.core.host import slot_counts
from jaxgadget.core.regret import ChoiceRule, RegretMatching, Rule
from jaxgadget.core.treeplex import Treeplex
from jaxgadget.util.native import Native
from jaxgadget.util.players import replaced

NAMES = ("jaxgadget_pay", "jaxgadget_iterate", "jaxgadget_update", "jaxgadget_evaluate")
"""Functions of the C++ file."""

KERNELS = Native(pathlib.Path(__file__).with_name("kernels.cpp"), NAMES)
"""The compiled functions."""

BATCHING = "sequential"
"""`vmap_method` of the functions: `jax.vmap` calls them once for each element of a batch."""


class Board(NamedTuple):
    """The hands on a board, or on the boards of all lanes or slices.

    Attributes:
      cards: `[H, 2]` cards of each hand, of lanes `[lanes, H, 2]`.
      group: `[H]`, `[lanes, H]` or `[slices, 1, H]` groups of equal strength, ascending.
      held: `[H]`, `[lanes, H]` or `[slices, 1, H]` True for hands that are possible.
    """

    cards: jax.Array
    group: jax.Array
    held: jax.Array

    def operands(self) -> list[jax.Array]:
        """The operands of a kernel."""
        return [self.cards.astype(jnp.int32), self.group.astype(jnp.int16), self.held]


class Ends(NamedTuple):
    """Terminal nodes, for one player.

    Attributes:
      blocks: `[T, 2]` blocks of sequences of the player and of the other.
      factors: `[lanes, T, 2]` factors of the payoff of showdowns, and of pairs of hands with no common card,
        in the player's utility.
    """

    blocks: jax.Array
    factors: jax.Array


class LoopState(NamedTuple):
    """Both players' state of a loop: regrets and strategies `[Q]`, plans and sums of plans `[S]`."""

    regrets: tuple[jax.Array, jax.Array]
    strategies: tuple[jax.Array, jax.Array]
    plans: tuple[jax.Array, jax.Array]
    sums: tuple[jax.Array, jax.Array]


def applies(rule: Rule, choices: Sequence[ChoiceRule]) -> bool:
    """True if the kernels know a rule and both players' choice rules."""
    known = all(type(choice) is ChoiceRule and choice.legal is None for choice in choices)
    return known and type(rule) is RegretMatching and not rule.predictive


def pay(board: Board, ends: Ends, reach: jax.Array, num_sequences: int) -> jax.Array:
    """`[num_sequences, lanes]` payoff gradient of a player, given the other's reach `[S, lanes]`.

    The board's arrays and the ends' factors have a leading axis of lanes; that of the board may have size 1.
    """
    result = jax.ShapeDtypeStruct((num_sequences, reach.shape[1]), reach.dtype)
    blocks, factors = ends.blocks.astype(jnp.int32), ends.factors.astype(reach.dtype)
    return jax.ffi.ffi_call("jaxgadget_pay", result, vmap_method=BATCHING)(
        blocks, factors, *board.operands(), reach
    )


def iterate(
    board: Board,
    ends: Sequence[Ends],
    bodies: Sequence[Treeplex],
    choices: Sequence[ChoiceRule],
    rule: RegretMatching,
    tolerances: Sequence[jax.Array],
    scales: Sequence[jax.Array],
    state: LoopState,
    iterations: tuple[jax.Array, jax.Array],
    weight: jax.Array,
) -> LoopState:
    """Iterates as `core.cfr.step` does; player 0 updates first.

    Args:
      board: the hands.
      ends: the terminal nodes, for both players.
      bodies: both players' decisions, with one root for each hand.
      choices: both players' choice rules.
      rule: the regret-matching rule, not predictive.
      tolerances: for both players `[I]` sums of positive regrets that count as 0.
      scales: for both players `[H]` factor from the plan's reach to that of the payoff.
      state: the state.
      iterations: number of completed iterations, and of those after which to stop.
      weight: factor of the weights with which plans are averaged.
    """
    dtype = state.sums[0].dtype
    numbers = (rule.plus, rule.positive_discount, rule.negative_discount, rule.averaging, weight)
    operands = [
        *board.operands(),
        jnp.stack([jnp.asarray(count, jnp.int32) for count in iterations]),
        _numbers(numbers, dtype),
    ]
    operands += [*scales, *tolerances]
    for body, choice, own in zip(bodies, choices, ends, strict=True):
        floor = choice.floor
        floors = None if floor is None else LaneFloors(rows=floor.T, row=jnp.zeros((1, 1), jnp.int32))
        operands += _of_player(body, floors, own, dtype)
    arrays, structure = jax.tree.flatten(state)
    results = jax.ffi.ffi_call(
        "jaxgadget_iterate",
        _shapes(arrays),
        vmap_method=BATCHING,
        input_output_aliases={len(operands) + i: i for i in range(len(arrays))},
    )(*operands, *arrays)
    return jax.tree.unflatten(structure, results)


class RiversBelow(NamedTuple):
    """Kernels for the rivers below a turn or flop; see `core.branches.SliceKernels`.

    Attributes:
      branches: the games, without others below them and with a single lane in each slice.
      player: the player.
      describe: function that returns the boards of all slices, and the terminal nodes for both players.
    """

    branches: Branches
    player: int
    describe: Callable[[], tuple[Board, tuple[Ends, Ends]]]

    def update(
        self, roots: Roots, state: BranchState, at: jax.Array, t: jax.Array
    ) -> tuple[jax.Array, BranchState]:
        """Updates the player's strategies as `core.branches` does."""
        branches, player, other, dtype = self.branches, self.player, 1 - self.player, t.dtype
        operands = self._operands(roots, at)
        tolerances = [branches.least_regret(each, dtype) for each in (player, other)]
        numbers = branches.rule.weight(t), *branches.rule.kept(t), *tolerances
        rounding = jnp.zeros(0, dtype)
        if branches.compressed:
            rounding = find_rounding(jnp.arange(branches.hands), jnp.zeros(1), t)
        operands += [_numbers(numbers, dtype), rounding]
        updated, structure = jax.tree.flatten((state.regrets[player], state.strategy_sum[player]))
        first = len(operands)
        total, *results = jax.ffi.ffi_call(
            "jaxgadget_update",
            _shapes([roots[player], *updated]),
            vmap_method=BATCHING,
            input_output_aliases={first + i: 1 + i for i in range(len(updated))},
        )(*operands, *updated, *jax.tree.leaves(state.regrets[other]))
        regrets, sums = jax.tree.unflatten(structure, results)
        return total, state._replace(
            regrets=replaced(state.regrets, player, regrets),
            strategy_sum=replaced(state.strategy_sum, player, sums),
        )

    def values(self, roots: Roots, state: BranchState, at: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Values for a best response, and for the average strategy."""
        own = roots[self.player]
        sums = jax.tree.leaves((state.strategy_sum[self.player], state.strategy_sum[1 - self.player]))
        best, played = jax.ffi.ffi_call("jaxgadget_evaluate", _shapes([own] * 2), vmap_method=BATCHING)(
            *self._operands(roots, at), *sums
        )
        return best, played

    def _operands(self, roots: Roots, at: jax.Array) -> list[jax.Array]:
        """Operands that describe the slices, and both players' games."""
        branches, dtype = self.branches, roots[0].dtype
        board, ends = self.describe()
        hands = jnp.arange(branches.hands, dtype=jnp.int32)[None]
        operands = [
            *board.operands(),
            jnp.stack([branches.first[at], branches.first[at + 1]]),
            branches.above,
            branches.chance.astype(dtype),
            branches.image,
            hands if branches.images is None else branches.images,
            roots[self.player],
            roots[1 - self.player],
        ]
        for each in (self.player, 1 - self.player):
            operands += _of_player(branches.bodies[each], branches.floors[each], ends[each], dtype)
        return operands


def _of_player(body: Treeplex, floors: LaneFloors | None, ends: Ends, dtype: jnp.dtype) -> list[jax.Array]:
    """Operands that describe a player's game; floors have one lane in a slice."""
    if floors is None:
        floors = LaneFloors(rows=jnp.zeros((0, 0)), row=jnp.zeros((0, 1), jnp.int32))
    return [
        _decisions(body),
        floors.rows.astype(dtype),
        floors.row,
        ends.blocks.astype(jnp.int32),
        ends.factors.astype(dtype),
    ]


def _decisions(body: Treeplex) -> jax.Array:
    """`[I, 2 + A]` rows of the public infosets: block above, number of actions, blocks after the actions."""
    hands, runs = body.hands, [run for level in body.runs for run in level]
    widest = max((run.num_actions for run in runs), default=0)
    first_above, first = 0, body.num_roots // hands
    rows: list[jax.Array] = [jnp.zeros((0, 2 + widest), jnp.int32)]
    for parent, level, repeats in zip(body.parent, body.runs, body.repeats, strict=True):
        counts = [count // hands for count in slot_counts(level)]
        widths = np.repeat([run.num_actions for run in level], [run.num_infosets // hands for run in level])
        after = np.full((len(widths), widest), -1)
        for slot, (count, before) in enumerate(zip(counts, np.cumsum([0, *counts[:-1]]), strict=True)):
            after[:count, slot] = before + np.arange(count)
        for above in parent.reshape(repeats, -1):
            own = np.concatenate([widths[:, None], np.where(after < 0, -1, first + after)], axis=1)
            columns = [(first_above + above)[:, None].astype(jnp.int32), jnp.asarray(own, jnp.int32)]
            rows.append(jnp.concatenate(columns, axis=1))
            first_above, first = first, first + sum(counts)
    return jnp.concatenate(rows)


def _numbers(numbers: Sequence[float | jax.Array], dtype: DTypeLike) -> jax.Array:
    return jnp.stack([jnp.asarray(number, dtype) for number in numbers])


def _shapes(arrays: Sequence[jax.Array]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]
